"""The seam between the machine and the automaton: one profiled run of a program."""

from __future__ import annotations

from collections.abc import Callable

from profiler.engine import kernels
from profiler.engine.automaton import Automaton
from simulator.machine.running import NativeHook


class ProfilingObserver:
    """A machine's observer that drives an automaton."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self.hook = NativeHook(
            address=kernels.block_hook_address(),
            user_data=automaton.memory.address,
            clock=automaton.clock,
            keepalive=automaton,
            on_context=_context_hook,
        )

    def signal_delivered(self, interrupted_pc: int, stack_pointer: int, handler: int) -> None:
        """Note that a signal's handler is entered next."""
        self._tell(lambda: self._automaton.signal_delivered(interrupted_pc, stack_pointer))

    def signal_returned(self, resumed_pc: int) -> None:
        """Note that the program goes on at `resumed_pc`, behind a signal's handler."""
        self._tell(lambda: self._automaton.signal_returned(resumed_pc))

    def context_replaced(self, pc: int) -> None:
        """Note that the program goes on at `pc`, in another context."""
        self._tell(self._automaton.context_replaced)

    def _tell(self, action: Callable[[], None]) -> None:
        if self._automaton.error is None:
            self._automaton.guard(action)


def _context_hook() -> int:
    """Return the address of what native code calls when it has set a context."""
    from profiler.engine import landing_kernel  # most programs never need it

    return landing_kernel.context_part()
