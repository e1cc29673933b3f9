"""The fixpoint of `exploration`: blocks are followed and routines found to return.

Steps -> functions: everything that is known to be entered (`_begin`), blocks one after the other
(`_follow_blocks`: `_visit`, `_transfer`), the targets of an indirect jump that was resolved
(`_follow_jump`), and code that nobody has claimed (`_settle`). In between `exploration` resolves
jumps.

These functions are Python's, and `exploration_native` compiles them: they use integers and the
arrays of a `State` only.
"""

from __future__ import annotations

from typing import Any

from simprof.profiler.recovery import exploration_state as k
from simprof.profiler.recovery.exploration_state import Numbers, State
from simprof.profiler.recovery.idioms import ending_trap, is_prologue, is_restore, return_point


def _wide(value: Any) -> int:
    """Widen an element of an array, so that functions are compiled for one kind of integer."""
    return int(value) + 0


def _owner(s: State, index: int) -> int:
    if index < 0 or index >= len(s.words):
        return k.NO_CODE
    return _wide(s.at[k.OWNER, index])


def _push(s: State, index: int, number: int) -> None:
    """Follow the block at word `index` later.

    There is room for all that can be pushed (`exploration._ROOM`) unless `STALE` is set: then
    nothing that is found counts any more.
    """
    top = s.counts[k.WORK]
    if top == len(s.work):
        return
    s.work[top, 0] = index
    s.work[top, 1] = number
    s.counts[k.WORK] = top + 1


def _refuse(s: State, index: int, reason: int) -> None:
    s.at[k.FLAGS, index] = s.at[k.FLAGS, index] % k.REASON + reason * k.REASON


# -- entering code


def _enter(s: State, number: int, index: int) -> None:
    if s.at[k.ENTRY, index] != number + 1:
        s.at[k.ENTRY, index] = number + 1
        _push(s, index, number)


def _enter_at(s: State, index: int, starts: bool) -> int:
    """Enter whatever owns word `index`; return its number or NO_CODE.

    `starts` says that a routine starts there, if no symbol knows better.
    """
    owner = _owner(s, index)
    if owner == k.NO_CODE:
        return k.NO_CODE
    inside = owner >= 0 and not s.routine[owner, k.COVERED] and s.routine[owner, k.START] != index
    if owner == k.NOBODY or (starts and inside):
        owner = _split(s, index, owner)
    _enter(s, owner, index)
    return owner


def _split(s: State, index: int, owner: int) -> int:
    """Start a synthetic routine at word `index`, which `owner` has had; return its number."""
    number = int(s.counts[k.ROUTINES])
    s.counts[k.ROUTINES] = number + 1
    s.routine[number, k.START] = index
    for column in range(k.START + 1, k.ROUTINE_COLUMNS):
        s.routine[number, column] = 0 if column <= k.LEADERS else -1
    end = index
    while end < len(s.words) and s.at[k.OWNER, end] == owner:
        s.at[k.OWNER, end] = number
        end += 1
    if owner >= 0 and _has_reached(s, owner, index, end):
        s.counts[k.STALE] = 1
    return number


def _has_reached(s: State, owner: int, start: int, end: int) -> bool:
    """Whether routine `owner` has reached, or is about to reach, into the words of a new one."""
    for index in range(start, end):
        if s.at[k.LEADER, index] == owner + 1:
            return True
    for position in range(s.counts[k.WORK]):
        if s.work[position, 1] == owner and start <= s.work[position, 0] < end:
            return True
    index = start - 1
    while index >= 0 and _wide(s.next_end[index]) >= start - 1:
        if s.at[k.LEADER, index] == owner + 1 and _wide(s.next_end[index]) + 1 < end:
            return True
        index -= 1
    return False


# -- leaving routines


def _flow_to(s: State, number: int, index: int, source: int) -> int:
    """Go to word `index`: return it if it is in the routine, else leave and return -1."""
    if _owner(s, index) == number:
        _push(s, index, number)
        return index
    s.at[k.FLAGS, source] |= k.LEAVES
    _leave(s, number, index, source)
    return -1


def _leave(s: State, number: int, index: int, source: int) -> None:
    """Control passes for good to word `index` of another routine, or of none.

    Where no symbol says whose code that is, and its owner has not reached it, it may still.
    """
    owner = _owner(s, index)
    prologue = is_prologue(s.words, index)
    if owner < 0 or prologue or s.routine[owner, k.COVERED] or s.at[k.LEADER, index] == owner + 1:
        _pass_to(s, number, index, source, prologue)
        return
    last = s.counts[k.UNSETTLED]
    if last < len(s.unsettled):
        s.unsettled[last, 0] = index
        s.unsettled[last, 1] = number
        s.unsettled[last, 2] = source
        s.counts[k.UNSETTLED] = last + 1


def _pass_to(s: State, number: int, index: int, source: int, starts: bool) -> None:
    other = _enter_at(s, index, starts)
    if other == k.NO_CODE:
        target = _wide(s.targets[source])
        if target < 0 or not s.at[k.FLAGS, target] & k.DEFERRED:
            _refuse(s, source, k.GOES_NOWHERE)
        _mark_returning(s, number)
    elif s.routine[other, k.RETURNING]:
        _mark_returning(s, number)
    else:
        _add_caller(s, other, number)


def _add_caller(s: State, callee: int, caller: int) -> None:
    """Let `caller` return when `callee` is found to: it has passed control to it for good."""
    row = s.counts[k.CALLERS]
    if 2 * row + 2 > len(s.callers):
        return
    s.counts[k.CALLERS] = row + 1
    s.callers[row, 0] = caller
    s.callers[row, 1] = -1
    last = s.routine[callee, k.LAST_CALLER]
    if last < 0:
        s.routine[callee, k.FIRST_CALLER] = row
    else:
        s.callers[last, 1] = row
    s.routine[callee, k.LAST_CALLER] = row


def _mark_returning(s: State, number: int) -> None:
    """Routine `number` returns: so do those that pass control to it, and calls of all these."""
    first = s.counts[k.CALLERS]  # the rows behind the lists serve as the stack
    s.callers[first, 0] = number
    depth = 1
    while depth:
        depth -= 1
        routine = _wide(s.callers[first + depth, 0])
        if s.routine[routine, k.RETURNING]:
            continue
        s.routine[routine, k.RETURNING] = 1
        call = _wide(s.routine[routine, k.FIRST_CALL])
        while call >= 0:
            _resume(s, s.at[k.NO_RETURN, call] - 1, call, _wide(s.at[k.POINT, call]))
            call = s.at[k.NEXT_CALL, call] - 1
        row = _wide(s.routine[routine, k.FIRST_CALLER])
        while row >= 0:
            s.callers[first + depth, 0] = s.callers[row, 0]
            depth += 1
            row = _wide(s.callers[row, 1])


def _resume(s: State, number: int, call: int, point: int) -> None:
    """The callee of `call` returns: go on at `point`, unless that is not this routine."""
    if _owner(s, point) == number:
        s.at[k.RETURN, call] = point + 1
        s.at[k.NO_RETURN, call] = 0
        _push(s, point, number)
    elif s.at[k.FLAGS, call] & k.RETURNS:
        s.at[k.FLAGS, call] |= k.LEAVES
        s.at[k.NO_RETURN, call] = 0
        last = s.counts[k.LEFT]
        s.left[last, 0] = point
        s.left[last, 1] = number
        s.left[last, 2] = call
        s.counts[k.LEFT] = last + 1


# -- blocks


def _visit(s: State, index: int, number: int) -> None:
    if s.at[k.LEADER, index] == number + 1:
        return
    s.at[k.LEADER, index] = number + 1
    s.routine[number, k.LEADERS] += 1
    last = _wide(s.next_end[index])
    owner = _owner(s, index)
    end = index + 1
    while end <= last and _owner(s, end) == owner:
        end += 1
    if end <= last:
        _leave(s, number, end, end - 1)
    elif not s.at[k.FLAGS, last] & k.KNOWN:
        s.at[k.FLAGS, last] |= k.KNOWN
        _transfer(s, last, number)


def _has_delay_slot(kind: int) -> bool:
    return k.BRANCH <= kind <= k.JUMP_AND_LINK or kind == k.RETURN_FROM_TRAP


def _transfer(s: State, at: int, number: int) -> None:
    """Follow the instruction `at`, which ends a block of routine `number`."""
    kind = _wide(s.kinds[at])
    if _has_delay_slot(kind) and not _take_slot(s, at, number):
        return
    if k.BRANCH <= kind <= k.BRANCH_NEVER:
        _branch(s, at, number)
    elif kind in (k.CALL, k.INDIRECT_CALL, k.JUMP_AND_LINK):
        _call(s, at, number)
    elif kind == k.TRAP_ALWAYS:
        _trap(s, at, number)
    elif kind == k.JUMP:
        last = s.counts[k.JUMPS]
        s.jumps[last, 0] = at
        s.jumps[last, 1] = number
        s.counts[k.JUMPS] = last + 1
    else:
        s.at[k.FLAGS, at] |= k.LEAVES
        if kind in (k.WINDOW_RETURN, k.RETURN_JUMP):
            _mark_returning(s, number)
        elif kind == k.COMPARE_BRANCH:
            _refuse(s, at, k.COMPARES)


def _take_slot(s: State, at: int, number: int) -> bool:
    """Note to which block the delay slot belongs; return whether it is one we can follow."""
    if s.annulled[at] and s.kinds[at] != k.BRANCH:
        return True
    flag = k.SLOT_BLOCK if s.annulled[at] else k.HAS_SLOT
    outside = _owner(s, at + 1) == k.NO_CODE
    if not outside:
        kind = _wide(s.kinds[at + 1])
        if not (_has_delay_slot(kind) or kind in (k.COMPARE_BRANCH, k.TRAP_RETURN)):
            s.at[k.FLAGS, at] |= flag
            return True
    _refuse(s, at, k.SLOT_OUTSIDE if outside else k.COUPLE)
    s.at[k.FLAGS, at] |= k.LEAVES
    if flag == k.HAS_SLOT and not outside:
        s.at[k.FLAGS, at] |= k.HAS_SLOT
    _mark_returning(s, number)
    return False


def _branch(s: State, at: int, number: int) -> None:
    kind, target = _wide(s.kinds[at]), _wide(s.targets[at])
    if kind == k.BRANCH_NEVER:
        s.at[k.FALL, at] = _flow_to(s, number, at + 2, at) + 1
        return
    if kind == k.BRANCH and (target != at + 2 or s.at[k.FLAGS, at] & k.SLOT_BLOCK):
        s.at[k.FALL, at] = _flow_to(s, number, at + 2, at) + 1
    if target < 0 or _is_tail_call(s, at, number, target):
        s.at[k.FLAGS, at] |= k.LEAVES
        _leave(s, number, target, at)
    else:
        s.at[k.TAKEN, at] = _flow_to(s, number, target, at) + 1


def _is_tail_call(s: State, at: int, number: int, target: int) -> bool:
    """Whether a jump to `target`, which seems to be inside the routine, is a call.

    It is one to the routine's own start after popping the window: a new activation. Where no
    symbol says how far the routine reaches, another prologue says that it has ended.
    """
    if _owner(s, target) != number:
        return False
    if s.routine[number, k.START] == target:
        return bool(s.at[k.FLAGS, at] & k.HAS_SLOT) and is_restore(s.words[at + 1])
    return not s.routine[number, k.COVERED] and is_prologue(s.words, target)


def _call(s: State, at: int, number: int) -> None:
    kind = _wide(s.kinds[at])
    target = _wide(s.targets[at]) if kind == k.CALL else -1
    if kind == k.CALL and target == at + 2 and not s.at[k.FLAGS, target] & k.SYMBOL:
        s.at[k.TAKEN, at] = _flow_to(s, number, target, at) + 1
        return
    point = return_point(s.words, s.kinds[:], at, s.counts[k.IS64] != 0)
    if point < 0:
        s.at[k.FLAGS, at] |= k.LEAVES
        if kind == k.CALL:
            _leave(s, number, target, at)
        else:
            _mark_returning(s, number)
        return
    s.at[k.NO_RETURN, at] = number + 1
    callee = _enter_at(s, target, True) if target >= 0 else k.NO_CODE
    returns = callee == k.NO_CODE or (s.at[k.FLAGS, at] & k.RETURNS) != 0
    if returns or s.routine[callee, k.RETURNING] != 0:
        _resume(s, number, at, point)
        return
    s.at[k.POINT, at] = point
    last = s.routine[callee, k.LAST_CALL]
    if last < 0:
        s.routine[callee, k.FIRST_CALL] = at
    else:
        s.at[k.NEXT_CALL, last] = at + 1
    s.routine[callee, k.LAST_CALL] = at


# -- traps


def _trap(s: State, at: int, number: int) -> None:
    setter = ending_trap(s.words, s.kinds[:], at, s.counts[k.IS64] != 0)
    if setter is None or s.at[k.FLAGS, at] & k.RETURNS:
        s.at[k.FALL, at] = _flow_to(s, number, at + 1, at) + 1
        return
    last = s.counts[k.TRAPS]
    s.traps[last, 0] = at
    s.traps[last, 1] = number
    s.traps[last, 2] = setter
    s.counts[k.TRAPS] = last + 1
    s.at[k.NO_RETURN, at] = number + 1


def _recheck_traps(s: State) -> bool:
    """A leader between the system call and its number: other numbers are possible."""
    kept = 0
    for position in range(s.counts[k.TRAPS]):
        at, number = _wide(s.traps[position, 0]), _wide(s.traps[position, 1])
        setter = _wide(s.traps[position, 2])
        returns = setter > 0 and _has_delay_slot(_wide(s.kinds[setter - 1]))
        for index in range(setter + 1, at + 1):
            returns |= s.at[k.LEADER, index] == number + 1
        if returns:
            s.at[k.NO_RETURN, at] = 0
            s.at[k.FALL, at] = _flow_to(s, number, at + 1, at) + 1
        else:
            for column in range(3):
                s.traps[kept, column] = s.traps[position, column]
            kept += 1
    changed = bool(kept < s.counts[k.TRAPS])
    s.counts[k.TRAPS] = kept
    return changed


# -- commands


def _begin(s: State, entries: Numbers) -> None:
    """Enter all routines, then words where a run has entered code."""
    for number in range(s.counts[k.ROUTINES]):
        _enter(s, number, _wide(s.routine[number, k.START]))
    for index in entries:
        _enter_at(s, index, is_prologue(s.words, index))


def _follow_blocks(s: State) -> None:
    """Follow all blocks, until nothing is left but indirect jumps."""
    while True:
        while s.counts[k.WORK] or s.counts[k.LEFT]:
            if s.counts[k.WORK]:
                top = s.counts[k.WORK] - 1
                s.counts[k.WORK] = top
                _visit(s, _wide(s.work[top, 0]), _wide(s.work[top, 1]))
            else:
                top = s.counts[k.LEFT] - 1
                s.counts[k.LEFT] = top
                number, source = _wide(s.left[top, 1]), _wide(s.left[top, 2])
                _leave(s, number, _wide(s.left[top, 0]), source)
        if s.counts[k.STALE] or not _recheck_traps(s):
            return


def _follow_jump(
    s: State, jump: int, number: int, returns: bool, leaves: bool, targets: Numbers
) -> None:
    """Go where the indirect jump of routine `number` can go.

    `returns`, `leaves`: Whether the routine may return by it, and whether the jump may leave the
    routine. `targets`: Word indices; those that are not within the routine are replaced by -1.
    """
    if leaves:
        s.at[k.FLAGS, jump] |= k.LEAVES
    if returns:
        _mark_returning(s, number)
    for position in range(len(targets)):
        target = targets[position]
        if _is_tail_call(s, jump, number, target):
            s.at[k.FLAGS, jump] |= k.LEAVES
            _leave(s, number, target, jump)
            targets[position] = -1
        else:
            targets[position] = _flow_to(s, number, target, jump)


def _settle(s: State, leaves: Numbers) -> bool:
    """Pass on what left for code that its owner has not reached: a routine starts there.

    So does one at each of `leaves`, where a run has entered code that has no window, if its owner
    has one. Returns whether there was anything.
    """
    for index in leaves:
        owner = _owner(s, index)
        windowed = owner >= 0 and is_prologue(s.words, _wide(s.routine[owner, k.START]))
        _enter_at(s, index, windowed and s.at[k.LEADER, index] != owner + 1)
    waiting = s.counts[k.UNSETTLED]
    for position in range(waiting):
        index, source = _wide(s.unsettled[position, 0]), _wide(s.unsettled[position, 2])
        starts = s.at[k.LEADER, index] != _owner(s, index) + 1
        _pass_to(s, _wide(s.unsettled[position, 1]), index, source, starts)
    s.counts[k.UNSETTLED] = 0
    return bool(waiting + len(leaves) > 0)


def obey(s: State, command: int, jump: int, number: int, flags: int, words: Numbers) -> int:
    """Do one step of the exploration.

    `command`, `words`: `BEGIN`, with where a run has entered code; `FOLLOW_BLOCKS`; `FOLLOW_JUMP`,
    with targets, of which those outside of the routine are replaced by -1; or `SETTLE`, with leaf
    routines (`exploration_state`). `jump`, `number`, `flags`: An indirect jump, its routine, and
    `JUMP_RETURNS` and `JUMP_LEAVES`.

    Returns
    -------
    int
        Whether there was anything to settle: 1 or 0.
    """
    if command == k.BEGIN:
        _begin(s, words)
    elif command == k.FOLLOW_BLOCKS:
        _follow_blocks(s)
    elif command == k.FOLLOW_JUMP:
        returns, leaves = (flags & k.JUMP_RETURNS) != 0, (flags & k.JUMP_LEAVES) != 0
        _follow_jump(s, jump, number, returns, leaves, words)
    elif command == k.SETTLE and _settle(s, words):
        return 1
    return 0
