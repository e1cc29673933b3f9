"""From counts of transitions to counts of edges and instructions, after a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels
from simprof.profiler.engine.activations import Tally
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.states import States
from simprof.profiler.engine.walk import (
    Cross,
    GraphIndex,
    MissingEntry,
    MissingTarget,
    Step,
    only_crosses,
)

Array = npt.NDArray[np.int64]


class Transition(NamedTuple):
    """`source` was followed by `target`; `key` is the kernel's of the event."""

    source: int
    target: int
    boundary: tuple[Step, ...]
    key: int


class RunCounts:
    """What one run has counted; made when the run is over.

    Parameters
    ----------
    index, memory, states, transitions
        The graphs, the kernel's counts, and the automaton that they are counts of.
    tally
        What Python counted itself.
    """

    def __init__(
        self,
        index: GraphIndex,
        memory: EngineMemory,
        states: States,
        transitions: Sequence[Transition],
        tally: Tally,
    ) -> None:
        self._index = index
        self._memory = memory
        self._states = states
        self._transitions = transitions
        self._tally = tally

    def close(self) -> None:
        """Let go of the graphs, when nobody asks for counts any more."""
        self._index.close()

    def attributed_instructions(self) -> int:
        """Instructions executed in blocks of the graphs, derived from the edge counts alone."""
        graphs = self._index.recovered.arrays
        crossed = np.flatnonzero(self.edge_counts)
        routine = np.searchsorted(graphs.first_edge, crossed, side="right") - 1
        target = graphs.first_block[routine] + graphs.edge_target[crossed]
        enters = target < graphs.first_block[routine + 1]  # it is a block, not EXIT
        executed = self.edge_counts[crossed[enters]] * graphs.block_length[target[enters]]
        return int(executed.sum()) - self.unexecuted

    @cached_property
    def cut(self) -> dict[tuple[int, int], int]:
        """(block, address) -> how many of its executions ended before the instruction there."""
        return dict(sorted(self._tally.cut.items()))

    @property
    def unexecuted(self) -> int:
        """Instructions of entered blocks that were never reached."""
        return sum(
            count * (self._index.block_end(block) - end) // 4
            for (block, end), count in self.cut.items()
        )

    @cached_property
    def edge_counts(self) -> Array:
        """How often each edge of the program was crossed (int64 by program-wide number)."""
        left: Counter[int] = Counter()
        edges: list[int] = list(self._tally.crossed)
        times: list[int] = list(self._tally.crossed.values())

        def cross(steps: Sequence[Step], count: int) -> None:
            for step in steps:
                if type(step) is Cross:
                    edges.append(step.edge)
                    times.append(count)

        for transition, count in self.transition_counts():
            cross(transition.boundary, count)
            left[transition.source] += count
        for number, count in left.items():
            if number >= kernels.FIRST_STATE:
                cross(self._states.inside(number)[0], count)
        counts = np.zeros(self._index.edge_count, np.int64)
        np.add.at(counts, np.array(edges, np.int64), np.array(times, np.int64))
        return counts

    def transition_counts(self) -> list[tuple[Transition, int]]:
        """Every transition with its count."""
        memory, spilled = self._memory, self._memory.spilled_counts()
        return [
            (transition, memory.successor_count(transition.source, transition.key, spilled))
            for transition in self._transitions
        ]

    def unattributed_transfers(self) -> int:
        """Transfers that no edge of the graphs explains."""
        return sum(
            count
            for transition, count in self.transition_counts()
            if not only_crosses(transition.boundary)
            and any(isinstance(s, MissingTarget | MissingEntry) for s in transition.boundary)
        ) + sum(count for step, count in self._tally.missing.items() if count > 1)
