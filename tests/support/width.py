"""Instructions of tests that differ between the machines."""

from __future__ import annotations

from msgspec import Struct

from simprof.profiler.code.registers import abi
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP, SYSTEM_CALLS_64

R = Register
# Numbers of system calls by name; those that are used here are the same in both widths.
NUMBERS = {name: number for number, name in SYSTEM_CALLS_64.items()}
_ARGUMENTS = (R.O0, R.O1, R.O2, R.O3, R.O4, R.O5)


class Width(Struct, frozen=True):
    """What differs between the machines."""

    machine: MachineKind

    @property
    def is64(self) -> bool:
        """Whether pointers have 64 bits."""
        return self.machine is MachineKind.SPARCV9

    @property
    def word(self) -> int:
        """Bytes of a pointer."""
        return 8 if self.is64 else 4

    @property
    def bias(self) -> int:
        """What %sp is off by."""
        return abi(self.is64).bias

    @property
    def frame(self) -> int:
        """Bytes of the smallest frame."""
        return abi(self.is64).minimum_frame

    @property
    def trap(self) -> Instruction:
        """The trap of system calls."""
        return asm.trap_always(SYSTEM_CALL_TRAP[self.is64])

    def load(self, base: Register, offset: int, to: Register) -> Instruction:
        """Load a pointer."""
        return asm.load("ldx" if self.is64 else "ld", base, offset, to)

    def store(self, register: Register, base: Register, offset: int) -> Instruction:
        """Store a pointer."""
        return asm.store("stx" if self.is64 else "st", register, base, offset)

    def branch(self, condition: str, target: str) -> Instruction:
        """Branch on a comparison of pointers."""
        if self.is64:
            return asm.branch_predicted(condition, "%xcc", target)
        return asm.branch(condition, target)

    def call(self, name: str, *arguments: int) -> list[Item]:
        """Make a system call of constants, or of what is in place already."""
        items: list[Item] = []
        for place, argument in zip(_ARGUMENTS, arguments, strict=False):
            items += asm.load_constant(argument, place, False)
        return [*items, asm.mov(NUMBERS[name], R.G1), self.trap]
