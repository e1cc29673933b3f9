"""System calls on descriptors: reading, writing, seeking, dup, pipes, fcntl, ioctl, poll."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

from simprof.simulator.cpu.guest import Failed, Outcome, OutOfMemory, Returned
from simprof.simulator.isa.sparc import ERRNO, FIOCLEX, FIONCLEX, FIONREAD, O_CLOEXEC, O_NONBLOCK
from simprof.simulator.linux import structures
from simprof.simulator.linux.descriptors import HostFile, OpenFile, Pipe, PipeEnd
from simprof.simulator.linux.file_data import PIECE, Vectors, read_into, write, write_from
from simprof.simulator.linux.outside import LARGEST_OFFSET
from simprof.simulator.linux.sandbox import failure
from simprof.simulator.linux.task import Arguments, Handler, Task

_POLLIN, _POLLOUT, _POLLERR, _POLLHUP, _POLLNVAL = 0x1, 0x4, 0x8, 0x10, 0x20
_POLL_READABLE = _POLLIN | 0x40  # POLLRDNORM; POLLWRNORM is POLLOUT here
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_GETOWN, _F_SETOWN = range(7)
_F_GETLK, _F_SETLK, _F_SETLKW = 7, 8, 9
_F_GETLK64, _F_SETLK64, _F_SETLKW64 = 12, 13, 14
_F_DUPFD_CLOEXEC, _F_SETPIPE_SZ, _F_GETPIPE_SZ = 1030, 1031, 1032
_F_UNLCK = 3
_LARGEST_OFFSET_32 = (1 << 31) - 1
_FIONBIO = 0x8004667E


class DescriptorCalls:
    """Reading and writing.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        self._table = task.descriptors
        self._check_time = task.host.check_time

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        nothing: Handler = self._check_descriptor
        return {
            "read": self._read, "write": self._write, "readv": self._readv,
            "writev": self._writev, "pread64": self._pread, "pwrite64": self._pwrite,
            "preadv": self._preadv, "pwritev": self._pwritev, "lseek": self._lseek,
            "_llseek": self._llseek, "close": self._close, "close_range": self._close_range,
            "dup": self._dup, "dup2": self._dup2, "dup3": self._dup3, "pipe": self._pipe,
            "pipe2": self._pipe2, "fcntl": self._fcntl, "fcntl64": self._fcntl,
            "ioctl": self._ioctl, "flock": nothing, "fsync": nothing, "fdatasync": nothing,
            "syncfs": nothing, "sync": lambda _: 0, "fadvise64": nothing,
            "fadvise64_64": nothing, "readahead": nothing, "sync_file_range": nothing,
            "ftruncate": self._ftruncate, "ftruncate64": self._ftruncate64,
            "fallocate": self._fallocate, "sendfile": self._sendfile,
            "sendfile64": self._sendfile64, "poll": self._poll, "ppoll": self._ppoll,
            "ppoll_time64": self._ppoll, "select": self._select, "_newselect": self._select,
            "pselect6": self._select, "pselect6_time64": self._select,
        }  # fmt: skip

    def _file(self, descriptor: int) -> OpenFile:
        return self._table.get(self._task.signed32(descriptor))

    def _check_descriptor(self, arguments: Arguments) -> int:
        self._file(arguments[0])
        return 0

    # Reading and writing

    def _readable(self, descriptor: int) -> OpenFile:
        file = self._file(descriptor)
        if not file.readable:
            raise failure(errno.EBADF)
        return file

    def _writable(self, descriptor: int) -> OpenFile:
        file = self._file(descriptor)
        if not file.writable:
            raise failure(errno.EBADF)
        return file

    def _read(self, arguments: Arguments) -> int:
        file = self._readable(arguments[0])
        buffer = [(arguments[1], arguments[2])]
        return read_into(self._guest, buffer, file, None, self._check_time)

    def _readv(self, arguments: Arguments) -> int:
        file = self._readable(arguments[0])
        vectors = self._task.vectors(arguments[1], arguments[2])
        return read_into(self._guest, vectors, file, None, self._check_time)

    def _pread(self, arguments: Arguments) -> int:
        file = self._readable(arguments[0])
        offset = self._offset(arguments[3], arguments[4])
        buffer = [(arguments[1], arguments[2])]
        return read_into(self._guest, buffer, file, offset, self._check_time)

    def _preadv(self, arguments: Arguments) -> int:
        file = self._readable(arguments[0])
        vectors = self._task.vectors(arguments[1], arguments[2])
        offset = self._vector_offset(arguments)
        return read_into(self._guest, vectors, file, offset, self._check_time)

    def _offset(self, high: int, low: int) -> int:
        """Read a `loff_t`: one register in 64-bit programs, two (high first) in 32-bit ones."""
        offset = self._task.signed64(high) if self._task.is64 else self._task.pair(high, low)
        if offset < 0:
            raise failure(errno.EINVAL)
        return offset

    def _vector_offset(self, arguments: Arguments) -> int:
        if self._task.is64:
            return self._offset(arguments[3], 0)
        return self._offset(arguments[4], arguments[3])

    def _write(self, arguments: Arguments) -> int | Outcome:
        file = self._writable(arguments[0])
        return self._emit(file, [(arguments[1], arguments[2])], None)

    def _writev(self, arguments: Arguments) -> int | Outcome:
        file = self._writable(arguments[0])
        return self._emit(file, self._task.vectors(arguments[1], arguments[2]), None)

    def _pwrite(self, arguments: Arguments) -> int | Outcome:
        file = self._writable(arguments[0])
        offset = self._offset(arguments[3], arguments[4])
        return self._emit(file, [(arguments[1], arguments[2])], offset)

    def _pwritev(self, arguments: Arguments) -> int | Outcome:
        file = self._writable(arguments[0])
        vectors = self._task.vectors(arguments[1], arguments[2])
        return self._emit(file, vectors, self._vector_offset(arguments))

    def _emit(self, file: OpenFile, vectors: Vectors, offset: int | None) -> int | Outcome:
        try:
            return write_from(self._guest, vectors, file, offset, self._check_time)
        except BrokenPipeError:
            return Failed(ERRNO["EPIPE"])

    def _sendfile(self, arguments: Arguments) -> int | Outcome:
        return self._copy(arguments, self._task.is64)

    def _sendfile64(self, arguments: Arguments) -> int | Outcome:
        return self._copy(arguments, True)

    def _copy(self, arguments: Arguments, wide: bool) -> int | Outcome:
        target, source = self._writable(arguments[0]), self._readable(arguments[1])
        size = min(arguments[3], PIECE)
        layout = ">q" if wide else ">i"
        if not arguments[2]:
            return self._send(target, source.read(size))
        (offset,) = struct.unpack(layout, self._guest.read(arguments[2], struct.calcsize(layout)))
        if offset < 0:
            raise failure(errno.EINVAL)
        last = LARGEST_OFFSET if wide else _LARGEST_OFFSET_32
        if offset >= last:
            raise failure(errno.EOVERFLOW)
        outcome = self._send(target, source.read_at(min(size, last - offset), offset))
        if isinstance(outcome, int):
            self._guest.write(arguments[2], struct.pack(layout, offset + outcome))
        return outcome

    def _send(self, file: OpenFile, data: bytes) -> int | Outcome:
        try:
            return write(self._guest, data, file, None)
        except BrokenPipeError:
            return Failed(ERRNO["EPIPE"])

    # Offsets and sizes

    def _lseek(self, arguments: Arguments) -> int:
        offset = self._task.signed(arguments[1])
        position = self._seek(arguments[0], offset, arguments[2])
        if not self._task.is64 and position >> 31:
            raise failure(errno.EOVERFLOW)
        return position

    def _llseek(self, arguments: Arguments) -> int:
        offset = self._task.pair(arguments[1], arguments[2])
        position = self._seek(arguments[0], offset, arguments[4])
        self._guest.write(arguments[3], struct.pack(">q", position))
        return 0

    def _seek(self, descriptor: int, offset: int, whence: int) -> int:
        if whence > 4:
            raise failure(errno.EINVAL)
        return self._file(descriptor).seek(offset, whence)

    def _ftruncate(self, arguments: Arguments) -> int:
        return self._resize(arguments[0], self._task.signed(arguments[1]))

    def _ftruncate64(self, arguments: Arguments) -> int:
        if self._task.is64:
            return self._ftruncate(arguments)
        return self._resize(arguments[0], self._task.pair(arguments[1], arguments[2]))

    def _resize(self, descriptor: int, size: int) -> int:
        file = self._file(descriptor)
        if size < 0 or not file.writable:
            raise failure(errno.EINVAL)
        file.resize(size)
        return 0

    def _fallocate(self, arguments: Arguments) -> int:
        file = self._writable(arguments[0])
        if arguments[1] != 0:
            raise failure(errno.EOPNOTSUPP)
        if self._task.is64:
            start, size = (self._task.signed64(value) for value in arguments[2:4])
        else:
            start = self._task.pair(arguments[2], arguments[3])
            size = self._task.pair(arguments[4], arguments[5])
        if start < 0 or size <= 0:
            raise failure(errno.EINVAL)
        if start + size > LARGEST_OFFSET:
            raise failure(errno.EFBIG)
        if file.status().size < start + size:
            file.resize(start + size)
        return 0

    # Descriptors

    def _close(self, arguments: Arguments) -> int:
        self._table.close(self._task.signed32(arguments[0]))
        return 0

    def _close_range(self, arguments: Arguments) -> int:
        first, last = arguments[0] & 0xFFFFFFFF, arguments[1] & 0xFFFFFFFF
        if first > last or arguments[2] & ~4:
            raise failure(errno.EINVAL)
        for number in self._table.numbers():
            if first <= number <= last:
                if arguments[2] & 4:
                    self._table.set_close_on_exec(number, True)
                else:
                    self._table.close(number)
        return 0

    def _dup(self, arguments: Arguments) -> int:
        return self._table.install(self._file(arguments[0]))

    def _dup2(self, arguments: Arguments) -> int:
        old, new = (self._task.signed32(value) for value in arguments[:2])
        file = self._table.get(old)
        return new if old == new else self._table.install(file, at=new)

    def _dup3(self, arguments: Arguments) -> int:
        old, new = (self._task.signed32(value) for value in arguments[:2])
        if old == new or arguments[2] & ~O_CLOEXEC:
            raise failure(errno.EINVAL)
        on_exec = bool(arguments[2] & O_CLOEXEC)
        return self._table.install(self._table.get(old), at=new, on_exec=on_exec)

    def _pipe(self, arguments: Arguments) -> Outcome:
        """SPARC's pipe returns the two descriptors in %o0 and %o1."""
        return Returned(*self._make_pipe(0))

    def _pipe2(self, arguments: Arguments) -> int:
        if arguments[1] & ~(O_CLOEXEC | O_NONBLOCK):
            raise failure(errno.EINVAL)
        self._guest.write(arguments[0], self._guest.read(arguments[0], 8))
        ends = self._make_pipe(arguments[1])
        self._guest.write(arguments[0], struct.pack(">ii", *ends))
        return 0

    def _make_pipe(self, flags: int) -> tuple[int, int]:
        pipe = Pipe(bytearray())
        kept, on_exec = flags & O_NONBLOCK, bool(flags & O_CLOEXEC)
        end = PipeEnd(pipe, kept)
        reader = self._table.install(end, on_exec=on_exec)
        try:
            self._table.keep(end)
            writer = self._table.install(PipeEnd(pipe, kept | 1), on_exec=on_exec)
        except (OSError, OutOfMemory):
            self._table.close(reader)
            raise
        return reader, writer

    def _fcntl(self, arguments: Arguments) -> int:
        number, command, value = self._task.signed32(arguments[0]), arguments[1], arguments[2]
        file = self._table.get(number)
        if command in (_F_DUPFD, _F_DUPFD_CLOEXEC):
            lowest = self._task.signed32(value)
            if lowest < 0:
                raise failure(errno.EINVAL)
            on_exec = command == _F_DUPFD_CLOEXEC
            return self._table.install(file, lowest=lowest, on_exec=on_exec)
        if command == _F_GETFD:
            return int(self._table.closes_on_exec(number))
        if command == _F_SETFD:
            self._table.set_close_on_exec(number, bool(value & 1))
            return 0
        if command == _F_GETFL:
            return file.flags
        if command == _F_SETFL:
            file.set_flags(value)
            return 0
        return self._fcntl_locks(file, command, value)

    def _fcntl_locks(self, file: OpenFile, command: int, value: int) -> int:
        """Locks always succeed: nobody else is there."""
        if command in (_F_GETLK, _F_GETLK64):
            self._guest.write(value, struct.pack(">h", _F_UNLCK))
            return 0
        if command in (_F_SETLK, _F_SETLKW, _F_SETLK64, _F_SETLKW64, _F_GETOWN, _F_SETOWN):
            return 0
        if command in (_F_GETPIPE_SZ, _F_SETPIPE_SZ) and isinstance(file, PipeEnd):
            return 65536
        raise failure(errno.EINVAL)

    def _ioctl(self, arguments: Arguments) -> int:
        number, request = self._task.signed32(arguments[0]), arguments[1] & 0xFFFFFFFF
        file = self._table.get(number)
        if request in (FIOCLEX, FIONCLEX):
            self._table.set_close_on_exec(number, request == FIOCLEX)
            return 0
        if request == _FIONBIO:
            on = any(self._guest.read(arguments[2], 4))
            file.set_flags(file.flags & ~O_NONBLOCK | (O_NONBLOCK if on else 0))
            return 0
        if request == FIONREAD and isinstance(file, HostFile):
            left = file.status().size - file.seek(0, 1)
            self._guest.write(arguments[2], struct.pack(">i", max(0, min(left, 1 << 30))))
            return 0
        raise failure(errno.ENOTTY)

    # Waiting

    def _poll(self, arguments: Arguments) -> int:
        timeout = self._task.signed32(arguments[2])
        nanoseconds = None if timeout < 0 else timeout * 1_000_000
        return self._poll_for(arguments[0], arguments[1], nanoseconds)

    def _ppoll(self, arguments: Arguments) -> int:
        return self._poll_for(arguments[0], arguments[1], self._timeout(arguments[2]))

    def _timeout(self, address: int) -> int | None:
        """Read a timespec of whichever call is being performed; None: wait forever."""
        if not address:
            return None
        wide = self._task.is64 or self._task.call_name.endswith("time64")
        data = self._guest.read(address, structures.timespec_size(wide))
        seconds, nanoseconds = structures.parse_timespec(data, wide)
        if seconds < 0 or not 0 <= nanoseconds < structures.SECOND:
            raise failure(errno.EINVAL)
        return seconds * structures.SECOND + nanoseconds

    def _poll_for(self, address: int, count: int, timeout: int | None) -> int:
        if count > 1024:
            raise failure(errno.EINVAL)
        layout = struct.Struct(">ihh")
        data = self._guest.read(address, count * layout.size)
        ready = 0
        answer = b""
        for number, events, _ in layout.iter_unpack(data):
            happened = self._events(number, events)
            ready += happened != 0
            answer += layout.pack(number, events, happened)
        self._guest.write(address, answer)
        if not ready:
            self._sleep(timeout)
        return ready

    def _events(self, number: int, events: int) -> int:
        if number < 0:
            return 0
        try:
            file = self._table.get(number)
        except OSError:
            return _POLLNVAL
        is_stream = isinstance(file, PipeEnd) or (isinstance(file, HostFile) and file.handle <= 2)
        happened = 0
        if (file.readable or not is_stream) and file.ready(False):
            happened |= _POLL_READABLE
        if (file.writable or not is_stream) and file.ready(True):
            happened |= _POLLOUT
        if isinstance(file, PipeEnd):
            return self._pipe_events(file, happened, events)
        return happened & events

    def _pipe_events(self, end: PipeEnd, happened: int, events: int) -> int:
        """Return the events of a pipe's end: that the other is gone is said even if not asked."""
        if end.is_alone and end.readable:
            return (happened if end.holds_bytes else 0) & events | _POLLHUP
        return happened & events | (_POLLERR if end.is_alone else 0)

    def _sleep(self, nanoseconds: int | None) -> None:
        self._task.sleep(nanoseconds, retry=True)

    def _select(self, arguments: Arguments) -> int:
        count = self._task.signed32(arguments[0])
        if not 0 <= count <= 1024:
            raise failure(errno.EINVAL)
        timeout = self._select_timeout(arguments[4])
        sets = [self._read_set(address, count) for address in arguments[1:4]]
        for number in sets[0] | sets[1] | sets[2]:
            self._table.get(number)
        readers = {n for n in sets[0] if self._events(n, _POLLIN) & (_POLLIN | _POLLHUP | _POLLERR)}
        writers = {n for n in sets[1] if self._events(n, _POLLOUT) & (_POLLOUT | _POLLERR)}
        if not readers and not writers:
            self._sleep(timeout)
        for address, members in zip(arguments[1:4], (readers, writers, set[int]()), strict=True):
            self._write_set(address, members, count)
        return len(readers) + len(writers)

    def _select_timeout(self, address: int) -> int | None:
        if not address or self._task.call_name.startswith("pselect6"):
            return self._timeout(address)
        data = self._guest.read(address, structures.timeval_size(self._task.is64))
        seconds, microseconds = structures.parse_timeval(data, self._task.is64)
        if seconds < 0 or microseconds < 0:
            raise failure(errno.EINVAL)
        return seconds * structures.SECOND + microseconds * 1000

    def _set_layout(self, count: int) -> tuple[int, int]:
        """Return bits per word of an fd_set and how many words `count` bits take."""
        bits = 64 if self._task.is64 else 32
        return bits, -(-count // bits)

    def _read_set(self, address: int, count: int) -> set[int]:
        bits, words = self._set_layout(count)
        if not address:
            return set()
        values = self._task.words(address, words)
        return {n for n in range(count) if values[n // bits] >> n % bits & 1}

    def _write_set(self, address: int, members: set[int], count: int) -> None:
        if not address:
            return
        bits, words = self._set_layout(count)
        values = [0] * words
        for number in members:
            values[number // bits] |= 1 << number % bits
        self._guest.write(address, struct.pack(f">{words}{'Q' if bits == 64 else 'I'}", *values))
