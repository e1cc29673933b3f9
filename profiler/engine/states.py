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

from simprof.profiler.engine import kernels
from simprof.profiler.engine.activations import Tally
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import (
    BEGINNING,
    UNKNOWN,
    Cross,
    GraphIndex,
    Land,
    MissingEntry,
    MissingTarget,
    Pop,
    Push,
    Step,
    WalkContext,
    Walker,
    only_crosses,
)
from simprof.simulator.values import dataclass

Array = npt.NDArray[np.int64]
Inside = tuple[tuple[Step, ...], WalkContext]  # Steps, and the context behind them
_NOWHERE = -2  # Address of an instruction that no other follows


class BlockState(NamedTuple):
    """A translation block in one context."""

    address: int
    size: int  # in bytes
    first: WalkContext  # the context after its first instruction

    @property
    def end(self) -> int:
        """Address after its last instruction."""
        return self.address + self.size


class States:
    """The states of one run, under the kernel's numbers, and what happens inside each."""

    # `walker`: Says what an instruction does.

    def __init__(self, walker: Walker, memory: EngineMemory) -> None:
        self._walker = walker
        self._memory = memory
        self._states: dict[int, BlockState] = {kernels.START: BlockState(0, 0, BEGINNING)}
        self._numbers: dict[BlockState, int] = {}
        self._insides: dict[int, Inside] = {}

    def __getitem__(self, number: int) -> BlockState:
        """Return state `number`."""
        return self._states[number]

    def number(self, state: BlockState) -> int:
        """Return the number of a state, which is added if it is new."""
        number = self._numbers.get(state)
        if number is None:
            number = self._memory.new_state()
            self._numbers[state], self._states[number] = number, state
        return number

    def known(self) -> tuple[list[BlockState], list[Inside | None]]:
        """Return all states in the order of their numbers, and of each what is inside, if asked."""
        numbers = self._states.keys() - {kernels.START}
        ordered = sorted(numbers)
        states = [self._states[number] for number in ordered]
        return states, [self._insides.get(number) for number in ordered]

    def learn(
        self,
        states: Sequence[BlockState],
        insides: Sequence[Inside | None],
    ) -> None:
        """Take over what `known` has said in another run; there are no states yet."""
        numbers = self._memory.new_states(len(states))
        self._states |= zip(numbers, states, strict=True)
        self._numbers |= zip(states, numbers, strict=True)
        pairs = zip(numbers, insides, strict=True)
        self._insides |= {number: inside for number, inside in pairs if inside is not None}

    def landing(self, address: int, size: int) -> int:
        """Return the number of a block's state when control arrives from just anywhere."""
        return self.number(BlockState(address, size, self._walker.land(address)))

    def left(self, block: int) -> int:
        """Return the number of the state behind a context that was set while in `block`."""
        # It has no instructions; wherever control arrives next, it lands.
        return self.number(BlockState(0, 0, WalkContext(-1, False, block, _NOWHERE)))

    def inside(self, number: int) -> Inside:
        """Return the steps from the first to the last instruction of state `number`."""
        # Also the context after the last one.
        known = self._insides.get(number)
        if known is None:
            state = self._states[number]
            known = self._insides[number] = self._walk(state, state.end)
        return known

    def until(self, number: int, pc: int, *, executed: bool = False) -> Inside:
        """Steps of state `number` up to the instruction at `pc`, which it has reached."""
        # `executed`: and which has executed.
        if number < kernels.FIRST_STATE or self._states[number].size == 0:
            return (), BEGINNING
        state = self._states[number]
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
        return self._states[number].first.block if number >= kernels.FIRST_STATE else UNKNOWN

    def items(self) -> Iterable[tuple[int, BlockState]]:
        """All states of translation blocks, with their numbers."""
        return (item for item in self._states.items() if item[0] >= kernels.FIRST_STATE)

    def covered(self, addresses: Iterable[int]) -> set[int]:
        """Return those of some instructions that are part of a state."""
        left, found = sorted(addresses), set[int]()
        for start, size, _ in self._states.values() if left else ():
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


@dataclass(eq=False)
class RunCounts:
    """What one run has counted; made when the run is over."""

    # The graphs, the kernel's counts, and the automaton that they are counts of
    index: GraphIndex
    memory: EngineMemory
    states: States
    transitions: Sequence[Transition]
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
        return dict(sorted(self.tally.cut.items()))

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
        counts = np.zeros(self.index.edge_count, np.int64)
        np.add.at(counts, np.array(edges, np.int64), np.array(times, np.int64))
        return counts

    def transition_counts(self) -> list[tuple[Transition, int]]:
        """Every transition with its count."""
        memory, spilled = self.memory, self.memory.spilled_counts()
        return [
            (transition, memory.successor_count(transition.source, transition.key, spilled))
            for transition in self.transitions
        ]

    def unattributed_transfers(self) -> int:
        """Transfers that no edge of the graphs explains."""
        return sum(
            count
            for transition, count in self.transition_counts()
            if not only_crosses(transition.boundary)
            and any(isinstance(s, MissingTarget | MissingEntry) for s in transition.boundary)
        ) + sum(count for step, count in self.tally.missing.items() if count > 1)


# Steps that mean the same in every run; others say what graphs lack, which has to be noted.
_LASTING = frozenset((Cross, Push, Pop, Land))


@dataclass(frozen=True)
class KnownWays:
    """States, transitions and operations of an earlier run."""

    # A run whose edges have nothing to do but to be counted takes them as they are: they depend on
    # the graphs alone then. What they were made of is kept, too, so that a run goes on learning
    # where it leaves them.

    states: Sequence[BlockState]  # The first ones, in the order of their numbers
    # By state: what `States.inside` says; None where nobody has asked.
    insides: Sequence[Inside | None]
    transitions: Sequence[Transition]  # Between these states
    numbers: Sequence[int]  # By transition: the number of its first operation, 0 for none.
    operations: npt.NDArray[np.int64]  # All words of the kernel's operations
    # landings, after_pop: See `StepOperations`.
    landings: dict[int, Land]
    after_pop: dict[int, tuple[int, ...]]


def lasts(steps: Sequence[Step]) -> bool:
    """Whether steps mean the same in every run."""
    return _LASTING.issuperset(map(type, steps))
