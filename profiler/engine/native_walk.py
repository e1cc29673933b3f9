"""The arrays of `walk_kernel` for one run, and what Python asks about what was learnt there.

Transitions that native code has learnt are rows of its log; those that Python had to decide are
`states.Transition`s. Both count in the same rows of successors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import kernels, transition_kernel, walk_kernel
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.memory import EngineMemory, Operation, larger_table
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    GraphIndex,
    Pop,
    Push,
    Step,
    WalkContext,
    Walker,
)
from simprof.simulator.isa.decode import TransferKind

Array = npt.NDArray[np.int64]
Inside = tuple[tuple[Step, ...], WalkContext]  # Steps, and the context behind them
_CONTEXT = slice(walk_kernel.PENDING, walk_kernel.PENDING + walk_kernel.CONTEXT)
_KIND = (1 << walk_kernel.KIND_BITS) - 1
_STATES, _LOG, _STEPS, _OPERATIONS = 1 << 14, 1 << 14, 1 << 16, 1 << 10


class BlockState(NamedTuple):
    """A translation block in one context."""

    address: int
    size: int  # in bytes
    first: WalkContext  # the context after its first instruction

    @property
    def end(self) -> int:
        """Address after its last instruction."""
        return self.address + self.size


class NativeWalk:
    """The states and the transitions of one run that native code knows."""

    def __init__(self, memory: EngineMemory, index: GraphIndex, lowering: Lowering) -> None:
        self._memory, self._lowering, self._index = memory, lowering, index
        self._words = np.zeros(walk_kernel.WORDS, np.int64)
        self._arrays: dict[int, Any] = {}
        self._give_code()
        self._give_graphs()
        self._give_operations()
        self._give(walk_kernel.STATES, np.zeros((_STATES, walk_kernel.STATE), np.int64))
        self._give(walk_kernel.TABLE, np.zeros(_STATES * kernels.KEYED_ROW, np.int64))
        self._give(walk_kernel.STEPS, np.zeros(_STEPS, np.int64))
        self._give(walk_kernel.LOG, np.zeros((_LOG, walk_kernel.LOG_ROW), np.int64))
        self._words[walk_kernel.IS_ON] = 1
        memory.clock[kernels.WALK_POINTER] = self._words.ctypes.data

    def _give(self, word: int, array: npt.NDArray[np.generic]) -> None:
        array = np.ascontiguousarray(array)
        self._arrays[word] = array
        self._words[word] = array.ctypes.data
        if word in _ROOM:
            self._words[_ROOM[word]] = len(array)
        elif word == walk_kernel.TABLE:
            self._words[walk_kernel.TABLE_ROWS] = len(array) // kernels.KEYED_ROW

    def _give_code(self) -> None:
        recovered = self._index.recovered
        code, place = recovered.code, recovered.code.place
        self._words[walk_kernel.PIECES] = len(place.starts)
        self._give(walk_kernel.PIECE_START, np.array(place.starts, np.int64))
        self._give(walk_kernel.PIECE_END, np.array(place.ends, np.int64))
        self._give(walk_kernel.PIECE_FIRST, np.array(place.firsts, np.int64))
        self._give(walk_kernel.KIND, code.transfers.kind)
        self._give(walk_kernel.ANNULLED, code.transfers.annulled.view(np.uint8))
        self._give(walk_kernel.TARGET, code.transfers.target)
        self._give(walk_kernel.CODE, code.words)
        self._give(walk_kernel.BLOCK_AT, recovered.block_at)
        self._give(walk_kernel.FLAGS, np.zeros(len(code.words), np.uint8))
        self._flag(recovered.no_return_calls, walk_kernel.FLAG_NO_RETURN)

    def _give_graphs(self) -> None:
        index, graphs = self._index, self._index.recovered.arrays
        self._give(walk_kernel.ENTRY_EDGE, np.asarray(index.entry_edge))
        self._give(walk_kernel.EXIT_EDGE, self._exits())
        self._give(walk_kernel.SLOT_EDGE, np.asarray(index.slot_edge))
        self._give(walk_kernel.RETURN_EDGE, np.asarray(index.return_edge))
        self._give(walk_kernel.BLOCK_START, graphs.block_start)
        self._give(walk_kernel.BLOCK_END, np.asarray(index.block_ends))
        # A jump into the middle of a routine may be a longjmp: Python looks at where calls return.
        enters = np.asarray(index.entry_edge)[:-1] >= 0
        enters &= graphs.block_start == graphs.addresses[index.routine_of_block]
        self._give(walk_kernel.IS_ENTERED, enters.view(np.uint8))
        first, edges = index.leaving
        self._give(walk_kernel.OUT_FIRST, first)
        self._give(walk_kernel.OUT_EDGES, edges)
        self._give(walk_kernel.EDGE_SOURCE, index.edge_source)
        self._give(walk_kernel.EDGE_TARGET, index.edge_target)
        self._give(walk_kernel.EDGE_KIND, graphs.edge_kind)
        self._give(walk_kernel.RETURNS, index.returns)
        self._give(walk_kernel.RETURNS_TO, np.asarray(index.returns_to))
        self._words[walk_kernel.RETURN_COUNT] = len(index.returns)

    def _exits(self) -> npt.NDArray[np.int64]:
        """Return the EXIT edges by block; none behind jumps to other contexts (left to Python)."""
        index, code = self._index, self._index.recovered.code
        exits, firsts = np.array(index.exit_edge), index.first_block.tolist()
        for first, behind in zip(firsts, [*firsts[1:], index.block_count], strict=True):
            if first < behind and index.sets_context(first):
                for block in range(first, behind):
                    word = code.place.index(index.block_end(block) - 8)
                    if word >= 0 and code.transfers.kind[word] == TransferKind.JUMP:
                        exits[block] = UNKNOWN
        return exits

    def _give_operations(self) -> None:
        memory, index = self._memory, self._index
        for word, which in (
            (walk_kernel.SPILLS, kernels.CAN_SAVE),
            (walk_kernel.FILLS, kernels.CAN_RESTORE),
        ):
            self._words[word] = memory.add_operations([(kernels.WINDOW, which, 0)])
        self.follow()
        if not self._lowering.is_idle:
            self._give(walk_kernel.LISTS, self._lowering.lists)
        if self._lowering.contexts is not None:
            self._give(walk_kernel.SITES, _sites(index))

    def _flag(self, addresses: Iterable[int], flag: int) -> None:
        place = self._index.recovered.code.place
        words = place.indices(np.fromiter(addresses, np.int64))
        self._arrays[walk_kernel.FLAGS][words[words >= 0]] |= np.uint8(flag)

    # What is left to Python

    def stop(self) -> None:
        """Learn nothing any more: each transition has operations of its own for a trace."""
        self._words[walk_kernel.IS_ON] = 0

    def late_block(self, address: int) -> None:
        """Note that a block has other words than the code image from now on."""
        self._flag((address,), walk_kernel.FLAG_LATE)

    def begin_silence(self, silent: Iterable[int], behind: Iterable[int]) -> None:
        """Note where silent blocks begin, and where what may follow one of them does."""
        self._words[walk_kernel.HAS_SILENCE] = 1
        self._flag(silent, walk_kernel.FLAG_SILENT)
        self._flag(behind, walk_kernel.FLAG_BEHIND)

    # Learning

    def learn(self, state: int, address: int, size: int) -> bool:
        """Have native code make the successor of a state by an event; False where Python must."""
        room = _OPERATIONS
        walk = self._words.ctypes.data
        while True:
            status = transition_kernel.call_learn(self._memory.address, walk, state, address, size)
            if status == transition_kernel.UNKNOWN_LISTS:
                self._lowering.lower_at(int(self._words[walk_kernel.UNLOWERED]))
                self.follow()
            elif status == transition_kernel.FULL:
                self._make_room(room)
                room *= 2  # the list may be that long
            else:
                return status == transition_kernel.LEARNT

    def _make_room(self, operations: int = 0) -> None:
        """Double the arrays that have no room for another transition, with so many operations."""
        words = self._words
        if words[walk_kernel.STEPS_USED] + walk_kernel.MOST_STEPS > words[walk_kernel.STEPS_ROOM]:
            self._double(walk_kernel.STEPS)
        if words[walk_kernel.LOG_USED] >= words[walk_kernel.LOG_ROOM]:
            self._double(walk_kernel.LOG)
        if 2 * words[walk_kernel.TABLE_USED] >= words[walk_kernel.TABLE_ROWS]:
            table = self._arrays[walk_kernel.TABLE]
            self._give(walk_kernel.TABLE, larger_table(table, 2 * len(table) // kernels.KEYED_ROW))
        self._memory.make_room(kernels.OPERATION * operations)
        while len(self._arrays[walk_kernel.STATES]) < int(self._memory.clock[kernels.STATE_ROOM]):
            self._double(walk_kernel.STATES)

    def _double(self, word: int) -> None:
        array = self._arrays[word]
        self._give(word, np.concatenate((array, np.zeros_like(array))))

    def follow(self) -> None:
        """Find the operations of all routines that have been lowered."""
        if self._arrays.get(walk_kernel.POOL) is not self._lowering.pool:
            self._give(walk_kernel.POOL, self._lowering.pool)

    # States

    def _row(self, number: int) -> Array:
        row: Array = self._states[number // kernels.START]
        return row

    @property
    def _states(self) -> Array:
        states: Array = self._arrays[walk_kernel.STATES]
        return states

    def state(self, number: int) -> BlockState:
        """Return a state of a translation block."""
        row = self._row(number)
        address, size = row[: walk_kernel.FIRST_CONTEXT].tolist()
        return BlockState(address, size, _context(row, walk_kernel.FIRST_CONTEXT))

    def numbers(self) -> list[int]:
        """Return the numbers of all states of translation blocks."""
        found = np.flatnonzero(self._states[:, walk_kernel.EXISTS]) * kernels.START
        return found.tolist()

    def number(self, state: BlockState) -> int:
        """Return the number of a state, which is added if it is new."""
        self._make_room()
        self._words[_CONTEXT] = state.first
        walk = self._words.ctypes.data
        return transition_kernel.call_intern(self._memory.address, walk, state.address, state.size)

    def step(
        self, context: WalkContext, address: int
    ) -> tuple[tuple[Step, ...], WalkContext] | None:
        """Execute the instruction at `address` after `context`; None where Python must."""
        self._make_room()
        first = int(self._words[walk_kernel.STEPS_USED])
        self._words[_CONTEXT] = context
        done = walk_kernel.call_step(self._words.ctypes.data, address)
        count = int(self._words[walk_kernel.STEPS_USED]) - first
        self._words[walk_kernel.STEPS_USED] = first
        if not done:
            return None
        return self._steps(first, count), _context(self._words, walk_kernel.PENDING)

    def inside(self, number: int) -> Inside | None:
        """Return the steps inside a state, and the context behind; None where Python must walk."""
        row = self._row(number)
        if row[walk_kernel.INSIDE] < 0:
            self._make_room()
            row = self._row(number)
            if not walk_kernel.call_walk_inside(self._words.ctypes.data, row.ctypes.data):
                return None
        first, count = row[[walk_kernel.INSIDE, walk_kernel.INSIDE_COUNT]].tolist()
        return self._steps(first, count), _context(row, walk_kernel.LAST_CONTEXT)

    def move(self, number: int) -> tuple[Operation, ...]:
        """Return the operation that moves a window before a state's block executes, if any does."""
        place = int(self._row(number)[walk_kernel.MOVE])
        return ((kernels.WINDOW, place, 0),) if place else ()

    def _steps(self, first: int, count: int) -> tuple[Step, ...]:
        return tuple(map(_step, self._arrays[walk_kernel.STEPS][first : first + count].tolist()))

    # Transitions

    @property
    def log(self) -> Array:
        """The transitions that were learnt here: one row each (`walk_kernel`)."""
        log: Array = self._arrays[walk_kernel.LOG]
        return log[: int(self._words[walk_kernel.LOG_USED])]

    def taken(self) -> Array:
        """Return how often each of them was taken."""
        log = self.log
        sources, keys = log[:, walk_kernel.LOG_SOURCE], log[:, walk_kernel.LOG_KEY]
        return self._memory.successor_counts(sources, keys)

    def boundary(self, place: int) -> tuple[Step, ...]:
        """Return the steps of a transition behind those inside its source, by its row."""
        row = self.log[place]
        return self._steps(int(row[walk_kernel.LOG_FIRST]), int(row[walk_kernel.LOG_COUNT]))

    def steps_of(self, operation: int) -> tuple[Step, ...]:
        """Return the steps of the transition in whose list an operation is."""
        log, shared = self.log, self._words[[walk_kernel.SPILLS, walk_kernel.FILLS]]
        first = log[:, walk_kernel.LOG_OPERATION]
        lists = np.flatnonzero((first > 0) & (first <= operation) & ~np.isin(first, shared))
        place = int(lists[np.argmax(first[lists])])
        inside = self.inside(int(log[place, walk_kernel.LOG_SOURCE]))
        assert inside is not None, "native code has walked it"
        return (*inside[0], *self.boundary(place))

    def edge_counts(self, edges: int) -> Array:
        """Return how often these transitions have crossed each of so many edges."""
        counts, log, taken = np.zeros(edges, np.int64), self.log, self.taken()
        self._cross(counts, log[:, walk_kernel.LOG_FIRST], log[:, walk_kernel.LOG_COUNT], taken)
        # How often each block was left by one of them: its steps are those inside it.
        left = np.zeros(len(self._states), np.int64)
        np.add.at(left, log[:, walk_kernel.LOG_SOURCE] // kernels.START, taken)
        rows = np.flatnonzero(left)
        first, count = self._states[rows][:, [walk_kernel.INSIDE, walk_kernel.INSIDE_COUNT]].T
        self._cross(counts, first, count, left[rows])
        return counts

    def followings(self) -> list[tuple[int, int, int]]:
        """Of each of them its source, its target, and how often it was taken."""
        ends = self.log[:, [walk_kernel.LOG_SOURCE, walk_kernel.LOG_TARGET]]
        return list(map(tuple, np.column_stack((ends, self.taken())).tolist()))

    def _cross(self, counts: Array, first: Array, length: Array, times: Array) -> None:
        behind = np.cumsum(length)
        total = int(behind[-1]) if len(behind) else 0
        words = self._arrays[walk_kernel.STEPS][
            np.repeat(first - behind + length, length) + np.arange(total)
        ]
        crosses = words & _KIND == walk_kernel.CROSS
        edges = words[crosses] >> walk_kernel.KIND_BITS
        np.add.at(counts, edges, np.repeat(times, length)[crosses])

    def check(self, walker: Walker) -> str | None:
        """Compare the transitions that were learnt with `Walker`; say where they first differ."""
        for place, (source, key, target, *_) in enumerate(self.log.tolist()):
            before, after = self.state(source), self.state(target)
            steps, context = walker.run(before.first, before.address + 4, before.end)
            inside = self.inside(source)
            boundary, first = walker.step(context, after.address)
            same = inside == (tuple(steps), context) and self.boundary(place) == tuple(boundary)
            if not same or first != after.first or key != after.address | after.size << 48:
                return (
                    f"the step from the block at {before.address:#x} to {after.address:#x} was "
                    "learnt differently than the walker reads it"
                )
        return None


_ROOM = {
    walk_kernel.STATES: walk_kernel.STATE_ROOM,
    walk_kernel.STEPS: walk_kernel.STEPS_ROOM,
    walk_kernel.LOG: walk_kernel.LOG_ROOM,
}


def _context(row: Array, first: int) -> WalkContext:
    """Return a context whose words begin at word `first` of a state's row."""
    pending, slot_seen, block, last = row[first : first + walk_kernel.CONTEXT].tolist()
    return WalkContext(pending, bool(slot_seen), block, last)


def _step(word: int) -> Step:
    kind, value = word & _KIND, word >> walk_kernel.KIND_BITS
    if kind == walk_kernel.CROSS:
        return Cross(value)
    return Push(value) if kind == walk_kernel.PUSH else Pop()


def _sites(index: GraphIndex) -> Array:
    """Return by word of code the call that returns there (`ContextCounting.pushed`)."""
    calls, code = index.call_blocks, index.recovered.code
    found = np.zeros(len(code.words) + 2, np.int64)
    words = code.place.indices(np.fromiter(calls, np.int64, len(calls)))
    blocks = np.fromiter(calls.values(), np.int64, len(calls))
    sites = np.asarray(index.block_ends)[blocks] - 8
    # A call that returns behind an `unimp` has its place where no other one returns.
    found[words + 1] = sites
    found[words] = sites
    return found
