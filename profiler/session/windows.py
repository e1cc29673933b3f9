"""What a run did in a window: in some calls of one routine, and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simprof.profiler.engine.activations import EarlyEnd
from simprof.profiler.engine.contexts import Array, ContextCounts
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.session.events import RoutineEvents, collect_events


@dataclass(frozen=True)
class Window:
    """The counts of a window, as those of a whole run.

    Attributes
    ----------
    calls
        How many calls of its routine it was.
    events
        By number of each routine that was active.
    times
        How often each transition of the segment automaton was taken.
    """

    calls: int
    events: Mapping[int, RoutineEvents]
    times: list[int]

    @property
    def base(self) -> int:
        """Instructions executed."""
        total = 0
        for events in self.events.values():
            blocks = events.cfg.blocks
            counts = zip(events.block_counts, blocks, strict=True)
            total += sum(count * block.instructions for count, block in counts)
            total -= sum(
                cut.count * (blocks[cut.block].instructions - cut.executed) for cut in events.cut
            )
        return total


def window_of(counts: ContextCounts, lowering: Lowering, index: GraphIndex) -> Window:
    """Return what was counted in a window.

    Parameters
    ----------
    counts
        Of a run with a window: there is nothing in them of what is outside.
    lowering, index
        Of the run.
    """
    products = lowering.products
    times = np.zeros(products.transitions, np.int64)
    np.add.at(times, counts.transitions[:, 1], counts.transitions[:, 2])
    edges = np.zeros(index.edge_count, np.int64)
    for number in np.flatnonzero(times).tolist():
        routine, crossed, _ = products.transition(number)
        _cross(edges, index, routine, crossed, int(times[number]))
    early: Counter[EarlyEnd] = Counter()
    for (_, end), count in counts.ends.items():
        early[end] += count
    for end, count in early.items():
        routine = index.routine(end.block)
        block = end.block - int(index.first_block[routine])
        crossed, _ = products.begun(routine, block, end.register, end.segments)
        _cross(edges, index, routine, crossed, count)
    cut: Counter[tuple[int, int]] = Counter()
    for (_, block, pc), count in counts.cuts.items():
        cut[block, pc] += count
    events = collect_events(index, edges, early, dict(sorted(cut.items())))
    return Window(counts.window_calls, events, times.tolist())


def _cross(
    counts: Array, index: GraphIndex, routine: int, edges: tuple[int, ...], times: int
) -> None:
    first = int(index.first_edge[routine])
    for edge in edges:
        counts[first + edge] += times
