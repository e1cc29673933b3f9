"""System calls on the process: its memory, identity, limits, and small fixed answers."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress

from simprof.simulator.binary.program import PAGE_SIZE, page_up
from simprof.simulator.cpu.address_space import (
    RIGHTS,
    STACK_SIZE,
    GuestFault,
    OutOfMemory,
    Protection,
)
from simprof.simulator.isa import sparc
from simprof.simulator.linux import structures
from simprof.simulator.linux.descriptors import (
    MAX_DESCRIPTORS,
    Device,
    Directory,
    HostFile,
    OpenFile,
)
from simprof.simulator.linux.file_data import PIECE, SharedFiles, SharedMapping
from simprof.simulator.linux.outside import LARGEST_OFFSET, USER
from simprof.simulator.linux.process import PARENT_ID
from simprof.simulator.linux.sandbox import PROCESS_ID, fail_if, failure
from simprof.simulator.linux.task import CallGroup, Perform, Task, failing, nothing

# Takes the host's path of a file, and the address at which it was mapped.
CodeFile = Callable[[bytes, int], None]
_MAP_SHARED_VALIDATE = 3
_MADV_DONTNEED, _MADV_REMOVE, _MADV_DONTNEED_LOCKED = 4, 9, 24
# By width: what stands for no limit, and how soft and hard limits lie in memory.
_LIMITS = {True: ((1 << 64) - 1, struct.Struct(">QQ")), False: (0x7FFFFFFF, struct.Struct(">II"))}
_USUAL_STACK = 8 << 20  # of Linux; C libraries give every thread as much
_RLIMIT_STACK, _RLIMIT_CORE, _RLIMIT_NOFILE, _RLIMIT_COUNT = 3, 4, 6, 16
_SELF = (0, PROCESS_ID)
_DOMAIN = b"(none)\0"

_PR_SET_NAME, _PR_GET_NAME = 15, 16
# PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS
_PR_ANSWERS = {1: 0, 3: 1, 4: 0, 38: 0, 39: 0}


class MemoryCalls(CallGroup):
    """brk, mmap, mremap, munmap, mprotect, madvise, msync."""

    # `on_code_file` hears of files that are mapped from their beginning so that they can be
    # executed.

    def __init__(self, task: Task, on_code_file: CodeFile = lambda *_: None) -> None:
        super().__init__(task)
        self._on_code_file = on_code_file
        self.shared = SharedFiles(self._memory, task.host.check_time)

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "brk: p": self._memory.set_break,
            "mmap: p p p p i l": self._mmap,
            "mmap2: p p p p i P": self._mmap,
            "munmap: p p": self._munmap,
            "mprotect: p p p": self._mprotect,
            "mremap: p p p p p": self._mremap,
            "madvise: p p i": self._madvise,
            "msync: p p": self._msync,
            "mincore: p p >": lambda *of: b"\1" * (self._mapped_range(*of) // PAGE_SIZE),
            "mlock mlock2 munlock mlockall munlockall:": nothing,
        }

    # mmap

    def _mmap(
        self, address: int, length: int, protection: int, flags: int, descriptor: int, offset: int
    ) -> int:
        fail_if(length == 0 or offset % PAGE_SIZE or offset < 0, errno.EINVAL)
        if flags & sparc.MAP_TYPE not in (
            sparc.MAP_SHARED,
            sparc.MAP_PRIVATE,
            _MAP_SHARED_VALIDATE,
        ):
            raise failure(errno.EINVAL)
        if length > self._memory.limit_address:
            raise OutOfMemory("length beyond the address space")
        size = page_up(length)
        rights = Protection(protection & 7)
        file = None
        if not flags & sparc.MAP_ANONYMOUS:
            file = self._mappable(descriptor, flags, rights)
            fail_if(offset + size > LARGEST_OFFSET, errno.EOVERFLOW)
        place = self._place(address, size, flags)
        self.shared.forget(place, size)
        try:
            self._memory.map(place, size, rights)
            if file is not None:
                if flags & sparc.MAP_TYPE == sparc.MAP_PRIVATE:
                    self._fill(place, size, file, offset)
                else:
                    self.shared.add(place, size, file, offset)
        except (OutOfMemory, OSError):
            self.shared.forget(place, size)
            self._memory.unmap(place, size)
            raise
        if isinstance(file, HostFile) and rights & Protection.EXECUTE and offset == 0:
            self._on_code_file(self._task.host.real_path_of(file.handle), place)
        return place

    def _place(self, address: int, size: int, flags: int) -> int:
        if not flags & (sparc.MAP_FIXED | sparc.MAP_FIXED_NOREPLACE):
            return self._memory.find_free(size, address // PAGE_SIZE * PAGE_SIZE)
        fail_if(address % PAGE_SIZE, errno.EINVAL)
        if address + size > self._memory.limit_address:
            raise OutOfMemory("beyond the address space")
        if flags & sparc.MAP_FIXED_NOREPLACE and not self._memory.is_free(address, size):
            raise failure(errno.EEXIST)
        return address

    def _mappable(self, descriptor: int, flags: int, rights: Protection) -> OpenFile | None:
        # None: /dev/zero.
        file = self._task.file(descriptor)
        if isinstance(file, Device) and file.name == "zero":
            return None
        regular = isinstance(file, HostFile) and not isinstance(file, Directory)
        fail_if(not regular or file.status().mode & 0o170000 != 0o100000, errno.ENODEV)
        fail_if(not file.readable, errno.EACCES)
        shared = flags & sparc.MAP_TYPE != sparc.MAP_PRIVATE
        fail_if(shared and rights & Protection.WRITE and not file.writable, errno.EACCES)
        return file

    def _fill(self, place: int, size: int, file: OpenFile, offset: int) -> None:
        self.shared.write_back()
        done = 0
        while done < size:
            self._task.host.check_time()
            data = file.read_at(min(PIECE, size - done), offset + done)
            if not data:
                return
            self._memory.load(place + done, data)
            done += len(data)

    # The others

    def _range(self, address: int, length: int, error: int = errno.ENOMEM) -> int:
        # Check a page-aligned range; return its size in whole pages.
        fail_if(address % PAGE_SIZE, errno.EINVAL)
        size = page_up(length)
        fail_if(address + size > self._memory.limit_address, error)
        return size

    def _munmap(self, address: int, length: int) -> None:
        fail_if(length == 0, errno.EINVAL)
        size = self._range(address, length, errno.EINVAL)
        self.shared.forget(address, size)
        self._memory.unmap(address, size)

    def _mprotect(self, address: int, length: int, protection: int) -> None:
        size = self._range(address, length)
        fail_if(protection & ~0x0300000F, errno.EINVAL)
        if size:
            try:
                self._memory.protect(address, size, Protection(protection & 7))
            except GuestFault:
                raise failure(errno.ENOMEM) from None

    def _rights_at(self, address: int) -> Protection:
        return Protection(self._memory.page_bits(address) & RIGHTS)

    def _mremap(self, old: int, old_length: int, new_length: int, flags: int, fixed: int) -> int:
        if old % PAGE_SIZE or flags & ~(sparc.MREMAP_MAYMOVE | sparc.MREMAP_FIXED):
            raise failure(errno.EINVAL)
        fail_if(not 0 < new_length <= self._memory.limit_address or old_length == 0, errno.EINVAL)
        old_size, new_size = page_up(old_length), page_up(new_length)
        fail_if(not self._memory.is_mapped(old, old_size), errno.EFAULT)
        shared = self.shared.inside(old, old_size)
        if shared is None and self.shared.touches(old, old_size):
            raise failure(errno.EFAULT)
        growth = new_size - old_size
        if flags & sparc.MREMAP_FIXED:
            overlaps = fixed < old + old_size and old < fixed + new_size
            beyond = fixed + new_size > self._memory.limit_address
            if fixed % PAGE_SIZE or not flags & sparc.MREMAP_MAYMOVE or overlaps or beyond:
                raise failure(errno.EINVAL)
            target = fixed
        elif growth <= 0 or (
            old + new_size <= self._memory.limit_address
            and self._memory.is_free(old + old_size, growth)
        ):
            target = old
        elif flags & sparc.MREMAP_MAYMOVE:
            target = self._memory.find_free(new_size)
        else:
            raise failure(errno.ENOMEM)
        if shared is not None:
            self._remap_shared(shared, old, old_size, new_size, target)
        elif target != old:
            self.shared.forget(target, new_size)
            self._move(old, old_size, new_size, target)
        elif growth > 0:
            self._memory.map(old + old_size, growth, self._rights_at(old))
        elif growth < 0:
            self._memory.unmap(old + new_size, -growth)
        return target

    def _remap_shared(
        self, mapping: SharedMapping, old: int, old_size: int, new_size: int, target: int
    ) -> None:
        rights, file = self._rights_at(old), mapping.file
        offset = mapping.offset + old - mapping.address
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

    def _move(self, old: int, old_size: int, new_size: int, target: int) -> None:
        rights = self._rights_at(old)
        self._memory.map(target, new_size, rights)
        self._memory.protect(old, old_size, rights | Protection.READ)
        for start in range(0, min(old_size, new_size), PIECE):
            self._task.host.check_time()
            size = min(PIECE, min(old_size, new_size) - start)
            self._memory.load(target + start, self._memory.read(old + start, size))
        self._memory.unmap(old, old_size)

    def _mapped_range(self, address: int, length: int) -> int:
        # Check a range as `_range`, and that all of it is mapped.
        size = self._range(address, length)
        fail_if(size and not self._memory.is_mapped(address, size), errno.ENOMEM)
        return size

    def _madvise(self, address: int, length: int, advice: int) -> None:
        size = self._range(address, length)
        fail_if(not 0 <= advice <= 25 and advice not in (100, 101), errno.EINVAL)
        self._mapped_range(address, length)
        if advice in (_MADV_DONTNEED, _MADV_REMOVE, _MADV_DONTNEED_LOCKED):
            # Private pages read as zero again, shared ones as the file.
            for mapping in list(self._memory.mappings()):
                start, stop = max(mapping.start, address), min(mapping.end, address + size)
                for first, last in self.shared.others(start, stop):
                    self._memory.map(first, last - first, mapping.protection)

    def _msync(self, address: int, length: int) -> None:
        self._mapped_range(address, length)
        self.shared.write_back()


class ProcessCalls(CallGroup):
    """The process: identity, limits, and small fixed answers."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        # Soft and hard limits by number; None: infinite.
        self._limits: dict[int, tuple[int | None, int | None]] = {
            _RLIMIT_STACK: (min(task.stack_size, _USUAL_STACK), None),
            _RLIMIT_CORE: (0, None),
            _RLIMIT_NOFILE: (MAX_DESCRIPTORS, MAX_DESCRIPTORS),
        }

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "getuid geteuid getgid getegid:": lambda: USER,
            "getuid32 geteuid32 getgid32 getegid32:": lambda: USER,
            "setfsuid setfsgid setfsuid32 setfsgid32:": lambda: USER,
            "getresuid getresgid getresuid32 getresgid32: > > >": lambda: struct.pack(">I", USER),
            "setuid setgid setuid32 setgid32: i": self._set_identity,
            "setreuid setregid setreuid32 setregid32: i i": self._set_identity,
            "setresuid setresgid setresuid32 setresgid32: i i i": self._set_identity,
            "getpid getpgrp setsid:": lambda: PROCESS_ID,
            "getppid:": lambda: PARENT_ID,
            "getpgid getsid: i": self._of_self,
            "setpgid getgroups getgroups32:": nothing,
            "setgroups setgroups32:": failing(errno.EPERM),
            "getrlimit: i >": lambda number: self._encode_limit(number, self._task.is64),
            "setrlimit: i p": lambda number, at: self._change_limit(number, at, self._task.is64),
            "prlimit64: i i p >?": self._prlimit64,
            "getrusage: i >": self._getrusage,
            "sysinfo: >": self._sysinfo,
            "uname: >": structures.utsname,
            "getpagesize:": lambda: PAGE_SIZE,
            "getpriority:": lambda: 20,
            "setpriority nice personality memory_ordering:": nothing,
            "sched_getaffinity sched_get_affinity: - p >": self._affinity,
            "sched_setaffinity sched_set_affinity sched_getscheduler:": nothing,
            "sched_get_priority_max sched_get_priority_min:": nothing,
            "sched_getparam: - >": lambda: bytes(4),
            "getcpu: >? >?": lambda: bytes(4),
            "wait4 waitpid waitid:": failing(errno.ECHILD),
            "getrandom: p p 7": self._getrandom,
            "prctl: i p": self._prctl,
            "getdomainname: > p": self._getdomainname,
        }

    # Identity

    def _set_identity(self, *given: int) -> None:
        fail_if(not set(given) <= {-1, USER}, errno.EPERM)

    def _of_self(self, process: int) -> int:
        fail_if(process not in _SELF, errno.ESRCH)
        return PROCESS_ID

    # Resources

    def _limit(self, resource: int) -> tuple[int | None, int | None]:
        fail_if(not 0 <= resource < _RLIMIT_COUNT, errno.EINVAL)
        return self._limits.get(resource, (None, None))

    def _encode_limit(self, resource: int, wide: bool) -> bytes:
        infinity, layout = _LIMITS[wide]
        limits = (infinity if each is None else each for each in self._limit(resource))
        return layout.pack(*(min(each, infinity) for each in limits))

    def _change_limit(self, resource: int, address: int, wide: bool) -> None:
        # A larger limit makes room for the stack; others bind nothing.
        infinity, layout = _LIMITS[wide]
        given = layout.unpack(self._memory.read(address, layout.size))
        _, old_hard = self._limit(resource)
        soft, hard = (None if value >= infinity else value for value in given)
        if hard is not None and (soft is None or soft > hard):
            raise failure(errno.EINVAL)
        if old_hard is not None and (hard is None or hard > old_hard):
            raise failure(errno.EPERM)
        self._limits[resource] = (soft, hard)
        if resource == _RLIMIT_STACK:
            self._grow_stack(STACK_SIZE if soft is None else min(soft, STACK_SIZE))

    def _grow_stack(self, size: int) -> None:
        # Let the stack have `size` bytes, as far as there are so many below it.
        task = self._task
        low, high = task.stack_top - page_up(size), task.stack_top - task.stack_size
        if low < high and self._memory.is_free(low, high - low):
            with suppress(OutOfMemory):
                self._memory.map(low, high - low, Protection.READ | Protection.WRITE)
                task.stack_size = task.stack_top - low

    def _prlimit64(self, process: int, resource: int, new: int) -> bytes:
        self._of_self(process)
        old = self._encode_limit(resource, True)
        if new:
            self._change_limit(resource, new, True)
        return old

    def _getrusage(self, who: int) -> bytes:
        fail_if(who not in (-1, 0, 1), errno.EINVAL)
        used = 0 if who == -1 else self._task.cpu_time
        return structures.rusage(used, self._task.is64)

    def _sysinfo(self) -> bytes:
        total = self._task.memory_limit
        seconds = self._task.uptime // structures.SECOND
        return structures.sysinfo(seconds, total, total // 2, self._task.is64)

    def _affinity(self, size: int) -> tuple[int, bytes]:
        word = 8 if self._task.is64 else 4
        fail_if(size < word or size % word, errno.EINVAL)
        return word, (1).to_bytes(word, "big")

    # Others

    def _getrandom(self, address: int, size: int, flags: int) -> int:
        count = min(size, 1 << 25)
        usable = self._memory.usable(address, count, Protection.WRITE)
        if count and not usable:
            raise GuestFault(address)
        for done in range(0, usable, PIECE):
            data = self._task.random.take(min(PIECE, usable - done))
            self._memory.write(address + done, data)
        return usable

    def _prctl(self, option: int, address: int) -> int:
        if option == _PR_SET_NAME:
            self._task.name = self._memory.read_string(address)[:15]
        elif option == _PR_GET_NAME:
            self._memory.write(address, self._task.name.ljust(16, b"\0"))
        elif option not in _PR_ANSWERS:
            raise failure(errno.EINVAL)
        return _PR_ANSWERS.get(option, 0)

    def _getdomainname(self, size: int) -> bytes:
        fail_if(size < len(_DOMAIN), errno.EINVAL)
        return _DOMAIN
