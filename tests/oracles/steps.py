"""What a program did, as steps of activations: recorded once from qemu-user's log.

`naive.Walker` follows the log over graphs. Recorded are the edges that activations cross, how far
each had come in its block when another one began, and which ended early.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.naive import Activation, NaiveProfile, Walker
from tests.oracles.qemu import Trace


class Kind(IntEnum):
    """What a step is."""

    BEGIN = 0  # an activation crosses an ENTRY edge
    CROSS = 1  # it crosses an edge to another block
    EXIT = 2  # it crosses an EXIT edge, and has ended
    EARLY = 3  # it ends in the middle
    WAIT = 4  # it has executed so many instructions of its block when another one begins


class Step(NamedTuple):
    """One step: of which activation, in which routine (by address), and `what`: edge or number."""

    kind: Kind
    activation: int
    routine: int
    what: int


class Recorder(Walker):
    """Walks a log and records the steps."""

    steps: list[Step]
    _numbers: dict[int, int]

    def _note(self, kind: Kind, activation: Activation, what: int) -> None:
        number = self._numbers[id(activation)]
        self.steps.append(Step(kind, number, activation.graph.address, what))

    def walk(self) -> NaiveProfile:
        """Record everything."""
        self.steps, self._numbers, self._begun = [], {}, 0
        return super().walk()

    def cross(self, edge: int) -> None:
        self._note(Kind.CROSS, self.stack[-1], edge)
        super().cross(edge)

    def enter(self, step: int, expected: frozenset[int], below: bool) -> None:
        if self.stack:
            self._note(Kind.WAIT, self.stack[-1], self.stack[-1].offset)
        super().enter(step, expected, below)
        top = self.stack[-1]
        self._numbers[id(top)] = self._begun
        self._begun += 1
        (edge,) = (e for e in top.graph.out_edges[top.graph.entry] if self._leads_to_top(e))
        self._note(Kind.BEGIN, top, edge)

    def _leads_to_top(self, edge: int) -> bool:
        top = self.stack[-1]
        return top.graph.edges[edge].target == top.block

    def close(self, edge: int) -> Activation:
        self._note(Kind.EXIT, self.stack[-1], edge)
        return super().close(edge)

    def end_early(self) -> Activation:
        ended = super().end_early()
        self._note(Kind.EARLY, ended, ended.block)
        return ended

    def leave_slot(self, activation: Activation) -> None:
        """Take back the step into the slot block, too: what waited there waits before it."""
        number, edge = self._numbers[id(activation)], activation.edges[-1]
        super().leave_slot(activation)
        done = activation.graph.blocks[activation.block].instructions
        later: list[Step] = []
        while self.steps[-1] != (Kind.CROSS, number, activation.graph.address, edge):
            step = self.steps.pop()
            mine = step.activation == number
            later.append(step._replace(what=done) if mine else step)
        self.steps.pop()
        self.steps += reversed(later)


def record(
    graphs: Sequence[ControlFlowGraph], log: Trace, handlers: Collection[int] = ()
) -> list[Step]:
    """Return the steps of a logged run on `graphs`; `handlers` as `naive.profile_of` has them."""
    walker = Recorder(graphs, log.pc, log.breaks, log.sp, None, not log.executed[-1], handlers)
    walker.walk()
    return walker.steps
