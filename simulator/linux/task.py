"""The emulated process as its kernel sees it: what all groups of system calls share."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Sequence

from simprof.simulator.cpu.guest import Guest, Outcome, Waits
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.linux.descriptors import DescriptorTable, HostFile
from simprof.simulator.linux.outside import HostCalls
from simprof.simulator.linux.process import RandomBytes
from simprof.simulator.linux.sandbox import failure

Arguments = tuple[int, ...]
"""The six argument registers, unsigned."""

Handler = Callable[[Arguments], int | Outcome]
"""A system call: returns its result, or raises OSError (host errno) or GuestFault."""

START_TIME = 1_767_225_600 * 1_000_000_000
"""When every program starts: 2026-01-01 00:00:00 UTC, in nanoseconds since 1970."""

UPTIME = 1000 * 1_000_000_000
"""How long the emulated machine has been up at that time, in nanoseconds."""

_LAST_TIME = (1 << 63) - 1

AT_FDCWD = -100


class ServiceMissingError(Exception):
    """A system call asks for what simprof does not have; `error` is how Linux says so.

    `error`: Name of the errno.
    """

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class WaitingError(Exception):
    """A system call waits, and other threads go on.

    `wait`: How long, and for what.
    """

    def __init__(self, wait: Waits) -> None:
        super().__init__(wait)
        self.wait = wait


class Task:
    """State of the one process.

    - `guest`: The machine.
    - `host`: The outside world.
    - `name`: The program's file as it sees it: what its thread is called.
    - `arguments`: argv, for /proc/self/cmdline.
    - `stack_size`, `stack_top`: RLIMIT_STACK in bytes, of which all is mapped; where the stack
      ends.
    - `memory_limit`: For sysinfo, in bytes.
    - `seed`: Of everything random.
    """

    def __init__(
        self,
        guest: Guest,
        host: HostCalls,
        *,
        name: bytes,
        arguments: Sequence[bytes] = (),
        stack_size: int = 8 << 20,
        stack_top: int = 0,
        memory_limit: int = 1 << 30,
        seed: int = 0,
    ) -> None:
        self.guest = guest
        self.host = host
        self.is64 = guest.is64
        self.arguments = tuple(arguments)
        self.stack_size = stack_size
        self.stack_top = stack_top
        self.memory_limit = memory_limit
        self.random = RandomBytes(seed, "getrandom")
        self.descriptors = DescriptorTable(host, guest.memory.hold)
        self.working_directory: int | None = None  # host handle; None: where it started
        self.umask = 0o022
        self.name = name.rpartition(b"/")[2][:15]
        self.slept = 0  # nanoseconds of virtual time spent waiting
        self.call_name = ""  # the call being performed, for messages

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
        """Let the calling thread wait; the call is performed again afterwards where others ran.

        `nanoseconds`: Of virtual time; None: for ever. `retry`: Whether what other threads do may
        end the wait before.

        Raises
        ------
        UnsupportedError
            If nothing can end the wait of a program with one thread.
        WaitingError
            Where there are other threads, unless the time has passed.
        """
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

    @staticmethod
    def signed32(value: int) -> int:
        """Read an argument as an `int`."""
        value &= 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value

    @staticmethod
    def signed64(value: int) -> int:
        """Read a value as a `long long`."""
        value &= (1 << 64) - 1
        return value - (1 << 64) if value >> 63 else value

    def signed(self, value: int) -> int:
        """Read an argument as a `long`."""
        return self.signed64(value) if self.is64 else self.signed32(value)

    @staticmethod
    def pair(high: int, low: int) -> int:
        """Join two 32-bit argument registers to a `long long`."""
        return Task.signed64((high & 0xFFFFFFFF) << 32 | (low & 0xFFFFFFFF))

    def address(self, value: int) -> int:
        """Mask an address to the program's width."""
        return value if self.is64 else value & 0xFFFFFFFF

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Read `count` unsigned words of the program's width."""
        size = 8 if self.is64 else 4
        layout = f">{count}{'Q' if self.is64 else 'I'}"
        return struct.unpack(layout, self.guest.read(address, count * size))

    def vectors(self, address: int, count: int) -> list[tuple[int, int]]:
        """Read an iovec array as (address, length) pairs."""
        count = self.signed32(count)
        if not 0 <= count <= 1024:
            raise failure(errno.EINVAL)
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
