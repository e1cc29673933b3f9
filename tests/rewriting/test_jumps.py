"""Jumps through tables in copies: which way leads over the old code, and how the others go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.emission import Emission
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.rewriting.draft import (
    CallPlaces,
    Cause,
    Charge,
    CopyDraft,
    NotRewritableError,
    OldProgram,
    RoutineCopy,
)
from simprof.profiler.rewriting.jumps import TABLE_ALIGNMENT, Jumps
from simprof.profiler.rewriting.placing import PlacedCode
from simprof.profiler.rewriting.program import Copies, place_program, program_items
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register, assign_labels
from tests.support.assembled import BASE, Assembled, code

R = Register
V9, V8 = MachineKind.SPARCV9, MachineKind.SPARCV8
JUMP, ZERO, ONE, TABLE = BASE + 28, BASE + 36, BASE + 44, BASE + 52
TO_ZERO, TO_ONE = 3, 4  # edges of the jump
PLAIN, NOP = asm.jmpl(R.G1, 0, R.G0), asm.nop()
LEADS = {ZERO: "r0.block.2", ONE: "r0.block.3"}


def drafted(
    jump: Instruction = PLAIN,
    slot: Instruction = NOP,
    machine: MachineKind = V9,
    behind: Sequence[Instruction] = (),
) -> CopyDraft:
    """Return an empty copy of a routine with a table of two addresses, from which %g1 is loaded."""
    words = [Instruction(f".word {place:#x}", place) for place in (ZERO, ONE)]
    body = code(
        asm.mov(0, R.G5), asm.cmp(R.O0, 1),
        asm.branch("gu", "one"), asm.shift("sll", R.O0, 2, R.O1),
        asm.sethi(TABLE, R.G1), asm.arithmetic("add", R.G1, R.O1, R.G2),
        asm.load("ld", R.G2, TABLE & 0x3FF, R.G1), jump, slot,
        asm.retl(), asm.mov(0, R.O0), "one", asm.branch("a", "rest"), asm.nop(),
        *words, "rest", *behind, asm.retl(), asm.mov(1, R.O0),
    )  # fmt: skip
    made = Assembled({"main": body}, machine)
    recovered = made.recovered
    old = OldProgram(recovered, CallPlaces(recovered, ProgramContexts(recovered)))
    return CopyDraft(0, recovered.routines[0], made.context("main"), old)


def written(draft: CopyDraft, taken: Mapping[int, str | None]) -> RoutineCopy:
    """Return what is written of the jump, where old addresses lead as `taken` says."""
    jumps = Jumps(draft, PlacedCode(draft, Emission({}, {}, ())), taken)
    sources = {edge.source for edge in draft.cfg.edges if edge.kind is EdgeKind.SWITCH}
    (source,) = sources
    jumps.write(draft.block(source), JUMP)
    jumps.lead_from_old_code()
    return draft.finish()


def words(items: Sequence[Item]) -> list[Item]:
    """Return the instructions."""
    return [item for item in items if not isinstance(item, Label)]


@pytest.mark.parametrize("taken", [{}, {ONE: "r0.block.3"}, {BASE: None}])
def test_a_jump_whose_targets_are_free_stays_as_it_is(taken: Mapping[int, str | None]) -> None:
    copy = written(drafted(), taken)
    assert copy.redirects == LEADS
    assert [item.word for item in copy.items if isinstance(item, Instruction)] == [
        asm.jmpl(R.G1, 0, R.G0).word,
        asm.nop().word,
    ]
    assert copy.tables == []
    assert copy.charges == [Charge(Cause.JUMP_TABLES, 1, edge) for edge in (TO_ZERO, TO_ONE)]


@pytest.mark.parametrize("machine", [V9, V8])
@pytest.mark.parametrize("other", [None, "elsewhere"])
def test_a_jump_to_a_place_that_leads_elsewhere_has_a_table(
    machine: MachineKind, other: str | None
) -> None:
    copy = written(drafted(machine=machine), {ONE: other})
    assert copy.redirects == {}
    *before, slot = copy.items
    assert before == [
        asm.sethi(BASE, R.G4),
        asm.arithmetic("sub", R.G1, R.G4, R.G1),
        asm.sethi_symbol("r0.table.1", R.G4),
        asm.jmpl(R.G1, R.G4, R.G0),
    ]
    assert isinstance(slot, Instruction)
    assert slot.word == asm.nop().word
    assert copy.charges == [
        Charge(Cause.JUMP_TABLES, 3, block=1, at=3),
        Charge(Cause.JUMP_TABLES, 1, TO_ZERO),
        Charge(Cause.JUMP_TABLES, 1, TO_ONE),
    ]
    ((label, *entries),) = copy.tables
    assert label == Label("r0.table.1")
    ways = {BASE + 4 * k: i.fixup.symbol for k, i in enumerate(entries)
            if isinstance(i, Instruction) and i.fixup}  # fmt: skip
    assert ways == LEADS
    assert len(entries) == (ONE - BASE) // 4 + 1


def test_a_jump_without_an_immediate_is_the_same() -> None:
    plain = written(drafted(), {ONE: None})
    assert written(drafted(asm.jmpl(R.G1, R.G0, R.G0)), {ONE: None}).items == plain.items


def test_of_two_registers_one_is_changed() -> None:
    """%g5, which is zero, is read behind the jump, so that %g1 gets the sum."""
    jump, slot = asm.jmpl(R.G5, R.G1, R.G0), asm.mov(R.G5, R.O3)
    copy = written(drafted(jump, slot), {ONE: None})
    assert copy.items[:3] == [
        asm.arithmetic("add", R.G1, R.G5, R.G1),
        asm.sethi(BASE, R.G4),
        asm.arithmetic("sub", R.G1, R.G4, R.G1),
    ]
    assert copy.charges[0] == Charge(Cause.JUMP_TABLES, 4, block=1, at=3)


def test_the_other_of_two_registers_may_be_the_free_one() -> None:
    """All that callees may change is read behind the jump but %g1 and %g5, which it adds."""
    read = [R.G2, R.G3, R.G4, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]
    behind = [asm.arithmetic("add", R.O0, register, R.O0) for register in read]
    copy = written(drafted(asm.jmpl(R.G1, R.G5, R.G0), behind=behind), {ONE: None})
    assert copy.items[:2] == [asm.arithmetic("add", R.G1, R.G5, R.G1), asm.sethi(BASE, R.G5)]


@pytest.mark.parametrize(
    "slot",
    [asm.mov(R.G1, R.O3), asm.mov(1, R.G1), asm.restore()],
    ids=["reads", "writes", "another window"],
)
def test_a_register_that_the_delay_slot_needs_is_not_changed(slot: Instruction) -> None:
    with pytest.raises(NotRewritableError, match="no register is free for a table of the jump"):
        written(drafted(slot=slot), {ONE: None})


def test_tables_lie_at_multiples_of_their_alignment() -> None:
    """Wherever the copies before them end: one `sethi` makes their addresses."""
    draft = drafted()
    copy = written(draft, {ONE: None})
    copy.tables += [[Label("second"), *words(copy.tables[0])]]
    copy.items += [Label("r0.block.2"), Label("r0.block.3"), Label("main")]
    recovered = Assembled({"main": code(asm.retl(), asm.nop())}).recovered
    copies = Copies({0: copy}, {})
    items = [*program_items(recovered, copies), Label("simprof.end"), asm.nop()]
    placed = place_program(copies, items, BASE, assign_labels(items, BASE), BASE)
    first, second = placed.labels["r0.table.1"], placed.labels["second"]
    assert first % TABLE_ALIGNMENT == second % TABLE_ALIGNMENT == 0
    assert second == first + TABLE_ALIGNMENT
    assert placed.labels["simprof.end"] == second + ONE - BASE + 4
