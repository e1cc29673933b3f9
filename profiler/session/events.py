"""What a run itself counted, routine by routine, whatever schemes it had.

The automaton counts under numbers that are unique in the whole program; here its counts are
handed out to the routines, whose own edges and blocks are numbered from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.engine.activations import EarlyEnd
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.graphs import flow
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.profiles.profile import CutBlock


@dataclass(frozen=True)
class UnfinishedSegment:
    """Activations of a routine that ended early in the same way.

    Attributes
    ----------
    block
        The block in which they ended, by its id in the routine.
    register
        What their segment register held.
    segments
        The state of the segment automaton in which their last segment began.
    count
        How many activations these are.
    """

    block: int
    register: int
    segments: int
    count: int


@dataclass(frozen=True)
class RoutineEvents:
    """What the run itself counted in one routine.

    Attributes
    ----------
    edges
        Crossings by edge id.
    ends
        The activations that ended early.
    cut
        The executions of blocks that did not come to their end.
    """

    cfg: ControlFlowGraph
    edges: tuple[int, ...]
    ends: tuple[UnfinishedSegment, ...]
    cut: tuple[CutBlock, ...] = ()

    @cached_property
    def early(self) -> Mapping[int, int]:
        """Block id -> activations that ended early in it."""
        early: Counter[int] = Counter()
        for end in self.ends:
            early[end.block] += end.count
        return dict(early)

    @cached_property
    def activations(self) -> int:
        """How often the routine was entered."""
        entry = self.cfg.entry
        by_edge = zip(self.cfg.edges, self.edges, strict=True)
        return sum(count for edge, count in by_edge if edge.source == entry)

    @cached_property
    def block_counts(self) -> tuple[int, ...]:
        """Executions by block."""
        return flow.block_counts(self.cfg, self.edges)


def collect_events(
    index: GraphIndex,
    edge_counts: NDArray[np.int64],
    early: Mapping[EarlyEnd, int],
    cut: Mapping[tuple[int, int], int] = MappingProxyType({}),
) -> dict[int, RoutineEvents]:
    """Return what the run counted, by number of every routine that was entered.

    Parameters
    ----------
    index
        Which numbers belong to which routine.
    edge_counts
        Crossings by program-wide edge number.
    early
        How many activations ended early, by how they did.
    cut
        How many executions of a block (its program-wide number) ended before an address in it.
    """
    cuts: dict[int, list[CutBlock]] = {}
    for (number, address), count in cut.items():
        routine = index.routine(number)
        executed = (address - index.block_start(number)) // 4
        cut_block = CutBlock(number - int(index.first_block[routine]), executed, count)
        cuts.setdefault(routine, []).append(cut_block)
    ends: dict[int, list[UnfinishedSegment]] = {}
    for end, count in early.items():
        routine = index.routine(end.block)
        block = end.block - int(index.first_block[routine])
        unfinished = UnfinishedSegment(block, end.register, end.segments, count)
        ends.setdefault(routine, []).append(unfinished)
    crossed = np.flatnonzero(edge_counts)
    touched = np.searchsorted(index.first_edge, crossed, "right") - 1  # ascending
    entered = touched[np.diff(touched, prepend=-1) > 0].tolist()
    events = {}
    for routine in sorted({*entered, *ends}):
        first, last = index.first_edge[routine], index.first_edge[routine + 1]
        events[routine] = RoutineEvents(
            index.recovered.routines[routine],
            tuple(edge_counts[first:last].tolist()),
            tuple(ends.get(routine, ())),
            tuple(cuts.get(routine, ())),
        )
    return events
