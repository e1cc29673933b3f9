"""Counters placed for BL94's blocks: plans of the contracted graph on the routine itself.

`graphs.contraction` makes one block of those that only calls and delay slots split. A plan of that
graph becomes one of the routine: a counter on an edge is on the same edge, a counter in a block is
in the first of its chain. So it is generated, priced and counted like any other, and what is read
off the counters is read for every block and edge of the routine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.contraction import Contraction
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.plan.decoders import Reading, RoutineCounters, RoutinePlan
from simprof.profiler.plan.plan import InstrumentationPlan


@dataclass(frozen=True)
class MergedPlan:
    """A plan for the blocks of BL94."""

    contraction: Contraction  # The routine and its contracted graph
    inner: RoutinePlan  # The plan of the contracted graph; its counters have the same numbers.
    plan: InstrumentationPlan  # The same actions on the edges and blocks of the routine

    @property
    def cfg(self) -> ControlFlowGraph:
        """The routine."""
        return self.contraction.cfg

    @property
    def weights(self) -> tuple[float, ...]:
        """The edge weights that guided the placement, by edge id of the routine."""
        return self.contraction.spread(self.inner.weights)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the counts of the contracted graph, and from them those of the routine."""
        early = counters.early
        reading = self.inner.read(replace(counters, early=self.contraction.early(early)))
        edges, blocks = reading.edges, reading.blocks
        if edges is not None:
            edges = self.contraction.edge_counts(edges, early)
        if blocks is not None:
            known = [count for count in blocks if count is not None]
            assert len(known) == len(blocks), "plans of qpt tell the counts of all blocks"
            blocks = self.contraction.block_counts(known, early)
            if edges is not None:
                blocks = block_counts(self.cfg, edges)
        return replace(reading, edges=edges, blocks=blocks)

    def validate(self) -> None:
        """Check the contraction and its plan, and that the routine's plan is that one."""
        self.contraction.validate()
        self.inner.validate()
        assert self.plan == lift(self.contraction, self.inner.plan), "other actions than planned"


def lift(contraction: Contraction, plan: InstrumentationPlan) -> InstrumentationPlan:
    """Return a plan of the contracted graph as one of the routine."""
    assert not plan.block_ends, "a counter at the end of a block counts no early ends"
    return replace(
        plan,
        actions={contraction.kept[edge]: actions for edge, actions in plan.actions.items()},
        blocks={contraction.chains[block][0]: actions for block, actions in plan.blocks.items()},
    )


def merged(contraction: Contraction, inner: RoutinePlan) -> MergedPlan:
    """Make a plan of the contracted graph one of the routine."""
    return MergedPlan(contraction, inner, lift(contraction, inner.plan))
