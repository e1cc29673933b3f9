"""Control transfers of a program, as instructions that can be linked to other targets."""

from __future__ import annotations

from dataclasses import dataclass

from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Fixup, FixupKind, Instruction, Register
from simprof.simulator.isa.decode import TransferKind

_FIELDS = {
    FixupKind.DISP30: 0x3FFFFFFF,
    FixupKind.DISP22: 0x3FFFFF,
    FixupKind.DISP19: 0x7FFFF,
    FixupKind.DISP16: 0x303FFF,
}
_SHORT = (FixupKind.DISP19, FixupKind.DISP16)
_ANNUL = 1 << 29
ARITHMETIC = 2
"""The highest two bits of arithmetic, `save` and `rd`."""
_READ_PC = 5  # the state register that `rd %pc` names


@dataclass(frozen=True)
class ThunkCall:
    """A call of a thunk with the constant before it.

    Attributes
    ----------
    address
        Where the old call is; the constant is made before it and in its delay slot.
    register
        What the thunk adds the return address to.
    distance
        What it adds, from the old call.
    """

    address: int
    register: Register
    distance: int

    def words(self, new: int) -> tuple[int, int]:
        """Return the constant's two instructions for a call at `new`."""
        distance = self.distance + self.address - new
        low = distance & 0x3FF
        if distance >= 0:
            second = asm.arithmetic("add", self.register, low, self.register)
            return asm.sethi(distance, self.register).word, second.word
        first = asm.sethi(~distance & 0xFFFFFFFF, self.register)
        second = asm.arithmetic("xor", self.register, low - 0x400, self.register)
        return first.word, second.word


def raw(word: int) -> Instruction:
    """Return a word of the program as it stands."""
    return asm.data_word(word)


def displacement_kind(word: int) -> FixupKind:
    """Return which field of a direct call or branch says where it goes."""
    if word >> 30 == 1:
        return FixupKind.DISP30
    op2 = word >> 22 & 7
    if op2 == 3:
        return FixupKind.DISP16
    return FixupKind.DISP19 if op2 in (1, 5) else FixupKind.DISP22


def retargeted(word: int, kind: TransferKind, label: str) -> Instruction:
    """Return a direct call or branch that goes to `label`.

    One that is always taken becomes `ba`, which reaches 8 MB whatever it was before.
    """
    if kind is TransferKind.BRANCH_ALWAYS:
        return asm.branch("a", label, annul=bool(word & _ANNUL))
    field = displacement_kind(word)
    return Instruction(
        f".word {word:#010x} -> {label}", word & ~_FIELDS[field], Fixup(field, label)
    )


def is_short(word: int, kind: TransferKind) -> bool:
    """Whether a branch reaches less far than other routines may be."""
    return kind is TransferKind.BRANCH and displacement_kind(word) in _SHORT


def jump(label: str) -> Instruction:
    """Return the one word that goes to `label` and changes nothing: `ba,a label`."""
    return asm.branch("a", label, annul=True)


def reads_pc(word: int) -> bool:
    """Whether a word is `rd %pc`."""
    return word >> 30 == 2 and word >> 19 & 63 == 0x28 and word >> 14 & 31 == _READ_PC


def constant(value: int, register: Register) -> tuple[Instruction, Instruction]:
    """Return the two instructions that make an address below 4 GB, whatever its bits are."""
    return (
        asm.sethi(value, register),
        asm.arithmetic("or", register, value & 0x3FF, register),
    )
