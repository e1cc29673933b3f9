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

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import OPERATION, STRIDE, get, put
from simprof.profiler.engine.recording_kernel import BEGINS, ENDS, ENDS_EARLY, get_byte
from simprof.simulator.cpu import compiled

# Words of what is kept from one stop to the next, and of what is replayed.
POSITION = 0  # of the next byte
STRETCH = 1  # the one that is executed, by its number in the routine
LEFT = 2  # how often it is still to be executed
NEXT = 3  # the next operation of its list, 0 if none is under way
WEIGHT = 4  # how often the list that is under way counts
SAME_STATE = 5  # the frame before the list that is under way
SAME_REGISTER = 6
HASHED = 7  # whether the routine has a hash table
DATA = 8  # address of the bytes (`recording_kernel.pack`)
END = 9  # of the routine's bytes there
LISTS = 10  # stretch, by its number in the routine -> number of the first operation of its list,
# 0 if it has none, `UNKNOWN` where that is not known yet
DOES = 11  # stretch -> what else it does
STRETCHES = 12
COUNTS = 13  # stretch -> how often it was executed (`count`)
ALIVE = 14  # of each activation that is alive, the stretch that it crossed edges in last; 0: none
DEPTH = 15  # how many are alive
ROOM = 16  # for how many there is room in ALIVE
WORDS = 17

CROSSES = 1 << 8  # among what a stretch does, for `count`: it crosses edges

# What `replay` came to.
DONE = 0
NEW_STRETCH = 1  # it has no list of operations yet
NEW_SEGMENT = 2
NO_NODES = 3
EARLY = 4  # an activation ends early: the frame is there, WEIGHT says how often
DAMAGED = 5  # what comes next cannot be
NO_ROOM = 6  # of `count`: more activations are alive than there is room for

UNKNOWN = -1  # of a stretch that has no list of operations yet


@kernels.jit
def run(k: int, w: int) -> int:
    """Execute the list of operations that is under way; return a status."""
    operation, weight = get(w, NEXT), get(w, WEIGHT)
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * OPERATION * operation
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    while True:
        word = get(at, 0)
        code = word & 0xFF
        if code == kernels.SEGMENT:
            status = kernels.end_segment(k, frame, at, weight)
            if status != kernels.OK:
                put(w, NEXT, operation)
                return NEW_SEGMENT if status == kernels.NEW_SEGMENT else NO_NODES
        elif code in (kernels.BEGIN, kernels.ADD):
            kernels.set_register(code, frame, at)
        elif get(k, kernels.NODES) < get(k, kernels.NODE_LIMIT):
            kernels.count_in_table(k, at)
        else:
            put(w, NEXT, operation)
            return NO_NODES
        if word & kernels.LAST:
            put(w, NEXT, 0)
            return DONE
        at += 8 * OPERATION
        operation += 1


@kernels.jit
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


@kernels.jit
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


@kernels.jit
def _weight(w: int, does: int, here: int) -> int:
    """How many times the stretch that comes next can be counted at once; `here` is the frame."""
    left = get(w, LEFT)
    if left == 1 or get(w, HASHED) != 0:
        return 1
    if does == BEGINS | ENDS:
        return left
    if does != 0:
        return 1
    state = get(here, kernels.FRAME_SEGMENTS)
    register = get(here, kernels.FRAME_PATH)
    if get(w, SAME_STATE) == state and get(w, SAME_REGISTER) == register:
        return left
    put(w, SAME_STATE, state)
    put(w, SAME_REGISTER, register)
    return 1


@kernels.jit
def _hurry(k: int, w: int) -> None:
    """Execute stretches as long as they take nothing but what most take."""
    # This does what `replay` does, with all that changes in registers. It stops in front of a
    # stretch that it cannot execute, or within it, where `run` goes on.
    data, end, position = get(w, DATA), get(w, END), get(w, POSITION)
    lists, does_of, stretches = get(w, LISTS), get(w, DOES), get(w, STRETCHES)
    frames, frame = get(k, kernels.FRAMES_POINTER), get(k, kernels.FRAME)
    operations = get(k, kernels.OPERATIONS_POINTER)
    hashed, limit = get(w, HASHED) != 0, get(k, kernels.FRAME_LIMIT) - 2 * STRIDE
    while position + 4 <= end:
        at = position + 1
        value = get_byte(data, position)
        if value >= 128:
            byte = get_byte(data, at)
            value = (value & 127) | byte << 7
            at += 1
            if byte >= 128:
                break
        times = 1
        if value & 1:
            times = get_byte(data, at)
            at += 1
        stretch = value >> 1
        if stretch >= stretches:
            break
        first, does = get(lists, stretch), get(does_of, stretch)
        if first <= 0 or does & ENDS_EARLY != 0:
            break
        if value & 1 and (hashed or times >= 128 or does != BEGINS | ENDS):
            break
        here = frames + 8 * frame
        state = 0
        register = 0
        if does & BEGINS:
            here += 8 * STRIDE
            if frame > limit:
                break
        elif frame == 0:
            break
        else:
            state = get(here, kernels.FRAME_SEGMENTS)
            register = get(here, kernels.FRAME_PATH)
        operation = operations + 8 * OPERATION * first
        has_counted = False
        while True:
            word = get(operation, 0)
            code = word & 0xFF
            if code == kernels.SEGMENT:
                key = register + get(operation, 1)
                successor = kernels.segment_place(k, state, key)
                if get(successor, kernels.KEY) != key:
                    break
                action = get(successor, kernels.ACTION)
                if action != 0 and not kernels.counted_known(k, action):
                    break
                count = get(successor, kernels.COUNT_OF)
                put(successor, kernels.COUNT_OF, count + times)
                state = get(successor, kernels.NEXT)
                register = get(operation, 2)
                has_counted = True
            elif code == kernels.ADD:
                register += get(operation, 1)
            elif code == kernels.BEGIN:
                register, state = get(operation, 1), get(operation, 2)
            elif kernels.count_known(k, operation):
                has_counted = True
            else:
                break
            if word & kernels.LAST:
                operation = 0
                break
            operation += 8 * OPERATION
        if operation != 0 and not has_counted:
            break
        position = at
        if does & BEGINS:
            frame += STRIDE
        if operation != 0 or does & ENDS == 0:
            put(here, kernels.FRAME_SEGMENTS, state)
            put(here, kernels.FRAME_PATH, register)
        if operation != 0:
            put(w, NEXT, (operation - operations) // (8 * OPERATION))
            put(w, STRETCH, stretch)
            put(w, LEFT, times)
            put(w, WEIGHT, times)
            break
        if does & ENDS:
            frame -= STRIDE
    put(w, POSITION, position)
    put(k, kernels.FRAME, frame)


@kernels.jit
def replay(k: int, w: int) -> int:
    """Execute the stretches of one routine, from `POSITION` to `END`; say why that stopped."""
    frames = get(k, kernels.FRAMES_POINTER)
    while True:
        if get(w, NEXT) != 0:
            status = run(k, w)
            if status != DONE:
                return status
            put(w, LEFT, get(w, LEFT) - get(w, WEIGHT))
            does = get(get(w, DOES), get(w, STRETCH))
            if does & ENDS_EARLY:
                return EARLY
            if does & ENDS:
                put(k, kernels.FRAME, get(k, kernels.FRAME) - STRIDE)
        if get(w, LEFT) == 0:
            _hurry(k, w)
            if get(w, NEXT) != 0:
                continue
            if get(w, POSITION) >= get(w, END):
                return DONE
            if _next_stretch(w) != DONE:
                return DAMAGED
        stretch = get(w, STRETCH)
        first = get(get(w, LISTS), stretch)
        if first == UNKNOWN:
            return NEW_STRETCH
        does = get(get(w, DOES), stretch)
        frame = get(k, kernels.FRAME)
        weight = _weight(w, does, frames + 8 * frame)
        if does & BEGINS:
            if frame + 2 * STRIDE > get(k, kernels.FRAME_LIMIT):
                return DAMAGED
            frame += STRIDE
            put(k, kernels.FRAME, frame)
            put(frames + 8 * frame, kernels.FRAME_SEGMENTS, 0)
            put(frames + 8 * frame, kernels.FRAME_PATH, 0)
        if frame == 0:
            return DAMAGED
        put(w, WEIGHT, weight)
        put(w, NEXT, first)
        if first == 0:
            put(w, LEFT, get(w, LEFT) - weight)
            if does & ENDS_EARLY:
                return EARLY
            if does & ENDS:
                put(k, kernels.FRAME, frame - STRIDE)


@kernels.jit
def count(w: int) -> int:
    """Count the stretches of one routine, from `POSITION` to `END`, and note who is alive then."""
    alive, counts, flags = get(w, ALIVE), get(w, COUNTS), get(w, DOES)
    while True:
        if get(w, LEFT) == 0:
            if get(w, POSITION) >= get(w, END):
                return DONE
            if _next_stretch(w) != DONE:
                return DAMAGED
        stretch, depth = get(w, STRETCH), get(w, DEPTH)
        does = get(flags, stretch)
        times = get(w, LEFT)
        if does & BEGINS:
            if depth == get(w, ROOM):
                return NO_ROOM
            depth += 1
            put(alive, depth - 1, 0)
        if depth == 0:
            return DAMAGED
        if does & CROSSES:
            put(alive, depth - 1, stretch)
        if does & ENDS:
            depth -= 1
        if depth != get(w, DEPTH):
            times = 1
        put(counts, stretch, get(counts, stretch) + times)
        put(w, LEFT, get(w, LEFT) - times)
        put(w, DEPTH, depth)


call_replay = compiled.for_python(replay)
call_count = compiled.for_python(count)
