"""Native code that crosses recorded stretches of edges, for whatever schemes count along them.

Imports the kernels only. A recording has a stream of stretches for each routine
(`recording_kernel`). Each stretch has become a list of the kernel's operations, as its edges have
them in a run under these schemes; activations are frames, those of one routine at a time. So a
stretch does here what the events of an emulated run would have had the kernel do.

A stretch that comes n times in a row is executed once, and counted n times, where nothing depends
on the order: an activation that begins and ends with it, or one whose segment state is the same
behind it. Hash tables are kept call by call.
"""

from __future__ import annotations

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.kernels import STRIDE, bump, get, inline, jit, put
from simprof.profiler.engine.recording_kernel import BEGINS, ENDS, ENDS_EARLY, get_byte
from simprof.simulator.cpu import compiled

# Words of what is kept from one stop to the next, and of what is replayed.
# POSITION: of the next byte; DATA, END: address of the bytes (`recording_kernel.pack`), and where
# those of the routine end. STRETCH: the one that is executed, by its number in the routine; LEFT:
# how often it still is to be.
# NEXT, WEIGHT: the next operation of the list that is under way, 0 if none is, and how often the
# list counts. SAME_STATE, SAME_REGISTER: the frame before it. HASHED: whether the routine has a
# hash table.
POSITION, END, DATA, STRETCH, LEFT, NEXT, WEIGHT, SAME_STATE, SAME_REGISTER, HASHED = range(10)
# By number of the stretch in the routine: the first operation of its list (0 if it has none,
# `UNKNOWN` where that is not known yet), what else it does, how often it was executed.
LISTS, DOES, COUNTS, STRETCHES = range(10, 14)
WORDS = 14

CROSSES = 1 << 8  # among what a stretch does: it crosses edges
UNKNOWN = -1
# Word of a frame: the stretch in which the activation crossed edges last, 0 if there is none.
LAST_STRETCH = kernels.FRAME_RETURN

# What `replay` came to, besides what `block_kernel.execute` does.
DONE = kernels.OK
NEW_STRETCH = 16  # it has no list of operations yet
EARLY = 17  # an activation ends early: the frame is there, WEIGHT says how often
DAMAGED = 18  # what comes next cannot be


@inline
def _number(w: int) -> int:
    """Read the next number, -1 where its bytes are not all there."""
    data, at, end = get(w, DATA), get(w, POSITION), get(w, END)
    value = 0
    shift = 0
    while at < end and shift < 63:
        byte = get_byte(data, at)
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            put(w, POSITION, at)
            return value
        shift += 7
    return -1


@inline
def _next_stretch(w: int) -> int:
    """Read which stretch comes next, and how often; DAMAGED where that cannot be."""
    value = _number(w)
    times = 1
    if value >= 0 and value & 1:
        times = _number(w)
    if value < 0 or times < 1 or value >> 1 >= get(w, STRETCHES):
        return DAMAGED
    put(w, STRETCH, value >> 1)
    put(w, LEFT, times)
    put(w, SAME_STATE, -1)
    return DONE


@inline
def _weight(w: int, does: int, here: int) -> int:
    """How many times the stretch that comes next can be counted at once; `here` is the frame."""
    left = get(w, LEFT)
    if left == 1 or get(w, HASHED) != 0:
        return 1
    if does == BEGINS | ENDS:
        return left
    if does != 0:
        return 1
    state, register = get(here, kernels.FRAME_SEGMENTS), get(here, kernels.FRAME_PATH)
    if get(w, SAME_STATE) == state and get(w, SAME_REGISTER) == register:
        return left
    put(w, SAME_STATE, state)
    put(w, SAME_REGISTER, register)
    return 1


@inline
def _begin(k: int, w: int) -> int:
    """Begin to execute the next stretch: find its list, and make the frame of an activation."""
    stretch = get(w, STRETCH)
    first, does = get(get(w, LISTS), stretch), get(get(w, DOES), stretch)
    if first == UNKNOWN:
        return NEW_STRETCH
    offset = get(k, kernels.FRAME)
    frame = get(k, kernels.FRAMES_POINTER) + 8 * offset
    weight = _weight(w, does & ~CROSSES, frame)
    if does & BEGINS:
        if offset + 2 * STRIDE > get(k, kernels.FRAME_LIMIT):
            return DAMAGED
        offset += STRIDE
        frame += 8 * STRIDE
        put(k, kernels.FRAME, offset)
        put(frame, kernels.FRAME_SEGMENTS, 0)
        put(frame, kernels.FRAME_PATH, 0)
        put(frame, LAST_STRETCH, 0)
    if offset == 0:
        return DAMAGED
    if does & CROSSES:
        put(frame, LAST_STRETCH, stretch)
    bump(get(w, COUNTS), stretch, weight)
    put(w, WEIGHT, weight)
    put(w, NEXT, first)
    return DONE


@jit
def replay(k: int, w: int) -> int:
    """Execute the stretches of one routine, from `POSITION` to `END`; say why that stopped."""
    while True:
        if get(w, NEXT) == 0:
            if get(w, LEFT) == 0:
                if get(w, POSITION) >= get(w, END):
                    return DONE
                if _next_stretch(w) != DONE:
                    return DAMAGED
            status = _begin(k, w)
            if status != DONE:
                return status
        if get(w, NEXT) != 0:
            status = block_kernel.execute(k, get(w, NEXT), 0, get(w, WEIGHT))
            if status != kernels.OK:
                put(w, NEXT, get(k, kernels.FAILED_OPERATION))
                return status
            put(w, NEXT, 0)
        put(w, LEFT, get(w, LEFT) - get(w, WEIGHT))
        does = get(get(w, DOES), get(w, STRETCH))
        if does & ENDS_EARLY:
            return EARLY
        if does & ENDS:
            put(k, kernels.FRAME, get(k, kernels.FRAME) - STRIDE)


call_replay = compiled.for_python(replay)
