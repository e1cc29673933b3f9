"""Where suites are, and where what they need is kept."""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path

from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.simulator.errors import UsageError

CHECKOUT = Path(__file__).resolve().parents[3]
"""The directory that holds the packages: the checkout, or where a wheel was installed."""


def suites_directory() -> Path:
    """Return the directory of the suites that come with simprof.

    In a checkout it is `fixtures/suites`. A wheel carries it as package data, together with the
    programs that the suites refer to, in the same places relative to each other.

    Raises
    ------
    UsageError
        If this simprof has neither.
    """
    directories = (CHECKOUT / "fixtures" / "suites", _packaged() / "suites")
    for directory in directories:
        if directory.is_dir():
            return directory
    raise UsageError(
        f"{directories[-1]} is missing: suites come with simprof, install it again "
        "(pip install --force-reinstall simprof)"
    )


def is_shipped(path: Path) -> bool:
    """Whether a suite's file is one that comes with simprof."""
    return path.resolve().parent == suites_directory().resolve()


def leads_out(name: str, base: Path) -> bool:
    """Whether a path, taken from `base`, is not below it: absolute, with `..`, or by a link."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return True
    return not (base / path).resolve().is_relative_to(base.resolve())


def _packaged() -> Path:
    """Return where a wheel puts what lies in `fixtures` in a checkout."""
    return Path(str(resources.files("simprof.profiler") / "data"))


def suite_cache() -> Path:
    """Return the directory of fetched sources, built programs and generated inputs."""
    return own_cache_directory() / "suites"


def input_directory(suite_file: Path, benchmark: str, name: str) -> Path:
    """Return the directory of one input's files; suite files of one name elsewhere have others."""
    directory = suite_file.parent.resolve()
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return suite_cache() / "inputs" / f"{suite_file.stem}-{mark}" / benchmark / name
