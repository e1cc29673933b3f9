"""Sources of Debian packages: fetched with apt-get, checked, unpacked.

apt-get works with a source list and state of its own below the cache: the system's settings are
neither used nor touched, and root is not needed. Only upstream archives are fetched; their
checksums are in the suite files.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from pathlib import Path

from simprof.profiler.experiments.suites.suite import Package
from simprof.profiler.experiments.suites.toolchain import BuildError, run
from simprof.profiler.profiles.scratch import scratch_directory

SOURCE_LIST = (
    "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian bookworm main\n"
)


def archive(package: Package, cache: Path) -> Path:
    """Return the package's archive, fetched if the cache lacks it.

    Raises
    ------
    BuildError
        If it cannot be fetched, or is not the one whose checksum is recorded.
    """
    directory = cache / "archives"
    path = directory / package.archive
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with scratch_directory("fetch-", cache) as scratch:
            _download(package, cache, scratch)
            for fetched in scratch.iterdir():  # a package may have several archives
                fetched.replace(directory / fetched.name)
    if not path.exists():
        raise BuildError(f"Debian no longer has {package.archive}: update the suite's packages")
    if digest(path) != package.sha256:
        raise BuildError(f"{path}: its sha256 is not {package.sha256}: remove it and try again")
    return path


def _download(package: Package, cache: Path, directory: Path) -> None:
    """Fetch a package's archives into `directory`, which may hold parts of them meanwhile."""
    wanted = ("source", "--download-only", "--tar-only", package.name)
    try:
        _apt(cache, directory, *wanted)
    except BuildError:
        # No lists yet, or they are old.
        _apt(cache, directory, "update")
        _apt(cache, directory, *wanted)


def _apt(cache: Path, directory: Path, *arguments: str) -> None:
    """Run apt-get in a directory, with all its state below the cache."""
    home = cache / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / "sources.list").write_text(SOURCE_LIST)
    options = (
        f"Dir::Etc::sourcelist={home}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={home}/lists",
        f"Dir::Cache={home}/cache",
        "APT::Sandbox::User=",
        "Acquire::Languages=none",
        "Acquire::Retries=3",
        "APT::Update::Error-Mode=any",  # a list that cannot be fetched is an error
    )
    settings = [word for option in options for word in ("-o", option)]
    run(["apt-get", "-q", *settings, *arguments], directory)


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(path: Path, target: Path, directory: str) -> None:
    """Unpack the archive at `path`, which holds one directory, as `target`.

    Raises
    ------
    BuildError
        If it cannot be unpacked, or holds something else than `directory`.
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
