"""Landings in native code: what `activations.Activations.land` does, for landings it has met.

Imports numpy, numba and the kernel only. Python handles a landing when it is first met, and notes
here what a landing there takes (`landings`); from then on `land` does it. Where it meets anything
of which it has no note, it does nothing, and Python handles that landing, too.

Terms
-----
landing
    A row of words: what arriving at one place by one transition means.
wait
    Return address -> (routine + 1) << 32 | (block + 1) of the call that returns there.
early end
    Keyed row: (block + 1, register, segment state) of an activation that was ended -> how often.
"""

from __future__ import annotations

from typing import Any

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.kernels import ENDED_BIT, SIGNAL_BIT, STRIDE, bump, get, put
from simprof.simulator.cpu import compiled

NOTHING_DONE = -1
_SIGN = -(1 << 63)


@kernels.inline
def _below(a: int, b: int) -> bool:
    """Whether a < b as unsigned words."""
    return (a ^ _SIGN) < (b ^ _SIGN)


@kernels.inline
def _stack(k: int, frame: int) -> int:
    """Stack pointer of the caller of the activation at `frame`."""
    frames = get(k, kernels.FRAMES_POINTER)
    return get(frames, frame + kernels.FRAME_STACK) & get(k, kernels.STACK_MASK)


@kernels.inline
def _wait(k: int, return_address: int) -> int:
    """Where the caller waits that goes on at `return_address`; 0 where no graph knows."""
    word = ((return_address & ~ENDED_BIT) - get(k, kernels.WAITS_BASE)) >> 2
    if word < 0 or word >= get(k, kernels.WAITS):
        return 0
    return get(get(k, kernels.WAITS_POINTER), word)


@kernels.jit
def _end(k: int, frame: int, block: int, amount: int) -> bool:
    """Count that the activation at `frame` ended in a block; False where that is new."""
    # `block` is its number + 1; nothing is done where it is 0.
    if block == 0:
        return True
    words = get(k, kernels.FRAMES_POINTER) + 8 * frame
    register, segments = get(words, kernels.FRAME_PATH), get(words, kernels.FRAME_SEGMENTS)
    table, rows = get(k, kernels.ENDS_POINTER), get(k, kernels.END_ROWS)
    at = kernels.find_row(table, rows, block, register, segments)
    if get(at, 0) == 0:
        return False
    bump(at, kernels.VALUE, amount)
    return True


@kernels.jit
def _end_caller(k: int, frame: int, amount: int) -> bool:
    """End the caller of the activation at `frame` where it waits; False where that is new."""
    address = get(get(k, kernels.FRAMES_POINTER), frame + kernels.FRAME_RETURN)
    if address & SIGNAL_BIT != 0:
        return False
    if address & ENDED_BIT != 0:
        return True
    return _end(k, frame - STRIDE, _wait(k, address) & 0xFFFFFFFF, amount)


@kernels.jit
def _activation_for(k: int, routine: int, pointer: int) -> int:
    """Frame of the live activation of `routine` (+ 1) that continues at `pointer`, or -1."""
    # -2 where there is a signal's handler between.
    if routine == 0:
        return -1
    frames = get(k, kernels.FRAMES_POINTER)
    above = get(k, kernels.FRAME)
    fallback = -1
    while above > 0:
        address = get(frames, above + kernels.FRAME_RETURN)
        if address & SIGNAL_BIT != 0:
            return -2
        if _wait(k, address) >> 32 == routine:
            caller = above - STRIDE
            upper = _stack(k, caller) if caller > 0 else get(k, kernels.STACK_MASK)
            if _below(pointer, upper):
                if not _below(pointer, _stack(k, above)):
                    return caller
                if fallback < 0:
                    fallback = caller
        above -= STRIDE
    return fallback


@kernels.jit
def _unwind(k: int, target: int, pointer: int, amount: int) -> int:
    """End activations down to the one at `target`; -1: down to the stack's owner, included."""
    # Return the frame in which a new activation begins; `NOTHING_DONE` where an end is new.
    above = get(k, kernels.FRAME)
    if target >= 0:
        while above > target:
            if not _end_caller(k, above, amount):
                return NOTHING_DONE
            above -= STRIDE
        return target
    while above > 0 and _below(_stack(k, above), pointer):
        if not _end_caller(k, above, amount):
            return NOTHING_DONE
        above -= STRIDE
    if above > 0 and not _end_caller(k, above, amount):
        return NOTHING_DONE
    return above


@kernels.jit
def land(k: int, operation: int, address: int) -> int:
    """Land at `address`, as RETURN or SLOW operation number `operation` demands."""
    # Return the number of the first operation to execute there, 0 if there is none; `NOTHING_DONE`
    # where Python must handle the landing.
    number = get(get(k, kernels.OPERATIONS_POINTER), kernels.OPERATION * operation + 2)
    if number == 0:
        return NOTHING_DONE
    landing = get(k, kernels.LANDINGS_POINTER) + 8 * kernels.LANDING * number
    frame, frames = get(k, kernels.FRAME), get(k, kernels.FRAMES_POINTER)
    returns_to = get(frames, frame + kernels.FRAME_RETURN)
    returned = get(landing, kernels.LANDING_RETURNED) != 0
    if returned and returns_to & (SIGNAL_BIT | ENDED_BIT) == SIGNAL_BIT:
        # a handler, to the signal trampoline
        bump(landing, kernels.LANDING_COUNT, 1)
        return get(landing, kernels.LANDING_ENTRY)
    pointer = kernels.stack_pointer(k) & get(k, kernels.STACK_MASK)
    target = _activation_for(k, get(landing, kernels.LANDING_ROUTINE), pointer)
    if returned and returns_to | ENDED_BIT == address | ENDED_BIT:
        at_caller = _stack(k, frame) == pointer
        if at_caller or target == -1 or target == frame - STRIDE:
            return NOTHING_DONE  # it is no landing at all
    if returned and target == -1 and frame > 0 and _below(pointer, _stack(k, frame)):
        # in the place of the one that is complete
        bump(landing, kernels.LANDING_COUNT, 1)
        return get(landing, kernels.LANDING_ENTRY)
    block = get(landing, kernels.LANDING_BLOCK)
    if target < -1 or not _end(k, frame, block, 0):
        return NOTHING_DONE
    current = _unwind(k, target, pointer, 0)
    if current == NOTHING_DONE:
        return NOTHING_DONE
    _end(k, frame, block, 1)
    _unwind(k, target, pointer, 1)
    if target < 0 and current > 0:
        at = current + kernels.FRAME_RETURN
        put(frames, at, get(frames, at) | ENDED_BIT)
    put(k, kernels.FRAME, current)
    bump(landing, kernels.LANDING_COUNT, 1)
    return get(landing, kernels.LANDING_ENTRY)


_call_land: Any = compiled.for_python(land)
if kernels.PLAIN:
    kernels.PLAIN_PARTS[kernels.LAND_PART] = land
else:

    @kernels.c_function(compiled.types.int64)
    def context_hook(k: int) -> None:
        """Note that the program has set a context: an event of its own, at address `LEFT`."""
        found, successor = block_kernel.follow(k, kernels.LEFT, 0)
        if not found:
            kernels.call_part(get(k, kernels.SEARCH_PART), k, kernels.LEFT, 0)
            return
        operation = block_kernel.take(k, successor, get(k, kernels.INSTRUCTIONS))
        if operation != 0:
            kernels.call_part(get(k, kernels.EXECUTE_PART), k, operation, kernels.LEFT)


def part() -> int:
    """Return the address of `land`, for the clock's LAND_PART."""
    return 1 if kernels.PLAIN else int(_call_land.address)


def context_part() -> int:
    """Return the address of `context_hook`: void(int64 clock)."""
    return int(context_hook.address)
