"""Where suites are, where what they need is kept, and Debian's source archives.

Upstream archives are fetched from Debian and unpacked. Their checksums are in the suite files: what
is fetched is compared with them wherever it comes from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from simprof.profiler.experiments.suites.suite import Package
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.simulator.errors import UsageError

# The directory that holds the packages: the checkout, or where a wheel was installed.
CHECKOUT = Path(__file__).resolve().parents[3]


def suites_directory() -> Path:
    """Return the directory of the suites that come with simprof.

    In a checkout it is `fixtures/suites`. A wheel carries it as package data, together with the
    programs that the suites refer to, in the same places relative to each other.

    Raises UsageError if this simprof has neither.
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


# Where source packages are fetched: the second is asked for what the first has not.
ARCHIVES = (
    "http://deb.debian.org/debian",
    # Debian's archive as it was on a day: it keeps what the first no longer has.
    "http://snapshot.debian.org/archive/debian/20250520T000000Z",
)
PATIENCE = 30.0  # Seconds without an answer after which a place is given up


def fetched_archive(package: Package, cache: Path) -> Path:
    """Return the package's archive, fetched if the cache lacks it.

    Raises BuildError if it cannot be fetched, or is not the one whose checksum is recorded.
    """
    path = cache / "archives" / package.archive
    if path.exists():
        if file_sha256(path) != package.sha256:
            raise BuildError(f"{path}: its sha256 is not {package.sha256}: remove it and try again")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    with scratch_directory("fetch-", cache) as scratch:
        for place in ARCHIVES:
            fetched = scratch / package.archive
            try:
                address = f"{place}/{_pool(package)}"
                with urlopen(address, timeout=PATIENCE) as answer, fetched.open("wb") as file:
                    shutil.copyfileobj(answer, file)
            except (OSError, HTTPException) as error:  # refused, cut, or not there
                reasons.append(f"{place}: {' '.join(str(error).split())}")
                continue
            if (found := file_sha256(fetched)) == package.sha256:
                fetched.replace(path)
                return path
            reasons.append(f"{place}: its sha256 is {found}, not {package.sha256}")
    raise BuildError(f"{package.archive} cannot be fetched ({'; '.join(reasons)})")


def _pool(package: Package) -> str:
    """Return where a package's archive is in any copy of Debian."""
    shelf = package.name[: 4 if package.name.startswith("lib") else 1]
    return quote(f"pool/main/{shelf}/{package.name}/{package.archive}")


def unpack(path: Path, target: Path, directory: str) -> None:
    """Unpack the archive at `path`, which holds one directory, as `target`.

    Raises BuildError if it cannot be unpacked, or holds something else than `directory`.
    """
    scratch = target.with_name(f"{target.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        with tarfile.open(path) as tar:
            tar.extractall(scratch, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise BuildError(f"{path} cannot be unpacked: {error}") from None
    names = sorted(each.name for each in scratch.iterdir())
    if names != [directory]:
        raise BuildError(f"{path} holds {', '.join(names)[:100]}, not {directory}: see the suite")
    (scratch / directory).replace(target)
    scratch.rmdir()
