"""Every touch of the outside world, as methods that return plain values or raise OSError.

`HostCalls` is the typed face. `files.Host` really touches files, below its sandbox's root;
`RecordingHost` passes calls on and keeps a log; `ReplayHost` answers from such a log without
touching anything, so that a program can be run a second time on the same input without its
output appearing twice.

What a program can see of files is made the same on every machine:
- inode numbers count up from 1 in the order in which files are first seen, the device is 1;
- every file belongs to user and group 1000; block size is 4096, blocks follow from the size;
- directories have size 4096 and one link; listings are sorted by name;
- modification times are the file's own, access and change times repeat them;
- standard output and error always look like a pipe; standard input looks like what it is, except
  that a terminal looks like a pipe.

A log keeps the calls in order, each with a digest of what it asked and the whole of what came
back. That is as much as the program reads, so that all but the first megabytes are in a temporary
file, which has no name and goes with the process. A log that outgrows its limit, or the disk, is
dropped: the run continues, and cannot be emulated again (`CallLog.check`).
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import os
import struct
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any

from simprof.simulator.cpu.guest import RunInterrupted
from simprof.simulator.errors import SimulatorError, UnsupportedError

USER = 1000
"""User and group number of the program and of every file."""


class FileAccess(IntFlag):
    """How a file is opened; independent of any system's numbering."""

    READ = 1
    WRITE = 2
    CREATE = 4
    EXCLUSIVE = 8
    TRUNCATE = 16
    APPEND = 32
    DIRECTORY = 64
    NO_FOLLOW = 128
    PATH_ONLY = 256


class ReplayMismatchError(SimulatorError):
    """A replayed run asked for something else than the recorded one."""


class HostCalls(ABC):
    """The outside world. Handles are ints; 0, 1 and 2 are the standard streams.

    `base` is the handle of the directory where a relative `path` starts, None for the initial
    working directory. Every method raises OSError with the host's errno where the call fails.
    """

    def __init__(self) -> None:
        self.interrupted: Callable[[], bool] = lambda: False
        """Asked while a call waits; the machine sets it."""

    @abstractmethod
    def _do(self, method: str, *arguments: object) -> Any:
        """Perform `method`."""

    def check_time(self) -> None:
        """Raise `RunInterrupted` if the run is to end; to be called where a call takes long."""
        if self.interrupted():
            raise RunInterrupted

    def open(self, base: int | None, path: bytes, access: FileAccess, mode: int) -> int | Special:
        """Open a file; return its handle, or which special file it is."""
        answer: int | Special = self._do("open", base, path, access, mode)
        return answer

    def close(self, handle: int) -> None:
        """Close a handle."""
        self._do("close", handle)

    def read(self, handle: int, size: int) -> bytes:
        """Read at most `size` bytes at the file's offset."""
        data: bytes = self._do("read", handle, size)
        return data

    def write(self, handle: int, data: bytes) -> int:
        """Write at the file's offset; return how many bytes were written."""
        count: int = self._do("write", handle, data)
        return count

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Read at `offset`, leaving the file's offset alone."""
        data: bytes = self._do("read_at", handle, size, offset)
        return data

    def write_at(self, handle: int, data: bytes, offset: int) -> int:
        """Write at `offset`, leaving the file's offset alone."""
        count: int = self._do("write_at", handle, data, offset)
        return count

    def seek(self, handle: int, offset: int, whence: int) -> int:
        """Move the file's offset (whence 0, 1, 2 as lseek); return it."""
        position: int = self._do("seek", handle, offset, whence)
        return position

    def resize(self, handle: int, size: int) -> None:
        """Truncate or extend an open file."""
        self._do("resize", handle, size)

    def status(self, handle: int) -> FileStatus:
        """Status of an open file."""
        answer: FileStatus = self._do("status", handle)
        return answer

    def status_of(self, base: int | None, path: bytes, follow: bool) -> FileStatus | Special:
        """Status of a named file, or which special file it is."""
        answer: FileStatus | Special = self._do("status_of", base, path, follow)
        return answer

    def check_access(self, base: int | None, path: bytes, rights: int) -> None:
        """Raise OSError unless the file exists and has `rights` (R 4, W 2, X 1)."""
        self._do("check_access", base, path, rights)

    def read_link(self, base: int | None, path: bytes) -> bytes | Special:
        """Text of a symbolic link, or the special file that the path is."""
        answer: bytes | Special = self._do("read_link", base, path)
        return answer

    def path_of(self, handle: int | None) -> bytes:
        """Canonical absolute path of an open file (None: the initial working directory)."""
        path: bytes = self._do("path_of", handle)
        return path

    def real_path_of(self, handle: int) -> bytes:
        """Path of an open file on the host, for simprof itself."""
        path: bytes = self._do("real_path_of", handle)
        return path

    def list_directory(self, handle: int) -> tuple[DirectoryEntry, ...]:
        """Return the entries of an open directory, "." and ".." first, then sorted."""
        entries: tuple[DirectoryEntry, ...] = self._do("list_directory", handle)
        return entries

    def make_directory(self, base: int | None, path: bytes, mode: int) -> None:
        """Create a directory."""
        self._do("make_directory", base, path, mode)

    def remove(self, base: int | None, path: bytes, directory: bool) -> None:
        """Remove a file, or an empty directory."""
        self._do("remove", base, path, directory)

    def rename(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, replace: bool
    ) -> None:
        """Rename; without `replace` an existing target is an error."""
        self._do("rename", base, path, new_base, new, replace)

    def link(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, follow: bool
    ) -> None:
        """Create a hard link."""
        self._do("link", base, path, new_base, new, follow)

    def make_link(self, text: bytes, base: int | None, path: bytes) -> None:
        """Create a symbolic link."""
        self._do("make_link", text, base, path)

    def change_mode(self, base: int | None, path: bytes, mode: int, follow: bool) -> None:
        """Set the permission bits of a named file."""
        self._do("change_mode", base, path, mode, follow)

    def change_open_mode(self, handle: int, mode: int) -> None:
        """Set the permission bits of an open file."""
        self._do("change_open_mode", handle, mode)

    def change_times(
        self, base: int | None, path: bytes, accessed: int, modified: int, follow: bool
    ) -> None:
        """Set a named file's times, in nanoseconds."""
        self._do("change_times", base, path, accessed, modified, follow)

    def change_open_times(self, handle: int, accessed: int, modified: int) -> None:
        """Set an open file's times, in nanoseconds."""
        self._do("change_open_times", handle, accessed, modified)


_TIME_IS_UP = "check_time"


class RecordingHost(HostCalls):
    """Passes calls on to another host and logs every one; can start again from its log.

    `host`: Where calls go; None: nowhere, every call must be in the log. `log`: Where calls are
    kept, and what is known already; None: a new one.

    Raises
    ------
    ReplayMismatchError
        From any call that differs from the recorded one at its place.
    """

    def __init__(self, host: HostCalls | None, log: CallLog | None = None) -> None:
        super().__init__()
        self._host = host
        self._next = self._offset = 0
        self.log = CallLog() if log is None else log

    def rewind(self) -> None:
        """Answer the calls of a second run from the log, and go on from there.

        The outside does not notice: what the first run wrote is not written again, and what it
        opened is still open, under the same handles, when the log ends.

        Raises
        ------
        UnsupportedError
            If the log is too large to be kept.
        """
        self.log.check()
        self._next = self._offset = 0

    def _do(self, method: str, *arguments: object) -> Any:
        digest = _digest(method, arguments)
        self._next += 1
        if self._next <= len(self.log):
            entry, self._offset = self.log.read(self._offset)
            if entry.method != method or entry.digest != digest:
                raise ReplayMismatchError(
                    f"second run: call {self._next} is {method}, not the first run's "
                    f"{entry.method}, or its arguments differ; report this as a bug"
                )
            return entry.answer()
        return self._ask(method, digest, *arguments)

    def check_time(self) -> None:
        """Raise `RunInterrupted` if the run is to end, or ended here when it was recorded."""
        if self._next < len(self.log):
            entry, offset = self.log.read(self._offset)
            if entry.method == _TIME_IS_UP:
                self._next, self._offset = self._next + 1, offset
                raise RunInterrupted
        elif self._host is not None and self.interrupted():
            self._next += 1
            self.log.append(LoggedCall(_TIME_IS_UP, b"", None, None, interrupted=True))
            raise RunInterrupted

    def _ask(self, method: str, digest: bytes, *arguments: object) -> Any:
        if self._host is None:
            raise ReplayMismatchError(
                f"second run: {method} after the first run's last call; report this as a bug"
            )
        self._host.interrupted = self.interrupted
        try:
            value = self._host._do(method, *arguments)
        except OSError as error:
            self.log.append(LoggedCall(method, digest, None, error.errno or errno.EIO))
            raise
        except RunInterrupted:
            self.log.append(LoggedCall(method, digest, None, None, interrupted=True))
            raise
        self.log.append(LoggedCall(method, digest, value, None))
        return value


class ReplayHost(RecordingHost):
    """Answers from a log; touches nothing outside.

    `log`: From a `RecordingHost`. A run that was cut short may be replayed up to where it was cut;
    a call that was interrupted is interrupted again.

    Raises
    ------
    ReplayMismatchError
        From any call that differs from the recorded one at its place, or goes beyond the record.
    """

    def __init__(self, log: CallLog) -> None:
        super().__init__(None, log)


def _digest(method: str, arguments: tuple[object, ...]) -> bytes:
    digest = hashlib.blake2b(method.encode(), digest_size=16)
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else repr(argument).encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


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

    `limit`: Bytes that it may have.
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

        `offset`: 0, or what the call before that one gave.
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


LARGEST_OFFSET = (1 << 63) - 1
"""In a file, in bytes."""

BLOCK_SIZE = 4096
"""st_blksize of everything, in bytes."""


@dataclass(frozen=True)
class FileStatus:
    """What stat tells; sizes in bytes, times in nanoseconds since 1970."""

    inode: int
    mode: int
    links: int
    size: int
    modified: int
    special_device: int = 0
    device: int = 1

    @property
    def blocks(self) -> int:
        """Blocks of 512 bytes."""
        return -(-self.size // BLOCK_SIZE) * (BLOCK_SIZE // 512)


@dataclass(frozen=True)
class Special:
    """A file that the emulated kernel itself provides: "null", "fd/1", "exe", "maps", ..."""

    name: str


@dataclass(frozen=True)
class DirectoryEntry:
    """One name in a directory; `kind` is a DT_* number."""

    name: bytes
    inode: int
    kind: int
