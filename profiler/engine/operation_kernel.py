"""Lists of operations in native code: where one operation can do the work of two, they are joined.

Imports the kernel only. A list is made where it will lie: its operations are put one behind the
other, and then joined in place.
"""

from __future__ import annotations

from simprof.profiler.engine import kernels
from simprof.profiler.engine.kernels import (
    ADD,
    BEGIN,
    CALL,
    HASH,
    LAST,
    RETURN,
    SEGMENT,
    WINDOW,
    get,
    put,
)
from simprof.simulator.cpu import compiled

_WORD = 8  # bytes
_SIZE = _WORD * kernels.OPERATION


@kernels.inline
def _put(at: int, code: int, a: int, b: int) -> None:
    put(at, 0, code)
    put(at, 1, a)
    put(at, 2, b)


@kernels.jit
def _join(first: int, code: int, c: int, d: int) -> bool:
    """Have the operation at address `first` do what (code, c, d) does behind it, if it can."""
    before, a, b = get(first, 0), get(first, 1), get(first, 2)
    if code == ADD and before in (ADD, BEGIN):
        put(first, 1, a + c)
    elif code == ADD and before == SEGMENT:
        put(first, 2, b + c)
    elif code == SEGMENT and before == ADD:
        _put(first, code, a + c, d)
    elif code == WINDOW and before == CALL and b == 0:
        put(first, 2, c)
    elif code == WINDOW and before == ADD:
        _put(first, kernels.ADD_WINDOW, a, c)
    elif code == WINDOW and before == RETURN and a == 0:
        _put(first, before, c, b)
    else:
        return False
    return True


@kernels.jit
def fuse(at: int, count: int) -> int:
    """Join what can be joined of `count` operations at address `at`; return how many are left."""
    # An operation is joined with the one before it; a move of a window also with a call or a return
    # further ahead, over operations that have nothing to do with windows.
    left = 0
    for place in range(count):
        operation = at + _SIZE * place
        code, a, b = get(operation, 0), get(operation, 1), get(operation, 2)
        partner = left - 1
        if code == WINDOW:
            while partner >= 0 and get(at + _SIZE * partner, 0) & 0xFF in (
                BEGIN,
                ADD,
                SEGMENT,
                HASH,
            ):
                partner -= 1
            if partner < 0:
                partner = left - 1
        if partner < 0 or not _join(at + _SIZE * partner, code, a, b):
            _put(at + _SIZE * left, code, a, b)
            left += 1
    if left > 0:
        last = at + _SIZE * (left - 1)
        put(last, 0, get(last, 0) | LAST)
    return left


call_fuse = compiled.for_python(fuse)
