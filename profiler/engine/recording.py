"""Recording a run: the stretches of edges that its activations cross, routine by routine.

Every routine is cut into segments as it is for schemes, at self-loops, too. The kernel's operations
note each segment that ends and each activation that begins (`recording_kernel`); this module says
what the notes mean. What comes out are *stretches*, under numbers that are handed out when one is
first met, and for each routine the sequence of those that it executed. Where two activations of
one routine alternate, as in recursion, stretches are cut there: their order is that of the run.
The order of stretches of different routines is not kept: no scheme's counters depend on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from profiler.engine import kernels, recording_kernel
from profiler.engine.activations import EarlyEnd
from profiler.engine.memory import EngineMemory, HashWork, Operation
from profiler.engine.products import CountedSegment, RoutineProduct, Stretch, Totals
from profiler.engine.segments import (
    AddToSegment,
    BeginSegments,
    EndSegment,
    Segmentation,
    SegmentStep,
    segment,
)
from profiler.engine.walk import GraphIndex
from profiler.graphs.loops import depth_first
from profiler.plan.decoders import UnfinishedPath

Array = kernels.Array
BUFFER_WORDS = 1 << 20
"""Tokens that are gathered before they are written: some 30 million instructions."""
_ROOM = 1 << 12


@dataclass(frozen=True)
class RecordedStretch:
    """Edges that an activation crosses in one go.

    Attributes
    ----------
    routine
        The activation's.
    edges
        By id in the routine.
    does
        `recording_kernel.BEGINS`, `ENDS`, `ENDS_EARLY`, `SKIPPED`.
    block
        Where an activation ends early: its block, by id in the routine; else -1.
    """

    routine: int
    edges: tuple[int, ...]
    does: int
    block: int = -1


@dataclass(frozen=True)
class RecordedPiece:
    """What a run did from one full buffer to the next.

    Attributes
    ----------
    stretches
        Those that are met for the first time, in the order of their numbers.
    routines, ends, data
        Routines, and where the bytes of each end in `data` (`recording_kernel.pack`).
    """

    stretches: Sequence[RecordedStretch]
    routines: Array
    ends: Array
    data: bytes


@dataclass(frozen=True)
class _Token:
    """What a token stands for: the edges of its activation's segment up to there."""

    routine: int
    edges: tuple[int, ...]
    does: int = 0
    block: int = -1


class RecordingLowering:
    """The kernel's work in a run that is recorded: the counterpart of `lowering.Lowering`.

    Parameters
    ----------
    index
        The program's graphs.
    stack_mask
        All ones of the program's register width.
    write
        Receives the pieces of the recording.
    """

    def __init__(
        self, index: GraphIndex, stack_mask: int, write: Callable[[RecordedPiece], None]
    ) -> None:
        self.stack_mask = stack_mask
        self._index = index
        self._write = write
        self._array = np.zeros(recording_kernel.WORDS, np.int64)
        self.memory = EngineMemory(self._array, parts={kernels.HASH_PART: recording_kernel.part()})
        self.memory.clock[kernels.NODE_LIMIT] = 1 << 62  # notes need no room for nodes
        self.products = self
        self.lost = 0
        self._guard: Callable[[Callable[[], None]], None] = lambda action: action()
        self._segmentations: dict[int, Segmentation] = {}
        self._states: dict[int, int] = {}  # state -> routine
        self._by_edge: dict[int, tuple[Operation, ...]] = {}
        self._interrupted_block: Callable[[int], int] = lambda _: -1
        self._stretches = _Stretches()
        self._tokens: list[_Token] = []
        self._ends: dict[EarlyEnd, int] = {}
        self._buffer = np.zeros(BUFFER_WORDS, np.int64)
        self._links = np.zeros(recording_kernel.LINK, np.int64)
        self._tops = np.zeros(len(index.recovered.routines) + 1, np.int64)
        callback = ctypes.CFUNCTYPE(None)(self._guarded)
        self._callback = callback
        self._publish()

    def _publish(self) -> None:
        depth = int(self.memory.clock[kernels.FRAME_LIMIT]) // kernels.STRIDE
        self._links = np.zeros(recording_kernel.LINK * (depth + 1), np.int64)
        words = self._array
        words[recording_kernel.CAPACITY] = BUFFER_WORDS
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        words[recording_kernel.FULL_CALLBACK] = address or 0
        words[recording_kernel.BUFFER] = self._buffer.ctypes.data
        words[recording_kernel.TOPS] = self._tops.ctypes.data
        words[recording_kernel.LINKS] = self._links.ctypes.data

    # What the automaton asks

    def operations(self, edge: int) -> tuple[Operation, ...]:
        """Return what the kernel does on `edge`."""
        routine = int(np.searchsorted(self._index.first_edge, edge, "right")) - 1
        if routine not in self._segmentations:
            self._lower(routine)
        return self._by_edge.get(edge, ())

    def _lower(self, routine: int) -> None:
        cfg = self._index.recovered.routines[routine]
        segmentation = segment(cfg, depth_first(cfg).self_loops)
        self._segmentations[routine] = segmentation
        state = self.memory.new_state()
        self._states[state] = routine
        base = int(self._index.first_edge[routine])
        note = recording_kernel.BEGUN | routine << recording_kernel.ROUTINE_SHIFT
        for edge, steps in segmentation.steps.items():
            operations: list[Operation] = []
            if cfg.edges[edge].source == cfg.entry:
                operations.append((kernels.HASH, note, 1))
            operations += [_operation(step, state) for step in steps]
            self._by_edge[base + edge] = tuple(operations)

    def resolve(self, number: int, key: int) -> bool:
        """Add the transition from state `number` by segment `key`; False where there is none."""
        routine = self._states.get(number)
        try:
            edges = () if routine is None else self._segmentations[routine].decode(key)
        except ValueError:
            edges = ()
        if routine is None or not edges:
            self.lost += 1
            return False
        cfg = self._index.recovered.routines[routine]
        ends = cfg.edges[edges[-1]].target == cfg.exit
        token = self._add(_Token(routine, edges, recording_kernel.ENDS if ends else 0))
        kind = recording_kernel.LEFT if ends else recording_kernel.ENDED_SEGMENT
        note = (
            kind | token << recording_kernel.NOTE_BITS | routine << recording_kernel.ROUTINE_SHIFT
        )
        noting = self.memory.add_operations([(kernels.HASH, note, 1)])
        self.memory.insert_segment(number, (key, 0, number, noting))
        return True

    def hash_work(self, routine: int, slot: int) -> HashWork:
        """Return that no scheme's hashing was done."""
        return HashWork(0, 0)

    def totals(self) -> dict[tuple[int, int], Totals]:
        """Return that no scheme has counted anything."""
        return {}

    def segments(self) -> dict[int, list[CountedSegment]]:
        """Return that nothing is kept to replay schemes on: the recording is there for that."""
        return {}

    def history(self, state: int) -> tuple[int, ...]:
        """Return that states have no history."""
        return ()

    def product(self, routine: int) -> RoutineProduct | None:
        """Return that no scheme counts the routine's paths."""
        return None

    def finish(
        self, routine: int, block: int, register: int, number: int, count: int
    ) -> dict[int, tuple[Stretch, UnfinishedPath]]:
        """Return that no scheme has begun a path."""
        return {}

    # What is noted

    def watch(
        self, guard: Callable[[Callable[[], None]], None], block_of: Callable[[int], int]
    ) -> None:
        """Learn from the automaton what only it knows.

        Parameters
        ----------
        guard
            Does what Python has to do while the program runs, and keeps what that raises.
        block_of
            Says in which block a signal's handler interrupted its activation, -1 where in none
            that is known. It is given what the handler's frame has as its return address.
        """
        self._guard, self._interrupted_block = guard, block_of

    def ended_early(self, frame: int, end: EarlyEnd) -> None:
        """Note that the activation at `frame` ended otherwise than by its EXIT."""
        routine = self._index.routine(end.block)
        token = self._ends.get(end)
        if token is None:
            does = recording_kernel.ENDS | recording_kernel.ENDS_EARLY
            block = end.block - int(self._index.first_block[routine])
            edges = self._prefix(routine, end.register, end.block)
            token = self._ends[end] = self._add(_Token(routine, edges, does, block))
        number = frame // kernels.STRIDE
        recording_kernel.note_token(self._array.ctypes.data, number, routine, token, True)

    def _add(self, token: _Token) -> int:
        self._tokens.append(token)
        return self._stretches.add_token(token.routine)

    def _prefix(self, routine: int, register: int, block: int) -> tuple[int, ...]:
        """Return the edges of an unfinished segment; none where the graphs do not tell."""
        segmentation = self._segmentations.get(routine)
        if segmentation is None:
            return ()
        try:
            own = block - int(self._index.first_block[routine])
            return segmentation.decode_prefix(register, own)
        except ValueError:
            return ()

    # From the buffer to the file

    def _guarded(self) -> None:
        self._guard(self.drain)
        self._array[recording_kernel.COUNT] = 0

    def drain(self) -> None:
        """Hand on what is in the buffer, and empty it."""
        count = int(self._array[recording_kernel.COUNT])
        new = self._stretches.take(self._buffer, count, self._new_pause, self._new_stretch)
        self._array[recording_kernel.COUNT] = 0
        self._write(RecordedPiece(new, *self._stretches.packed()))

    def _new_pause(self, routine: int, register: int, returns: int) -> int:
        """Return a new token for a pause."""
        if returns & kernels.SIGNAL_BIT:
            block = self._interrupted_block(returns)
        else:
            block = self._index.call_block(returns & ~kernels.ENDED_BIT)
        here = block >= 0 and self._index.routine(block) == routine
        edges = self._prefix(routine, register, block) if here else ()
        return self._add(_Token(routine, edges))

    def _new_stretch(self, progress: int, token: int, fresh: bool) -> RecordedStretch:
        """Return the stretch from where an activation has come to a token."""
        to = self._tokens[token]
        done = self._tokens[progress - 1].edges if progress else ()
        edges = to.edges[len(done) :] if to.edges[: len(done)] == done else to.edges
        does = to.does | (recording_kernel.BEGINS if fresh else 0)
        if not does and not edges:
            does = recording_kernel.SKIPPED
        return RecordedStretch(to.routine, edges, does, to.block)


class _Stretches:
    """The numbers of stretches, and those in the order of the run."""

    def __init__(self) -> None:
        self._table = np.zeros(_ROOM * recording_kernel.ROW, np.int64)
        self._used = 0
        self._token_count = 0
        self._routine_of = np.zeros(_ROOM, np.int64)
        self._simple = np.full(2 * _ROOM, -1, np.int64)
        self._known: list[RecordedStretch] = []
        self._flags = np.zeros(_ROOM, np.int64)
        self._local = np.zeros(_ROOM, np.int64)
        self._in_routine: dict[int, int] = {}
        self._tops = np.zeros(1, np.int64)
        self._nodes = np.zeros(0, np.int64)
        self._words = np.zeros(recording_kernel.PASS_WORDS, np.int64)
        self._output = np.zeros(2 * BUFFER_WORDS, np.int64)
        self._grow_nodes()

    def add_token(self, routine: int) -> int:
        """Return the number of a new token."""
        token = self._token_count
        self._token_count += 1
        if self._token_count > len(self._routine_of):
            self._routine_of = _grown(self._routine_of)
            self._simple = _grown(self._simple, -1)
        self._routine_of[token] = routine
        while routine >= len(self._tops):
            self._tops = _grown(self._tops)
        return token

    def take(
        self,
        buffer: Array,
        count: int,
        new_pause: Callable[[int, int, int], int],
        new_stretch: Callable[[int, int, bool], RecordedStretch],
    ) -> list[RecordedStretch]:
        """Turn tokens into stretches; return those that are new."""
        words, before = self._words, len(self._known)
        words[recording_kernel.POSITION] = words[recording_kernel.FOUND] = 0
        while True:
            status = recording_kernel.tokens_to_stretches(
                buffer,
                count,
                self._table,
                self._routine_of,
                self._simple,
                self._flags,
                self._tops,
                self._nodes,
                words,
                self._output,
            )
            a, b, c, d = words[recording_kernel.MISSING :][: recording_kernel.KEY_WORDS].tolist()
            match status:
                case recording_kernel.DONE:
                    return self._known[before:]
                case recording_kernel.NEW_PAUSE:
                    self._put((a, b, c, d), new_pause(a, b, c))
                case recording_kernel.NEW_STRETCH:
                    number = self._number(new_stretch(a, b, bool(c)))
                    if a:
                        self._put((a, b, 0, d), number)
                    else:
                        self._simple[2 * b + c] = number
                case recording_kernel.NO_NODES:
                    self._grow_nodes()

    def _number(self, stretch: RecordedStretch) -> int:
        number = len(self._known)
        self._known.append(stretch)
        if number >= len(self._flags):
            self._flags, self._local = _grown(self._flags), _grown(self._local)
        self._flags[number] = stretch.does
        own = self._in_routine.get(stretch.routine, 0) + 1
        self._in_routine[stretch.routine] = self._local[number] = own
        return number

    def _put(self, key: tuple[int, int, int, int], number: int) -> None:
        self._used += 1
        if 2 * self._used * recording_kernel.ROW > len(self._table):
            old = self._table.reshape(-1, recording_kernel.ROW)
            self._table = np.zeros(2 * self._table.size, np.int64)
            for *known, place in old[old[:, recording_kernel.KEY_WORDS] != 0].tolist():
                self._place(tuple(known), place)
        self._place(key, number + 1)

    def _place(self, key: Sequence[int], value: int) -> None:
        at = recording_kernel.find(self._table, *key)
        self._table[at : at + recording_kernel.ROW] = *key, value

    def _grow_nodes(self) -> None:
        """Make more nodes and put them on the list of free ones."""
        had = len(self._nodes) // 2
        count = max(_ROOM, had)
        nodes = np.zeros(2 * (had + count), np.int64)
        nodes[: 2 * had] = self._nodes
        nodes[2 * had + 1 :: 2] = np.arange(had + 2, had + count + 2)
        nodes[-1] = int(self._words[recording_kernel.NEXT_NODE])
        self._nodes = nodes
        self._words[recording_kernel.NEXT_NODE] = had + 1

    def packed(self) -> tuple[Array, Array, bytes]:
        """Return routines, ends and bytes of what `take` has turned into stretches."""
        count = int(self._words[recording_kernel.FOUND])
        routines = np.zeros(min(count, len(self._tops)) + 1, np.int64)
        ends = np.zeros_like(routines)
        data = np.zeros(6 * count + 16, np.uint8)
        found = recording_kernel.pack(self._output, count, self._local, routines, ends, data)
        size = int(ends[found - 1]) if found else 0
        return routines[:found].copy(), ends[:found].copy(), data[:size].tobytes()


def _grown(array: Array, fill: int = 0) -> Array:
    return np.concatenate([array, np.full(len(array), fill, np.int64)])


def _operation(step: SegmentStep, state: int) -> Operation:
    match step:
        case BeginSegments(register):
            return kernels.BEGIN, register, state
        case AddToSegment(increment):
            return kernels.ADD, increment, 0
        case EndSegment(increment, register):
            return kernels.SEGMENT, increment, register
