"""Native hooks: what the engine calls while it runs, compiled by numba.

Three functions and one handler, each a C function pointer (`address`) with the state it works on
behind `user_data`:

- `count_block`: the block hook used where no observer is given; keeps the instruction count and
  stops at the limit.
- `handle_trap`: window spill and fill traps; every other trap goes on to Python.
- `fill_translation`: page rights, from the address space's page tables.
- `check_code`: called when the engine translates code; what lies in the program's own, unchanged
  code passes, anything else goes on to Python.
- `SignalHandler`: SIGINT while the engine runs.

The compiled code is cached on disk, so it holds no addresses: it finds everything through the
arrays below, Python callbacks included. Indices and addresses are unsigned throughout.

Trap location. The engine sets pc = npc before it reports a trap, so the trapping pc is rebuilt:
npc - 4 where that is an instruction of the current block which can make such a trap, otherwise
the block's last word, which then is a delay slot.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from simulator.cpu.address_space import CHANGED, EXECUTED
from simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, SYSTEM_PAGE, CpuState
from simulator.cpu.guest import Protection


class ClockWord(IntEnum):
    """Words of the clock, int64[32]: shared by block hook, traps and machine."""

    INSTRUCTIONS = 0  # executed so far, the current block counted whole
    LIMIT = 1  # stop before a block that would pass it; -1: stop now
    BLOCK_ADDRESS = 2
    BLOCK_SIZE = 3  # bytes
    STOPPED = 4  # the hook called the stop function
    STOP_FUNCTION = 5  # C address of uc_emu_stop
    ENGINE = 6  # its argument
    NPC_POINTER = 7  # host address of npc
    RESUME_PC = 8  # where execution resumes inside a block
    RESUME_END = 9  # end of that block
    STATE = 10  # the observer's state; RESUME_STATE: the next event is a continuation
    RESUMED_STATE = 11  # STATE before that
    WINDOW_POINTER = 12  # host address of the pointer to the current window's %o0
    INTERRUPTED = 13  # one of Interruption


RESUME_STATE: Final = 1
CLOCK_WORDS: Final = 32


class Interruption(IntEnum):
    """Why LIMIT was set to -1 from outside."""

    NONE = 0
    USER = 1  # Ctrl-C
    TIMEOUT = 2
    ERROR = 3  # a Python callback failed; the exception is kept


class TrapWord(IntEnum):
    """Words of the trap hook's state, int64[16]."""

    CLOCK = 0  # address of the clock
    CPU = 1  # address of the CpuState
    REGIONS = 2  # address of the region table
    PYTHON = 3  # void(uint32): traps that are not handled natively
    SPILLS = 4  # counts
    FILLS = 5
    IS64 = 6
    WINDOWS = 7


class FillWord(IntEnum):
    """Words of the translation hook's state, int64[16]."""

    REGIONS = 0
    FAULT_ACCESS = 1  # Access of the last refused request, or 0
    FAULT_RIGHTS = 2  # page byte of the page then
    FILLS = 3  # count
    NEXT_FLUSH = 4  # count at which the engine's cache is next flushed, so that it grows
    STEP = 5  # fills between flushes: doubles up to MOST_FILLS
    FLUSH_FUNCTION = 6  # C address of uc_ctl
    FLUSH_ENGINE = 7  # its arguments
    FLUSH_CODE = 8


class CodeWord(IntEnum):
    """Words of the code hook's state, int64[8 + 2 * ranges]: then (start, end) of each range."""

    REGIONS = 0
    PYTHON = 1  # void(uint64 address, uint32 bytes): code that must be looked at
    COUNT = 2
    FIRST = 8


MAX_CODE_RANGES: Final = 4096
FIRST_FLUSH: Final = 1000
MOST_FILLS: Final = 1 << 20

_TRAP_WORDS: Final = 16
_CAN_SAVE: Final = CpuState.cansave.offset
_CAN_RESTORE: Final = CpuState.canrestore.offset
_CWP: Final = CpuState.cwp.offset
_PC: Final = CpuState.pc.offset
_NPC: Final = CpuState.npc.offset
_REGISTERS: Final = CpuState.registers.offset
_SPILL_TRAPS: Final = 0x80
_FILL_TRAPS: Final = 0xC0
_TRAPS_END: Final = 0x100
_OP_SAVE: Final = 0x81E00000
_OP_RESTORE: Final = 0x81E80000
_OP_RETURN: Final = 0x81C80000
_OP_FLUSHW: Final = 0x81580000
_OP_MASK: Final = 0xC1F80000
_RIGHT_READ: Final = int(Protection.READ)
_RIGHT_WRITE: Final = int(Protection.WRITE)
_RIGHT_EXECUTE: Final = int(Protection.EXECUTE)
_ACCESS_READ: Final = 16
_ACCESS_WRITE: Final = 17
_ACCESS_FETCH: Final = 18


# -- memory access and calls by address

_intrinsic: Callable[[Any], Any] = intrinsic


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _make_load(bits: int, result: Any) -> Any:
    @_intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_pointer(builder, arguments[0], bits), align=1)

        return result(types.uint64), generate

    return load


def _make_store(bits: int, value_type: Any) -> Any:
    @_intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], _pointer(builder, arguments[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, value_type), generate

    return store


_load8 = _make_load(8, types.uint8)
_load32 = _make_load(32, types.uint32)
_load64 = _make_load(64, types.uint64)
_store8 = _make_store(8, types.uint8)
_store32 = _make_store(32, types.uint32)
_store64 = _make_store(64, types.uint64)


@_intrinsic
def _swap32(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint32(types.uint32), generate


@_intrinsic
def _swap64(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@_intrinsic
def _address_of(typing_context: Any, pointer: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.uint64(types.voidptr), generate


@_intrinsic
def _call1(typing_context: Any, function: Any, argument: Any) -> Any:
    """Call void(uint64) at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), [arguments[1]])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@_intrinsic
def _call2(typing_context: Any, function: Any, first: Any, second: Any) -> Any:
    """Call void(uint64, uint64) at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word])
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [arguments[1], arguments[2]])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


@_intrinsic
def _call_control(typing_context: Any, function: Any, engine: Any, code: Any) -> Any:
    """Call int(void *, int, ...) at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, short = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(short, [word, short], var_arg=True)
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [arguments[1], builder.trunc(arguments[2], short)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


def _native(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    return numba.njit(  # type: ignore[no-any-return]
        signature, cache=True, error_model="numpy", boundscheck=False, inline="never"
    )


def _word_at(base: int, index: int) -> int:
    """Word `index` of the int64 array at `base`."""
    return _load64(base + np.uint64(index) * np.uint64(8))  # type: ignore[no-any-return]


_word = _native(types.uint64(types.uint64, types.uint64))(_word_at)


@_native(types.void(types.uint64, types.uint64, types.uint64))
def _set_word(base: int, index: int, value: int) -> None:
    _store64(base + index * np.uint64(8), value)


# -- blocks


@cfunc(types.void(types.voidptr, types.uint64, types.uint32, types.voidptr), cache=True)
def count_block(engine: Any, address: Any, size: Any, user_data: Any) -> None:
    """Count a block's instructions; stop before it where the limit would be passed."""
    clock = _address_of(user_data)
    total = np.int64(_word(clock, ClockWord.INSTRUCTIONS)) + np.int64(size >> 2)
    if total > np.int64(_word(clock, ClockWord.LIMIT)):
        npc = _load64(_word(clock, ClockWord.NPC_POINTER))
        if npc == address + np.uint64(4):
            _set_word(clock, ClockWord.STOPPED, np.uint64(1))
            _call1(_word(clock, ClockWord.STOP_FUNCTION), _word(clock, ClockWord.ENGINE))
            return
    _set_word(clock, ClockWord.INSTRUCTIONS, np.uint64(total))
    _set_word(clock, ClockWord.BLOCK_ADDRESS, address)
    _set_word(clock, ClockWord.BLOCK_SIZE, np.uint64(size))


# -- memory


@_native(types.uint64(types.uint64, types.uint64, types.uint64, types.uint64))
def _host_address(regions: Any, address: Any, size: Any, rights: Any) -> Any:
    """Host address of guest bytes within one page that has `rights`; 0 where there are none."""
    count = _load64(regions)
    row = regions + np.uint64(8)
    for _ in range(count):
        offset = address - _load64(row)
        if offset < _load64(row + np.uint64(8)):
            page = _load64(row + np.uint64(24)) + (offset >> np.uint64(13))
            if np.uint64(_load8(page)) & rights != rights:
                return np.uint64(0)
            if (offset & np.uint64(8191)) + size > np.uint64(8192):
                return np.uint64(0)
            return _load64(row + np.uint64(16)) + offset
        row += np.uint64(32)
    return np.uint64(0)


@_native(types.void(types.uint64))
def _count_fill(state: Any) -> None:
    """Count a fill; where they are frequent, flush the engine's cache: it then grows.

    (The cache starts with 256 entries and is resized only when flushed. Flushing in the middle of
    a fill is allowed: the engine looks its entry up again afterwards.)
    """
    fills = _word(state, FillWord.FILLS) + np.uint64(1)
    _set_word(state, FillWord.FILLS, fills)
    if fills == _word(state, FillWord.NEXT_FLUSH):
        step = _word(state, FillWord.STEP)
        if step < np.uint64(MOST_FILLS):
            step *= np.uint64(2)
        _set_word(state, FillWord.STEP, step)
        _set_word(state, FillWord.NEXT_FLUSH, fills + step)
        _call_control(
            _word(state, FillWord.FLUSH_FUNCTION),
            _word(state, FillWord.FLUSH_ENGINE),
            _word(state, FillWord.FLUSH_CODE),
        )


@cfunc(
    types.boolean(types.voidptr, types.uint64, types.int32, types.voidptr, types.voidptr),
    cache=True,
)
def fill_translation(engine: Any, address: Any, kind: Any, result: Any, user_data: Any) -> Any:
    """Grant a page's rights, or refuse.

    Reading and writing are granted together (the engine's translation cache has one entry for
    both). Execution is granted only on a fetch: a page that can be executed is slow to write
    to. From a page's first fetch on it is granted always, so that the engine sees writes to
    code that it has translated. Our own page can be executed and nothing else.
    """
    state = _address_of(user_data)
    _count_fill(state)
    if kind == _ACCESS_READ:
        need = np.uint8(_RIGHT_READ)
    elif kind == _ACCESS_WRITE:
        need = np.uint8(_RIGHT_WRITE)
    else:
        need = np.uint8(_RIGHT_EXECUTE)
    table = _word(state, FillWord.REGIONS)
    count = _load64(table)
    row = table + np.uint64(8)
    rights = np.uint8(0)
    for _ in range(count):
        offset = address - _load64(row)
        if offset < _load64(row + np.uint64(8)):
            page = _load64(row + np.uint64(24)) + (offset >> np.uint64(13))
            rights = _load8(page)
            if rights & need == np.uint8(0):
                break
            if kind == _ACCESS_FETCH:
                rights |= np.uint8(EXECUTED)
                _store8(page, rights)
            granted = rights & np.uint8(_RIGHT_READ | _RIGHT_WRITE)
            if rights & np.uint8(EXECUTED) != np.uint8(0):
                granted |= rights & np.uint8(_RIGHT_EXECUTE)
            _store64(_address_of(result), address)
            _store32(_address_of(result) + np.uint64(8), np.uint32(granted))
            return True
        row += np.uint64(32)
    if address == np.uint64(SYSTEM_PAGE) and kind == _ACCESS_FETCH:
        _store64(_address_of(result), address)
        _store32(_address_of(result) + np.uint64(8), np.uint32(_RIGHT_EXECUTE))
        return True
    _set_word(state, FillWord.FAULT_ACCESS, np.uint64(kind))
    _set_word(state, FillWord.FAULT_RIGHTS, np.uint64(rights))
    return False


@_native(types.boolean(types.uint64, types.uint64))
def _is_unchanged(regions: Any, address: Any) -> Any:
    count = _load64(regions)
    row = regions + np.uint64(8)
    for _ in range(count):
        offset = address - _load64(row)
        if offset < _load64(row + np.uint64(8)):
            page = _load8(_load64(row + np.uint64(24)) + (offset >> np.uint64(13)))
            return bool(page & np.uint8(CHANGED) == np.uint8(0))
        row += np.uint64(32)
    return False


@cfunc(types.void(types.voidptr, types.voidptr, types.voidptr, types.voidptr), cache=True)
def check_code(engine: Any, block: Any, previous: Any, user_data: Any) -> None:
    """Pass code of the program that cannot have changed; give the rest to Python."""
    state = _address_of(user_data)
    address = _load64(_address_of(block))
    size = np.uint64(_load32(_address_of(block) + np.uint64(8)) >> np.uint32(16))
    row = state + np.uint64(8 * CodeWord.FIRST)
    for _ in range(_word(state, CodeWord.COUNT)):
        if _load64(row) <= address and address + size <= _load64(row + np.uint64(8)):
            if _is_unchanged(_word(state, CodeWord.REGIONS), address):
                return
            break
        row += np.uint64(16)
    _call2(_word(state, CodeWord.PYTHON), address, size)


# -- window traps


@_native(types.boolean(types.uint32, types.boolean))
def _uses_windows(word: Any, fill: Any) -> Any:
    """Whether an instruction can make a fill trap (or else a spill trap)."""
    operation = word & np.uint32(_OP_MASK)
    if fill:
        return operation == np.uint32(_OP_RESTORE) or operation == np.uint32(_OP_RETURN)
    return operation == np.uint32(_OP_SAVE) or operation == np.uint32(_OP_FLUSHW)


@_native(types.boolean(types.uint64, types.uint64, types.boolean))
def _is_window_instruction(regions: Any, pc: Any, fill: Any) -> Any:
    host = _host_address(regions, pc, np.uint64(4), np.uint64(0))
    return host != np.uint64(0) and _uses_windows(_swap32(_load32(host)), fill)


@_native(types.boolean(types.uint64, types.uint64, types.uint64))
def jumps_to(regions: Any, pc: Any, target: Any) -> Any:
    """Whether the instruction at `pc` may transfer control to `target`.

    `regions` is the address of the region table.
    """
    host = _host_address(regions, pc, np.uint64(4), np.uint64(0))
    if host == np.uint64(0):
        return False
    word = _swap32(_load32(host))
    format_ = word >> np.uint32(30)
    if format_ == np.uint32(2):
        operation = (word >> np.uint32(19)) & np.uint32(63)
        return operation == np.uint32(0x38) or operation == np.uint32(0x39)
    displacement = (target - pc) >> np.uint64(2)
    if format_ == np.uint32(1):
        return np.uint32(displacement) & np.uint32(0x3FFFFFFF) == word & np.uint32(0x3FFFFFFF)
    if format_ != np.uint32(0):
        return False
    kind = (word >> np.uint32(22)) & np.uint32(7)
    if kind == np.uint32(2) or kind == np.uint32(6):
        bits = np.uint32(0x3FFFFF)
    elif kind == np.uint32(1) or kind == np.uint32(5):
        bits = np.uint32(0x7FFFF)
    elif kind == np.uint32(3):
        near = (word & np.uint32(0x3FFF)) | ((word >> np.uint32(6)) & np.uint32(0xC000))
        return np.uint32(displacement) & np.uint32(0xFFFF) == near
    else:
        return False
    return np.uint32(displacement) & bits == word & bits


@_native(types.uint64(types.uint64, types.uint64, types.uint64, types.boolean))
def _trapping_pc(regions: Any, clock: Any, npc: Any, fill: Any) -> Any:
    """Address of the instruction that made a window trap; 1 where that cannot be known."""
    start = _word(clock, ClockWord.BLOCK_ADDRESS)
    end = start + _word(clock, ClockWord.BLOCK_SIZE)
    inside = npc - np.uint64(4)
    slot = end - np.uint64(4)
    from_inside = start <= inside < end and _is_window_instruction(regions, inside, fill)
    from_slot = _is_window_instruction(regions, slot, fill)
    if inside == slot:
        return slot if from_slot else np.uint64(1)
    if from_inside and from_slot and jumps_to(regions, slot - np.uint64(4), npc):
        return np.uint64(1)
    if from_inside:
        return inside
    return slot if from_slot else np.uint64(1)


@_native(types.void(types.uint64, types.uint64, types.boolean))
def _copy_wrapped(cpu: Any, windows: Any, to_copy: Any) -> None:
    """The outs of the last window live twice: copy register file -> engine's copy, or back."""
    if np.uint64(_load32(cpu + np.uint64(_CWP))) != windows - np.uint64(1):
        return
    first = cpu + np.uint64(_REGISTERS)
    copy = first + windows * np.uint64(8 * REGISTERS_PER_WINDOW)
    for number in range(8):
        offset = np.uint64(number) * np.uint64(8)
        if to_copy:
            _store64(copy + offset, _load64(first + offset))
        else:
            _store64(first + offset, _load64(copy + offset))


@_native(types.void(types.uint64, types.uint64, types.uint64, types.uint64, types.int64))
def _move_window(cpu: Any, windows: Any, window: Any, host: Any, mode: Any) -> None:
    """Store %l and %i of a window at `host` or load them; mode = fill + 2 * is64."""
    total = windows * np.uint64(REGISTERS_PER_WINDOW)
    index = window * np.uint64(REGISTERS_PER_WINDOW) + np.uint64(8)
    for number in range(16):
        if index >= total:
            index -= total
        register = cpu + np.uint64(_REGISTERS) + index * np.uint64(8)
        if mode == 3:
            _store64(register, _swap64(_load64(host + np.uint64(number) * np.uint64(8))))
        elif mode == 2:
            _store64(host + np.uint64(number) * np.uint64(8), _swap64(_load64(register)))
        elif mode == 1:
            value = _swap32(_load32(host + np.uint64(number) * np.uint64(4)))
            _store64(register, np.uint64(value))
        else:
            low = np.uint32(_load64(register) & np.uint64(0xFFFFFFFF))
            _store32(host + np.uint64(number) * np.uint64(4), _swap32(low))
        index += np.uint64(1)


@_native(types.boolean(types.uint64, types.boolean))
def _spill_or_fill(state: Any, fill: Any) -> Any:
    """Move one window; False where its place on the stack cannot be used."""
    cpu = _word(state, TrapWord.CPU)
    windows = _word(state, TrapWord.WINDOWS)
    is64 = _word(state, TrapWord.IS64) != np.uint64(0)
    _copy_wrapped(cpu, windows, False)
    saved = np.uint64(_load32(cpu + np.uint64(_CAN_RESTORE)))
    distance = np.uint64(1) if fill else saved
    window = (np.uint64(_load32(cpu + np.uint64(_CWP))) + distance) % windows
    position = window * np.uint64(REGISTERS_PER_WINDOW) + np.uint64(6)
    stack = _load64(cpu + np.uint64(_REGISTERS) + position * np.uint64(8))
    if is64:
        stack += np.uint64(2047)
        size = np.uint64(128)
    else:
        stack &= np.uint64(0xFFFFFFFF)
        size = np.uint64(64)
    right = np.uint64(_RIGHT_READ if fill else _RIGHT_WRITE)
    host = _host_address(_word(state, TrapWord.REGIONS), stack, size, right)
    if host == np.uint64(0) or stack & np.uint64(7) != np.uint64(0):
        return False
    _move_window(cpu, windows, window, host, np.int64(fill) + 2 * np.int64(is64))
    change = np.uint32(1) if fill else np.uint32(0xFFFFFFFF)
    can_restore = cpu + np.uint64(_CAN_RESTORE)
    can_save = cpu + np.uint64(_CAN_SAVE)
    _store32(can_restore, np.uint32(_load32(can_restore) + change))
    _store32(can_save, np.uint32(_load32(can_save) - change))
    if fill:
        _copy_wrapped(cpu, windows, True)
    return True


@_native(types.void(types.uint64, types.uint64))
def _resume_in_block(clock: Any, pc: Any) -> None:
    """Take back what the block hook counted from `pc` to the block's end."""
    start = _word(clock, ClockWord.BLOCK_ADDRESS)
    end = start + _word(clock, ClockWord.BLOCK_SIZE)
    count = _word(clock, ClockWord.INSTRUCTIONS) - ((end - pc) >> np.uint64(2))
    _set_word(clock, ClockWord.INSTRUCTIONS, count)
    _set_word(clock, ClockWord.RESUME_PC, pc)
    _set_word(clock, ClockWord.RESUME_END, end)
    if _word(clock, ClockWord.STATE) != np.uint64(RESUME_STATE):
        _set_word(clock, ClockWord.RESUMED_STATE, _word(clock, ClockWord.STATE))
        _set_word(clock, ClockWord.STATE, np.uint64(RESUME_STATE))


@cfunc(types.void(types.voidptr, types.uint32, types.voidptr), cache=True)
def handle_trap(engine: Any, number: Any, user_data: Any) -> None:
    """Answer window traps; give every other trap, and what fails, to Python."""
    state = _address_of(user_data)
    if number >= np.uint32(_SPILL_TRAPS) and number < np.uint32(_TRAPS_END):
        fill = number >= np.uint32(_FILL_TRAPS)
        cpu = _word(state, TrapWord.CPU)
        clock = _word(state, TrapWord.CLOCK)
        npc = _load64(cpu + np.uint64(_PC))
        pc = _trapping_pc(_word(state, TrapWord.REGIONS), clock, npc, fill)
        if pc != np.uint64(1) and _spill_or_fill(state, fill):
            count = np.uint64(TrapWord.FILLS if fill else TrapWord.SPILLS)
            _set_word(state, count, _word(state, count) + np.uint64(1))
            _resume_in_block(clock, pc)
            _store64(cpu + np.uint64(_PC), pc)
            _store64(cpu + np.uint64(_NPC), npc)
            return
    _call1(_word(state, TrapWord.PYTHON), np.uint64(number))


# -- Ctrl-C


@_intrinsic
def _kept_word(typing_context: Any, store: Any, value: Any) -> Any:
    """One 64-bit word that lives in the compiled module: set it, or read it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        name = "simprof.signal.clock"
        kept = builder.module.globals.get(name)
        if kept is None:
            kept = ir.GlobalVariable(builder.module, word, name)
            kept.linkage = "internal"
            kept.initializer = ir.Constant(word, 0)
        with builder.if_then(arguments[0]):
            builder.store(arguments[1], kept)
        return builder.load(kept)

    return types.uint64(types.boolean, types.uint64), generate


@cfunc(types.void(types.int32, types.uint64), cache=True)
def _on_signal(number: Any, argument: Any) -> None:
    """C signal handler. Called with number -1 by us: remember the clock at `argument`."""
    clock = _kept_word(number == np.int32(-1), argument)
    if number == np.int32(-1) or clock == np.uint64(0):
        return
    if _word(clock, ClockWord.INTERRUPTED) == np.uint64(0):
        _set_word(clock, ClockWord.INTERRUPTED, np.uint64(1))
    _set_word(clock, ClockWord.LIMIT, np.uint64(0xFFFFFFFFFFFFFFFF))


class SignalHandler:
    """Makes a signal stop the run whose clock is given.

    Use as a context manager. The previous disposition comes back at the end.
    """

    _SIGACTION_SIZE: Final = 256  # bytes, more than struct sigaction has

    def __init__(self, clock: NDArray[np.int64], number: int) -> None:
        self._clock = clock
        self._number = number
        self._libc = ctypes.CDLL(None)
        self._previous = ctypes.create_string_buffer(self._SIGACTION_SIZE)

    def __enter__(self) -> None:
        self._remember(self._clock.ctypes.data)
        self._libc.sigaction(self._number, None, self._previous)
        action = ctypes.create_string_buffer(self._SIGACTION_SIZE)  # no flags, empty mask
        ctypes.c_uint64.from_buffer(action).value = address_of(_on_signal)
        self._libc.sigaction(self._number, action, None)

    def __exit__(self, *error: object) -> None:
        self._libc.sigaction(self._number, self._previous, None)
        self._remember(0)

    @staticmethod
    def _remember(address: int) -> None:
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_uint64)
        kind(address_of(_on_signal))(-1, address)


def address_of(function: Any) -> int:
    """Return the C address of one of the hooks above."""
    return int(function.address)
