"""Which NaN comes out of floating-point operations, in native code (SPARC V9, B.2.2 and B.5).

The engine's arithmetic takes that of two NaNs that x86 would take, makes the largest integer of
every NaN, and forgets that some conversions have met a signalling one. Each function here stands in
front of one of its functions (`engine.redirect`) and calls it for everything else, which costs some
nanoseconds. Values are the bits of numbers; `status` is the engine's `float_status`. With status 0,
a function is told the address of the engine's.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.compiled import CFunction, c_function, call_at, intrinsic, types
from simprof.simulator.cpu.cpu_state import CpuState
from simprof.simulator.cpu.native import kept_word, load8, load64, store8, store64

_FLAGS: Final = 2  # offset in `float_status` of the exceptions that the operation has met
_INVALID: Final = 1
_FSR: Final = CpuState.fsr.offset - CpuState.fp_status.offset  # from `float_status`
_NV_CURRENT, _NV_ACCRUED, _NV_TRAPS = 0x10, 0x200, 1 << 27
# symbol of the engine -> bits of a number, and of its fraction
_FORMATS: Final = {"float32": (32, 23), "float64": (64, 52), "float128": (128, 112)}


@intrinsic
def _call2(typing_context: Any, function: Any, one: Any, status: Any) -> Any:
    """Call uint64(uint64, uint64) at an address."""
    word = types.uint64
    return call_at(word, word, word, result=word)


@intrinsic
def _call3(typing_context: Any, function: Any, one: Any, two: Any, status: Any) -> Any:
    """Call uint64(uint64, uint64, uint64) at an address."""
    word = types.uint64
    return call_at(word, word, word, word, result=word)


_WORDS2 = types.uint64(types.uint64, types.uint64)
_WORDS3 = types.uint64(types.uint64, types.uint64, types.uint64)


def _binary(symbol: str, name: str) -> CFunction:
    # An operation of two operands: of two NaNs the second, unless only the first is signalling.
    bits, fraction = _FORMATS[symbol]
    whole, quiet = np.uint64((1 << bits) - 1), np.uint64(1 << fraction - 1)
    magnitude = np.uint64((1 << bits - 1) - 1)
    infinity = np.uint64((1 << bits - 1) - (1 << fraction))

    def operate(one: Any, two: Any, status: Any) -> Any:
        original = kept_word(status == np.uint64(0), one)
        if status == np.uint64(0):
            return np.uint64(0)
        if one & magnitude <= infinity or two & magnitude <= infinity:
            return _call3(original, one, two, status)
        signals = one & quiet == np.uint64(0)
        if signals or two & quiet == np.uint64(0):
            at = status + np.uint64(_FLAGS)
            store8(at, np.uint8(load8(at) | np.uint8(_INVALID)))
        if signals and two & quiet != np.uint64(0):
            return (one | quiet) & whole
        return (two | quiet) & whole

    operate.__name__ = operate.__qualname__ = name
    return c_function(_WORDS3)(operate)


def _to_integer(symbol: str, name: str, size: int) -> CFunction:
    # A NaN whose sign is set is the least integer.
    bits, fraction = _FORMATS[symbol]
    magnitude, sign = np.uint64((1 << bits - 1) - 1), np.uint64(1 << bits - 1)
    infinity = np.uint64((1 << bits - 1) - (1 << fraction))
    least = np.uint64(1 << size - 1)

    def convert(value: Any, status: Any) -> Any:
        original = kept_word(status == np.uint64(0), value)
        if status == np.uint64(0):
            return np.uint64(0)
        whole = _call2(original, value, status)
        negative = value & sign != np.uint64(0)
        return least if negative and value & magnitude > infinity else whole

    convert.__name__ = convert.__qualname__ = name
    return c_function(_WORDS2)(convert)


def _quad_to_integer(name: str, size: int) -> CFunction:
    magnitude, sign = np.uint64((1 << 63) - 1), np.uint64(1 << 63)
    infinity, least = np.uint64(0x7FFF << 48), np.uint64(1 << size - 1)

    def convert(low: Any, high: Any, status: Any) -> Any:
        original = kept_word(status == np.uint64(0), low)
        if status == np.uint64(0):
            return np.uint64(0)
        whole = _call3(original, low, high, status)
        size = high & magnitude
        is_nan = size > infinity or (size == infinity and low != np.uint64(0))
        return least if is_nan and high & sign != np.uint64(0) else whole

    convert.__name__ = convert.__qualname__ = name
    return c_function(_WORDS3)(convert)


def _quad_narrowed(symbol: str, name: str) -> CFunction:
    # A NaN keeps the upper bits of its fraction, and is quiet.
    bits, fraction = _FORMATS[symbol]
    magnitude, quiet = np.uint64((1 << 63) - 1), np.uint64(1 << 47)
    infinity = np.uint64(0x7FFF << 48)
    result_quiet = np.uint64((1 << bits - 1) - (1 << fraction) | 1 << fraction - 1)
    sign_shift, up = np.uint64(64 - bits), np.uint64(max(fraction - 48, 0))
    down = np.uint64(max(48 - fraction, 0))

    def convert(low: Any, high: Any, status: Any) -> Any:
        original = kept_word(status == np.uint64(0), low)
        if status == np.uint64(0):
            return np.uint64(0)
        size = high & magnitude
        if size < infinity or (size == infinity and low == np.uint64(0)):
            return _call3(original, low, high, status)
        if high & quiet == np.uint64(0):
            at = status + np.uint64(_FLAGS)
            store8(at, np.uint8(load8(at) | np.uint8(_INVALID)))
        part = (high & np.uint64((1 << 48) - 1)) << up >> down
        if up != np.uint64(0):
            part |= low >> (np.uint64(64) - up)
        return (high & np.uint64(1 << 63)) >> sign_shift | result_quiet | part

    convert.__name__ = convert.__qualname__ = name
    return c_function(_WORDS3)(convert)


@c_function(_WORDS2)
def widen(value: Any, status: Any) -> Any:
    """Do `fstod`, after which the engine does not look at the exceptions."""
    original = kept_word(status == np.uint64(0), value)
    if status == np.uint64(0):
        return np.uint64(0)
    wide = _call2(original, value, status)
    at, fsr = status + np.uint64(_FLAGS), load64(status + np.uint64(_FSR))
    # Where they trap the next operation does that.
    if load8(at) & np.uint8(_INVALID) and fsr & np.uint64(_NV_TRAPS) == np.uint64(0):
        store8(at, np.uint8(load8(at) & np.uint8(0xFF ^ _INVALID)))
        store64(status + np.uint64(_FSR), fsr | np.uint64(_NV_CURRENT | _NV_ACCRUED))
    return wide


add32, add64 = _binary("float32", "add32"), _binary("float64", "add64")
subtract32, subtract64 = _binary("float32", "subtract32"), _binary("float64", "subtract64")
multiply32, multiply64 = _binary("float32", "multiply32"), _binary("float64", "multiply64")
divide32, divide64 = _binary("float32", "divide32"), _binary("float64", "divide64")
single_to_word = _to_integer("float32", "single_to_word", 32)
single_to_double_word = _to_integer("float32", "single_to_double_word", 64)
double_to_word = _to_integer("float64", "double_to_word", 32)
double_to_double_word = _to_integer("float64", "double_to_double_word", 64)
quad_to_word = _quad_to_integer("quad_to_word", 32)
quad_to_double_word = _quad_to_integer("quad_to_double_word", 64)
quad_to_single = _quad_narrowed("float32", "quad_to_single")
quad_to_double = _quad_narrowed("float64", "quad_to_double")

STANDS_FOR: Final = {
    "float32_add": add32,
    "float64_add": add64,
    "float32_sub": subtract32,
    "float64_sub": subtract64,
    "float32_mul": multiply32,
    "float64_mul": multiply64,
    "float32_div": divide32,
    "float64_div": divide64,
    "float32_to_int32_round_to_zero": single_to_word,
    "float32_to_int64_round_to_zero": single_to_double_word,
    "float64_to_int32_round_to_zero": double_to_word,
    "float64_to_int64_round_to_zero": double_to_double_word,
    "float128_to_int32_round_to_zero": quad_to_word,
    "float128_to_int64_round_to_zero": quad_to_double_word,
    "float128_to_float32": quad_to_single,
    "float128_to_float64": quad_to_double,
    "float32_to_float64": widen,
}
"""Function of the engine -> what is called instead."""
