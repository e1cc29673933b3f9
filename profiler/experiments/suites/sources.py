"""Where suites are, where what they need is kept, and Debian's source archives.

Archives are fetched with apt-get and unpacked; their checksums are in the suite files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from importlib import resources
from pathlib import Path

from simprof.profiler.experiments.suites.suite import Package
from simprof.profiler.experiments.suites.toolchain import BuildError, run
from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.scratch import scratch_directory
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


# apt-get works with a source list and state of its own below the cache: the system's settings are
# neither used nor touched, and root is not needed.
SOURCE_LIST = (
    "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian bookworm main\n"
)


def fetched_archive(package: Package, cache: Path) -> Path:
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
    if file_sha256(path) != package.sha256:
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
