"""Where suites are, and where what they need is kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from simulator.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
"""The checkout that simprof runs from."""


def suites_directory() -> Path:
    """Return the directory of the committed suites.

    Raises
    ------
    UsageError
        If simprof was installed without them.
    """
    directory = ROOT / "suites"
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is missing: suites come with simprof's repository, "
            "install simprof from there (pip install --editable .)"
        )
    return directory


def cache_directory() -> Path:
    """Return simprof's cache: `simprof` below $XDG_CACHE_HOME, which is ~/.cache by default."""
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "simprof"


def suite_cache() -> Path:
    """Return the directory of fetched sources, built programs and generated inputs."""
    return cache_directory() / "suites"


def input_directory(suite_file: Path, benchmark: str, name: str) -> Path:
    """Return the directory of one input's files; suite files of one name elsewhere have others."""
    directory = suite_file.parent.resolve()
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return suite_cache() / "inputs" / f"{suite_file.stem}-{mark}" / benchmark / name
