"""Lists of operations in native code: joined, composed for known ways, and put behind events.

Imports numpy, numba and the kernel only. A list is made where it will lie: its operations are put
one behind the other, and then joined in place where one does the work of two (`fuse`). For ways
that an earlier run has taken (`ways`), `compose` makes the lists of many steps at once, and
`insert` lets the kernel find them.
"""

from __future__ import annotations

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import (
    ADD,
    BEGIN,
    CALL,
    HASH,
    LAST,
    RETURN,
    SEGMENT,
    WINDOW,
    get,
    put,
)
from simprof.simulator.cpu import compiled

# A step as a word: its kind, and above it the edge, the return address or the landing's number.
CROSS, PUSH, POP, LAND, SPILL, FILL = range(6)
KIND_BITS = 3
# Words of what `compose` and `insert` are told: addresses of arrays, and numbers.
# WANTED, COUNT: numbers of sequences of steps, or of ways, and how many these are. FIRST, STEPS:
# where in `STEPS` each sequence begins. LISTS: by edge, the place in POOL where its operations
# begin << COUNT_BITS | how many these are; 0 where no edge has any. NUMBERS: the first operation of
# each sequence's list, 0 for none. STOPS: its operation at which Python may be asked, 0 for none.
# USED, ROOM: words of operations. SPILLS, FILLS: the lists that only move a window.
WANTED, COUNT, FIRST, STEPS, LISTS, POOL, NUMBERS, STOPS, USED, ROOM, SPILLS, FILLS = range(12)
# WAYS: WAY words each. LEFT_OVER: where the ways are put for which a state's row has no place.
WAYS, LEFT_OVER = range(12, 14)
TOLD = 14
SOURCE, KEY, TARGET, SEQUENCE = range(4)
WAY = 4
COUNT_BITS = 16

_WORD = 8  # bytes
_SIZE = _WORD * kernels.OPERATION


@kernels.inline
def _put(at: int, code: int, a: int, b: int) -> None:
    put(at, 0, code)
    put(at, 1, a)
    put(at, 2, b)


@kernels.jit
def _join(first: int, code: int, c: int, d: int) -> bool:
    """Have the operation at address `first` do what (code, c, d) does behind it, if it can."""
    before, a, b = get(first, 0), get(first, 1), get(first, 2)
    if code == ADD and before in (ADD, BEGIN):
        put(first, 1, a + c)
    elif code == ADD and before == SEGMENT:
        put(first, 2, b + c)
    elif code == SEGMENT and before == ADD:
        _put(first, code, a + c, d)
    elif code == WINDOW and before == CALL and b == 0:
        put(first, 2, c)
    elif code == WINDOW and before == ADD:
        _put(first, kernels.ADD_WINDOW, a, c)
    elif code == WINDOW and before == RETURN and a == 0:
        _put(first, before, c, b)
    else:
        return False
    return True


@kernels.jit
def fuse(at: int, count: int) -> int:
    """Join what can be joined of `count` operations at address `at`; return how many are left."""
    # An operation is joined with the one before it; a move of a window also with a call or a return
    # further ahead, over operations that have nothing to do with windows.
    left = 0
    for place in range(count):
        operation = at + _SIZE * place
        code, a, b = get(operation, 0), get(operation, 1), get(operation, 2)
        partner = left - 1
        if code == WINDOW:
            while partner >= 0 and get(at + _SIZE * partner, 0) & 0xFF in (
                BEGIN,
                ADD,
                SEGMENT,
                HASH,
            ):
                partner -= 1
            if partner < 0:
                partner = left - 1
        if partner < 0 or not _join(at + _SIZE * partner, code, a, b):
            _put(at + _SIZE * left, code, a, b)
            left += 1
    if left > 0:
        last = at + _SIZE * (left - 1)
        put(last, 0, get(last, 0) | LAST)
    return left


@kernels.jit
def _lay(w: int, sequence: int, at: int, room: int) -> int:
    """Put the operations of a sequence's steps at address `at`; return how many, -1 beyond room."""
    count = 0
    first, steps = get(w, FIRST), get(w, STEPS)
    for place in range(get(first, sequence), get(first, sequence + 1)):
        step = get(steps, place)
        kind, value = step & ((1 << KIND_BITS) - 1), step >> KIND_BITS
        held = 0
        if kind == CROSS and get(w, LISTS) != 0:
            held = get(get(w, LISTS), value)
        more = held & ((1 << COUNT_BITS) - 1)
        if count + more + 1 > room:
            return -1
        for each in range(more):
            operation = get(w, POOL) + _SIZE * ((held >> COUNT_BITS) + each)
            _put(at + _SIZE * count, get(operation, 0), get(operation, 1), get(operation, 2))
            count += 1
        if kind == CROSS:
            continue
        operation = at + _SIZE * count
        if kind == PUSH:
            _put(operation, CALL, value, 0)
        elif kind == POP:
            _put(operation, RETURN, 0, 0)
        elif kind == LAND:
            _put(operation, kernels.SLOW, 0, 0)
        else:
            _put(operation, WINDOW, kernels.CAN_SAVE if kind == SPILL else kernels.CAN_RESTORE, 0)
        count += 1
    return count


@kernels.jit
def compose(k: int, w: int) -> int:
    """Make the lists of the wanted sequences; return how many were made: all, if there is room."""
    for each in range(get(w, COUNT)):
        sequence, used = get(get(w, WANTED), each), get(w, USED)
        at = get(k, kernels.OPERATIONS_POINTER) + _WORD * used
        count = _lay(w, sequence, at, (get(w, ROOM) - used) // kernels.OPERATION)
        if count < 0:
            return each
        count = fuse(at, count)
        number = used // kernels.OPERATION if count > 0 else 0
        if count == 1 and get(at, 0) == WINDOW | LAST:
            number = get(w, SPILLS if get(at, 1) == kernels.CAN_SAVE else FILLS)
            count = 0
        put(get(w, NUMBERS), sequence, number)
        for place in range(count):
            if get(at + _SIZE * place, 0) & 0xFF in (RETURN, kernels.SLOW):
                put(get(w, STOPS), sequence, number + place)
        put(w, USED, used + kernels.OPERATION * count)
    return get(w, COUNT)


@kernels.jit
def insert(k: int, w: int) -> int:
    """Store the wanted ways as successors; return how many have no place in their states' rows."""
    left = 0
    for each in range(get(w, COUNT)):
        way = get(get(w, WANTED), each)
        at = get(w, WAYS) + _WORD * WAY * way
        row = get(k, kernels.ROWS_POINTER) + get(at, SOURCE)
        if get(row, kernels.KEY) != 0:
            row += _WORD * kernels.SUCCESSOR
        if get(row, kernels.KEY) != 0:
            put(get(w, LEFT_OVER), left, way)
            left += 1
            continue
        put(row, kernels.KEY, get(at, KEY))
        put(row, kernels.COUNT_OF, 0)
        put(row, kernels.NEXT, get(at, TARGET))
        put(row, kernels.ACTION, get(get(w, NUMBERS), get(at, SEQUENCE)))
    return left


call_fuse = compiled.for_python(fuse)
call_compose = compiled.for_python(compose)
call_insert = compiled.for_python(insert)
