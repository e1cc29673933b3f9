"""What every machine is: processor and memory wired, a run that is timed, guarded and ended.

`Machine` puts Linux around it, `simulator.leon.machine.LeonMachine` the devices of a bare board.
Exceptions do not cross the engine: `_guard` keeps them, stops it, and `_result` raises them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary.program import Program
from simprof.simulator.cpu import crash
from simprof.simulator.cpu.address_space import AddressSpace, Region
from simprof.simulator.cpu.cpu import RESUME_TRAP, Cpu, Stop
from simprof.simulator.cpu.cpu_state import SYSTEM_PAGE
from simprof.simulator.cpu.guest import OutOfMemory, RunInterrupted
from simprof.simulator.cpu.traps import CLOCK_WORDS, ClockWord, Interruption
from simprof.simulator.errors import EngineError
from simprof.simulator.machine.codewatch import CodeWatch, LoadedCode
from simprof.simulator.machine.hooks import NO_LIMIT, Hooks
from simprof.simulator.machine.interruption import stop_after, stop_on_interrupt
from simprof.simulator.machine.position import Position
from simprof.simulator.machine.running import Ending, Limits, Observer, RunResult
from simprof.simulator.machine.shadows import Shadows

STATUS_BUDGET: Final = 124
_CRASH_WORDS: Final = (ClockWord.BLOCK_ADDRESS, ClockWord.ENDINGS)


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
            np.zeros(CLOCK_WORDS, np.int64) if observer is None else observer.hook.clock
        )
        self._resume_at = 0, 0
        self._ending: Ending | None = None
        self._error: BaseException | None = None

    def _connect(self, *, moves_windows: bool = True) -> Hooks:
        """Connect processor, memory and code; return the hooks, see there."""
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
        """Have processor and code hear of changes of the memory, and reserve the first 4 GB."""
        memory = self._space
        memory.on_region = self._map_region
        memory.on_change = self.cpu.flush_translations
        memory.on_code_change = self._code.forget
        try:
            memory.add_region(0, 1 << 32)
        except OutOfMemory as error:
            raise EngineError(
                f"no address space for the program's memory ({error}): raise the limit of this "
                "process (`ulimit -v`)"
            ) from error

    def _map_region(self, region: Region) -> None:
        self.cpu.map(region.base, region.size, region.host)

    # -- running

    def _execute(
        self,
        loop: Callable[[], None],
        finish: Callable[[], None],
        stop: Callable[[], None] | None = None,
    ) -> tuple[float, float]:
        """Run `loop`, then `finish` in any case; return seconds and seconds of the processor.

        `stop` ends a run in which no block hook looks at the clock.
        """
        started, cpu_started = time.perf_counter(), time.process_time()
        with (
            crash.reported(self.program.path, self._clock, *_CRASH_WORDS),
            stop_on_interrupt(self._clock),
            stop_after(self._clock, self.limits.timeout, stop),
        ):
            try:
                loop()
            finally:
                finish()
        return time.perf_counter() - started, time.process_time() - cpu_started

    def _result(self, seconds: float, cpu_seconds: float, **counts: Any) -> RunResult:
        """Return how the run ended; raises what a callback has kept."""
        if self._error is not None:
            raise self._error
        assert self._ending is not None
        return RunResult(
            status=self._ending.status,
            reason=self._ending.reason,
            signal=self._ending.signal,
            fault=self._ending.fault,
            instructions=self.instructions,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            last_pc=int(self.cpu.state.pc),
            refusal=self._ending.refusal,
            waits=self._ending.waits,
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

    @abstractmethod
    def _set_limit(self) -> None:
        """Say at how many instructions the engine is to stop."""

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
        """Run a callback's work; keep exceptions for `run`, stop the engine when it is over."""
        try:
            action()
        except RunInterrupted:
            self._on_limit()
        except BaseException as error:
            self._error = error
        if self._is_over():
            self._clock[ClockWord.LIMIT] = -1
            self.cpu.stop()

    def _budget(self) -> int:
        """Instructions after which the run ends."""
        budget = self.limits.max_instructions
        return NO_LIMIT if budget is None else min(budget, NO_LIMIT)

    def _ends_from_outside(self) -> bool:
        """End the run if its time or budget is over, or Ctrl-C was pressed; say whether it is."""
        interruption = int(self._clock[ClockWord.INTERRUPTED])
        if interruption == Interruption.TIMEOUT:
            self._ending = Ending(STATUS_BUDGET, "budget")
        elif interruption:
            number = interruption % Interruption.SIGNAL
            self._ending = Ending(128 + number, "interrupted", number)
        elif self.limits.max_instructions == self._clock[ClockWord.LIMIT]:
            self._ending = Ending(STATUS_BUDGET, "budget")
        return self._ending is not None

    def _resumes(self, number: int, npc: int) -> bool:
        """Go where `_loop` wanted to, if a trap is that of starting the engine in a delay slot."""
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
        """Give back the emulator's memory; nothing can be done with the machine any more.

        Its parts refer to it, and it to them: without this they would stay in memory until Python
        looks for such cycles, which a program that makes many long-lived objects does rarely.
        """
        for part in (self._code, self._shadows, self._space, self.cpu, self):
            vars(part).clear()
