"""Instructions that trap: which traps each can make, and the addresses that it refers to.

It takes this to say where a trap happened (see `position`). Also the no-fault loads, which the
engine traps on instead of doing them: here they are done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from simulator.cpu.cpu import Cpu
from simulator.isa.decode import simm13


class Trap(IntEnum):
    """Trap numbers that the engine reports (SPARC V9 7.5, JPS1 7.5)."""

    PRIVILEGED_OPCODE = 0x11
    FPU_DISABLED = 0x20
    FP_EXCEPTION = 0x21
    FP_OTHER = 0x22
    TAG_OVERFLOW = 0x23
    DIVISION_BY_ZERO = 0x28
    DATA_ACCESS = 0x30
    DATA_ACCESS_MMU = 0x31
    UNALIGNED = 0x34
    UNALIGNED_LDDF = 0x35
    UNALIGNED_STDF = 0x36
    PRIVILEGED_ACTION = 0x37
    DATA_MISS = 0x68
    SPILL = 0x80
    FILL = 0xC0
    WINDOWS_END = 0x100
    SOFTWARE = 0x100
    BREAKPOINT = 0x101
    SOFTWARE_DIVISION = 0x102
    FLUSH_WINDOWS = 0x103
    SYSTEM_CALL_32 = 0x110
    SYSTEM_CALL_64 = 0x16D
    GET_CONTEXT = 0x16E
    SET_CONTEXT = 0x16F


class Registers(Protocol):
    """Integer registers: the processor's, or what they held earlier."""

    @property
    def address_mask(self) -> int:
        """All ones of the program's width."""
        ...

    def register(self, number: int) -> int:
        """Return integer register 0..31."""
        ...


@dataclass(frozen=True)
class _Earlier:
    """What some registers held earlier."""

    address_mask: int
    values: Mapping[int, int]

    def register(self, number: int) -> int:
        return self.values[number]


def effective_address(cpu: Registers, word: int) -> int:
    """Return the address that a load, store or jump at hand refers to."""
    base = cpu.register(word >> 14 & 31)
    if _op3(word, 3) in (0x3C, 0x3E):  # compare and swap
        return base & cpu.address_mask
    offset = simm13(word) if word >> 13 & 1 else cpu.register(word & 31)
    return (base + offset) & cpu.address_mask


_SAVES = (0x3C, 0x2B)
_RESTORES = (0x3D, 0x39)
_DIVISIONS = (0x0D, 0x0E, 0x0F, 0x1E, 0x1F, 0x2D)
_TAGGED = (0x22, 0x23)
_FP_OPERATIONS = (0x34, 0x35)
_FP_MEMORY = (*range(0x20, 0x28), *range(0x30, 0x38))


def _op3(word: int, op: int) -> int:
    """Return op3 of an instruction of format `op` (2 or 3), or -1."""
    return word >> 19 & 63 if word >> 30 == op else -1


def _divides_by_zero(cpu: Registers, word: int) -> bool:
    if _op3(word, 2) not in _DIVISIONS:
        return False
    divisor = word & 0x1FFF if word >> 13 & 1 else cpu.register(word & 31)
    wide = _op3(word, 2) in (0x0D, 0x2D)
    return divisor & (0xFFFFFFFFFFFFFFFF if wide else 0xFFFFFFFF) == 0


def _is_jump(word: int) -> bool:
    return _op3(word, 2) in (0x38, 0x39)


def is_transfer(word: int) -> bool:
    """Whether `word` is a jump, call or branch."""
    is_branch = word >> 30 == 0 and word >> 22 & 7 in (1, 2, 3, 5, 6)
    return word >> 30 == 1 or is_branch or _is_jump(word)


def _is_memory(word: int) -> bool:
    return word >> 30 == 3


def _uses_fpu(word: int) -> bool:
    op3 = _op3(word, 2)
    return op3 in _FP_OPERATIONS or op3 in (0x36, 0x37) or _op3(word, 3) in _FP_MEMORY


def can_trap(number: int, cpu: Cpu, word: int) -> bool:
    """Whether instruction `word`, about to execute, may make trap `number`."""
    tests: dict[int, Callable[[], bool]] = {
        Trap.DIVISION_BY_ZERO: lambda: _divides_by_zero(cpu, word),
        Trap.TAG_OVERFLOW: lambda: _op3(word, 2) in _TAGGED,
        Trap.FPU_DISABLED: lambda: _uses_fpu(word),
        Trap.FP_EXCEPTION: lambda: _op3(word, 2) in _FP_OPERATIONS or _op3(word, 2) == 0x37,
        Trap.FP_OTHER: lambda: _uses_fpu(word),
        Trap.UNALIGNED: lambda: _is_unaligned(cpu, word),
        Trap.DATA_MISS: lambda: no_fault_load(cpu, word) is not None,
        Trap.PRIVILEGED_ACTION: lambda: _is_memory(word) or _op3(word, 2) in (0x28, 0x30),
        Trap.DATA_ACCESS: lambda: _is_memory(word),
    }
    if Trap.SPILL <= number < Trap.FILL:
        return _op3(word, 2) in _SAVES
    if Trap.FILL <= number < Trap.WINDOWS_END:
        return _op3(word, 2) in _RESTORES
    if number >= Trap.SOFTWARE:
        return _op3(word, 2) == 0x3A
    test = tests.get(number)
    return True if test is None else test()


def would_have_trapped(number: int, cpu: Cpu, word: int, following: Sequence[int]) -> bool:
    """Whether instruction `word` would have made trap `number` had `following` been executed.

    These are its own word and those behind it, without a transfer, up to where the processor is.
    What its registers held is calculated back from what they hold now. False where that cannot be
    done, and for traps that depend on more than integer registers.
    """
    if number == Trap.UNALIGNED:
        traps = _is_unaligned
    elif number == Trap.DIVISION_BY_ZERO:
        traps = _divides_by_zero
    else:
        return False
    values = {0: 0}
    for register in {word >> 14 & 31, *(() if word >> 13 & 1 else (word & 31,))} - {0}:
        value = cpu.register(register)
        for each in following:
            change = _change(each, register)
            if change is None:
                return False
            value -= change
        values[register] = value
    return traps(_Earlier(cpu.address_mask, values), word)


def _change(word: int, register: int) -> int | None:
    """Return what an instruction adds to a register; None where that is not known."""
    operation, op3, target = word >> 30, word >> 19 & 63, word >> 25 & 31
    if operation == 0:
        return None if word >> 22 & 7 == 4 and target == register else 0  # sethi
    if operation == 3:
        if op3 in _PAIRS:
            return None if target | 1 == register | 1 else 0
        return None if target == register and op3 in _LOADS else 0
    if op3 in (*_SAVES, *_RESTORES):
        return None
    if target != register:
        return 0
    if op3 in _SUMS and word >> 14 & 31 == register and word >> 13 & 1:
        return simm13(word) * _SUMS[op3]
    return None


_PAIRS = (0x03, 0x13)
_LOADS = (0, 1, 2, 8, 9, 10, 11, 13, 15, 16, 17, 18, 24, 25, 26, 27, 29, 31, 0x3C, 0x3E)
"""op3 of what loads an integer register: casa, casxa, ldstub and swap among them."""
_SUMS = {0x00: 1, 0x10: 1, 0x04: -1, 0x14: -1}
"""op3 of add, addcc, sub and subcc -> the sign of what they add."""
_ACCESS_SIZES = {
    **dict(enumerate((4, 1, 2, 8, 4, 1, 2, 8, 4, 1, 2, 8, 1, 1, 8, 4))),
    **dict(enumerate((4, 4, 4, 4, 4, 4, 4, 4), start=0x20)),
    **dict(enumerate((4, 1, 2, 8, 4, 1, 2, 8, 4, 1, 2, 8, 1, 1, 8, 4), start=0x10)),
    **dict(enumerate((4, 4, 4, 4, 4, 4, 4, 4), start=0x30)),
    0x3C: 4,
    0x3E: 8,
}
"""op3 of loads and stores -> the alignment that they need (FP doubles trap below 4)."""


def _is_unaligned(cpu: Registers, word: int) -> bool:
    if _is_jump(word):
        return effective_address(cpu, word) % 4 != 0
    size = _ACCESS_SIZES.get(_op3(word, 3), 1)
    if _op3(word, 3) in (0x21, 0x25) and word >> 25 & 31:  # ldx, stx of %fsr
        size = 8
    if _op3(word, 3) in (0x33, 0x37) and not word >> 13 & 1 and word >> 9 & 15 >= 12:
        size = 64  # block transfers
    return effective_address(cpu, word) % size != 0


# -- no-fault loads

_ASI_IMMEDIATE_NO_FAULT = frozenset((0x82, 0x83, 0x8A, 0x8B))
_LOAD_SIZES = {  # op3 -> (bytes, signed)
    0x10: (4, False),
    0x11: (1, False),
    0x12: (2, False),
    0x13: (8, False),
    0x18: (4, True),
    0x19: (1, True),
    0x1A: (2, True),
    0x1B: (8, False),
    0x30: (4, False),
    0x32: (16, False),
    0x33: (8, False),
}
_LDDA, _LDFA, _LDQFA, _LDDFA = 0x13, 0x30, 0x32, 0x33


def no_fault_load(cpu: Cpu, word: int) -> int | None:
    """Return the address space identifier of a no-fault load; None for anything else."""
    if _op3(word, 3) not in _LOAD_SIZES:
        return None
    asi = int(cpu.state.asi) & 0xFF if word >> 13 & 1 else word >> 5 & 0xFF
    return asi if asi in _ASI_IMMEDIATE_NO_FAULT else None


def without_no_fault(word: int) -> int | None:
    """Return a no-fault load as the ordinary load in the same space; None where %asi says it."""
    return None if word >> 13 & 1 else word & ~(2 << 5)


def finish_load(cpu: Cpu, word: int, data: bytes | None, little_endian: bool = False) -> None:
    """Complete a load with the bytes read; None, an address that faults, reads as zero."""
    op3 = _op3(word, 3)
    size, signed = _LOAD_SIZES[op3]
    data = bytes(size) if data is None else data
    number = word >> 25 & 31
    if op3 in (_LDFA, _LDDFA, _LDQFA):
        _finish_fp_load(cpu, op3, number, data, little_endian)
        return
    if op3 == _LDDA:
        halves = data[:4], data[4:]
        for half, register in zip(halves, (number & 30, number | 1), strict=True):
            order: str = "little" if little_endian else "big"
            cpu.set_register(register, int.from_bytes(half, order))  # type: ignore[arg-type]
        return
    value = int.from_bytes(data, "little" if little_endian else "big", signed=signed)
    cpu.set_register(number, value & 0xFFFFFFFFFFFFFFFF)


def _finish_fp_load(cpu: Cpu, op3: int, number: int, data: bytes, little_endian: bool) -> None:
    if op3 == _LDFA:
        cpu.set_fp_word(number, int.from_bytes(data, "little" if little_endian else "big"))
        return
    first = (number & 1) << 5 | number & 30
    for offset in range(0, len(data), 8):
        part = data[offset : offset + 8]
        value = int.from_bytes(part, "little" if little_endian else "big")
        cpu.state.fp[(first >> 1) + offset // 8] = value


def load_size(word: int) -> int:
    """Return the bytes that a no-fault load reads."""
    return _LOAD_SIZES[_op3(word, 3)][0]
