"""System calls on the process itself: exit, identity, limits, time, and small fixed answers."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from contextlib import suppress

from simprof.simulator.binary.program import page_up
from simprof.simulator.cpu.address_space import STACK_SIZE
from simprof.simulator.cpu.guest import PAGE_SIZE, GuestFault, OutOfMemory, Protection
from simprof.simulator.linux import structures
from simprof.simulator.linux.descriptors import MAX_DESCRIPTORS
from simprof.simulator.linux.file_data import PIECE
from simprof.simulator.linux.outside import USER
from simprof.simulator.linux.process import CLOCK_TICKS, PARENT_ID
from simprof.simulator.linux.sandbox import PROCESS_ID, failure
from simprof.simulator.linux.task import Arguments, Handler, ServiceMissingError, Task

_INFINITY_64 = (1 << 64) - 1
_INFINITY_32 = 0x7FFFFFFF
_USUAL_STACK = 8 << 20  # of Linux; C libraries give every thread as much
_RLIMIT_STACK, _RLIMIT_CORE, _RLIMIT_NOFILE, _RLIMIT_COUNT = 3, 4, 6, 16
_SELF = (0, PROCESS_ID)

_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 1, 3, 4
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 15, 16, 38, 39

_CLOCK_THREAD = 3
_CPU_CLOCKS = frozenset({2, _CLOCK_THREAD})  # PROCESS_CPUTIME_ID, THREAD_CPUTIME_ID
_WALL_CLOCKS = frozenset({0, 5, 8, 11})  # REALTIME, its coarse and alarm forms, TAI
_UP_CLOCKS = frozenset({1, 4, 6, 7, 9})  # MONOTONIC, its raw and coarse forms, BOOTTIME
_TIMER_ABSTIME = 1


class ProcessCalls:
    """The process.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        # Soft and hard limits by number; None: infinite.
        self._limits: dict[int, tuple[int | None, int | None]] = {
            _RLIMIT_STACK: (min(task.stack_size, _USUAL_STACK), None),
            _RLIMIT_CORE: (0, None),
            _RLIMIT_NOFILE: (MAX_DESCRIPTORS, MAX_DESCRIPTORS),
        }

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {**self._identity(), **self._resources(), **self._others()}

    def _identity(self) -> Mapping[str, Handler]:
        table: dict[str, Handler] = {
            name: lambda _: USER
            for base in ("getuid", "geteuid", "getgid", "getegid")
            for name in (base, f"{base}32")
        }
        for name in ("getresuid", "getresgid"):
            table[name] = table[f"{name}32"] = self._get_three
        for name in ("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid"):
            table[name] = table[f"{name}32"] = self._set_identity
        for name in ("setfsuid", "setfsgid", "setfsuid32", "setfsgid32"):
            table[name] = lambda _: USER
        for name in ("getpid", "getpgrp", "setsid"):
            table[name] = lambda _: PROCESS_ID
        table["getppid"] = lambda _: PARENT_ID
        table["getpgid"] = table["getsid"] = self._of_self
        table["setpgid"] = lambda _: 0
        table["getgroups"] = table["getgroups32"] = lambda _: 0
        table["setgroups"] = table["setgroups32"] = lambda _: _fail(errno.EPERM)
        return table

    def _resources(self) -> Mapping[str, Handler]:
        return {
            "getrlimit": self._getrlimit,
            "setrlimit": self._setrlimit,
            "prlimit64": self._prlimit64,
            "getrusage": self._getrusage,
            "sysinfo": self._sysinfo,
            "uname": self._uname,
            "getpagesize": lambda _: PAGE_SIZE,
            "getpriority": lambda _: 20,
            "setpriority": lambda _: 0,
            "nice": lambda _: 0,
            "sched_getaffinity": self._affinity,
            "sched_get_affinity": self._affinity,
            "sched_setaffinity": lambda _: 0,
            "sched_set_affinity": lambda _: 0,
            "sched_getscheduler": lambda _: 0,
            "sched_getparam": self._sched_getparam,
            "sched_get_priority_max": lambda _: 0,
            "sched_get_priority_min": lambda _: 0,
            "getcpu": self._getcpu,
        }

    def _others(self) -> Mapping[str, Handler]:
        return {
            "wait4": lambda _: _fail(errno.ECHILD),
            "waitpid": lambda _: _fail(errno.ECHILD),
            "waitid": lambda _: _fail(errno.ECHILD),
            "getrandom": self._getrandom,
            "personality": lambda _: 0,
            "prctl": self._prctl,
            "memory_ordering": lambda _: 0,
            "getdomainname": self._getdomainname,
        }

    # Identity

    def _get_three(self, arguments: Arguments) -> int:
        for address in arguments[:3]:
            self._guest.write(address, struct.pack(">I", USER))
        return 0

    def _set_identity(self, arguments: Arguments) -> int:
        count = 3 if "res" in self._task.call_name else 2 if "re" in self._task.call_name else 1
        given = {self._task.signed32(value) for value in arguments[:count]}
        return 0 if given <= {-1, USER} else _fail(errno.EPERM)

    def _of_self(self, arguments: Arguments) -> int:
        return PROCESS_ID if self._task.signed32(arguments[0]) in _SELF else _fail(errno.ESRCH)

    # Resources

    def _limit(self, resource: int) -> tuple[int | None, int | None]:
        if not 0 <= resource < _RLIMIT_COUNT:
            raise failure(errno.EINVAL)
        return self._limits.get(resource, (None, None))

    def _encode_limit(self, resource: int, wide: bool) -> bytes:
        infinity = _INFINITY_64 if wide else _INFINITY_32
        values = [
            infinity if value is None else min(value, infinity) for value in self._limit(resource)
        ]
        return struct.pack(">QQ" if wide else ">II", *values)

    def _change_limit(self, resource: int, data: bytes, wide: bool) -> None:
        """Remember a new limit. A larger one makes room for the stack; others bind nothing."""
        infinity = _INFINITY_64 if wide else _INFINITY_32
        _, old_hard = self._limit(resource)
        given = struct.unpack(">QQ" if wide else ">II", data)
        soft, hard = (None if value >= infinity else value for value in given)
        if hard is not None and (soft is None or soft > hard):
            raise failure(errno.EINVAL)
        if old_hard is not None and (hard is None or hard > old_hard):
            raise failure(errno.EPERM)
        self._limits[resource] = (soft, hard)
        if resource == _RLIMIT_STACK:
            self._grow_stack(STACK_SIZE if soft is None else min(soft, STACK_SIZE))

    def _grow_stack(self, size: int) -> None:
        """Let the stack have `size` bytes, as far as there are so many below it."""
        task = self._task
        low, high = task.stack_top - page_up(size), task.stack_top - task.stack_size
        if low < high and self._guest.memory.is_free(low, high - low):
            with suppress(OutOfMemory):
                self._guest.memory.map(low, high - low, Protection.READ | Protection.WRITE)
                task.stack_size = task.stack_top - low

    def _getrlimit(self, arguments: Arguments) -> int:
        resource = self._task.signed32(arguments[0])
        self._guest.write(arguments[1], self._encode_limit(resource, self._task.is64))
        return 0

    def _setrlimit(self, arguments: Arguments) -> int:
        data = self._guest.read(arguments[1], 16 if self._task.is64 else 8)
        self._change_limit(self._task.signed32(arguments[0]), data, self._task.is64)
        return 0

    def _prlimit64(self, arguments: Arguments) -> int:
        process, resource = (self._task.signed32(value) for value in arguments[:2])
        if process not in _SELF:
            raise failure(errno.ESRCH)
        old = self._encode_limit(resource, True)
        if arguments[2]:
            self._change_limit(resource, self._guest.read(arguments[2], 16), True)
        if arguments[3]:
            self._guest.write(arguments[3], old)
        return 0

    def _getrusage(self, arguments: Arguments) -> int:
        who = self._task.signed32(arguments[0])
        if who not in (-1, 0, 1):
            raise failure(errno.EINVAL)
        used = 0 if who == -1 else self._task.cpu_time
        self._guest.write(arguments[1], structures.rusage(used, self._task.is64))
        return 0

    def _sysinfo(self, arguments: Arguments) -> int:
        total = self._task.memory_limit
        seconds = self._task.uptime // structures.SECOND
        data = structures.sysinfo(seconds, total, total // 2, self._task.is64)
        self._guest.write(arguments[0], data)
        return 0

    def _uname(self, arguments: Arguments) -> int:
        self._guest.write(arguments[0], structures.utsname())
        return 0

    def _affinity(self, arguments: Arguments) -> int:
        word = 8 if self._task.is64 else 4
        if arguments[1] < word or arguments[1] % word:
            raise failure(errno.EINVAL)
        self._guest.write(arguments[2], (1).to_bytes(word, "big"))
        return word

    def _sched_getparam(self, arguments: Arguments) -> int:
        self._guest.write(arguments[1], bytes(4))
        return 0

    def _getcpu(self, arguments: Arguments) -> int:
        for address in arguments[:2]:
            if address:
                self._guest.write(address, bytes(4))
        return 0

    # Others

    def _getrandom(self, arguments: Arguments) -> int:
        count = min(arguments[1], 1 << 25)
        if arguments[2] & ~7:
            raise failure(errno.EINVAL)
        usable = self._guest.memory.usable(arguments[0], count, Protection.WRITE)
        if count and not usable:
            raise GuestFault(arguments[0])
        for done in range(0, usable, PIECE):
            data = self._task.random.take(min(PIECE, usable - done))
            self._guest.write(arguments[0] + done, data)
        return usable

    def _prctl(self, arguments: Arguments) -> int:
        option, address = self._task.signed32(arguments[0]), arguments[1]
        if option in (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS):
            return 0
        if option == _PR_GET_DUMPABLE:
            return 1
        if option == _PR_GET_NO_NEW_PRIVS:
            return 0
        if option == _PR_SET_NAME:
            self._task.name = self._guest.read_string(address)[:15]
            return 0
        if option == _PR_GET_NAME:
            self._guest.write(address, self._task.name.ljust(16, b"\0"))
            return 0
        return _fail(errno.EINVAL)

    def _getdomainname(self, arguments: Arguments) -> int:
        name = b"(none)\0"
        if arguments[1] < len(name):
            raise failure(errno.EINVAL)
        self._guest.write(arguments[0], name)
        return 0


class TimeCalls:
    """Virtual time: it advances with executed instructions and with sleeping.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {
            "time": self._time,
            "gettimeofday": self._gettimeofday,
            "clock_gettime": self._clock_gettime,
            "clock_gettime64": self._clock_gettime,
            "clock_getres": self._clock_getres,
            "clock_getres_time64": self._clock_getres,
            "clock_nanosleep": self._clock_nanosleep,
            "clock_nanosleep_time64": self._clock_nanosleep,
            "nanosleep": self._nanosleep,
            "times": self._times,
            "alarm": self._alarm,
            "getitimer": self._getitimer,
            "setitimer": self._setitimer,
            "settimeofday": lambda _: _fail(errno.EPERM),
            "clock_settime": lambda _: _fail(errno.EPERM),
            "clock_settime64": lambda _: _fail(errno.EPERM),
            "stime": lambda _: _fail(errno.EPERM),
        }

    @property
    def _wide(self) -> bool:
        return self._task.is64 or self._task.call_name.endswith("64")

    def _read_clock(self, number: int) -> int:
        clock = self._task.signed32(number)
        if clock in _WALL_CLOCKS:
            return self._task.now
        if clock in _UP_CLOCKS:
            return self._task.uptime
        if clock == _CLOCK_THREAD:
            return self._guest.threads.instructions
        # Negative numbers are clocks of processes and threads; the only one is this.
        if clock in _CPU_CLOCKS or (clock < 0 and ~(clock >> 3) in _SELF):
            return self._task.cpu_time
        return _fail(errno.EINVAL)

    def _time(self, arguments: Arguments) -> int:
        seconds = self._task.now // structures.SECOND
        if arguments[0]:
            data = seconds.to_bytes(8, "big")
            self._guest.write(arguments[0], data if self._task.is64 else data[4:])
        return seconds

    def _gettimeofday(self, arguments: Arguments) -> int:
        if arguments[0]:
            data = structures.timeval(self._task.now, self._task.is64)
            self._guest.write(arguments[0], data)
        if arguments[1]:
            self._guest.write(arguments[1], bytes(8))
        return 0

    def _clock_gettime(self, arguments: Arguments) -> int:
        data = structures.timespec(self._read_clock(arguments[0]), self._wide)
        self._guest.write(arguments[1], data)
        return 0

    def _clock_getres(self, arguments: Arguments) -> int:
        self._read_clock(arguments[0])
        if arguments[1]:
            self._guest.write(arguments[1], structures.timespec(1, self._wide))
        return 0

    def _span(self, address: int) -> int:
        wide = self._wide
        data = self._guest.read(address, structures.timespec_size(wide))
        seconds, nanoseconds = structures.parse_timespec(data, wide)
        if seconds < 0 or not 0 <= nanoseconds < structures.SECOND:
            raise failure(errno.EINVAL)
        return seconds * structures.SECOND + nanoseconds

    def _nanosleep(self, arguments: Arguments) -> int:
        self._task.sleep(self._span(arguments[0]))
        return 0

    def _clock_nanosleep(self, arguments: Arguments) -> int:
        now = self._read_clock(arguments[0])
        span = self._span(arguments[2])
        if self._task.signed32(arguments[0]) == _CLOCK_THREAD:
            raise failure(errno.EINVAL)
        if arguments[1] & _TIMER_ABSTIME:
            span -= now
        self._task.sleep(max(0, span))
        return 0

    def _times(self, arguments: Arguments) -> int:
        tick = structures.SECOND // CLOCK_TICKS
        if arguments[0]:
            layout = ">4q" if self._task.is64 else ">4i"
            used = self._task.cpu_time // tick
            self._guest.write(arguments[0], struct.pack(layout, used, 0, 0, 0))
        return self._task.uptime // tick

    def _alarm(self, arguments: Arguments) -> int:
        if arguments[0]:
            raise ServiceMissingError("ENOSYS")
        return 0

    def _getitimer(self, arguments: Arguments) -> int:
        self._guest.write(arguments[1], bytes(2 * structures.timeval_size(self._task.is64)))
        return 0

    def _setitimer(self, arguments: Arguments) -> int:
        size = structures.timeval_size(self._task.is64)
        if arguments[1]:
            data = self._guest.read(arguments[1], 2 * size)
            if structures.parse_timeval(data[size:], self._task.is64) != (0, 0):
                raise ServiceMissingError("ENOSYS")
        if arguments[2]:
            self._guest.write(arguments[2], bytes(2 * size))
        return 0


def _fail(number: int) -> int:
    raise failure(number)
