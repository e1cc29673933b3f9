"""Entries that a run expects, and the graphs as they turn out when it is over.

A run on graphs that lack an entry would have to be made again, from its start: plans depend on the
graphs. So a run is made on graphs with all entries that calls of `setjmp` may give their routines
(`recovery.second_returns`), and its schemes count for each graph that such a routine may turn out
to have (`engine.variants`). What a run on the right graphs would have counted is then there.

Steps -> functions
1. the graphs with all of them, and those that a routine may have  `ExpectedEntries`
2. which entries control came by                                    `ExpectedEntries.used`
3. the graphs and the counts without the others                     `graphs_with`, `without_unused`
4. let those schemes count that were planned on these graphs        `choose`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.variants import GraphVariant, variants_of
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.recovery.calls import second_returns, with_entries
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.profiler.session.scheme_runs import SchemeRun

Array = npt.NDArray[np.int64]


class ExpectedEntries:
    """Blocks by which control may come into their routines, though the graphs do not say so.

    Parameters
    ----------
    base
        The graphs.
    blocks
        The blocks, by number, ascending.

    Attributes
    ----------
    recovered
        The graphs with all of these entries. Blocks have the same numbers; edges do not.
    """

    def __init__(self, base: RecoveredProgram, blocks: Sequence[int]) -> None:
        self.base = base
        self.blocks = tuple(blocks)
        self.recovered = with_entries(base, blocks)
        graphs = self.recovered.arrays
        by_block = zip(graphs.entered_blocks().tolist(), graphs.entries().tolist(), strict=True)
        edge_of = dict(by_block)
        self._edges = {block: edge_of[block] for block in self.blocks}
        self._variants: dict[int, dict[frozenset[int], GraphVariant]] = {}

    @cached_property
    def routines(self) -> frozenset[int]:
        """Numbers of the routines that these blocks are in."""
        return frozenset(map(self.base.routine_of_block, self.blocks))

    @cached_property
    def names(self) -> frozenset[tuple[int, str]]:
        """Addresses and names of these routines."""
        graphs = self.base.arrays
        return frozenset((int(graphs.addresses[n]), graphs.names[n]) for n in self.routines)

    def of(self, routine: int) -> Sequence[GraphVariant]:
        """Return all graphs that a routine may turn out to have; none if that is known."""
        return tuple(self._of(routine).values()) if routine in self.routines else ()

    def _of(self, routine: int) -> dict[frozenset[int], GraphVariant]:
        known = self._variants.get(routine)
        if known is None:
            first = int(self.recovered.arrays.first_edge[routine])
            inside = {
                edge - first: block
                for block, edge in self._edges.items()
                if self.base.routine_of_block(block) == routine
            }
            found = variants_of(
                self.recovered.routines[routine], self.base.routines[routine], tuple(inside)
            )
            known = self._variants[routine] = {
                frozenset(inside[edge] for edge in taken): variant for taken, variant in found
            }
        return known

    def used(self, edge_counts: Array) -> frozenset[int]:
        """Return the blocks that control came to by these entries."""
        return frozenset(block for block, edge in self._edges.items() if edge_counts[edge])

    def addresses(self, blocks: frozenset[int]) -> frozenset[int]:
        """Return where blocks start."""
        return frozenset(int(self.base.arrays.block_start[block]) for block in blocks)

    def without_unused(self, edge_counts: Array) -> Array:
        """Return the counts of the edges of `graphs_with`."""
        used = self.used(edge_counts)
        unused = [edge for block, edge in self._edges.items() if block not in used]
        return np.delete(edge_counts, unused)

    def graphs_with(self, used: frozenset[int]) -> RecoveredProgram:
        """Return the graphs with some of these entries; what is the same is the same object."""
        return with_entries(self.base, used, self._chosen(used)) if used else self.base

    def choose(self, lowering: Lowering, used: frozenset[int]) -> None:
        """Let only those schemes count that were planned on `graphs_with(used)`."""
        for routine in self.routines:
            lowering.choose(routine, self._variant(routine, used).cfg)

    def _chosen(self, used: frozenset[int]) -> dict[int, ControlFlowGraph]:
        routines = map(self.base.routine_of_block, used)
        return {routine: self._variant(routine, used).cfg for routine in routines}

    def _variant(self, routine: int, used: frozenset[int]) -> GraphVariant:
        inside = {block for block in used if self.base.routine_of_block(block) == routine}
        return self._of(routine)[frozenset(inside)]


class VariantPlans:
    """What the schemes of one run plan for the graphs that routines may turn out to have.

    Parameters
    ----------
    expected
        These routines.
    schemes
        The schemes that count paths, in the order of their slots.
    """

    def __init__(self, expected: ExpectedEntries, schemes: Sequence[SchemeRun]) -> None:
        self._expected = expected
        self._schemes = schemes

    def of(self, routine: int) -> Sequence[GraphVariant]:
        """Return all graphs that a routine may turn out to have; none if that is known."""
        return self._expected.of(routine)

    def plan(self, slot: int, routine: int, variant: GraphVariant) -> InstrumentationPlan | None:
        """Return what a scheme plans for one of them."""
        return self._schemes[slot].plan_on(routine, variant.cfg)


def expected_entries(recovered: RecoveredProgram) -> ExpectedEntries | None:
    """Return the entries that a run on these graphs may need; None if there are none."""
    blocks = second_returns(recovered)
    return ExpectedEntries(recovered, blocks) if blocks else None


def are_same(graphs: RecoveredProgram, others: RecoveredProgram) -> bool:
    """Whether two recoveries of one program came to the same."""
    return (
        graphs.arrays == others.arrays
        and np.array_equal(graphs.block_at, others.block_at)
        and replace(graphs, routines=(), code=others.code) == replace(others, routines=())
    )
