"""What a run asked of the outside, and the answers: with these it can be emulated a second time.

The calls are kept one behind the other, each with a digest of what it asked and the whole of what
came back. That is as much as the program reads, so that all but the first megabytes are in a
temporary file, which has no name and goes with the process. A log that outgrows its limit, or the
disk, is dropped: the run goes on, and cannot be emulated again (`CallLog.check`).
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import struct
import weakref
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any

from simprof.simulator.cpu.guest import RunInterrupted
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.linux.status import DirectoryEntry, FileStatus, Special

IN_MEMORY = 4 << 20
"""Bytes of a log that are not in a file."""
LEAST_LIMIT = 8 << 30
"""Bytes that a log may always have, on a disk with room for it."""
ROOM = 1 << 30
"""Bytes of a disk that are left to others."""
STEP = 64 << 20
"""Bytes of a log between two looks at the room."""
_FORMAT = 2  # of marshal: equal values give equal bytes
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class LoggedCall:
    """One call to the outside: what was asked (as a digest) and what came back."""

    method: str
    digest: bytes
    value: object
    errno: int | None
    interrupted: bool = False

    def answer(self) -> object:
        """Do again what the call did: return its value or raise its error."""
        if self.interrupted:
            raise RunInterrupted
        if self.errno is not None:
            raise OSError(self.errno, "as recorded")
        return self.value


class CallLog:
    """The calls of a run, in their order.

    Parameters
    ----------
    limit
        Bytes that it may have.
    """

    def __init__(self, limit: int = LEAST_LIMIT) -> None:
        self._limit = limit
        self._file = SpooledTemporaryFile[bytes](IN_MEMORY)
        weakref.finalize(self, self._file.close)
        self._size = self._looked = 0
        self._is_at_end = True
        self._count = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._lost = ""

    def __len__(self) -> int:
        return self._count

    @property
    def digest(self) -> bytes:
        """Of all calls so far, whether they are kept or not."""
        return self._digest.digest()

    def append(self, call: LoggedCall) -> None:
        """Keep a call."""
        given: Any = (call.method, call.digest, _plain(call.value), call.errno, call.interrupted)
        data = marshal.dumps(given, _FORMAT)
        self._digest.update(data)
        self._count += 1
        if not self._lost:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        size = self._size + _LENGTH.size + len(data)
        if size > self._limit:
            self._drop(f"more than {self._limit:,} bytes: raise --memory-limit")
            return
        try:
            if not self._is_at_end:
                self._file.seek(self._size)
                self._is_at_end = True
            self._file.write(_LENGTH.pack(len(data)))
            self._file.write(data)
            if size - self._looked > STEP:
                self._looked = size
                _check_room(self._file.fileno())
        except OSError as error:
            place = f"{gettempdir()} cannot take them ({error.strerror})"
            self._drop(f"{place}: set TMPDIR to a directory with room")
            return
        self._size = size

    def _drop(self, why: str) -> None:
        self._lost = why
        self.close()

    def check(self) -> None:
        """Check that all calls are kept.

        Raises
        ------
        UnsupportedError
            If not: the run cannot be emulated a second time.
        """
        if self._lost:
            raise UnsupportedError(
                "the program has to be emulated a second time, but the answers to its system "
                f"calls, which that needs, are not kept: {self._lost}"
            )

    def read(self, offset: int) -> tuple[LoggedCall, int]:
        """Return the call at a place in the log, and the place of the next one.

        Parameters
        ----------
        offset
            0, or what the call before that one gave.
        """
        self._is_at_end = False
        self._file.seek(offset)
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        method, digest, value, number, interrupted = marshal.loads(self._file.read(length))
        call = LoggedCall(method, digest, _valued(value), number, interrupted)
        return call, offset + _LENGTH.size + length

    def close(self) -> None:
        """Free the memory and the disk that the log takes."""
        self._file.close()


def _check_room(descriptor: int) -> None:
    free = os.fstatvfs(descriptor)
    if free.f_bavail * free.f_frsize < ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _plain(value: object) -> object:
    """Return an answer as what `marshal` can write: a tuple says by its first item what it was."""
    if isinstance(value, int | bytes):
        return value
    if isinstance(value, FileStatus):
        return (
            "status",
            value.inode,
            value.mode,
            value.links,
            value.size,
            value.modified,
            value.special_device,
            value.device,
        )
    if isinstance(value, Special):
        return ("special", value.name)
    if isinstance(value, tuple):
        return ("entries", *((entry.name, entry.inode, entry.kind) for entry in value))
    return value


def _valued(plain: Any) -> object:
    """Return the answer that `_plain` has written."""
    if not isinstance(plain, tuple):
        return plain
    kind, *parts = plain
    if kind == "status":
        return FileStatus(*parts)
    if kind == "special":
        return Special(*parts)
    return tuple(DirectoryEntry(*entry) for entry in parts)
