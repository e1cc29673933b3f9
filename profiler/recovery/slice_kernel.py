"""The fixpoint of `slices`, on arrays: what of a routine's blocks its indirect jumps depend on.

Terms
-----
location
    A register, the condition codes, or a frame slot (`symbolic`); here a bit. Bits 1 to 31 are
    registers, bit 32 is the condition codes. From `FIRST_SLOT` on two bits stand for each offset
    that the routine accesses: its slot below %sp, and below %fp.
step
    An instruction of a block, or in its delay slot.
touches
    Of a step: what it gives a name to, though it only reads it. A register of which nothing is
    known becomes an atom when it is used.

Steps -> functions: what each step does to locations (`_describe`); what is needed where a block
starts (`_need`), and from there what is related (`_relate`), which may show a comparison that
counts: again, until there is none; then what must be executed (`_take_part`).
"""

# A mask of locations is a row of words of `BITS` bits, so that they are signed ones of 64 bits.
# These functions are Python's, and are also machine code, as those of `exploration_kernel`.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.recovery.idioms import bit, operands
from simprof.simulator.cpu import compiled

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]  # of two dimensions

BITS = 62  # of a word of a mask
CONDITION = 1 << 32  # the condition codes
FIRST_SLOT = 34
OFFSETS = 1 << 13  # of frame slots: as many as immediates have values
NOWHERE = OFFSETS  # for `Slices.escapes`: no slot of the frame register can be reached by pointers

INTEGER = 0xFFFFFFFE
_GLOBALS, _OUTS, _INS = 0xFE, 0xFF00, 0xFF000000
_SP, _FP, _O7 = 14, 30, 15
_UNKNOWN = (0x28, 0x2A, 0x2C, 0x2D, 0x2E, 0x2F)  # op3 of what has results that are not followed
_WIDEST = 16  # Bytes that a store writes at most
_EVEN = 0x1555555555555555
_TRAP_RESULTS = 1 << 1 | 1 << 8 | 1 << 9
_CALL_RESULTS = _GLOBALS | _OUTS | CONDITION

# Columns of `Slices.block`; blocks are numbered by address, -1 stands for none.
#
# START, END: its words, without its control transfer
# FIRST, DELAY: its first step, and that in its delay slot, if it is executed on one edge at least
# FOLLOW, LAST: what follows, as a part of `Slices.follow`; but for
# RETURN, PAST: where a call returns, and where control goes without the delay slot
# USES, COMPARED: registers that an indirect jump needs, and what a conditional branch compares
# FLAGS: of the bits below
START, END, FIRST, DELAY, FOLLOW, LAST, RETURN, PAST, USES, COMPARED, FLAGS, COLUMNS = range(12)
REACHES = 1  # an indirect jump can be reached from here
LINKS = 2  # its control transfer writes %o7
TRAPS = 4
READS_PC = 8  # it calls what only reads the program counter
COMPARES = 16  # found: its comparison tells of what is needed
DELAYS = 32  # found: its delay slot must be executed

# Rows of `Slices.step`. PLACE: bit of the frame slot, or -1; EXECUTED is what is found.
KIND, WRITES, READS, TOUCHES, PLACE, OFFSET, SIZE, EXECUTED, STEP_ROWS = range(9)
# Kinds: how an instruction changes locations other than those that it names.
NOTHING, PLAIN, FRAME, SAVE, RESTORE, STORE, CLOBBER = range(7)

# Bits of `Slices.forms`, by op3 of loads and stores; the size of a store is above them.
LOADS, ATOMIC, STORE_SIZE = 1, 2, 4

# Rows of `Slices.sets`: slots that pointers surely, and perhaps, reach; and room for masks.
UNSAFE, EXPOSED, MASK, BEFORE, DELAYED, SETS = range(6)

# Commands.
REACH, DESCRIBE, SOLVE = range(3)


class Slices(NamedTuple):
    """A routine as far as it is explored. What holds masks has a column for each of their words."""

    words: Words  # of the code image
    block: Rows
    follow: Longs  # numbers of blocks
    step: Rows
    slots: Longs  # by offset + `OFFSETS` / 2: number of its slots, from 1 on; 0: none
    forms: Longs  # by op3, then by opf of VIS instructions: whether they write an integer register
    escapes: Longs  # lowest offset that pointers reach, below %sp and %fp
    sets: Rows
    needed: Rows  # by block
    related: Rows  # by block
    results: Rows  # by step: what it writes of what is needed


def _field(word: int, shift: int) -> int:
    return word >> shift & 31


def _describe(s: Slices, p: int, index: int) -> None:
    """Say what step `p`, the instruction at word `index`, does."""
    word = int(s.words[index]) + 0
    op = word >> 30
    s.step[PLACE, p] = -1
    if op == 2:
        _describe_arithmetic(s, p, word)
    elif op == 3:
        _describe_access(s, p, word)
    elif op == 0 and word >> 22 & 7 == 4:  # sethi
        _write(s, p, word, 0, 0, 0)


def _write(s: Slices, p: int, word: int, reads: int, touches: int, also: int) -> None:
    register = _field(word, 25)
    writes = bit(register) | also
    if writes | touches:
        kind = FRAME if register in (_SP, _FP) else PLAIN
        _set(s, p, kind, writes, reads, touches)


def _set(s: Slices, p: int, kind: int, writes: int, reads: int, touches: int) -> None:
    s.step[KIND, p], s.step[WRITES, p] = kind, writes
    s.step[READS, p], s.step[TOUCHES, p] = reads, touches


def _describe_arithmetic(s: Slices, p: int, word: int) -> None:
    op3 = word >> 19 & 63
    if op3 < 0x20:  # the ALU; bit 4: sets the condition codes
        function = op3 & 15  # from 8 on: addx, mulx, umul and so on: results unknown
        reads = operands(word) if function < 8 else 0
        touches = reads if function in (0, 2, 4) else 0  # add, or, sub: they name a value
        _write(s, p, word, reads, touches, CONDITION if op3 & 0x10 else 0)
    elif 0x25 <= op3 <= 0x27:  # sll, srl, sra; no constant shift: unknown
        source = bit(_field(word, 14)) if word & 0x2000 else 0
        _write(s, p, word, source, source, 0)
    elif op3 == 0x3C:  # save
        _set(s, p, SAVE, bit(_field(word, 25)), 0, 0)
    elif op3 == 0x3D:  # restore
        _set(s, p, RESTORE, bit(_field(word, 25)), operands(word), 0)
    elif op3 <= 0x24:  # tagged arithmetic, mulscc
        _write(s, p, word, 0, 0, CONDITION)
    elif op3 in _UNKNOWN or (op3 == 0x36 and s.forms[64 + (word >> 5 & 0x1FF)]):
        _write(s, p, word, 0, 0, 0)


def _describe_access(s: Slices, p: int, word: int) -> None:
    op3, base = word >> 19 & 63, _field(word, 14)
    own = bit(_field(word, 25))
    form = int(s.forms[op3]) + 0
    place = -1
    if base in (_SP, _FP) and word & 0x2000 and form & (LOADS | -STORE_SIZE):
        place = _slot(s, p, word, base)
    pair = 1 << (_field(word, 25) | 1) if op3 in (0x03, 0x13) else 0  # ldd, ldda
    if form >= STORE_SIZE:
        if place < 0:
            _set(s, p, CLOBBER, 0, 0, 0)
        else:
            source = own if op3 in (0x04, 0x0E) else 0  # st, stx
            _set(s, p, STORE, 0, source, source)
            s.step[SIZE, p] = form // STORE_SIZE
    elif form & LOADS:
        _write(s, p, word, 0 if place >= 0 else operands(word), 0, pair)
        if place >= 0 and s.step[KIND, p] == NOTHING:
            s.step[KIND, p] = PLAIN
    elif form & ATOMIC or op3 & 0x34 == 0x14:
        _set(s, p, CLOBBER, own if form & ATOMIC else 0, 0, 0)
    elif op3 & 0x30 == 0x10:  # alternate spaces
        _write(s, p, word, 0, 0, pair)
    s.step[PLACE, p] = place


def _slot(s: Slices, p: int, word: int, base: int) -> int:
    """Return the bit of the frame slot that step `p` accesses."""
    offset = ((word & 0x1FFF) ^ 0x1000) - 0x1000  # simm13
    s.step[OFFSET, p] = offset
    at = offset + OFFSETS // 2
    if not s.slots[at]:
        s.slots[OFFSETS] += 1
        s.slots[at] = s.slots[OFFSETS]
    return FIRST_SLOT + 2 * (int(s.slots[at]) - 1) + (1 if base == _FP else 0)


def _frame_slots(w: int, is_fp: bool) -> int:
    """Return the slots below one frame register in word `w` of a mask."""
    below = _EVEN & -(1 << FIRST_SLOT) if w == 0 else _EVEN
    return below << 1 if is_fp else below


def _find_unsafe(s: Slices) -> None:
    """Find the slots that pointers reach."""
    for at in range(OFFSETS):
        if s.slots[at]:
            for frame in range(2):
                lowest = s.escapes[frame]
                if lowest != NOWHERE:
                    place = FIRST_SLOT + 2 * (int(s.slots[at]) - 1) + frame
                    w, own = place // BITS, 1 << place % BITS
                    s.sets[EXPOSED, w] |= own
                    if at - OFFSETS // 2 >= lowest:
                        s.sets[UNSAFE, w] |= own


# -- what a step does to word `w` of a mask


def _place(s: Slices, p: int, w: int) -> int:
    place = int(s.step[PLACE, p]) + 0
    return 1 << place % BITS if place >= 0 and place // BITS == w else 0


def _writes(s: Slices, p: int, w: int) -> int:
    kind = s.step[KIND, p]
    own = int(s.step[WRITES, p]) + 0
    found = own if w == 0 else 0
    if kind == STORE:
        found |= _place(s, p, w)
    elif kind == CLOBBER:
        found |= int(s.sets[UNSAFE, w]) + 0
    elif kind == FRAME:
        if own >> _SP & 1:
            found |= _frame_slots(w, False)
        if own >> _FP & 1:
            found |= _frame_slots(w, True)
    return found


def _reads(s: Slices, p: int, w: int) -> int:
    found = int(s.step[READS, p]) + 0 if w == 0 else 0
    return found if s.step[KIND, p] == STORE else found | _place(s, p, w)


def _touches(s: Slices, p: int, w: int) -> int:
    found = (int(s.step[TOUCHES, p]) + 0 if w == 0 else 0) | _place(s, p, w)
    kind = s.step[KIND, p]
    if kind == CLOBBER:
        return found | int(s.sets[EXPOSED, w])
    if kind == STORE:  # what overlaps it
        middle = int(s.step[OFFSET, p]) + OFFSETS // 2
        frame = (int(s.step[PLACE, p]) - FIRST_SLOT) % 2
        for at in range(max(0, middle - _WIDEST + 1), min(OFFSETS, middle + s.step[SIZE, p])):
            if s.slots[at]:
                place = FIRST_SLOT + 2 * (int(s.slots[at]) - 1) + frame
                if place // BITS == w:
                    found |= 1 << place % BITS
    return found


def _rename(s: Slices, row: int, to_ins: bool) -> None:
    """Make the locations of a mask those after, or before, the register window has moved."""
    for w in range(s.sets.shape[1]):
        mask = int(s.sets[row, w]) + 0
        if to_ins:
            moved = (mask & _frame_slots(w, False)) << 1
            registers = (mask & _OUTS) << 16
        else:
            moved = (mask & _frame_slots(w, True)) >> 1
            registers = (mask & _INS) >> 16
        if w == 0:
            moved |= mask & (_GLOBALS | CONDITION) | registers
        s.sets[row, w] = moved


def _is_empty(s: Slices, row: int) -> bool:
    for w in range(s.sets.shape[1]):  # noqa: SIM110 - no generators in machine code
        if s.sets[row, w]:
            return False
    return True


def _before(s: Slices, p: int, row: int) -> None:
    """Make what is needed after step `p` what is needed before it."""
    kind = s.step[KIND, p]
    if kind == NOTHING:
        return
    is_needed = False
    for w in range(s.sets.shape[1]):
        writes = _writes(s, p, w)
        if s.sets[row, w] & writes:
            is_needed = True
            s.sets[row, w] &= ~writes
    if kind in (SAVE, RESTORE):
        _rename(s, row, kind == RESTORE)
    if is_needed:
        for w in range(s.sets.shape[1]):
            s.sets[row, w] |= _reads(s, p, w)


def _after(s: Slices, p: int, row: int, results: int) -> None:
    """Make what is related before step `p` what is related after it."""
    # `results`: 1 where `Slices.results` has what is needed of its own; 0 where it is in `DELAYED`.
    kind = s.step[KIND, p]
    if kind == NOTHING:
        return
    is_related = False
    for w in range(s.sets.shape[1]):
        if s.sets[row, w] & _reads(s, p, w):
            is_related = True
    for w in range(s.sets.shape[1]):
        s.sets[row, w] &= ~_writes(s, p, w)
    if kind in (SAVE, RESTORE):
        _rename(s, row, kind == SAVE)
    for w in range(s.sets.shape[1]):
        writes = _writes(s, p, w)
        needed = int(s.results[p, w]) if results else int(s.sets[DELAYED, w]) & writes
        s.sets[row, w] = s.sets[row, w] & ~writes | (writes if is_related else needed)


# -- blocks


def _kept(s: Slices, b: int, w: int) -> int:
    """Return what control transfer leaves as it is on the way to what follows."""
    if not s.block[b, FLAGS] & TRAPS:
        return -1
    return ~((_TRAP_RESULTS if w == 0 else 0) | int(s.sets[UNSAFE, w]))


def _left_by_call(s: Slices, b: int, w: int) -> int:
    if s.block[b, FLAGS] & READS_PC:
        return -1
    return ~((_CALL_RESULTS if w == 0 else 0) | int(s.sets[UNSAFE, w]))


def _at_end(s: Slices, b: int, row: int) -> None:
    """Set a mask to what any of the blocks that follow needs, unless it is made anew."""
    back = s.block[b, RETURN]
    for w in range(s.sets.shape[1]):
        mask = 0
        for e in range(s.block[b, FOLLOW], s.block[b, LAST]):
            mask |= int(s.needed[s.follow[e], w])
        mask &= _kept(s, b, w)
        if back >= 0:
            mask |= int(s.needed[back, w]) & _left_by_call(s, b, w)
        s.sets[row, w] = mask


def _before_transfer(s: Slices, b: int, row: int) -> None:
    """Make what is needed behind a block's control transfer what is needed before."""
    delay, past = s.block[b, DELAY], s.block[b, PAST]
    if delay >= 0:
        _before(s, delay, row)
    if past >= 0:
        for w in range(s.sets.shape[1]):
            s.sets[row, w] |= s.needed[past, w]
    if s.block[b, FLAGS] & LINKS:
        s.sets[row, 0] &= ~(1 << _O7)
    s.sets[row, 0] |= s.block[b, USES]


def _need(s: Slices, b: int) -> bool:
    """Find what is needed where a block starts; return whether that is more than was known."""
    _at_end(s, b, MASK)
    _before_transfer(s, b, MASK)
    if _is_empty(s, MASK):
        return False
    first = int(s.block[b, FIRST]) + 0
    for p in range(first + s.block[b, END] - s.block[b, START] - 1, first - 1, -1):
        for w in range(s.sets.shape[1]):
            s.results[p, w] = s.sets[MASK, w] & _writes(s, p, w)
        _before(s, p, MASK)
    is_more = False
    for w in range(s.sets.shape[1]):
        if s.sets[MASK, w] & ~s.needed[b, w]:
            is_more = True
            s.needed[b, w] |= s.sets[MASK, w]
    return is_more


def _relate(s: Slices, b: int) -> int:
    """Find what is related where the blocks start that follow; return 1 where that is more.

    2 is added where the block's comparison now tells of what is needed.
    """
    for w in range(s.sets.shape[1]):
        s.sets[MASK, w] = s.related[b, w] | s.needed[b, w]
    first = int(s.block[b, FIRST]) + 0
    for p in range(first, first + s.block[b, END] - s.block[b, START]):
        _after(s, p, MASK, 1)
    _at_end(s, b, DELAYED)
    back, past, delay = s.block[b, RETURN], s.block[b, PAST], s.block[b, DELAY]
    found = 0
    if s.sets[MASK, 0] & s.block[b, COMPARED] and not s.block[b, FLAGS] & COMPARES:
        is_needed = not _is_empty(s, DELAYED)
        for w in range(s.sets.shape[1]):
            if past >= 0 and s.needed[past, w]:
                is_needed = True
        if is_needed:
            s.block[b, FLAGS] |= COMPARES
            s.block[b, USES] |= s.block[b, COMPARED]
            found = 2
    if s.block[b, FLAGS] & LINKS:
        s.sets[MASK, 0] &= ~(1 << _O7)
    for w in range(s.sets.shape[1]):
        s.sets[BEFORE, w] = s.sets[MASK, w]
    if delay >= 0:
        _after(s, delay, MASK, 0)
    for w in range(s.sets.shape[1]):
        after = int(s.sets[MASK, w]) + 0
        for e in range(s.block[b, FOLLOW], s.block[b, LAST]):
            found |= _add_related(s, s.follow[e], w, after & _kept(s, b, w))
        if past >= 0:
            found |= _add_related(s, past, w, int(s.sets[BEFORE, w]) + 0)
        if back >= 0:
            found |= _add_related(s, back, w, after & _left_by_call(s, b, w))
    return found


def _add_related(s: Slices, b: int, w: int, mask: int) -> int:
    if mask & ~(s.related[b, w] | s.needed[b, w]):
        s.related[b, w] |= mask
        return 1
    return 0


def _is_touched(s: Slices, p: int, row: int) -> bool:
    for w in range(s.sets.shape[1]):
        if s.sets[row, w] & (_writes(s, p, w) | _touches(s, p, w)):
            return True
    return False


def _take_part(s: Slices, b: int) -> None:
    """Find what of a block must be executed."""
    _at_end(s, b, MASK)
    delay = int(s.block[b, DELAY]) + 0
    moves = delay >= 0 and s.step[KIND, delay] in (SAVE, RESTORE)
    if moves or (delay >= 0 and _is_touched(s, delay, MASK)):
        s.block[b, FLAGS] |= DELAYS
    _before_transfer(s, b, MASK)
    first = int(s.block[b, FIRST]) + 0
    for p in range(first + s.block[b, END] - s.block[b, START] - 1, first - 1, -1):
        moves = s.step[KIND, p] in (SAVE, RESTORE)
        if _is_touched(s, p, MASK) or (moves and not _is_empty(s, MASK)):
            s.step[EXECUTED, p] = 1
        _before(s, p, MASK)


def _solve(s: Slices) -> None:
    _find_unsafe(s)
    count = len(s.block)
    found = 2
    while found & 2:
        is_more = True
        while is_more:
            is_more = False
            for b in range(count - 1, -1, -1):
                if s.block[b, FLAGS] & REACHES and _need(s, b):
                    is_more = True
        found = 1
        while found & 1:
            found &= 2
            for b in range(count):
                if s.block[b, FLAGS] & REACHES:
                    found |= _relate(s, b)
    for b in range(count):
        if s.block[b, FLAGS] & REACHES:
            _take_part(s, b)


def _reach(s: Slices) -> None:
    """Find the blocks from which a block that reaches an indirect jump can be reached."""
    is_more = True
    while is_more:
        is_more = False
        for b in range(len(s.block) - 1, -1, -1):
            if not s.block[b, FLAGS] & REACHES and _leads_on(s, b):
                s.block[b, FLAGS] |= REACHES
                is_more = True


def _leads_on(s: Slices, b: int) -> bool:
    for column in (RETURN, PAST):
        to = s.block[b, column]
        if to >= 0 and s.block[to, FLAGS] & REACHES:
            return True
    for e in range(s.block[b, FOLLOW], s.block[b, LAST]):
        if s.block[s.follow[e], FLAGS] & REACHES:
            return True
    return False


@compiled.kernel
def slice_routine(s: Slices, command: int) -> int:
    """Take one step of a slice; return how many offsets of frame slots there are."""
    # `REACH` needs `block` and `follow` alone; `DESCRIBE` all but the last four arrays.
    if command == REACH:
        _reach(s)
    elif command == DESCRIBE:
        for b in range(len(s.block)):
            if s.block[b, FLAGS] & REACHES:
                start, first = int(s.block[b, START]) + 0, int(s.block[b, FIRST]) + 0
                for index in range(start, int(s.block[b, END]) + 0):
                    _describe(s, first + index - start, index)
                if s.block[b, DELAY] >= 0:
                    _describe(s, int(s.block[b, DELAY]) + 0, int(s.block[b, END]) + 1)
    else:
        _solve(s)
    return int(s.slots[OFFSETS]) + 0
