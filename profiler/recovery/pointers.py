"""Routines that only pointers reach, in code that no symbol covers.

A stripped program passes `main` to its start-up routine as a constant. Such constants are
taken as routine starts where they lead to a prologue (`save %sp, ..., %sp`): no other code starts
with one, so a label whose address is taken (a jump table's, a computed goto's) is never mistaken.
Leaf routines, which have no prologue, are found when a run enters them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.idioms import PROLOGUE, PROLOGUE_MASK
from simprof.profiler.recovery.routines import NOBODY, RoutineMap
from simprof.simulator.binary.program import Program

_REACH = 8  # words between a `sethi` and the `or` or `add` that completes it


def function_pointers(program: Program, code: CodeImage, routine_map: RoutineMap) -> set[int]:
    """Return word indices of prologues that nobody covers and whose address the program holds."""
    prologues = np.flatnonzero(code.is_code & ((code.words & PROLOGUE_MASK) == PROLOGUE))
    bare = [index for index in prologues.tolist() if routine_map.owner(index) == NOBODY]
    if not bare:
        return set()
    held = are_held(program, code, code.place.addresses(np.array(bare, dtype=np.int64)))
    return {index for index, used in zip(bare, held.tolist(), strict=True) if used}


def are_held(program: Program, code: CodeImage, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return, of each of `addresses`, whether the program has it in data or makes it in code."""
    asked = addresses.astype(np.uint64)
    found = [values[np.isin(values, asked)] for values in (*_in_data(program), *_in_code(code))]
    held: NDArray[np.bool_] = np.isin(asked, np.concatenate(found))
    return held


def _in_data(program: Program) -> Iterator[NDArray[np.uint64]]:
    """Yield all aligned pointer-sized words of the program's segments."""
    size = 8 if program.is64 else 4
    for segment in program.segments:
        skip = -segment.address % size
        data = segment.data[skip : skip + (len(segment.data) - skip) // size * size]
        yield np.frombuffer(data, dtype=f">u{size}").astype(np.uint64)


def _in_code(code: CodeImage) -> Iterator[NDArray[np.uint64]]:
    """Yield all constants that `sethi` and a following `or` or `add` with immediate make."""
    words = code.words
    sethi = np.flatnonzero(((words >> 30) == 0) & (((words >> 22) & 7) == 4))
    high = ((words[sethi] & 0x3FFFFF) << 10).astype(np.uint64)
    register = (words[sethi] >> 25) & 31
    yield np.zeros(0, dtype=np.uint64)
    for distance in range(1, _REACH + 1):
        inside = sethi + distance < len(words)
        second = words[sethi[inside] + distance]
        op3 = (second >> 19) & 63
        fits = ((second >> 30) == 2) & ((op3 == 2) | (op3 == 0)) & ((second >> 13) & 1 == 1)
        fits &= ((second >> 14) & 31) == register[inside]
        low = (second[fits] & 0x1FFF).astype(np.uint64)
        yield high[inside][fits] + low
