"""Recording a run: the stretches of edges that its activations cross, routine by routine.

Every routine is cut into segments as it is for schemes, at self-loops, too. The kernel's operations
note each segment that ends and each activation that begins (`recording_kernel`); this module says
what the notes mean. What comes out are *stretches*, under numbers that are handed out when one is
first met, and for each routine the sequence of those that it executed. Where two activations of
one routine alternate, as in recursion, stretches are cut there: their order is that of the run.
The order of stretches of different routines is not kept: no scheme's counters depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simprof.profiler.engine import kernels, recording_kernel
from simprof.profiler.engine.memory import EngineMemory, Operation, larger_table, put_row
from simprof.profiler.engine.products import Products
from simprof.profiler.engine.stacks import EarlyEnd, RunNotes
from simprof.profiler.engine.walk import GraphIndex
from simprof.simulator.values import dataclass

Array = kernels.Array
# Tokens that are gathered before they are written: some 30 million instructions.
BUFFER_WORDS = 1 << 20
_ROOM = 1 << 12


@dataclass(frozen=True)
class RecordedStretch:
    """Edges that an activation crosses in one go."""

    routine: int  # The activation's
    edges: tuple[int, ...]  # By id in the routine
    does: int  # `recording_kernel.BEGINS`, `ENDS`, `ENDS_EARLY`, `SKIPPED`
    block: int = -1  # Where an activation ends early: its block, by id in the routine; else -1.


@dataclass(frozen=True)
class RecordedPiece:
    """What a run did from one full buffer to the next."""

    # Those that are met for the first time, in the order of their numbers
    stretches: Sequence[RecordedStretch]
    # routines, ends, data: Routines, and where the bytes of each end in `data`
    # (`recording_kernel.pack`).
    routines: Array
    ends: Array
    data: bytes


class RunRecording(RunNotes):
    """What the kernel notes of a run that is recorded."""

    # `index`: The program's graphs. `write`: Receives the pieces of the recording.

    def __init__(self, index: GraphIndex, write: Callable[[RecordedPiece], None]) -> None:
        self._index = index
        self._write = write
        self._products: Products | None = None
        self._guard: Callable[[Callable[[], None]], None] = lambda action: action()
        self._interrupted_block: Callable[[int], int] = lambda _: -1
        # What each token stands for: the edges of its activation's segment up to there
        self._tokens: list[RecordedStretch] = []
        self._ends: dict[EarlyEnd, int] = {}
        self._buffer = np.zeros(BUFFER_WORDS, np.int64)
        self._stretches = _Stretches(self._buffer, len(index.recovered.routines))
        self._links = np.zeros(0, np.int64)
        self._tops = np.zeros(len(index.recovered.routines) + 1, np.int64)
        self._callback: Any = kernels.Callback(self._guarded)
        self._array = words = np.zeros(recording_kernel.WORDS, np.int64)
        words[recording_kernel.CAPACITY] = BUFFER_WORDS
        words[recording_kernel.FULL_CALLBACK] = kernels.address_of(self._callback)
        words[recording_kernel.BUFFER] = self._buffer.ctypes.data
        words[recording_kernel.TOPS] = self._tops.ctypes.data

    def attach(self, memory: EngineMemory, products: Products) -> None:
        """Let the kernel of a run find everything."""
        self._products = products
        depth = int(memory.clock[kernels.FRAME_LIMIT]) // kernels.STRIDE
        self._links = np.zeros(recording_kernel.LINK * (depth + 1), np.int64)
        self._array[recording_kernel.LINKS] = self._links.ctypes.data
        memory.replace_part(kernels.HASH_PART, recording_kernel.part())
        memory.clock[kernels.NOTES_POINTER] = self._array.ctypes.data
        memory.clock[kernels.NODE_LIMIT] = 1 << 62  # notes need no room for nodes

    def watch(
        self, guard: Callable[[Callable[[], None]], None], block_of: Callable[[int], int]
    ) -> None:
        """Learn from the automaton what only it knows."""
        # `guard`: Does what Python has to do while the program runs, and keeps what that raises.
        # `block_of`: Says in which block a signal's handler interrupted its activation, -1 where in
        # none that is known. It is given what the handler's frame has as its return address.
        self._guard, self._interrupted_block = guard, block_of

    # What is noted

    def begun(self, routine: int) -> Operation:
        """Return what the kernel does where an activation of a routine begins."""
        return kernels.HASH, recording_kernel.BEGUN | routine << recording_kernel.ROUTINE_SHIFT, 1

    def taken(self, transition: int, routine: int, edges: tuple[int, ...]) -> tuple[int, int]:
        """Return code and key of what the kernel does where it takes a new transition."""
        cfg = self._index.recovered.routines[routine]
        ends = cfg.edges[edges[-1]].target == cfg.exit
        token = self._add(RecordedStretch(routine, edges, recording_kernel.ENDS if ends else 0))
        kind = recording_kernel.LEFT if ends else recording_kernel.ENDED_SEGMENT
        whose = routine << recording_kernel.ROUTINE_SHIFT
        return kernels.HASH, kind | token << recording_kernel.NOTE_BITS | whose

    def ended_early(self, frame: int, end: EarlyEnd) -> None:
        """Note that the activation at `frame` ended otherwise than by its EXIT."""
        routine = self._index.routine(end.block)
        token = self._ends.get(end)
        if token is None:
            does = recording_kernel.ENDS | recording_kernel.ENDS_EARLY
            block = end.block - int(self._index.first_block[routine])
            edges = self._prefix(routine, end.register, end.block)
            token = self._ends[end] = self._add(RecordedStretch(routine, edges, does, block))
        number = frame // kernels.STRIDE
        recording_kernel.call_note_token(self._array.ctypes.data, number, routine, token, 1)

    def _add(self, token: RecordedStretch) -> int:
        self._tokens.append(token)
        return self._stretches.add_token(token.routine)

    def _prefix(self, routine: int, register: int, block: int) -> tuple[int, ...]:
        """Return the edges of an unfinished segment; none where the graphs do not tell."""
        product = None if self._products is None else self._products.product(routine)
        if product is None:
            return ()
        try:
            own = block - int(self._index.first_block[routine])
            return product.segmentation.decode_prefix(register, own)
        except ValueError:
            return ()

    # From the buffer to the file

    def _guarded(self, *unused: int) -> None:
        self._guard(self.drain)
        self._array[recording_kernel.COUNT] = 0

    def drain(self) -> None:
        """Hand on what is in the buffer, and empty it."""
        count = int(self._array[recording_kernel.COUNT])
        new = self._stretches.take(count, self._new_pause, self._new_stretch)
        self._array[recording_kernel.COUNT] = 0
        self._write(RecordedPiece(new, *self._stretches.packed()))

    def _new_pause(self, routine: int, register: int, returns: int) -> int:
        if returns & kernels.SIGNAL_BIT:
            block = self._interrupted_block(returns)
        else:
            block = self._index.call_block(returns & ~kernels.ENDED_BIT)
        here = block >= 0 and self._index.routine(block) == routine
        edges = self._prefix(routine, register, block) if here else ()
        return self._add(RecordedStretch(routine, edges, 0))

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

    def __init__(self, buffer: Array, routines: int) -> None:
        self._used = 0
        self._token_count = 0
        self._known: list[RecordedStretch] = []
        self._in_routine: dict[int, int] = {}
        self._words = np.zeros(recording_kernel.PASS_WORDS, np.int64)
        self._words[recording_kernel.ROUTINE_COUNT] = routines
        self._arrays: dict[int, Array] = {}
        for word, array in {
            recording_kernel.INPUT: buffer,
            recording_kernel.ROUTINE_OF: np.zeros(_ROOM, np.int64),
            recording_kernel.SIMPLE: np.full(2 * _ROOM, -1, np.int64),
            recording_kernel.DOES: np.zeros(_ROOM, np.int64),
            recording_kernel.LOCAL: np.zeros(_ROOM, np.int64),
            recording_kernel.INNERMOST: np.zeros(routines, np.int64),
            recording_kernel.NODES: np.zeros(0, np.int64),
            recording_kernel.OUTPUT: np.zeros(2 * len(buffer), np.int64),
            recording_kernel.ORDERED: np.zeros(len(buffer), np.int64),
            recording_kernel.FIRST: np.zeros(2 * routines + 1, np.int64),
            recording_kernel.ROUTINES: np.zeros(routines, np.int64),
            recording_kernel.STREAM_ENDS: np.zeros(routines, np.int64),
            recording_kernel.DATA: np.zeros(6 * len(buffer) + 16, np.uint8),
        }.items():
            self._publish(word, array)
        self._publish_table(np.zeros(0, np.int64), _ROOM)
        self._grow_nodes()

    def _publish(self, word: int, array: Any) -> None:
        self._arrays[word] = array
        self._words[word] = array.ctypes.data

    def _publish_table(self, old: Array, rows: int) -> None:
        self._publish(recording_kernel.TABLE, larger_table(old, rows))
        self._words[recording_kernel.TABLE_ROWS] = rows

    def _set(self, word: int, place: int, value: int, fill: int = 0) -> None:
        array = self._arrays[word]
        if place >= len(array):
            array = np.concatenate([array, np.full(len(array), fill, np.int64)])
            self._publish(word, array)
        array[place] = value

    def add_token(self, routine: int) -> int:
        """Return the number of a new token."""
        token = self._token_count
        self._token_count += 1
        self._set(recording_kernel.ROUTINE_OF, token, routine)
        self._set(recording_kernel.SIMPLE, 2 * token + 1, -1, fill=-1)
        return token

    def take(
        self,
        count: int,
        new_pause: Callable[[int, int, int], int],
        new_stretch: Callable[[int, int, bool], RecordedStretch],
    ) -> list[RecordedStretch]:
        """Turn so many words of the buffer into stretches; return those that are new."""
        words, before = self._words, len(self._known)
        words[recording_kernel.POSITION] = words[recording_kernel.FOUND] = 0
        words[recording_kernel.TOKENS] = count
        while True:
            status = recording_kernel.call_stretches(words.ctypes.data)
            a, b, c = words[recording_kernel.MISSING :][:3].tolist()
            match status:
                case recording_kernel.DONE:
                    return self._known[before:]
                case recording_kernel.NEW_PAUSE:
                    self._put(a << 1 | 1, b, c, new_pause(a, b, c))
                case recording_kernel.NEW_STRETCH:
                    number = self._number(new_stretch(a, b, bool(c)))
                    if a:
                        self._put(a << 1, b, 0, number)
                    else:
                        self._set(recording_kernel.SIMPLE, 2 * b + c, number)
                case recording_kernel.NO_NODES:
                    self._grow_nodes()

    def _number(self, stretch: RecordedStretch) -> int:
        number = len(self._known)
        self._known.append(stretch)
        own = self._in_routine.get(stretch.routine, 0) + 1
        self._in_routine[stretch.routine] = own
        self._set(recording_kernel.DOES, number, stretch.does)
        self._set(recording_kernel.LOCAL, number, own)
        return number

    def _put(self, a: int, b: int, c: int, number: int) -> None:
        self._used += 1
        rows = int(self._words[recording_kernel.TABLE_ROWS])
        if 2 * self._used > rows:
            self._publish_table(self._arrays[recording_kernel.TABLE], 2 * rows)
        put_row(self._arrays[recording_kernel.TABLE], a, b, c, number + 1)

    def _grow_nodes(self) -> None:
        old = self._arrays[recording_kernel.NODES]
        had = len(old) // 2
        count = max(_ROOM, had)
        nodes = np.zeros(2 * (had + count), np.int64)
        nodes[: 2 * had] = old
        nodes[2 * had + 1 :: 2] = np.arange(had + 2, had + count + 2)
        nodes[-1] = int(self._words[recording_kernel.NEXT_NODE])
        self._publish(recording_kernel.NODES, nodes)
        self._words[recording_kernel.NEXT_NODE] = had + 1

    def packed(self) -> tuple[Array, Array, bytes]:
        """Return routines, ends and bytes of what `take` has turned into stretches."""
        found = recording_kernel.call_pack(self._words.ctypes.data)
        ends = self._arrays[recording_kernel.STREAM_ENDS][:found].copy()
        data = self._arrays[recording_kernel.DATA][: int(ends[-1]) if found else 0]
        return self._arrays[recording_kernel.ROUTINES][:found].copy(), ends, data.tobytes()
