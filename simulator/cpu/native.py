"""What native hooks are made of: access to memory and calls by address, register windows, regions.

Hooks are compiled by numba and kept on disk (`compiled`), so they hold no addresses: they find
everything through arrays of words whose address they are given. Indices and addresses are unsigned
throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.compiled import call_at, intrinsic, ir, jit, types
from simprof.simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, CpuState

# -- memory access and calls by address


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
    """Make what reverses the bytes of a word."""

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


@native(types.uint64(types.uint64, types.uint64, types.uint64, types.uint64))
def host_address(regions: Any, address: Any, size: Any, rights: Any) -> Any:
    """Host address of guest bytes within one page that has `rights`; 0 where there are none."""
    row = region_of(regions, address)
    if row == np.uint64(0):
        return np.uint64(0)
    offset = address - load64(row)
    page = load64(row + np.uint64(24)) + (offset >> np.uint64(13))
    if np.uint64(load8(page)) & rights != rights:
        return np.uint64(0)
    if (offset & np.uint64(8191)) + size > np.uint64(8192):
        return np.uint64(0)
    return load64(row + np.uint64(16)) + offset


CAN_SAVE: Final = CpuState.cansave.offset
CAN_RESTORE: Final = CpuState.canrestore.offset
CWP: Final = CpuState.cwp.offset
REGISTERS: Final = CpuState.registers.offset


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
