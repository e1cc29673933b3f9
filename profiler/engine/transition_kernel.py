"""Learns transitions: states by the blocks and contexts that they stand for, and their successors.

Imports the kernels only. When the program first goes from one block to another, `learn` does in
native code what the automaton otherwise does in Python: it asks `walk_kernel` for the steps, puts
the operations of their edges into one list, and inserts the successor. The arrays are those of the
walk (`walk_kernel`).

Steps -> functions
------------------
1. the number of the state that follows                     `intern`
2. the window that is moved before its block                `window_move`
3. the operations of all steps, in one list                 `_compose`, `_finish_list`, `fuse`
4. the successor in the row of its source                   `_insert`
5. all of these for one event                               `learn`
"""

from __future__ import annotations

from simprof.profiler.engine import context_kernel, kernels
from simprof.profiler.engine import walk_kernel as walk
from simprof.profiler.engine.kernels import find_row, get, inline, jit, put, spilled
from simprof.simulator.cpu import compiled

_OPERATION_SIZE = 8 * kernels.OPERATION  # bytes
NOTE = kernels.HASH | context_kernel.NOTE_TABLE << kernels.TABLE_SHIFT
_types = compiled.types

# What `learn` came to. UNUSUAL: Python decides. FULL: an array has to grow. UNKNOWN_LISTS: the
# routine of edge UNLOWERED has to be lowered.
LEARNT, UNUSUAL, FULL, UNKNOWN_LISTS = range(4)


@jit
def is_harmless(word: int) -> bool:
    """Whether an instruction neither traps nor accesses memory, but writes a register at most."""
    form, op2, op3 = word >> 30, (word >> 22) & 7, (word >> 19) & 63
    if form == 0:
        return op2 != 0 and op2 != 7  # branches, and sethi
    if form != 2:
        return form == 1  # call
    if op3 <= 0x08 or op3 == 0x0C or 0x10 <= op3 <= 0x18 or op3 == 0x1C or op3 == 0x38:
        return True
    return 0x25 <= op3 <= 0x27 or op3 == 0x2F or (op3 == 0x2C and (word >> 18) & 1 != 0)


@jit
def window_move(w: int, address: int, size: int) -> int:
    """Clock word of the window that is moved before a block, instead of a trap; 0 for none."""
    # A trap costs the emulator ten times what moving the window does. It is moved where nobody
    # could see the difference: where no instruction of the block before the one that would trap
    # accesses memory, can trap, or writes the frame pointer, under which windows are found.
    first, end = walk.index(w, address), walk.index(w, address + size - 4)
    if first < 0 or end < 0:
        return 0
    for place in range(first, end + 1):
        word = walk.half(get(w, walk.CODE), place)
        form, op3 = word >> 30, (word >> 19) & 63
        if form == 2 and op3 == 0x3C:
            return kernels.CAN_SAVE
        if form == 2 and (op3 == 0x3D or op3 == 0x39):
            return kernels.CAN_RESTORE
        # What is harmless writes a register, if it is no branch or call: the frame pointer?
        writes = form == 2 or (form == 0 and (word >> 22) & 7 == 4)
        if not is_harmless(word) or (writes and (word >> 25) & 31 == 30):
            return 0
    return 0


@jit
def has_room(k: int, w: int) -> bool:
    """Whether there is room for one more state, and for all that a transition may need."""
    return (
        get(k, kernels.USED_STATES) + 2 < get(k, kernels.STATE_ROOM)
        and get(k, kernels.USED_STATES) + 2 < get(w, walk.STATE_ROOM)
        and 2 * get(w, walk.TABLE_USED) < get(w, walk.TABLE_ROWS)
        and get(w, walk.STEPS_USED) + walk.MOST_STEPS <= get(w, walk.STEPS_ROOM)
        and get(w, walk.LOG_USED) < get(w, walk.LOG_ROOM)
        and 2 * get(k, kernels.SPILLED) + 2 <= get(k, kernels.SPILL_MASK)
    )


@jit
def intern(k: int, w: int, address: int, size: int) -> int:
    """Number of the state of a block with the context behind its first instruction; it has room."""
    key = (get(w, walk.BLOCK) + 1) << 32 | size, get(w, walk.PENDING) << 1 | get(w, walk.SLOT_SEEN)
    at = find_row(get(w, walk.TABLE), get(w, walk.TABLE_ROWS), address + 1, key[0], key[1])
    if get(at, 0) != 0:
        return get(at, kernels.VALUE)
    count = get(k, kernels.USED_STATES) + 1
    put(k, kernels.USED_STATES, count)
    put(w, walk.TABLE_USED, get(w, walk.TABLE_USED) + 1)
    number = kernels.START * count
    put(at, 0, address + 1)
    put(at, 1, key[0])
    put(at, 2, key[1])
    put(at, kernels.VALUE, number)
    row = walk.row(w, number)
    put(row, walk.ADDRESS, address)
    put(row, walk.SIZE, size)
    walk.save(w, row + 8 * walk.FIRST_CONTEXT)
    put(row, walk.INSIDE, -1)
    put(row, walk.MOVE, window_move(w, address, size))
    put(row, walk.EXISTS, 1)
    return number


# -- Transitions


@inline
def _put_operation(at: int, place: int, code: int, a: int, b: int) -> None:
    put(at, kernels.OPERATION * place, code)
    put(at, kernels.OPERATION * place + 1, a)
    put(at, kernels.OPERATION * place + 2, b)


@jit
def _join(first: int, code: int, c: int, d: int) -> bool:
    """Have the operation at address `first` do what (code, c, d) does behind it, if it can."""
    before, a, b = get(first, 0), get(first, 1), get(first, 2)
    if code == kernels.ADD and before in (kernels.ADD, kernels.BEGIN):
        put(first, 1, a + c)
    elif code == kernels.ADD and before == kernels.SEGMENT:
        put(first, 2, b + c)
    elif code == kernels.SEGMENT and before == kernels.ADD:
        _put_operation(first, 0, code, a + c, d)
    elif code == kernels.WINDOW and before == kernels.CALL and b == 0:
        put(first, 2, c)
    elif code == kernels.WINDOW and before == kernels.ADD:
        _put_operation(first, 0, kernels.ADD_WINDOW, a, c)
    elif code == kernels.WINDOW and before == kernels.RETURN and a == 0:
        _put_operation(first, 0, before, c, b)
    else:
        return False
    return True


@jit
def fuse(at: int, count: int) -> int:
    """Join what can be joined of `count` operations at address `at`; return how many are left."""
    # An operation is joined with the one before it; a move of a window also with a call or a return
    # further ahead, over operations that have nothing to do with windows.
    left = 0
    for place in range(count):
        operation = at + _OPERATION_SIZE * place
        code, a, b = get(operation, 0), get(operation, 1), get(operation, 2)
        partner = left - 1
        if code == kernels.WINDOW:
            while partner >= 0 and get(at + _OPERATION_SIZE * partner, 0) & 0xFF in (
                kernels.BEGIN,
                kernels.ADD,
                kernels.SEGMENT,
                kernels.HASH,
            ):
                partner -= 1
            if partner < 0:
                partner = left - 1
        if partner < 0 or not _join(at + _OPERATION_SIZE * partner, code, a, b):
            _put_operation(at, left, code, a, b)
            left += 1
    if left > 0:
        last = at + _OPERATION_SIZE * (left - 1)
        put(last, 0, get(last, 0) | kernels.LAST)
    return left


@jit
def _site(w: int, address: int) -> int:
    """The call that returns to an address (`ContextCounting.pushed`)."""
    word = walk.index(w, address)
    site = 0 if word < 0 else get(get(w, walk.SITES), word)
    return site if site != 0 else address - 8


@jit
def _compose(k: int, w: int, first: int, count: int, done: int) -> int:
    """Put the operations of steps behind `done` ones at the end of all; -1: `UNKNOWN_LISTS`,
    -2: there is no room for them.
    """
    used = get(k, kernels.USED_OPERATIONS)
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * used
    room = (get(k, kernels.OPERATION_ROOM) - used) // kernels.OPERATION
    for place in range(first, first + count):
        each = get(get(w, walk.STEPS), place)
        kind, value = each & ((1 << walk.KIND_BITS) - 1), each >> walk.KIND_BITS
        held = 0
        if kind == walk.CROSS and get(w, walk.LISTS) != 0:
            held = get(get(w, walk.LISTS), value)
            if held < 0:
                put(w, walk.UNLOWERED, value)
                return -1
        more = held & ((1 << walk.COUNT_BITS) - 1)
        if done + more + 3 > room:  # a call, its note, and a move of a window
            return -2
        operation = get(w, walk.POOL) + 8 * kernels.OPERATION * (held >> walk.COUNT_BITS)
        for word in range(kernels.OPERATION * more):
            put(at, kernels.OPERATION * done + word, get(operation, word))
        done += more
        if kind == walk.POP:
            _put_operation(at, done, kernels.RETURN, 0, 0)
            done += 1
        elif kind == walk.PUSH:
            _put_operation(at, done, kernels.CALL, value, 0)
            done += 1
            if get(w, walk.SITES) != 0:
                note = _site(w, value & ~kernels.ENDED_BIT) << context_kernel.KIND_BITS
                _put_operation(at, done, NOTE, note | context_kernel.PUSHED, 1)
                done += 1
    return done


@jit
def _moves_only(w: int, move: int) -> int:
    """The operation of a transition that does nothing but move a window; 0 for none."""
    if move == 0:
        return 0
    return get(w, walk.SPILLS) if move == kernels.CAN_SAVE else get(w, walk.FILLS)


@jit
def _finish_list(k: int, w: int, count: int, move: int) -> int:
    """Make a list of `count` operations at the end of all; return the number of its first."""
    if count == 0:
        return _moves_only(w, move)
    used = get(k, kernels.USED_OPERATIONS)
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * used
    if move != 0:
        _put_operation(at, count, kernels.WINDOW, move, 0)
        count += 1
    put(k, kernels.USED_OPERATIONS, used + kernels.OPERATION * fuse(at, count))
    return used // kernels.OPERATION


@jit
def _insert(k: int, state: int, key: int, target: int, operation: int) -> int:
    """Make a successor of a state that was never taken; return its address."""
    at = get(k, kernels.ROWS_POINTER) + state
    if get(at, kernels.KEY) != 0:
        at += 8 * kernels.SUCCESSOR
    if get(at, kernels.KEY) != 0:
        spilled(k, state, key)  # finds its place
        at = get(k, kernels.SPILL_POINTER) + 8 * kernels.SPILL * get(k, kernels.MISS_SLOT)
        put(at, kernels.OWNER, state)
        put(k, kernels.SPILLED, get(k, kernels.SPILLED) + 1)
    put(at, kernels.KEY, key)
    put(at, kernels.COUNT_OF, 0)
    put(at, kernels.NEXT, target)
    put(at, kernels.ACTION, operation)
    return at


@jit
def _may_follow_silence(w: int, address: int) -> bool:
    """Whether silent blocks may lie between the context and an event at an address."""
    if walk.has_flag(w, address, walk.FLAG_BEHIND):
        return True
    pending = get(w, walk.PENDING)
    if pending < 0:
        return walk.has_flag(w, get(w, walk.LAST_AT) + 4, walk.FLAG_SILENT)
    return (
        walk.has_flag(w, pending + 4, walk.FLAG_SILENT)
        or walk.has_flag(w, pending + 8, walk.FLAG_SILENT)
        or walk.has_flag(w, walk.target(w, pending), walk.FLAG_SILENT)
    )


@jit
def learn(k: int, w: int, state: int, address: int, size: int) -> int:
    """Make the successor of a state by an event; return a status. Only LEARNT changes anything."""
    if get(w, walk.IS_ON) == 0 or state < kernels.FIRST_STATE or size == 0:
        return UNUSUAL
    if state >= kernels.START * get(w, walk.STATE_ROOM):
        return UNUSUAL
    source = walk.row(w, state)
    if get(source, walk.EXISTS) == 0 or walk.has_flag(w, address, walk.FLAG_LATE):
        return UNUSUAL
    if not has_room(k, w):
        return FULL
    if get(source, walk.INSIDE) < 0 and not walk.walk_inside(w, source):
        return UNUSUAL
    first = get(w, walk.STEPS_USED)
    walk.load(w, source + 8 * walk.LAST_CONTEXT)
    if get(w, walk.HAS_SILENCE) != 0 and _may_follow_silence(w, address):
        return UNUSUAL
    if not walk.step(w, address):
        put(w, walk.STEPS_USED, first)
        return UNUSUAL
    count = get(w, walk.STEPS_USED) - first
    done = _compose(k, w, get(source, walk.INSIDE), get(source, walk.INSIDE_COUNT), 0)
    if done >= 0:
        done = _compose(k, w, first, count, done)
    if done < 0:
        put(w, walk.STEPS_USED, first)
        return UNKNOWN_LISTS if done == -1 else FULL
    target = intern(k, w, address, size)
    operation = _finish_list(k, w, done, get(walk.row(w, target), walk.MOVE))
    key = address | (size << 48)
    put(w, walk.SUCCESSOR, _insert(k, state, key, target, operation))
    log = get(w, walk.LOG) + 8 * walk.LOG_ROW * get(w, walk.LOG_USED)
    put(log, walk.LOG_SOURCE, state)
    put(log, walk.LOG_KEY, key)
    put(log, walk.LOG_TARGET, target)
    put(log, walk.LOG_FIRST, first)
    put(log, walk.LOG_COUNT, count)
    put(log, walk.LOG_OPERATION, operation)
    put(w, walk.LOG_USED, get(w, walk.LOG_USED) + 1)
    return LEARNT


if not kernels.PLAIN:

    @kernels.c_function(_types.int64, _types.int64, _types.int64, result=_types.int64)
    def learn_part(k: int, address: int, size: int) -> int:
        """`learn` of the current state for the block hook: the successor's address, 0 for none."""
        w = get(k, kernels.WALK_POINTER)
        if w == 0 or learn(k, w, get(k, kernels.STATE), address, size) != LEARNT:
            return 0
        return get(w, walk.SUCCESSOR)

    kernels.PARTS[kernels.LEARN_PART] = lambda: learn_part.address

call_learn = compiled.for_python(learn)
call_intern = compiled.for_python(intern)
call_is_harmless = compiled.for_python(is_harmless)
call_window_move = compiled.for_python(window_move)
call_fuse = compiled.for_python(fuse)
