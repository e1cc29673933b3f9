"""Routines that only pointers reach, in code that no symbol covers.

A stripped program passes `main` to its start-up routine as a constant. Such constants are
taken as routine starts where they lead to a prologue (`save %sp, ..., %sp`): no other code starts
with one, so a label whose address is taken (a jump table's, a computed goto's) is never mistaken.
Leaf routines, which have no prologue, are found when a run enters them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from profiler.recovery.code_image import CodeImage
from profiler.recovery.routines import NOBODY, RoutineMap
from simulator.binary.program import Program

_SAVE_STACK, _SAVE_MASK = 0x9DE38000, 0xFFFFC000
_REACH = 8  # words between a `sethi` and the `or` or `add` that completes it


def function_pointers(program: Program, code: CodeImage, routine_map: RoutineMap) -> set[int]:
    """Return word indices of prologues that nobody covers and whose address the program holds."""
    prologues = np.flatnonzero(code.is_code & ((code.words & _SAVE_MASK) == _SAVE_STACK))
    bare = [index for index in prologues.tolist() if routine_map.owner(index) == NOBODY]
    if not bare:
        return set()
    addresses = np.array([code.address(index) for index in bare], dtype=np.uint64)
    held = np.isin(addresses, np.concatenate([_in_data(program), _in_code(code)]))
    return {index for index, used in zip(bare, held.tolist(), strict=True) if used}


def _in_data(program: Program) -> NDArray[np.uint64]:
    """All aligned pointer-sized words of the program's segments."""
    size = 8 if program.is64 else 4
    values = [np.zeros(0, dtype=np.uint64)]
    for segment in program.segments:
        skip = -segment.address % size
        data = segment.data[skip : skip + (len(segment.data) - skip) // size * size]
        values.append(np.frombuffer(data, dtype=f">u{size}").astype(np.uint64))
    return np.unique(np.concatenate(values))


def _in_code(code: CodeImage) -> NDArray[np.uint64]:
    """All constants that `sethi` and a following `or` or `add` with immediate make."""
    words = code.words
    sethi = np.flatnonzero(((words >> 30) == 0) & (((words >> 22) & 7) == 4))
    high = ((words[sethi] & 0x3FFFFF) << 10).astype(np.uint64)
    register = (words[sethi] >> 25) & 31
    addresses = []
    for distance in range(1, _REACH + 1):
        inside = sethi + distance < len(words)
        second = words[sethi[inside] + distance]
        op3 = (second >> 19) & 63
        fits = ((second >> 30) == 2) & ((op3 == 2) | (op3 == 0)) & ((second >> 13) & 1 == 1)
        fits &= ((second >> 14) & 31) == register[inside]
        low = (second[fits] & 0x1FFF).astype(np.uint64)
        addresses.append(high[inside][fits] + low)
    return np.unique(np.concatenate(addresses)) if addresses else np.zeros(0, dtype=np.uint64)
