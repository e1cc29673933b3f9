"""Native code that notes, while a program runs, which stretches of edges its activations cross.

Imports the kernel only. `note_hook` stands where the kernel calls its hashing
routine; the operations that lead there carry a *note* instead of a path number. Notes become
tokens in a buffer, in the order of the run. When the buffer is full, Python takes it
(`recording`), with `stretches` and `pack` doing the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import STRIDE, VALUE, get, put
from simprof.simulator.cpu import compiled

_intrinsic: Callable[[Any], Any] = compiled.intrinsic

# Notes, the keys of the kernel's operations: an activation of a routine has begun, a segment has
# ended, or that and its activation with it.
BEGUN, ENDED_SEGMENT, LEFT = range(3)
NOTE_BITS = 2
ROUTINE_SHIFT = 34  # the token is between

# Words at the start of the recorder's array, which the kernel's clock has as NOTES_POINTER.
# COUNT: words in the buffer. FULL_CALLBACK: empties it. The others are addresses. TOPS: routine ->
# frame number + 1 of its innermost activation, 0 if none is alive. LINKS: frame number -> two
# words: the routine's next one below as in TOPS; OWNER.
COUNT, CAPACITY, FULL_CALLBACK, BUFFER, TOPS, LINKS = range(6)
WORDS = 8

OWNER = 1  # (routine + 1) << 1 | whether the activation has a token; 0 if none is alive there
LINK = 2

# Words of the buffer, tokens: a segment has ended (its number is the note's), or one of three that
# are told by SPECIAL. FRESH: it is the first one of its activation.
# PAUSE: an activation of a routine waits in the middle of a segment while another of the same
# routine begins. What the two count in one hash table must keep its order, so the place is noted:
# the routine, what the segment register held, and where the call returns to.
# DROP: an activation is forgotten whose end nobody saw: code that no graph has took its frame.
FRESH = 1 << 40
SPECIAL = 1 << 41
PAUSE = 1 << 42  # the routine; behind it the register and the return address
DROP = 1 << 43  # the routine
NUMBER = (1 << 32) - 1
_SLACK = 8


@kernels.inline
def _append(base: int, word: int) -> None:
    count = get(base, COUNT)
    put(get(base, BUFFER), count, word)
    put(base, COUNT, count + 1)


if kernels.PLAIN:

    def get_byte(base: int, index: int) -> int:
        """Byte `index` of those at `base`."""
        raise NotImplementedError("nothing is recorded without numba")

    def put_byte(base: int, index: int, value: int) -> None:
        """Set byte `index` of those at `base`."""
        raise NotImplementedError("nothing is recorded without numba")

else:

    @_intrinsic
    def get_byte(context: Any, base: Any, index: Any) -> Any:
        """Byte `index` of those at `base`."""
        return compiled.element_at(8, is_set=False)

    @_intrinsic
    def put_byte(context: Any, base: Any, index: Any, value: Any) -> Any:
        """Set byte `index` of those at `base`."""
        return compiled.element_at(8, is_set=True)


@kernels.jit
def _make_room(base: int) -> None:
    """Have Python empty the buffer where it is nearly full."""
    if get(base, COUNT) + _SLACK > get(base, CAPACITY):
        kernels.call_part(get(base, FULL_CALLBACK), 0, 0, 0)


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
def note_token(base: int, frame: int, routine: int, token: int, ends: int) -> None:
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
    base = get(k, kernels.NOTES_POINTER)
    kind, routine = key & (1 << NOTE_BITS) - 1, key >> ROUTINE_SHIFT
    if kind == BEGUN:
        note_begin(k, base, routine)
        return
    frame = get(k, kernels.FRAME) // STRIDE
    token = (key >> NOTE_BITS) & NUMBER
    note_token(base, frame, routine, token, 1 if kind == LEFT else 0)


# From tokens to stretches: edges that one activation crosses from one token to the next. Each
# routine has a stream of them; whichever activation of the routine is the innermost alive goes on
# with each. A table of keyed rows (`kernels.find_row`) finds numbers + 1: of the
# pause (routine << 1 | 1, register, return address), and of the stretch (progress << 1, token, 0).

# Words of what turns tokens into stretches: what is kept from one buffer to the next, and the
# addresses of its arrays.
# POSITION: of the next word in the buffer. TOKENS: words there. FOUND: stretches put out.
# NEXT_NODE: the first free node of the stacks, from 1 on; 0 if there is none. MISSING: three words,
# which say what is new.
POSITION, TOKENS, FOUND, NEXT_NODE, MISSING = range(5)
TABLE, TABLE_ROWS = range(8, 10)
# INPUT: the buffer. ROUTINE_OF: token -> its routine. SIMPLE: two a token, the second where it is
# its activation's first: the stretch that it is where nothing went before it in the segment, -1
# where that is not known. DOES: stretch -> what else it does. INNERMOST: routine -> node of its
# innermost activation, 0 if there is none. NODES: node -> progress, next node; progress is 1 + the
# token of the pause to which the activation has come, 0 at the start of a segment.
INPUT, ROUTINE_OF, SIMPLE, DOES, INNERMOST, NODES = range(10, 16)
# OUTPUT receives routines and stretches. LOCAL: stretch -> its number in its routine, from 1 on; 0
# is the drop. FIRST, ORDERED: scratch of `pack`: two words a routine and one more, one word a
# stretch. ROUTINES, STREAM_ENDS, DATA receive which routines have a stream, where the bytes of each
# end, and the bytes.
OUTPUT, LOCAL, FIRST, ORDERED, ROUTINES, STREAM_ENDS, DATA, ROUTINE_COUNT = range(16, 24)
PASS_WORDS = 24

# What `stretches` came to.
DONE, NEW_PAUSE, NEW_STRETCH, NO_NODES = range(4)

# What a stretch does besides crossing edges: an activation begins with it; one ends with it, which
# is no longer there, or which ends early; it does nothing at all.
BEGINS, ENDS, ENDS_EARLY, SKIPPED = 1, 2, 4, 8


@kernels.jit
def _miss(p: int, a: int, b: int, c: int, status: int) -> int:
    """Say what is new; return the status."""
    put(p, MISSING, a)
    put(p, MISSING + 1, b)
    put(p, MISSING + 2, c)
    return status


@kernels.jit
def _put_out(p: int, routine: int, stretch: int) -> None:
    found = get(p, FOUND)
    put(get(p, OUTPUT), 2 * found, routine)
    put(get(p, OUTPUT), 2 * found + 1, stretch)
    put(p, FOUND, found + 1)


@kernels.jit
def _pop(p: int, routine: int) -> None:
    """Take the innermost activation of a routine from its stack, if there is one."""
    node = get(get(p, INNERMOST), routine)
    if node == 0:
        return
    words = get(p, NODES) + 16 * (node - 1)
    put(get(p, INNERMOST), routine, get(words, 1))
    put(words, 1, get(p, NEXT_NODE))
    put(p, NEXT_NODE, node)


@kernels.jit
def _push(p: int, routine: int) -> int:
    """Put an activation of a routine on its stack; False where there is no room."""
    node = get(p, NEXT_NODE)
    if node == 0:
        return 0
    words = get(p, NODES) + 16 * (node - 1)
    put(p, NEXT_NODE, get(words, 1))
    put(words, 1, get(get(p, INNERMOST), routine))
    put(get(p, INNERMOST), routine, node)
    return 1


@kernels.jit
def stretches(p: int) -> int:
    """Turn the words of the buffer into stretches, from `POSITION` on; say why that stopped."""
    buffer = get(p, INPUT)
    while get(p, POSITION) < get(p, TOKENS):
        at = buffer + 8 * get(p, POSITION)
        word = get(at, 0)
        size = 1
        fresh = 1 if word & FRESH else 0
        token = word & NUMBER
        after = 0
        if word & DROP:
            _pop(p, token)
            _put_out(p, token, -1)
            put(p, POSITION, get(p, POSITION) + 1)
            continue
        if word & PAUSE:
            routine, register, returns = token, get(at, 1), get(at, 2)
            table, rows = get(p, TABLE), get(p, TABLE_ROWS)
            after = get(kernels.find_row(table, rows, routine << 1 | 1, register, returns), VALUE)
            if after == 0:
                return _miss(p, routine, register, returns, NEW_PAUSE)
            token = after - 1
            size = 3
        routine = get(get(p, ROUTINE_OF), token)
        node = get(get(p, INNERMOST), routine)
        progress = 0
        if fresh == 0 and node != 0:
            progress = get(get(p, NODES), 2 * (node - 1))
        if progress == 0:
            stretch = get(get(p, SIMPLE), 2 * token + fresh)
        else:
            row = kernels.find_row(get(p, TABLE), get(p, TABLE_ROWS), progress << 1, token, 0)
            stretch = get(row, VALUE) - 1
        if stretch < 0:
            return _miss(p, progress, token, fresh, NEW_STRETCH)
        does = get(get(p, DOES), stretch)
        if does & ENDS == 0:
            if does & BEGINS and _push(p, routine) == 0:
                return NO_NODES
            node = get(get(p, INNERMOST), routine)
            if node != 0:
                put(get(p, NODES), 2 * (node - 1), after)
        elif does & BEGINS == 0:
            _pop(p, routine)
        if does & SKIPPED == 0:
            _put_out(p, routine, stretch)
        put(p, POSITION, get(p, POSITION) + size)
    return DONE


@kernels.jit
def _number_bytes(data: int, at: int, value: int) -> int:
    """Write a number, seven bits a byte, the lowest first; return the place behind it."""
    while value >= 128:
        put_byte(data, at, (value & 127) | 128)
        at += 1
        value >>= 7
    put_byte(data, at, value)
    return at + 1


@kernels.jit
def _sort(p: int) -> None:
    """Bring the stretches of each routine together, in their order, by their numbers there."""
    output, count, routines = get(p, OUTPUT), get(p, FOUND), get(p, ROUTINE_COUNT)
    first, ordered = get(p, FIRST), get(p, ORDERED)
    place = first + 8 * (routines + 1)
    for routine in range(routines + 1):
        put(first, routine, 0)
    for i in range(count):
        routine = get(output, 2 * i) + 1
        put(first, routine, get(first, routine) + 1)
    for routine in range(routines):
        put(place, routine, get(first, routine))
        put(first, routine + 1, get(first, routine + 1) + get(first, routine))
    for i in range(count):
        routine, stretch = get(output, 2 * i), get(output, 2 * i + 1)
        at = get(place, routine)
        put(ordered, at, 0 if stretch < 0 else get(get(p, LOCAL), stretch))
        put(place, routine, at + 1)


@kernels.jit
def pack(p: int) -> int:
    """Write the stretches of each routine, in their order, as bytes; return how many routines."""
    # A stretch that comes once is written as twice its number in its routine; one that comes n
    # times as that + 1 and then n.
    _sort(p)
    first, ordered, data = get(p, FIRST), get(p, ORDERED), get(p, DATA)
    at = 0
    found = 0
    for routine in range(get(p, ROUTINE_COUNT)):
        i, end = get(first, routine), get(first, routine + 1)
        if i == end:
            continue
        while i < end:
            stretch = get(ordered, i)
            last = i + 1
            while last < end and get(ordered, last) == stretch:
                last += 1
            repeated = last - i
            if repeated > 1:
                at = _number_bytes(data, at, 2 * stretch + 1)
                at = _number_bytes(data, at, repeated)
            else:
                at = _number_bytes(data, at, 2 * stretch)
            i = last
        put(get(p, ROUTINES), found, routine)
        put(get(p, STREAM_ENDS), found, at)
        found += 1
    return found


if not kernels.PLAIN:

    @kernels.hook_part
    def note_hook(k: int, at: int, unused: int) -> None:
        """`note`, where the kernel calls its hashing routine."""
        note(k, get(at, 1))


call_note_token = compiled.for_python(note_token)
call_stretches = compiled.for_python(stretches)
call_pack = compiled.for_python(pack)


def part() -> int:
    """Return the address of `note_hook`, for the clock's HASH_PART."""
    return 1 if kernels.PLAIN else int(note_hook.address)
