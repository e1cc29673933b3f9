"""Hardware traps as signals (which signal, which code, which address), and what traps in vain."""

from __future__ import annotations

import struct
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from simprof.simulator.cpu.cpu import Cpu, MemoryAccess
from simprof.simulator.cpu.traps import Trap
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.sparc import LOADS_AND_STORES
from simprof.simulator.linux.signals import Signal, SignalInfo
from simprof.simulator.machine.codewatch import is_reserved


def effective_address(cpu: Cpu, word: int) -> int:
    """Return the address that a load, store or jump at hand refers to."""
    base = cpu.register(word >> 14 & 31)
    if _op3(word, 3) in (0x3C, 0x3E):  # compare and swap
        return base & cpu.address_mask
    offset = simm13(word) if word >> 13 & 1 else cpu.register(word & 31)
    return (base + offset) & cpu.address_mask


def _op3(word: int, op: int) -> int:
    # -1: the instruction is of another format than `op`.
    return word >> 19 & 63 if word >> 30 == op else -1


def is_transfer(word: int) -> bool:
    """Whether `word` is a jump, call or branch."""
    is_branch = word >> 30 == 0 and word >> 22 & 7 in (1, 2, 3, 5, 6)
    return word >> 30 == 1 or is_branch or _op3(word, 2) in (0x38, 0x39)


# -- floating-point stores

# Stores of 8 and 16 bytes at addresses that are multiples of 4 only. Linux does them, too, in its
# handlers of the hardware's traps (`stdf_mem_address_not_aligned`). The engine stores most of them,
# but not where it stores bytes one by one: across the border of a page, and at the first store to a
# page that it has not met for a while.
# op3 of stqf, stdf, stqfa and stdfa -> how many words of 8 bytes they store.
_FP_STORES = {0x26: 2, 0x27: 1, 0x36: 2, 0x37: 1}
_STORING_TO_SPACES = (0x36, 0x37)
# Identifiers of the address spaces that a program may store to, primary and secondary.
_BIG_ENDIAN, _LITTLE_ENDIAN = (0x80, 0x81), (0x88, 0x89)


def fp_store(cpu: Cpu, word: int) -> tuple[bytes, ...] | None:
    """Return the words of 8 bytes that a store of a double or a quad stores; None for others."""
    # Also None where its address is no multiple of 4: Linux then sends a signal.
    op3, number = _op3(word, 3), word >> 25 & 31
    if op3 not in _FP_STORES or effective_address(cpu, word) % 4:
        return None
    asi = _space(cpu, word) if op3 in _STORING_TO_SPACES else _BIG_ENDIAN[0]
    if asi not in (*_BIG_ENDIAN, *_LITTLE_ENDIAN):
        return None
    first = _fp_index(number)
    values = cpu.state.fp[first : first + _FP_STORES[op3]]
    order = ">Q" if asi in _BIG_ENDIAN else "<Q"
    return tuple(struct.pack(order, value) for value in values)


def _space(cpu: Cpu, word: int) -> int:
    return int(cpu.state.asi) & 0xFF if word >> 13 & 1 else word >> 5 & 0xFF


def _fp_index(number: int) -> int:
    # Return which of the 32 doubles a double or quad register, as encoded, is or begins with.
    return (number & 1) << 4 | number >> 1


# -- no-fault loads

_ASI_IMMEDIATE_NO_FAULT = frozenset((0x82, 0x83, 0x8A, 0x8B))
# op3 of loads from an alternate space -> what they do.
_ALTERNATE_LOADS = {
    op3 | 0x10: access
    for op3, access in LOADS_AND_STORES.items()
    if access.size and not access.stores and access.name != "ldfsr"
}
_LDDA, _LDFA, _LDQFA, _LDDFA = 0x13, 0x30, 0x32, 0x33


def no_fault_load(cpu: Cpu, word: int) -> int | None:
    """Return the address space identifier of a no-fault load; None for anything else."""
    if _op3(word, 3) not in _ALTERNATE_LOADS:
        return None
    asi = _space(cpu, word)
    return asi if asi in _ASI_IMMEDIATE_NO_FAULT else None


def without_no_fault(word: int) -> int | None:
    """Return a no-fault load as the ordinary load in the same space; None where %asi says it."""
    return None if word >> 13 & 1 else word & ~(2 << 5)


def finish_load(cpu: Cpu, word: int, data: bytes | None, little_endian: bool = False) -> None:
    """Complete a load with the bytes read; None, an address that faults, reads as zero."""
    op3, number = _op3(word, 3), word >> 25 & 31
    access = _ALTERNATE_LOADS[op3]
    data = bytes(access.size) if data is None else data
    # Integers of up to 8 bytes, and words of what is longer or goes into two registers.
    step = 4 if op3 == _LDDA else min(8, access.size)
    parts = [data[at : at + step] for at in range(0, access.size, step)]
    order: Literal["little", "big"] = "little" if little_endian else "big"
    values = [int.from_bytes(part, order, signed=access.signed) for part in parts]
    if op3 == _LDFA:
        cpu.set_fp_word(number, values[0])
    elif op3 in (_LDDFA, _LDQFA):
        first = _fp_index(number)
        cpu.state.fp[first : first + len(values)] = values
    elif op3 == _LDDA:
        cpu.set_register(number & 30, values[0])
        cpu.set_register(number | 1, values[1])
    else:
        cpu.set_register(number, values[0] & 0xFFFFFFFFFFFFFFFF)


# -- what is privileged to V9 but not to LEON3's Linux

_CASA, _USER_DATA, _PRIMARY = 0x3C, 0x0A, 0x80


def of_user_space(word: int) -> int | None:
    """Return LEON3's `casa [] 10` as one in the space that V9's users have; None for others."""
    if _op3(word, 3) != _CASA or word & 0x3FE0 != _USER_DATA << 5:
        return None
    return word ^ (_USER_DATA ^ _PRIMARY) << 5


def load_size(word: int) -> int:
    """Return the bytes that a no-fault load reads."""
    return _ALTERNATE_LOADS[_op3(word, 3)].size


class FaultKind(Struct, frozen=True):
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

_FIXED: dict[int, FaultKind] = {
    Trap.PRIVILEGED_OPCODE: FaultKind(Signal.ILL, _ILL_PRVOPC, "privileged instruction"),
    Trap.PRIVILEGED_ACTION: FaultKind(Signal.ILL, _ILL_PRVOPC, "privileged access"),
    Trap.TAG_OVERFLOW: FaultKind(Signal.EMT, _EMT_TAGOVF, "tag overflow"),
    Trap.DIVISION_BY_ZERO: FaultKind(Signal.FPE, _FPE_INTDIV, "integer division by zero"),
    Trap.SOFTWARE_DIVISION: FaultKind(Signal.FPE, _FPE_INTDIV, "integer division by zero"),
    Trap.BREAKPOINT: FaultKind(Signal.TRAP, _TRAP_BRKPT, "breakpoint trap"),
}


def trap_fault(number: int, cpu: Cpu, pc: int, word: int) -> FaultKind:
    """Say what trap `number` by instruction `word` at `pc` means to the program."""
    if number in _FIXED:
        return replace(_FIXED[number], address=pc)
    if number in (Trap.UNALIGNED, Trap.UNALIGNED_LDDF, Trap.UNALIGNED_STDF):
        address = effective_address(cpu, word)
        return FaultKind(Signal.BUS, _BUS_ADRALN, "unaligned access", address)
    if number in (Trap.DATA_ACCESS, Trap.DATA_ACCESS_MMU, Trap.DATA_MISS):
        address = effective_address(cpu, word)
        return FaultKind(Signal.SEGV, _SEGV_MAPERR, "access in an alternate space", address)
    if number in (Trap.FP_EXCEPTION, Trap.FP_OTHER):
        fsr = int(cpu.state.fsr)
        if fsr >> 14 & 7 == 1:  # ftt: IEEE 754 exception
            for bit, code, text in _FP_CAUSES:
                if fsr & bit:
                    return FaultKind(Signal.FPE, code, text, pc)
        return FaultKind(Signal.FPE, 0, "floating-point operation that is not implemented", pc)
    if number >= Trap.SOFTWARE:
        text = f"software trap {number - Trap.SOFTWARE:#x}, which Linux does not define"
        return FaultKind(Signal.ILL, _ILL_ILLTRP, text, pc)
    return FaultKind(Signal.ILL, _ILL_ILLOPC, f"trap {number:#x}", pc)


def memory_fault(access: MemoryAccess, address: int, mapped: bool) -> FaultKind:
    """Say what a refused memory access means to the program."""
    verbs = {MemoryAccess.READ: "read from", MemoryAccess.WRITE: "write to"}
    verb = verbs.get(access, "jump to")
    what = "protected" if mapped else "unmapped"
    return _segmentation_fault(f"{verb} {what} address {address:#x}", address, mapped)


# A processor checks the alignment of an address before it looks for its page. Linux does loads and
# stores of floating-point doubles and quads itself where they are at multiples of 4.
_FP_WIDE = (0x22, 0x23, 0x26, 0x27, 0x32, 0x33, 0x36, 0x37)


def unaligned_access(cpu: Cpu, word: int) -> FaultKind | None:
    """Say what an access means that faults, if its address is not aligned; None where it is."""
    op3 = _op3(word, 3)
    access = LOADS_AND_STORES.get(op3) or LOADS_AND_STORES.get(op3 & ~0x10)
    size = 0 if access is None else access.size
    if op3 in _FP_WIDE or (op3 in (0x21, 0x25) and word >> 25 & 31 == 0):  # of %fsr: 32 bits
        size = 4
    if size == 0 or (address := effective_address(cpu, word)) % size == 0:
        return None
    return FaultKind(Signal.BUS, _BUS_ADRALN, "unaligned access", address)


def _segmentation_fault(text: str, address: int, mapped: bool) -> FaultKind:
    code = _SEGV_ACCERR if mapped else _SEGV_MAPERR
    return FaultKind(Signal.SEGV, code, text, address)


def stack_fault(address: int, mapped: bool) -> FaultKind:
    """Say what a register window means that cannot be saved to or loaded from the stack."""
    if address & 7:
        return FaultKind(Signal.BUS, _BUS_ADRALN, f"unaligned stack at {address:#x}", address)
    return _segmentation_fault(f"no stack memory at {address:#x}", address, mapped)


def frame_fault(address: int, mapped: bool) -> FaultKind:
    """Say what it means that a program returns from a signal's handler, and there is no frame."""
    text = f"return from a handler without a signal's frame at {address:#x}"
    return _segmentation_fault(text, address, mapped)


def illegal_instruction(pc: int, word: int) -> FaultKind:
    """Say what an illegal instruction means; names what the emulator lacks."""
    text = f"illegal instruction {word:#010x}"
    if missing := _missing_extension(word):
        text += f" (the emulator does not have {missing})"
    return FaultKind(Signal.ILL, _ILL_ILLOPC, text, pc)


def _missing_extension(word: int) -> str | None:
    op, op3 = word >> 30, word >> 19 & 63
    if op == 2 and op3 == 0x36:
        return {0x80: "shutdown", 0x81: "siam"}.get(word >> 5 & 0x1FF, "this VIS instruction")
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
