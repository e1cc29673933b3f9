"""Ways through the graphs that an earlier run has taken, and what a run makes of them.

A way leads from one state of the automaton to the next. Its steps depend on the graphs and on where
the emulator ends its blocks; what the kernel does on it depends on the schemes of the run, too. So
the steps are kept (`KnownWays`), for runs under all modes, and each run composes its operations of
them in native code (`LearntWays`): those of the ways through a routine when the program first comes
into it, since most of a static program never runs and its plans would be made for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels
from simprof.profiler.engine import operation_kernel as kernel
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.memory import EdgeOperations, Operation
from simprof.profiler.engine.walk import Cross, Land, Pop, Push, Step, Stray, WalkContext
from simprof.simulator.values import dataclass

Array = npt.NDArray[np.int64]

_KIND = (1 << kernel.KIND_BITS) - 1
_MOST = 1 << (62 - kernel.KIND_BITS)  # Values of steps as words are below
_MOVES = {kernels.CAN_SAVE: kernel.SPILL, kernels.CAN_RESTORE: kernel.FILL}
_STATE = 6  # columns of a state: address, bytes, and the context after its first instruction
_CONTEXT = 4


@dataclass(frozen=True, eq=False)
class KnownWays:
    """States and ways of earlier runs, in arrays of int64."""

    states: Array  # (n, 6): address, bytes, and the four words of the context behind the first one
    contexts: Array  # (n, 4): the context behind the last instruction, where `insides` has any
    insides: Array  # (n,): the sequence of the steps inside; -1 where nobody has asked
    # Sequences of steps: number i has the words `steps[first[i]:first[i + 1]]`.
    first: Array
    steps: Array
    landings: Array  # (n, 3): address, block, and whether control returned, of landings
    # (n, 4): source (its place among the states; -1: START), key of the event, target, and the
    # sequence of all steps from the source's first instruction to that of the target, behind which
    # a window may be moved
    ways: Array

    @staticmethod
    def none() -> KnownWays:
        """Return no ways."""
        return KnownWays(
            states=np.zeros((0, _STATE), np.int64),
            contexts=np.zeros((0, _CONTEXT), np.int64),
            insides=np.zeros(0, np.int64),
            first=np.zeros(1, np.int64),
            steps=np.zeros(0, np.int64),
            landings=np.zeros((0, 3), np.int64),
            ways=np.zeros((0, kernel.WAY), np.int64),
        )

    def with_edges(self, edges: Iterable[int]) -> KnownWays:
        """Return these ways by the numbers that edges have in graphs with more edges: `edges`."""
        added = np.array(sorted(edges), np.int64)
        # How many edges there are before each of these in graphs without them
        before = added - np.arange(len(added))
        return self._renumbered(lambda edge: edge + np.searchsorted(before, edge, side="right"))

    def without_edges(self, edges: Iterable[int]) -> KnownWays:
        """Return these ways, none of which crosses one of `edges`, in graphs without those."""
        removed = np.array(sorted(edges), np.int64)
        return self._renumbered(lambda edge: edge - np.searchsorted(removed, edge))

    def _renumbered(self, new: Callable[[Array], Array]) -> KnownWays:
        steps = self.steps.copy()
        crosses = steps & _KIND == kernel.CROSS
        numbers = new(steps[crosses] >> kernel.KIND_BITS)
        steps[crosses] = numbers << kernel.KIND_BITS | kernel.CROSS
        return replace(self, steps=steps)

    def sequence(self, number: int) -> tuple[Step, ...]:
        """Return the steps of a sequence, without moves of windows."""
        words = self.steps[self.first[number] : self.first[number + 1]].tolist()
        steps = ((word & _KIND, word >> kernel.KIND_BITS) for word in words)
        moves = kernel.SPILL, kernel.FILL
        return tuple(self._step(kind, value) for kind, value in steps if kind not in moves)

    def _step(self, kind: int, value: int) -> Step:
        if kind == kernel.CROSS:
            return Cross(value)
        if kind == kernel.PUSH:
            return Push(value)
        if kind == kernel.POP:
            return Pop()
        address, block, returned = self.landings[value].tolist()
        return Land(address, block, returned=bool(returned))


class WaysToKeep:
    """What a run adds to known ways."""

    def __init__(self, known: KnownWays) -> None:
        self._known = known
        self._sequences: dict[tuple[int, ...], int] = {}
        self._landings: dict[Land, int] = {}

    def with_more(
        self,
        # Of states behind those known: address, bytes and context; and of states by their place:
        # the steps inside and the context behind these
        states: Sequence[tuple[int, int, WalkContext]],
        insides: Mapping[int, tuple[Sequence[Step], WalkContext]],
        # (source, key, target, steps, move of a window behind these), states by their place
        ways: Iterable[tuple[int, int, int, Sequence[Step], Sequence[Operation]]],
    ) -> KnownWays:
        """Return known ways and these."""
        known, count = self._known, len(self._known.states)
        rows = [(address, size, *context) for address, size, context in states]
        contexts = np.zeros((count + len(rows), _CONTEXT), np.int64)
        contexts[:count] = known.contexts
        inside = np.full(count + len(rows), -1, np.int64)
        inside[:count] = known.insides
        for place, (steps, context) in insides.items():
            words = self._words(steps)
            if words is not None:
                inside[place] = self._sequence(words)
                contexts[place] = context
        found = []
        for source, key, target, steps, move in ways:
            way = self._words(steps)
            if way is not None:
                way += [_MOVES[where] for _, where, _ in move]
                found.append((source, key, target, self._sequence(way)))
        lengths = np.fromiter(map(len, self._sequences), np.int64, len(self._sequences))
        more = np.fromiter((word for each in self._sequences for word in each), np.int64)
        landings = [(each.address, each.block, each.returned) for each in self._landings]
        return KnownWays(
            states=_with_rows(known.states, rows),
            contexts=contexts,
            insides=inside,
            first=np.concatenate((known.first, known.first[-1] + np.cumsum(lengths))),
            steps=np.concatenate((known.steps, more)),
            landings=_with_rows(known.landings, landings),
            ways=_with_rows(known.ways, found),
        )

    def _sequence(self, words: Sequence[int]) -> int:
        more = len(self._known.first) - 1
        return more + self._sequences.setdefault(tuple(words), len(self._sequences))

    def _words(self, steps: Iterable[Step]) -> list[int] | None:
        """Return steps as words; None where a step means something in one run only."""
        # So do those that say what graphs lack. Python can be asked about one step of a way.
        words: list[int] = []
        stops = 0
        for step in steps:
            match step:
                case Cross(value):
                    kind = kernel.CROSS
                case Push(value):
                    kind = kernel.PUSH
                case Pop():
                    kind, value = kernel.POP, 0
                case Land() if not isinstance(step, Stray):
                    kind = kernel.LAND
                    place = self._landings.setdefault(step, len(self._landings))
                    value = len(self._known.landings) + place
                case _:
                    return None
            stops += kind in (kernel.POP, kernel.LAND)
            if stops > 1 or not 0 <= value < _MOST:
                return None
            words.append(value << kernel.KIND_BITS | kind)
        return words


def _with_rows(array: Array, rows: Sequence[Sequence[int]]) -> Array:
    more = np.array(rows, np.int64).reshape(-1, array.shape[1])
    return np.concatenate((array, more))


def _grouped(keys: Array, count: int) -> tuple[Array, Array]:
    """Return the places of keys, from 0 to count - 1, in their order, and where each begins."""
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=first[1:])
    return first, np.argsort(keys, kind="stable")


def _of(first: Array, members: Array, groups: Array) -> Array:
    """Return the members of some groups, group by group."""
    starts, counts = first[groups], first[groups + 1] - first[groups]
    behind = np.cumsum(counts)
    total = int(behind[-1]) if len(behind) else 0
    return members[np.repeat(starts - behind + counts, counts) + np.arange(total)]


class LearntWays:
    """The ways of earlier runs in one run."""

    # `numbers`: By place of a state, its number in this run.
    # A way is taken over, so that the kernel finds it, when all routines whose edges it crosses are
    # lowered; in a run without schemes at once.

    def __init__(self, known: KnownWays, numbers: Array, lowering: Lowering) -> None:
        self.known = known
        self._lowering, self._memory = lowering, lowering.memory
        sequences = len(known.first) - 1
        numbered = np.append(numbers, kernels.START)  # the place -1 is START's
        self._ways = known.ways.copy()
        for column in (kernel.SOURCE, kernel.TARGET):
            self._ways[:, column] = numbered[known.ways[:, column]]
        self.is_taken_over = np.zeros(len(self._ways), np.bool_)
        self._numbers = np.zeros(sequences, np.int64)
        self._stops = np.zeros(sequences, np.int64)
        crosses = known.steps & _KIND == kernel.CROSS
        self._edges = known.steps[crosses] >> kernel.KIND_BITS
        self._crossing = np.repeat(np.arange(sequences), np.diff(known.first))[crosses]
        self._first_way, self._by_sequence = _grouped(self._ways[:, kernel.SEQUENCE], sequences)
        self._lists = np.zeros(0, np.int64)  # of a run without schemes: no edge has operations
        self._pool = np.zeros(kernels.OPERATION << 10, np.int64)
        self._pooled = 0
        self._followed = 0
        told = self._told = np.zeros(kernel.TOLD, np.int64)
        arrays = known.first, known.steps, self._numbers, self._stops, self._ways
        words = kernel.FIRST, kernel.STEPS, kernel.NUMBERS, kernel.STOPS, kernel.WAYS
        told[list(words)] = [array.ctypes.data for array in arrays]
        told[[kernel.SPILLS, kernel.FILLS]] = [
            lowering.memory.add_operations([(kernels.WINDOW, which, 0)])
            for which in (kernels.CAN_SAVE, kernels.CAN_RESTORE)
        ]
        if lowering.is_idle:
            self._take_over(np.flatnonzero(np.diff(self._first_way)))
        else:
            self._prepare()

    def _prepare(self) -> None:
        """Find the routines that have to be lowered before a sequence's operations are known."""
        first_edge, sequences = self._lowering.first_edge, len(self._numbers)
        self._lists = np.zeros(int(first_edge[-1]), np.int64)
        self._told[kernel.LISTS] = self._lists.ctypes.data
        routines = len(first_edge) - 1
        routine = np.searchsorted(first_edge, self._edges, side="right") - 1
        pairs = np.sort(self._crossing * routines + routine)
        # Each once; `np.unique` would import `numpy.ma`, which takes 10 ms.
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        of_ways = np.diff(self._first_way) > 0
        pairs = pairs[of_ways[pairs // routines]]
        self._left = np.bincount(pairs // routines, minlength=sequences)
        self._first_sequence, order = _grouped(pairs % routines, routines)
        self._by_routine = (pairs // routines)[order]
        self._take_over(np.flatnonzero(of_ways & (self._left == 0)))

    @cached_property
    def _places(self) -> dict[tuple[int, int], int]:
        sources, keys = self._ways[:, kernel.SOURCE].tolist(), self._ways[:, kernel.KEY].tolist()
        return dict(zip(zip(sources, keys, strict=True), range(len(keys)), strict=True))

    def has(self, source: int, key: int) -> bool:
        """Whether event `key` behind state number `source` is known."""
        return (source, key) in self._places

    def take_over(self, source: int, key: int) -> bool:
        """Let the kernel find the way from a state by an event; False where it is not known."""
        if self._lowering.is_idle or not self.has(source, key):
            return False
        sequence = self._ways[self._places[source, key], kernel.SEQUENCE]
        for step in self.known.sequence(int(sequence)):
            if isinstance(step, Cross):
                self._lowering.lower_at(step.edge)
        self.follow()
        return True

    def follow(self) -> None:
        """Take over the ways through the routines that have been lowered since the last time."""
        lowered = self._lowering.lowered
        if self._followed == len(lowered):
            return
        ready = []
        for routine, operations in lowered[self._followed :]:
            self._pool_operations(operations)
            first, end = self._first_sequence[routine : routine + 2].tolist()
            sequences = self._by_routine[first:end]
            self._left[sequences] -= 1
            ready.append(sequences[self._left[sequences] == 0])
        self._followed = len(lowered)
        self._take_over(np.concatenate(ready))

    def _pool_operations(self, operations: EdgeOperations) -> None:
        """Put the operations of a routine's edges behind those that are in the pool."""
        edges, counts, words = operations
        start, end = self._pooled, self._pooled + words.size
        if end > len(self._pool):
            self._pool = np.append(self._pool, np.zeros(end, np.int64))
        self._pool[start:end] = words.ravel()
        places = start // kernels.OPERATION + np.cumsum(counts) - counts
        self._lists[edges] = places << kernel.COUNT_BITS | counts
        self._pooled = end

    def _take_over(self, sequences: Array) -> None:
        if not len(sequences):
            return
        self._told[kernel.POOL] = self._pool.ctypes.data
        self._memory.compose(self._told, sequences)
        ways = _of(self._first_way, self._by_sequence, sequences)
        self._memory.insert_ways(self._told, ways, self._ways, self._numbers)
        self.is_taken_over[ways] = True

    # What Python asks about an operation at which the kernel has stopped

    def stopped_at(self, operation: int) -> tuple[Step, ...]:
        """Return the steps of the ways in whose list an operation is that returns or lands."""
        return self.known.sequence(int(np.flatnonzero(self._stops == operation)[0]))

    # Counts

    def counts(self) -> Array:
        """How often each way was taken, 0 where it was not even taken over."""
        taken = self._ways[self.is_taken_over]
        counts = np.zeros(len(self._ways), np.int64)
        counts[self.is_taken_over] = self._memory.successor_counts(
            taken[:, kernel.SOURCE], taken[:, kernel.KEY]
        )
        return counts

    def add_edge_counts(self, counts: Array) -> None:
        """Add to the counts of edges how often these ways have crossed them."""
        times = np.zeros(len(self._numbers), np.int64)
        np.add.at(times, self._ways[:, kernel.SEQUENCE], self.counts())
        np.add.at(counts, self._edges, times[self._crossing])

    def followings(self) -> list[tuple[int, int, int]]:
        """Of each way that is taken over its source, its target, and how often it was taken."""
        is_in = self.is_taken_over
        ends = self._ways[is_in][:, [kernel.SOURCE, kernel.TARGET]].tolist()
        counts = self.counts()[is_in].tolist()
        return [(*each, count) for each, count in zip(ends, counts, strict=True)]
