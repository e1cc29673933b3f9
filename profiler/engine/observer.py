"""The seam between the machine and the automaton: one profiled run of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from simprof.profiler.engine import block_kernel
from simprof.profiler.engine.automaton import Automaton
from simprof.simulator.machine.running import BlockPlace, NativeHook


class ProfilingObserver:
    """A machine's observer that drives an automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self.hook = NativeHook(
            address=block_kernel.block_hook_address(),
            user_data=automaton.memory.address,
            clock=automaton.clock,
            keepalive=automaton,
            on_context=_context_hook,
            thinning=None if automaton.is_dense else _GuardedThinning(automaton),
            # A method of the observer's own would keep all of the run in memory.
            on_late_block=partial(_late_block, automaton),
        )

    def signal_delivered(
        self, interrupted_pc: int, stack_pointer: int, handler: int, between: bool
    ) -> None:
        """Note that a signal's handler is entered next."""
        deliver = self._automaton.signal_delivered
        self._tell(lambda: deliver(interrupted_pc, stack_pointer, between=between))

    def signal_returned(self, resumed_pc: int) -> None:
        """Note that the program goes on at `resumed_pc`, behind a signal's handler."""
        self._tell(lambda: self._automaton.signal_returned(resumed_pc))

    def context_replaced(self, pc: int) -> None:
        """Note that the program goes on at `pc`, in another context."""
        self._tell(self._automaton.context_replaced)

    def thread_started(self, number: int, current: int) -> None:
        """Note that thread `current`, which goes on, has started another one."""
        self._tell(lambda: self._automaton.thread_started(number, current))

    def thread_switched(self, number: int) -> None:
        """Note that another thread goes on where it was."""
        self._tell(lambda: self._automaton.thread_switched(number))

    def thread_ended(self) -> None:
        """Note that the current thread has ended itself."""
        self._tell(self._automaton.thread_ended)

    def _tell(self, action: Callable[[], None]) -> None:
        if self._automaton.error is None:
            self._automaton.guard(action)


class _GuardedThinning:
    """An automaton's `Thinning`, whose exceptions wait until the run is over."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton

    def is_worth_it(self, instructions: int) -> bool:
        return self._automaton.is_worth_thinning(instructions)

    def choose_silent(self) -> Mapping[BlockPlace, int]:
        chosen: list[Mapping[BlockPlace, int]] = []
        self._tell(lambda: chosen.append(self._automaton.choose_silent()))
        return chosen[0] if chosen else {}

    def begin_silence(self, sizes: Mapping[BlockPlace, int]) -> None:
        self._tell(lambda: self._automaton.begin_silence(sizes))

    def stopped(self, pc: int) -> None:
        self._tell(lambda: self._automaton.stopped(pc))

    def faulted(self, pc: int) -> None:
        self._tell(lambda: self._automaton.faulted(pc))

    def trapped(self) -> None:
        self._tell(self._automaton.trapped)

    def _tell(self, action: Callable[[], None]) -> None:
        if self._automaton.error is None:
            self._automaton.guard(action)


def _late_block(automaton: Automaton, address: int, words: tuple[int, ...]) -> None:
    if automaton.error is None:
        automaton.guard(lambda: automaton.late_block(address, words))


def _context_hook() -> int:
    from simprof.profiler.engine import landing_kernel  # most programs never need it

    return landing_kernel.context_part()
