"""Files of a cache: each is whole or not there, and those used longest ago make room for others.

Any number of processes may use a cache at the same time, and be killed: a file gets its name when
it is complete (`output.replace`), begins with a digest of the rest, and is removed where that does
not hold. Nothing here fails because of a cache: what cannot be read is not there, and what cannot
be written is not kept.

What is kept is believed. So a directory, and a file in it, is used only if it belongs to the user
and nobody else may write it; otherwise it is left alone, and one line says so.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from simprof.profiler.profiles.output import replace
from simprof.simulator.errors import UsageError

LIMIT = 512 << 20  # Bytes of a cache's files
_DIGEST = 16
# Seconds after which nobody writes a file any more that has no name yet but a passing one.
_STALE = 3600.0


# Environment variable that has simprof neither use nor keep what is learnt of binaries.
VARIABLE = "SIMPROF_NO_CACHE"
_FALSE = frozenset({"", "0", "false", "f", "no", "n", "off"})


def is_wanted() -> bool:
    """Whether the environment lets what is learnt of binaries be used and kept."""
    return os.environ.get(VARIABLE, "").strip().lower() in _FALSE


def cache_directory() -> Path:
    """Return simprof's cache: `simprof` below $XDG_CACHE_HOME, which is ~/.cache by default."""
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    chosen = os.environ.get("XDG_CACHE_HOME")
    is_unknown = not chosen and not home.startswith("/")  # a user whom the system does not know
    return temporary() if is_unknown else Path(chosen or home) / "simprof"


def own_cache_directory() -> Path:
    """Return simprof's cache, made if it can be; UsageError if it is there and left alone."""
    path = cache_directory()
    with suppress(OSError):
        make_directory(path)
        if not is_private(path.stat()):
            raise UsageError(_strange(path))
    return path


def temporary() -> Path:
    """Return the user's directory among temporary files, for what has no other place."""
    return Path(os.environ.get("TMPDIR") or "/tmp") / f"simprof-{os.geteuid()}"


def binaries() -> CacheFiles:
    """Return the cache of what is known of binaries."""
    return CacheFiles(cache_directory() / "binaries")


class CacheEntry(Struct, frozen=True):
    """A file of a cache: its name, its bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    used: float


class CacheFiles:
    """The files in a directory of a cache, which is made when the first file is written."""

    def __init__(
        self,
        directory: Path,
        limit: int = LIMIT,  # Bytes that all files may take
        *,
        owner: int | None = None,  # User whose files are used besides one's own; None: nobody's.
        # Permissions of the directory, where it is made here; files have those that files can have.
        mode: int = 0o700,
    ) -> None:
        self.directory, self._limit, self._owner, self._mode = directory, limit, owner, mode
        # Bytes that may be written before room has to be made again: a look at thousands of files
        # takes a tenth of a second. Of a full directory that is a little more than the limit.
        self._room = 0

    def read(self, name: str) -> bytes | None:
        """Return what is kept under a name, None if nothing is."""
        with self._opened() as place:
            data = None
            if place is not None:
                with suppress(OSError):
                    data = self._content(name, place)
            if data is None:
                return None
            content = data[_DIGEST:]
            is_whole = data[:_DIGEST] == _digest(content)
            with suppress(OSError):
                if is_whole:
                    os.utime(name, dir_fd=place)
                else:
                    os.unlink(name, dir_fd=place)
            return content if is_whole else None

    def write(self, name: str, content: bytes) -> None:
        """Keep something under a name."""
        with suppress(OSError):
            make_directory(self.directory, self._mode)
            with self._opened() as place:
                if place is None:
                    return
            replace(self.directory / name, _digest(content) + content, mode=self._mode & 0o666)
            self._room -= _DIGEST + len(content)
            if self._room < 0:
                self._make_room()

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Open the directory; its descriptor is None where it is not there or left alone."""
        try:
            place = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            yield None
            return
        try:
            trusted = is_private(os.fstat(place), self._owner)
            if not trusted:
                leave_alone(self.directory)
            yield place if trusted else None
        finally:
            os.close(place)

    def _content(self, name: str, place: int) -> bytes | None:
        """Return the bytes of a file in the open directory, None if it is left alone."""
        # Not blocking: it may be a pipe, which somebody else has put there.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=place)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not is_private(status, self._owner):
                leave_alone(self.directory / name, self.directory)
                return None
            return file.read()

    def entries(self) -> list[CacheEntry]:
        """Return all files, those used last at first."""
        found = []
        with self._opened() as place, suppress(OSError):
            for each in [] if place is None else os.scandir(place):
                with suppress(OSError):
                    status = each.stat()
                    found.append(CacheEntry(each.name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.name))

    def _make_room(self) -> None:
        """Remove what was used longest ago, and passing names that a kill has left."""
        total, surplus, stale = 0, [], time.time() - _STALE
        for entry in self.entries():
            total += entry.size
            if total > self._limit or (entry.name.startswith(".") and entry.used < stale):
                surplus.append(entry)
        self._remove(surplus)
        self._room = max(self._limit - total, self._limit // 16)

    def _remove(self, entries: list[CacheEntry]) -> None:
        with self._opened() as place:
            for entry in [] if place is None else entries:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=place)


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make a directory that is not there, and those above it, for the user alone, or OSError."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with suppress(FileExistsError):  # another process has made it
        path.mkdir(mode)
        path.chmod(mode)  # whatever the umask


def is_private(status: os.stat_result, owner: int | None = None) -> bool:
    """Whether a file or directory belongs to the user, or to `owner`, and no other may write it."""
    is_own = status.st_uid in (os.geteuid(), owner)
    return is_own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


_left_alone: set[Path] = set()


def leave_alone(path: Path, directory: Path | None = None) -> None:
    """Say on stderr that something in a cache is not used, and why; once for each directory."""
    if (directory or path) in _left_alone:
        return
    _left_alone.add(directory or path)
    warn(_strange(path))


def _strange(path: Path) -> str:
    return (
        f"{path} is left alone: it does not belong to you, or others may write it: `chmod go-w` "
        "it, remove it, or name another directory in XDG_CACHE_HOME"
    )


def warn(text: str) -> None:
    """Write one line to stderr, unless the program that uses simprof has logging write it."""
    import logging  # which takes longer to import than to be silent

    logging.getLogger("simprof").warning("simprof: %s", text)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
