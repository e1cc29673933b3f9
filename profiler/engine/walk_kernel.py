"""Walks the code: what `walk.Walker` says of the steps that programs take all the time, natively.

Imports the kernels only. `walk.Walker` describes how translation blocks are read, and decides what
is rare: where the graphs lack something, or control lands. This module has the same rules on the
arrays of `native_walk`; where it cannot tell it returns False, and Python asks the Walker.

Terms
-----
walk
    An array of words (`WALK_POINTER` of the clock): addresses and sizes of the arrays below, and
    the context of the walk.
context
    Four words, those of `walk.WalkContext`.
step
    A word: its kind (CROSS, PUSH, POP), and above it the edge or the return address.
state
    A row of STATE words for each state of a translation block, by its number / START.
log
    A row of LOG words for each transition that was learnt.

Steps -> functions
------------------
delay slots and annulment (`step`), resolved transfers (`_transfer`), arrivals at leaders
(`_arrive`), calls (`_call`), returns (`_return`), whole blocks (`walk_inside`)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import get, inline, jit, put
from simprof.simulator.cpu import compiled

# Words of a walk.
# Code: PIECES of it, and by piece its address, the address behind it, and the index of its first
# word. By word: its `TransferKind`, annul bit, target, the word itself, the block that starts
# there, and flags (FLAG_*).
PIECES, PIECE_START, PIECE_END, PIECE_FIRST, KIND, ANNULLED, TARGET, CODE, BLOCK_AT, FLAGS = range(
    10
)
# By block: the edges of `GraphIndex`, its address, the address behind it, and whether a jump to it
# may enter its routine (`native_walk`).
ENTRY_EDGE, EXIT_EDGE, SLOT_EDGE, RETURN_EDGE, BLOCK_START, BLOCK_END, IS_ENTERED = range(10, 17)
# Edges between blocks by source: those of block b are `OUT_EDGES[OUT_FIRST[b]:OUT_FIRST[b + 1]]`.
# Call-return edges by target: RETURNS, their targets, and how many there are.
OUT_FIRST, OUT_EDGES, EDGE_SOURCE, EDGE_TARGET, EDGE_KIND = range(17, 22)
RETURNS, RETURNS_TO, RETURN_COUNT = range(22, 25)
# LISTS: by edge, the place of its operations in POOL << COUNT_BITS | how many these are; -1 before
# its routine has been lowered. 0: no edge has any. SITES: by word of code, the call that returns
# there, of runs that count by calling context (`context_kernel`); else 0.
LISTS, POOL, SITES = range(25, 28)
# States, and the keyed rows by which they are found; steps; the log. Behind each, what of it is
# used (states: of the keyed rows) and how much there is.
STATES, STATE_ROOM, TABLE, TABLE_USED, TABLE_ROWS = range(28, 33)
STEPS, STEPS_USED, STEPS_ROOM, LOG, LOG_USED, LOG_ROOM = range(33, 39)
# IS_ON: whether transitions are learnt here. SPILLS, FILLS: operations that only move a window.
# HAS_SILENCE: whether some blocks raise no events. UNLOWERED: an edge whose routine has to be
# lowered. SUCCESSOR: the address of the successor that was made last.
IS_ON, SPILLS, FILLS, HAS_SILENCE, UNLOWERED, SUCCESSOR = range(39, 45)
PENDING, SLOT_SEEN, BLOCK, LAST_AT = range(45, 49)  # the context
WORDS = 49

# Flags of a word of code: its call does not return; it begins a silent block, or one that may
# follow a silent one; its block has other words than the file (`late_block`).
FLAG_NO_RETURN, FLAG_SILENT, FLAG_BEHIND, FLAG_LATE = 1, 2, 4, 8

# Words of a state: its block and the context behind the first instruction; how many steps are
# inside, where they begin (-1: not known yet), and the context behind them; the clock word of the
# window that is moved before it, 0 for none; whether there is such a state.
ADDRESS, SIZE, FIRST_CONTEXT = 0, 1, 2
INSIDE, INSIDE_COUNT, LAST_CONTEXT, MOVE, EXISTS = 6, 7, 8, 12, 13
STATE = 16
CONTEXT = 4  # words of a context
# Words of a transition: its source, the key of the event, its target, its steps behind those inside
# its source, and its first operation.
LOG_SOURCE, LOG_KEY, LOG_TARGET, LOG_FIRST, LOG_COUNT, LOG_OPERATION = range(6)
LOG_ROW = 6

# Steps as words.
CROSS, PUSH, POP = range(3)
KIND_BITS = 2
COUNT_BITS = 16

# Steps that a block and an event may have together: 512 instructions, and what is behind them.
MOST_STEPS = 1100

# `TransferKind`s and `EdgeKind`s (a test compares them).
BRANCH, BRANCH_ALWAYS, BRANCH_NEVER, DIRECT_CALL, INDIRECT_CALL, JUMP = range(1, 7)
RETURN_JUMP, WINDOW_RETURN, JUMP_AND_LINK = range(7, 10)
RETURN_FROM_TRAP = 15
FALL_THROUGH, TAKEN, SWITCH = range(3)

_intrinsic: Callable[[Any], Any] = compiled.intrinsic

if kernels.PLAIN:

    def byte(base: int, place: int) -> int:
        """Element `place` of the array of bytes at `base`."""
        return ctypes.c_uint8.from_address(int(base + place)).value

    def half(base: int, place: int) -> int:
        """Element `place` of the array of 32-bit words at `base`."""
        return ctypes.c_uint32.from_address(int(base + 4 * place)).value

else:

    @_intrinsic
    def byte(context: Any, base: Any, place: Any) -> Any:
        """Element `place` of the array of bytes at `base`."""
        return compiled.element_at(8, is_set=False)

    @_intrinsic
    def half(context: Any, base: Any, place: Any) -> Any:
        """Element `place` of the array of 32-bit words at `base`."""
        return compiled.element_at(32, is_set=False)


# -- Code


@jit
def index(w: int, address: int) -> int:
    """Index of the word of code at an address, -1 where there is none (`WordMap.index`)."""
    low, high = 0, get(w, PIECES)
    while high - low > 1:
        middle = (low + high) >> 1
        if get(get(w, PIECE_START), middle) <= address:
            low = middle
        else:
            high = middle
    start = get(get(w, PIECE_START), low)
    if address < start or address >= get(get(w, PIECE_END), low):
        return -1
    return get(get(w, PIECE_FIRST), low) + ((address - start) >> 2)


@jit
def _kind(w: int, address: int) -> int:
    word = index(w, address)
    return 0 if word < 0 else byte(get(w, KIND), word)


@jit
def _annuls(w: int, transfer: int) -> bool:
    return byte(get(w, ANNULLED), index(w, transfer)) != 0


@jit
def target(w: int, transfer: int) -> int:
    """Where a direct transfer leads, -1 where its word does not tell."""
    return get(get(w, TARGET), index(w, transfer))


@jit
def _delays(w: int, address: int) -> bool:
    """Whether the instruction at an address has a delay slot."""
    kind = _kind(w, address)
    return (BRANCH <= kind <= JUMP_AND_LINK) or kind == RETURN_FROM_TRAP


@jit
def has_flag(w: int, address: int, flags: int) -> bool:
    """Whether the word of code at an address has one of some flags."""
    word = index(w, address)
    return word >= 0 and byte(get(w, FLAGS), word) & flags != 0


@jit
def _block_at(w: int, address: int) -> int:
    """Block that starts at an address, -1 for none."""
    word = index(w, address)
    block = 0xFFFFFFFF if word < 0 else half(get(w, BLOCK_AT), word)
    return -1 if block == 0xFFFFFFFF else block


# -- Steps. A function that follows a transfer returns the block that it leads to, -1: Python asks.


@inline
def _add(w: int, kind: int, value: int) -> None:
    used = get(w, STEPS_USED)
    put(get(w, STEPS), used, value << KIND_BITS | kind)
    put(w, STEPS_USED, used + 1)


@jit
def _find(w: int, source: int, target: int, kind: int) -> int:
    """Edge from block to block, of `kind` where there are several; -1: none, -2: Python chooses."""
    edges, found, of_kind, count = get(w, OUT_EDGES), -1, -1, 0
    for place in range(get(get(w, OUT_FIRST), source), get(get(w, OUT_FIRST), source + 1)):
        edge = get(edges, place)
        if get(get(w, EDGE_TARGET), edge) == target:
            found = edge
            count += 1
            if byte(get(w, EDGE_KIND), edge) == kind:
                of_kind = edge
    if count > 1:
        return of_kind if of_kind >= 0 else -2
    return found


@jit
def _leave(w: int, block: int) -> None:
    edge = get(get(w, EXIT_EDGE), block)
    if edge >= 0:
        _add(w, CROSS, edge)


@jit
def _enter(w: int, address: int) -> int:
    target = _block_at(w, address)
    edge = -1 if target < 0 else get(get(w, ENTRY_EDGE), target)
    if edge < 0:
        return -1
    _add(w, CROSS, edge)
    return target


@jit
def _arrive(w: int, block: int, address: int, kind: int) -> int:
    """Go to the block at an address by a direct transfer (`Walker._arrive`)."""
    target = _block_at(w, address)
    edge = -2 if target < 0 else _find(w, block, target, kind)
    if edge == -2:
        return -1
    if edge >= 0:
        _add(w, CROSS, edge)
        return target
    _leave(w, block)
    return _enter(w, address)


@jit
def _call(w: int, block: int, call: int, address: int) -> int:
    edge = get(get(w, RETURN_EDGE), block)
    if edge >= 0:
        _add(w, PUSH, get(get(w, BLOCK_START), get(get(w, EDGE_TARGET), edge)))
    else:
        _leave(w, block)
        if has_flag(w, call, FLAG_NO_RETURN):
            _add(w, PUSH, (call + 8) | kernels.ENDED_BIT)
    return _enter(w, address)


@jit
def _return(w: int, block: int, address: int) -> int:
    _leave(w, block)
    target, count = _block_at(w, address), get(w, RETURN_COUNT)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if get(get(w, RETURNS_TO), middle) < target:
            low = middle + 1
        else:
            high = middle
    while low < count and get(get(w, RETURNS_TO), low) == target:
        edge = get(get(w, RETURNS), low)
        end = get(get(w, BLOCK_END), get(get(w, EDGE_SOURCE), edge))
        if end == address or end == address - 4:
            _add(w, POP, 0)
            _add(w, CROSS, edge)
            return target
        low += 1
    return -1


@jit
def _jump(w: int, block: int, address: int) -> int:
    target = _block_at(w, address)
    edge = -2 if target < 0 else _find(w, block, target, SWITCH)
    if edge >= 0:
        _add(w, CROSS, edge)
        return target
    if edge == -2 or byte(get(w, IS_ENTERED), target) == 0 or get(get(w, EXIT_EDGE), block) < 0:
        return -1
    _leave(w, block)
    return _enter(w, address)


@jit
def _transfer(w: int, transfer: int, block: int, address: int) -> int:
    """Follow a transfer whose delay slot has executed (`Walker._transfer`)."""
    kind, leads_to = _kind(w, transfer), target(w, transfer)
    if BRANCH <= kind <= BRANCH_NEVER:
        if address == leads_to and kind != BRANCH_NEVER:
            return _arrive(w, block, address, TAKEN)
        if address == transfer + 8:
            return _arrive(w, block, address, FALL_THROUGH)
        return -1
    if kind == DIRECT_CALL and address == transfer + 8 and address == leads_to:
        # It only reads the program counter.
        return block if _block_at(w, address) < 0 else _arrive(w, block, address, FALL_THROUGH)
    if kind in (DIRECT_CALL, INDIRECT_CALL, JUMP_AND_LINK):
        return _call(w, block, transfer, address)
    if kind in (WINDOW_RETURN, RETURN_JUMP):
        return _return(w, block, address)
    return _jump(w, block, address) if kind == JUMP else -1


@jit
def step(w: int, address: int) -> bool:
    """Execute the instruction at an address after the context; False: Python asks."""
    pending, block = get(w, PENDING), get(w, BLOCK)
    if block < 0:
        return False
    if pending >= 0 and get(w, SLOT_SEEN) == 0:
        kind = _kind(w, pending)
        if address == pending + 4 and (kind == BRANCH or not _annuls(w, pending)):
            if _delays(w, address):
                return False
            put(w, SLOT_SEEN, 1)
            put(w, LAST_AT, address)
            return True
        if kind == BRANCH_ALWAYS:
            if address != target(w, pending):
                return False
            block = _arrive(w, block, address, TAKEN)
        elif address == pending + 8:
            block = _arrive(w, block, address, FALL_THROUGH)
        else:
            return False
    elif pending >= 0:
        if _annuls(w, pending):
            edge = get(get(w, SLOT_EDGE), block)
            if edge < 0:
                return False
            _add(w, CROSS, edge)
            block = get(get(w, EDGE_TARGET), edge)
        block = _transfer(w, pending, block, address)
    elif address != get(w, LAST_AT) + 4:
        return False
    elif _block_at(w, address) >= 0:
        block = _arrive(w, block, address, FALL_THROUGH)
    if block < 0:
        return False
    put(w, PENDING, address if _delays(w, address) else -1)
    put(w, SLOT_SEEN, 0)
    put(w, BLOCK, block)
    put(w, LAST_AT, address)
    return True


# -- States


@inline
def load(w: int, context: int) -> None:
    """Take the context from four words."""
    for word in range(CONTEXT):
        put(w, PENDING + word, get(context, word))


@inline
def save(w: int, context: int) -> None:
    """Put the context into four words."""
    for word in range(CONTEXT):
        put(context, word, get(w, PENDING + word))


@inline
def row(w: int, state: int) -> int:
    """Address of a state's words."""
    return get(w, STATES) + 8 * STATE * (state // kernels.START)


@jit
def walk_inside(w: int, row: int) -> bool:
    """Find the steps inside the block of the state at address `row`; False: Python asks."""
    first, at = get(w, STEPS_USED), get(row, ADDRESS)
    load(w, row + 8 * FIRST_CONTEXT)
    for place in range(1, get(row, SIZE) >> 2):
        if not step(w, at + 4 * place):
            put(w, STEPS_USED, first)
            return False
    # Calls and returns end blocks. Nothing else than edges is inside one.
    for place in range(first, get(w, STEPS_USED)):
        if get(get(w, STEPS), place) & ((1 << KIND_BITS) - 1) != CROSS:
            put(w, STEPS_USED, first)
            return False
    put(row, INSIDE, first)
    put(row, INSIDE_COUNT, get(w, STEPS_USED) - first)
    save(w, row + 8 * LAST_CONTEXT)
    return True


call_walk_inside = compiled.for_python(walk_inside)
call_step = compiled.for_python(step)
