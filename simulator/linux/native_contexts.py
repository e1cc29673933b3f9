"""Window flushes and the context traps in native code: what `contexts.Contexts` does, faster."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu import traps
from simprof.simulator.cpu.compiled import c_function, types
from simprof.simulator.cpu.cpu_state import CcOp, CpuState
from simprof.simulator.cpu.native import (
    CAN_RESTORE,
    CAN_SAVE,
    CC_OP,
    CWP,
    PSR,
    READ,
    WRITE,
    XCC,
    call1,
    condition_codes,
    copy_wrapped,
    get_word,
    host_range,
    load8,
    load32,
    load64,
    move_window,
    native,
    set_word,
    store8,
    store32,
    store64,
    swap64,
)
from simprof.simulator.isa.sparc import STACK_BIAS_64
from simprof.simulator.linux.contexts import UC_FP, UC_FP_ENABLED, UC_MASK, UC_REGISTERS
from simprof.simulator.linux.signals import UNBLOCKABLE

_GLOBALS, _WINDOW = CpuState.globals.offset, CpuState.window.offset
_PC, _NPC = CpuState.pc.offset, CpuState.npc.offset
_ASI, _FSR = CpuState.asi.offset, CpuState.fsr.offset
_FP: Final = CpuState.fp.offset
_ROUNDING: Final = CpuState.fp_status.offset + 1
_GSR: Final = CpuState.gsr.offset
_CC_SHIFT: Final = 20
_CONTEXT_WORDS: Final = 21
_FP_BYTES: Final = 280
_FP_DOUBLES: Final = 32
_SAVED_FP: Final = 14 * 8  # bytes in front of %fp in a saved window; %i7 follows it


@native(types.boolean(types.uint64, types.uint64))
def _save(state: Any, window: Any) -> Any:
    # Write a window to its place on the stack; False where that cannot be written.
    is64 = get_word(state, traps.TrapWord.IS64)
    size = np.uint64(64) + np.uint64(64) * is64
    regions = get_word(state, traps.TrapWord.REGIONS)
    host = host_range(regions, traps.saved_at(state, window), size, np.uint64(WRITE))
    if host == np.uint64(0):
        return False
    cpu, windows = get_word(state, traps.TrapWord.CPU), get_word(state, traps.TrapWord.WINDOWS)
    move_window(cpu, windows, window, host, 2 * np.int64(is64))
    return True


@native(types.boolean(types.uint64))
def flush(state: Any) -> Any:
    """Write all windows to the stack; False from the first on that cannot be written."""
    cpu, windows = get_word(state, traps.TrapWord.CPU), get_word(state, traps.TrapWord.WINDOWS)
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


# -- contexts


@native(types.void(types.uint64, types.uint64, types.int64))
def _copy(target: Any, source: Any, words: Any) -> None:
    # Copy words of 64 bits between host and program, reversing their bytes.
    for number in range(words):
        offset = np.uint64(8) * np.uint64(number)
        store64(target + offset, swap64(load64(source + offset)))


@native(types.uint64(types.uint64))
def _load_big(host: Any) -> Any:
    return swap64(load64(host))


@native(types.boolean(types.uint64))
def _get_context(state: Any) -> Any:
    # Store the context at %o0; False, with the windows flushed at most, where that fails.
    if not flush(state):
        return False
    cpu, regions = get_word(state, traps.TrapWord.CPU), get_word(state, traps.TrapWord.REGIONS)
    window = load64(cpu + np.uint64(_WINDOW))
    address, write = load64(window), np.uint64(WRITE)
    mask = host_range(regions, address + np.uint64(UC_MASK), np.uint64(8), write)
    size = np.uint64(8 * _CONTEXT_WORDS)
    at = host_range(regions, address + np.uint64(UC_REGISTERS), size, write)
    enabled = host_range(regions, address + np.uint64(UC_FP_ENABLED), np.uint64(1), write)
    if mask == np.uint64(0) or at == np.uint64(0) or enabled == np.uint64(0):
        return False
    asi = np.uint64(load32(cpu + np.uint64(_ASI)) & np.uint32(0xFF))
    _copy(mask, get_word(state, traps.TrapWord.SIGNALS), 1)
    codes = condition_codes(cpu) << np.uint64(32) | asi << np.uint64(24)
    store64(at, swap64(codes))
    _copy(at + np.uint64(8), cpu + np.uint64(_PC), 3)  # pc, npc and y
    _copy(at + np.uint64(32), cpu + np.uint64(_GLOBALS + 8), 7)
    _copy(at + np.uint64(88), window, 8)
    _copy(at + np.uint64(152), window + np.uint64(176), 2)  # %i6 and %i7
    store8(enabled, np.uint8(0))
    return True


@native(types.void(types.uint64, types.uint64))
def _load_registers(cpu: Any, at: Any) -> None:
    window, codes = load64(cpu + np.uint64(_WINDOW)), _load_big(at)
    _copy(cpu + np.uint64(_PC), at + np.uint64(8), 3)
    icc, xcc = (codes >> np.uint64(32)) & np.uint64(15), (codes >> np.uint64(36)) & np.uint64(15)
    store32(cpu + np.uint64(PSR), np.uint32(icc << np.uint64(_CC_SHIFT)))
    store32(cpu + np.uint64(XCC), np.uint32(xcc << np.uint64(_CC_SHIFT)))
    store32(cpu + np.uint64(CC_OP), np.uint32(CcOp.FLAGS))
    store32(cpu + np.uint64(_ASI), np.uint32((codes >> np.uint64(24)) & np.uint64(0xFF)))
    _copy(cpu + np.uint64(_GLOBALS + 8), at + np.uint64(32), 6)  # %g7, the thread pointer, stays
    _copy(window, at + np.uint64(88), 8)


@native(types.void(types.uint64, types.uint64))
def _load_fpu(cpu: Any, at: Any) -> None:
    _copy(cpu + np.uint64(_FP), at, _FP_DOUBLES)
    fsr = _load_big(at + np.uint64(8 * _FP_DOUBLES))
    store64(cpu + np.uint64(_FSR), fsr)
    store64(cpu + np.uint64(_GSR), _load_big(at + np.uint64(8 * _FP_DOUBLES + 16)))
    direction = (np.uint64(4) - ((fsr >> np.uint64(30)) & np.uint64(3))) & np.uint64(3)
    store8(cpu + np.uint64(_ROUNDING), np.uint8(direction))


@native(types.boolean(types.uint64))
def _set_context(state: Any) -> Any:
    # Load the context at %o0; False, with the windows flushed at most, where that fails.
    if not flush(state):
        return False
    cpu, regions = get_word(state, traps.TrapWord.CPU), get_word(state, traps.TrapWord.REGIONS)
    window, read = load64(cpu + np.uint64(_WINDOW)), np.uint64(READ)
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
    stack = _load_big(at + np.uint64(88 + 48)) + np.uint64(STACK_BIAS_64)
    frame = host_range(regions, stack, np.uint64(128), read)
    caller = host_range(regions, stack + np.uint64(_SAVED_FP), np.uint64(16), np.uint64(WRITE))
    if frame == np.uint64(0) or caller == np.uint64(0):
        return False
    blocked = _load_big(mask) if with_mask else np.uint64(0)
    saved_fp, saved_i7 = load64(at + np.uint64(152)), load64(at + np.uint64(160))
    _load_registers(cpu, at)
    if with_fpu:
        _load_fpu(cpu, fpu)
    store64(caller, saved_fp)
    store64(caller + np.uint64(8), saved_i7)
    if with_mask:
        store64(get_word(state, traps.TrapWord.SIGNALS), blocked & ~np.uint64(UNBLOCKABLE))
    windows, current = (
        get_word(state, traps.TrapWord.WINDOWS),
        np.uint64(load32(cpu + np.uint64(CWP))),
    )
    copy_wrapped(cpu, windows, False)
    move_window(cpu, windows, current, frame, 3)
    copy_wrapped(cpu, windows, True)
    return True


@native(types.boolean(types.uint64))
def _replace_context(state: Any) -> Any:
    # Do what the set-context trap asks for, and tell the observer.
    observer = get_word(state, traps.TrapWord.ON_CONTEXT)
    if observer == np.uint64(traps.TELL_PYTHON) or not _set_context(state):
        return False
    clock = get_word(state, traps.TrapWord.CLOCK)
    set_word(clock, traps.ClockWord.REDIRECTED, get_word(clock, traps.ClockWord.INSTRUCTIONS))
    if observer != np.uint64(traps.TELL_NOBODY):
        call1(observer, get_word(state, traps.TrapWord.OBSERVER))
    return True


# setjmp and longjmp of 64-bit programs are made of the context traps, those of 32-bit programs
# flush the register windows. Here they are done without Python, where nothing about them is
# special. Otherwise (memory that may not be used, or that lies in two regions; code that is
# overwritten; an observer that only Python can tell) the trap goes on to Python, which does it as
# if nothing had happened: up to then at most windows have been flushed, and flushing them again
# changes nothing.
#
# This module is imported when a program makes the first such trap, so that others need not load it.
@c_function(types.void(types.uint64, types.uint64))
def handle_context(state: Any, number: Any) -> None:
    """Answer the traps that save and restore contexts; give to Python what is special."""
    # `state` is the address of the trap hook's words. pc is that after the trap.
    cpu = get_word(state, traps.TrapWord.CPU)
    following = load64(cpu + np.uint64(_PC)) + np.uint64(4)
    if get_word(state, traps.TrapWord.IS64) == np.uint64(0):
        following &= np.uint64(0xFFFFFFFF)
    store64(cpu + np.uint64(_NPC), following)
    if number == np.uint64(traps.Trap.FLUSH_WINDOWS):
        done = flush(state)
    elif number == np.uint64(traps.Trap.GET_CONTEXT):
        done = _get_context(state)
    else:
        done = _replace_context(state)
    if not done:
        call1(get_word(state, traps.TrapWord.PYTHON), number)
