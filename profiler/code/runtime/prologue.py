"""How every run-time routine with a register window begins."""

from __future__ import annotations

from simprof.profiler.code.registers import abi
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register


def save_smallest_frame(machine: MachineKind) -> Instruction:
    """Return the `save` that gives a routine a window, and the smallest frame that the ABI allows.

    The frame only has room for what window traps and callees store in it.
    """
    frame = abi(machine is MachineKind.SPARCV9).minimum_frame
    return asm.arithmetic("save", Register.SP, -frame, Register.SP)
