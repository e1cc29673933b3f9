"""Tests before an instruction: what its operands hold, and whether it needs the flags."""

from __future__ import annotations

from simprof.profiler.graphs.cfg import Block
from simprof.profiler.rewriting.draft import Draft
from simprof.profiler.rewriting.parts import flush_windows
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from simprof.simulator.isa.decode import simm13
from simprof.simulator.isa.effects import ICC

R = Register
_IMMEDIATE = 1 << 13


def needs_flags(draft: Draft, block: Block, address: int) -> bool:
    """Whether a test before an instruction would destroy condition codes.

    V8 code cannot keep them.
    """
    if draft.context.machine is not MachineKind.SPARCV8:
        return False
    return bool(draft.liveness.live_before(block.id, (address - block.start) >> 2) & ICC)


def operand_sum(draft: Draft, word: int, to: Register, other: Register) -> list[Instruction]:
    """Leave in `to` the sum of the operands of `word`, an instruction of the window below.

    Locals and inputs of that window are read from the stack, where its place is. `other` is lost.
    """
    base, second = Register(word >> 14 & 31), Register(word & 31)
    read = (base,) if word & _IMMEDIATE else (base, second)
    code = [flush_windows(draft.context.machine)] if any(r >= R.L0 for r in read) else []
    code.append(_fetch(draft, base, to))
    if word & _IMMEDIATE:
        return [*code, asm.arithmetic("add", to, simm13(word), to)]
    return [*code, _fetch(draft, second, other), asm.arithmetic("add", to, other, to)]


def _fetch(draft: Draft, register: Register, to: Register) -> Instruction:
    """Leave in `to` what a register of the window below holds."""
    if register < R.O0:
        return asm.mov(register, to)
    if register < R.L0:
        return asm.mov(Register(register + (R.I0 - R.O0)), to)
    is64 = draft.context.is64
    at = draft.context.abi.bias + (8 if is64 else 4) * (register - R.L0)
    return asm.load("ldx" if is64 else "ld", R.FP, at, to)
