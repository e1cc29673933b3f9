"""The automaton's states and transitions, and what their counts say when a run is over.

Terms
-----
state
    A translation block in the context that control entered it with (`States`).
inside
    The steps between a block's first instruction and its last.
boundary
    The steps from a block's last instruction to the first of the next.
counts
    Of transitions by the kernel; of edges and instructions by `RunCounts`, from these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.engine import kernels
from simprof.profiler.engine.activations import Tally
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.native_walk import BlockState, Inside, NativeWalk
from simprof.profiler.engine.walk import (
    BEGINNING,
    UNKNOWN,
    Cross,
    GraphIndex,
    MissingEntry,
    MissingTarget,
    Pop,
    Step,
    WalkContext,
    Walker,
    only_crosses,
)

Array = npt.NDArray[np.int64]
_NOWHERE = -2  # Address of an instruction that no other follows


class States:
    """The states of one run, under the kernel's numbers, and what happens inside each."""

    # `walker`: Says what an instruction does, where native code (`native`) does not know.

    def __init__(self, walker: Walker, memory: EngineMemory, native: NativeWalk) -> None:
        self._walker = walker
        self._memory = memory
        self._native = native
        self._insides: dict[int, Inside] = {}  # of those that were asked for
        # START, and states behind a context that was set: they have no instructions
        self._empty = {kernels.START: BlockState(0, 0, BEGINNING)}
        self._left: dict[int, int] = {}  # block -> number of such a state

    def __getitem__(self, number: int) -> BlockState:
        """Return state `number`."""
        empty = self._empty.get(number)
        return self._native.state(number) if empty is None else empty

    def number(self, state: BlockState) -> int:
        """Return the number of a state, which is added if it is new."""
        return self._native.number(state)

    def landing(self, address: int, size: int) -> int:
        """Return the number of a block's state when control arrives from just anywhere."""
        return self.number(BlockState(address, size, self._walker.land(address)))

    def left(self, block: int) -> int:
        """Return the number of the state behind a context that was set while in `block`."""
        # Wherever control arrives next, it lands.
        if block not in self._left:
            number = self._left[block] = self._memory.new_state()
            context = WalkContext(-1, False, block, _NOWHERE)
            self._empty[number] = BlockState(0, 0, context)
            self._insides[number] = (), context
        return self._left[block]

    def inside(self, number: int) -> Inside:
        """Return the steps from the first to the last instruction of state `number`."""
        # Also the context after the last one.
        inside = self._insides.get(number)
        if inside is None:
            inside = self._native.inside(number)
            if inside is None:
                state = self[number]
                inside = self._walk(state, state.end)
            self._insides[number] = inside
        return inside

    def until(self, number: int, pc: int, *, executed: bool = False) -> Inside:
        """Steps of state `number` up to the instruction at `pc`, which it has reached."""
        # `executed`: and which has executed.
        if number < kernels.FIRST_STATE or self[number].size == 0:
            return (), BEGINNING
        state = self[number]
        steps, context = self._walk(state, min(pc + 4, state.end))
        if not executed and pc == context.last:
            return steps, context
        more: list[Step] = []
        context = self._walker.behind_slot(context, more)
        return (*steps, *more), context

    def boundary(self, number: int, address: int) -> tuple[list[Step], WalkContext]:
        """Steps from state `number` to the instruction at `address`, and the context after it."""
        if number == kernels.START:
            return self._walker.begin(address)
        return self._walker.step(self.inside(number)[1], address)

    def entered_block(self, number: int) -> int:
        """Return the block of the graphs in which state `number` begins, or UNKNOWN."""
        return self[number].first.block if number >= kernels.FIRST_STATE else UNKNOWN

    def items(self) -> Iterable[tuple[int, BlockState]]:
        """All states of translation blocks, with their numbers."""
        return ((number, self[number]) for number in self._native.numbers())

    def covered(self, addresses: Iterable[int]) -> set[int]:
        """Return those of some instructions that are part of a state."""
        left, found = sorted(addresses), set[int]()
        for _, (start, size, _) in self.items() if left else ():
            found.update(left[bisect_left(left, start) : bisect_left(left, start + size)])
        return found

    def _walk(self, state: BlockState, end: int) -> Inside:
        steps, context = self._walker.run(state.first, state.address + 4, end)
        return tuple(steps), context


class Transition(NamedTuple):
    """`source` was followed by `target`; `key` is the kernel's of the event."""

    source: int
    target: int
    boundary: tuple[Step, ...]
    key: int


class RunCounts(Struct, eq=False, dict=True):
    """What one run has counted; made when the run is over."""

    # The graphs, the kernel's counts, and the automaton that they are counts of
    index: GraphIndex
    memory: EngineMemory
    states: States
    transitions: Sequence[Transition]  # Those that Python has found
    native: NativeWalk  # Those that native code has found
    tally: Tally  # What Python counted itself

    def close(self) -> None:
        """Let go of the graphs, when nobody asks for counts any more."""
        self.index.close()

    def attributed_instructions(self) -> int:
        """Instructions executed in blocks of the graphs, derived from the edge counts alone."""
        graphs = self.index.recovered.arrays
        crossed = np.flatnonzero(self.edge_counts)
        routine = np.searchsorted(graphs.first_edge, crossed, side="right") - 1
        target = graphs.first_block[routine] + graphs.edge_target[crossed]
        enters = target < graphs.first_block[routine + 1]  # it is a block, not EXIT
        executed = self.edge_counts[crossed[enters]] * graphs.block_length[target[enters]]
        return int(executed.sum()) - self.unexecuted

    @cached_property
    def cut(self) -> dict[tuple[int, int], int]:
        """(block, address) -> how many of its executions ended before the instruction there."""
        return {place: count for place, count in sorted(self.tally.cut.items()) if count}

    @property
    def unexecuted(self) -> int:
        """Instructions of entered blocks that were never reached."""
        return sum(
            count * (self.index.block_end(block) - end) // 4
            for (block, end), count in self.cut.items()
        )

    @cached_property
    def edge_counts(self) -> Array:
        """How often each edge of the program was crossed (int64 by program-wide number)."""
        left: Counter[int] = Counter()
        edges: list[int] = list(self.tally.crossed)
        times: list[int] = list(self.tally.crossed.values())

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
                cross(self.states.inside(number)[0], count)
        counts = self.native.edge_counts(self.index.edge_count)
        np.add.at(counts, np.array(edges, np.int64), np.array(times, np.int64))
        return counts

    def followings(self) -> list[tuple[int, int, int]]:
        """Of each transition its source, its target, and how often it was taken."""
        own = [(each.source, each.target, count) for each, count in self.transition_counts()]
        return own + self.native.followings()

    @property
    def transition_count(self) -> int:
        """How many transitions there are."""
        return len(self.transitions) + len(self.native.log)

    def transition_counts(self) -> list[tuple[Transition, int]]:
        """Every transition that Python has found, with its count."""
        ends = [(transition.source, transition.key) for transition in self.transitions]
        counts = self.memory.successor_counts(*np.array(ends, np.int64).reshape(-1, 2).T)
        return list(zip(self.transitions, counts.tolist(), strict=True))

    def generated_entries(self) -> int:
        """How often control came from the program's file to generated code, returns left out."""
        made, states = self.index.generated, self.states
        return sum(
            count
            for transition, count in (self.transition_counts() if made else ())
            if states[transition.target].address in made
            and states[transition.source].address not in made
            and not any(isinstance(step, Pop) for step in transition.boundary)
        )

    def unattributed_transfers(self) -> int:
        """Transfers that no edge of the graphs explains."""
        return sum(
            count
            for transition, count in self.transition_counts()
            if not only_crosses(transition.boundary)
            and any(isinstance(s, MissingTarget | MissingEntry) for s in transition.boundary)
        ) + sum(count for step, count in self.tally.missing.items() if count > 1)
