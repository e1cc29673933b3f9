"""Open files of the emulated program: descriptors, in-memory pipes, special files."""

# ruff: noqa: D102 - overriding methods do what `OpenFile` says

from __future__ import annotations

import errno
import itertools
import stat
from collections.abc import Callable

from msgspec import Struct

from simprof.simulator.isa.sparc import O_ACCMODE, O_APPEND, O_NONBLOCK
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.linux.outside import DirectoryEntry, FileStatus, moved
from simprof.simulator.linux.process import RandomBytes
from simprof.simulator.linux.sandbox import fail_if, failure

MAX_DESCRIPTORS = 1024  # RLIMIT_NOFILE
PIPE_SIZE = 65536  # capacity of a pipe in bytes
_ENTRY = 200  # bytes of a directory's entry without its name
_SETTABLE_FLAGS = O_APPEND | O_NONBLOCK


class WouldWait(Exception):  # noqa: N818 - a state, not an error
    """The operation can only go on when somebody else acts, and there is nobody else."""


class OpenFile:
    """An open file description; several descriptors may share it. Here: nothing is possible."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.references = 0
        self.kept = 0  # bytes that simprof keeps for it, if they may be many
        self.held = 0  # as many of them as count against the memory limit

    @property
    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self.flags & O_ACCMODE in (0, 2)

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & O_ACCMODE in (1, 2)

    def set_flags(self, flags: int) -> None:
        """Change what F_SETFL may change."""
        self.flags = (self.flags & ~_SETTABLE_FLAGS) | (flags & _SETTABLE_FLAGS)

    @property
    def is_stream(self) -> bool:
        """Whether a read may wait for others behind one that has returned all it was asked for."""
        return False

    def read(self, size: int) -> bytes:
        """Read at the offset."""
        raise failure(errno.EINVAL)

    def write(self, data: bytes) -> int:
        """Write at the offset."""
        raise failure(errno.EINVAL)

    def read_at(self, size: int, offset: int) -> bytes:
        """Read at a given offset."""
        raise failure(errno.ESPIPE)

    def write_at(self, data: bytes, offset: int) -> int:
        """Write at a given offset."""
        raise failure(errno.ESPIPE)

    def seek(self, offset: int, whence: int) -> int:
        """Move the offset."""
        raise failure(errno.ESPIPE)

    def resize(self, size: int) -> None:
        """Truncate or extend."""
        raise failure(errno.EINVAL)

    def status(self) -> FileStatus:
        """Return what fstat reports."""
        raise failure(errno.EBADF)

    def ready(self, for_writing: bool) -> bool:
        """Whether poll reports it; reading a stream may then still wait for its input."""
        return True

    def close(self) -> None:
        """Let go of it; called when the last descriptor is closed."""


class HostFile(OpenFile):
    """A file, or a standard stream, of the host."""

    def __init__(self, host: HostCalls, handle: int, flags: int) -> None:
        super().__init__(flags)
        self.host = host
        self.handle = handle

    @property
    def is_stream(self) -> bool:
        try:
            # The host opens regular files alone, besides the standard streams.
            return self.handle <= 2 and self.host.seek(self.handle, 0, 1) < 0
        except OSError:
            return True

    def read(self, size: int) -> bytes:
        return self.host.read(self.handle, size)

    def write(self, data: bytes) -> int:
        if self.flags & O_APPEND and self.handle > 2:
            self.host.seek(self.handle, 0, 2)
        return self.host.write(self.handle, data)

    def read_at(self, size: int, offset: int) -> bytes:
        return self.host.read_at(self.handle, size, offset)

    def write_at(self, data: bytes, offset: int) -> int:
        return self.host.write_at(self.handle, data, offset)

    def seek(self, offset: int, whence: int) -> int:
        return self.host.seek(self.handle, offset, whence)

    def resize(self, size: int) -> None:
        self.host.resize(self.handle, size)

    def status(self) -> FileStatus:
        return self.host.status(self.handle)

    def close(self) -> None:
        if self.handle > 2:
            self.host.close(self.handle)


class Directory(HostFile):
    """An open directory; `position` counts entries."""

    def __init__(self, host: HostCalls, handle: int, flags: int) -> None:
        super().__init__(host, handle, flags)
        self.position = 0
        self._entries: tuple[DirectoryEntry, ...] | None = None

    def entries(self) -> tuple[DirectoryEntry, ...]:
        """Return the listing, read at the first request after a rewind."""
        if self._entries is None:
            self._entries = self.host.list_directory(self.handle)
            self.kept = sum(_ENTRY + len(entry.name) for entry in self._entries)
        return self._entries

    def read(self, size: int) -> bytes:
        raise failure(errno.EISDIR)

    def seek(self, offset: int, whence: int) -> int:
        self.position = moved((0, self.position), offset, whence)
        if self.position == 0:
            self._entries, self.kept = None, 0
        return self.position


class Device(OpenFile):
    """/dev/null, zero, full, random, urandom."""

    def __init__(self, name: str, flags: int, random: RandomBytes) -> None:
        super().__init__(flags)
        self.name = name
        self._random = random

    def read(self, size: int) -> bytes:
        if self.name == "null":
            return b""
        if self.name in ("zero", "full"):
            return bytes(size)
        return self._random.take(size)

    def write(self, data: bytes) -> int:
        fail_if(self.name == "full", errno.ENOSPC)
        return len(data)

    def read_at(self, size: int, offset: int) -> bytes:
        return self.read(size)

    def write_at(self, data: bytes, offset: int) -> int:
        return self.write(data)

    def seek(self, offset: int, whence: int) -> int:
        return 0

    def status(self) -> FileStatus:
        return device_status(self.name)


def device_status(name: str) -> FileStatus:
    """Status of a special file under /dev or /proc/self."""
    minors = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
    if (number := minors.get(name)) is not None:
        return FileStatus(1000 + number, stat.S_IFCHR | 0o666, 1, 0, 0, 1 << 8 | number)
    if name == "tty":
        return FileStatus(1100, stat.S_IFCHR | 0o666, 1, 0, 0, 5 << 8)
    return FileStatus(1200, stat.S_IFREG | 0o444, 1, 0, 0)


class Text(OpenFile):
    """A generated read-only file such as /proc/self/maps."""

    def __init__(self, data: bytes, flags: int) -> None:
        super().__init__(flags)
        self._data = data
        self._offset = 0
        self.kept = len(data)

    def read(self, size: int) -> bytes:
        data = self.read_at(size, self._offset)
        self._offset += len(data)
        return data

    def read_at(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]

    def seek(self, offset: int, whence: int) -> int:
        self._offset = moved((0, self._offset), offset, whence)
        return self._offset

    def status(self) -> FileStatus:
        return device_status("text")


class Pipe(Struct):
    """Bytes in flight, and whether its ends are open."""

    data: bytearray
    has_reader: bool = True
    has_writer: bool = True


class PipeEnd(OpenFile):
    """One end of a pipe inside the emulated process."""

    def __init__(self, pipe: Pipe, flags: int) -> None:
        super().__init__(flags)
        self._pipe = pipe
        self.kept = PIPE_SIZE if self.readable else 0

    @property
    def is_stream(self) -> bool:
        return True

    def read(self, size: int) -> bytes:
        data = self._pipe.data
        if not data and self._pipe.has_writer and size:
            fail_if(self.flags & O_NONBLOCK, errno.EAGAIN)
            raise WouldWait
        taken = bytes(data[:size])
        del data[:size]
        return taken

    def write(self, data: bytes) -> int:
        fail_if(not self._pipe.has_reader, errno.EPIPE)
        room = PIPE_SIZE - len(self._pipe.data)
        if len(data) > room:
            if not self.flags & O_NONBLOCK:
                raise WouldWait
            fail_if(room == 0 or len(data) <= 4096, errno.EAGAIN)
        self._pipe.data += data[:room]
        return min(len(data), room)

    @property
    def is_alone(self) -> bool:
        """Whether the other end is closed."""
        return not (self._pipe.has_writer if self.readable else self._pipe.has_reader)

    @property
    def holds_bytes(self) -> bool:
        """Whether the pipe has bytes that nobody has read."""
        return bool(self._pipe.data)

    def ready(self, for_writing: bool) -> bool:
        if for_writing:
            return len(self._pipe.data) < PIPE_SIZE or not self._pipe.has_reader
        return bool(self._pipe.data) or not self._pipe.has_writer

    def status(self) -> FileStatus:
        return FileStatus(2000, stat.S_IFIFO | 0o600, 1, 0, 0)

    def close(self) -> None:
        if self.writable:
            self._pipe.has_writer = False
        else:
            self._pipe.has_reader = False


class DescriptorTable:
    """Descriptor numbers -> open files; 0, 1 and 2 are the streams of `host`."""

    def __init__(self, host: HostCalls, hold: Callable[[int], None] = lambda size: None) -> None:
        self._hold = hold
        self._files: dict[int, OpenFile] = {}
        self.closed_on_exec: set[int] = set()  # numbers with FD_CLOEXEC
        for number, flags in enumerate((0, 1, 1)):
            self.install(HostFile(host, number, flags), at=number)

    def get(self, number: int) -> OpenFile:
        """Return an open file; OSError EBADF where there is none."""
        fail_if(number not in self._files, errno.EBADF)
        return self._files[number]

    def numbers(self) -> list[int]:
        """Return the numbers in use."""
        return sorted(self._files)

    def install(
        self, file: OpenFile, *, lowest: int = 0, at: int | None = None, on_exec: bool = False
    ) -> int:
        """Give `file` the number `at`, or the lowest free one from `lowest` on."""
        free = (each for each in itertools.count(lowest) if each not in self._files)
        number = next(free) if at is None else at
        fail_if(not 0 <= number < MAX_DESCRIPTORS, errno.EBADF if at is not None else errno.EMFILE)
        if number in self._files:
            self.close(number)
        file.references += 1
        self._files[number] = file
        if on_exec:
            self.closed_on_exec.add(number)
        return number

    def close(self, number: int) -> None:
        """Close a descriptor."""
        file = self.get(number)
        del self._files[number]
        self.closed_on_exec.discard(number)
        file.references -= 1
        if file.references == 0:
            file.close()
            self._hold(-file.held)
            file.held = 0

    def keep(self, file: OpenFile) -> None:
        """Count what simprof keeps for a file as the program's memory; raises `OutOfMemory`."""
        self._hold(file.kept - file.held)
        file.held = file.kept

    def set_close_on_exec(self, number: int, value: bool) -> None:
        """Set or clear FD_CLOEXEC."""
        self.get(number)
        if value:
            self.closed_on_exec.add(number)
        else:
            self.closed_on_exec.discard(number)
