"""Register sets of the SPARC ABIs: what calls and returns read, keep and destroy.

Sets are masks as in `simulator.isa.effects`. Sources: System V ABI SPARC supplement (32 bits),
SPARC Compliance Definition 2.4 (64 bits), GCC's register use on Linux.
"""

# The sets are those of the published ABI; a compiler that allocates registers across routines
# (`-fipa-ra`) may keep a value in a caller-saved register that a leaf does not use, which no
# analysis of one routine can see.

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from simprof.simulator.isa.effects import CC, FCC, INS, LOCALS, Y

R = Register


def mask(*registers: Register) -> int:
    """Return the set of `registers`."""
    return sum(1 << register for register in set(registers))


def members(registers: int, order: tuple[Register, ...]) -> Iterator[Register]:
    """Yield those of `order` that are in the set `registers`, in that order."""
    return (register for register in order if registers >> register & 1)


ARGUMENTS = mask(R.O0, R.O1, R.O2, R.O3, R.O4, R.O5)
# What walks the stack: unwinders and debuggers need it at every call, signals anywhere.
FRAME = mask(R.SP, R.FP, R.I7)
LOCAL_ORDER = tuple(Register(n) for n in range(R.L0, R.L7 + 1))
_GLOBAL_ORDER = (R.G1, R.G4, R.G3, R.G2)
_OUT_ORDER = (R.O5, R.O4, R.O3, R.O2, R.O1, R.O0)
_IN_ORDER = (R.I5, R.I4, R.I3, R.I2, R.I1, R.I0)


class Abi(Struct, frozen=True):
    """Register use of one program width."""

    is64: bool  # Whether registers and stack slots are 64 bits wide
    # Which of %g2 to %g5 the program keeps values in across calls (`application_registers`)
    carried: int
    # Registers that no snippet may use, live everywhere; those carried are among them.
    reserved: int
    # call_reads, call_writes: What a call needs, besides its own operands; what it destroys.
    call_reads: int
    call_writes: int
    return_reads: int  # What the caller may use after a return, in the caller's window
    tail_reads: int  # What a routine needs that is entered by a branch or jump
    # Registers of a leaf that its callers expect it to change, in order of preference
    caller_saved: tuple[Register, ...]
    temporaries: tuple[Register, ...]  # Order in which dead registers are picked
    # Bytes of the smallest frame: those at %sp (bias aside), which window traps and callees may
    # overwrite.
    minimum_frame: int
    bias: int  # What %sp is off by


@cache
def abi(is64: bool, carried: int = 0) -> Abi:
    """Return the ABI of a program's width, of programs that keep values in registers `carried`."""
    system = mask(R.G6, R.G7) | (0 if is64 else mask(R.G5))
    reserved = system | FRAME | carried
    values = mask(R.O0, R.O1, R.O2, R.O3) if is64 else mask(R.O0, R.O1)
    chain = mask(R.G5) if is64 else mask(R.G2)  # of nested functions
    scratch = tuple(members(~carried, _GLOBAL_ORDER + ((R.G5,) if is64 else ())))
    return Abi(
        is64=is64,
        carried=carried,
        reserved=reserved,
        call_reads=ARGUMENTS | chain | reserved,
        call_writes=mask(*scratch, R.O7) | ARGUMENTS | CC | FCC | Y,
        return_reads=values | LOCALS | INS | reserved,
        tail_reads=ARGUMENTS | chain | mask(R.O7) | LOCALS | INS | reserved,
        caller_saved=(*scratch, *_OUT_ORDER),
        temporaries=(*scratch, *_OUT_ORDER, R.O7, *LOCAL_ORDER, *_IN_ORDER),
        minimum_frame=176 if is64 else 96,
        bias=2047 if is64 else 0,
    )


ABI64 = abi(True)
ABI32 = abi(False)


def save_smallest_frame(machine: MachineKind) -> Instruction:
    """Return the `save` that gives a routine a window and the smallest frame of the ABI."""
    # The frame only has room for what window traps and callees store in it.
    frame = abi(machine is MachineKind.SPARCV9).minimum_frame
    return asm.arithmetic("save", Register.SP, -frame, Register.SP)


def clear_upper_half(machine: MachineKind, register: Register) -> list[Instruction]:
    """Return the code that leaves 32 bits of `register`, where it may hold more."""
    # In V8+ code the upper half of a register is nobody's: a caller need not clear it.
    wide = machine is MachineKind.SPARCV8PLUS
    return [asm.shift("srl", register, 0, register)] if wide else []


# -- Registers stolen from a program (`stolen`)

_CANDIDATES = {True: (R.G4, R.G3, R.G2), False: (R.G4, R.G3)}
# Others carry values between routines: %g1 in procedure linkage tables, the chain of nested
# functions (%g2, with 64 bits %g5). %g5 to %g7, with 64 bits %g6 and %g7, are the system's.
_STOLEN = 2


def least_used(
    reads: npt.NDArray[np.uint64], writes: npt.NDArray[np.uint64], is64: bool, carried: int
) -> int:
    """Return the registers that are least used in a program, as a mask."""

    # reads, writes: Of each word of its code
    def uses(register: Register) -> int:
        one = np.uint64(mask(register))
        return int(np.count_nonzero(reads & one)) + int(np.count_nonzero(writes & one))

    free = [register for register in _CANDIDATES[is64] if not carried >> register & 1]
    return mask(*sorted(free, key=uses)[:_STOLEN])
