"""Native code that crosses recorded stretches of edges, for whatever schemes count along them.

Imports numpy, numba and the kernel only. A recording has a stream of stretches for each routine
(`recording_kernel`). Each stretch has become a list of the kernel's operations, as its edges have
them in a run under these schemes; activations are frames, those of one routine at a time. So a
stretch does here what the events of an emulated run would have had the kernel do.

A stretch that comes n times in a row is executed once, and counted n times, where nothing depends
on the order: an activation that begins and ends with it, or one whose segment state is the same
behind it. Hash tables are kept call by call.
"""

from __future__ import annotations

from typing import Any

import numba

from profiler.engine import kernels
from profiler.engine.kernels import OPERATION, STRIDE, Array, get, put
from profiler.engine.recording_kernel import BEGINS, ENDS, ENDS_EARLY

_types: Any = numba.types

# Words of what is kept from one stop to the next.
POSITION = 0  # of the next byte
STRETCH = 1  # the one that is executed, by its number in the routine
LEFT = 2  # how often it is still to be executed
NEXT = 3  # the next operation of its list, 0 if none is under way
WEIGHT = 4  # how often the list that is under way counts
SAME_STATE = 5  # the frame before the list that is under way
SAME_REGISTER = 6
HASHED = 7  # whether the routine has a hash table
WORDS = 8

# What `replay` came to.
DONE = 0
NEW_STRETCH = 1  # it has no list of operations yet
NEW_SEGMENT = 2
NO_NODES = 3
EARLY = 4  # an activation ends early: the frame is there, WEIGHT says how often
DAMAGED = 5  # what comes next cannot be

UNKNOWN = -1  # of a stretch that has no list of operations yet


@kernels.jit
def run(k: int, words: Array) -> int:
    """Execute the list of operations that is under way; return a status."""
    operation, weight = words[NEXT], words[WEIGHT]
    at = get(k, kernels.OPERATIONS_POINTER) + 8 * OPERATION * operation
    frame = get(k, kernels.FRAMES_POINTER) + 8 * get(k, kernels.FRAME)
    while True:
        word = get(at, 0)
        code = word & 0xFF
        if code == kernels.SEGMENT:
            state = get(frame, kernels.FRAME_SEGMENTS)
            key = get(frame, kernels.FRAME_PATH) + get(at, 1)
            successor = kernels.segment_place(k, state, key)
            if get(successor, kernels.KEY) != key:
                successor = kernels.spilled(k, state, key)
                if successor == 0:
                    words[NEXT] = operation
                    return NEW_SEGMENT
            action = get(successor, kernels.ACTION)
            if action != 0 and not kernels.count_hashed(k, action):
                words[NEXT] = operation
                return NO_NODES
            count = get(successor, kernels.COUNT_OF)
            put(successor, kernels.COUNT_OF, count + weight)
            put(frame, kernels.FRAME_SEGMENTS, get(successor, kernels.NEXT))
            put(frame, kernels.FRAME_PATH, get(at, 2))
        elif code == kernels.ADD:
            put(frame, kernels.FRAME_PATH, get(frame, kernels.FRAME_PATH) + get(at, 1))
        elif code == kernels.BEGIN:
            put(frame, kernels.FRAME_PATH, get(at, 1))
            put(frame, kernels.FRAME_SEGMENTS, get(at, 2))
        elif get(k, kernels.NODES) < get(k, kernels.NODE_LIMIT):
            kernels.count_in_table(k, get(at, 1), at)
        else:
            words[NEXT] = operation
            return NO_NODES
        if word & kernels.LAST:
            words[NEXT] = 0
            return DONE
        at += 8 * OPERATION
        operation += 1


@kernels.jit
def replay(k: int, data: Any, end: int, lists: Array, flags: Array, words: Array) -> int:
    """Execute the stretches of one routine up to byte `end` of `data`; return why that stopped.

    Parameters
    ----------
    data
        See `recording_kernel.pack` (uint8).
    lists
        Stretch, by its number in the routine -> number of the first operation of its list, 0 if
        there is none, `UNKNOWN` where that is not known yet.
    flags
        Stretch -> what it does besides.
    """
    frames = get(k, kernels.FRAMES_POINTER)
    frame = get(k, kernels.FRAME)
    while True:
        if words[NEXT] != 0:
            status = run(k, words)
            if status != DONE:
                return status
            words[LEFT] -= words[WEIGHT]
            does = flags[words[STRETCH]]
            if does & ENDS_EARLY:
                words[NEXT] = 0
                return EARLY
            if does & ENDS:
                frame -= STRIDE
                put(k, kernels.FRAME, frame)
        if words[LEFT] == 0:
            at = words[POSITION]
            if at >= end:
                return DONE
            value = 0
            shift = 0
            while at < end and data[at] >= 128:
                value |= (data[at] & 127) << shift
                shift += 7
                at += 1
            if at >= end:
                return DAMAGED
            value |= data[at] << shift
            at += 1
            times = 1
            if value & 1:
                times = 0
                shift = 0
                while at < end and data[at] >= 128:
                    times |= (data[at] & 127) << shift
                    shift += 7
                    at += 1
                if at >= end:
                    return DAMAGED
                times |= data[at] << shift
                at += 1
            words[POSITION] = at
            words[STRETCH] = value >> 1
            words[LEFT] = times
            words[SAME_STATE] = -1
        stretch = words[STRETCH]
        if stretch >= len(lists):
            return DAMAGED
        first = lists[stretch]
        if first == UNKNOWN:
            return NEW_STRETCH
        does = flags[stretch]
        if frame == 0 and does & BEGINS == 0:
            return DAMAGED
        weight = 1
        if words[HASHED] == 0 and words[LEFT] > 1:
            if does & BEGINS:
                if does & ENDS:
                    weight = words[LEFT]
            elif does == 0:
                here = frames + 8 * frame
                state = get(here, kernels.FRAME_SEGMENTS)
                register = get(here, kernels.FRAME_PATH)
                if words[SAME_STATE] == state and words[SAME_REGISTER] == register:
                    weight = words[LEFT]
                words[SAME_STATE], words[SAME_REGISTER] = state, register
        if does & BEGINS:
            if frame + 2 * STRIDE > get(k, kernels.FRAME_LIMIT):
                return DAMAGED
            frame += STRIDE
            put(k, kernels.FRAME, frame)
            put(frames + 8 * frame, kernels.FRAME_SEGMENTS, 0)
            put(frames + 8 * frame, kernels.FRAME_PATH, 0)
        words[WEIGHT] = weight
        words[NEXT] = first
        if first == 0:
            words[LEFT] -= weight
            if does & ENDS_EARLY:
                return EARLY
            if does & ENDS:
                frame -= STRIDE
                put(k, kernels.FRAME, frame)
