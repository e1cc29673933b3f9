"""The seam between the operating system and the machine: what each asks of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from simprof.simulator.cpu.address_space import AddressSpace
from simprof.simulator.linux.signals import SignalInfo, SignalState


# A call that waits on the outside world (a terminal, a pipe) asks `Host.interrupted` ten times a
# second and raises `RunInterrupted` where a budget is spent or Ctrl-C was pressed; the machine then
# ends the run at that call.
class RunInterrupted(Exception):  # noqa: N818 - nothing is wrong
    """A waiting system call was told to stop (budget or Ctrl-C); the run ends there."""


class Returned(Struct, frozen=True):
    """The call succeeded: %o0 = value, carry clear; %o1 = second where it is not None (`pipe`)."""

    value: int
    second: int | None = None


class RefusedCall(Struct, frozen=True, order=True):
    """A system call whose service simprof lacks: its name, and the error that answers it."""

    name: str
    error: str


class Failed(Struct, frozen=True):
    """The call failed: %o0 = a SPARC errno number, carry set."""

    errno: int


class Refused(Struct, frozen=True):
    """The call asks for a service that simprof lacks, and the run is to end there."""

    call: RefusedCall


class Exited(Struct, frozen=True):
    """The program ended itself; `status` is 0..255."""

    status: int


class Replaced(Struct, frozen=True):
    """Registers, mask and pc are already set (sigreturn)."""


class Waits(Struct, frozen=True):
    """The call waits, while other threads run."""

    # It is over when it is given a result (`GuestThreads.wake`), or when it is performed again and
    # does not wait any more: that is after so much virtual time (None: never) ...
    nanoseconds: int | None
    # ... and after other threads have done something that may have changed what it waits for.
    retry: bool = False
    # A signal ends it: with EINTR, or as the handler's SA_RESTART says.
    restarts: bool = False


class CallInterrupted(Struct, frozen=True):
    """A signal has ended the wait: EINTR, or the trap is executed again behind the handler."""

    restarts: bool  # if the handler was installed with SA_RESTART


class Yields(Struct, frozen=True):
    """The call has returned 0, and other threads are to run first (sched_yield)."""


class ThreadExited(Struct, frozen=True):
    """The thread has ended, and others go on; `status` is the process's if it was its first."""

    status: int


_Answered = Returned | Failed | Refused | Replaced
Outcome = _Answered | Exited | Waits | CallInterrupted | Yields | ThreadExited


class GuestThreads(Protocol):
    """The threads of the program, as its kernel numbers them."""

    @property
    def current(self) -> int:
        """Number of the thread that makes the call at hand."""

    @property
    def alive(self) -> Sequence[int]:
        """Numbers of all threads that have not ended, oldest first."""

    @property
    def is_alone(self) -> bool:
        """Whether there has never been a second thread."""

    @property
    def is_expired(self) -> bool:
        """Whether the call at hand has waited before, for as long as it was to."""

    @property
    def instructions(self) -> int:
        """Instructions that the current thread has executed."""

    def start(self, stack: int | None, thread_pointer: int | None) -> int:
        """Start a thread where the current one is; return its number; raises `GuestFault`."""
        # `stack`: Where its stack ends; `thread_pointer`: its %g7; None: its creator's.

    def wake(self, number: int, result: int) -> None:
        """Let a waiting thread's call return `result`."""

    def send(self, number: int, info: SignalInfo) -> None:
        """Make a signal pending for one thread that is alive."""


# The emulated Linux sees the machine as a `Guest`, so that it can be tested without an engine;
# `machine.Machine` is one. One system call runs like this: the machine takes the trap (`ta 0x6d` in
# 64-bit programs, `ta 0x10` in 32-bit ones), gives `SystemCalls.call` the number in %g1 and the six
# argument registers %o0..%o5 (masked to 32 bits for 32-bit programs), then acts on the `Outcome`.
# After every call but `Exited` it delivers signals that are pending and not blocked.
class Guest(Protocol):
    """The machine as system calls see it."""

    is64: bool
    memory: AddressSpace
    signals: SignalState

    @property
    def threads(self) -> GuestThreads:
        """The program's threads."""

    @property
    def instructions(self) -> int:
        """Instructions executed so far, exact at a system call; virtual time derives from it."""

    @property
    def pc(self) -> int:
        """Address of the trap instruction that makes the call."""

    def stack_pointer(self) -> int:
        """%sp with the 64-bit stack bias removed."""

    def raise_signal(self, info: SignalInfo) -> None:
        """Make a signal pending for any thread."""

    def suspend(self, mask: int) -> None:
        """Block `mask` until the pending signal has been handled (rt_sigsuspend)."""
        # A pending signal must be let through by `mask`; its handler's frame saves the mask from
        # before.

    def return_from_signal(self) -> None:
        """Restore registers and mask from the signal frame at %sp (rt_sigreturn, sigreturn)."""
        # Where the frame cannot be read the run ends with SIGSEGV.
