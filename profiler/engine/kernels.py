"""The words of the native core, hash tables, segments and traces; `block_kernel` is its hook.

Imports numpy and numba only. Everything here works on flat int64 arrays that `automaton` and
`lowering` fill; nothing here knows a routine, an edge or a scheme.

Terms
-----
event
    (address, size in bytes) of a translation block that the emulator is about to run.
state
    What the automaton remembers of the last event: that block in one context. Its number is the
    byte offset of its row, which holds its two first successors; further ones live in the `spill`
    hash table. `RESUME` continues an interrupted block, `ABNORMAL` is decided by Python at every
    event.
successor
    The event that may follow (`KEY`), how often it did, the state that it leads to, and the
    operation to execute then.
operation
    Three words (code, a, b); a transition executes operations until one carries `LAST`.
frame
    One activation.
segment
    A piece of an activation's path (`segments`).

With numba switched off (NUMBA_DISABLE_JIT=1) the same functions run as plain Python, for tests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from simprof.simulator.cpu import compiled

Array = npt.NDArray[np.int64]
P = ParamSpec("P")
T = TypeVar("T")
_types = compiled.types
PLAIN = compiled.is_plain()


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` on first use, cached on disk."""
    return compiled.jit()(function)


def inline(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` into each of its callers."""
    return compiled.inline(function)


def c_function(*arguments: Any, result: Any = _types.void) -> Callable[[Any], Any]:
    """Compile a C function."""
    return compiled.c_function(result(*arguments), error_model="numpy")


_intrinsic: Callable[[Any], Any] = compiled.intrinsic
_PART = (_types.int64, _types.int64, _types.int64)
hook_part = c_function(*_PART)
# What the kernel calls of Python: void(int64, int64, int64).
Callback = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def address_of(callback: Any) -> int:
    """Return the address by which native code calls a `Callback`."""
    # `ctypes.cast` would make a cycle, which keeps in memory whose method the callback is.
    return ctypes.c_void_p.from_buffer(callback).value or 0


# Clock words; 0..13, 16..18 and 29..31 are shared with simulator.cpu.traps.ClockWord (a test
# compares them).
INSTRUCTIONS, LIMIT, BLOCK_ADDRESS, BLOCK_SIZE, STOPPED, STOP_FUNCTION, ENGINE = range(7)
NPC_POINTER, RESUME_PC, RESUME_END, STATE, RESUMED_STATE, WINDOW_POINTER, INTERRUPTED = range(7, 14)
# FRAME: offset of the current frame in `frames`; FRAME_LIMIT: no frame may start there or beyond.
FRAME, FRAME_LIMIT, REDIRECTED, CAN_SAVE, CAN_RESTORE = range(14, 19)
# MISS_SLOT: where a missing spilled successor belongs. NODES: hash nodes in use. FAILED_OPERATION:
# that which returned a status other than OK. TABLES: hash tables.
SPILL_MASK, MISS_SLOT, NODES, NODE_LIMIT, FAILED_OPERATION, TABLES = range(19, 25)
# Of `landing_kernel`; WAITS_BASE: address of the first word of code; WAITS: words of code.
END_ROWS, WAITS_BASE, WAITS, STACK_MASK = range(25, 29)
WINDOW_MOVER, TRAP_WORDS, ENDINGS = range(29, 32)

# Value of INTERRUPTED: Python raised an exception (simprof.simulator.cpu.traps.Interruption).
FAILED = 3

# States.
ROW = 8  # words a row: a cache line
RESUME = 1
ABNORMAL = 2
START = 8 * ROW  # the row of 0 stays empty: RESUME and ABNORMAL read it, and find nothing
FIRST_STATE = 2 * START

LEFT = 1  # the address in the event, of size 0, that says that the program has set a context

# Words of a successor in its state's row, which has room for two.
# KEY: address | size << 48; 0 if free. COUNT_OF: how often it was taken. NEXT: state; instructions
# of the silent blocks on the way (`silence`) << PASSED_SHIFT, which the transition then stands for.
# ACTION: operation number, 0 if none.
KEY, COUNT_OF, NEXT, ACTION = range(4)
SUCCESSOR = 4
PASSED_SHIFT = 40
# A spilled successor has its owner's state behind these, 0 if it is free.
OWNER = 4
SPILL = 5

# Row of a segment state. What every scheme does along a segment depends on it and on the segment
# state, which is a state with successors: the segment's key is the event. They are in a table that
# grows until no two of them want the same place (`spill` takes the rest). An operation of such a
# transition counts in hash tables; everything else follows from how often it was taken.
PLACES = 0  # byte offset of its table in `segments`
PLACE_MASK = 1  # byte offset of the table's last successor

# Operations: what each does. In `block_kernel`, `quick` does those that take no call of anything
# and `slow` the others; `single` and `short` are parts of `quick` for those that stand alone. All
# of them are made of the same inlined functions.
BEGIN = 1  # r = a; the segment state is b
ADD = 2  # r += a
SEGMENT = 3  # segment r + a ends; r = b
HASH = 4  # hashed count of a; b: length of its list (of the first), its node << NODE_SHIFT
WINDOW = 5  # clock word a is CAN_SAVE: spill a window if none is free; CAN_RESTORE: fill one
ADD_WINDOW = 6  # ADD, then what WINDOW does with b
CALL = 8  # push a frame: return address a; then do what WINDOW does with b, if that is not 0
RETURN = 9  # pop a frame that returns to the event's address, and whose caller had this %sp; then
# do what WINDOW does with a, if that is not 0
SLOW = 10  # Python decides; b of either: number of the landing, 0 where there was none
CROSS = 11  # of traced runs: edge number a is crossed; append b >> 8, of b & 0xff bits
TOKEN = 12  # append b >> 8, of b & 0xff bits
MARK = 13  # Python notes what a reader of the trace could not know
# Clock word a is counted down; where it is 0 or less, it becomes b, and r += flag. With a burst a
# and b have more in their upper bits (`lowering.guard_operation`).
GUARD = 14
BURST_SHIFT = 32  # from here on, a has the word of the burst (0: none), and b the next two
STRIDE_BITS = 15
BURST_LIMIT = 1 << STRIDE_BITS  # of its stride and of its samples; b has these in this order
OPERATION = 3  # words an operation
LAST = 1 << 8
HASH_BACK_EDGE = 1 << 9
TABLE_SHIFT = 32  # the hash table's number starts at this bit, and a guard's flag

# Frame words: return address into the caller (bit 0: the caller's path has already ended), the
# caller's stack pointer, the segment register r, which is the number of the segment when that ends,
# and the segment state, 0 where the routine is not profiled.
FRAME_RETURN, FRAME_STACK, FRAME_PATH, FRAME_SEGMENTS = range(4)
STRIDE = 4  # words a frame
ENDED_BIT = 1  # of a return address: the caller has been accounted for
SIGNAL_BIT = 2  # the frame is a signal handler's; the rest is the number of a signal record

# Words of a landing: what arriving at one place by one transition means (`landing_kernel`).
# LANDING_RETURNED: 1 if control left by a return: that activation is complete. LANDING_BLOCK: block
# that control left + 1, 0 if none. LANDING_ROUTINE: routine of the place + 1, 0 if no graph has it.
# LANDING_ENTRY: operation on the place's ENTRY edge, 0 if there is none. LANDING_COUNT: how often
# control landed there without Python.
LANDING_RETURNED, LANDING_BLOCK, LANDING_ROUTINE, LANDING_ENTRY, LANDING_COUNT = range(5)
LANDING = 8  # words a landing

# Words of a keyed row (`find_row`): a key of three words, the first of them 0 if the row is free.
KEY_WORDS = 3
VALUE = 3
KEYED_ROW = 4

# Hash table header words (one row of `tables` a table).
# TABLE_HEADS: offset of its bucket heads in `heads`. TABLE_REMEMBERED_NODE: node + 1, 0 if none.
# TABLE_CALLS, TABLE_INSTRUCTIONS: calls that searched, and what the run-time routine executed in
# these. TABLE_REMEMBERED: calls that found their path remembered. TABLE_COSTS: offset of its cost
# words in `costs`.
TABLE_HEADS, TABLE_REMEMBERED_NODE, TABLE_CALLS, TABLE_INSTRUCTIONS = range(4)
TABLE_REMEMBERED, TABLE_COSTS = range(4, 6)
TABLE_WORDS = 8
# Node words: key, count, next node + 1, nodes before it in its bucket.
NODE = 4
NODE_SHIFT = 32  # in b of a HASH operation: node + 1 of its key, 0 before it was counted first
# Cost words of the hashing routine (see `hash_routine`), instructions a call. BUCKET_MASK: buckets
# of a table - 1; the bucket is (key * multiplier >> shift) & mask.
COST_REMEMBERED, COST_HIT, COST_INSERT, COST_BACK_HIT, COST_BACK_INSERT, COST_STEP = range(6)
BUCKET_MASK, HASH_SHIFT, HASH_MULTIPLIER = range(6, 9)
COST_WORDS = 9

# What an event came to. TRACE_STOP: the trace buffer is full, or a checkpoint is due.
OK, MISS, MISMATCH, DECIDE, TOO_DEEP, NO_NODES, NEW_SEGMENT, TRACE_STOP, MARKED = range(9)

# Words of the trace buffer, in front of its bits.
# TRACE_BITS: bits in the buffer. TRACE_CROSSINGS, TRACE_DIGEST: edges crossed, and the digest of
# their numbers. TRACE_NEXT: the crossing before which a checkpoint is due.
TRACE_BITS, TRACE_CAPACITY, TRACE_CROSSINGS, TRACE_DIGEST, TRACE_NEXT = range(5)
TRACE_HEADER = 8
DIGEST_FACTOR = 0x2545F4914F6CDD1D

# Addresses of the arrays of a run, in the clock behind its counts (see KernelState).
ROWS_POINTER, SPILL_POINTER, OPERATIONS_POINTER, FRAMES_POINTER, SEGMENTS_POINTER = range(32, 37)
TABLES_POINTER, HEADS_POINTER, NODES_POINTER, COSTS_POINTER = range(37, 41)
SLOW_CALLBACK = 41  # void(int64 status, int64 address, int64 size)
# Addresses of the hook's parts; LAND_PART (`landing_kernel`): 0 until a program lands anywhere.
OPERATE_PART, SEARCH_PART, BUDGET_PART, HASH_PART, EXECUTE_PART = range(42, 47)
TRACE_POINTER, LAND_PART = range(47, 49)  # the trace's: of traced runs
LANDINGS_POINTER, WAITS_POINTER, ENDS_POINTER, QUICK_PART = range(49, 53)
NOTES_POINTER = 53  # of runs that take notes (`context_kernel`)
WALK_POINTER, LEARN_PART = 54, 55  # `walk_kernel`
# What is used of arrays that native code adds to, and how much there is: states (rows), words of
# operations, spilled successors.
USED_STATES, STATE_ROOM, USED_OPERATIONS, OPERATION_ROOM, SPILLED = range(56, 61)
PROGRAM_WORDS = 64  # from here on: words of the program that guards count down
MOST_PROGRAM_WORDS = 16
CLOCK_WORDS = PROGRAM_WORDS + MOST_PROGRAM_WORDS


PARTS: dict[int, Callable[[], int]] = {}  # Clock word -> what returns the address of a part


class KernelState(NamedTuple):
    """The arrays of one run, all int64 and C-contiguous, in the order of their pointers."""

    # The kernel takes the address of `clock` and finds the others through it: numba passes ten
    # arrays by value at every call, which costs several times what the work does (measured: 20 ns
    # an event against 3).

    clock: Array
    rows: Array
    spill: Array
    operations: Array
    frames: Array
    segments: Array
    tables: Array
    heads: Array
    nodes: Array
    costs: Array

    def publish(self) -> None:
        """Write the arrays' addresses, and those of the hook's parts, where the kernel looks."""
        for place, array in enumerate(self[1:]):
            self.clock[ROWS_POINTER + place] = array.ctypes.data
        for word, address in PARTS.items():
            self.clock[word] = address()

    @property
    def address(self) -> int:
        """What the kernel's functions take."""
        return int(self.clock.ctypes.data)


if PLAIN:

    def get(base: int, index: int) -> int:
        """Word `index` of the array at `base`."""
        return ctypes.c_int64.from_address(int(base + 8 * index)).value

    def put(base: int, index: int, value: int) -> None:
        """Set word `index` of the array at `base`."""
        ctypes.c_int64.from_address(int(base + 8 * index)).value = int(value)

else:

    @_intrinsic
    def get(context: Any, base: Any, index: Any) -> Any:
        """Word `index` of the array at `base`."""
        return compiled.element_at(64, is_set=False)

    @_intrinsic
    def put(context: Any, base: Any, index: Any, value: Any) -> Any:
        """Set word `index` of the array at `base`."""
        return compiled.element_at(64, is_set=True)


@jit
def bump(base: int, index: int, amount: int) -> None:
    """Add to word `index` of the array at `base`."""
    put(base, index, get(base, index) + amount)


@jit
def spilled(k: int, state: int, key: int) -> int:
    """Address of a spilled successor; 0 where there is none yet (`MISS_SLOT` is its place)."""
    mask = get(k, SPILL_MASK)
    slot = ((key >> 2) ^ (key >> 13) ^ (key >> 44) ^ (state * 631)) & mask
    while True:
        at = get(k, SPILL_POINTER) + 8 * SPILL * slot
        owner = get(at, OWNER)
        if owner == 0:
            put(k, MISS_SLOT, slot)
            return 0
        if owner == state and get(at, KEY) == key:
            return at
        slot = (slot + 1) & mask


@jit
def find_row(table: int, rows: int, a: int, b: int, c: int) -> int:
    """Address of a key's row in a table of so many (a power of two), or of the free row for it."""
    mixed = (a * 0x9E3779B1) ^ (b * 0x85EBCA6B) ^ (c * 0x27D4EB2F)
    row = mixed ^ (mixed >> 15) ^ (mixed >> 31)
    while True:
        at = table + 8 * KEYED_ROW * (row & (rows - 1))
        if get(at, 0) == 0 or (get(at, 0) == a and get(at, 1) == b and get(at, 2) == c):
            return at
        row += 1


@jit
def move_rows(old: int, old_rows: int, table: int, rows: int) -> None:
    """Copy the keyed rows of an old table into a larger one."""
    for place in range(old_rows):
        at = old + 8 * KEYED_ROW * place
        if get(at, 0) != 0:
            to = find_row(table, rows, get(at, 0), get(at, 1), get(at, 2))
            for word in range(KEYED_ROW):
                put(to, word, get(at, word))


@inline
def count_known(k: int, at: int) -> bool:
    """Count for the HASH operation at address `at`; False, nothing done, if its node is unknown."""
    # What the routine executes follows from the node, without a search.
    known = get(at, 2) >> NODE_SHIFT
    if known == 0:
        return False
    word = get(at, 0)
    node = get(k, NODES_POINTER) + 8 * NODE * (known - 1)
    header = get(k, TABLES_POINTER) + 8 * TABLE_WORDS * (word >> TABLE_SHIFT)
    put(node, 1, get(node, 1) + 1)
    cost = COST_HIT
    if word & HASH_BACK_EDGE != 0:
        if get(header, TABLE_REMEMBERED_NODE) == known:
            put(header, TABLE_REMEMBERED, get(header, TABLE_REMEMBERED) + 1)
            return True
        put(header, TABLE_REMEMBERED_NODE, known)
        cost = COST_BACK_HIT
    costs = get(k, COSTS_POINTER) + 8 * get(header, TABLE_COSTS)
    spent = get(costs, cost) + get(node, 3) * get(costs, COST_STEP)
    put(header, TABLE_CALLS, get(header, TABLE_CALLS) + 1)
    put(header, TABLE_INSTRUCTIONS, get(header, TABLE_INSTRUCTIONS) + spent)
    return True


@jit
def find_node(k: int, at: int) -> int:
    """Return the node of the HASH operation at address `at`, from 1 on; 0 if there is none."""
    key = get(at, 1)
    nodes = get(k, NODES_POINTER)
    node = get(bucket_of(k, at), 0)
    while node != 0 and get(nodes, (node - 1) * NODE) != key:
        node = get(nodes, (node - 1) * NODE + 2)
    return node


@jit
def bucket_of(k: int, at: int) -> int:
    """Address of the head of the bucket of the HASH operation at address `at`."""
    header = get(k, TABLES_POINTER) + 8 * TABLE_WORDS * (get(at, 0) >> TABLE_SHIFT)
    costs = get(k, COSTS_POINTER) + 8 * get(header, TABLE_COSTS)
    product = get(at, 1) * get(costs, HASH_MULTIPLIER)
    bucket = (product >> get(costs, HASH_SHIFT)) & get(costs, BUCKET_MASK)
    return get(k, HEADS_POINTER) + 8 * (get(header, TABLE_HEADS) + bucket)


@jit
def add_node(k: int, at: int) -> int:
    """Insert a node for the HASH operation at address `at`, in front of its bucket; return it."""
    # Add what inserting costs.
    head = bucket_of(k, at)
    nodes = get(k, NODES_POINTER)
    following = get(head, 0)
    node = get(k, NODES) + 1
    put(k, NODES, node)
    put(nodes, (node - 1) * NODE, get(at, 1))
    put(nodes, (node - 1) * NODE + 1, 0)
    put(nodes, (node - 1) * NODE + 2, following)
    put(nodes, (node - 1) * NODE + 3, 0)
    put(head, 0, node)
    steps = 0
    while following != 0:
        bump(nodes, (following - 1) * NODE + 3, 1)
        following = get(nodes, (following - 1) * NODE + 2)
        steps += 1
    header = get(k, TABLES_POINTER) + 8 * TABLE_WORDS * (get(at, 0) >> TABLE_SHIFT)
    costs = get(k, COSTS_POINTER) + 8 * get(header, TABLE_COSTS)
    cost = COST_INSERT
    if get(at, 0) & HASH_BACK_EDGE != 0:
        cost = COST_BACK_INSERT
        put(header, TABLE_REMEMBERED_NODE, node)
    bump(nodes, (node - 1) * NODE + 1, 1)
    bump(header, TABLE_CALLS, 1)
    bump(header, TABLE_INSTRUCTIONS, get(costs, cost) + steps * get(costs, COST_STEP))
    return node


@jit
def hashed_count(k: int, at: int) -> None:
    """Do what the hashing run-time routine does, for the HASH operation at address `at`."""
    # There must be room for a node.
    if count_known(k, at):
        return
    node = find_node(k, at)
    if node == 0:
        node = add_node(k, at)
        put(at, 2, get(at, 2) | node << NODE_SHIFT)
        return
    put(at, 2, get(at, 2) | node << NODE_SHIFT)
    count_known(k, at)


# Clock word -> a part of the kernel that is loaded late, when numba is switched off.
PLAIN_PARTS: dict[int, Callable[[int, int, int], int]] = {}

if PLAIN:
    count_in_table = hashed_count

    def call_part(function: int, a: int, b: int, c: int) -> None:
        """Call void function(int64, int64, int64) by its address."""
        Callback(function)(a, b, c)


else:

    @_intrinsic
    def call_part(context: Any, function: Any, k: Any, a: Any, b: Any) -> Any:
        """Call void function(int64, int64, int64) by its address: a part of the hook."""
        return compiled.call_at(_types.int64, *_PART)

    @hook_part
    def hash_hook(k: int, at: int, unused: int) -> None:
        """`hashed_count` out of line."""
        hashed_count(k, at)

    PARTS[HASH_PART] = lambda: hash_hook.address

    @inline
    def count_in_table(k: int, at: int) -> None:
        """`hashed_count` through a pointer, so that `execute` need not make room for it."""
        call_part(get(k, HASH_PART), k, at, 0)


@inline
def stack_pointer(k: int) -> int:
    """%sp of the emulated program; 0 when no emulator is attached."""
    window = get(k, WINDOW_POINTER)
    return 0 if window == 0 else get(get(window, 0), 6)


@jit
def count_hashed(k: int, operation: int) -> bool:
    """Execute a list of hashed counts; False, with nothing done, where room for nodes lacks."""
    at = get(k, OPERATIONS_POINTER) + 8 * OPERATION * operation
    if get(k, NODES) + (get(at, 2) & 0xFFFFFFFF) > get(k, NODE_LIMIT):
        return False
    while True:
        count_in_table(k, at)
        if get(at, 0) & LAST:
            return True
        at += 8 * OPERATION


@inline
def segment_place(k: int, state: int, key: int) -> int:
    """Address at which the successor of a segment state by `key` is, if its table has it."""
    row = get(k, ROWS_POINTER) + state
    offset = ((key << 4) ^ (key >> 8)) & get(row, PLACE_MASK)
    return get(k, SEGMENTS_POINTER) + get(row, PLACES) + offset


@jit
def end_segment(k: int, frame: int, at: int, times: int) -> int:
    """Execute the SEGMENT operation at address `at`, counted `times` times; return a status."""
    key = get(frame, FRAME_PATH) + get(at, 1)
    successor = segment_place(k, get(frame, FRAME_SEGMENTS), key)
    if get(successor, KEY) != key:
        successor = spilled(k, get(frame, FRAME_SEGMENTS), key)
        if successor == 0:
            return NEW_SEGMENT
    operation = get(successor, ACTION)
    if operation != 0 and not count_hashed(k, operation):
        return NO_NODES
    bump(successor, COUNT_OF, times)
    put(frame, FRAME_SEGMENTS, get(successor, NEXT))
    put(frame, FRAME_PATH, get(at, 2))
    return OK


@inline
def set_register(code: int, frame: int, at: int) -> None:
    """Execute the BEGIN or ADD operation at address `at` for the activation at `frame`."""
    if code == BEGIN:
        put(frame, FRAME_PATH, get(at, 1))
        put(frame, FRAME_SEGMENTS, get(at, 2))
    else:
        put(frame, FRAME_PATH, get(frame, FRAME_PATH) + get(at, 1))


@jit
def append_bits(trace: int, value: int, width: int) -> None:
    """Append the low `width` bits of `value` to the trace buffer, most significant first."""
    bits = get(trace, TRACE_BITS)
    put(trace, TRACE_BITS, bits + width)
    at = TRACE_HEADER + (bits >> 6)
    used = bits & 63
    room = 64 - used
    before = get(trace, at) if used else 0
    if width <= room:
        put(trace, at, before | value << (room - width))
    else:
        put(trace, at, before | value >> (width - room))
        put(trace, at + 1, value << (64 - width + room))


@jit
def write_trace(k: int, at: int) -> int:
    """Execute the CROSS, TOKEN or MARK operation at address `at`; return a status."""
    code = get(at, 0) & 0xFF
    if code == MARK:
        return MARKED
    trace = get(k, TRACE_POINTER)
    if get(trace, TRACE_BITS) >= get(trace, TRACE_CAPACITY):
        return TRACE_STOP
    if code == CROSS:
        if get(trace, TRACE_CROSSINGS) >= get(trace, TRACE_NEXT):
            return TRACE_STOP
        bump(trace, TRACE_CROSSINGS, 1)
        digest = get(trace, TRACE_DIGEST) + get(at, 1) + 1
        put(trace, TRACE_DIGEST, digest * DIGEST_FACTOR)
    token = get(at, 2)
    if token != 0:
        append_bits(trace, token >> 8, token & 0xFF)
    return OK


@inline
def counted_known(k: int, action: int) -> bool:
    """Execute a segment's list of hashed counts if their nodes are known, else nothing."""
    # Those of a list become known together.
    at = get(k, OPERATIONS_POINTER) + 8 * OPERATION * action
    if not count_known(k, at):
        return False
    while get(at, 0) & LAST == 0:
        at += 8 * OPERATION
        count_known(k, at)
    return True


@inline
def ended_known(k: int, frame: int, at: int, times: int, hashes: bool) -> bool:
    """Execute the SEGMENT operation at address `at`, counted `times` times, without a call."""
    # False, with nothing done, where the segment or one of its hashed counts is new, or where
    # there are any and `hashes`, a constant, says that their code is not to be here.
    key = get(frame, FRAME_PATH) + get(at, 1)
    successor = segment_place(k, get(frame, FRAME_SEGMENTS), key)
    if get(successor, KEY) != key:
        return False
    action = get(successor, ACTION)
    if action != 0 and not (hashes and counted_known(k, action)):
        return False
    put(successor, COUNT_OF, get(successor, COUNT_OF) + times)
    if get(successor, NEXT) != get(frame, FRAME_SEGMENTS):
        put(frame, FRAME_SEGMENTS, get(successor, NEXT))
    put(frame, FRAME_PATH, get(at, 2))
    return True


find_spilled = compiled.for_python(spilled)
call_find_row = compiled.for_python(find_row)
call_move_rows = compiled.for_python(move_rows)
read_stack_pointer = compiled.for_python(stack_pointer)
