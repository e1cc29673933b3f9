"""The log of the outside world's answers, from which a program can be run a second time."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from enum import IntFlag
from functools import partial
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import astuple

from simprof.simulator.errors import SimulatorError, UnsupportedError
from simprof.simulator.linux.guest import RunInterrupted

USER = 1000  # user and group number of the program and of every file


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


_TIME_IS_UP = "check_time"


# `files.Host` really touches files, below its sandbox's root, in methods that return plain values
# or raise OSError. `RecordingHost` passes calls on and keeps a log; then it answers from it without
# touching anything, so that the program's output does not appear twice.
class RecordingHost:
    """Passes calls on to another host and logs every one; can start again from its log.

    Any call raises `ReplayMismatchError` where it differs from the recorded one at its place.
    """

    # A run that was cut short may be replayed up to where it was cut: a call that was interrupted
    # is interrupted again. `host` is a `files.Host`; None: every call must be in the log, which
    # keeps calls and has what is known already.

    def __init__(self, host: Any, log: CallLog | None = None) -> None:
        self.interrupted: Callable[[], bool] = lambda: False
        self._host = host
        self._next = self._offset = 0
        self.log = CallLog() if log is None else log

    def rewind(self) -> None:
        """Answer a second run's calls from the log, then go on; raises as `CallLog.check`."""
        # The outside does not notice: what the first run wrote is not written again, and what it
        # opened is still open, under the same handles, when the log ends.
        self.log.check()
        self._next = self._offset = 0

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return partial(self._do, method)

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
            self.log.append(LoggedCall(_TIME_IS_UP, _NOTHING, None, None, interrupted=True))
            raise RunInterrupted

    def _ask(self, method: str, digest: bytes, *arguments: object) -> Any:
        if self._host is None:
            raise ReplayMismatchError(
                f"second run: {method} after the first run's last call; report this as a bug"
            )
        self._host.interrupted = self.interrupted
        try:
            value = getattr(self._host, method)(*arguments)
        except OSError as error:
            self.log.append(LoggedCall(method, digest, None, error.errno or errno.EIO))
            raise
        except RunInterrupted:
            self.log.append(LoggedCall(method, digest, None, None, interrupted=True))
            raise
        self.log.append(LoggedCall(method, digest, value, None))
        return value


def _digest(method: str, arguments: tuple[object, ...]) -> bytes:
    digest = hashlib.blake2b(method.encode(), digest_size=_DIGEST)
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else repr(argument).encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


IN_MEMORY = 4 << 20  # bytes of a log that are not in a file
LEAST_LIMIT = 8 << 30  # bytes that a log may always have, on a disk with room for it
ROOM = 1 << 30  # bytes of a disk that are left to others
STEP = 64 << 20  # bytes of a log between two looks at the room
PIECE = 1 << 20  # bytes of a log that are handed on at once
_DIGEST = 16  # bytes
_NOTHING = bytes(_DIGEST)  # the digest of what asks nothing
# Before each call: bytes of its JSON, bytes of data behind that, and the digest of what it asked
_HEAD = struct.Struct(f"<II{_DIGEST}s")
_to_json = json.JSONEncoder(separators=(",", ":")).encode


class LoggedCall(Struct, frozen=True):
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


# A log keeps the calls in order, each with a digest of what it asked and the whole of what came
# back. That is as much as the program reads, so that all but the first megabytes are in a temporary
# file, which has no name and goes with the process. A log that outgrows its limit, or the disk, is
# dropped: the run continues, and cannot be emulated again (`CallLog.check`). The bytes of a log are
# those of a recording (`simprof record`).
class CallLog:
    """The calls of a run, in their order; `limit`: bytes that it may have, None: any number."""

    def __init__(self, limit: int | None = LEAST_LIMIT) -> None:
        self._limit = limit
        self._file: IO[bytes] = io.BytesIO()
        self._is_in_memory = True
        self._size = self._looked = 0
        self._is_at_end = True
        self._count = 0
        self._digest = hashlib.blake2b(digest_size=_DIGEST)
        self._lost = ""

    def __len__(self) -> int:
        return self._count

    @property
    def digest(self) -> bytes:
        """Of all calls so far, whether they are kept or not."""
        return self._digest.digest()

    def append(self, call: LoggedCall) -> None:
        """Keep a call."""
        self.extend(_encoded(call), 1)

    def extend(self, data: bytes, calls: int) -> None:
        """Keep so many calls, or parts of them, as another log's `pieces` give them."""
        self._digest.update(data)
        self._count += calls
        if not self._lost:
            self._keep(data)

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes of the log, in pieces; raises as `check`."""
        self.check()
        self._is_at_end = False
        for start in range(0, self._size, PIECE):
            self._file.seek(start)
            yield self._file.read(min(PIECE, self._size - start))

    def _keep(self, data: bytes) -> None:
        size = self._size + len(data)
        if self._limit is not None and size > self._limit:
            self._drop(f"more than {self._limit:,} bytes: raise --memory-limit")
            return
        try:
            if not self._is_at_end:
                self._file.seek(self._size)
                self._is_at_end = True
            if self._is_in_memory and size > IN_MEMORY:
                self._move()
            self._file.write(data)
            if not self._is_in_memory and size - self._looked > STEP:
                self._looked = size
                free = os.fstatvfs(self._file.fileno())
                if free.f_bavail * free.f_frsize < ROOM:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            from tempfile import gettempdir

            place = f"{gettempdir()} cannot take them ({error.strerror})"
            self._drop(f"{place}: set TMPDIR to a directory with room")
            return
        self._size = size

    def _move(self) -> None:
        """Go on in a file: few runs come to that, and `tempfile` takes long to import."""
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115 - closed with the log
        weakref.finalize(self, file.close)
        self._file.seek(0)
        file.write(self._file.read())
        self._file, self._is_in_memory = file, False

    def _drop(self, why: str) -> None:
        self._lost = why
        self.close()

    def check(self) -> None:
        """Raise `UnsupportedError` unless all calls are kept, as a second run needs."""
        if self._lost:
            raise UnsupportedError(
                "the program has to be emulated a second time, but the answers to its system "
                f"calls, which that needs, are not kept: {self._lost}"
            )

    def read(self, offset: int) -> tuple[LoggedCall, int]:
        """Return the call at `offset`, and the offset of the next one; the first has 0.

        Raises `ReplayMismatchError` if no log has such a call.
        """
        self._is_at_end = False
        self._file.seek(offset)
        try:
            length, more, digest = _HEAD.unpack(self._file.read(_HEAD.size))
            call = _decoded(digest, self._file.read(length), self._file.read(more))
        except (ValueError, TypeError, RecursionError, struct.error):
            raise ReplayMismatchError("the log of the first run's calls is damaged") from None
        return call, offset + _HEAD.size + length + more

    def close(self) -> None:
        """Free the memory and the disk that the log takes."""
        self._file.close()


def _encoded(call: LoggedCall) -> bytes:
    """Return the bytes of a call: its head, JSON, and the bytes that were answered, if any."""
    value, data = call.value, b""
    kind, plain = "value", value
    if call.interrupted:
        kind = "interrupted"
    elif call.errno is not None:
        kind, plain = "error", call.errno
    elif isinstance(value, bytes):
        kind, plain, data = "bytes", None, value
    elif isinstance(value, FileStatus):
        kind, plain = "status", astuple(value)
    elif isinstance(value, Special):
        kind, plain = "special", value.name
    elif isinstance(value, tuple):
        # file names are bytes, which JSON lacks
        named = [(each.name.decode("latin-1"), each.inode, each.kind) for each in value]
        kind, plain = "entries", named
    text = _to_json((call.method, kind, plain)).encode()
    return _HEAD.pack(len(text), len(data), call.digest) + text + data


def _decoded(digest: bytes, text: bytes, data: bytes) -> LoggedCall:
    """Return the call that `_encoded` was given; raises ValueError or TypeError if it was none."""
    method, kind, plain = json.loads(text)
    match kind:
        case "interrupted":
            return LoggedCall(method, digest, None, None, interrupted=True)
        case "error":
            return LoggedCall(method, digest, None, int(plain))
        case "bytes":
            return LoggedCall(method, digest, data, None)
        case "status":
            return LoggedCall(method, digest, FileStatus(*map(int, plain)), None)
        case "special":
            return LoggedCall(method, digest, Special(str(plain)), None)
        case "entries":
            named = [(name.encode("latin-1"), int(i), int(type_)) for name, i, type_ in plain]
            return LoggedCall(method, digest, tuple(DirectoryEntry(*e) for e in named), None)
        case "value" if plain is None or type(plain) is int:
            return LoggedCall(method, digest, plain, None)
    raise ValueError(f"an answer of kind {kind!r}")


LARGEST_OFFSET = (1 << 63) - 1  # in a file, in bytes
BLOCK_SIZE = 4096  # st_blksize of everything, in bytes


def moved(origins: Sequence[int], offset: int, whence: int) -> int:
    """Return where a seek leads that counts from `origins[whence]`; raises OSError."""
    if not (0 <= whence < len(origins) and 0 <= origins[whence] + offset <= LARGEST_OFFSET):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return origins[whence] + offset


# What a program can see of files is made the same on every machine. Inode numbers count up from 1
# in the order in which files are first seen, the device is 1. Every file belongs to one user and
# group; blocks follow from the size. Directories have size 4096 and one link; listings are sorted
# by name. Modification times are the file's own, access and change times repeat them. Standard
# output and error always look like a pipe; standard input looks like what it is, except that a
# terminal looks like a pipe.
class FileStatus(Struct, frozen=True):
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


class Special(Struct, frozen=True):
    """A file that the emulated kernel itself provides: "null", "fd/1", "exe", "maps", ..."""

    name: str


class DirectoryEntry(Struct, frozen=True):
    """One name in a directory; `kind` is a DT_* number."""

    name: bytes
    inode: int
    kind: int
