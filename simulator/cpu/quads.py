"""Floating-point operations that the engine computes wrongly where there are NaNs; `fcmpq`.

Those of quad precision, and `fsmuld`. The engine's own functions compute them, called by address
where no NaN is an operand of theirs. Sources: SPARC V9, 5.1.7, A.14 and B.2.2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.compiled import call_at, intrinsic, types
from simprof.simulator.cpu.cpu_state import FPRS_FEF, CpuState
from simprof.simulator.cpu.native import (
    get_word,
    load8,
    load32,
    load64,
    native,
    store8,
    store32,
    store64,
)
from simprof.simulator.cpu.vis import floating, place

_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE = 0x43, 0x47, 0x4B, 0x4F
_MULTIPLY_SINGLES, _MULTIPLY_DOUBLES = 0x69, 0x6E
_SINGLE_TO_QUAD, _DOUBLE_TO_QUAD = 0xCD, 0xCE
_COMPARE, _COMPARE_ALL = 0x53, 0x57
HELPERS: Final = ("faddq", "fsubq", "fmulq", "fdivq", "fsmuld", "fdmulq", "fstoq", "fdtoq")
"""The engine's functions, in the order of `FPOP1`."""
FPOP1: Final = (
    *(_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _MULTIPLY_SINGLES, _MULTIPLY_DOUBLES),
    *(_SINGLE_TO_QUAD, _DOUBLE_TO_QUAD),
)
FPOP2: Final = (_COMPARE, _COMPARE_ALL)
_FLAGS: Final = CpuState.fp_status.offset + 2
_FSR, _FPRS = CpuState.fsr.offset, CpuState.fprs.offset
_QT0, _QT1 = CpuState.qt0.offset, CpuState.qt1.offset
_INVALID: Final = 0x10
_MAGNITUDE: Final = 0x7FFFFFFFFFFFFFFF
_SIGN: Final = -0x8000000000000000
_INFINITY: Final = 0x7FFF << 48  # the upper half of a quad's
_QUIET: Final = 1 << 47


@intrinsic
def _call(typing_context: Any, function: Any, cpu: Any, one: Any, two: Any) -> Any:
    """Call uint64(uint64, uint64, uint64) at an address."""
    word = types.uint64
    return call_at(word, word, word, word, result=word)


@native(types.int64(types.uint64, types.int64, types.int64))
def _upper(cpu: Any, number: Any, operation: Any) -> Any:
    # The upper half of an operand as a quad; of a NaN that is not a quad its fraction, moved.
    if operation in (_MULTIPLY_SINGLES, _SINGLE_TO_QUAD):
        value = floating(cpu, number, True)
        nan = (value & 0x7FFFFFFF) > 0x7F800000
        return (value >> 31) << 63 | _INFINITY | (value & 0x7FFFFF) << 25 if nan else 0
    if operation in (_MULTIPLY_DOUBLES, _DOUBLE_TO_QUAD):
        value = floating(cpu, number, False)
        nan = (value & _MAGNITUDE) > 0x7FF0000000000000
        # What does not go into this half is in the other one.
        return (value & _SIGN) | _INFINITY | (value & (1 << 52) - 1) >> 4 if nan else 0
    return floating(cpu, number, False)


@native(types.int64(types.uint64, types.int64, types.int64))
def _lower(cpu: Any, number: Any, operation: Any) -> Any:
    if operation in (_MULTIPLY_SINGLES, _SINGLE_TO_QUAD):
        return 0
    if operation in (_MULTIPLY_DOUBLES, _DOUBLE_TO_QUAD):
        value = floating(cpu, number, False)
        return (value & 15) << 60 if (value & _MAGNITUDE) > 0x7FF0000000000000 else 0
    return np.int64(load64(place(cpu, number) + np.uint64(8)))


@native(types.boolean(types.int64, types.int64))
def _is_nan(upper: Any, lower: Any) -> Any:
    size = upper & _MAGNITUDE
    return size > _INFINITY or (size == _INFINITY and lower != 0)


@native(types.boolean(types.uint64, types.int64))
def _note(cpu: Any, flags: Any) -> Any:
    # Note the exceptions of an operation, as bits of %fsr; False where one of them traps.
    fsr = np.int64(load64(cpu + np.uint64(_FSR))) & ~0x1C01F | flags
    traps = flags & fsr >> 23 & 0x1F
    fsr |= 1 << 14 if traps != 0 else flags << 5
    store64(cpu + np.uint64(_FSR), np.uint64(fsr))
    return traps == 0


@native(types.int64(types.uint64))
def _met(cpu: Any) -> Any:
    # The exceptions that the engine's functions have met, which are told apart otherwise there.
    met = np.int64(load8(cpu + np.uint64(_FLAGS)))
    store8(cpu + np.uint64(_FLAGS), np.uint8(0))
    flags = (met & 1) << 4 | (met >> 2 & 1) << 1 | (met >> 3 & 1) << 3
    return flags | (met >> 4 & 1) << 2 | met >> 5 & 1


@native(types.void(types.uint64, types.int64, types.int64, types.int64, types.int64))
def _set(cpu: Any, operation: Any, rd: Any, upper: Any, lower: Any) -> None:
    fprs = load32(cpu + np.uint64(_FPRS)) | np.uint32(FPRS_FEF)  # as Linux enables the FPU
    store32(cpu + np.uint64(_FPRS), fprs | (np.uint32(2) if rd & 1 else np.uint32(1)))
    store64(place(cpu, rd), np.uint64(upper))
    if operation != _MULTIPLY_SINGLES:
        store64(place(cpu, rd) + np.uint64(8), np.uint64(lower))


@native(types.void(types.uint64, types.int64, types.int64))
def _hand_over(cpu: Any, number: Any, at: Any) -> None:
    store64(cpu + np.uint64(at), load64(place(cpu, number) + np.uint64(8)))
    store64(cpu + np.uint64(at + 8), load64(place(cpu, number)))


@native(types.int64(types.uint64, types.uint64, types.int64, types.int64, types.int64))
def _engines(cpu: Any, helpers: Any, operation: Any, rs1: Any, rs2: Any) -> Any:
    # Have the engine's function compute; a result of quad precision is in QT0.
    singles = operation in (_MULTIPLY_SINGLES, _SINGLE_TO_QUAD)
    one, two = floating(cpu, rs1, singles), floating(cpu, rs2, singles)
    number = 0
    if operation <= _DIVIDE:
        number = operation - _ADD >> 2
        _hand_over(cpu, rs1, _QT0)
        _hand_over(cpu, rs2, _QT1)
    elif operation <= _MULTIPLY_DOUBLES:
        number = 4 if operation == _MULTIPLY_SINGLES else 5
    else:
        number, one = operation - _SINGLE_TO_QUAD + 6, two
    helper = get_word(helpers, np.uint64(number))
    return np.int64(_call(helper, cpu, np.uint64(one), np.uint64(two)))


@native(
    types.boolean(types.uint64, types.uint64, types.int64, types.int64, types.int64, types.int64)
)
def compute(cpu: Any, helpers: Any, operation: Any, rd: Any, rs1: Any, rs2: Any) -> Any:
    """Do an operation of `FPOP1`; False where it raises an exception that traps."""
    upper, lower = _upper(cpu, rs2, operation), _lower(cpu, rs2, operation)
    nan = _is_nan(upper, lower)
    flags = _INVALID if nan and upper & _QUIET == 0 else 0
    if operation < _SINGLE_TO_QUAD:
        other, rest = _upper(cpu, rs1, operation), _lower(cpu, rs1, operation)
        if _is_nan(other, rest):
            # The second one's, unless it is quiet and the first is not.
            if not nan or (other & _QUIET == 0 and flags == 0):
                upper, lower = other, rest
            flags |= _INVALID if other & _QUIET == 0 else 0
            nan = True
    if nan:
        upper |= _QUIET
        if operation == _MULTIPLY_SINGLES:  # as a double
            upper = upper & _SIGN | 0x7FF0000000000000 | (upper & (1 << 48) - 1) << 4
    else:
        upper = _engines(cpu, helpers, operation, rs1, rs2)
        flags = _met(cpu)
        if operation != _MULTIPLY_SINGLES:
            upper = np.int64(load64(cpu + np.uint64(_QT0 + 8)))
            lower = np.int64(load64(cpu + np.uint64(_QT0)))
    if not _note(cpu, flags):
        return False
    _set(cpu, operation, rd, upper, lower)
    return True


@native(types.boolean(types.uint64, types.int64, types.int64, types.int64, types.int64))
def compare(cpu: Any, operation: Any, rd: Any, rs1: Any, rs2: Any) -> Any:
    """Do `fcmpq` or `fcmpeq`; False where it raises an exception that traps."""
    one, low1 = _upper(cpu, rs1, 0), np.uint64(_lower(cpu, rs1, 0))
    two, low2 = _upper(cpu, rs2, 0), np.uint64(_lower(cpu, rs2, 0))
    nan1, nan2 = _is_nan(one, np.int64(low1)), _is_nan(two, np.int64(low2))
    flags = 0
    if nan1 or nan2:
        relation = 3
        signals = (nan1 and one & _QUIET == 0) or (nan2 and two & _QUIET == 0)
        flags = _INVALID if signals or operation == _COMPARE_ALL else 0
    elif one == two and low1 == low2:
        relation = 0
    elif (one | two) & _MAGNITUDE == 0 and low1 | low2 == np.uint64(0):
        relation = 0  # zeros of any sign
    else:
        less = one < two or (one == two and low1 < low2)
        if one < 0:  # a larger magnitude is less; as numbers, so is each negative upper half
            less = two >= 0 or one > two or (one == two and low1 > low2)
        relation = 1 if less else 2
    if not _note(cpu, flags):
        return False
    at = 10 if rd & 3 == 0 else 30 + 2 * (rd & 3)
    fsr = np.int64(load64(cpu + np.uint64(_FSR))) & ~(3 << at) | relation << at
    store64(cpu + np.uint64(_FSR), np.uint64(fsr))
    return True
