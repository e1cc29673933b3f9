"""The kernel's arrays: allocation, growth, and the layout of what Python puts there.

Everything that native code reads while a program runs lives here. Arrays grow by being replaced;
their addresses are published in the clock, whose own address never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import block_kernel, kernels, transition_kernel
from simprof.simulator.errors import UsageError

Array = npt.NDArray[np.int64]
Operation = tuple[int, int, int]  # (code, a, b): the words of `kernels.OPERATION`
# (key, count, next state, operation): the words of `kernels.SUCCESSOR`.
Successor = tuple[int, int, int, int]

# Activations that can be live at once. Frames cost memory only once they are used.
MAXIMUM_DEPTH = 1 << 22
_STATES = 1 << 14
_SPILL = 1 << 15
_NODES = 1 << 16
_SEGMENTS = 1 << 14
# Words at the start of `segments` that states without successors share: they stay 0.
_NO_SEGMENTS = kernels.SUCCESSOR
_LARGEST_TABLE = 1 << 12  # Places of a segment state's table; more segments are spilled
_SPARSEST_TABLE = 16  # Places a segment that such a table may grow to


class HashWork(NamedTuple):
    """How often the hashing routine was called for one table, and what it executed there."""

    calls: int  # increments of path counters in the table
    instructions: int  # executed inside the routine: the calls themselves are the snippets'


class EngineMemory:
    """The arrays of one run."""

    # `costs`: Cost words of the hashing routine (`lowering.cost_words`).
    # `depth`: Activations that can be live at once.

    def __init__(self, costs: Array, depth: int = MAXIMUM_DEPTH) -> None:
        self._parts: dict[int, int] = {}
        self._program_words: dict[tuple[int, str], int] = {}  # slot and name -> place
        clock = np.zeros(kernels.CLOCK_WORDS, np.int64)
        clock[kernels.FRAME_LIMIT] = kernels.STRIDE * depth
        clock[kernels.SPILL_MASK] = _SPILL - 1
        clock[kernels.STATE] = kernels.START
        clock[kernels.USED_STATES] = 1  # START
        clock[kernels.USED_OPERATIONS] = kernels.OPERATION  # number 0 means none
        self.state = kernels.KernelState(
            clock=clock,
            rows=np.zeros(_STATES * kernels.ROW, np.int64),
            spill=np.zeros(_SPILL * kernels.SPILL, np.int64),
            operations=np.zeros(1 << 12, np.int64),
            frames=np.zeros(kernels.STRIDE * (depth + 1), np.int64),
            segments=np.zeros(_SEGMENTS, np.int64),
            tables=np.zeros(1, np.int64),
            heads=np.zeros(1, np.int64),
            nodes=np.zeros(1, np.int64),
            costs=costs,
        )
        self._publish()
        self._address = self.state.address
        self._used_segments = _NO_SEGMENTS
        self.trace = np.zeros(kernels.TRACE_HEADER, np.int64)
        self._long_keys: dict[int, int] = {}  # of path numbers beyond 63 bits
        self._long_numbers: dict[int, int] = {}  # these, by key

    @property
    def clock(self) -> Array:
        """The words shared with the machine and its traps."""
        return self.state.clock

    @property
    def address(self) -> int:
        """What the kernel's functions take."""
        return self._address

    def _replace(self, **arrays: Array) -> None:
        self.state = self.state._replace(**arrays)
        self._publish()

    def _publish(self) -> None:
        self.state.publish()
        # Words of them take half the time from here.
        self._rows, self._segments = self.state.rows.data, self.state.segments.data
        self.clock[kernels.STATE_ROOM] = len(self.state.rows) // kernels.ROW
        self.clock[kernels.OPERATION_ROOM] = len(self.state.operations)
        for word, address in self._parts.items():
            self.clock[word] = address

    def replace_part(self, word: int, address: int) -> None:
        """Have native code at `address` stand for a part of the kernel, by its clock word."""
        self.clock[word] = self._parts[word] = address

    def use_frames(self, frames: Array) -> None:
        """Have the kernel keep activations in `frames` from now on: another thread runs."""
        self._replace(frames=frames)
        self.clock[kernels.FRAME_LIMIT] = len(frames) - kernels.STRIDE

    def start_trace(self, words: int, next_checkpoint: int) -> None:
        """Give the trace a buffer of so many 64-bit words."""
        self.trace = np.zeros(kernels.TRACE_HEADER + words + 2, np.int64)
        self.trace[kernels.TRACE_CAPACITY] = 64 * words
        self.trace[kernels.TRACE_NEXT] = next_checkpoint
        self.clock[kernels.TRACE_POINTER] = self.trace.ctypes.data

    def execute(self, operation: int, address: int) -> int:
        """Execute operations from number `operation`; return the kernel's status."""
        status: int = block_kernel.call_execute(self.address, operation, address, 1)
        return status

    def new_state(self) -> int:
        """Return the number of a new state, which has a row."""
        number = self.clock[kernels.USED_STATES] = int(self.clock[kernels.USED_STATES]) + 1
        needed = kernels.ROW * (number + 1)
        if needed > len(self.state.rows):
            self._replace(rows=_grown(self.state.rows, 2 * needed))
        return kernels.START * number

    def make_room(self, words: int = 0) -> None:
        """Make room for one more state, successor and list of operations, of so many words."""
        clock, state = self.clock, self.state
        if clock[kernels.USED_STATES] + 2 >= clock[kernels.STATE_ROOM]:
            self._replace(rows=_grown(state.rows, 2 * len(state.rows)))
        if clock[kernels.USED_OPERATIONS] + words > clock[kernels.OPERATION_ROOM]:
            size = 2 * (len(state.operations) + words)
            self._replace(operations=_grown(state.operations, size))
        if 2 * clock[kernels.SPILLED] + 2 > clock[kernels.SPILL_MASK]:
            self._grow_spill()

    def insert(self, state: int, successor: Successor) -> int | None:
        """Store a new successor of `state`; return its count's place in `rows`, None if spilled."""
        rows = self._rows
        first = state // 8
        for at in (first, first + kernels.SUCCESSOR):
            if rows[at] == 0:
                rows[at], rows[at + 1], rows[at + 2], rows[at + 3] = successor
                return at + kernels.COUNT_OF
        self._spill_successor(state, successor)
        return None

    def _spill_successor(self, state: int, successor: Successor) -> None:
        self.clock[kernels.SPILLED] += 1
        if 2 * self.clock[kernels.SPILLED] > self.clock[kernels.SPILL_MASK]:
            self._grow_spill()
        self._spill(state, successor)

    def _grow_spill(self) -> None:
        old = self.state.spill.reshape(-1, kernels.SPILL)
        self.clock[kernels.SPILL_MASK] = 4 * len(old) - 1
        self._replace(spill=np.zeros(4 * old.size, np.int64))
        for key, count, target, operation, owner in old[old[:, kernels.OWNER] != 0].tolist():
            self._spill(owner, (key, count, target, operation))

    def _spill(self, state: int, successor: Successor) -> None:
        kernels.find_spilled(self.address, state, successor[kernels.KEY])  # finds the place
        at = int(self.clock[kernels.MISS_SLOT]) * kernels.SPILL
        self.state.spill[at : at + kernels.SPILL] = *successor, state

    def _find(self, state: int, key: int) -> tuple[Array, int] | None:
        """Return where the successor `key` of `state` is: the array, and the place of its key."""
        rows, first = self.state.rows, state // 8
        for at in (first, first + kernels.SUCCESSOR):
            if rows[at + kernels.KEY] == key:
                return rows, at
        found = kernels.find_spilled(self.address, state, key)
        return (self.state.spill, (found - self.state.spill.ctypes.data) // 8) if found else None

    def rename(self, state: int, key: int, other: int) -> None:
        """Have the kernel find the successor `key` of `state` no more; its count is `other`'s."""
        found = self._find(state, key)
        if found is not None:
            found[0][found[1] + kernels.KEY] = other

    def take(self, state: int, key: int) -> tuple[int, int] | None:
        """Count a successor of `state`; return next state and operation, None if it is unknown."""
        # The kernel does this by itself, but where Python has the event.
        found = self._find(state, key)
        if found is None:
            return None
        array, at = found
        array[at + kernels.COUNT_OF] += 1
        return int(array[at + kernels.NEXT]), int(array[at + kernels.ACTION])

    def successor_counts(self, states: Array, keys: Array) -> Array:
        """How often states were followed by keys, one by one: int64."""
        rows = self.state.rows.reshape(-1, kernels.SUCCESSOR)
        at = states // (8 * kernels.SUCCESSOR)
        is_first = rows[at, kernels.KEY] == keys
        is_second = ~is_first & (rows[at + 1, kernels.KEY] == keys)
        counts: Array = np.where(is_first, rows[at, kernels.COUNT_OF], 0)
        counts += np.where(is_second, rows[at + 1, kernels.COUNT_OF], 0)
        return self._with_spilled(counts, ~is_first & ~is_second, states, keys)

    def segment_counts(self, states: Array, keys: Array) -> Array:
        """How often segments ended in segment states, by their keys, one by one: int64."""
        rows = self.state.rows.reshape(-1, kernels.ROW)[states // kernels.START]
        offsets = ((keys << 4) ^ (keys >> 8)) & rows[:, kernels.PLACE_MASK]
        places = (rows[:, kernels.PLACES] + offsets) // _PLACE
        successors = self.state.segments.reshape(-1, kernels.SUCCESSOR)[places]
        counts: Array = successors[:, kernels.COUNT_OF].copy()
        return self._with_spilled(counts, successors[:, kernels.KEY] != keys, states, keys)

    def _with_spilled(self, counts: Array, where: Array, states: Array, keys: Array) -> Array:
        """Put in the counts of spilled successors, which are some of `states`' and `keys`'."""
        others = np.flatnonzero(where)
        spilled = self.spilled_counts() if len(others) else {}
        pairs = zip(states[others].tolist(), keys[others].tolist(), strict=True)
        counts[others] = [spilled[pair] for pair in pairs]
        return counts

    def arrange(self, states: Iterable[int], is_dead: Callable[[int], bool]) -> None:
        """Put the most frequent successors of each state into its row, and the others elsewhere."""
        # `states`: States of translation blocks.
        # `is_dead`: Says whether an event (`kernels.KEY`) will not be seen again.
        held: dict[int, list[Successor]] = {state: [] for state in states}
        rows, spill = self.state.rows, self.state.spill.reshape(-1, kernels.SPILL)
        for state, successors in held.items():
            words = rows[state // 8 :][: kernels.ROW].reshape(-1, kernels.SUCCESSOR)
            successors += [(a, b, c, d) for a, b, c, d in words.tolist() if a]
            words[:] = 0
        spilled = spill[spill[:, kernels.OWNER] != 0].tolist()
        spill[:] = 0
        self.clock[kernels.SPILLED] = 0
        for key, count, target, operation, owner in spilled:
            successor = key, count, target, operation
            if owner in held:
                held[owner].append(successor)
            else:
                self._spill_successor(owner, successor)
        for state, successors in held.items():
            successors.sort(key=lambda each: (is_dead(each[kernels.KEY]), -each[kernels.COUNT_OF]))
            for successor in successors:
                if is_dead(successor[kernels.KEY]):
                    self._spill_successor(state, successor)
                else:
                    self.insert(state, successor)

    def segment(self, frame: int) -> tuple[int, int]:
        """(segment state, segment register) of the activation at `frame`."""
        words = self.state.frames[frame : frame + kernels.STRIDE].tolist()
        return words[kernels.FRAME_SEGMENTS], words[kernels.FRAME_PATH]

    def insert_segment(self, state: int, successor: Successor) -> None:
        """Store a new successor of a segment state."""
        start, places = self._table_of(state)
        at = start + kernels.SUCCESSOR * _place(successor[kernels.KEY], places)
        if start and not self._segments[at]:
            self._put_segment(at, successor)
            return
        successors = [*self.segment_successors(state), successor]
        # A state with nothing but this successor has a table of one place.
        size = _size_for([row[kernels.KEY] for row in successors], places) if start else 1
        if size is None:
            self._spill_successor(state, successor)
        else:
            self._lay_out(state, successors, size)

    def _lay_out(self, state: int, successors: Sequence[Successor], places: int) -> None:
        """Give a segment state a table with so many places."""
        start, end = self._used_segments, self._used_segments + kernels.SUCCESSOR * places
        self._used_segments = end
        if end > len(self._segments):
            self._replace(segments=_grown(self.state.segments, 2 * end))
        self._rows[state // 8 + kernels.PLACES] = 8 * start
        self._rows[state // 8 + kernels.PLACE_MASK] = _PLACE * (places - 1)
        for row in successors:
            self._put_segment(start + kernels.SUCCESSOR * _place(row[kernels.KEY], places), row)

    def _put_segment(self, at: int, successor: Successor) -> None:
        words = self._segments
        words[at], words[at + 1], words[at + 2], words[at + 3] = successor

    def _table_of(self, state: int) -> tuple[int, int]:
        """Where in `segments` a state's table is (0: it has none), and its number of places."""
        rows, row = self._rows, state // 8
        return rows[row + kernels.PLACES] // 8, rows[row + kernels.PLACE_MASK] // _PLACE + 1

    def segment_successors(self, state: int) -> list[Successor]:
        """Return the successors in a segment state's table; spilled ones are missing."""
        start, places = self._table_of(state)
        if start == 0:
            return []
        words = iter(self._segments[start : start + kernels.SUCCESSOR * places])
        return [row for row in zip(words, words, words, words, strict=True) if row[kernels.KEY]]

    def spilled_counts(self) -> dict[tuple[int, int], int]:
        """(state, key) -> count of every spilled successor."""
        spill = self.state.spill.reshape(-1, kernels.SPILL)
        used = spill[spill[:, kernels.OWNER] != 0].tolist()
        return {(owner, key): count for key, count, _, _, owner in used}

    def add_operations(self, operations: Sequence[Operation]) -> int:
        """Append a list of operations; return the number of its first."""
        start = self._put_operations(operations)
        end = self.clock[kernels.USED_OPERATIONS] = start + kernels.OPERATION * len(operations)
        self.state.operations[end - kernels.OPERATION] |= kernels.LAST
        return start // kernels.OPERATION

    def add_joined(self, operations: Sequence[Operation]) -> tuple[int, Array]:
        """Append a list of operations of which what can be joined is (`transition_kernel.fuse`)."""
        # Return the number of its first, 0 where there are none, and its operations, a row each.
        start = self._put_operations(operations)
        at = self.state.operations.ctypes.data + 8 * start
        end = start + kernels.OPERATION * transition_kernel.call_fuse(at, len(operations))
        self.clock[kernels.USED_OPERATIONS] = end
        rows = self.state.operations[start:end].reshape(-1, kernels.OPERATION)
        return (start // kernels.OPERATION if operations else 0), rows

    def _put_operations(self, operations: Sequence[Operation]) -> int:
        start = int(self.clock[kernels.USED_OPERATIONS])
        end = start + kernels.OPERATION * len(operations)
        if end > len(self.state.operations):
            self._replace(operations=_grown(self.state.operations, 2 * end))
        self.state.operations[start:end] = [word for each in operations for word in each]
        return start

    def is_last(self, operation: int) -> bool:
        """Whether operation number `operation` is the last of its list."""
        word = self.state.operations[operation * kernels.OPERATION]
        return bool(word & kernels.LAST)

    def hash_key(self, number: int) -> int:
        """Return the kernel's key for a path number: itself, if that fits 63 bits."""
        # Longer ones (see `branch_codes`) get negative keys. The routine hashes the low 32 bits,
        # and these stay.
        if number < 1 << 63:
            return number
        if number not in self._long_keys:
            place = len(self._long_keys) - (1 << 31)
            key = self._long_keys[number] = (place << 32) + (number & 0xFFFFFFFF)
            self._long_numbers[key] = number
        return self._long_keys[number]

    def program_word(self, name: tuple[int, str]) -> int:
        """Return the place in the clock of a word of the program, which is 0 at first."""
        # Raises `UsageError`: there are too many.
        place = self._program_words.setdefault(name, len(self._program_words))
        if place >= kernels.MOST_PROGRAM_WORDS:
            raise UsageError(
                f"the modes of one run have more than {kernels.MOST_PROGRAM_WORDS} words of the "
                "program together: measure fewer at once"
            )
        return kernels.PROGRAM_WORDS + place

    def add_table(self, key_words: int = 1) -> int:
        """Add an empty hash table, for keys of `key_words` words; return its number."""
        table = int(self.clock[kernels.TABLES])
        self.clock[kernels.TABLES] = table + 1
        buckets = int(self.state.costs[kernels.BUCKET_MASK]) + 1
        size, heads = (table + 1) * kernels.TABLE_WORDS, (table + 1) * buckets
        if size > len(self.state.tables):
            self._replace(tables=_grown(self.state.tables, 2 * size))
        if heads > len(self.state.heads):
            self._replace(heads=_grown(self.state.heads, 2 * heads))
        first = table * kernels.TABLE_WORDS
        self.state.tables[first + kernels.TABLE_HEADS] = table * buckets
        self.state.tables[first + kernels.TABLE_COSTS] = (key_words - 1) * kernels.COST_WORDS
        return table

    def grow_nodes(self) -> None:
        """Make room for more executed paths in hash tables."""
        limit = max(_NODES, 2 * int(self.clock[kernels.NODE_LIMIT]))
        self._replace(nodes=_grown(self.state.nodes, limit * kernels.NODE))
        self.clock[kernels.NODE_LIMIT] = limit

    def table_entries(self, table: int) -> dict[int, int]:
        """Return path number -> count of a table, in the order in which they were first counted."""
        nodes = self.state.nodes.reshape(-1, kernels.NODE)
        buckets = int(self.state.costs[kernels.BUCKET_MASK]) + 1
        first = int(self.state.tables[table * kernels.TABLE_WORDS + kernels.TABLE_HEADS])
        found: list[int] = []
        for head in self.state.heads[first : first + buckets].tolist():
            node = head
            while node:
                found.append(node)
                node = int(nodes[node - 1, 2])
        found.sort()  # Nodes are handed out upwards
        rows = nodes[np.array(found, np.int64) - 1].tolist()
        return {self._long_numbers.get(key, key): count for key, count, *_ in rows}

    def hash_work(self, table: int) -> HashWork:
        """Return what the hashing routine did for a table."""
        at = table * kernels.TABLE_WORDS
        header = self.state.tables[at : at + kernels.TABLE_WORDS].tolist()
        remembered, costs = header[kernels.TABLE_REMEMBERED], header[kernels.TABLE_COSTS]
        spent = remembered * int(self.state.costs[costs + kernels.COST_REMEMBERED])
        return HashWork(
            header[kernels.TABLE_CALLS] + remembered,
            header[kernels.TABLE_INSTRUCTIONS] + spent,
        )


_PLACE = 8 * kernels.SUCCESSOR  # Bytes of a successor


def _place(key: int, places: int) -> int:
    """Place of `key` in a table of a power of two of places (`kernels.segment_place`)."""
    return (((key << 4) ^ (key >> 8)) & _PLACE * (places - 1)) // _PLACE


def _size_for(keys: list[int], places: int) -> int | None:
    """Places of a table, at least so many, in which no two of `keys` meet; None if too many."""
    most = min(_LARGEST_TABLE, _SPARSEST_TABLE * len(keys))
    while places <= most:
        if len({_place(key, places) for key in keys}) == len(keys):
            return places
        places *= 2
    return None


def larger_table(old: Array, rows: int) -> Array:
    """Return so many keyed rows (`kernels.find_row`), those of a smaller table among them."""
    table = np.zeros(rows * kernels.KEYED_ROW, np.int64)
    had = len(old) // kernels.KEYED_ROW
    kernels.call_move_rows(old.ctypes.data, had, table.ctypes.data, rows)
    return table


def put_row(table: Array, *row: int) -> None:
    """Put a row, a key and its value, where `kernels.find_row` finds it."""
    rows, start = len(table) // kernels.KEYED_ROW, table.ctypes.data
    at = (kernels.call_find_row(start, rows, *row[: kernels.KEY_WORDS]) - start) // 8
    table[at : at + kernels.KEYED_ROW] = row


def _grown(array: Array, size: int) -> Array:
    larger = np.zeros(size, np.int64)
    larger[: len(array)] = array
    return larger
