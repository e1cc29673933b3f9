"""The fixpoint of `exploration`: blocks are followed and routines found to return.

Steps -> functions: everything that is known to be entered (`_begin`), blocks one after the other
(`_follow_blocks`: `_visit`, `_transfer`), the targets of an indirect jump that was resolved
(`_follow_jump`), and code that nobody has claimed (`_settle`). In between `exploration` resolves
jumps.
"""

# These functions are Python's, and are also machine code: they use integers and the arrays of a
# `State` only.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simprof.profiler.recovery.idioms import ending_trap, is_prologue, is_restore, return_point
from simprof.simulator.cpu import compiled

# -- What exploration knows of a program
#
# By word (`State.at`), by routine (`State.routine`), and lists whose lengths are in `State.counts`.
# -1 stands for "none", where nothing else is said. Word indices and routine numbers are those of
# `code_image` and `routines`.

Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Table = npt.NDArray[np.int32]  # of two dimensions

# Rows of `State.at`. In those with (+1), 0 stands for none and 1 for number 0: rows of zeros cost
# no memory where there is no code.
#
# OWNER: see `routines`
# LEADER (+1), ENTRY (+1): routine in which a block starts here; routine that is entered here
# FALL, TAKEN, RETURN (+1): `exploration.Flow`, of the word that ends a block
# NO_RETURN (+1): routine of a call or trap behind which nothing executes
# POINT: where a call that waits for its callee will go on
# NEXT_CALL (+1): the next call that waits for the same callee
OWNER, LEADER, ENTRY, FALL, TAKEN, RETURN, FLAGS, NO_RETURN, POINT, NEXT_CALL, AT_ROWS = range(11)
# Bits of FLAGS.
HAS_SLOT = 1
SLOT_BLOCK = 2
LEAVES = 4
KNOWN = 8  # where control goes from here has been found
SYMBOL = 16  # a function symbol starts here
DEFERRED = 32  # late code
RETURNS = 64  # a run has shown that the call or trap here returns
REASON = 256  # times why we refuse to follow the transfer: one of `REASONS`
# Columns of `State.routine`.
START, COVERED, RETURNING, LEADERS, FIRST_CALL, LAST_CALL, FIRST_CALLER, LAST_CALLER = range(8)
ROUTINE_COLUMNS = 8
# Words of `State.counts`.
WORK, CALLERS, UNSETTLED, JUMPS, TRAPS, LEFT, ROUTINES, STALE, IS64, COUNTS = range(10)

# Commands (`exploration_kernel.obey`), and what is said of an indirect jump.
BEGIN, FOLLOW_BLOCKS, FOLLOW_JUMP, SETTLE = range(4)
JUMP_RETURNS, JUMP_LEAVES = 1, 2

NOBODY = -1
NO_CODE = -2

# Reasons.
GOES_NOWHERE, SLOT_OUTSIDE, COUPLE, COMPARES = range(1, 5)

# Kinds of transfers (`simprof.simulator.isa.decode.TransferKind`).
NONE, BRANCH, BRANCH_ALWAYS, BRANCH_NEVER, CALL, INDIRECT_CALL, JUMP, RETURN_JUMP = range(8)
WINDOW_RETURN, JUMP_AND_LINK, TRAP_ALWAYS = range(8, 11)
COMPARE_BRANCH, TRAP_RETURN, RETURN_FROM_TRAP = 12, 13, 15


class State(NamedTuple):
    """What exploration knows."""

    # words, kinds, annulled, targets, next_end: the code image: see `code_image.CodeLists`.
    words: Words
    kinds: Bytes
    annulled: Bools
    targets: Ints
    next_end: Ints
    at: Table  # by OWNER and what follows, then by word
    # By routine: START and what follows. COVERED and RETURNING are 0 or 1, LEADERS is a number;
    # FIRST_CALL and LAST_CALL are calls that wait, FIRST_CALLER and LAST_CALLER rows of `callers`.
    routine: Table
    work: Table  # (word, routine): blocks that are still to be followed
    # (routine that passes control for good, the next row): lists, by the routine entered.
    callers: Table
    # (word, routine, source): control passes to a word, but it is unclear whose that is.
    unsettled: Table
    jumps: Table  # (indirect jump, routine), as they were met
    traps: Table  # (trap that ends the program, routine, word that shows it)
    left: Table  # (word, routine, call): where a call returned outside of its routine
    # The lengths of these lists, then the number of routines, and whether all is `STALE`.
    counts: Longs


def _wide(value: Any) -> int:
    """Widen an element of an array, so that functions are compiled for one kind of integer."""
    return int(value) + 0


def _owner(s: State, index: int) -> int:
    if index < 0 or index >= len(s.words):
        return NO_CODE
    return _wide(s.at[OWNER, index])


def _append(s: State, length: int, rows: Table, first: int, second: int, third: int) -> None:
    """Append a row to the list `rows`, whose length is in `counts`."""
    # There is room for all blocks that are due (`exploration._ROOM`), and for all others, unless
    # `STALE` is set: then nothing that is found counts any more.
    last = s.counts[length]
    if last < len(rows):
        rows[last, 0], rows[last, 1] = first, second
        if rows.shape[1] == 3:
            rows[last, 2] = third
        s.counts[length] = last + 1


def _refuse(s: State, index: int, reason: int) -> None:
    s.at[FLAGS, index] = s.at[FLAGS, index] % REASON + reason * REASON


# -- entering code


def _enter(s: State, number: int, index: int) -> None:
    if s.at[ENTRY, index] != number + 1:
        s.at[ENTRY, index] = number + 1
        _append(s, WORK, s.work, index, number, -1)


def _enter_at(s: State, index: int, starts: bool) -> int:
    """Enter whatever owns word `index`; return its number or NO_CODE."""
    # `starts` says that a routine starts there, if no symbol knows better.
    owner = _owner(s, index)
    if owner == NO_CODE:
        return NO_CODE
    inside = owner >= 0 and not s.routine[owner, COVERED] and s.routine[owner, START] != index
    if owner == NOBODY or (starts and inside):
        owner = _split(s, index, owner)
    _enter(s, owner, index)
    return owner


def _split(s: State, index: int, owner: int) -> int:
    """Start a synthetic routine at word `index`, which `owner` has had; return its number."""
    number = int(s.counts[ROUTINES])
    s.counts[ROUTINES] = number + 1
    s.routine[number, START] = index
    for column in range(START + 1, ROUTINE_COLUMNS):
        s.routine[number, column] = 0 if column <= LEADERS else -1
    end = index
    while end < len(s.words) and s.at[OWNER, end] == owner:
        s.at[OWNER, end] = number
        end += 1
    if owner >= 0 and _has_reached(s, owner, index, end):
        s.counts[STALE] = 1
    return number


def _has_reached(s: State, owner: int, start: int, end: int) -> bool:
    """Whether routine `owner` has reached, or is about to reach, into the words of a new one."""
    for index in range(start, end):
        if s.at[LEADER, index] == owner + 1:
            return True
    for position in range(s.counts[WORK]):
        if s.work[position, 1] == owner and start <= s.work[position, 0] < end:
            return True
    index = start - 1
    while index >= 0 and _wide(s.next_end[index]) >= start - 1:
        if s.at[LEADER, index] == owner + 1 and _wide(s.next_end[index]) + 1 < end:
            return True
        index -= 1
    return False


# -- leaving routines


def _flow_to(s: State, number: int, index: int, source: int) -> int:
    """Go to word `index`: return it if it is in the routine, else leave and return -1."""
    if _owner(s, index) == number:
        _append(s, WORK, s.work, index, number, -1)
        return index
    s.at[FLAGS, source] |= LEAVES
    _leave(s, number, index, source)
    return -1


def _leave(s: State, number: int, index: int, source: int) -> None:
    """Control passes for good to word `index` of another routine, or of none."""
    # Where no symbol says whose code that is, and its owner has not reached it, it may still.
    owner = _owner(s, index)
    prologue = is_prologue(s.words, index)
    if owner < 0 or prologue or s.routine[owner, COVERED] or s.at[LEADER, index] == owner + 1:
        _pass_to(s, number, index, source, prologue)
    else:
        _append(s, UNSETTLED, s.unsettled, index, number, source)


def _pass_to(s: State, number: int, index: int, source: int, starts: bool) -> None:
    other = _enter_at(s, index, starts)
    if other == NO_CODE:
        target = _wide(s.targets[source])
        if target < 0 or not s.at[FLAGS, target] & DEFERRED:
            _refuse(s, source, GOES_NOWHERE)
        _mark_returning(s, number)
    elif s.routine[other, RETURNING]:
        _mark_returning(s, number)
    else:
        _add_caller(s, other, number)


def _add_caller(s: State, callee: int, caller: int) -> None:
    """Let `caller` return when `callee` is found to: it has passed control to it for good."""
    row = s.counts[CALLERS]
    if 2 * row + 2 > len(s.callers):
        return
    s.counts[CALLERS] = row + 1
    s.callers[row, 0] = caller
    s.callers[row, 1] = -1
    last = s.routine[callee, LAST_CALLER]
    if last < 0:
        s.routine[callee, FIRST_CALLER] = row
    else:
        s.callers[last, 1] = row
    s.routine[callee, LAST_CALLER] = row


def _mark_returning(s: State, number: int) -> None:
    """Routine `number` returns: so do those that pass control to it, and calls of all these."""
    first = s.counts[CALLERS]  # the rows behind the lists serve as the stack
    s.callers[first, 0] = number
    depth = 1
    while depth:
        depth -= 1
        routine = _wide(s.callers[first + depth, 0])
        if s.routine[routine, RETURNING]:
            continue
        s.routine[routine, RETURNING] = 1
        call = _wide(s.routine[routine, FIRST_CALL])
        while call >= 0:
            _resume(s, s.at[NO_RETURN, call] - 1, call, _wide(s.at[POINT, call]))
            call = s.at[NEXT_CALL, call] - 1
        row = _wide(s.routine[routine, FIRST_CALLER])
        while row >= 0:
            s.callers[first + depth, 0] = s.callers[row, 0]
            depth += 1
            row = _wide(s.callers[row, 1])


def _resume(s: State, number: int, call: int, point: int) -> None:
    """The callee of `call` returns: go on at `point`, unless that is not this routine."""
    if _owner(s, point) == number:
        s.at[RETURN, call] = point + 1
        s.at[NO_RETURN, call] = 0
        _append(s, WORK, s.work, point, number, -1)
    elif s.at[FLAGS, call] & RETURNS:
        s.at[FLAGS, call] |= LEAVES
        s.at[NO_RETURN, call] = 0
        _append(s, LEFT, s.left, point, number, call)


# -- blocks


def _visit(s: State, index: int, number: int) -> None:
    if s.at[LEADER, index] == number + 1:
        return
    s.at[LEADER, index] = number + 1
    s.routine[number, LEADERS] += 1
    last = _wide(s.next_end[index])
    owner = _owner(s, index)
    end = index + 1
    while end <= last and _owner(s, end) == owner:
        end += 1
    if end <= last:
        _leave(s, number, end, end - 1)
    elif not s.at[FLAGS, last] & KNOWN:
        s.at[FLAGS, last] |= KNOWN
        _transfer(s, last, number)


def _has_delay_slot(kind: int) -> bool:
    return BRANCH <= kind <= JUMP_AND_LINK or kind == RETURN_FROM_TRAP


def _transfer(s: State, at: int, number: int) -> None:
    """Follow the instruction `at`, which ends a block of routine `number`."""
    kind = _wide(s.kinds[at])
    if _has_delay_slot(kind) and not _take_slot(s, at, number):
        return
    if BRANCH <= kind <= BRANCH_NEVER:
        _branch(s, at, number)
    elif kind in (CALL, INDIRECT_CALL, JUMP_AND_LINK):
        _call(s, at, number)
    elif kind == TRAP_ALWAYS:
        _trap(s, at, number)
    elif kind == JUMP:
        _append(s, JUMPS, s.jumps, at, number, -1)
    else:
        s.at[FLAGS, at] |= LEAVES
        if kind in (WINDOW_RETURN, RETURN_JUMP):
            _mark_returning(s, number)
        elif kind == COMPARE_BRANCH:
            _refuse(s, at, COMPARES)


def _take_slot(s: State, at: int, number: int) -> bool:
    """Note to which block the delay slot belongs; return whether it is one we can follow."""
    if s.annulled[at] and s.kinds[at] != BRANCH:
        return True
    flag = SLOT_BLOCK if s.annulled[at] else HAS_SLOT
    outside = _owner(s, at + 1) == NO_CODE
    if not outside:
        kind = _wide(s.kinds[at + 1])
        if not (_has_delay_slot(kind) or kind in (COMPARE_BRANCH, TRAP_RETURN)):
            s.at[FLAGS, at] |= flag
            return True
    _refuse(s, at, SLOT_OUTSIDE if outside else COUPLE)
    s.at[FLAGS, at] |= LEAVES
    if flag == HAS_SLOT and not outside:
        s.at[FLAGS, at] |= HAS_SLOT
    _mark_returning(s, number)
    return False


def _branch(s: State, at: int, number: int) -> None:
    kind, target = _wide(s.kinds[at]), _wide(s.targets[at])
    if kind == BRANCH_NEVER:
        s.at[FALL, at] = _flow_to(s, number, at + 2, at) + 1
        return
    if kind == BRANCH and (target != at + 2 or s.at[FLAGS, at] & SLOT_BLOCK):
        s.at[FALL, at] = _flow_to(s, number, at + 2, at) + 1
    if target < 0 or _is_tail_call(s, at, number, target):
        s.at[FLAGS, at] |= LEAVES
        _leave(s, number, target, at)
    else:
        s.at[TAKEN, at] = _flow_to(s, number, target, at) + 1


def _is_tail_call(s: State, at: int, number: int, target: int) -> bool:
    """Whether a jump to `target`, which seems to be inside the routine, is a call."""
    # It is one to the routine's own start after popping the window: a new activation. Where no
    # symbol says how far the routine reaches, another prologue says that it has ended.
    if _owner(s, target) != number:
        return False
    if s.routine[number, START] == target:
        return bool(s.at[FLAGS, at] & HAS_SLOT) and is_restore(s.words[at + 1])
    return not s.routine[number, COVERED] and is_prologue(s.words, target)


def _call(s: State, at: int, number: int) -> None:
    kind = _wide(s.kinds[at])
    target = _wide(s.targets[at]) if kind == CALL else -1
    if kind == CALL and target == at + 2 and not s.at[FLAGS, target] & SYMBOL:
        s.at[TAKEN, at] = _flow_to(s, number, target, at) + 1
        return
    point = return_point(s.words, s.kinds[:], at, s.counts[IS64] != 0)
    if point < 0:
        s.at[FLAGS, at] |= LEAVES
        if kind == CALL:
            _leave(s, number, target, at)
        else:
            _mark_returning(s, number)
        return
    s.at[NO_RETURN, at] = number + 1
    callee = _enter_at(s, target, True) if target >= 0 else NO_CODE
    returns = callee == NO_CODE or (s.at[FLAGS, at] & RETURNS) != 0
    if returns or s.routine[callee, RETURNING] != 0:
        _resume(s, number, at, point)
        return
    s.at[POINT, at] = point
    last = s.routine[callee, LAST_CALL]
    if last < 0:
        s.routine[callee, FIRST_CALL] = at
    else:
        s.at[NEXT_CALL, last] = at + 1
    s.routine[callee, LAST_CALL] = at


# -- traps


def _trap(s: State, at: int, number: int) -> None:
    setter = ending_trap(s.words, s.kinds[:], at, s.counts[IS64] != 0)
    if setter is None or s.at[FLAGS, at] & RETURNS:
        s.at[FALL, at] = _flow_to(s, number, at + 1, at) + 1
        return
    _append(s, TRAPS, s.traps, at, number, setter)
    s.at[NO_RETURN, at] = number + 1


def _recheck_traps(s: State) -> bool:
    """A leader between the system call and its number: other numbers are possible."""
    kept = 0
    for position in range(s.counts[TRAPS]):
        at, number = _wide(s.traps[position, 0]), _wide(s.traps[position, 1])
        setter = _wide(s.traps[position, 2])
        returns = setter > 0 and _has_delay_slot(_wide(s.kinds[setter - 1]))
        for index in range(setter + 1, at + 1):
            returns |= s.at[LEADER, index] == number + 1
        if returns:
            s.at[NO_RETURN, at] = 0
            s.at[FALL, at] = _flow_to(s, number, at + 1, at) + 1
        else:
            for column in range(3):
                s.traps[kept, column] = s.traps[position, column]
            kept += 1
    changed = bool(kept < s.counts[TRAPS])
    s.counts[TRAPS] = kept
    return changed


# -- commands


def _begin(s: State, entries: Longs) -> None:
    """Enter all routines, then words where a run has entered code."""
    for number in range(s.counts[ROUTINES]):
        _enter(s, number, _wide(s.routine[number, START]))
    for index in entries:
        _enter_at(s, index, is_prologue(s.words, index))


def _follow_blocks(s: State) -> None:
    """Follow all blocks, until nothing is left but indirect jumps."""
    while True:
        while s.counts[WORK] or s.counts[LEFT]:
            if s.counts[WORK]:
                top = s.counts[WORK] - 1
                s.counts[WORK] = top
                _visit(s, _wide(s.work[top, 0]), _wide(s.work[top, 1]))
            else:
                top = s.counts[LEFT] - 1
                s.counts[LEFT] = top
                number, source = _wide(s.left[top, 1]), _wide(s.left[top, 2])
                _leave(s, number, _wide(s.left[top, 0]), source)
        if s.counts[STALE] or not _recheck_traps(s):
            return


def _follow_jump(s: State, jump: int, number: int, flags: int, targets: Longs) -> None:
    """Go where the indirect jump of routine `number` can go."""
    # `flags`: JUMP_RETURNS where the routine may return by it, JUMP_LEAVES where the jump may leave
    # the routine.
    # `targets`: Word indices; those that are not within the routine are replaced by -1.
    if flags & JUMP_LEAVES:
        s.at[FLAGS, jump] |= LEAVES
    if flags & JUMP_RETURNS:
        _mark_returning(s, number)
    for position in range(len(targets)):
        target = targets[position]
        if _is_tail_call(s, jump, number, target):
            s.at[FLAGS, jump] |= LEAVES
            _leave(s, number, target, jump)
            targets[position] = -1
        else:
            targets[position] = _flow_to(s, number, target, jump)


def _settle(s: State, leaves: Longs) -> bool:
    """Pass on what left for code that its owner has not reached: a routine starts there."""
    # So does one at each of `leaves`, where a run has entered code that has no window, if its owner
    # has one. Returns whether there was anything.
    for index in leaves:
        owner = _owner(s, index)
        windowed = owner >= 0 and is_prologue(s.words, _wide(s.routine[owner, START]))
        _enter_at(s, index, windowed and s.at[LEADER, index] != owner + 1)
    waiting = s.counts[UNSETTLED]
    for position in range(waiting):
        index, source = _wide(s.unsettled[position, 0]), _wide(s.unsettled[position, 2])
        starts = s.at[LEADER, index] != _owner(s, index) + 1
        _pass_to(s, _wide(s.unsettled[position, 1]), index, source, starts)
    s.counts[UNSETTLED] = 0
    return bool(waiting + len(leaves) > 0)


@compiled.kernel
def obey(s: State, command: int, jump: int, number: int, flags: int, words: Longs) -> int:
    """Do one step of the exploration; return whether there was anything to settle: 1 or 0."""
    # `command`, `words`: `BEGIN`, with where a run has entered code; `FOLLOW_BLOCKS`;
    # `FOLLOW_JUMP`, with targets, of which those outside of the routine are replaced by -1; or
    # `SETTLE`, with leaf routines (`exploration_kernel`).
    # `jump`, `number`, `flags`: An indirect jump, its routine, and `JUMP_RETURNS` and
    # `JUMP_LEAVES`.
    if command == BEGIN:
        _begin(s, words)
    elif command == FOLLOW_BLOCKS:
        _follow_blocks(s)
    elif command == FOLLOW_JUMP:
        _follow_jump(s, jump, number, flags, words)
    elif command == SETTLE and _settle(s, words):
        return 1
    return 0
