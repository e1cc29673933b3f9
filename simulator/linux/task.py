"""The emulated process as its kernel sees it, and how system calls are declared."""

from __future__ import annotations

import errno
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from simprof.simulator.errors import UnsupportedError
from simprof.simulator.linux import structures
from simprof.simulator.linux.descriptors import DescriptorTable, HostFile, OpenFile
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.linux.guest import Guest, Outcome, Waits
from simprof.simulator.linux.process import RandomBytes
from simprof.simulator.linux.sandbox import fail_if, failure

Arguments = tuple[int, ...]  # the six argument registers, unsigned
Handler = Callable[[Arguments], int | Outcome]
Perform = Callable[..., int | bytes | tuple[int, bytes] | Outcome | None]

# When every program starts: 2026-01-01 00:00:00 UTC, in nanoseconds since 1970; and how long the
# emulated machine has been up then.
START_TIME = 1_767_225_600 * structures.SECOND
UPTIME = 1000 * structures.SECOND
_LAST_TIME = (1 << 63) - 1
AT_FDCWD = -100
_MMAP2_UNIT = 4096  # mmap2 counts its offset in these, whatever the page size


class ServiceMissingError(Exception):
    """A system call asks for what simprof does not have; `error`: the errno that says so."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class WaitingError(Exception):
    """A system call waits, and other threads go on; `wait`: how long, and for what."""

    def __init__(self, wait: Waits) -> None:
        super().__init__(wait)
        self.wait = wait


class Task:
    """State of the one process."""

    def __init__(
        self,
        guest: Guest,
        host: HostCalls,
        name: bytes,  # the program's file as it sees it: what its thread is called
        *,
        arguments: Sequence[bytes] = (),  # argv, for /proc/self/cmdline; `name` where empty
        stack_size: int = 8 << 20,  # RLIMIT_STACK in bytes, of which all is mapped
        stack_top: int = 0,  # where the stack ends
        memory_limit: int = 4 << 30,  # for sysinfo, in bytes
        seed: int = 0,  # of everything random
    ) -> None:
        self.guest = guest
        self.host = host
        self.is64 = guest.is64
        self.arguments = tuple(arguments or (name,))
        self.stack_size = stack_size
        self.stack_top = stack_top
        self.memory_limit = memory_limit
        self.random = RandomBytes(seed, "getrandom")
        self.descriptors = DescriptorTable(host, guest.memory.hold)
        self.working_directory: int | None = None  # host handle; None: where it started
        self.umask = 0o022
        # not_found, not_writable: Paths of files to open that were so, some of many
        self.not_found: set[bytes] = set()
        self.not_writable: set[bytes] = set()
        self.name = name.rpartition(b"/")[2][:15]
        self.slept = 0  # nanoseconds of virtual time spent waiting
        self.call_name = ""  # the call being performed, for messages
        words = 1 if self.is64 else 2  # of a long long
        # Kinds of arguments -> how many registers they take, and what these hold. Besides: "-" is
        # not read; a number is flags, of which no others may be set; "=8" must be 8; ">" is where
        # the bytes go that the call returns, and ">?" if it is not 0. Flags and "=" are checked
        # before the rest.
        self._kinds: Mapping[str, tuple[int, Callable[..., Any]]] = {
            "p": (1, lambda value: value),  # a pointer, or an unsigned number of any size
            "i": (1, self.signed32),
            "u": (1, lambda value: value & 0xFFFFFFFF),
            "P": (1, lambda value: (value & 0xFFFFFFFF) * _MMAP2_UNIT),
            "m": (1, self.milliseconds),
            "l": (1, self.signed),
            # long long: two registers in 32-bit programs, the high one first
            "q": (words, self.long_long),
            "h": (2, self.long_long),  # the same in both widths
            # loff_t; that of preadv and pwritev has the low one first
            "o": (words, self.offset),
            "O": (words, lambda *given: self.offset(*reversed(given))),
            "t": (1, lambda at: self.duration(at) if at else None),  # timespec; None: for ever
            "s": (1, guest.memory.read_string),
            "S": (1, lambda at: guest.memory.read_string(at) if at else b""),
            "f": (1, self.file),
            "r": (1, partial(self._opened, False)),  # a file that is open for reading
            "w": (1, partial(self._opened, True)),
            "b": (2, lambda address, size: [(address, size)]),  # a buffer
            "v": (2, self.vectors),  # an iovec array
            "@": (1, self.base),  # a directory, as its host handle
            ".": (0, lambda: self.working_directory),
        }

    # Time

    @property
    def cpu_time(self) -> int:
        """Nanoseconds of processor time: one per instruction."""
        return self.guest.instructions

    @property
    def now(self) -> int:
        """Virtual time in nanoseconds since 1970."""
        return START_TIME + self.cpu_time + self.slept

    @property
    def uptime(self) -> int:
        """Virtual time in nanoseconds since the emulated machine started."""
        return UPTIME + self.cpu_time + self.slept

    @property
    def elapsed(self) -> int:
        """Virtual nanoseconds since the program started."""
        return self.cpu_time + self.slept

    def sleep(self, nanoseconds: int | None, *, retry: bool = False) -> None:
        """Let the calling thread wait, for ever where `nanoseconds` of virtual time is None;
        `UnsupportedError` if nothing can end the wait of a program with one thread; `WaitingError`
        where there are other threads, unless the time has passed.
        """
        # The call is performed again afterwards where others ran. `retry`: Whether what other
        # threads do may end the wait before.
        threads = self.guest.threads
        if threads.is_expired:
            return
        if not threads.is_alone:
            raise WaitingError(Waits(nanoseconds, retry))
        if nanoseconds is None:
            raise self.deadlock()
        self.pass_time(nanoseconds)

    def pass_time(self, nanoseconds: int) -> None:
        """Let virtual time pass, without instructions; it ends where Linux's does, in 2262."""
        passed = min(self.slept + max(0, nanoseconds), _LAST_TIME - START_TIME - self.cpu_time)
        self.slept = max(self.slept, passed)

    # Arguments

    def handler(self, kinds: str, perform: Perform) -> Handler:
        """Return the handler of a call that is declared so."""
        steps, checks, outputs, at = [], [], [], 0
        for kind in kinds.split():
            count, read = self._kinds.get(kind, self._kinds["p"])
            if kind[0].isdigit():
                checks.append((at, ~int(kind, 0), 0))
            elif kind[0] == "=":
                checks.append((at, -1, int(kind[1:])))
            elif kind[0] == ">":
                outputs.append((at, kind == ">?"))
            if kind[0] not in "->=":
                steps.append((at, at + count, read))
            at += count

        def handle(arguments: Arguments) -> int | Outcome:
            for place, mask, wanted in checks:
                fail_if(arguments[place] & mask != wanted, errno.EINVAL)
            result = perform(*[read(*arguments[first:last]) for first, last, read in steps])
            result, data = result if isinstance(result, tuple) else (result, result)
            if isinstance(data, bytes):
                for place, is_optional in outputs:
                    if arguments[place] or not is_optional:
                        self.guest.memory.write(arguments[place], data)
            return 0 if result is None or isinstance(result, bytes) else result

        return handle

    @staticmethod
    def signed32(value: int) -> int:
        """Read an argument as an `int`."""
        return structures.signed(value, 32)

    def signed(self, value: int) -> int:
        """Read an argument as a `long`."""
        return structures.signed(value, 64 if self.is64 else 32)

    @staticmethod
    def long_long(first: int, low: int | None = None) -> int:
        """Read a `long long`: one argument register, or two of 32 bits each."""
        value = first if low is None else (first & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF
        return structures.signed(value, 64)

    @staticmethod
    def offset(*given: int) -> int:
        """Read a place in a file."""
        if (offset := Task.long_long(*given)) < 0:
            raise failure(errno.EINVAL)
        return offset

    @property
    def is_wide(self) -> bool:
        """Whether the call being performed has 64-bit times (those of *_time64)."""
        return self.is64 or self.call_name.endswith("64")

    def timespec(self, address: int) -> tuple[int, int]:
        """Read (seconds, nanoseconds) as given to the call being performed."""
        layout = structures.TIMESPEC[self.is_wide]
        seconds, nanoseconds = layout.unpack(self.guest.memory.read(address, layout.size))
        return seconds, nanoseconds

    def duration(self, address: int) -> int:
        """Read a timespec as nanoseconds; OSError EINVAL where it is not a proper one."""
        seconds, nanoseconds = self.timespec(address)
        fail_if(seconds < 0 or not 0 <= nanoseconds < structures.SECOND, errno.EINVAL)
        return seconds * structures.SECOND + nanoseconds

    def milliseconds(self, value: int) -> int | None:
        """Read a time-out in milliseconds as nanoseconds; None: for ever."""
        return None if (timeout := self.signed32(value)) < 0 else timeout * 1_000_000

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Read `count` unsigned words of the program's width."""
        layout = struct.Struct(f">{count}{'Q' if self.is64 else 'I'}")
        return layout.unpack(self.guest.memory.read(address, layout.size))

    def file(self, descriptor: int) -> OpenFile:
        """Return an open file; OSError EBADF where there is none."""
        return self.descriptors.get(self.signed32(descriptor))

    def _opened(self, for_writing: bool, descriptor: int) -> OpenFile:
        file = self.file(descriptor)
        fail_if(not (file.writable if for_writing else file.readable), errno.EBADF)
        return file

    def vectors(self, address: int, count: int) -> list[tuple[int, int]]:
        """Read an iovec array as (address, length) pairs."""
        count = self.signed32(count)
        fail_if(not 0 <= count <= 1024, errno.EINVAL)
        words = self.words(address, 2 * count)
        lengths = words[1::2]
        if any(length >= 1 << (63 if self.is64 else 31) for length in lengths):
            raise failure(errno.EINVAL)  # negative, as the kernel reads them
        return list(zip(words[::2], lengths, strict=True))

    def base(self, descriptor: int) -> int | None:
        """Return the host handle of an *at call's directory argument."""
        number = self.signed32(descriptor)
        if number == AT_FDCWD:
            return self.working_directory
        file = self.descriptors.get(number)
        if not isinstance(file, HostFile) or file.handle <= 2:
            raise failure(errno.ENOTDIR)
        return file.handle

    def deadlock(self) -> UnsupportedError:
        """Return the error for a wait that nothing can end."""
        return UnsupportedError(
            f"system call {self.call_name} at {self.guest.pc:#x}: the program waits forever, "
            "no other thread or process can wake it; give it other input"
        )


# A group of calls (`CallGroup`) is a table of declarations, "NAMES: KINDS" -> function. The kinds
# say how the argument registers are read, one after the other, before the function is called with
# what they hold (`Task.__init__` lists them). What it returns is the call's result, or bytes for
# the program, or both; None is 0. It raises OSError (host errno), `GuestFault` or `OutOfMemory`
# where the call fails.
class CallGroup(ABC):
    """System calls that belong together, with what they do as methods."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        self._memory = task.guest.memory

    @abstractmethod
    def _declarations(self) -> Mapping[str, Perform]:
        """Return the calls: "NAMES: KINDS" -> what they do."""

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of the calls by name."""
        handlers = {}
        for declaration, perform in self._declarations().items():
            names, kinds = declaration.split(":")
            handlers.update(dict.fromkeys(names.split(), self._task.handler(kinds, perform)))
        return handlers


def nothing(*arguments: object) -> None:
    """Succeed."""


def failing(number: int) -> Perform:
    """Return what always fails with a host errno."""

    def fail(*arguments: object) -> NoReturn:
        raise failure(number)

    return fail


def missing(error: str) -> Perform:
    """Return what asks for a service that simprof lacks: it fails with an errno by name."""

    def refuse(*arguments: object) -> NoReturn:
        raise ServiceMissingError(error)

    return refuse
