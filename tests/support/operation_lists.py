"""Lists of operations that are joined: by the kernel, and by an oracle in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from simprof.profiler.engine import kernels, transition_kernel
from simprof.profiler.engine.memory import Operation


def joined(operations: Sequence[Operation]) -> list[Operation]:
    """Return what the kernel makes of a list (`transition_kernel.fuse`), without `LAST`."""
    words = np.array(operations, np.int64).ravel()
    left = transition_kernel.call_fuse(words.ctypes.data, len(operations))
    rows = words.reshape(-1, kernels.OPERATION)[:left].tolist()
    assert all(
        (code & kernels.LAST != 0) == (row == left) for row, (code, _, _) in enumerate(rows, 1)
    )
    return [(code & ~kernels.LAST, a, b) for code, a, b in rows]


# Operations that have nothing to do with register windows.
_OF_REGISTERS = (kernels.BEGIN, kernels.ADD, kernels.SEGMENT, kernels.HASH)


def fuse(operations: Iterable[Operation]) -> list[Operation]:
    """Join operations where one does the work of two: neighbours, and calls with window moves."""
    fused: list[Operation] = []
    for operation in operations:
        partner = _partner(fused, operation)
        joined = _join(fused[partner], operation) if partner >= 0 else None
        if joined is None:
            fused.append(operation)
        else:
            fused[partner] = joined
    return fused


def _partner(fused: Sequence[Operation], operation: Operation) -> int:
    """Return the place of the operation that the next one may be joined with, -1 for none."""
    last = place = len(fused) - 1
    if operation[0] == kernels.WINDOW:
        while place >= 0 and fused[place][0] & 0xFF in _OF_REGISTERS:
            place -= 1
    return last if place < 0 else place


def _join(first: Operation, second: Operation) -> Operation | None:
    """One operation that does `first` then `second`, or None."""
    code, a, b = first
    next_code, c, d = second
    match code, next_code:
        case ((kernels.ADD | kernels.BEGIN), kernels.ADD):
            return code, a + c, b
        case kernels.CALL, kernels.WINDOW if b == 0:
            return code, a, c
        case kernels.ADD, kernels.WINDOW:
            return kernels.ADD_WINDOW, a, c
        case kernels.RETURN, kernels.WINDOW if a == 0:
            return code, c, b
        case kernels.SEGMENT, kernels.ADD:
            return code, a, b + c
        case kernels.ADD, kernels.SEGMENT:
            return next_code, a + c, d
    return None
