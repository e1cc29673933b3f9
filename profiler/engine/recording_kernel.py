"""Native code that notes, while a program runs, which stretches of edges its activations cross.

Imports numpy, numba and the kernel only. `note_hook` stands where the kernel calls its hashing
routine; the operations that lead there carry a *note* instead of a path number. Notes become
tokens in a buffer, in the order of the run. When the buffer is full, Python takes it
(`recording`), with `tokens_to_stretches` and `pack` doing the work.

Terms
-----
token
    What the hook appends: a segment has ended (its number is the note's), or one of three that are
    told by `SPECIAL`. Bit `FRESH` says that it is the first one of its activation.
pause
    An activation of a routine waits in the middle of a segment while another of the same routine
    begins. What the two count in one hash table must keep its order, so the place is noted: the
    routine, what the segment register held, and where the call returns to.
drop
    An activation is forgotten whose end nobody saw: code that no graph has took its frame.
stretch
    Edges that one activation crosses from one token to the next. Each routine has a stream of
    them; whichever activation of the routine is the innermost alive goes on with each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import ir

from profiler.engine import kernels
from profiler.engine.kernels import STRIDE, Array, get, put

_types: Any = numba.types
_intrinsic: Callable[[Any], Any] = numba.extending.intrinsic

# Notes, the keys of the kernel's operations.
BEGUN = 0  # an activation of a routine has begun
ENDED_SEGMENT = 1
LEFT = 2  # a segment has ended, and its activation with it
NOTE_BITS = 2
ROUTINE_SHIFT = 34  # the token is between

# Words at the start of the recorder's array, which the kernel's clock has as COSTS_POINTER.
COUNT = 0  # words in the buffer
CAPACITY = 1
FULL_CALLBACK = 2  # void()
BUFFER = 3  # addresses of the arrays
TOPS = 4  # routine -> frame number + 1 of its innermost activation, 0 if none is alive
LINKS = 5  # frame number -> two words: the routine's next one below as in TOPS; OWNER
WORDS = 8

OWNER = 1  # (routine + 1) << 1 | whether the activation has a token; 0 if none is alive there
LINK = 2

# Words of the buffer.
FRESH = 1 << 40
SPECIAL = 1 << 41
PAUSE = 1 << 42  # the routine; behind it the register and the return address
DROP = 1 << 43  # the routine
EARLY = 1 << 44  # a token of an activation that ends early
NUMBER = (1 << 32) - 1
_SLACK = 8


@kernels.inline
def _append(base: int, word: int) -> None:
    count = get(base, COUNT)
    put(get(base, BUFFER), count, word)
    put(base, COUNT, count + 1)


if kernels.PLAIN:

    def _make_room(base: int) -> None:
        raise NotImplementedError("nothing is recorded without numba")

else:

    @_intrinsic
    def _call_back(context: Any, function: Any) -> Any:
        """Call void function() by its address."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [])
            return context.get_dummy_value()

        return _types.void(_types.int64), generate

    @kernels.jit
    def _make_room(base: int) -> None:
        """Have Python empty the buffer where it is nearly full."""
        if get(base, COUNT) + _SLACK > get(base, CAPACITY):
            _call_back(get(base, FULL_CALLBACK))


@kernels.jit
def _forget(base: int, routine: int, lowest: int) -> int:
    """Forget the routine's activations in frames from number `lowest` on; return its top."""
    top = get(get(base, TOPS), routine)
    while top > lowest:
        link = get(base, LINKS) + 8 * LINK * (top - 1)
        if get(link, OWNER) & 1:
            _make_room(base)
            _append(base, SPECIAL | DROP | routine)
        top = get(link, 0)
        put(link, OWNER, 0)
    put(get(base, TOPS), routine, top)
    return top


@kernels.jit
def note_begin(k: int, base: int, routine: int) -> None:
    """Note that the current frame has begun an activation of `routine`."""
    frame = get(k, kernels.FRAME) // STRIDE
    link = get(base, LINKS) + 8 * LINK * frame
    if get(link, OWNER) != 0:
        _forget(base, (get(link, OWNER) >> 1) - 1, frame)
    top = get(get(base, TOPS), routine)
    if top > frame:
        top = _forget(base, routine, frame)
    if top != 0:
        _make_room(base)
        frames = get(k, kernels.FRAMES_POINTER) + 8 * STRIDE * (top - 1)
        below = get(base, LINKS) + 8 * LINK * (top - 1)
        is_fresh = get(below, OWNER) & 1 == 0
        _append(base, SPECIAL | PAUSE | routine | (FRESH if is_fresh else 0))
        _append(base, get(frames, kernels.FRAME_PATH))
        _append(base, get(frames, STRIDE + kernels.FRAME_RETURN))
        put(below, OWNER, get(below, OWNER) | 1)
    put(link, 0, top)
    put(link, OWNER, (routine + 1) << 1)
    put(get(base, TOPS), routine, frame + 1)


@kernels.jit
def note_token(base: int, frame: int, routine: int, token: int, ends: bool) -> None:
    """Append a token of the activation of `routine` in frame number `frame`, if one is known."""
    link = get(base, LINKS) + 8 * LINK * frame
    owner = get(link, OWNER)
    if owner >> 1 != routine + 1:
        return
    if get(get(base, TOPS), routine) != frame + 1:
        _forget(base, routine, frame + 1)
    _make_room(base)
    _append(base, token | (0 if owner & 1 else FRESH))
    if ends:
        put(get(base, TOPS), routine, get(link, 0))
        put(link, OWNER, 0)
    else:
        put(link, OWNER, owner | 1)


@kernels.jit
def note(k: int, key: int) -> None:
    """Do what an operation with this note asks for."""
    base = get(k, kernels.COSTS_POINTER)
    kind, routine = key & (1 << NOTE_BITS) - 1, key >> ROUTINE_SHIFT
    if kind == BEGUN:
        note_begin(k, base, routine)
        return
    frame = get(k, kernels.FRAME) // STRIDE
    token = (key >> NOTE_BITS) & NUMBER
    note_token(base, frame, routine, token, kind == LEFT)


if not kernels.PLAIN:

    @kernels.c_function(_types.int64, _types.int64, _types.int64)
    def note_hook(k: int, key: int, at: int) -> None:
        """`note`, where the kernel calls its hashing routine."""
        note(k, key)


def part() -> int:
    """Return the address of `note_hook`, for the clock's HASH_PART."""
    return 1 if kernels.PLAIN else int(note_hook.address)


# From tokens to stretches. A table of three words a key finds numbers: keys are
# (routine, register, return address) of pauses and (progress, token, FRESH or 0, no routine).

KEY_WORDS = 4
ROW = KEY_WORDS + 1  # with the number behind it, + 1; 0 where the row is free

# Words of what is kept from one buffer to the next.
POSITION = 0  # of the next word in the buffer
FOUND = 1  # stretches put out
PAUSED_AS = 2  # token of the pause at POSITION, -1 where it is not known yet
MISSING = 3  # where a missing key's words are: in these, from here on
PLACES = MISSING + KEY_WORDS
NEXT_NODE = PLACES  # nodes of the stacks in use
PASS_WORDS = 8

# What `tokens_to_stretches` came to.
DONE = 0
NEW_PAUSE = 1
NEW_STRETCH = 2
NO_NODES = 3

# What a stretch does besides crossing edges.
BEGINS = 1  # an activation begins with it
ENDS = 2  # and with it one ends, which is no longer there
ENDS_EARLY = 4  # that activation ends early
SKIPPED = 8  # it does nothing at all


@kernels.jit
def find(table: Array, a: int, b: int, c: int, d: int) -> int:
    """Place of a key's row in `table`, or of the free row where it belongs."""
    rows = len(table) // ROW
    mixed = (a * 0x9E3779B1) ^ (b * 0x85EBCA6B) ^ (c * 0x27D4EB2F) ^ (d * 0x165667B1)
    place = (mixed ^ (mixed >> 15) ^ (mixed >> 31)) & (rows - 1)
    while True:
        at = place * ROW
        if table[at + KEY_WORDS] == 0:
            return at
        if table[at] == a and table[at + 1] == b and table[at + 2] == c and table[at + 3] == d:
            return at
        place = (place + 1) & (rows - 1)


@kernels.jit
def tokens_to_stretches(
    buffer: Array,
    count: int,
    table: Array,
    routine_of: Array,
    simple: Array,
    flags: Array,
    tops: Array,
    nodes: Array,
    words: Array,
    output: Array,
) -> int:
    """Turn `count` words of the buffer into stretches, from `words[POSITION]` on.

    Parameters
    ----------
    table
        Keys -> numbers of pauses' tokens, and of stretches.
    routine_of, simple
        Token -> its routine; the stretch that it is where nothing went before in the segment,
        -1 where that is not known; two of these a token, the second for a fresh one.
    flags
        Stretch -> what else it does.
    tops, nodes
        Routine -> node + 1 of its innermost activation; node -> progress, next node + 1.
        Progress is 1 + the token of the pause that the activation came to, 0 at a segment's start.
    output
        Receives routines and stretches.
    """
    while words[POSITION] < count:
        word = buffer[words[POSITION]]
        size = 1
        fresh = 1 if word & FRESH else 0
        token = word & NUMBER
        after = 0
        if word & SPECIAL:
            if word & DROP:
                node = tops[token]
                if node != 0:
                    tops[token] = nodes[2 * (node - 1) + 1]
                    nodes[2 * (node - 1) + 1] = words[NEXT_NODE]
                    words[NEXT_NODE] = node
                    output[2 * words[FOUND]] = token
                    output[2 * words[FOUND] + 1] = -1
                    words[FOUND] += 1
                words[POSITION] += 1
                continue
            register, returns = buffer[words[POSITION] + 1], buffer[words[POSITION] + 2]
            at = find(table, token, register, returns, -1)
            if table[at + KEY_WORDS] == 0:
                words[MISSING : MISSING + KEY_WORDS] = table_key(token, register, returns, -1)
                return NEW_PAUSE
            token = table[at + KEY_WORDS] - 1
            after = token + 1
            size = 3
        routine = routine_of[token]
        node = tops[routine]
        progress = 0 if fresh or node == 0 else nodes[2 * (node - 1)]
        stretch = -1
        if progress == 0:
            stretch = simple[2 * token + fresh]
        else:
            stretch = table[find(table, progress, token, 0, -2) + KEY_WORDS] - 1
        if stretch < 0:
            words[MISSING : MISSING + KEY_WORDS] = table_key(progress, token, fresh, -2)
            return NEW_STRETCH
        does = flags[stretch]
        begins, ends = does & BEGINS != 0, does & ENDS != 0
        if begins and not ends:
            if words[NEXT_NODE] == 0:
                return NO_NODES
            node = words[NEXT_NODE]
            words[NEXT_NODE] = nodes[2 * (node - 1) + 1]
            nodes[2 * (node - 1) + 1] = tops[routine]
            tops[routine] = node
        elif ends and not begins and node != 0:
            tops[routine] = nodes[2 * (node - 1) + 1]
            nodes[2 * (node - 1) + 1] = words[NEXT_NODE]
            words[NEXT_NODE] = node
        if not ends and node != 0:
            nodes[2 * (node - 1)] = after
        if does & SKIPPED == 0:
            output[2 * words[FOUND]] = routine
            output[2 * words[FOUND] + 1] = stretch
            words[FOUND] += 1
        words[POSITION] += size
    return DONE


@kernels.inline
def table_key(a: int, b: int, c: int, d: int) -> Array:
    """The words of a key as an array."""
    key = np.empty(KEY_WORDS, np.int64)
    key[0], key[1], key[2], key[3] = a, b, c, d
    return key


@kernels.jit
def number_bytes(data: Any, at: int, value: int) -> int:
    """Write a number, seven bits a byte, the lowest first; return the place behind it."""
    while value >= 128:
        data[at] = (value & 127) | 128
        at += 1
        value >>= 7
    data[at] = value
    return at + 1


@kernels.jit
def pack(
    stretches: Array, count: int, local: Array, routines: Array, ends: Array, data: Any
) -> int:
    """Write the stretches of each routine, in their order, as bytes; return how many routines.

    A stretch that comes once is written as twice its number in its routine; one that comes n
    times as that + 1 and then n.

    Parameters
    ----------
    stretches
        Routine and stretch of each, in the order of the run; stretch -1 is a drop.
    local
        Stretch -> its number in its routine, which are counted from 1; 0 is the drop.
    routines, ends
        Receive which routines there are, in ascending order, and where each one's bytes end.
    data
        Receives the bytes (uint8).
    """
    routine_count = 0
    for i in range(count):
        routine_count = max(routine_count, stretches[2 * i] + 1)
    first = np.zeros(routine_count + 1, np.int64)
    for i in range(count):
        first[stretches[2 * i] + 1] += 1
    for routine in range(routine_count):
        first[routine + 1] += first[routine]
    place = first[:-1].copy()
    ordered = np.empty(count, np.int64)
    for i in range(count):
        routine, stretch = stretches[2 * i], stretches[2 * i + 1]
        ordered[place[routine]] = 0 if stretch < 0 else local[stretch]
        place[routine] += 1
    at = 0
    found = 0
    for routine in range(routine_count):
        i, end = first[routine], first[routine + 1]
        if i == end:
            continue
        while i < end:
            last = i + 1
            while last < end and ordered[last] == ordered[i]:
                last += 1
            repeated = last - i
            if repeated > 1:
                at = number_bytes(data, at, 2 * ordered[i] + 1)
                at = number_bytes(data, at, repeated)
            else:
                at = number_bytes(data, at, 2 * ordered[i])
            i = last
        routines[found], ends[found] = routine, at
        found += 1
    return found
