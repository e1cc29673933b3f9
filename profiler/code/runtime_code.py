"""The run-time code that instrumented programs call: which routines there are, and where.

Routines are lists of items whose first label is their symbol. Those here keep hash tables and
condition codes; schemes bring others (`schemes.definition.SchemeCode`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simprof.profiler.code.hash_routine import hash_routines
from simprof.profiler.code.layout import RUNTIME_BASE
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Assembly, Instruction, Item, Label, Register, assemble

R = Register

_RESTORE_SPAN = 1024  # the table of stubs comes first: it must stand at a multiple of this

Routines = Callable[[MachineKind], tuple[Item, ...]]  # Makes one or more routines for a machine

ROUTINES: tuple[Routines, ...] = (hash_routines,)


def runtime_code(machine: MachineKind, more: Sequence[Routines] = ()) -> tuple[Assembly, ...]:
    """Return the run-time code, assembled at its addresses: `ROUTINES` and then `more`."""
    table = assemble(restore_routine(), RUNTIME_BASE)
    items = [item for routine in (*ROUTINES, *more) for item in routine(machine)]
    return table, assemble(items, RUNTIME_BASE + _RESTORE_SPAN, table.labels)


# -- Keeping icc over a call on V8, which has no instruction that reads or writes it
#
# `keep` collects the flags in a register: carry with `addx`, each other flag with an annulled
# branch over an `or`. `restore` jumps into a table with one stub for each set of flags, whose
# arithmetic makes just these (`restore_routine`, aligned to 1024 bytes). Both execute the same
# number of instructions whatever the flags are. No instruction of V8 sets N and Z together, so
# those sets share Z's stubs.

RESTORE_ROUTINE = "restore_conditions"
N, Z, V, C = 8, 4, 2, 1
# Instructions that `keep` executes: one for carry, two for each of the other three flags.
KEEP_COST = 7
_STUB_SHIFT = 4  # stubs of four instructions


def keep(flags: Register) -> tuple[Instruction, ...]:
    """Collect icc in `flags`, as the sum of N, Z, V and C. Needs no other register."""
    code = [asm.arithmetic("addc", R.G0, R.G0, flags)]
    for condition, bit in (("vs", V), ("e", Z), ("neg", N)):
        # Over the nop; the slot executes only if the branch is taken, so both ways execute two.
        skip = asm.link(asm.branch(condition, ".+12", annul=True), 0, {".+12": 12})
        code += [skip, asm.arithmetic("or", flags, bit, flags), asm.nop()]
    return tuple(code)


def restore(flags: Register) -> tuple[Instruction, ...]:
    """Set icc from `flags`. Destroys `flags`, %o0, %o1 and %o7."""
    return (
        asm.shift("sll", flags, _STUB_SHIFT, flags),
        asm.sethi_symbol(RESTORE_ROUTINE, R.O0),
        asm.jmpl(R.O0, flags, R.O7),
        asm.sethi(1 << 31, R.O1),
    )


def _stub(flags: int) -> tuple[Instruction, Instruction]:
    """Return what makes `flags`, given %o1 = 0x80000000: a preparation and the instruction."""
    top, other = R.O1, R.O0
    below = asm.arithmetic("sub", top, 1, other)  # 0x7fffffff
    stubs = {
        0: (asm.mov(1, other), asm.arithmetic("addcc", other, 0, R.G0)),
        C: (asm.nop(), asm.arithmetic("subcc", R.G0, -1, R.G0)),
        V: (asm.nop(), asm.arithmetic("subcc", top, 1, R.G0)),
        V | C: (asm.arithmetic("or", top, 1, other), asm.arithmetic("addcc", top, other, R.G0)),
        Z: (asm.nop(), asm.arithmetic("subcc", R.G0, 0, R.G0)),
        Z | C: (asm.mov(1, other), asm.arithmetic("addcc", other, -1, R.G0)),
        Z | V: (asm.mov(1, other), asm.arithmetic("tsubcc", other, other, R.G0)),
        Z | V | C: (asm.nop(), asm.arithmetic("addcc", top, top, R.G0)),
        N: (asm.nop(), asm.arithmetic("addcc", top, 0, R.G0)),
        N | C: (asm.nop(), asm.arithmetic("subcc", R.G0, 1, R.G0)),
        N | V: (below, asm.arithmetic("addcc", other, 1, R.G0)),
        N | V | C: (below, asm.arithmetic("subcc", other, top, R.G0)),
    }
    return stubs[flags & ~N if flags & Z else flags]


def restore_routine() -> tuple[Item, ...]:
    """Return the table of stubs, to be assembled at a multiple of 1024."""
    items: list[Item] = [Label(RESTORE_ROUTINE)]
    for flags in range(16):
        prepare, make = _stub(flags)
        items += [prepare, asm.retl(), make, asm.nop()]
    return tuple(items)


def restore_cost() -> int:
    """Instructions that `restore` executes, those of the stub included."""
    return len(restore(R.L0)) + len(_stub(0)) + 1  # its return
