"""`exploration_kernel` as machine code."""

from __future__ import annotations

from inspect import isfunction

import numpy as np

from simprof.profiler.recovery import exploration_kernel as k
from simprof.profiler.recovery import idioms
from simprof.profiler.recovery.exploration_kernel import Numbers, State
from simprof.simulator.cpu import compiled

_types = compiled.types

if compiled.is_here():
    from numba.extending import register_jitable

    for module in (idioms, k):
        for function in vars(module).values():
            if isfunction(function) and function.__module__ == module.__name__:
                register_jitable(function)


_bytes, _bools = map(compiled.array_of, (_types.uint8, _types.boolean))
_uint32s, _int32s, _int64s = map(compiled.array_of, (_types.uint32, _types.int32, _types.int64))
_table = compiled.array_of(_types.int32, 2)


@compiled.c_function(_types.int64(*[_types.int64] * 7), error_model="numpy", _nrt=False)
def _obey_at(
    places: int, command: int, jump: int, number: int, flags: int, words: int, count: int
) -> int:
    """`obey`; `places` are address and length of the arrays of a state, one by one."""
    p = _int64s(places, 2 * k.ARRAYS)
    n = p[1]
    s = State(
        _uint32s(p[0], n),
        _bytes(p[2], n),
        _bools(p[4], n),
        _int32s(p[6], n),
        _int32s(p[8], n),
        _table(p[10], k.AT_ROWS, n),
        _table(p[12], p[13], k.ROUTINE_COLUMNS),
        _table(p[14], p[15], 2),
        _table(p[16], p[17], 2),
        _table(p[18], p[19], 3),
        _table(p[20], p[21], 2),
        _table(p[22], p[23], 3),
        _table(p[24], p[25], 3),
        _int64s(p[26], k.COUNTS),
    )
    return k.obey(s, command, jump, number, flags, _int64s(words, count))


def obey(s: State, command: int, jump: int, number: int, flags: int, words: Numbers) -> int:
    """Do what the function of this name does in `exploration_kernel`."""
    places = np.array([(each.ctypes.data, len(each)) for each in s], dtype=np.int64)
    given = (command, jump, number, flags, words.ctypes.data, len(words))
    return _obey_at(places.ctypes.data, *given)
