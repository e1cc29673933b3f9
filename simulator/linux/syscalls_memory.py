"""System calls on the address space: brk, mmap and its family."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from simprof.simulator.binary.program import page_up
from simprof.simulator.cpu import guest
from simprof.simulator.cpu.guest import PAGE_SIZE, GuestFault, OutOfMemory, Protection
from simprof.simulator.isa.sparc import (
    MAP_ANONYMOUS,
    MAP_FIXED,
    MAP_FIXED_NOREPLACE,
    MAP_PRIVATE,
    MAP_SHARED,
    MAP_TYPE,
    MREMAP_FIXED,
    MREMAP_MAYMOVE,
)
from simprof.simulator.linux.descriptors import Device, Directory, HostFile, OpenFile
from simprof.simulator.linux.file_data import SharedFiles
from simprof.simulator.linux.outside import LARGEST_OFFSET
from simprof.simulator.linux.sandbox import failure
from simprof.simulator.linux.task import Arguments, Handler, Task

CodeFile = Callable[[bytes, int], None]
"""Takes the host's path of a file, and the address at which it was mapped."""

_MAP_SHARED_VALIDATE = 3
_MMAP2_UNIT = 4096  # mmap2 counts its offset in these, whatever the page size
_MADV_DONTNEED, _MADV_REMOVE, _MADV_DONTNEED_LOCKED = 4, 9, 24
_CHUNK = 1 << 20


class MemoryCalls:
    """brk, mmap, mremap, munmap, mprotect, madvise, msync.

    `task`: The process. `on_code_file`: Told of files that are mapped from their beginning so that
    they can be executed.
    """

    def __init__(self, task: Task, on_code_file: CodeFile = lambda *_: None) -> None:
        self._task = task
        self._on_code_file = on_code_file
        self._memory: guest.Memory = task.guest.memory
        self.shared = SharedFiles(self._memory, task.host.check_time)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        nothing: Handler = lambda _: 0  # noqa: E731 - a table entry
        return {
            "brk": lambda a: self._memory.set_break(a[0]),
            "mmap": lambda a: self._mmap(a, self._task.signed(a[5])),
            "mmap2": lambda a: self._mmap(a, (a[5] & 0xFFFFFFFF) * _MMAP2_UNIT),
            "munmap": self._munmap,
            "mprotect": self._mprotect,
            "mremap": self._mremap,
            "madvise": self._madvise,
            "msync": self._msync,
            "mincore": self._mincore,
            "mlock": nothing,
            "mlock2": nothing,
            "munlock": nothing,
            "mlockall": nothing,
            "munlockall": nothing,
        }

    # mmap

    def _mmap(self, arguments: Arguments, offset: int) -> int:
        address, length, protection, flags = arguments[:4]
        if length == 0 or offset % PAGE_SIZE or offset < 0:
            raise failure(errno.EINVAL)
        if flags & MAP_TYPE not in (MAP_SHARED, MAP_PRIVATE, _MAP_SHARED_VALIDATE):
            raise failure(errno.EINVAL)
        if length > self._memory.limit_address:
            raise OutOfMemory("length beyond the address space")
        size = page_up(length)
        rights = Protection(protection & 7)
        file = None
        if not flags & MAP_ANONYMOUS:
            file = self._mappable(arguments[4], flags, rights)
            if offset + size > LARGEST_OFFSET:
                raise failure(errno.EOVERFLOW)
        place = self._place(address, size, flags)
        self.shared.forget(place, size)
        try:
            self._memory.map(place, size, rights)
            if file is not None:
                self._put(place, size, file, offset, flags)
        except (OutOfMemory, OSError):
            self.shared.forget(place, size)
            self._memory.unmap(place, size)
            raise
        if file is not None and rights & Protection.EXECUTE and offset == 0:
            self._note_code(file, place)
        return place

    def _put(self, place: int, size: int, file: OpenFile, offset: int, flags: int) -> None:
        if flags & MAP_TYPE == MAP_PRIVATE:
            self._fill(place, size, file, offset)
        else:
            self.shared.add(place, size, file, offset)

    def _note_code(self, file: OpenFile, place: int) -> None:
        if isinstance(file, HostFile):
            self._on_code_file(self._task.host.real_path_of(file.handle), place)

    def _place(self, address: int, size: int, flags: int) -> int:
        if not flags & (MAP_FIXED | MAP_FIXED_NOREPLACE):
            return self._memory.find_free(size, address // PAGE_SIZE * PAGE_SIZE)
        if address % PAGE_SIZE:
            raise failure(errno.EINVAL)
        if address + size > self._memory.limit_address:
            raise OutOfMemory("beyond the address space")
        if flags & MAP_FIXED_NOREPLACE and not self._memory.is_free(address, size):
            raise failure(errno.EEXIST)
        return address

    def _mappable(self, descriptor: int, flags: int, rights: Protection) -> OpenFile | None:
        """Return the file to map, None for /dev/zero."""
        file = self._task.descriptors.get(self._task.signed32(descriptor))
        if isinstance(file, Device) and file.name == "zero":
            return None
        regular = isinstance(file, HostFile) and not isinstance(file, Directory)
        if not regular or file.status().mode & 0o170000 != 0o100000:
            raise failure(errno.ENODEV)
        if not file.readable:
            raise failure(errno.EACCES)
        shared = flags & MAP_TYPE != MAP_PRIVATE
        if shared and rights & Protection.WRITE and not file.writable:
            raise failure(errno.EACCES)
        return file

    def _fill(self, place: int, size: int, file: OpenFile, offset: int) -> None:
        self.shared.write_back()
        done = 0
        while done < size:
            self._task.host.check_time()
            data = file.read_at(min(_CHUNK, size - done), offset + done)
            if not data:
                return
            self._memory.load(place + done, data)
            done += len(data)

    # The others

    def _range(self, address: int, length: int) -> int:
        """Check a page-aligned range; return its size in whole pages."""
        if address % PAGE_SIZE:
            raise failure(errno.EINVAL)
        size = page_up(length)
        if address + size > self._memory.limit_address:
            raise failure(errno.ENOMEM)
        return size

    def _munmap(self, arguments: Arguments) -> int:
        address, length = arguments[:2]
        if address % PAGE_SIZE or length == 0:
            raise failure(errno.EINVAL)
        size = page_up(length)
        if address + size > self._memory.limit_address:
            raise failure(errno.EINVAL)
        self.shared.forget(address, size)
        self._memory.unmap(address, size)
        return 0

    def _mprotect(self, arguments: Arguments) -> int:
        address, length, protection = arguments[:3]
        size = self._range(address, length)
        if protection & ~0x0300000F:
            raise failure(errno.EINVAL)
        if size:
            try:
                self._memory.protect(address, size, Protection(protection & 7))
            except GuestFault:
                raise failure(errno.ENOMEM) from None
        return 0

    def _rights_at(self, address: int, size: int) -> Protection:
        for mapping in self._memory.mappings():
            if mapping.start <= address < mapping.end:
                return mapping.protection
        raise failure(errno.EFAULT)

    def _mremap(self, arguments: Arguments) -> int:
        old, old_length, new_length, flags, fixed = arguments[:5]
        if old % PAGE_SIZE or flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED) or new_length == 0:
            raise failure(errno.EINVAL)
        if new_length > self._memory.limit_address or old_length == 0:
            raise failure(errno.EINVAL)
        old_size, new_size = page_up(old_length), page_up(new_length)
        if not self._memory.is_mapped(old, old_size):
            raise failure(errno.EFAULT)
        if self.shared.touches(old, old_size):
            return self._remap_shared(old, old_size, new_size, flags, fixed)
        if flags & MREMAP_FIXED:
            return self._move_fixed(old, old_size, new_size, flags, fixed)
        if new_size <= old_size:
            if new_size < old_size:
                self._memory.unmap(old + new_size, old_size - new_size)
            return old
        rights = self._rights_at(old, old_size)
        growth = new_size - old_size
        end = old + new_size
        if end <= self._memory.limit_address and self._memory.is_free(old + old_size, growth):
            self._memory.map(old + old_size, growth, rights)
            return old
        if not flags & MREMAP_MAYMOVE:
            raise failure(errno.ENOMEM)
        return self._move(old, old_size, new_size, self._memory.find_free(new_size))

    def _remap_shared(self, old: int, old_size: int, new_size: int, flags: int, target: int) -> int:
        """Move or resize a part of one shared mapping."""
        mapping = self.shared.inside(old, old_size)
        if mapping is None:
            raise failure(errno.EFAULT)
        rights, file = self._rights_at(old, old_size), mapping.file
        offset = mapping.offset + old - mapping.address
        growth = new_size - old_size
        in_place = growth <= 0 or (
            old + new_size <= self._memory.limit_address
            and self._memory.is_free(old + old_size, growth)
        )
        if flags & MREMAP_FIXED:
            self._check_target(old, old_size, new_size, flags, target)
        elif in_place:
            target = old
        elif flags & MREMAP_MAYMOVE:
            target = self._memory.find_free(new_size)
        else:
            raise failure(errno.ENOMEM)
        file.references += 1  # it stays while its old mapping goes
        try:
            for place, size in ((old, old_size), (target, new_size)):
                self.shared.forget(place, size)
                self._memory.unmap(place, size)
            self._memory.map(target, new_size, rights)
            self.shared.add(target, new_size, file, offset)
        except (OutOfMemory, OSError):
            self._memory.unmap(target, new_size)
            raise
        finally:
            file.references -= 1
        return target

    def _move_fixed(self, old: int, old_size: int, new_size: int, flags: int, target: int) -> int:
        self._check_target(old, old_size, new_size, flags, target)
        self.shared.forget(target, new_size)
        return self._move(old, old_size, new_size, target)

    def _check_target(
        self, old: int, old_size: int, new_size: int, flags: int, target: int
    ) -> None:
        overlaps = target < old + old_size and old < target + new_size
        if target % PAGE_SIZE or not flags & MREMAP_MAYMOVE or overlaps:
            raise failure(errno.EINVAL)
        if target + new_size > self._memory.limit_address:
            raise failure(errno.EINVAL)

    def _move(self, old: int, old_size: int, new_size: int, target: int) -> int:
        rights = self._rights_at(old, old_size)
        self._memory.map(target, new_size, rights)
        self._memory.protect(old, old_size, rights | Protection.READ)
        for start in range(0, min(old_size, new_size), _CHUNK):
            self._task.host.check_time()
            size = min(_CHUNK, min(old_size, new_size) - start)
            self._memory.load(target + start, self._memory.read(old + start, size))
        self._memory.unmap(old, old_size)
        return target

    def _madvise(self, arguments: Arguments) -> int:
        address, length, advice = arguments[0], arguments[1], self._task.signed32(arguments[2])
        size = self._range(address, length)
        if not 0 <= advice <= 25 and advice not in (100, 101):
            raise failure(errno.EINVAL)
        if size and not self._memory.is_mapped(address, size):
            raise failure(errno.ENOMEM)
        if advice in (_MADV_DONTNEED, _MADV_REMOVE, _MADV_DONTNEED_LOCKED):
            self._discard(address, size)
        return 0

    def _discard(self, address: int, size: int) -> None:
        """MADV_DONTNEED: private pages read as zero again, shared ones as the file."""
        end = address + size
        for mapping in list(self._memory.mappings()):
            start, stop = max(mapping.start, address), min(mapping.end, end)
            for first, last in self.shared.others(start, stop):
                self._memory.map(first, last - first, mapping.protection)

    def _msync(self, arguments: Arguments) -> int:
        size = self._range(arguments[0], arguments[1])
        if size and not self._memory.is_mapped(arguments[0], size):
            raise failure(errno.ENOMEM)
        self.shared.write_back()
        return 0

    def _mincore(self, arguments: Arguments) -> int:
        size = self._range(arguments[0], arguments[1])
        if size and not self._memory.is_mapped(arguments[0], size):
            raise failure(errno.ENOMEM)
        self._task.guest.write(arguments[2], b"\1" * (size // PAGE_SIZE))
        return 0
