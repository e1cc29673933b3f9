"""Registers stolen from the program: where its values go, and that nothing is lost of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from simprof.profiler.code.places import NO_WEIGHTS, find_place
from simprof.profiler.code.registers import least_used, mask
from simprof.profiler.code.stolen import LoadStolen, Spills, StoreStolen, find_spills
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.placement import counter_plan
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import RegisterUse
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from tests.support.assembled import Assembled, code
from tests.support.code_lab import MACHINES, Lab

R = Register
STOLEN = (R.G3, R.G4)

Lines = Sequence[Instruction | str]  # with labels

SUM: Lines = (
    asm.arithmetic("save", R.SP, -176, R.SP),
    asm.mov(0, R.G4),
    asm.mov(5, R.L0),
    "loop",
    asm.arithmetic("add", R.G4, R.L0, R.G4),
    asm.arithmetic("subcc", R.L0, 1, R.L0),
    asm.branch("ne", "loop"),
    asm.nop(),
    "out",
    asm.mov(R.G4, R.I0),
    asm.ret(),
    asm.restore(),
)
"""A sum in %g4: set in the first block, read and replaced in the loop, read behind it."""


def lab_with(routine: Lines, machine: MachineKind = MachineKind.SPARCV9) -> Lab:
    """Return a routine of a program that leaves `STOLEN` to counters."""
    lab = Lab(machine, 0, routine=code(*routine))
    lab.context.stolen = mask(*STOLEN)
    return lab


@cache
def random_lab(machine: MachineKind, seed: int) -> Lab:
    """Return a random routine."""
    return Lab(machine, seed)


def spills_of(lab: Lab) -> Spills:
    """Return what becomes of a routine's uses where counters stand in blocks only."""
    return find_spills(lab.cfg, lab.context.using(RegisterUse.STOLEN), ())


def every_block(lab: Lab) -> InstrumentationPlan:
    """Return a plan with a counter in every block."""
    return counter_plan(blocks=tuple(range(len(lab.cfg.blocks))))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_block_loads_what_it_reads_and_stores_what_it_replaces(machine: MachineKind) -> None:
    """A counter takes 4 instructions in each block, and the sum's 3 uses 2 loads and 2 stores."""
    lab = lab_with(SUM, machine)
    spills = spills_of(lab)
    assert (spills.spilled, spills.kept) == ((R.G4,), ())
    assert spills.loads == {1: (R.G4,), 2: (R.G4,)}
    assert spills.stores == {0: (R.G4,), 1: (R.G4,)}
    plain, before = lab.execute(lab.items)
    plan = counter_plan(blocks=(0, 1, 2))
    made, layout, state, executed = lab.run_plan(plan, RegisterUse.STOLEN, NO_WEIGHTS)
    lab.check_same_result(plain, state)
    assert state.registers[R.O0] == 5 + 4 + 3 + 2 + 1
    assert lab.words(layout.edge_base, 3) == [1, 5, 1]
    load, store = LoadStolen(R.G4, 1), StoreStolen(R.G4, 1)
    assert [made.block_snippets[b].actions for b in range(3)] == [
        (CountEdge(0),),
        (CountEdge(1), load),
        (CountEdge(2), load),
    ]
    assert [made.block_end_snippets[b].actions for b in range(2)] == [(store,), (store,)]
    assert [made.block_snippets[b].cost for b in range(3)] == [4, 5, 5]
    assert executed - before == (4 + 1) + 5 * (5 + 1) + 5


def test_the_two_least_used_registers_that_carry_nothing_are_taken() -> None:
    names = [R.G1, R.G1, R.G2, R.G3, R.G3, R.G3, R.G4, R.G4]
    reads = np.array([mask(each) for each in names], np.uint64)
    none = np.zeros(len(names), np.uint64)
    assert least_used(reads, none, True, 0) == mask(R.G2, R.G4)
    assert least_used(none, reads, True, 0) == mask(R.G2, R.G4)
    assert least_used(reads, none, True, mask(R.G2)) == mask(R.G3, R.G4)
    assert least_used(reads, none, False, 0) == mask(R.G3, R.G4)
    assert least_used(reads, none, False, mask(R.G4)) == mask(R.G3)


def sum_with(*loop: Instruction | str) -> Lines:
    """Return `SUM` with another loop."""
    start, behind = SUM.index("loop") + 1, SUM.index("out")
    return (*SUM[:start], *loop, *SUM[behind:])


KEPT = {
    # A branch leads to a delay slot that reads it: nothing can stand before that.
    "shared slot": sum_with(
        asm.arithmetic("subcc", R.L0, 1, R.L0),
        asm.branch("e", "out"),
        "slot",
        asm.arithmetic("add", R.G4, R.L0, R.L1),
        asm.arithmetic("subcc", R.L0, 1, R.L0),
        asm.branch("g", "slot"),
        asm.nop(),
    ),
    # The routine gets a value from another one.
    "entry": [SUM[0], *SUM[2:]],
}


@pytest.mark.parametrize("name", KEPT)
def test_a_register_is_kept_where_nothing_can_be_stored(name: str) -> None:
    """Then it is saved where it is live, and the routine computes the same."""
    lab = lab_with(KEPT[name])
    spills = spills_of(lab)
    assert (spills.spilled, spills.kept) == ((), (R.G4,))
    assert not spills.loads and not spills.stores


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("always", [False, True])
def test_what_a_delay_slot_replaces_is_stored_behind_it(machine: MachineKind, always: bool) -> None:
    """On the edges out of the block, whose code may then need a jump that it would not need."""
    count, add = asm.arithmetic("subcc", R.L0, 1, R.L0), asm.arithmetic("add", R.G4, R.L0, R.G4)
    branches = [asm.branch("e", "out"), asm.nop(), asm.branch("a", "loop")]
    ending = branches if always else [asm.branch("ne", "loop")]
    lab = lab_with(sum_with(count, *ending, add), machine)
    spills = spills_of(lab)
    assert spills.spilled == (R.G4,)
    ends = [lab.cfg.edges[edge] for edge in spills.behind]
    assert {edge.source for edge in ends} == {2 if always else 1}
    assert len(ends) == (1 if always else 2)
    plain, before = lab.execute(lab.items)
    every = tuple(range(len(lab.cfg.blocks)))
    made, _, state, executed = lab.run_plan(counter_plan(blocks=every), RegisterUse.STOLEN)
    lab.check_same_result(plain, state)
    assert state.registers[R.O0] == 4 + 3 + 2 + 1
    assert {made.snippets[edge].actions for edge in spills.behind} == {(StoreStolen(R.G4, 1),)}
    # Blocks executed; turns of the loop, with a store and a load each; jumps back to it
    blocks, turns, jumps = (11, 4, 4) if always else (7, 5, 4)
    assert executed - before == 4 * blocks + (1 + turns) + (turns + 1) + jumps


@pytest.mark.parametrize("machine", MACHINES)
def test_an_annulled_slot_is_part_of_its_branch(machine: MachineKind) -> None:
    """What it reads is loaded in the branch's block, what it replaces is stored behind it."""
    annulled = sum_with(
        asm.arithmetic("subcc", R.L0, 1, R.L0),
        asm.branch("ne", "loop", True),
        asm.arithmetic("add", R.G4, R.L0, R.G4),
    )
    lab = lab_with(annulled, machine)
    slot = next(block.id for block in lab.cfg.blocks if block.is_slot)
    spills = spills_of(lab)
    assert spills.spilled == (R.G4,)
    assert spills.stores[slot] == (R.G4,) and slot not in spills.loads
    plain, _ = lab.execute(lab.items)
    every = tuple(range(len(lab.cfg.blocks)))
    _, layout, state, _ = lab.run_plan(counter_plan(blocks=every), RegisterUse.STOLEN, NO_WEIGHTS)
    lab.check_same_result(plain, state)
    assert state.registers[R.O0] == 4 + 3 + 2 + 1
    assert lab.words(layout.edge_base, len(every))[slot] == 4


@pytest.mark.seeds(range(12))
@pytest.mark.parametrize("machine", MACHINES)
def test_counters_take_four_instructions(machine: MachineKind, seed: int) -> None:
    """The same routines compute the same in `test_codegen_modes`."""
    lab = random_lab(machine, seed)
    spills = spills_of(lab)
    made, _, _, _ = lab.run_plan(every_block(lab), RegisterUse.STOLEN)
    for snippet in (*made.snippets.values(), *made.block_snippets.values()):
        counters = sum(isinstance(action, CountEdge) for action in snippet.actions)
        others = len(snippet.actions) - counters
        extra = snippet.cost - snippet.jump_cost - 4 * counters - others
        # A register that is kept may be saved and restored, and one that no register stands in for.
        lacking = len(spills.kept) + 2 - lab.context.stolen.bit_count()
        assert 0 <= extra <= 2 * lacking * counters


def test_random_routines_notice_a_store_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So results that are the same say something."""
    monkeypatch.setattr(Spills, "stored", lambda self, registers: ())
    wrong = 0
    for seed in range(12):
        lab = random_lab(MachineKind.SPARCV8, seed)
        plain, _ = lab.execute(lab.items)
        _, _, state, _ = lab.run_plan(every_block(lab), RegisterUse.STOLEN)
        try:
            lab.check_same_result(plain, state)
        except AssertionError:
            wrong += 1
    assert wrong > 0


@pytest.mark.seeds(range(12))
@pytest.mark.parametrize("machine", MACHINES)
def test_registers_hold_the_programs_values_where_it_reads_them(
    machine: MachineKind, seed: int
) -> None:
    """Along every edge of every routine, as found by walking all of them, not by liveness."""
    lab = random_lab(machine, seed)
    spills = spills_of(lab)
    liveness, cfg = lab.context.analysis.liveness, lab.cfg  # type: ignore[union-attr]
    for register in spills.spilled:
        # (block, where the value is): in memory only, or in the register, too. A counter stands at
        # each block's top, of a slot's behind its instruction.
        entries = [cfg.edges[edge].target for edge in cfg.out_edges[cfg.entry]]
        waiting = [(entry, frozenset({"nowhere"})) for entry in entries]
        seen = set(waiting)
        while waiting:
            block, holds = waiting.pop()
            is_slot = cfg.blocks[block].is_slot
            if not is_slot:
                holds -= {"register"}
                if register in spills.loads.get(block, ()) and "word" in holds:
                    holds |= {"register"}
            reads = liveness.positions(block, register, written=False)
            writes = liveness.positions(block, register, written=True)
            for position in range(cfg.blocks[block].instructions):
                if position in reads and "nowhere" not in holds:
                    assert "register" in holds, (block, register)
                if position in writes:
                    holds = frozenset({"register"})
            if register in spills.stores.get(block, ()) and "register" in holds:
                holds |= {"word"}
            if is_slot:
                holds -= {"register"}
            for edge in cfg.out_edges[block]:
                on_edge, target = holds, cfg.edges[edge].target
                if register in spills.behind.get(edge, ()) and "register" in holds:
                    on_edge |= {"word"}
                if target < len(cfg.blocks) and (target, on_edge) not in seen:
                    seen.add((target, on_edge))
                    waiting.append((target, on_edge))


def test_places_of_edges_decide_too() -> None:
    """Code at the end of a block would destroy what its last instructions read."""
    routine = code(
        *(SUM[at] for at in (0, 1, 2, 4, 5)),
        asm.branch("a", "out"),
        asm.arithmetic("add", R.G4, 1, R.L1),
        *SUM[8:],
    )
    program = Assembled({"f": routine})
    program.context("f").stolen = mask(*STOLEN)
    cfg, context = program.cfg("f"), program.context("f").using(RegisterUse.STOLEN)
    assert find_spills(cfg, context, ()).spilled == (R.G4,)
    single = [e.id for e in cfg.edges if len(cfg.out_edges[e.source]) == 1 and e.target != cfg.exit]
    places = [find_place(cfg, edge, context) for edge in single]
    assert any(find_spills(cfg, context, [place]).kept for place in places)
