"""What native hooks are made of: access to memory, calls by address, register windows, regions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.address_space import EXECUTED, Protection
from simprof.simulator.cpu.compiled import c_function, call_at, intrinsic, ir, jit, types
from simprof.simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, CcOp, CpuState

# -- memory access and calls by address


# Hooks are compiled by numba and kept on disk (`compiled`), so they hold no addresses: they find
# everything through arrays of words whose address they are given. Indices and addresses are
# unsigned throughout.
def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _make_load(bits: int, result: Any) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_pointer(builder, arguments[0], bits), align=1)

        return result(types.uint64), generate

    return load


def _make_store(bits: int, value_type: Any) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], _pointer(builder, arguments[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, value_type), generate

    return store


load8 = _make_load(8, types.uint8)
load32 = _make_load(32, types.uint32)
load64 = _make_load(64, types.uint64)
store8 = _make_store(8, types.uint8)
store32 = _make_store(32, types.uint32)
store64 = _make_store(64, types.uint64)


def _make_swap(kind: Any) -> Any:
    # Make what reverses the bytes of a word.
    @intrinsic
    def swap(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bswap(arguments[0])

        return kind(kind), generate

    return swap


swap32 = _make_swap(types.uint32)
swap64 = _make_swap(types.uint64)


@intrinsic
def pointer_value(typing_context: Any, pointer: Any) -> Any:
    """A pointer as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.uint64(types.voidptr), generate


@intrinsic
def call1(typing_context: Any, function: Any, argument: Any) -> Any:
    """Call void(uint64) at an address."""
    return call_at(types.uint64, types.uint64)


@intrinsic
def call2(typing_context: Any, function: Any, first: Any, second: Any) -> Any:
    """Call void(uint64, uint64) at an address."""
    return call_at(types.uint64, types.uint64, types.uint64)


@intrinsic
def call3(typing_context: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
    """Call void(uint64, uint64, uint64) at an address."""
    return call_at(types.uint64, types.uint64, types.uint64, types.uint64)


@intrinsic
def kept_word(typing_context: Any, store: Any, value: Any) -> Any:
    """One 64-bit word that lives in the compiled module: set it, or read it."""
    # For handlers of the host's signals, which are given nothing else to work on.

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        name = "simprof.signal.word"
        kept = builder.module.globals.get(name)
        if kept is None:
            kept = ir.GlobalVariable(builder.module, word, name)
            kept.linkage = "internal"
            kept.initializer = ir.Constant(word, 0)
        with builder.if_then(arguments[0]):
            builder.store(arguments[1], kept)
        return builder.load(kept)

    return types.uint64(types.boolean, types.uint64), generate


@intrinsic
def call_control(typing_context: Any, function: Any, engine: Any, code: Any) -> Any:
    """Call int(void *, int, ...) at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, short = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(short, [word, short], var_arg=True)
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [arguments[1], builder.trunc(arguments[2], short)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


def native(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for other native code, cached on disk."""
    return jit(signature, boundscheck=False, inline="never")


@native(types.uint64(types.uint64, types.uint64))
def get_word(base: int, index: int) -> int:
    """Word `index` of the int64 array at `base`."""
    return load64(base + np.uint64(index) * np.uint64(8))  # type: ignore[no-any-return]


@native(types.void(types.uint64, types.uint64, types.uint64))
def set_word(base: int, index: int, value: int) -> None:
    """Set word `index` of the int64 array at `base`."""
    store64(base + index * np.uint64(8), value)


# -- memory


@native(types.uint64(types.uint64, types.uint64))
def region_of(regions: Any, address: Any) -> Any:
    """Address of the row of the region that an address is in (`AddressSpace.table`), or 0."""
    row = regions + np.uint64(8)
    for _ in range(load64(regions)):
        if address - load64(row) < load64(row + np.uint64(8)):
            return row
        row += np.uint64(32)
    return np.uint64(0)


READ, WRITE = int(Protection.READ), int(Protection.WRITE)


@native(types.uint64(types.uint64, types.uint64, types.uint64, types.uint64))
def host_range(regions: Any, address: Any, size: Any, rights: Any) -> Any:
    """Host address of guest bytes of one region whose pages all have `rights`, or 0."""
    # Also 0 where bytes are to be written that have been executed: Python must know.
    row = region_of(regions, address)
    if row == np.uint64(0):
        return np.uint64(0)
    offset = address - load64(row)
    if offset + size > load64(row + np.uint64(8)):
        return np.uint64(0)
    pages = load64(row + np.uint64(24))
    last = (offset + size - np.uint64(1)) >> np.uint64(13)
    page = offset >> np.uint64(13)
    while page <= last:
        bits = np.uint64(load8(pages + page))
        if bits & rights != rights:
            return np.uint64(0)
        if rights == np.uint64(WRITE) and bits & np.uint64(EXECUTED) != np.uint64(0):
            return np.uint64(0)
        page += np.uint64(1)
    return load64(row + np.uint64(16)) + offset


# -- registers

CAN_SAVE, CAN_RESTORE = CpuState.cansave.offset, CpuState.canrestore.offset
CWP, REGISTERS = CpuState.cwp.offset, CpuState.registers.offset
CC_OP, CC_SRC = CpuState.cc_op.offset, CpuState.cc_src.offset
CC_SRC2, CC_DST = CpuState.cc_src2.offset, CpuState.cc_dst.offset
PSR: Final = CpuState.psr.offset  # icc and, in XCC, xcc lie in bits 20..23
XCC: Final = CpuState.xcc.offset


@native(types.void(types.uint64, types.uint64, types.boolean))
def copy_wrapped(cpu: Any, windows: Any, to_copy: Any) -> None:
    """The outs of the last window live twice: copy register file -> engine's copy, or back."""
    if np.uint64(load32(cpu + np.uint64(CWP))) != windows - np.uint64(1):
        return
    first = cpu + np.uint64(REGISTERS)
    copy = first + windows * np.uint64(8 * REGISTERS_PER_WINDOW)
    for number in range(8):
        offset = np.uint64(number) * np.uint64(8)
        if to_copy:
            store64(copy + offset, load64(first + offset))
        else:
            store64(first + offset, load64(copy + offset))


@native(types.void(types.uint64, types.uint64, types.uint64, types.uint64, types.int64))
def move_window(cpu: Any, windows: Any, window: Any, host: Any, mode: Any) -> None:
    """Store %l and %i of a window at `host` or load them; mode = fill + 2 * is64."""
    total = windows * np.uint64(REGISTERS_PER_WINDOW)
    index = window * np.uint64(REGISTERS_PER_WINDOW) + np.uint64(8)
    for number in range(16):
        if index >= total:
            index -= total
        register = cpu + np.uint64(REGISTERS) + index * np.uint64(8)
        if mode == 3:
            store64(register, swap64(load64(host + np.uint64(number) * np.uint64(8))))
        elif mode == 2:
            store64(host + np.uint64(number) * np.uint64(8), swap64(load64(register)))
        elif mode == 1:
            value = swap32(load32(host + np.uint64(number) * np.uint64(4)))
            store64(register, np.uint64(value))
        else:
            low = np.uint32(load64(register) & np.uint64(0xFFFFFFFF))
            store32(host + np.uint64(number) * np.uint64(4), swap32(low))
        index += np.uint64(1)


# -- condition codes


@native(types.uint64(types.uint32, types.uint64, types.uint64, types.uint64, types.uint64))
def _overflow_and_carry(op: Any, source: Any, source2: Any, result: Any, sign: Any) -> Any:
    # V and C, as 2 and 1, of a sum or a difference; the operands have its width.
    added = op >= np.uint32(CcOp.ADD) and op <= np.uint32(CcOp.TADDTV)
    if op == np.uint32(CcOp.ADDX):
        carries = (source & source2) | (~result & (source | source2))
        carry = carries & sign != np.uint64(0)
    elif op == np.uint32(CcOp.SUBX):
        carries = (~source & source2) | (result & (~source | source2))
        carry = carries & sign != np.uint64(0)
    elif added:
        carry = result < source
    else:
        carry = source < source2
    differ = source ^ source2
    if added:
        differ = ~differ
    flags = np.uint64(1) if carry else np.uint64(0)
    if differ & (source ^ result) & sign != np.uint64(0):
        flags |= np.uint64(2)
    return flags


@native(types.uint64(types.uint64, types.uint64))
def _lazy_codes(cpu: Any, bits: Any) -> Any:
    # Four bits N Z V C of icc (32 `bits`) or xcc (64).
    op = load32(cpu + np.uint64(CC_OP))
    sign = np.uint64(1) << (bits - np.uint64(1))
    mask = sign | (sign - np.uint64(1))
    first = load64(cpu + np.uint64(CC_SRC))
    second = load64(cpu + np.uint64(CC_SRC2))
    result = load64(cpu + np.uint64(CC_DST)) & mask
    flags = np.uint64(8) if result & sign != np.uint64(0) else np.uint64(0)
    if result == np.uint64(0):
        flags |= np.uint64(4)
    if op >= np.uint32(CcOp.ADD) and op <= np.uint32(CcOp.TSUBTV):
        flags |= _overflow_and_carry(op, first & mask, second & mask, result, sign)
    if bits == np.uint64(32):
        if op == np.uint32(CcOp.DIV) and second != np.uint64(0):
            flags |= np.uint64(2)
        if op == np.uint32(CcOp.TADDTV) or op == np.uint32(CcOp.TSUBTV):
            flags &= ~np.uint64(2)
        tagged = op == np.uint32(CcOp.TADD) or op == np.uint32(CcOp.TSUB)
        if tagged and (first | second) & np.uint64(3) != np.uint64(0):
            flags |= np.uint64(2)
    return flags


@native(types.uint64(types.uint64))
def condition_codes(cpu: Any) -> Any:
    """Four bits of icc, and above them those of xcc."""
    if load32(cpu + np.uint64(CC_OP)) <= np.uint32(CcOp.FLAGS):
        icc = np.uint64(load32(cpu + np.uint64(PSR)) >> np.uint32(20))
        xcc = np.uint64(load32(cpu + np.uint64(XCC)) >> np.uint32(20))
    else:
        icc, xcc = _lazy_codes(cpu, np.uint64(32)), _lazy_codes(cpu, np.uint64(64))
    return (xcc & np.uint64(15)) << np.uint64(4) | icc & np.uint64(15)


@c_function(types.int64(types.uint64))
def _codes_at(cpu: Any) -> Any:
    return np.int64(condition_codes(cpu))


def read_condition_codes(state: CpuState) -> tuple[int, int]:
    """Return (icc, xcc), each as four bits N Z V C (SPARC V9 5.2.8)."""
    codes = _codes_at(ctypes.addressof(state))
    return codes & 15, codes >> 4
