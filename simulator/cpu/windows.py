"""Register windows in native code: moving one between the register file and the stack."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simprof.simulator.cpu.compiled import types
from simprof.simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, CpuState
from simprof.simulator.cpu.native import load32, load64, native, store32, store64, swap32, swap64

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
