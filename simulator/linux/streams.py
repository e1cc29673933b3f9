"""The emulated program's standard input, output and error."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import stat
from collections.abc import Callable
from io import BytesIO

from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.linux.outside import FileStatus, moved
from simprof.simulator.linux.sandbox import failure

_POLL_SECONDS = 0.05
_NULL_DEVICE = 0x103  # /dev/null's number: 1:3
_Interrupted = Callable[[], bool]


# Each is a host file descriptor or a buffer. Output always looks like a pipe to the program, so
# that instruction counts do not depend on where the output goes; a full pipe is waited for, so that
# no write is ever short. Waiting asks `interrupted` every 50 ms.
class StandardStreams:
    """Handles 0, 1 and 2."""

    def __init__(
        self,
        # A file descriptor, or the input itself (then it looks like a regular file).
        stdin: int | bytes,
        # stdout, stderr: file descriptors, or buffers that collect the output.
        stdout: int | bytearray,
        stderr: int | bytearray,
        # Called with what is about to be written to a terminal, and with a line end before a
        # terminal is read, where the user ends a line.
        before_output: Callable[[bytes], None] | None = None,
    ) -> None:
        source = BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        self._streams: tuple[BytesIO | int | bytearray, ...] = (source, stdout, stderr)
        self.output = hashlib.sha256()  # of what was written to standard output
        self._before_output = before_output or (lambda _: None)
        self._terminals = {
            stream for stream in self._streams if isinstance(stream, int) and _is_terminal(stream)
        }

    def __contains__(self, handle: int) -> bool:
        return 0 <= handle < 3

    def read(self, handle: int, size: int, interrupted: _Interrupted) -> bytes:
        """Read at most `size` bytes; empty at the end."""
        stream = self._streams[handle]
        if isinstance(stream, bytearray):
            raise failure(errno.EBADF)
        if isinstance(stream, int):
            if stream in self._terminals:
                self._before_output(b"\n")
            _wait(stream, False, interrupted)
            return os.read(stream, size)
        return stream.read(size)

    def write(self, handle: int, data: bytes, interrupted: _Interrupted) -> int:
        """Write all of `data`; return its length."""
        stream = self._streams[handle]
        if isinstance(stream, BytesIO):
            raise failure(errno.EBADF)
        if isinstance(stream, bytearray):
            self._note(handle, data)
            stream += data
            return len(data)
        # A pipe that polls writable takes PIPE_BUF bytes without blocking.
        if stream in self._terminals:
            self._before_output(data)
        step = max(len(data), 1) if _is_regular(stream) else select.PIPE_BUF
        written = 0
        while written < len(data):
            _wait(stream, True, interrupted)
            count = os.write(stream, data[written : written + step])
            self._note(handle, data[written : written + count])
            written += count
        return written

    def _note(self, handle: int, data: bytes) -> None:
        if handle == 1:
            self.output.update(data)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Read at `offset` where the stream is a regular file."""
        stream = self._streams[handle]
        if isinstance(stream, BytesIO):
            return bytes(stream.getbuffer()[offset : offset + size])
        return os.pread(_seekable(handle, stream), size, offset)

    def seek(self, handle: int, offset: int, whence: int) -> int:
        """Move the offset where the stream is a regular file."""
        stream = self._streams[handle]
        if not isinstance(stream, BytesIO):
            return os.lseek(_seekable(handle, stream), offset, whence)
        return stream.seek(moved((0, stream.tell(), len(stream.getbuffer())), offset, whence))

    def status(self, handle: int) -> FileStatus | os.stat_result:
        """Status as the program sees it (inode 0 in a `FileStatus`), or of the regular file."""
        stream = self._streams[handle]
        pipe = FileStatus(0, stat.S_IFIFO | 0o600, 1, 0, 0)
        if handle != 0 or isinstance(stream, bytearray):
            return pipe
        if isinstance(stream, BytesIO):
            return FileStatus(0, stat.S_IFREG | 0o644, 1, len(stream.getbuffer()), 0)
        status = os.fstat(stream)
        if stat.S_ISREG(status.st_mode):
            return status
        if stat.S_ISCHR(status.st_mode) and not os.isatty(stream):
            return FileStatus(0, stat.S_IFCHR | 0o666, 1, 0, 0, _NULL_DEVICE)
        return pipe


def _seekable(handle: int, stream: int | bytearray) -> int:
    if handle != 0 or isinstance(stream, bytearray) or not _is_regular(stream):
        raise failure(errno.ESPIPE)
    return stream


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _wait(descriptor: int, for_writing: bool, interrupted: _Interrupted) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT if for_writing else select.POLLIN)
    while not poller.poll(_POLL_SECONDS * 1000):
        if interrupted():
            raise RunInterrupted
