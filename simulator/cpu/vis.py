"""VIS instructions that the engine computes wrongly, in native code.

Sources: VIS Instruction Set User's Manual, chapter 4; UltraSPARC Architecture 2005, chapter 7.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.compiled import types
from simprof.simulator.cpu.cpu_state import FPRS_FEF, CcOp, CpuState
from simprof.simulator.cpu.native import (
    CC_DST,
    CC_OP,
    CC_SRC,
    CC_SRC2,
    load32,
    load64,
    native,
    store32,
    store64,
)

_EDGES: Final = 12  # opf 0 to 11: bit 0 "sets no condition codes", bit 1 little-endian, then size
_ARRAY8, ARRAY32 = 0x10, 0x14
_COMPARES: Final = (0x20, 0x24, 0x28, 0x2C)  # fcmple16, fcmple32, fcmpgt16, fcmpgt32
_GREATER: Final = 0x28
_MUL8X16, _MUL8X16AU, _MUL8X16AL, _MUL8ULX16 = 0x31, 0x33, 0x35, 0x37
_MULD8SUX16, _MULD8ULX16 = 0x38, 0x39
_MERGE, _SHUFFLE, _EXPAND = 0x4B, 0x4C, 0x4D
# opf of the instructions below, and of those that are right with their operands exchanged.
DONE_HERE: Final = (
    *(*range(_EDGES), _ARRAY8, 0x12, ARRAY32, *_COMPARES, _MUL8X16, _MUL8X16AU, _MUL8X16AL),
    *(_MUL8ULX16, _MULD8SUX16, _MULD8ULX16, _MERGE, _SHUFFLE, _EXPAND),
)
EXCHANGED: Final = (0x54, 0x55, 0x56)  # fpsub16, fpsub16s, fpsub32
_GLOBALS, _WINDOW = CpuState.globals.offset, CpuState.window.offset
_FP, _GSR, _FPRS = CpuState.fp.offset, CpuState.gsr.offset, CpuState.fprs.offset


# -- registers, whose values are bits here: int64 throughout


@native(types.int64(types.int64, types.int64, types.int64))
def lane(value: Any, number: Any, bits: Any) -> Any:
    """Part `number` of a value, unsigned; 0 is the least significant."""
    return value >> number * bits & (1 << bits) - 1


@native(types.int64(types.int64, types.int64, types.int64))
def _signed(value: Any, number: Any, bits: Any) -> Any:
    return lane(value, number, bits) << 64 - bits >> 64 - bits


@native(types.uint64(types.uint64, types.int64))
def _register(cpu: Any, number: Any) -> Any:
    # Host address of an integer register.
    if number < 8:
        return cpu + np.uint64(_GLOBALS + 8 * number)
    return load64(cpu + np.uint64(_WINDOW)) + np.uint64(8 * (number - 8))


@native(types.int64(types.uint64, types.int64))
def _integer(cpu: Any, number: Any) -> Any:
    return 0 if number == 0 else np.int64(load64(_register(cpu, number)))


@native(types.void(types.uint64, types.int64, types.int64))
def _set_integer(cpu: Any, number: Any, value: Any) -> None:
    if number != 0:
        store64(_register(cpu, number), np.uint64(value))


@native(types.uint64(types.uint64, types.int64))
def place(cpu: Any, number: Any) -> Any:
    """Host address of a double register: bit 0 of its number is the highest of its place."""
    return cpu + np.uint64(_FP + 8 * ((number & 1) << 4 | number >> 1))


@native(types.int64(types.uint64, types.int64, types.boolean))
def floating(cpu: Any, number: Any, single: Any) -> Any:
    """Bits of a double or a single register."""
    if not single:
        return np.int64(load64(place(cpu, number)))
    pair = np.int64(load64(cpu + np.uint64(_FP + 8 * (number >> 1))))
    return lane(pair, 1 - (number & 1), 32)


# -- integer registers as results


@native(types.int64(types.int64, types.int64, types.int64, types.boolean))
def _edge(operation: Any, one: Any, two: Any, is64: Any) -> Any:
    # Which parts of the word of 8 bytes at `one` lie within [one, two].
    size = operation >> 2  # parts have 1 << size bytes
    count = 8 >> size
    differ = one ^ two if is64 else lane(one ^ two, 0, 32)
    result = 0
    for number in range(count):
        ends = differ >> 3 == 0 and number > (two & 7) >> size
        if number >= (one & 7) >> size and not ends:
            result |= 1 << (number if operation & 2 else count - 1 - number)
    return result


@native(types.void(types.uint64, types.int64, types.int64))
def _subtract_codes(cpu: Any, one: Any, two: Any) -> None:
    store64(cpu + np.uint64(CC_SRC), np.uint64(one))
    store64(cpu + np.uint64(CC_SRC2), np.uint64(two))
    store64(cpu + np.uint64(CC_DST), np.uint64(one - two))
    store32(cpu + np.uint64(CC_OP), np.uint32(CcOp.SUB))


@native(types.int64(types.int64, types.int64, types.int64))
def _array(operation: Any, one: Any, two: Any) -> Any:
    # Three integers of 11, 11 and 9 bits, each after 11 bits of fraction; a cube has 64 << n sides.
    n = two if two >= 0 and two < 5 else 5
    x, y, z = one >> 11, one >> 33, one >> 55
    lower = x & 3 | (y & 3) << 2 | (z & 1) << 4
    middle = x >> 2 & 15 | (y >> 2 & 15) << 4 | (z >> 1 & 15) << 8
    upper = lane(x >> 6, 0, n) | lane(y >> 6, 0, n) << n | (z >> 5 & 15) << 2 * n
    return (lower | middle << 5 | upper << 17) << (operation - _ARRAY8 >> 1)


@native(types.int64(types.int64, types.int64, types.int64))
def _compare(operation: Any, one: Any, two: Any) -> Any:
    bits = 32 if operation & 4 else 16
    result = 0
    for number in range(64 // bits):
        greater = _signed(one, number, bits) > _signed(two, number, bits)
        if greater == (operation >= _GREATER):
            result |= 1 << number
    return result


# -- floating-point registers as results


@native(types.int64(types.int64, types.int64, types.int64, types.int64))
def _product(operation: Any, one: Any, two: Any, number: Any) -> Any:
    # Products have 24 bits. Two operations keep them; the others their upper 16, rounded, and one
    # of these takes them for 32 bits. Ties are rounded upwards.
    factor = _signed(two, number, 16)
    if operation == _MULD8SUX16:
        return _signed(one, 2 * number + 1, 8) * factor << 8
    if operation == _MULD8ULX16:
        return lane(one, 2 * number, 8) * factor
    if operation == _MUL8ULX16:
        return lane(one, 2 * number, 8) * factor + 0x8000 >> 16
    if operation != _MUL8X16:
        factor = _signed(two, 1 if operation == _MUL8X16AU else 0, 16)
    return lane(one, number, 8) * factor + 0x80 >> 8


@native(types.int64(types.int64, types.int64, types.int64, types.int64))
def _result(operation: Any, one: Any, two: Any, gsr: Any) -> Any:
    bits = 8
    if operation < _MERGE:
        bits = 32 if operation in (_MULD8SUX16, _MULD8ULX16) else 16
    result = 0
    for number in range(64 // bits):
        if operation < _MERGE:
            part = _product(operation, one, two, number)
        elif operation == _MERGE:
            part = lane(one if number & 1 else two, number >> 1, 8)
        elif operation == _SHUFFLE:  # bytes are numbered from the most significant of both on
            choice = lane(gsr, 8 + number, 4)
            part = lane(one if choice < 8 else two, 7 - (choice & 7), 8)
        else:  # _EXPAND
            part = lane(two, number >> 1, 8) << 4 >> (0 if number & 1 == 0 else 8)
        result |= lane(part, 0, bits) << number * bits
    return result


# -- an instruction


@native(types.void(types.uint64, types.int64, types.int64, types.int64, types.int64, types.boolean))
def execute_integer(cpu: Any, operation: Any, rd: Any, rs1: Any, rs2: Any, is64: Any) -> None:
    """Do an edge or array instruction."""
    one, two = _integer(cpu, rs1), _integer(cpu, rs2)
    if operation >= _ARRAY8:
        _set_integer(cpu, rd, _array(operation, one, two))
        return
    _set_integer(cpu, rd, _edge(operation, one, two, is64))
    if operation & 1 == 0:
        _subtract_codes(cpu, one, two)


@native(types.void(types.uint64, types.int64, types.int64, types.int64, types.int64))
def execute_floating(cpu: Any, operation: Any, rd: Any, rs1: Any, rs2: Any) -> None:
    """Do one with operands in floating-point registers."""
    of_singles = operation in (_MERGE, _EXPAND, _MULD8SUX16)
    of_singles = of_singles or operation == _MULD8ULX16
    of_singles = of_singles or operation in (_MUL8X16AU, _MUL8X16AL)
    one = floating(cpu, rs1, of_singles or operation == _MUL8X16)
    two = floating(cpu, rs2, of_singles)
    fprs = load32(cpu + np.uint64(_FPRS)) | np.uint32(FPRS_FEF)  # as Linux enables the FPU
    if operation < _MUL8X16:
        _set_integer(cpu, rd, _compare(operation, one, two))
    else:
        gsr = np.int64(load64(cpu + np.uint64(_GSR)))
        store64(place(cpu, rd), np.uint64(_result(operation, one, two, gsr)))
        fprs |= np.uint32(2) if rd & 1 else np.uint32(1)  # which half of the registers is changed
    store32(cpu + np.uint64(_FPRS), fprs)
