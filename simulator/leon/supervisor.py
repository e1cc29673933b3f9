"""SPARC V8's privileged state and traps (SPARC Architecture Manual, Version 8, 4.2, 7, B.26)."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

from simprof.simulator.cpu import cpu_state
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.native import read_condition_codes
from simprof.simulator.isa.decode import simm13

_IMPLEMENTATION: Final = 0xF300_0000  # LEON3
_EC, _EF, _S, _PS, _ET, _CWP = 1 << 13, 1 << 12, 1 << 7, 1 << 6, 1 << 5, 31
_NO_INVALID_WINDOW: Final = 1 << 30


class TrapType(IntEnum):
    """Trap types (SPARC V8 table 7-1)."""

    INSTRUCTION_ACCESS = 0x01
    ILLEGAL_INSTRUCTION = 0x02
    PRIVILEGED_INSTRUCTION = 0x03
    FP_DISABLED = 0x04
    WINDOW_OVERFLOW = 0x05
    WINDOW_UNDERFLOW = 0x06
    NOT_ALIGNED = 0x07
    FP_EXCEPTION = 0x08
    DATA_ACCESS = 0x09
    TAG_OVERFLOW = 0x0A
    INTERRUPT = 0x10  # and its level
    COPROCESSOR_DISABLED = 0x24
    DIVISION_BY_ZERO = 0x2A
    SOFTWARE = 0x80


# The engine is a V9 processor in user mode. Of its window registers, CANSAVE and CANRESTORE say how
# many windows can be taken until the next invalid one in either direction: they follow from CWP and
# WIM, and `save` and `restore` keep them right. In an invalid window, where trap handlers begin,
# both are 0, so that each of these instructions traps and is done here.
class Supervisor:
    """PSR, WIM and TBR of one processor, which begins as boot loaders leave it."""

    def __init__(self, cpu: Cpu) -> None:
        self._cpu = cpu
        self._wim = 1
        self.tbr = 0  # the trap base register, with the type of the last trap
        self.enabled, self.supervisor, self.previous = False, True, True  # PSR's ET, S and PS
        self.level = 0  # PSR's PIL
        self._floating_point = False
        self._arrange()

    # -- registers

    @property
    def psr(self) -> int:
        """The processor state register."""
        codes = read_condition_codes(self._cpu.state)[0] << 20
        flags = _EF * self._floating_point | _S * self.supervisor
        flags |= _PS * self.previous | _ET * self.enabled
        return _IMPLEMENTATION | codes | flags | self.level << 8 | int(self._cpu.state.cwp)

    @psr.setter
    def psr(self, value: int) -> None:
        cpu_state.set_condition_codes(self._cpu.state, value >> 20 & 15, value >> 20 & 15)
        self._floating_point = bool(value & _EF)
        self.supervisor, self.previous = bool(value & _S), bool(value & _PS)
        self.enabled, self.level = bool(value & _ET), value >> 8 & 15
        self.go_to_window(value & _CWP)

    @property
    def wim(self) -> int:
        """The mask of invalid windows."""
        return self._wim

    @wim.setter
    def wim(self, value: int) -> None:
        self._wim = value & ((1 << self._cpu.windows) - 1)
        self._arrange()

    def is_invalid(self, window: int) -> bool:
        """Whether a window, counted around, is marked invalid."""
        return bool(self._wim >> window % self._cpu.windows & 1)

    # -- windows

    @property
    def window(self) -> int:
        """PSR's CWP."""
        return int(self._cpu.state.cwp)

    def go_to_window(self, window: int) -> None:
        """Make a window, counted around, the current one."""
        cpu, state = self._cpu, self._cpu.state
        cpu.sync_wrapped(to_copy=False)
        state.cwp = window % cpu.windows
        first = ctypes.addressof(state) + cpu_state.CpuState.registers.offset
        state.window = first + int(state.cwp) * cpu_state.REGISTERS_PER_WINDOW * 8
        cpu.sync_wrapped(to_copy=True)
        self._arrange()

    def _arrange(self) -> None:
        # The engine is told how far the windows go.
        state, here = self._cpu.state, self.window
        if not self._wim:
            saves = restores = _NO_INVALID_WINDOW
        elif self.is_invalid(here):
            saves = restores = 0
        else:
            around = range(1, self._cpu.windows + 1)
            saves = next(n for n in around if self.is_invalid(here - n)) - 1
            restores = next(n for n in around if self.is_invalid(here + n)) - 1
        state.cansave, state.canrestore = saves, restores
        state.cleanwin = 2 * _NO_INVALID_WINDOW  # registers of a new window may hold anything
        state.otherwin = state.wstate = 0
        state.fprs = cpu_state.FPRS_FEF if self._floating_point else 0

    def operand(self, word: int) -> int:
        """Return the second operand of an instruction: a register, or its immediate."""
        return simm13(word) if word >> 13 & 1 else self._cpu.register(word & 31)

    def move_window(self, word: int, *, fill: bool) -> TrapType | None:
        """Do the `save` or `restore` (`fill`) at hand, or return the trap that it makes."""
        target = self.window + (1 if fill else -1)
        if self.is_invalid(target):
            return TrapType.WINDOW_UNDERFLOW if fill else TrapType.WINDOW_OVERFLOW
        total = self._cpu.register(word >> 14 & 31) + self.operand(word)
        self.go_to_window(target)
        self._cpu.set_register(word >> 25 & 31, total & 0xFFFF_FFFF)
        return None

    # -- traps

    def enter(self, kind: int, pc: int, npc: int) -> int:
        """Enter a trap, as 7.3 has it, of an instruction at `pc`; return its handler's address."""
        self.enabled = False
        self.previous, self.supervisor = self.supervisor, True
        self.go_to_window(self.window - 1)
        self._cpu.set_register(17, pc)
        self._cpu.set_register(18, npc)
        self.tbr = self.tbr & 0xFFFF_F000 | kind << 4
        return self.tbr

    def leave(self, target: int) -> TrapType | None:
        """Do what `rett` does to this state; return the trap that it makes instead, if any."""
        if self.enabled:
            kind = TrapType.ILLEGAL_INSTRUCTION
            return kind if self.supervisor else TrapType.PRIVILEGED_INSTRUCTION
        if not self.supervisor:
            return TrapType.PRIVILEGED_INSTRUCTION
        if self.is_invalid(self.window + 1):
            return TrapType.WINDOW_UNDERFLOW
        if target & 3:
            return TrapType.NOT_ALIGNED
        self.enabled, self.supervisor = True, self.previous
        self.go_to_window(self.window + 1)
        return None
