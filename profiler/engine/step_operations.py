"""What the kernel executes for the steps of a transition: lists of operations, each added once.

Lists for nothing but edges mean the same wherever they stand, and are found by what is in them.
Others are found by their steps: Python may be asked for more about them when the kernel stops
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, fuse
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.trace_sink import TraceSink
from simprof.profiler.engine.walk import Cross, Land, Pop, Push, Step, only_crosses

if TYPE_CHECKING:
    from simprof.profiler.engine.recording import RecordingLowering


class StepOperations:
    """The lists of operations of one run.

    Parameters
    ----------
    lowering
        What the kernel does on each edge.

    Attributes
    ----------
    landings
        By number of a SLOW operation: where control lands.
    marks
        By number of a MARK operation: the steps from there on.
    after_pop
        By number of a RETURN operation: the edges that are crossed behind it.
    """

    def __init__(self, lowering: Lowering | RecordingLowering) -> None:
        self.landings: dict[int, Land] = {}
        self.marks: dict[int, tuple[Step, ...]] = {}
        self.after_pop: dict[int, tuple[int, ...]] = {}
        self._lowering = lowering
        self._memory = lowering.memory
        self._contexts = lowering.contexts
        self._is_idle = lowering.is_idle
        self._by_steps: dict[tuple[tuple[Step, ...], tuple[Operation, ...]], int] = {}
        self._by_content: dict[tuple[Operation, ...], int] = {(): 0}

    def number(
        self,
        steps: tuple[Step, ...],
        then: tuple[Operation, ...] = (),
        trace: TraceSink | None = None,
    ) -> int:
        """Return the number of the first operation that the kernel executes for `steps`.

        After them it executes `then`. 0 where there is nothing to do.

        Parameters
        ----------
        steps, then
            See above.
        trace
            What writes a trace of the run.
        """
        if trace is None and only_crosses(steps):
            return self._alike(then if self._is_idle else (*self._lower(steps, None), *then))
        known = self._by_steps.get((steps, then))
        if known is not None:
            return known
        operations = fuse((*self._lower(steps, trace), *then))
        first = self._memory.add_operations(operations) if operations else 0
        self._by_steps[steps, then] = first
        for number, (code, place, _) in enumerate(operations, first):
            if code == kernels.SLOW:
                landing = steps[place]
                assert isinstance(landing, Land)
                self.landings[number] = landing
            elif code == kernels.MARK:
                self.marks[number] = steps[place:]
            elif code == kernels.RETURN:
                self.after_pop[number] = _edges_after_pop(steps)
        return first

    def learn(self, landings: Mapping[int, Land], after_pop: Mapping[int, tuple[int, ...]]) -> None:
        """Take over what operations of another run need Python for; the memory has them."""
        self.landings.update(landings)
        self.after_pop.update(after_pop)

    def _alike(self, operations: tuple[Operation, ...]) -> int:
        known = self._by_content.get(operations)
        if known is None:
            known = self._by_content[operations] = self._memory.add_operations(fuse(operations))
        return known

    def _lower(self, steps: Sequence[Step], trace: TraceSink | None) -> list[Operation]:
        operations: list[Operation] = []
        for place, step in enumerate(steps):
            if trace is not None:
                operations += trace.operations(steps, place)
            match step:
                case Cross(edge):
                    operations += self._lowering.operations(edge)
                case Push(return_address):
                    operations.append((kernels.CALL, return_address, 0))
                    if self._contexts is not None:
                        operations.append(self._contexts.pushed(return_address))
                case Pop():
                    operations.append((kernels.RETURN, 0, 0))
                case Land():
                    operations.append((kernels.SLOW, place, 0))
        return operations


def _edges_after_pop(steps: Sequence[Step]) -> tuple[int, ...]:
    place = next(i for i, step in enumerate(steps) if isinstance(step, Pop))
    return tuple(step.edge for step in steps[place + 1 :] if isinstance(step, Cross))
