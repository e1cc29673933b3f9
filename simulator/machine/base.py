"""The common part of machines: processor and memory, a run that is timed, guarded and ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from simprof.simulator.binary.program import Program
from simprof.simulator.cpu import crash, traps
from simprof.simulator.cpu.address_space import AddressSpace, OutOfMemory
from simprof.simulator.cpu.cpu import RESUME_TRAP, Cpu, Stop, is_in_engine
from simprof.simulator.cpu.cpu_state import SYSTEM_PAGE
from simprof.simulator.errors import EngineError, SimulatorError
from simprof.simulator.linux.contexts import Interrupted
from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.machine.codewatch import CodeWatch, LoadedCode, Shadows
from simprof.simulator.machine.faults import is_transfer
from simprof.simulator.machine.hooks import NO_LIMIT, Hooks
from simprof.simulator.machine.running import Limits, MachineEnding, Observer, RunResult
from simprof.simulator.stopping import that_stop_a_run

STATUS_BUDGET: Final = 124
_CRASH_WORDS: Final = (traps.ClockWord.BLOCK_ADDRESS, traps.ClockWord.ENDINGS)


# `Machine` puts Linux around it, `simulator.leon.machine.LeonMachine` the devices of a bare board.
# Exceptions do not cross the engine: `_guard` keeps them, stops it, and `_result` raises them.
class BaseMachine(ABC):
    """A program, a processor and memory; subclasses set `_code`, `_shadows` and `_position`."""

    _code: CodeWatch
    _shadows: Shadows
    _position: Position

    def __init__(
        self,
        program: Program,
        limits: Limits | None,
        observer: Observer | None,
        is64: bool,
        windows: int,
    ) -> None:
        self.program = program
        self.limits = limits or Limits()
        self.cpu = Cpu(is64, windows)
        self._space = AddressSpace(is64, self.limits.memory)
        self._observer = observer
        self._clock: NDArray[np.int64] = (
            np.zeros(traps.CLOCK_WORDS, np.int64) if observer is None else observer.hook.clock
        )
        self._resume_at = 0, 0
        self._ending: MachineEnding | None = None
        self._error: BaseException | None = None

    def _connect(self, *, moves_windows: bool = True) -> Hooks:
        self._connect_memory()
        return Hooks(
            self.cpu,
            self._space,
            self._clock,
            self._code.plain_ranges(),
            on_trap=lambda number: self._guard(lambda: self._on_trap(number)),
            on_code=lambda address, size: self._guard(lambda: self._code.check(address, size)),
            on_reserved=lambda page: self._guard(lambda: self._shadows.make(page)),
            moves_windows=moves_windows,
        )

    def _connect_memory(self) -> None:
        memory = self._space
        memory.on_region = lambda region: self.cpu.map(region.base, region.size, region.host)
        memory.on_change = self.cpu.flush_translations
        memory.on_code_change = self._code.forget
        try:
            memory.add_region(0, 1 << 32)
        except OutOfMemory as error:
            raise EngineError(
                f"no address space for the program's memory ({error}): raise the limit of this "
                "process (`ulimit -v`)"
            ) from error

    # -- running

    def _execute(
        self,
        loop: Callable[[], None],
        finish: Callable[[], None],
        stop: Callable[[], None] | None = None,
    ) -> tuple[float, float]:
        # Run `loop`, then `finish` in any case; return seconds and seconds of the processor.
        # `stop` ends a run in which no block hook looks at the clock.
        started, cpu_started = time.perf_counter(), time.process_time()
        with (
            crash.reported(self.program.path, self._clock, *_CRASH_WORDS),
            traps.stopped_by(that_stop_a_run(), self._clock),
            stop_after(self._clock, self.limits.timeout, stop),
        ):
            try:
                loop()
            finally:
                finish()
        return time.perf_counter() - started, time.process_time() - cpu_started

    def _result(self, seconds: float, cpu_seconds: float, **counts: Any) -> RunResult:
        if self._error is not None:
            raise self._error
        assert self._ending is not None
        return RunResult(
            **asdict(self._ending),
            instructions=self.instructions,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            last_pc=int(self.cpu.state.pc),
            **counts,
        )

    def _loop(self) -> None:
        state = self.cpu.state
        while not self._is_over():
            self._set_limit()
            self._resume_at = int(state.pc), int(state.npc)
            stop = self.cpu.run(*self._resume_at)
            if not self._is_over():
                self._after(stop)

    def _set_limit(self) -> None:
        self._clock[traps.ClockWord.LIMIT] = self._limit()
        if self._clock[traps.ClockWord.INTERRUPTED]:  # set meanwhile
            self._clock[traps.ClockWord.LIMIT] = -1

    @abstractmethod
    def _limit(self) -> int:
        """Return at how many instructions the engine is to stop."""

    @abstractmethod
    def _after(self, stop: Stop) -> None:
        """Act on the processor's having stopped."""

    @abstractmethod
    def _on_trap(self, number: int) -> None:
        """Answer a trap that the engine reports; it has moved pc to npc."""

    @abstractmethod
    def _on_limit(self) -> None:
        """Act on the engine's having stopped at its limit."""

    def _is_over(self) -> bool:
        return self._ending is not None or self._error is not None

    def _guard(self, action: Callable[[], None]) -> None:
        # Run a callback's work; keep exceptions for `run`, stop the engine when it is over.
        try:
            action()
        except RunInterrupted:
            self._on_limit()
        except BaseException as error:
            self._error = error
        if self._is_over():
            self._clock[traps.ClockWord.LIMIT] = -1
            self.cpu.stop()

    def _budget(self) -> int:
        budget = self.limits.max_instructions
        return NO_LIMIT if budget is None else min(budget, NO_LIMIT)

    def _ends_from_outside(self) -> bool:
        # End the run if its time or budget is over, or Ctrl-C was pressed; say whether it is.
        interruption = int(self._clock[traps.ClockWord.INTERRUPTED])
        if interruption == traps.Interruption.TIMEOUT:
            self._ending = MachineEnding(STATUS_BUDGET, "timeout")
        elif interruption:
            number = interruption % traps.Interruption.SIGNAL
            self._ending = MachineEnding(128 + number, "interrupted", number)
        elif self.limits.max_instructions == self._clock[traps.ClockWord.LIMIT]:
            self._ending = MachineEnding(STATUS_BUDGET, "budget")
        return self._ending is not None

    def _resumes(self, number: int, npc: int) -> bool:
        # Go where `_loop` wanted to, if a trap is that of starting the engine in a delay slot.
        if number != RESUME_TRAP or npc != SYSTEM_PAGE + 4:
            return False
        self.cpu.state.pc, self.cpu.state.npc = self._resume_at
        return True

    def _stopped_without_reason(self) -> EngineError:
        return EngineError(f"the emulator stopped at {self.cpu.state.pc:#x} without a reason")

    # -- from outside

    def stop_soon(self, instructions: int) -> None:
        """End the run, with reason "budget", after at most so many more instructions."""
        total = self.instructions + instructions
        budget = self.limits.max_instructions
        self.limits = replace(self.limits, max_instructions=min(total, budget or total))
        self._set_limit()

    @property
    def instructions(self) -> int:
        """Instructions executed so far; exact at system calls, traps and at the end."""
        return self._position.instructions

    @property
    def loaded(self) -> LoadedCode:
        """What the program has loaded so far: a dynamically linked one."""
        return self._code.loaded

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes of memory out; raises `GuestFault`."""
        return self._space.read(address, size)

    def close(self) -> None:
        """Give back the emulator's memory; nothing can be done with the machine any more."""
        # Its parts refer to it, and it to them: without this they would stay in memory until Python
        # looks for such cycles, which a program that makes many long-lived objects does rarely.
        for part in (self._code, self._shadows, self._space, self.cpu, self):
            vars(part).clear()


_NUDGE_SECONDS: Final = 0.05
# How long native code may go on without an event after it has been told to stop.
STUCK_SECONDS = 10.0


# A run is stopped from outside (Ctrl-C, other signals, the wall-clock budget) by the clock's
# INTERRUPTED and LIMIT words. The block hook sees LIMIT at its next event; a system call that waits
# for the outside world asks for INTERRUPTED several times a second. Should the engine hear of
# neither, a loop within one block say, the budget's thread ends the process; so does the third
# Ctrl-C (`simprof.simulator.cpu.crash`).
@contextmanager
def stop_after(
    clock: NDArray[np.int64], seconds: float | None, stop: Callable[[], None] | None
) -> Iterator[None]:
    """Stop the run of `clock` after `seconds`; `stop`: where no block hook looks at it."""
    if seconds is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(clock, seconds, stop, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(
    clock: NDArray[np.int64], seconds: float, stop: Callable[[], None] | None, done: threading.Event
) -> None:
    if done.wait(seconds):
        return
    if not clock[traps.ClockWord.INTERRUPTED]:
        clock[traps.ClockWord.INTERRUPTED] = traps.Interruption.TIMEOUT
    clock[traps.ClockWord.LIMIT] = -1
    stuck_since = time.monotonic()
    executed = -1
    while not done.wait(_NUDGE_SECONDS):
        if stop is not None:
            stop()
        # Whether the main thread is in the engine's native code, not in Python that it has called.
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        if int(clock[traps.ClockWord.INSTRUCTIONS]) != executed or not is_in_engine(frame):
            executed, stuck_since = int(clock[traps.ClockWord.INSTRUCTIONS]), time.monotonic()
        elif time.monotonic() - stuck_since > STUCK_SECONDS:
            # Native code that loops cannot be ended otherwise than with the process.
            where = f"in or behind the block at {int(clock[traps.ClockWord.BLOCK_ADDRESS]):#x}"
            line = f"simprof: the emulator does not stop {where}: please report this program\n"
            os.write(2, line.encode())
            os._exit(SimulatorError.exit_status)


_SAVED_WORDS: Final = slice(traps.ClockWord.RESUME_PC, traps.ClockWord.RESUMED_STATE + 1)


class Position:
    """The program's place in its current block."""

    # The block hook counts a block whole when it begins and notes where it lies. The engine may
    # leave it in the middle (a fault, a trap, a signal), and does not always say where: this finds
    # the place, takes back what has not been executed, and makes the next event a continuation of
    # the block.

    def __init__(self, cpu: Cpu, space: AddressSpace, clock: NDArray[np.int64]) -> None:
        self._cpu = cpu
        self._space = space
        self._clock = clock

    @property
    def instructions(self) -> int:
        """Instructions executed so far, the current block counted whole."""
        return int(self._clock[traps.ClockWord.INSTRUCTIONS])

    @property
    def block_start(self) -> int:
        """Address of the current block."""
        return int(self._clock[traps.ClockWord.BLOCK_ADDRESS])

    @property
    def block_end(self) -> int:
        """Address after the last instruction of the current block."""
        return self.block_start + int(self._clock[traps.ClockWord.BLOCK_SIZE])

    def instruction(self, pc: int) -> int:
        """Return the instruction word at `pc`."""
        return int.from_bytes(self._space.peek(pc, 4), "big")

    @property
    def is_inside(self) -> bool:
        """Whether the current block was left in its middle."""
        return bool(self._clock[traps.ClockWord.STATE] == traps.RESUME_STATE)

    # -- leaving a block in its middle

    def interrupt(self, pc: int) -> None:
        """Take back the count of what follows `pc` in the current block."""
        clock = self._clock
        start, end = self.block_start, self.block_end
        if not start <= pc < end:
            return
        clock[traps.ClockWord.INSTRUCTIONS] -= (end - pc) >> 2
        clock[traps.ClockWord.RESUME_PC] = pc
        clock[traps.ClockWord.RESUME_END] = end
        if clock[traps.ClockWord.STATE] != traps.RESUME_STATE:
            clock[traps.ClockWord.RESUMED_STATE] = clock[traps.ClockWord.STATE]
            clock[traps.ClockWord.STATE] = traps.RESUME_STATE

    def go_past(self, pc: int) -> None:
        """Go on after the instruction at `pc`, which has been completed without the engine."""
        state = self._cpu.state
        following = int(state.npc)
        if pc + 4 != self.block_end:
            self.interrupt(pc + 4)
        state.pc, state.npc = following, (following + 4) & self._cpu.address_mask

    def saved(self) -> tuple[int, ...]:
        """Return what `restore` needs to go on here after a signal's handler."""
        return tuple(int(value) for value in self._clock[_SAVED_WORDS])

    def restore(self, interrupted: Interrupted, pc: int) -> None:
        """Go on at `pc` with what a signal interrupted."""
        clock = self._clock
        clock[_SAVED_WORDS] = interrupted.clock
        inside = clock[traps.ClockWord.STATE] == traps.RESUME_STATE
        if inside and pc != interrupted.registers.pc:
            if interrupted.registers.pc < pc < clock[traps.ClockWord.RESUME_END]:
                clock[traps.ClockWord.RESUME_PC] = pc
            else:
                clock[traps.ClockWord.STATE] = clock[traps.ClockWord.RESUMED_STATE]

    # -- how the program came here

    def note_redirection(self) -> None:
        """Note that the program goes on elsewhere, though not by a jump of its own."""
        self._clock[traps.ClockWord.REDIRECTED] = self.instructions

    def last_jump(self) -> int | None:
        """Address of the control transfer that ended the last block, if it led here."""
        if self._clock[traps.ClockWord.REDIRECTED] == self.instructions:
            return None
        places = (self.block_end - 8, self.block_end - 4)  # before its delay slot; annulled
        return next((pc for pc in places if is_transfer(self.instruction(pc))), None)
