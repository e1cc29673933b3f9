"""From hardware traps to signals: which signal, which code, which address (Linux/SPARC)."""

from __future__ import annotations

from dataclasses import dataclass

from simprof.simulator.cpu.cpu import Cpu, MemoryAccess
from simprof.simulator.linux.signals import Signal, SignalInfo
from simprof.simulator.machine.shadows import is_reserved
from simprof.simulator.machine.trapping import Trap, effective_address


@dataclass(frozen=True)
class FaultKind:
    """The signal that a fault raises, its si_code, and what happened in words."""

    signal: Signal
    code: int
    text: str
    address: int | None = None


_ILL_ILLOPC, _ILL_ILLTRP, _ILL_PRVOPC = 1, 4, 5
_FPE_INTDIV = 1
_BUS_ADRALN = 1
_SEGV_MAPERR, _SEGV_ACCERR = 1, 2
_TRAP_BRKPT = 1
_EMT_TAGOVF = 1

# fsr.cexc bit -> (si_code, what)
_FP_CAUSES = (
    (0x10, 7, "invalid floating-point operation"),
    (0x08, 4, "floating-point overflow"),
    (0x04, 5, "floating-point underflow"),
    (0x02, 3, "floating-point division by zero"),
    (0x01, 6, "inexact floating-point result"),
)

_FIXED = {
    Trap.PRIVILEGED_OPCODE: FaultKind(Signal.ILL, _ILL_PRVOPC, "privileged instruction"),
    Trap.PRIVILEGED_ACTION: FaultKind(Signal.ILL, _ILL_PRVOPC, "privileged access"),
    Trap.TAG_OVERFLOW: FaultKind(Signal.EMT, _EMT_TAGOVF, "tag overflow"),
    Trap.DIVISION_BY_ZERO: FaultKind(Signal.FPE, _FPE_INTDIV, "integer division by zero"),
    Trap.SOFTWARE_DIVISION: FaultKind(Signal.FPE, _FPE_INTDIV, "integer division by zero"),
    Trap.BREAKPOINT: FaultKind(Signal.TRAP, _TRAP_BRKPT, "breakpoint trap"),
}


def trap_fault(number: int, cpu: Cpu, pc: int, word: int) -> FaultKind:
    """Say what trap `number` by instruction `word` at `pc` means to the program."""
    fixed = _FIXED.get(Trap(number)) if number in list(Trap) else None
    if fixed is not None:
        return FaultKind(fixed.signal, fixed.code, fixed.text, pc)
    if number in (Trap.UNALIGNED, Trap.UNALIGNED_LDDF, Trap.UNALIGNED_STDF):
        address = effective_address(cpu, word)
        return FaultKind(Signal.BUS, _BUS_ADRALN, "unaligned access", address)
    if number in (Trap.DATA_ACCESS, Trap.DATA_ACCESS_MMU, Trap.DATA_MISS):
        address = effective_address(cpu, word)
        return FaultKind(Signal.SEGV, _SEGV_MAPERR, "access in an alternate space", address)
    if number in (Trap.FP_EXCEPTION, Trap.FP_OTHER):
        return _floating_point_fault(int(cpu.state.fsr), pc)
    if number >= Trap.SOFTWARE:
        text = f"software trap {number - Trap.SOFTWARE:#x}, which Linux does not define"
        return FaultKind(Signal.ILL, _ILL_ILLTRP, text, pc)
    return FaultKind(Signal.ILL, _ILL_ILLOPC, f"trap {number:#x}", pc)


def _floating_point_fault(fsr: int, pc: int) -> FaultKind:
    if fsr >> 14 & 7 == 1:  # ftt: IEEE 754 exception
        for bit, code, text in _FP_CAUSES:
            if fsr & bit:
                return FaultKind(Signal.FPE, code, text, pc)
    return FaultKind(Signal.FPE, 0, "floating-point operation that is not implemented", pc)


def memory_fault(access: MemoryAccess, address: int, mapped: bool) -> FaultKind:
    """Say what a refused memory access means to the program."""
    verb = {
        MemoryAccess.READ: "read from",
        MemoryAccess.WRITE: "write to",
        MemoryAccess.FETCH: "jump to",
    }[access]
    what = "protected" if mapped else "unmapped"
    code = _SEGV_ACCERR if mapped else _SEGV_MAPERR
    return FaultKind(Signal.SEGV, code, f"{verb} {what} address {address:#x}", address)


def stack_fault(address: int, mapped: bool) -> FaultKind:
    """Say what a register window means that cannot be saved to or loaded from the stack."""
    if address & 7:
        return FaultKind(Signal.BUS, _BUS_ADRALN, f"unaligned stack at {address:#x}", address)
    code = _SEGV_ACCERR if mapped else _SEGV_MAPERR
    return FaultKind(Signal.SEGV, code, f"no stack memory at {address:#x}", address)


def frame_fault(address: int, mapped: bool) -> FaultKind:
    """Say what it means that a program returns from a signal's handler, and there is no frame."""
    code = _SEGV_ACCERR if mapped else _SEGV_MAPERR
    text = f"return from a handler without a signal's frame at {address:#x}"
    return FaultKind(Signal.SEGV, code, text, address)


def illegal_instruction(pc: int, word: int) -> FaultKind:
    """Say what an illegal instruction means; names what the emulator lacks."""
    text = f"illegal instruction {word:#010x}"
    missing = _missing_extension(word)
    if missing:
        text += f" (the emulator does not have {missing})"
    return FaultKind(Signal.ILL, _ILL_ILLOPC, text, pc)


def _missing_extension(word: int) -> str | None:
    op, op3 = word >> 30, word >> 19 & 63
    if op == 2 and op3 == 0x36:
        return "this VIS instruction"
    if op == 2 and op3 == 0x37:
        return "fused multiply-add (FMAF)"
    if op == 2 and op3 in (0x19, 0x35) and not is_reserved(word):
        return "this instruction of newer processors"
    if op == 0 and word >> 22 & 7 == 3 and word >> 28 & 1:
        return "compare-and-branch (CBcond)"
    if op == 3 and op3 == 0x37 and not word >> 13 & 1 and 0xC0 <= (word >> 5 & 0xFF) <= 0xCD:
        return "VIS partial stores"
    return None


def signal_info(kind: FaultKind) -> SignalInfo:
    """Return what the handler gets to see."""
    return SignalInfo(int(kind.signal), kind.code, kind.address or 0)
