"""Counting by calling context: what the notes of a run mean, and what it has counted by context.

The counterpart of `context_kernel`, which says how things are laid out. Every routine is cut into
segments, whatever the schemes are, so that what happened in a context is known segment by segment:
each transition of the segment automaton notes itself, and how often it was taken in each context
tells all edges and all that the schemes did along them there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.engine import context_kernel, kernels
from simprof.profiler.engine.memory import EngineMemory, Operation, larger_table
from simprof.profiler.engine.stacks import EarlyEnd, RunNotes
from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.simulator.isa.decode import HAS_DELAY_SLOT

if TYPE_CHECKING:
    from simprof.profiler.engine.products import Products

Array = npt.NDArray[np.int64]
SIGNALLED, LANDED = context_kernel.SIGNALLED, context_kernel.LANDED
_ROOM = 1 << 12
_NOTE = kernels.HASH | context_kernel.NOTE_TABLE << kernels.TABLE_SHIFT


class ContextOptions(Struct, frozen=True):
    """What a run is to tell apart."""

    tree: bool = True  # Whether each calling context has counts of its own
    # How many contexts there may be; calls that would make more are counted where they are made.
    limit: int = 1 << 18
    # entry, calls: Number of the routine whose calls are the window, and how many of them; None: no
    # window, or all calls.
    entry: int | None = None
    calls: int | None = None


class ContextCounts(Struct, frozen=True):
    """What a run has counted by context. Arrays have one row for each context, 0 among them."""

    # parents, sites, routines: The tree: context above, call site, number of the routine; those of
    # context 0 mean nothing.
    parents: Array
    sites: Array
    routines: Array
    callers: Array  # Number of the routine that calls, -1 for none
    # calls, landings: Activations that began there: by a call (or a jump, or a signal), and in
    # place of one that a non-local exit ended.
    calls: Array
    landings: Array
    transitions: Array  # Columns (context, transition of the segment automaton, times)
    hashing: Array  # Columns (context, hash table, instructions executed by the hashing routine)
    beyond: Array  # Columns (context, routine, calls that have no context of their own)
    ends: Counter[tuple[int, EarlyEnd]]  # (context, how it ended) -> activations
    # (context, block, address) -> executions of the block that came no further
    cuts: Counter[tuple[int, int, int]]
    # How many calls of the window's routine were counted; 0 where there is no window.
    window_calls: int


class ContextCounting(RunNotes):
    """The kernel's work for calling contexts in one run."""

    # `index`: The program's graphs. `options`: What to tell apart.

    def __init__(self, index: GraphIndex, options: ContextOptions) -> None:
        self._index = index
        self.options = options
        self._ends: Counter[tuple[int, EarlyEnd]] = Counter()
        self._cuts: Counter[tuple[int, int, int]] = Counter()
        self._words = np.zeros(context_kernel.WORDS, np.int64)
        self._arrays: dict[int, Array] = {}
        words = self._words
        words[context_kernel.USED] = 1 if options.tree else 2
        words[context_kernel.LIMIT] = options.limit
        words[context_kernel.TREE] = options.tree
        words[context_kernel.WINDOW] = 0 if options.entry is None else options.entry + 1
        calls = -1 if options.calls is None else options.calls
        words[context_kernel.CALLS_LEFT] = self._calls = calls
        self._callback: Any = kernels.Callback(self._grow)
        words[context_kernel.MORE_CALLBACK] = kernels.address_of(self._callback)
        self._publish(context_kernel.CONTEXTS, _ROOM * context_kernel.NODE)
        self._publish(context_kernel.SITES, _ROOM)
        self._publish_rows(context_kernel.CHILDREN, context_kernel.CHILD_ROWS, 2 * _ROOM)
        self._publish_rows(context_kernel.COUNTS, context_kernel.COUNT_ROWS, 4 * _ROOM)

    def use_frames(self, frames: Array) -> None:
        """Have the contexts of activations in `frames` from now on: another thread runs."""
        self.frames = self._arrays[context_kernel.FRAMES] = frames
        self._words[context_kernel.FRAMES] = frames.ctypes.data

    def attach(self, memory: EngineMemory, products: Products) -> None:
        """Let the kernel of a run find everything."""
        memory.replace_part(kernels.HASH_PART, context_kernel.part())
        depth = int(memory.clock[kernels.FRAME_LIMIT]) // kernels.STRIDE
        self.use_frames(np.zeros(context_kernel.FRAME * (depth + 1), np.int64))
        memory.clock[kernels.NOTES_POINTER] = self._words.ctypes.data

    def _publish(self, word: int, size: int) -> None:
        """Give an array this size, its content kept."""
        old = self._arrays.get(word, np.zeros(0, np.int64))
        array = self._arrays[word] = np.zeros(size, np.int64)
        array[: len(old)] = old
        self._words[word] = array.ctypes.data

    def _publish_rows(self, word: int, count: int, rows: int) -> None:
        """Give a table so many rows, which word `count` then says."""
        array = larger_table(self._arrays.get(word, np.zeros(0, np.int64)), rows)
        self._arrays[word] = array
        self._words[word], self._words[count] = array.ctypes.data, rows

    def _grow(self, *unused: int) -> None:
        counted, steps = self._words[[context_kernel.COUNTED, context_kernel.STEPS]].tolist()
        rows = int(self._words[context_kernel.COUNT_ROWS])
        if 2 * counted >= rows:
            self._publish_rows(context_kernel.COUNTS, context_kernel.COUNT_ROWS, 4 * rows)
        rows = int(self._words[context_kernel.CHILD_ROWS])
        if 2 * steps + 4 >= rows:
            self._publish_rows(context_kernel.CHILDREN, context_kernel.CHILD_ROWS, 4 * rows)
            self._publish(context_kernel.CONTEXTS, 2 * rows * context_kernel.NODE)

    # Operations

    def begun(self, routine: int) -> Operation:
        """Return what the kernel does where an activation of a routine begins."""
        return _NOTE, _key(context_kernel.BEGUN, routine), 1

    def pushed(self, return_address: int) -> tuple[Operation, ...]:
        """Return what the kernel does behind a CALL operation with this return address."""
        address = return_address & ~kernels.ENDED_BIT
        block = self._index.call_block(address)
        site = address - 8 if block == UNKNOWN else self._index.block_end(block) - 8
        return ((_NOTE, _key(context_kernel.PUSHED, site), 1),)

    def taken(self, transition: int, routine: int, edges: tuple[int, ...]) -> tuple[int, int]:
        """Return code and key of what the kernel does where it takes a new transition."""
        cfg = self._index.recovered.routines[routine]
        last = cfg.edges[edges[-1]]
        if last.target != cfg.exit:
            return _NOTE, _key(context_kernel.ENDED_SEGMENT, transition)
        sites = self._arrays[context_kernel.SITES]
        if transition >= len(sites):
            self._publish(context_kernel.SITES, 2 * (transition + 1))
            sites = self._arrays[context_kernel.SITES]
        # The transfer by which the segment's last block leaves the routine
        code, end = self._index.recovered.code, cfg.blocks[last.source].end
        word = code.place.index(end - 8)
        delays = word >= 0 and HAS_DELAY_SLOT[code.transfers.kind[word]]
        sites[transition] = end - 8 if delays else end - 4
        return _NOTE, _key(context_kernel.LEFT, transition)

    # What Python tells

    def _context(self, frame: int) -> Array:
        number = frame // kernels.STRIDE * context_kernel.FRAME
        return self._arrays[context_kernel.FRAMES][number:]

    def ended_early(self, frame: int, end: EarlyEnd) -> None:
        """Note that the activation at `frame` ended otherwise than by its EXIT."""
        words = self._context(frame)
        self._ends[int(words[context_kernel.CONTEXT]), end] += 1
        words[context_kernel.LIFE] = context_kernel.ENDED

    def cut_short(self, frame: int, block: int, pc: int, count: int) -> None:
        """Note that the activation at `frame` has come no further in `block` than to `pc`."""
        self._cuts[int(self._context(frame)[context_kernel.CONTEXT]), block, pc] += count

    def signalled(self, frame: int) -> None:
        """Note that the frame of a signal's handler was pushed."""
        words = self._context(frame)
        words[context_kernel.LIFE] = context_kernel.CALLED
        words[context_kernel.SITE] = SIGNALLED

    def landed(self, frame: int, owner: int) -> None:
        """Note that an activation is to begin in a frame in place of one that is gone."""
        # `owner`: the frame of the activation that owns the stack there; another routine than the
        # frame's begins below that one.
        words = self._context(frame)
        words[context_kernel.LIFE] = context_kernel.ENDED
        words[context_kernel.SITE] = self._context(owner)[context_kernel.CONTEXT]

    # After the run

    def counts(self) -> ContextCounts:
        """Return what was counted; nothing of what is outside a window."""
        used = int(self._words[context_kernel.USED])
        nodes = self._arrays[context_kernel.CONTEXTS].reshape(-1, context_kernel.NODE)[:used]
        parents, sites, routines, callers, calls, landings, *_ = nodes.T.copy()
        # context + 1, token, count
        rows = self._arrays[context_kernel.COUNTS].reshape(-1, kernels.KEYED_ROW)[:, [0, 1, 3]]
        outermost = 1 if self._words[context_kernel.WINDOW] else 0
        rows = rows[rows[:, 0] > outermost]
        kinds = rows[:, 1] & (1 << context_kernel.TOKEN_BITS) - 1

        def of(kind: int) -> Array:
            found: Array = rows[kinds == kind]
            found[:, 0] -= 1
            found[:, 1] >>= context_kernel.TOKEN_BITS
            return found

        return ContextCounts(
            parents,
            sites,
            routines,
            callers,
            calls,
            landings,
            of(context_kernel.TRANSITION),
            of(context_kernel.HASHING),
            of(context_kernel.BEYOND),
            Counter({key: n for key, n in self._ends.items() if key[0] >= outermost}),
            Counter({key: n for key, n in self._cuts.items() if key[0] >= outermost}),
            self._calls - int(self._words[context_kernel.CALLS_LEFT]),
        )


def _key(kind: int, value: int) -> int:
    return value << context_kernel.KIND_BITS | kind
