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
    One activation: return address into the caller (bit 0: the caller's path has already ended),
    the caller's stack pointer, the segment register r and the segment state.
silent block
    One that raises no events (`silence`): a transition then stands for the way through such blocks,
    and adds their instructions.
segment
    A piece of an activation's path (`segments`); r is its number when it ends. What every scheme
    does along it depends on the segment and on the segment state, which is a state with
    successors: the segment's key is the event. They are in a table that grows until no two of
    them want the same place (`spill` takes the rest). An operation of such a transition counts
    in hash tables; everything else follows from how often it was taken.

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
_types, ir = compiled.types, compiled.ir
PLAIN = compiled.is_plain()
_WORD = ir.IntType(64)


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


# Clock words; 0..13, 16..18 and 29..31 are shared with simulator.cpu.traps.ClockWord (a test
# compares them).
INSTRUCTIONS = 0
LIMIT = 1
BLOCK_ADDRESS = 2
BLOCK_SIZE = 3
STOPPED = 4
STOP_FUNCTION = 5
ENGINE = 6
NPC_POINTER = 7
RESUME_PC = 8
RESUME_END = 9
STATE = 10
RESUMED_STATE = 11
WINDOW_POINTER = 12
INTERRUPTED = 13
REDIRECTED = 16
FRAME = 14  # offset of the current frame in `frames`
FRAME_LIMIT = 15  # no frame may start at or beyond this offset
CAN_SAVE = 17
CAN_RESTORE = 18
WINDOW_MOVER = 29
TRAP_WORDS = 30
ENDINGS = 31
SPILL_MASK = 19
MISS_SLOT = 20  # where a missing spilled successor belongs
NODES = 21  # hash nodes in use
NODE_LIMIT = 22
TABLES = 24  # hash tables
FAILED_OPERATION = 23  # operation that returned a status other than OK
ENDS_MASK = 25  # these four belong to `landing_kernel`
WAITS_BASE = 26  # address of the first word of code
WAITS = 27  # words of code
STACK_MASK = 28

FAILED = (
    3  # value of INTERRUPTED: Python raised an exception (simprof.simulator.cpu.traps.Interruption)
)

# States.
ROW = 8  # words a row: a cache line
RESUME = 1
ABNORMAL = 2
START = 8 * ROW  # the row of 0 stays empty: RESUME and ABNORMAL read it, and find nothing
FIRST_STATE = 2 * START

LEFT = 1  # the address in the event, of size 0, that says that the program has set a context

# Words of a successor in its state's row, which has room for two.
KEY = 0  # address | size << 48; 0 if free
COUNT_OF = 1
NEXT = 2  # state; instructions of the silent blocks on the way (`silence`) << PASSED_SHIFT
ACTION = 3  # operation number, 0 if there is none
SUCCESSOR = 4
PASSED_SHIFT = 40
# A spilled successor has its owner's state behind these, 0 if it is free.
OWNER = 4
SPILL = 5

# Row of a segment state.
PLACES = 0  # byte offset of its table in `segments`
PLACE_MASK = 1  # byte offset of the table's last successor

# Operations: what each does. In `block_kernel`, `quick` does those that take no call of anything
# and `slow` the others; `single` and `short` are parts of `quick` for those that stand alone. All
# of them, and `replay_kernel` for the operations of edges (BEGIN, ADD, SEGMENT, HASH), are made of
# the same inlined functions.
NOTHING = 0
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
GUARD = 14  # clock word a is counted down; where it is 0 or less, it becomes b, and r += flag
OPERATION = 3  # words an operation
LAST = 1 << 8
HASH_BACK_EDGE = 1 << 9
TABLE_SHIFT = 32  # the hash table's number starts at this bit, and a guard's flag

# Frame words.
FRAME_RETURN = 0
FRAME_STACK = 1
FRAME_PATH = 2  # the segment register
FRAME_SEGMENTS = 3  # the segment state, 0 where the routine is not profiled
STRIDE = 4  # words a frame
ENDED_BIT = 1  # of a return address: the caller has been accounted for
SIGNAL_BIT = 2  # the frame is a signal handler's; the rest is the number of a signal record

# Words of a landing: what arriving at one place by one transition means (`landing_kernel`).
LANDING_RETURNED = 0  # 1 if control left by a return: that activation is complete
LANDING_BLOCK = 1  # block that control left + 1, 0 if none
LANDING_ROUTINE = 2  # routine of the place + 1, 0 if no graph has it
LANDING_ENTRY = 3  # operation on the place's ENTRY edge, 0 if there is none
LANDING_COUNT = 4  # how often control landed there without Python
LANDING = 8  # words a landing

# Words of an early end.
END_BLOCK = 0  # block + 1, 0 if the place is free
END_REGISTER = 1
END_SEGMENTS = 2
END_COUNT = 3
END = 4  # words an early end

# Hash table header words (one row of `tables` a table).
TABLE_HEADS = 0  # offset of its bucket heads in `heads`
TABLE_REMEMBERED_NODE = 1  # node + 1, 0 if none
TABLE_CALLS = 2  # calls that searched
TABLE_INSTRUCTIONS = 3  # executed by the run-time routine in these
TABLE_REMEMBERED = 4  # calls that found their path remembered
TABLE_COSTS = 5  # offset of its cost words in `costs`
TABLE_WORDS = 8
# Node words: key, count, next node + 1, nodes before it in its bucket.
NODE = 4
NODE_SHIFT = 32  # in b of a HASH operation: node + 1 of its key, 0 before it was counted first
# Cost words of the hashing routine (see `hash_routine`), instructions a call.
COST_REMEMBERED = 0
COST_HIT = 1
COST_INSERT = 2
COST_BACK_HIT = 3
COST_BACK_INSERT = 4
COST_STEP = 5
BUCKET_MASK = 6  # buckets of a table - 1
HASH_SHIFT = 7  # bucket = (key * multiplier >> shift) & mask
HASH_MULTIPLIER = 8
COST_WORDS = 9

# What an event came to.
OK = 0
MISS = 1
MISMATCH = 2
DECIDE = 3
TOO_DEEP = 4
NO_NODES = 5
NEW_SEGMENT = 6
TRACE_STOP = 7  # the trace buffer is full, or a checkpoint is due
MARKED = 8

# Words of the trace buffer, in front of its bits.
TRACE_BITS = 0  # bits in the buffer
TRACE_CAPACITY = 1
TRACE_CROSSINGS = 2  # edges crossed
TRACE_DIGEST = 3  # of their numbers
TRACE_NEXT = 4  # crossing before which a checkpoint is due
TRACE_HEADER = 8
DIGEST_FACTOR = 0x2545F4914F6CDD1D

# Addresses of the arrays of a run, in the clock behind its counts (see KernelState).
ROWS_POINTER = 32
SPILL_POINTER = 33
OPERATIONS_POINTER = 34
FRAMES_POINTER = 35
SEGMENTS_POINTER = 36
TABLES_POINTER = 37
HEADS_POINTER = 38
NODES_POINTER = 39
COSTS_POINTER = 40
SLOW_CALLBACK = 41  # void(int64 status, int64 address, int64 size)
OPERATE_PART = 42  # addresses of the hook's parts
SEARCH_PART = 43
BUDGET_PART = 44
HASH_PART = 45
EXECUTE_PART = 46
TRACE_POINTER = 47  # of traced runs
LAND_PART = 48  # `landing_kernel`: 0 until a program lands anywhere
LANDINGS_POINTER = 49
WAITS_POINTER = 50
ENDS_POINTER = 51
QUICK_PART = 52
NOTES_POINTER = 53  # of runs that take notes (`context_kernel`, `recording_kernel`)
PROGRAM_WORDS = 56  # from here on: words of the program that guards count down
MOST_PROGRAM_WORDS = 16
CLOCK_WORDS = PROGRAM_WORDS + MOST_PROGRAM_WORDS


PARTS: dict[int, int] = {}  # Clock word -> address of a part of the hook; filled below


def end_place(block: int, register: int, segments: int, mask: int) -> int:
    """Where the search for an early end starts; `block` is its number + 1."""
    return ((block * 631) ^ register ^ (register >> 17) ^ (segments >> 6)) & mask


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
            self.clock[word] = address

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
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        kind(function)(a, b, c)


else:

    @_intrinsic
    def call_part(context: Any, function: Any, k: Any, a: Any, b: Any) -> Any:
        """Call void function(int64, int64, int64) by its address: a part of the hook."""
        return compiled.call_at(_types.int64, *_PART)

    @c_function(*_PART)
    def hash_hook(k: int, at: int, unused: int) -> None:
        """`hashed_count` out of line."""
        hashed_count(k, at)

    PARTS[HASH_PART] = hash_hook.address

    @inline
    def count_in_table(k: int, at: int) -> None:
        """`hashed_count` through a pointer, so that `execute` need not make room for it."""
        call_part(get(k, HASH_PART), k, at, 0)


@inline
def stack_pointer(k: int) -> int:
    """%sp of the emulated program; 0 when no emulator is attached (replays)."""
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
read_stack_pointer = compiled.for_python(stack_pointer)
