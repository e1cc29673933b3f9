"""The program's threads: one processor, shared out in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.cpu_state import set_condition_codes
from simprof.simulator.cpu.traps import ClockWord
from simprof.simulator.linux.contexts import Contexts, InterruptedFrames
from simprof.simulator.linux.guest import CallInterrupted, Outcome, Returned, Waits
from simprof.simulator.linux.process import RandomBytes
from simprof.simulator.linux.sandbox import PROCESS_ID
from simprof.simulator.linux.signals import (
    SignalInfo,
    SignalState,
    ThreadSignals,
)
from simprof.simulator.linux.syscalls import SystemCalls
from simprof.simulator.machine.running import Observer, ThreadCount, ThreadWait

QUANTUM: Final = 100_000  # instructions that a thread may execute in one go, with seed 0
SHORTEST: Final = 512
_DOUBLINGS: Final = 9  # quanta of other seeds: 512 to 131,072 instructions
# Words of the clock that each thread has for itself; those of `_RESUMED` are an observer's.
_PLACE: Final = (ClockWord.BLOCK_ADDRESS, ClockWord.BLOCK_SIZE)
_RESUMED: Final = (
    ClockWord.RESUME_PC,
    ClockWord.RESUME_END,
    ClockWord.STATE,
    ClockWord.RESUMED_STATE,
)
_G7, _O0, _O1 = 7, 0, 1
Call = tuple[int, tuple[int, ...]]  # a system call: number and arguments


# A thread runs until its quantum of instructions is over, until a system call waits, or until it
# yields or ends. Which one is next, and for how long, follows from a seed alone: the same program
# with the same seed executes the same instructions in the same order.
#
# With seed 0, threads take turns in the order in which they became able to run, `QUANTUM`
# instructions each. Any other seed draws both: the next thread among those that can run, and a
# quantum of `SHORTEST` times a power of two.
#
# A quantum ends before a translation block, and so does a budget; no block is cut for either.
class Turns:
    """What a seed decides: who is next, and for how long."""

    def __init__(self, seed: int) -> None:
        self._random = RandomBytes(seed, "threads") if seed else None

    def quantum(self) -> int:
        """Return for how many instructions the next thread may run."""
        return QUANTUM if self._random is None else SHORTEST << self._draw(_DOUBLINGS)

    def choose(self, count: int) -> int:
        """Return which of so many threads is next; they are in the order of their waiting."""
        return 0 if self._random is None or count == 1 else self._draw(count)

    def _draw(self, count: int) -> int:
        assert self._random is not None
        return int.from_bytes(self._random.take(4), "big") % count


class _Saved(Struct, frozen=True):
    """What a thread has for itself and others replace while it does not run."""

    processor: tuple[bytes, ...]
    words: NDArray[np.int64]
    is_redirected: bool
    signals: ThreadSignals
    interrupted: InterruptedFrames
    trap_pc: int


class _Thread(Struct):
    number: int  # As the program knows it
    saved: _Saved | None = None  # None while it runs
    instructions: int = 0  # That it had executed when it last stopped running
    call: Call | None = None  # The system call that it waits in: number and arguments.
    until: int | None = None  # Virtual time at which that call gives up; None: never.
    retry: bool = False  # Whether other threads' calls may have ended the wait
    noted: int = 0  # How many calls others had made when it last looked
    restarts: bool = False  # Whether a signal may have the call begin again (`guest.Waits`)
    is_expired: bool = False  # Whether `until` has passed
    # What its call comes to when it goes on; None: the call is performed again.
    outcome: Outcome | None = None

    @property
    def place(self) -> int:
        """Its place among all threads in the order in which they began, from 1 on."""
        return self.number - PROCESS_ID + 1


class Threads(Struct, dict=True):
    """All threads of one program; implements `guest.GuestThreads`. `seed`: See `Turns`."""

    cpu: Cpu
    contexts: Contexts
    signals: SignalState
    clock: NDArray[np.int64]
    observer: Observer | None
    seed: int = 0
    events: int = 0  # System calls that threads have completed: what one that waits may wait for.
    is_alone: bool = True  # Whether there has never been a second thread
    trap_pc: int = 0  # address of the trap of the running thread's last system call
    deadline: int = 0  # Instructions of the whole program at which the current quantum is over

    def __post_init__(self) -> None:
        self.calls: SystemCalls  # The program's system calls; set before it runs.
        self._turns = Turns(self.seed)
        self._running = _Thread(PROCESS_ID)
        self._alive = [self._running]
        self._ended: list[ThreadCount] = []
        self._ready: list[_Thread] = []
        self._since = 0  # instructions of the program when the current thread began to run
        self._made = 1
        words = _PLACE if self.observer is not None else (*_PLACE, *_RESUMED)
        self._words = list(map(int, words))

    # -- guest.GuestThreads

    @property
    def current(self) -> int:
        """Number of the thread that runs."""
        return self._running.number

    @property
    def alive(self) -> Sequence[int]:
        """Numbers of all threads that have not ended, oldest first."""
        return [thread.number for thread in self._alive]

    @property
    def is_expired(self) -> bool:
        """Whether the call at hand has waited before, for as long as it was to."""
        return self._running.is_expired

    @property
    def instructions(self) -> int:
        """Instructions that the current thread has executed."""
        return self._running.instructions + self._now - self._since

    def start(self, stack: int | None, thread_pointer: int | None) -> int:
        """Start a thread where the current one is; return its number; raises `GuestFault`."""
        parent, cpu, contexts = self._running, self.cpu, self.contexts
        contexts.flush_windows()
        before = cpu.save()
        try:
            if stack is not None:
                contexts.enter_stack(stack)
            window = cpu.window()
            window[_O0], window[_O1] = parent.number, 1
            set_condition_codes(cpu.state, 0, 0)
            if thread_pointer is not None:
                cpu.state.globals[_G7] = thread_pointer
            processor = cpu.save()
        finally:
            cpu.load(before)
        signals = replace(self.signals.save(), pending=())
        thread = _Thread(PROCESS_ID + self._made)
        self._made += 1
        words = self.clock[self._words]
        thread.saved = _Saved(processor, words, True, signals, InterruptedFrames(), self.trap_pc)
        self._alive.append(thread)
        self._ready.append(thread)
        if len(self._alive) == 2:
            self.deadline = self._now + self._turns.quantum()
        self.is_alone = False
        if self.observer is not None:
            self.observer.thread_started(thread.number, parent.number)
        return thread.number

    def wake(self, number: int, result: int) -> None:
        """Let a waiting thread's call return `result`."""
        thread = self._find(number)
        if thread.call is not None:
            thread.outcome = Returned(result)
            self._make_ready(thread)

    def send(self, number: int, info: SignalInfo) -> None:
        """Make a signal pending for one thread."""
        self._send(self._find(number), info)

    def _send(self, thread: _Thread, info: SignalInfo) -> None:
        if thread.saved is None:
            self.signals.post(info)
            return
        signals = thread.saved.signals
        signals = signals.with_signal(info)
        thread.saved = replace(thread.saved, signals=signals)
        # The signal ends a wait if the thread does not block it and it is not ignored.
        blocked = signals.blocked >> (info.number - 1) & 1
        is_waiting = thread.call is not None and thread.outcome is None
        if is_waiting and not blocked and not self.signals.is_ignored(info.number):
            self.calls.threads.give_up(thread.number)
            thread.outcome = CallInterrupted(thread.restarts)
            self._make_ready(thread)

    def send_to_any(self, info: SignalInfo) -> None:
        """Make a signal pending for the whole program: a thread that does not block it takes it."""
        bit = 1 << (info.number - 1)
        others = [(each, each.saved.signals) for each in self._alive if each.saved is not None]
        takers = [thread for thread, signals in others if not signals.blocked & bit]
        if self.signals.blocked & bit and takers:
            self._send(takers[0], info)
        else:
            self.signals.post(info, shared=bool(self.signals.blocked & bit))

    # -- what the machine asks

    @property
    def is_threaded(self) -> bool:
        """Whether there is more than one thread now."""
        return len(self._alive) > 1

    def counts(self) -> tuple[ThreadCount, ...]:
        """Return what each thread has executed; nothing if there has never been a second one."""
        if self.is_alone:
            return ()
        self._account()
        running = [ThreadCount(each.place, each.instructions) for each in self._alive]
        return tuple(sorted([*self._ended, *running], key=lambda each: each.number))

    def waits(self) -> tuple[ThreadWait, ...]:
        """Return where all threads wait: the program is at a deadlock."""
        waits = []
        for thread in self._alive:
            if thread.call is not None:
                trap_pc = self.trap_pc if thread.saved is None else thread.saved.trap_pc
                waits.append(ThreadWait(thread.place, self.calls.name(thread.call[0]), trap_pc))
        return tuple(waits)

    def block(self, wait: Waits, call: Call) -> None:
        """Let the current thread wait in a system call."""
        thread = self._running
        if thread.call is None and wait.nanoseconds is not None:
            thread.until = self.calls.task.elapsed + max(0, wait.nanoseconds)
        thread.call, thread.retry, thread.noted = call, wait.retry, self.events
        thread.restarts = wait.restarts

    def end(self) -> None:
        """Let the current thread end."""
        if self.observer is not None:
            self.observer.thread_ended()
        self._account()
        thread = self._running
        self._alive.remove(thread)
        self._ended.append(ThreadCount(thread.place, thread.instructions))

    def give_way(self) -> None:
        """Let the current thread run again after those that can run now."""
        self._ready.append(self._running)

    def go_on(self) -> bool:
        """Go on with the next thread that can run; False where none can ever."""
        while not self._gather():
            ends = [each.until for each in self._alive if each.until is not None]
            if not ends:
                return False
            self.calls.task.pass_time(min(ends) - self.calls.task.elapsed)
        self._switch(self._ready.pop(self._turns.choose(len(self._ready))))
        self.deadline = self._now + self._turns.quantum()
        return True

    def take_call(self) -> tuple[Call | None, Outcome | None]:
        """Return the call that the current thread waits in, and what it has come to."""
        # (None, None) where it was not waiting; no outcome where the call is to be performed again.
        return self._running.call, self._running.outcome

    def finish_call(self) -> None:
        """Note that the current thread's call has ended."""
        thread = self._running
        thread.call = thread.until = thread.outcome = None
        thread.is_expired = False
        self.events += 1

    # -- scheduling

    @property
    def _now(self) -> int:
        return int(self.clock[ClockWord.INSTRUCTIONS])

    def _find(self, number: int) -> _Thread:
        return next(thread for thread in self._alive if thread.number == number)

    def _make_ready(self, thread: _Thread) -> None:
        if thread not in self._ready:
            self._ready.append(thread)

    def _gather(self) -> bool:
        elapsed = self.calls.task.elapsed
        over = [each for each in self._alive if each.until is not None and each.until <= elapsed]
        for thread in sorted(over, key=lambda each: (each.until, each.number)):
            if thread not in self._ready:
                thread.is_expired = True
                self._ready.append(thread)
        for thread in self._alive:
            if thread.call is not None and thread.retry and thread.noted != self.events:
                self._make_ready(thread)
        return bool(self._ready)

    def _account(self) -> None:
        self._running.instructions += self._now - self._since
        self._since = self._now

    def _switch(self, thread: _Thread) -> None:
        if thread is self._running:
            return
        leaving = self._running
        if leaving in self._alive:
            self._account()
            is_redirected = bool(self.clock[ClockWord.REDIRECTED] == self._now)
            state = self.cpu.save(), self.clock[self._words], is_redirected, self.signals.save()
            leaving.saved = _Saved(*state, self.contexts.interrupted, self.trap_pc)
        self._since = self._now
        self._running = thread
        assert thread.saved is not None
        self._load(thread.saved)
        thread.saved = None
        if self.observer is not None:
            self.observer.thread_switched(thread.number)

    def _load(self, saved: _Saved) -> None:
        self.cpu.load(saved.processor)
        self.clock[self._words] = saved.words
        self.clock[ClockWord.REDIRECTED] = self._now if saved.is_redirected else -1
        self.signals.load(saved.signals)
        self.contexts.interrupted = saved.interrupted
        self.trap_pc = saved.trap_pc
