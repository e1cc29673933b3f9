"""System calls on descriptors: reading, writing, seeking, dup, pipes, fcntl, ioctl, poll."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from functools import partial

from simprof.simulator.cpu.address_space import OutOfMemory
from simprof.simulator.isa.sparc import FIOCLEX, FIONCLEX, FIONREAD, O_CLOEXEC, O_NONBLOCK
from simprof.simulator.linux import structures
from simprof.simulator.linux.descriptors import PIPE_SIZE, HostFile, OpenFile, Pipe, PipeEnd
from simprof.simulator.linux.file_data import PIECE, Vectors, read_into, write, write_from
from simprof.simulator.linux.guest import Returned
from simprof.simulator.linux.outside import LARGEST_OFFSET
from simprof.simulator.linux.sandbox import fail_if, failure
from simprof.simulator.linux.task import CallGroup, Perform, Task, nothing

_POLLIN, _POLLOUT, _POLLERR, _POLLHUP, _POLLNVAL = 0x1, 0x4, 0x8, 0x10, 0x20
_POLL_READABLE = _POLLIN | 0x40  # POLLRDNORM; POLLWRNORM is POLLOUT here
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_GETOWN, _F_SETOWN = range(7)
_F_GETLK, _F_SETLK, _F_SETLKW = 7, 8, 9
_F_GETLK64, _F_SETLK64, _F_SETLKW64 = 12, 13, 14
_F_DUPFD_CLOEXEC, _F_SETPIPE_SZ, _F_GETPIPE_SZ = 1030, 1031, 1032
_F_UNLCK = 3
# Locks always succeed: nobody else is there.
_NO_EFFECT = (_F_SETLK, _F_SETLKW, _F_SETLK64, _F_SETLKW64, _F_GETOWN, _F_SETOWN)
_LARGEST_OFFSET_32 = (1 << 31) - 1
_FIONBIO = 0x8004667E
_CLOSE_RANGE_CLOEXEC = 4


class DescriptorCalls(CallGroup):
    """Reading and writing."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._table = task.descriptors
        self._check_time = task.host.check_time

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "read: r b": self._read,
            "readv: r v": self._read,
            "pread64: r b o": self._read,
            "preadv: r v O": self._read,
            "write: w b": self._write,
            "writev: w v": self._write,
            "pwrite64: w b o": self._write,
            "pwritev: w v O": self._write,
            "sendfile: w r p p": partial(self._copy, wide=self._task.is64),
            "sendfile64: w r p p": partial(self._copy, wide=True),
            "lseek: i l p": self._lseek,
            "_llseek: i h > p": lambda *of: struct.pack(">q", self._seek(*of)),
            "ftruncate: f l": self._resize,
            "ftruncate64: f q": self._resize,
            "fallocate: w p q q": self._fallocate,
            "flock fsync fdatasync syncfs readahead sync_file_range: f": nothing,
            "fadvise64 fadvise64_64: f": nothing,
            "sync:": nothing,
            "close: i": self._table.close,
            "close_range: u u p": self._close_range,
            "dup: f": self._table.install,
            "dup2: i i": self._dup2,
            "dup3: i i p": self._dup3,
            "pipe:": lambda: Returned(*self._make_pipe(0)),  # SPARC's: in %o0 and %o1
            f"pipe2: p {O_CLOEXEC | O_NONBLOCK}": self._pipe2,
            "fcntl fcntl64: i p p": self._fcntl,
            "ioctl: i u p": self._ioctl,
            "poll: p p m": self._poll,
            "ppoll ppoll_time64: p p t": self._poll,
            "select _newselect pselect6 pselect6_time64: i p p p p": self._select,
        }

    # Reading and writing

    def _read(self, file: OpenFile, buffers: Vectors, offset: int | None = None) -> int:
        return read_into(self._guest, buffers, file, offset, self._check_time)

    def _write(self, file: OpenFile, buffers: Vectors, offset: int | None = None) -> int:
        return write_from(self._guest, buffers, file, offset, self._check_time)

    def _copy(
        self, target: OpenFile, source: OpenFile, address: int, size: int, *, wide: bool
    ) -> int:
        size = min(size, PIECE)
        layout = struct.Struct(">q" if wide else ">i")
        if not address:
            return write(self._guest, source.read(size), target, None)
        (offset,) = layout.unpack(self._memory.read(address, layout.size))
        fail_if(offset < 0, errno.EINVAL)
        last = LARGEST_OFFSET if wide else _LARGEST_OFFSET_32
        fail_if(offset >= last, errno.EOVERFLOW)
        data = source.read_at(min(size, last - offset), offset)
        count = write(self._guest, data, target, None)
        self._memory.write(address, layout.pack(offset + count))
        return count

    # Offsets and sizes

    def _lseek(self, number: int, offset: int, whence: int) -> int:
        position = self._seek(number, offset, whence)
        fail_if(not self._task.is64 and position >> 31, errno.EOVERFLOW)
        return position

    def _seek(self, number: int, offset: int, whence: int) -> int:
        fail_if(whence > 4, errno.EINVAL)
        return self._table.get(number).seek(offset, whence)

    def _resize(self, file: OpenFile, size: int) -> None:
        fail_if(size < 0 or not file.writable, errno.EINVAL)
        file.resize(size)

    def _fallocate(self, file: OpenFile, mode: int, start: int, size: int) -> None:
        fail_if(mode != 0, errno.EOPNOTSUPP)
        fail_if(start < 0 or size <= 0, errno.EINVAL)
        fail_if(start + size > LARGEST_OFFSET, errno.EFBIG)
        if file.status().size < start + size:
            file.resize(start + size)

    # Descriptors

    def _close_range(self, first: int, last: int, flags: int) -> None:
        fail_if(first > last or flags & ~_CLOSE_RANGE_CLOEXEC, errno.EINVAL)
        for number in self._table.numbers():
            if first <= number <= last:
                if flags:
                    self._table.set_close_on_exec(number, True)
                else:
                    self._table.close(number)

    def _dup2(self, old: int, new: int) -> int:
        file = self._table.get(old)
        return new if old == new else self._table.install(file, at=new)

    def _dup3(self, old: int, new: int, flags: int) -> int:
        fail_if(old == new or flags & ~O_CLOEXEC, errno.EINVAL)
        return self._table.install(self._table.get(old), at=new, on_exec=bool(flags))

    def _pipe2(self, address: int, flags: int) -> None:
        self._memory.write(address, self._memory.read(address, 8))  # fails before there is a pipe
        self._memory.write(address, struct.pack(">ii", *self._make_pipe(flags)))

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

    def _fcntl(self, number: int, command: int, value: int) -> int:
        file = self._table.get(number)
        if command in (_F_DUPFD, _F_DUPFD_CLOEXEC):
            lowest = self._task.signed32(value)
            fail_if(lowest < 0, errno.EINVAL)
            on_exec = command == _F_DUPFD_CLOEXEC
            return self._table.install(file, lowest=lowest, on_exec=on_exec)
        if command == _F_GETFD:
            return int(number in self._table.closed_on_exec)
        if command == _F_GETFL:
            return file.flags
        if command in (_F_GETPIPE_SZ, _F_SETPIPE_SZ) and isinstance(file, PipeEnd):
            return PIPE_SIZE
        if command == _F_SETFD:
            self._table.set_close_on_exec(number, bool(value & 1))
        elif command == _F_SETFL:
            file.set_flags(value)
        elif command in (_F_GETLK, _F_GETLK64):
            self._memory.write(value, struct.pack(">h", _F_UNLCK))
        elif command not in _NO_EFFECT:
            raise failure(errno.EINVAL)
        return 0

    def _ioctl(self, number: int, request: int, address: int) -> None:
        file = self._table.get(number)
        if request in (FIOCLEX, FIONCLEX):
            self._table.set_close_on_exec(number, request == FIOCLEX)
        elif request == _FIONBIO:
            on = any(self._memory.read(address, 4))
            file.set_flags(file.flags & ~O_NONBLOCK | (O_NONBLOCK if on else 0))
        elif request == FIONREAD and isinstance(file, HostFile):
            left = file.status().size - file.seek(0, 1)
            self._memory.write(address, struct.pack(">i", max(0, min(left, 1 << 30))))
        else:
            raise failure(errno.ENOTTY)

    # Waiting

    def _poll(self, address: int, count: int, timeout: int | None) -> int:
        fail_if(count > 1024, errno.EINVAL)
        layout = struct.Struct(">ihh")
        data = self._memory.read(address, count * layout.size)
        ready = 0
        answer = b""
        for number, events, _ in layout.iter_unpack(data):
            happened = self._events(number, events)
            ready += happened != 0
            answer += layout.pack(number, events, happened)
        self._memory.write(address, answer)
        if not ready:
            self._task.sleep(timeout, retry=True)
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
            # That the other end is gone is said even if not asked.
            if file.is_alone and file.readable:
                return (happened if file.holds_bytes else 0) & events | _POLLHUP
            return happened & events | (_POLLERR if file.is_alone else 0)
        return happened & events

    def _select(self, count: int, readers: int, writers: int, exceptions: int, timeout: int) -> int:
        fail_if(not 0 <= count <= 1024, errno.EINVAL)
        nanoseconds = self._select_timeout(timeout)
        sets = [self._read_set(address, count) for address in (readers, writers, exceptions)]
        for number in sets[0] | sets[1] | sets[2]:
            self._table.get(number)
        over = _POLLHUP | _POLLERR
        can_read = {n for n in sets[0] if self._events(n, _POLLIN) & (_POLLIN | over)}
        can_write = {n for n in sets[1] if self._events(n, _POLLOUT) & (_POLLOUT | _POLLERR)}
        if not can_read and not can_write:
            self._task.sleep(nanoseconds, retry=True)
        self._write_set(readers, can_read, count)
        self._write_set(writers, can_write, count)
        self._write_set(exceptions, set(), count)
        return len(can_read) + len(can_write)

    def _select_timeout(self, address: int) -> int | None:
        if not address:
            return None
        if self._task.call_name.startswith("pselect6"):
            return self._task.duration(address)
        layout = structures.TIMEVAL[self._task.is64]
        seconds, microseconds = layout.unpack(self._memory.read(address, layout.size))
        fail_if(seconds < 0 or microseconds < 0, errno.EINVAL)
        return int(seconds * structures.SECOND + microseconds * 1000)

    def _read_set(self, address: int, count: int) -> set[int]:
        if not address:
            return set()
        bits = 64 if self._task.is64 else 32
        values = self._task.words(address, -(-count // bits))
        return {n for n in range(count) if values[n // bits] >> n % bits & 1}

    def _write_set(self, address: int, members: set[int], count: int) -> None:
        if not address:
            return
        bits = 64 if self._task.is64 else 32
        values = [0] * -(-count // bits)
        for number in members:
            values[number // bits] |= 1 << number % bits
        data = b"".join(value.to_bytes(bits // 8, "big") for value in values)
        self._memory.write(address, data)
