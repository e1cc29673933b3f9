"""Native code that counts by calling context, while a program runs.

Imports the kernel only. `context_hook` stands where the kernel calls its hashing routine: an
operation that carries the table number `NOTE_TABLE` is a *note* of what the program does, any
other one counts in a hash table, which is done here, too, so that what it executes is known by
context.

Terms
-----
context
    A routine with the calls that led to it: a node of the calling context tree (Ammons, Ball and
    Larus 1997). Context 0 stands for what is above all others: where the program began, or
    everything outside a window.
site
    The address of the call instruction, or `SIGNALLED` or `LANDED`. A routine that another one
    enters by a jump (a tail call) hangs below that one, at the address of the jump.
window
    Counting goes on in contexts below a call of one routine only, and for so many calls of it.
"""

from __future__ import annotations

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import STRIDE, VALUE, bump, get, put

NOTE_TABLE = 1 << 29  # the table number of notes

# Notes, the keys of their operations: a kind, and a value above its bits.
# BEGUN: an activation of a routine has begun. PUSHED: a frame was pushed by the call at an address.
# ENDED_SEGMENT: of a transition of the segment automaton; LEFT: so, and the activation is complete.
BEGUN, PUSHED, ENDED_SEGMENT, LEFT = range(4)
KIND_BITS = 2

# Words of the array at NOTES_POINTER.
# USED, LIMIT: contexts. TREE: whether these are distinguished; else there are 0 and 1: outside and
# inside a window. WINDOW: the routine + 1; 0 where there is no window. CALLS_LEFT: how many of its
# calls are still to be counted.
USED, LIMIT, TREE, WINDOW, CALLS_LEFT = range(5)
# Addresses of the arrays. SITES: transition -> address of the instruction by which it leaves its
# routine. CHILDREN has keyed rows (context + 1, site, routine) -> context to which a call leads,
# and COUNTS (context + 1, token, 0) -> how often.
FRAMES, CONTEXTS, CHILDREN, COUNTS, SITES = range(5, 10)
# COUNTED, STEPS: rows of COUNTS and CHILDREN in use. MORE_CALLBACK: void(int64, int64, int64),
# which makes room.
CHILD_ROWS, COUNT_ROWS, COUNTED, MORE_CALLBACK, STEPS = range(10, 15)
WORDS = 16

# Words of a frame.
CONTEXT, LIFE, SITE = range(3)
FRAME = 4

# Lives: what has become of the activation in a frame, from which follows how the next one begins
# there.
# COMPLETE: it has left by its EXIT; SITE says from where. ENDED: early, or by a call that does not
# return; where something lands, SITE is the context of what owns the stack. CALLED: nothing has
# begun there yet; SITE says who called.
NOTHING, ALIVE, COMPLETE, ENDED, CALLED = range(5)

# Words of a context.
# LANDINGS: activations that began by a landing, in place of one that ended early. HEAD: the nearest
# context above, or this one, whose routine is none of those above it. A call of one that *is*
# above, recursion, leads to a context below the last head, one for each site: recursion goes no
# deeper, and the same routines are above a context as were in the run. CALLER: the routine that
# calls, or -1.
PARENT, CALL_SITE, ROUTINE, CALLER, CALLS, LANDINGS, HEAD = range(7)
NODE = 8

# Tokens: a kind, and a number above its bits.
# TRANSITION: how often one was taken. HASHING: instructions executed by the hashing routine for a
# table. BEYOND: calls of a routine that have no context, as there are too many.
TRANSITION, HASHING, BEYOND = range(3)
TOKEN_BITS = 2

SIGNALLED = -1  # sites
LANDED = -2


@kernels.jit
def _count_row(base: int, context: int, token: int) -> int:
    """Address of the row of COUNTS for a context and a token, or of the free row for it."""
    return kernels.find_row(get(base, COUNTS), get(base, COUNT_ROWS), context + 1, token, 0)


@kernels.jit
def add(base: int, context: int, token: int, amount: int) -> None:
    """Count `token` in a context."""
    at = _count_row(base, context, token)
    if get(at, 0) == 0:
        if 2 * get(base, COUNTED) >= get(base, COUNT_ROWS):
            kernels.call_part(get(base, MORE_CALLBACK), 0, 0, 0)
            at = _count_row(base, context, token)
        put(at, 0, context + 1)
        put(at, 1, token)
        bump(base, COUNTED, 1)
    bump(at, VALUE, amount)


@kernels.jit
def _child_row(base: int, parent: int, site: int, routine: int) -> int:
    """Address of the row of CHILDREN for a step, or of the free row for it."""
    return kernels.find_row(get(base, CHILDREN), get(base, CHILD_ROWS), parent + 1, site, routine)


@kernels.jit
def _is_above(base: int, context: int, routine: int) -> bool:
    """Whether a context is one of `routine`, or below one."""
    while context != 0:
        node = get(base, CONTEXTS) + 8 * NODE * context
        if get(node, ROUTINE) == routine:
            return True
        context = get(node, PARENT)
    return False


@kernels.jit
def _make(base: int, parent: int, site: int, routine: int, is_new: bool, caller: int) -> int:
    """Make a context; -1 where there is no room for it. `is_new`: its routine is not above it."""
    context = get(base, USED)
    if context >= get(base, LIMIT):
        return -1
    node = get(base, CONTEXTS) + 8 * NODE * context
    put(node, PARENT, parent)
    put(node, CALL_SITE, site)
    put(node, ROUTINE, routine)
    put(node, HEAD, context if is_new else parent)
    put(node, CALLER, caller)
    put(base, USED, context + 1)
    return context


@kernels.jit
def _put_step(base: int, parent: int, site: int, routine: int, context: int) -> None:
    """Note to which context a call leads."""
    at = _child_row(base, parent, site, routine)
    put(at, 0, parent + 1)
    put(at, 1, site)
    put(at, 2, routine)
    put(at, VALUE, context)
    bump(base, STEPS, 1)


@kernels.jit
def _child(base: int, parent: int, site: int, routine: int) -> int:
    """Context of `routine` called at `site` in another one; -1 where there is no room for it."""
    at = _child_row(base, parent, site, routine)
    if get(at, 0) != 0:
        return get(at, VALUE)
    if 2 * get(base, STEPS) + 4 >= get(base, CHILD_ROWS):
        kernels.call_part(get(base, MORE_CALLBACK), 0, 0, 0)
    caller = -1
    if parent != 0:
        caller = get(get(base, CONTEXTS) + 8 * NODE * parent, ROUTINE)
    if not _is_above(base, parent, routine):
        context = _make(base, parent, site, routine, True, caller)
    else:
        head = get(get(base, CONTEXTS) + 8 * NODE * parent, HEAD)
        at = _child_row(base, head, site, routine)
        if get(at, 0) != 0:
            context = get(at, VALUE)
        else:
            context = _make(base, head, site, routine, False, caller)
            if context >= 0 and head != parent:
                _put_step(base, head, site, routine, context)
    if context >= 0:
        _put_step(base, parent, site, routine, context)
    return context


@kernels.jit
def _enter(base: int, parent: int, site: int, routine: int, word: int) -> int:
    """Return the context of a new activation of `routine`, and count it in word `word` there."""
    if parent == 0 and get(base, WINDOW) != 0:
        is_call = site != LANDED and get(base, WINDOW) == routine + 1
        if not is_call or get(base, CALLS_LEFT) == 0:
            return 0
        bump(base, CALLS_LEFT, -1)
        if get(base, TREE) == 0:
            return 1
    if get(base, TREE) == 0:
        return parent
    context = _child(base, parent, site, routine)
    if context < 0:
        add(base, parent, routine << TOKEN_BITS | BEYOND, 1)
        return parent
    node = get(base, CONTEXTS) + 8 * NODE * context
    bump(node, word, 1)
    return context


@kernels.jit
def _land(base: int, old: int, owner: int, routine: int) -> int:
    """Context of an activation that begins where the one in context `old` is gone."""
    # Where it is of another routine, it is below `owner`.
    if old == 0 or get(base, TREE) == 0:
        return old
    node = get(base, CONTEXTS) + 8 * NODE * old
    if get(node, ROUTINE) == routine:
        bump(node, LANDINGS, 1)
        return old
    return _enter(base, owner, LANDED, routine, LANDINGS)


@kernels.jit
def begin(k: int, base: int, routine: int) -> None:
    """Note that an activation of `routine` has begun in the current frame."""
    frame = get(k, kernels.FRAME) // STRIDE
    words = get(base, FRAMES) + 8 * FRAME * frame
    life = get(words, LIFE)
    if life == COMPLETE:
        context = _enter(base, get(words, CONTEXT), get(words, SITE), routine, CALLS)
    elif life in (ENDED, ALIVE):
        context = _land(base, get(words, CONTEXT), get(words, SITE), routine)
    else:
        site = get(words, SITE)
        caller = words
        while frame > 0:
            frame -= 1
            caller -= 8 * FRAME
            if get(caller, LIFE) != NOTHING and get(caller, LIFE) != CALLED:
                break
        parent = get(caller, CONTEXT) if caller != words else 0
        context = _enter(base, parent, site, routine, CALLS)
    put(words, CONTEXT, context)
    put(words, LIFE, ALIVE)


@kernels.jit
def note(k: int, key: int) -> None:
    """Do what an operation with this note asks for."""
    base = get(k, kernels.NOTES_POINTER)
    kind, value = key & (1 << KIND_BITS) - 1, key >> KIND_BITS
    if kind == BEGUN:
        begin(k, base, value)
        return
    words = get(base, FRAMES) + 8 * FRAME * (get(k, kernels.FRAME) // STRIDE)
    if kind == PUSHED:
        put(words, LIFE, CALLED)
        put(words, SITE, value)
        if get(k, kernels.FRAME) != 0 and get(words - 8 * FRAME, LIFE) == COMPLETE:
            put(words - 8 * FRAME, LIFE, ENDED)  # a call behind which no code was to be executed
        return
    add(base, get(words, CONTEXT), value << TOKEN_BITS | TRANSITION, 1)
    if kind == LEFT:
        put(words, LIFE, COMPLETE)
        put(words, SITE, get(get(base, SITES), value))


@kernels.jit
def count_in_table(k: int, at: int) -> None:
    """Do what the hashing routine does, and note what it executes in the current context."""
    # Nothing is counted outside a window.
    base = get(k, kernels.NOTES_POINTER)
    words = get(base, FRAMES) + 8 * FRAME * (get(k, kernels.FRAME) // STRIDE)
    context = get(words, CONTEXT)
    if context == 0 and get(base, WINDOW) != 0:
        return
    table = get(at, 0) >> kernels.TABLE_SHIFT
    header = get(k, kernels.TABLES_POINTER) + 8 * kernels.TABLE_WORDS * table
    costs = get(k, kernels.COSTS_POINTER) + 8 * get(header, kernels.TABLE_COSTS)
    remembered = get(header, kernels.TABLE_REMEMBERED)
    before = get(header, kernels.TABLE_INSTRUCTIONS)
    kernels.hashed_count(k, at)
    put(at, 2, get(at, 2) & 0xFFFFFFFF)  # else the kernel would count there without this routine
    times = get(header, kernels.TABLE_REMEMBERED) - remembered
    spent = get(header, kernels.TABLE_INSTRUCTIONS) - before
    spent += times * get(costs, kernels.COST_REMEMBERED)
    add(base, context, table << TOKEN_BITS | HASHING, spent)


if not kernels.PLAIN:

    @kernels.hook_part
    def context_hook(k: int, at: int, unused: int) -> None:
        """`note` or `count_in_table`, where the kernel calls its hashing routine."""
        if get(at, 0) >> kernels.TABLE_SHIFT == NOTE_TABLE:
            note(k, get(at, 1))
        else:
            count_in_table(k, at)


def part() -> int:
    """Return the address of `context_hook`, for the clock's HASH_PART."""
    return 1 if kernels.PLAIN else int(context_hook.address)
