"""The seam between the processor and the operating system: what each asks of the other.

The emulated Linux (`syscalls`, `process`, `files`) sees the machine only through the protocols
here, so that it can be tested without an engine. `machine.Machine` is the `Guest`;
`address_space.AddressSpace` is the `Memory`; `signals.SignalState` is the `Signals`.

One system call runs like this: the machine takes the trap (`ta 0x6d` in 64-bit programs,
`ta 0x10` in 32-bit ones), gives `SystemCalls.call` the number in %g1 and the six argument
registers %o0..%o5 (masked to 32 bits for 32-bit programs), then acts on the `Outcome`:

- `Returned(value, second)`: %o0 = value, carry clear; %o1 = second where it is not None (`pipe`).
- `Failed(errno)`: %o0 = errno (SPARC numbering), carry set.
- `Exited(status)`: the run ends; reason "exit", status as given (0..255).
- `Replaced()`: the registers are already what the program must see (sigreturn).
- `Waits`, `Yields`, `ThreadExited`: another thread goes on (`machine.threads`).
- `CallInterrupted`: EINTR, or the trap is executed again when the signal has been handled.

After every call but `Exited` the machine delivers signals that are pending and not blocked.
A call that waits on the outside world (a terminal, a pipe) asks `Host.interrupted` ten times a
second and raises `RunInterrupted` where a budget is spent or Ctrl-C was pressed; the machine then
ends the run at that call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

from simprof.simulator.binary.program import PAGE_SIZE as PAGE_SIZE


class Protection(IntFlag):
    """Rights of a page, numbered as PROT_* and as the permission table number them."""

    NONE = 0
    READ = 1
    WRITE = 2
    EXECUTE = 4


class GuestFault(Exception):  # noqa: N818 - a fault, as the processor names it
    """A system call touched memory that the program may not touch (becomes EFAULT).

    `address`: First address that could not be read or written.
    """

    def __init__(self, address: int) -> None:
        super().__init__(f"bad guest address {address:#x}")
        self.address = address


class OutOfMemory(Exception):  # noqa: N818 - Linux names the condition so
    """The memory limit or the address space is used up (becomes ENOMEM)."""


class RunInterrupted(Exception):  # noqa: N818 - nothing is wrong
    """A waiting system call was told to stop (budget or Ctrl-C); the run ends there."""


@dataclass(frozen=True)
class Mapping:
    """A run of pages [start, end) with equal rights."""

    start: int
    end: int
    protection: Protection


class Memory(Protocol):
    """The program's address space. Sizes in bytes; ranges are whole pages of `PAGE_SIZE`.

    Addresses are plain non-negative ints, already masked to 32 bits for 32-bit programs.
    """

    @property
    def limit_address(self) -> int:
        """First address beyond what user programs can map."""
        ...

    @property
    def program_break(self) -> int:
        """The current break (not page aligned)."""
        ...

    def start_break(self, address: int) -> None:
        """Say where the break starts: the end of the program's last segment."""
        ...

    def set_break(self, address: int) -> int:
        """Move the break as brk(2) does; return the new break, or the old one where it cannot."""
        ...

    def map(self, address: int, size: int, protection: Protection) -> None:
        """Map zeroed pages at `address`, replacing what was there; raises `OutOfMemory`."""
        ...

    def share(self, address: int, size: int, descriptor: int, offset: int) -> None:
        """Have mapped pages be the host's memory behind a descriptor, from `offset` on.

        Raises `OutOfMemory`.
        """
        ...

    def hold(self, size: int) -> None:
        """Count bytes that are kept for the program outside its memory; negative: no longer.

        Raises `OutOfMemory`.
        """
        ...

    def unmap(self, address: int, size: int) -> None:
        """Unmap pages; pages that are not mapped are ignored."""
        ...

    def protect(self, address: int, size: int, protection: Protection) -> None:
        """Change rights; raises `GuestFault` with the first unmapped page, changing nothing."""
        ...

    def find_free(self, size: int, hint: int = 0) -> int:
        """Address of `size` unmapped bytes, at `hint` where free; raises `OutOfMemory`."""
        ...

    def start_mappings(self, address: int) -> None:
        """Say behind which address `find_free` is to search first."""
        ...

    def is_free(self, address: int, size: int) -> bool:
        """Whether no page of the range is mapped."""
        ...

    def is_mapped(self, address: int, size: int) -> bool:
        """Whether every page of the range is mapped (with whatever rights)."""
        ...

    def usable(self, address: int, size: int, right: Protection) -> int:
        """Return how many of `size` bytes, from the first on, lie in pages with a right."""
        ...

    def mappings(self) -> Iterator[Mapping]:
        """Everything that is mapped, by address, neighbours of equal rights joined."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes out; raises `GuestFault` where a page is not readable."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes in; raises `GuestFault` where a page is not writable, writing nothing."""
        ...

    def load(self, address: int, data: bytes) -> None:
        """Copy bytes into mapped pages whatever their rights are (program loading)."""
        ...


@dataclass(frozen=True)
class SignalAction:
    """What rt_sigaction installs. `restorer` is the libc's address (the call's %o3)."""

    handler: int = 0  # 0 SIG_DFL, 1 SIG_IGN
    flags: int = 0
    mask: int = 0  # bit n - 1 blocks signal n
    restorer: int = 0


@dataclass(frozen=True)
class AlternateStack:
    """What sigaltstack sets. `flags` 2 (SS_DISABLE) where there is none."""

    address: int = 0
    flags: int = 2
    size: int = 0


class Signals(Protocol):
    """Signal state of the current thread."""

    blocked: int  # bit n - 1 set: signal n is blocked
    pending: int  # bit n - 1 set: signal n is pending
    alternate: AlternateStack

    def action(self, number: int) -> SignalAction:
        """Return what is installed for signal `number` (1..64)."""
        ...

    def set_action(self, number: int, action: SignalAction) -> None:
        """Install an action."""
        ...

    def on_alternate_stack(self, stack_pointer: int) -> bool:
        """Whether `stack_pointer` (bias removed) lies on the alternate stack in use."""
        ...


class Guest(Protocol):
    """The machine as system calls see it."""

    is64: bool
    memory: Memory
    signals: Signals

    @property
    def threads(self) -> GuestThreads:
        """The program's threads."""
        ...

    @property
    def instructions(self) -> int:
        """Instructions executed so far, exact at a system call; virtual time derives from it."""
        ...

    @property
    def pc(self) -> int:
        """Address of the trap instruction that makes the call."""
        ...

    def stack_pointer(self) -> int:
        """%sp with the 64-bit stack bias removed."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """Do the same as `memory.read`."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Do the same as `memory.write`."""
        ...

    def read_string(self, address: int) -> bytes:
        """Bytes up to the NUL; raises `GuestFault`."""
        ...

    def raise_signal(self, number: int) -> None:
        """Make signal `number` pending from `kill` (si_code SI_USER, own pid)."""
        ...

    def suspend(self, mask: int) -> None:
        """Block `mask` until the pending signal has been handled (rt_sigsuspend).

        Called only where a pending signal is let through by `mask`; the handler's frame saves the
        mask from before.
        """
        ...

    def return_from_signal(self) -> None:
        """Restore registers and mask from the signal frame at %sp (rt_sigreturn, sigreturn).

        Raises `GuestFault` where the frame cannot be read (the machine then ends with SIGSEGV).
        """
        ...


@dataclass(frozen=True)
class Returned:
    """The call succeeded; `second` goes to %o1."""

    value: int
    second: int | None = None


@dataclass(frozen=True, order=True)
class RefusedCall:
    """A system call whose service simprof lacks: its name, and the error that answers it."""

    name: str
    error: str


@dataclass(frozen=True)
class Failed:
    """The call failed with a SPARC errno number."""

    errno: int


@dataclass(frozen=True)
class Refused:
    """The call asks for a service that simprof lacks, and the run is to end there."""

    call: RefusedCall


@dataclass(frozen=True)
class Exited:
    """The program ended itself; `status` is 0..255."""

    status: int


@dataclass(frozen=True)
class Replaced:
    """Registers, mask and pc are already set (sigreturn)."""


@dataclass(frozen=True)
class Waits:
    """The call waits, while other threads run.

    It is over when it is given a result (`GuestThreads.wake`), or when it is performed again and
    does not wait any more: that is after `nanoseconds` of virtual time (None: never), and, where
    `retry` says so, after other threads have done something that may have changed what it waits
    for. A signal ends it: with EINTR, or, where it `restarts`, as the handler's SA_RESTART says.
    """

    nanoseconds: int | None
    retry: bool = False
    restarts: bool = False


@dataclass(frozen=True)
class CallInterrupted:
    """A signal has ended the wait: EINTR, or the call begins again behind a handler.

    It does if it `restarts`, and the handler was installed with SA_RESTART.
    """

    restarts: bool


@dataclass(frozen=True)
class Yields:
    """The call has returned 0, and other threads are to run first (sched_yield)."""


@dataclass(frozen=True)
class ThreadExited:
    """The thread has ended, and others go on; `status` is the process's if it was its first."""

    status: int


Outcome = (
    Returned
    | Failed
    | Refused
    | Exited
    | Replaced
    | Waits
    | CallInterrupted
    | Yields
    | ThreadExited
)


class GuestThreads(Protocol):
    """The threads of the program, as its kernel numbers them."""

    @property
    def current(self) -> int:
        """Number of the thread that makes the call at hand."""
        ...

    @property
    def alive(self) -> Sequence[int]:
        """Numbers of all threads that have not ended, oldest first."""
        ...

    @property
    def is_alone(self) -> bool:
        """Whether there has never been a second thread."""
        ...

    @property
    def is_expired(self) -> bool:
        """Whether the call at hand has waited before, for as long as it was to."""
        ...

    @property
    def instructions(self) -> int:
        """Instructions that the current thread has executed."""
        ...

    def start(self, stack: int | None, thread_pointer: int | None) -> int:
        """Start a thread where the current one is; return its number.

        `stack`: Where its stack ends; None: it has its creator's. `thread_pointer`: Its %g7; None:
        its creator's.

        Raises
        ------
        GuestFault
            If its stack cannot be written.
        """
        ...

    def wake(self, number: int, result: int) -> None:
        """Let a waiting thread's call return `result`."""
        ...

    def send(self, number: int, signal: int) -> None:
        """Make a signal pending for one thread that is alive."""
        ...


class SystemCallHandler(Protocol):
    """What the machine needs of the operating system."""

    @property
    def process_id(self) -> int:
        """Number of the process (the sender of its own signals)."""
        ...

    @property
    def user_id(self) -> int:
        """Number of its user."""
        ...

    def call(self, number: int, arguments: tuple[int, ...]) -> Outcome:
        """Perform system call `number`. Raises `UnsupportedError` where it waits for ever."""
        ...

    @property
    def elapsed(self) -> int:
        """Virtual nanoseconds since the program started: instructions, and time slept."""
        ...

    def sleep_until(self, elapsed: int) -> None:
        """Let virtual time pass: all threads wait."""
        ...

    def give_up(self, number: int) -> None:
        """Be told that a waiting thread's call has ended by a signal."""
        ...

    def name(self, number: int) -> str:
        """Return the name of system call `number`."""
        ...

    @property
    def refused(self) -> MappingOf[RefusedCall, int]:
        """How often each call was refused, because simprof lacks the service."""
        ...

    def finish(self) -> None:
        """Be told that the run has ended, however it did: file mappings are written back."""
        ...
