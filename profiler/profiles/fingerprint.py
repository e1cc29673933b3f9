"""Digests: of a file, and of simprof's code, which changes when a source or a library does."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from simprof.simulator.errors import UsageError

_PACKAGES = ("profiler", "simulator")
# Those that read, write or make something that is kept.
_LIBRARIES = ("numpy", "unicorn")
_DIGEST = 4


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def given_file_sha256(path: Path) -> str:
    """Return the same of a file that the user has named; raises UsageError if it cannot be read."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def known_sha256(path: Path | None) -> str | None:
    """Return the SHA-256 of a file, or /dev/null; None of what is none, or cannot be read."""
    if path is None:
        return None
    try:
        status = path.stat()
        # Reading a pipe would take from its reader.
        if not stat.S_ISREG(status.st_mode) and not path.samefile(os.devnull):
            return None
        return _unchanged_sha256(path, status.st_size, status.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _unchanged_sha256(path: Path, _size: int, _time: int) -> str:
    return file_sha256(path)


@cache
def fingerprint() -> str:
    """Return what changes when simprof's code does, or what reads and writes its values."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=_DIGEST)
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        for line in sorted(_sources(str(root / package))):
            digest.update(line.encode())
    for library in _LIBRARIES:
        digest.update(_library(library).encode())
    return digest.hexdigest()


def _sources(directory: str) -> Iterator[str]:
    """Yield a line on each source file of a package."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield _line(entry.path, entry.stat())
            elif entry.is_dir() and not entry.name.startswith((".", "__")):
                yield from _sources(entry.path)


def _library(name: str) -> str:
    """Return a line on a library, without importing it: its version is in files beside this one."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return f"no {name}\n"
    path = Path(found.origin)
    beside = sorted(path.parent.glob("*version*.py"))
    return "".join(_line(str(each), each.stat()) for each in (path, *beside))


def _line(path: str, status: os.stat_result) -> str:
    return f"{path} {status.st_size} {status.st_mtime_ns}\n"
