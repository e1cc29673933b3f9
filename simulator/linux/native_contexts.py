"""Window flushes and the context traps in native code: what `contexts.Contexts` does, faster.

setjmp and longjmp of 64-bit programs are made of the context traps, those of 32-bit programs flush
the register windows. Here they are done without Python, where nothing about them is special.
Otherwise (memory that may not be used, or that lies in two regions; code that is overwritten; an
observer that only Python can tell) the trap goes on to Python, which does it as if nothing had
happened: up to then at most windows have been flushed, and flushing them again changes nothing.

This module is imported when a program makes the first such trap, so that others need not load it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.address_space import EXECUTED, Protection
from simprof.simulator.cpu.compiled import c_function, types
from simprof.simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, CcOp, CpuState
from simprof.simulator.cpu.native import (
    CAN_RESTORE,
    CAN_SAVE,
    CWP,
    REGISTERS,
    call1,
    copy_wrapped,
    get_word,
    load8,
    load32,
    load64,
    move_window,
    native,
    region_of,
    set_word,
    store8,
    store32,
    store64,
    swap64,
)
from simprof.simulator.cpu.traps import TELL_NOBODY, TELL_PYTHON, ClockWord, ContextTrap, TrapWord
from simprof.simulator.linux.contexts import UC_FP, UC_FP_ENABLED, UC_MASK, UC_REGISTERS
from simprof.simulator.linux.signals import UNBLOCKABLE

_READ: Final = int(Protection.READ)
_WRITE: Final = int(Protection.WRITE)
_GLOBALS: Final = CpuState.globals.offset
_WINDOW: Final = CpuState.window.offset
_PC: Final = CpuState.pc.offset
_NPC: Final = CpuState.npc.offset
_Y: Final = CpuState.y.offset
_CC_SRC: Final = CpuState.cc_src.offset
_CC_SRC2: Final = CpuState.cc_src2.offset
_CC_DST: Final = CpuState.cc_dst.offset
_CC_OP: Final = CpuState.cc_op.offset
_PSR: Final = CpuState.psr.offset
_XCC: Final = CpuState.xcc.offset
_ASI: Final = CpuState.asi.offset
_FSR: Final = CpuState.fsr.offset
_FP: Final = CpuState.fp.offset
_ROUNDING: Final = CpuState.fp_status.offset + 1
_GSR: Final = CpuState.gsr.offset
_CC_SHIFT: Final = 20
_BIAS: Final = 2047
_CONTEXT_WORDS: Final = 21
_FP_BYTES: Final = 280
_FP_DOUBLES: Final = 32
_SAVED_FP: Final = 14 * 8  # bytes in front of %fp in a saved window; %i7 follows it


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
        if rights == np.uint64(_WRITE) and bits & np.uint64(EXECUTED) != np.uint64(0):
            return np.uint64(0)
        page += np.uint64(1)
    return load64(row + np.uint64(16)) + offset


@native(types.uint64(types.uint64, types.uint64))
def _saved_at(state: Any, window: Any) -> Any:
    """Address in the program at which `window` is saved: its %sp without the bias."""
    position = window * np.uint64(REGISTERS_PER_WINDOW) + np.uint64(6)
    cpu = get_word(state, TrapWord.CPU)
    stack = load64(cpu + np.uint64(REGISTERS) + position * np.uint64(8))
    if get_word(state, TrapWord.IS64) != np.uint64(0):
        return stack + np.uint64(_BIAS)
    return stack & np.uint64(0xFFFFFFFF)


@native(types.boolean(types.uint64, types.uint64))
def _save(state: Any, window: Any) -> Any:
    """Write a window to its place on the stack; False where that cannot be written."""
    is64 = get_word(state, TrapWord.IS64)
    size = np.uint64(64) + np.uint64(64) * is64
    regions = get_word(state, TrapWord.REGIONS)
    host = host_range(regions, _saved_at(state, window), size, np.uint64(_WRITE))
    if host == np.uint64(0):
        return False
    cpu, windows = get_word(state, TrapWord.CPU), get_word(state, TrapWord.WINDOWS)
    move_window(cpu, windows, window, host, 2 * np.int64(is64))
    return True


@native(types.boolean(types.uint64))
def flush(state: Any) -> Any:
    """Write all windows to the stack; False from the first on that cannot be written."""
    cpu, windows = get_word(state, TrapWord.CPU), get_word(state, TrapWord.WINDOWS)
    can_restore, can_save = cpu + np.uint64(CAN_RESTORE), cpu + np.uint64(CAN_SAVE)
    copy_wrapped(cpu, windows, False)
    current = np.uint64(load32(cpu + np.uint64(CWP)))
    saved = np.uint64(load32(can_restore))
    while saved > np.uint64(0):
        if not _save(state, (current + saved) % windows):
            return False
        saved -= np.uint64(1)
        store32(can_restore, np.uint32(saved))
        store32(can_save, np.uint32(load32(can_save) + np.uint32(1)))
    return _save(state, current)


@c_function(types.int64(types.uint64))
def flush_windows(state: Any) -> Any:
    """`flush`, for Python."""
    return np.int64(flush(state))


# -- condition codes (see `cpu_state.condition_codes`)


@native(types.uint64(types.uint32, types.uint64, types.uint64, types.uint64, types.uint64))
def _overflow_and_carry(op: Any, source: Any, source2: Any, result: Any, sign: Any) -> Any:
    """V and C, as 2 and 1, of a sum or a difference; the operands have its width."""
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
    """Four bits N Z V C of icc (32 `bits`) or xcc (64)."""
    op = load32(cpu + np.uint64(_CC_OP))
    sign = np.uint64(1) << (bits - np.uint64(1))
    mask = sign | (sign - np.uint64(1))
    first, second = load64(cpu + np.uint64(_CC_SRC)), load64(cpu + np.uint64(_CC_SRC2))
    result = load64(cpu + np.uint64(_CC_DST)) & mask
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
def _condition_codes(cpu: Any) -> Any:
    """Four bits of icc, and above them those of xcc."""
    if load32(cpu + np.uint64(_CC_OP)) <= np.uint32(CcOp.FLAGS):
        icc = np.uint64(load32(cpu + np.uint64(_PSR)) >> np.uint32(_CC_SHIFT)) & np.uint64(15)
        xcc = np.uint64(load32(cpu + np.uint64(_XCC)) >> np.uint32(_CC_SHIFT)) & np.uint64(15)
    else:
        icc, xcc = _lazy_codes(cpu, np.uint64(32)), _lazy_codes(cpu, np.uint64(64))
    return xcc << np.uint64(4) | icc


# -- contexts


@native(types.void(types.uint64, types.uint64))
def _store_big(host: Any, value: Any) -> None:
    store64(host, swap64(value))


@native(types.uint64(types.uint64))
def _load_big(host: Any) -> Any:
    return swap64(load64(host))


@native(types.boolean(types.uint64))
def _get_context(state: Any) -> Any:
    """Store the context at %o0; False, with the windows flushed at most, where that fails."""
    if not flush(state):
        return False
    cpu, regions = get_word(state, TrapWord.CPU), get_word(state, TrapWord.REGIONS)
    window = load64(cpu + np.uint64(_WINDOW))
    address, write = load64(window), np.uint64(_WRITE)
    mask = host_range(regions, address + np.uint64(UC_MASK), np.uint64(8), write)
    size = np.uint64(8 * _CONTEXT_WORDS)
    at = host_range(regions, address + np.uint64(UC_REGISTERS), size, write)
    enabled = host_range(regions, address + np.uint64(UC_FP_ENABLED), np.uint64(1), write)
    if mask == np.uint64(0) or at == np.uint64(0) or enabled == np.uint64(0):
        return False
    asi = np.uint64(load32(cpu + np.uint64(_ASI)) & np.uint32(0xFF))
    _store_big(mask, load64(get_word(state, TrapWord.SIGNALS)))
    _store_big(at, _condition_codes(cpu) << np.uint64(32) | asi << np.uint64(24))
    _store_big(at + np.uint64(8), load64(cpu + np.uint64(_PC)))
    _store_big(at + np.uint64(16), load64(cpu + np.uint64(_NPC)))
    _store_big(at + np.uint64(24), load64(cpu + np.uint64(_Y)))
    for number in range(1, 8):
        offset = np.uint64(number) * np.uint64(8)
        value = load64(cpu + np.uint64(_GLOBALS) + offset)
        _store_big(at + np.uint64(24) + offset, value)
    for number in range(8):
        offset = np.uint64(number) * np.uint64(8)
        _store_big(at + np.uint64(88) + offset, load64(window + offset))
    _store_big(at + np.uint64(152), load64(window + np.uint64(176)))
    _store_big(at + np.uint64(160), load64(window + np.uint64(184)))
    store8(enabled, np.uint8(0))
    return True


@native(types.void(types.uint64, types.uint64))
def _load_registers(cpu: Any, at: Any) -> None:
    window, codes = load64(cpu + np.uint64(_WINDOW)), _load_big(at)
    store64(cpu + np.uint64(_PC), _load_big(at + np.uint64(8)))
    store64(cpu + np.uint64(_NPC), _load_big(at + np.uint64(16)))
    store64(cpu + np.uint64(_Y), _load_big(at + np.uint64(24)))
    icc, xcc = (codes >> np.uint64(32)) & np.uint64(15), (codes >> np.uint64(36)) & np.uint64(15)
    store32(cpu + np.uint64(_PSR), np.uint32(icc << np.uint64(_CC_SHIFT)))
    store32(cpu + np.uint64(_XCC), np.uint32(xcc << np.uint64(_CC_SHIFT)))
    store32(cpu + np.uint64(_CC_OP), np.uint32(CcOp.FLAGS))
    store32(cpu + np.uint64(_ASI), np.uint32((codes >> np.uint64(24)) & np.uint64(0xFF)))
    for number in range(1, 7):  # %g7, the thread pointer, stays
        offset = np.uint64(number) * np.uint64(8)
        store64(cpu + np.uint64(_GLOBALS) + offset, _load_big(at + np.uint64(24) + offset))
    for number in range(8):
        offset = np.uint64(number) * np.uint64(8)
        store64(window + offset, _load_big(at + np.uint64(88) + offset))


@native(types.void(types.uint64, types.uint64))
def _load_fpu(cpu: Any, at: Any) -> None:
    for number in range(_FP_DOUBLES):
        offset = np.uint64(number) * np.uint64(8)
        store64(cpu + np.uint64(_FP) + offset, _load_big(at + offset))
    fsr = _load_big(at + np.uint64(8 * _FP_DOUBLES))
    store64(cpu + np.uint64(_FSR), fsr)
    store64(cpu + np.uint64(_GSR), _load_big(at + np.uint64(8 * _FP_DOUBLES + 16)))
    direction = (np.uint64(4) - ((fsr >> np.uint64(30)) & np.uint64(3))) & np.uint64(3)
    store8(cpu + np.uint64(_ROUNDING), np.uint8(direction))


@native(types.boolean(types.uint64))
def _set_context(state: Any) -> Any:
    """Load the context at %o0; False, with the windows flushed at most, where that fails."""
    if not flush(state):
        return False
    cpu, regions = get_word(state, TrapWord.CPU), get_word(state, TrapWord.REGIONS)
    window, read = load64(cpu + np.uint64(_WINDOW)), np.uint64(_READ)
    address, with_mask = load64(window), load64(window + np.uint64(8)) != np.uint64(0)
    size = np.uint64(8 * _CONTEXT_WORDS)
    at = host_range(regions, address + np.uint64(UC_REGISTERS), size, read)
    mask = host_range(regions, address + np.uint64(UC_MASK), np.uint64(8), read)
    enabled = host_range(regions, address + np.uint64(UC_FP_ENABLED), np.uint64(1), read)
    fpu = host_range(regions, address + np.uint64(UC_FP), np.uint64(_FP_BYTES), read)
    if at == np.uint64(0) or enabled == np.uint64(0):
        return False
    with_fpu = load8(enabled) != np.uint8(0)
    if (with_mask and mask == np.uint64(0)) or (with_fpu and fpu == np.uint64(0)):
        return False
    stack = _load_big(at + np.uint64(88 + 48)) + np.uint64(_BIAS)
    frame = host_range(regions, stack, np.uint64(128), read)
    caller = host_range(regions, stack + np.uint64(_SAVED_FP), np.uint64(16), np.uint64(_WRITE))
    if frame == np.uint64(0) or caller == np.uint64(0):
        return False
    blocked = _load_big(mask) if with_mask else np.uint64(0)
    saved_fp, saved_i7 = _load_big(at + np.uint64(152)), _load_big(at + np.uint64(160))
    _load_registers(cpu, at)
    if with_fpu:
        _load_fpu(cpu, fpu)
    _store_big(caller, saved_fp)
    _store_big(caller + np.uint64(8), saved_i7)
    if with_mask:
        store64(get_word(state, TrapWord.SIGNALS), blocked & ~np.uint64(UNBLOCKABLE))
    windows, current = get_word(state, TrapWord.WINDOWS), np.uint64(load32(cpu + np.uint64(CWP)))
    copy_wrapped(cpu, windows, False)
    move_window(cpu, windows, current, frame, 3)
    copy_wrapped(cpu, windows, True)
    return True


@native(types.boolean(types.uint64))
def _replace_context(state: Any) -> Any:
    """Do what the set-context trap asks for, and tell the observer."""
    observer = get_word(state, TrapWord.ON_CONTEXT)
    if observer == np.uint64(TELL_PYTHON) or not _set_context(state):
        return False
    clock = get_word(state, TrapWord.CLOCK)
    set_word(clock, ClockWord.REDIRECTED, get_word(clock, ClockWord.INSTRUCTIONS))
    if observer != np.uint64(TELL_NOBODY):
        call1(observer, get_word(state, TrapWord.OBSERVER))
    return True


@c_function(types.void(types.uint64, types.uint64))
def handle_context(state: Any, number: Any) -> None:
    """Answer the traps of `traps.ContextTrap`; give to Python what is special."""
    # `state` is the address of the trap hook's words. pc is that after the trap.
    cpu = get_word(state, TrapWord.CPU)
    following = load64(cpu + np.uint64(_PC)) + np.uint64(4)
    if get_word(state, TrapWord.IS64) == np.uint64(0):
        following &= np.uint64(0xFFFFFFFF)
    store64(cpu + np.uint64(_NPC), following)
    if number == np.uint64(ContextTrap.FLUSH):
        done = flush(state)
    elif number == np.uint64(ContextTrap.GET):
        done = _get_context(state)
    else:
        done = _replace_context(state)
    if not done:
        call1(get_word(state, TrapWord.PYTHON), number)
