"""Files of a cache: each is whole or not there, and those used longest ago make room for others.

Any number of processes may use a cache at the same time, and be killed: a file gets its name when
it is complete (`output.replace`), begins with a digest of the rest, and is removed where that does
not hold. Nothing here fails because of a cache: what cannot be read is not there, and what cannot
be written is not kept.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from profiler.profiles.output import replace

LIMIT = 512 << 20
"""Bytes of a cache's files."""
_DIGEST = 16
_STALE = 3600.0
"""Seconds after which nobody writes a file any more that has no name yet but a passing one."""


VARIABLE = "SIMPROF_NO_CACHE"
"""Environment variable that has simprof neither use nor keep what is learnt of binaries."""
_FALSE = frozenset({"", "0", "false", "f", "no", "n", "off"})


def is_wanted() -> bool:
    """Whether the environment lets what is learnt of binaries be used and kept."""
    return os.environ.get(VARIABLE, "").strip().lower() in _FALSE


def cache_directory() -> Path:
    """Return simprof's cache: `simprof` below $XDG_CACHE_HOME, which is ~/.cache by default."""
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.home() raises without a home
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "simprof"


def binaries() -> CacheFiles:
    """Return the cache of what is known of binaries."""
    return CacheFiles(cache_directory() / "binaries")


@dataclass(frozen=True)
class CacheEntry:
    """A file of a cache: its name, its bytes, and when it was last used (seconds since 1970)."""

    name: str
    size: int
    used: float


class CacheFiles:
    """The files in a directory of a cache.

    Parameters
    ----------
    directory
        Made when the first file is written.
    limit
        Bytes that all files may take.
    """

    def __init__(self, directory: Path, limit: int = LIMIT) -> None:
        self.directory, self._limit = directory, limit

    def read(self, name: str) -> bytes | None:
        """Return what is kept under a name, None if nothing is."""
        path = self.directory / name
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = data[_DIGEST:]
        is_whole = data[:_DIGEST] == _digest(content)
        with suppress(OSError):
            if is_whole:
                os.utime(path)
            else:
                path.unlink()
        return content if is_whole else None

    def write(self, name: str, content: bytes) -> None:
        """Keep something under a name."""
        with suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(self.directory / name, _digest(content) + content)
            self._make_room()

    def entries(self) -> list[CacheEntry]:
        """Return all files, those used last at first."""
        found = []
        with suppress(OSError):
            for path in self.directory.iterdir():
                with suppress(OSError):
                    status = path.stat()
                    found.append(CacheEntry(path.name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.name))

    def clear(self) -> list[CacheEntry]:
        """Remove all files; return those that were there."""
        found = self.entries()
        self._remove(found)
        return found

    def _make_room(self) -> None:
        """Remove what was used longest ago, and passing names that a kill has left."""
        total, surplus, stale = 0, [], time.time() - _STALE
        for entry in self.entries():
            total += entry.size
            if total > self._limit or (entry.name.startswith(".") and entry.used < stale):
                surplus.append(entry)
        self._remove(surplus)

    def _remove(self, entries: list[CacheEntry]) -> None:
        for entry in entries:
            with suppress(OSError):
                (self.directory / entry.name).unlink()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()
