"""Spilled locals: which one, what stands for its uses, and that the routine does what it did."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from simprof.profiler.code.frames import FRAME_PATH_SLOTS
from simprof.profiler.code.places import LayoutRule
from simprof.profiler.code.pricing import added
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.code.spilling import NO_SPILL, Spiller, substituted
from simprof.profiler.plan.actions import AddRegister, CountPath, SetRegister
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.request.request import RegisterUse
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from simprof.simulator.isa.effects import LOCALS
from tests.support.assembled import code
from tests.support.code_lab import MACHINES, Lab
from tests.support.codegen_modes import crossings_of

R = Register
LOCAL = [Register(n) for n in range(R.L0, R.L7 + 1)]
OTHERS = [R.G1, R.G2, R.G3, R.G4, R.G5, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]


def routine(
    body: Sequence[Instruction | str],
    first: Sequence[Instruction] = (),
    end: Sequence[Instruction] = (),
) -> list[Item]:
    """Return a loop of six rounds around `body` in a window whose locals are all in use."""
    sums = [asm.arithmetic("xor", R.I0, register, R.I0) for register in LOCAL]
    return code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        *(asm.mov(3 * n + 1, register) for n, register in enumerate(LOCAL)),
        *first,
        asm.mov(6, R.I5),
        "loop",
        *body,
        asm.arithmetic("subcc", R.I5, 1, R.I5),
        asm.branch("ne", "loop"),
        asm.nop(),
        *sums,
        *(end or (asm.ret(), asm.restore())),
    )


def path_plan(lab: Lab, registers: int = 1) -> InstrumentationPlan:
    """Return a plan that counts path 0 on each edge to EXIT, and keeps registers until then."""
    cfg = lab.cfg
    entries = {edge: (SetRegister(0),) for edge in cfg.out_edges[cfg.entry]}
    loops = {e.id: (AddRegister(0),) for e in cfg.edges if e.kind.value == "taken"}
    exits = {edge: (CountPath(0),) for edge in cfg.in_edges[cfg.exit]}
    actions = {**loops, **entries, **exits}
    return InstrumentationPlan(actions, True, CounterTable.ARRAY, 1, Addressing.INDEX, 0)


def executed(
    machine: MachineKind, items: list[Item], weights: Sequence[float] | None = None
) -> RoutineCode:
    """Run a routine with a spilled path register; check all that it does and costs."""
    lab = Lab(machine, 1, routine=items)
    edges, (state, instructions) = lab.executed_edges(), lab.execute(lab.items)
    crossings = crossings_of(lab, edges)
    plan = path_plan(lab)
    rule = LayoutRule(weights=tuple(crossings) if weights is None else weights)
    made, layout, after, took = lab.run_plan(plan, RegisterUse.SPILLED, rule)
    lab.check_same_result(state, after)
    assert lab.words(layout.path_base, 1) == [1]
    counts = [sum(crossings[e] for e in lab.cfg.in_edges[b.id]) for b in lab.cfg.blocks]
    assert took - instructions == added(made, crossings, counts)
    return made


def uses(items: Sequence[Item], register: Register) -> int:
    """Return how many instructions name a register."""
    return sum(register.text in getattr(item, "text", "") for item in items)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_local_that_is_used_least_is_spilled(machine: MachineKind) -> None:
    """Least by the weights: %l3 has most instructions, and all but two outside of the loop."""
    busy = [asm.arithmetic("add", r, 1, r) for r in LOCAL if r is not R.L3]
    items = routine(busy, first=[asm.arithmetic("add", R.L3, 1, R.L3)] * 5)
    assert uses(items, R.L3) == max(uses(items, r) for r in LOCAL)
    made = executed(machine, items)
    assert made.spill.registers == (R.L3,)
    assert made.path_register == "%l3"
    # without weights all blocks are alike: another one, which fewer instructions name
    (other,) = executed(machine, items, weights=()).spill.registers
    assert uses(items, other) == min(uses(items, r) for r in LOCAL)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_use_is_a_load_or_a_store(machine: MachineKind) -> None:
    busy = [asm.arithmetic("add", r, 1, r) for r in LOCAL if r is not R.L6]
    made = executed(machine, routine([*busy, asm.arithmetic("xor", R.L6, 5, R.O0)]))
    assert made.spill.registers == (R.L6,)
    (word,) = made.spill.words.values()
    assert word.base is R.FP
    texts = [i.text for e in made.spill.edits.values() for i in (*e.before, *e.after)]
    # one is set, one is read in the loop and one behind it
    assert [text.split()[0] for text in texts] == (
        ["stx", "ldx", "ldx"] if machine is MachineKind.SPARCV9 else ["st", "ld", "ld"]
    )
    assert made.spill.size == sum(made.spill.costs.values()) == 3


def only(register: Register) -> list[Instruction]:
    """Return uses of all locals but one."""
    return [asm.arithmetic("add", r, 1, r) for r in LOCAL if r is not register] * 5


BODIES: dict[str, list[Instruction | str]] = {
    "no register is dead": [
        *(asm.mov(1, r) for r in OTHERS),
        asm.arithmetic("add", R.L2, 3, R.L2),
        *(asm.arithmetic("xor", R.I0, r, R.I0) for r in OTHERS),
    ],
    "a slot reads it": [
        asm.cmp(R.I5, 3),
        asm.branch("e", "on"),
        asm.arithmetic("add", R.L2, 1, R.O0),
        asm.arithmetic("xor", R.I0, R.O0, R.I0),
        "on",
        asm.arithmetic("add", R.I0, R.O0, R.I0),
    ],
    "a slot writes it": [
        asm.cmp(R.I5, 3),
        asm.branch("e", "on"),
        asm.arithmetic("add", R.L2, 1, R.L2),
        asm.arithmetic("xor", R.I0, 9, R.I0),
        "on",
    ],
    "an annulled slot writes it": [
        asm.cmp(R.I5, 3),
        asm.branch("g", "on", annul=True),
        asm.arithmetic("add", R.L2, 1, R.L2),
        asm.arithmetic("xor", R.I0, 9, R.I0),
        "on",
    ],
    "an annulled slot reads it": [
        asm.cmp(R.I5, 3),
        asm.branch("g", "on", annul=True),
        asm.arithmetic("add", R.L2, R.I0, R.I0),
        asm.arithmetic("xor", R.I0, 9, R.I0),
        "on",
    ],
    "a call's slot writes it": [asm.call("callee"), asm.arithmetic("add", R.L2, 1, R.L2)],
    "a call's slot reads it": [asm.call("callee"), asm.mov(R.L2, R.O0)],
    "a pair": [asm.store("std", R.L2, R.SP, 2047 + 128), asm.load("ldd", R.SP, 2175, R.L2)],
}


@pytest.mark.parametrize(("name", "machine"), list(itertools.product(BODIES, MACHINES)))
def test_every_kind_of_use(name: str, machine: MachineKind) -> None:
    body = BODIES[name]
    if name == "a pair" and machine is not MachineKind.SPARCV9:
        body = [asm.store("std", R.L2, R.SP, 64), asm.load("ldd", R.SP, 64, R.L2)]
    made = executed(machine, routine([*only(R.L2), *body]))
    assert made.spill.registers == (R.L2,)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_restore_reads_it(machine: MachineKind) -> None:
    items = routine(only(R.L2), end=(asm.ret(), asm.arithmetic("restore", R.I0, R.L2, R.O0)))
    assert executed(machine, items).spill.registers == (R.L2,)


UNFIT: dict[str, list[Instruction | str]] = {
    "its place in a jump is the copy's": [asm.jmpl(R.L2, R.G0, R.G0), asm.nop()],
    "a slot that is annulled may fault": [
        asm.cmp(R.I5, 3),
        asm.branch("g", "on", annul=True),
        asm.load("ld", R.I0, 0, R.L2),
        "on",
    ],
    "the branch needs the flags that the slot changes": [
        asm.cmp(R.I5, 3),
        asm.branch("g", "on"),
        asm.arithmetic("addcc", R.L2, 1, R.L2),
        "on",
    ],
    "it is the caller's where the window is closed": [
        asm.restore(),
        asm.arithmetic("add", R.L2, 1, R.L2),
        asm.arithmetic("save", R.SP, -176, R.SP),
    ],
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_cannot_be_spilled_is_not(name: str) -> None:
    lab = Lab(MachineKind.SPARCV9, 1, routine=routine([*only(R.L2), *UNFIT[name]]))
    spiller = Spiller(lab.context, 0, reads_transfers=False)
    spill = spiller.spill(8, 0, [1.0] * len(lab.cfg.blocks))
    assert R.L2 not in spill.registers
    if "slot" in name:  # the others can be
        assert len(spill.registers) == 7


def test_no_more_words_than_the_frame_has() -> None:
    lab = Lab(MachineKind.SPARCV9, 1, routine=routine(only(R.L2)))
    spiller = Spiller(lab.context, 0, reads_transfers=False)
    weights = [1.0] * len(lab.cfg.blocks)
    room = len(FRAME_PATH_SLOTS)
    assert [len(spiller.spill(8, n, weights).words) for n in (room - 3, room, room + 9)] == [
        3,
        0,
        0,
    ]
    words = spiller.spill(8, 8, weights).words.values()
    assert len({word.offset for word in words}) == 8


def test_a_leaf_spills_nothing() -> None:
    body = code(asm.arithmetic("add", R.O0, 1, R.O0), asm.retl(), asm.nop())
    lab = Lab(MachineKind.SPARCV9, 1, routine=body)
    spiller = Spiller(lab.context, 0, reads_transfers=False)
    assert spiller.candidates == ()
    assert spiller.spill(1, 1, [1.0] * len(lab.cfg.blocks)) is NO_SPILL


def test_only_fields_of_registers_are_replaced() -> None:
    """The immediate 18, a branch condition and a floating-point register are no %l2."""
    add = asm.arithmetic("add", R.L2, 18, R.L2).word
    expected = asm.arithmetic("add", R.G1, 18, R.G1).word
    assert substituted(add, {R.L2: R.G1}) == expected
    assert substituted(add, {}) == add
    loads = asm.load("ld", R.L2, 18, R.L2).word | 1 << 24  # op3 of `ld [...], %f18`
    assert substituted(loads, {R.L2: R.G1}) & 31 << 25 == 18 << 25
    assert substituted(loads, {R.L2: R.G1}) >> 14 & 31 == R.G1
    assert LOCALS >> R.L2 & 1
