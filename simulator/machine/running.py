"""Inputs and outputs of a run: values and protocols that refer to no machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from simprof.simulator.linux.guest import RefusedCall


class BlockPlace(NamedTuple):
    """Where a translation block begins: pc, and npc, which is not pc + 4 in an annulled slot."""

    pc: int
    npc: int


class Thinning(Protocol):
    """Says which blocks need not raise events, and follows a program through them."""

    def is_worth_it(self, instructions: int) -> bool:
        """Whether a run that has executed so many instructions is worth the work of a choice."""

    def choose_silent(self) -> Mapping[BlockPlace, int]:
        """Return the blocks that are to raise no events from now on, with their sizes in bytes."""

    def begin_silence(self, sizes: Mapping[BlockPlace, int]) -> None:
        """Take note of the blocks that raise no events from now on."""

    def stopped(self, pc: int) -> None:
        """The program has come to the block at `pc`, and the engine has stopped before it."""

    def faulted(self, pc: int) -> None:
        """The instruction at `pc` has faulted."""

    def trapped(self) -> None:
        """An instruction has trapped, in the last event's block or in a silent one behind it."""


class CodeBlock(NamedTuple):
    """A block of code that is not as it is in a file, as it is now."""

    address: int
    words: tuple[int, ...]
    # Whether the program has made it somewhere on its stack, its heap or in its data; otherwise it
    # is one of a dynamically linked program's stubs.
    is_generated: bool


class NativeHook(Struct, frozen=True):
    """A block observer compiled to native code."""

    # Function pointer: `void(engine, uint64 address, uint32 size in bytes, void *user_data)`.
    address: int
    user_data: int  # Pointer passed through
    # int64[32], C-contiguous, laid out as `traps.ClockWord`; shared by hook, traps, machine.
    clock: NDArray[np.int64]
    keepalive: object  # Whatever must not be garbage-collected while the hook is installed
    # Returns a function pointer `void(void *user_data)` that does what `Observer.context_replaced`
    # does; None where only that can.
    on_context: Callable[[], int] | None = None
    thinning: Thinning | None = None  # Says which blocks need no events; None where all do.
    # Called with a block that is about to be translated: a generated one each time, one of stubs
    # the first time, or if it has other words than before
    on_late_block: Callable[[CodeBlock], None] = lambda block: None


class Observer(Protocol):
    """Sees every block through `hook`, and the rare events that break the flow of blocks."""

    @property
    def hook(self) -> NativeHook:
        """What the engine calls at every block."""

    def signal_delivered(self, pc: int, npc: int, stack_pointer: int, between: bool) -> None:
        """A signal's handler is entered next."""
        # `pc`, `npc`, `stack_pointer`: What is interrupted, %sp with its bias. `between`: it came
        # between two blocks, of which `pc` begins the second.

    def signal_returned(self, resumed_pc: int) -> None:
        """A handler has returned; the next event is at `resumed_pc`."""

    def context_replaced(self) -> None:
        """A context was set (64-bit longjmp); the next event is where it says."""

    def thread_started(self, number: int, current: int) -> None:
        """Thread `current`, which goes on, has started another one."""

    def thread_switched(self, number: int) -> None:
        """Another thread goes on, where it was."""
        # The observer keeps, for each thread, the clock's words STATE, RESUMED_STATE, RESUME_PC and
        # RESUME_END.
        ...

    def thread_ended(self) -> None:
        """The current thread has ended itself; another one goes on, or none."""


class Limits(Struct, frozen=True):
    """Budgets: instructions, wall-clock seconds, bytes of accessible guest memory and of stack."""

    # The stack takes at most a quarter of the memory, and `address_space.STACK_SIZE` bytes.

    max_instructions: int | None = None
    timeout: float | None = None
    memory: int = 4 << 30
    stack: int = 64 << 20


Reason = Literal[
    "exit", "signal", "fault", "budget", "timeout", "interrupted", "refused", "deadlock"
]


class Fault(Struct, frozen=True):
    """The fault that ended a run."""

    signal: int
    name: str
    pc: int
    address: int | None  # what was accessed, where that is the cause
    description: str
    # The jump that led to `pc`, where nothing could be fetched from there; None: no jump did.
    origin: int | None = None


class Refusal(Struct, frozen=True):
    """The refused system call that ended a run, and the address of its trap."""

    call: RefusedCall
    pc: int


class ThreadCount(Struct, frozen=True):
    """A thread, numbered from 1 in the order of their starts, and what it has executed."""

    number: int
    instructions: int


class ThreadWait(Struct, frozen=True):
    """A thread that waits for ever: the system call, and the address of its trap."""

    number: int
    call: str
    pc: int


class RunResult(Struct, frozen=True):
    """How a run ended and what it took."""

    # A shell's: the program's own, 128 + signal, 124 for a spent budget or time limit, 130 for
    # Ctrl-C, 125 for a refused system call or a deadlock.
    status: int
    reason: Reason
    signal: int | None
    fault: Fault | None
    instructions: int
    system_calls: int
    spills: int  # register windows moved by traps
    fills: int
    seconds: float
    cpu_seconds: float
    last_pc: int  # the faulting instruction, or the next one that would have been executed
    refusal: Refusal | None = None
    refused_calls: Mapping[RefusedCall, int] = field(default_factory=dict)  # how often each was
    read_only: int = 0  # how often a file could not be changed as it is read-only
    not_found: frozenset[bytes] = frozenset()  # paths of files to open that were not there
    not_writable: frozenset[bytes] = frozenset()  # paths of files to open that are read-only
    # Address of a trap whose system call said what a signal does -> how often.
    signal_actions: Mapping[int, int] = field(default_factory=dict)
    threads: tuple[ThreadCount, ...] = ()  # of a program that had more than one
    waits: tuple[ThreadWait, ...] = ()  # at a deadlock

    @property
    def is_cut_short(self) -> bool:
        """Whether the run ended in a way that is not the program's own."""
        return self.reason in ("budget", "timeout", "interrupted", "refused", "deadlock")


class MachineEnding(Struct, frozen=True):
    """How a run ended."""

    status: int
    reason: Reason
    signal: int | None = None
    fault: Fault | None = None
    refusal: Refusal | None = None
    waits: tuple[ThreadWait, ...] = ()
