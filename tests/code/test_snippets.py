"""Every kind of snippet, executed: it does what its action means, and nothing else.

Random sites (live registers, depth, width), random register states, every table and addressing
mode, path register in a register and on the stack. Checked: counters, path register, all live
registers, condition codes, %y, memory, and that the price is the number of instructions executed.
"""

from __future__ import annotations

import itertools
import random

import pytest

from simprof.profiler.code.frames import Site
from simprof.profiler.code.layout import ARRAYS_BASE, CounterLayout
from simprof.profiler.code.runtime_code import RESTORE_ROUTINE
from simprof.profiler.code.snippet_parts import HASH_REGISTERS, CounterAccess
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.effects import ALL, CC, INTEGER, XCC, Y
from tests.support.code_bench import State
from tests.support.scheme_code import GENERATORS
from tests.support.snippets import (
    MACHINES,
    MODES,
    Case,
    R,
    Runner,
    free_case,
    make_case,
)
from tests.support.turns import turns

CONSTANTS = [0, 1, 5, 1023, 1024, 4095, 4096, 70000]


def random_actions(rng: random.Random, case: Case) -> tuple[Action, ...]:
    """Return one of the action lists that plans have; sums may be negative until counted."""
    constant = rng.choice(CONSTANTS)
    case.number = rng.randrange(-constant, 4000)
    back = rng.random() < 0.5
    kinds: list[tuple[Action, ...]] = [
        (SetRegister(constant),),
        (SetRegister(-constant),),
        (AddRegister(constant),),
        (AddRegister(-constant),),
        (CountPath(constant, back),),
        (CountConstantPath(constant, back),),
        (CountEdge(rng.randrange(2000)),),
        (CountPath(constant, back), SetRegister(rng.choice(CONSTANTS))),
        (CountConstantPath(constant, back), SetRegister(0)),
        (SetRegister(3), CountEdge(2), AddRegister(constant)),
    ]
    return rng.choice(kinds)


@pytest.mark.long
@pytest.mark.parametrize(
    ("machine", "variant"),  # mode (addressing, indexing, hash), and whether r is on the stack
    turns(MACHINES, itertools.product(range(3), [False, True]), few=3),
)
def test_snippets_do_what_they_mean(machine: MachineKind, variant: tuple[int, bool]) -> None:
    mode, on_stack = variant
    runner = Runner(machine, 10 * mode + on_stack)
    costs = set()
    for _ in range(250):
        case = make_case(runner.rng, machine, mode, on_stack)
        body = runner.run(case, random_actions(runner.rng, case))
        costs.add(body.cost)
    runner.check_total()
    assert len(costs) > 4


FREE_COSTS: list[tuple[Action, int, int]] = [  # the table of snippets_paths
    (SetRegister(9), 2, 1),
    (AddRegister(9), 1, 1),
    (AddRegister(-9), 1, 1),
    (CountPath(9), 3, 6),
    (CountPath(0), 3, 6),
    (CountConstantPath(9), 4, 4),
    (CountEdge(9), 4, 4),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("action", "addressing", "indexing"), FREE_COSTS, ids=str)
def test_free_costs(machine: MachineKind, action: Action, addressing: int, indexing: int) -> None:
    runner = Runner(machine, 1)
    for mode, cost in ((0, addressing), (1, indexing)):
        assert runner.run(free_case(machine, mode), (action,)).cost == cost


def test_initialisation_with_zero_low_bits_is_one_instruction() -> None:
    case = free_case(MachineKind.SPARCV9, 0)
    aligned = CounterAccess(
        *MODES[0], CounterLayout(ARRAYS_BASE, ARRAYS_BASE), R.L0, case.access.context, GENERATORS
    )
    assert snippet_body((SetRegister(0),), aligned, case.site).cost == 1
    assert snippet_body((SetRegister(256),), aligned, case.site).cost == 1


@pytest.mark.parametrize("machine", MACHINES)
def test_free_hash_call(machine: MachineKind) -> None:
    case = free_case(machine, 2)
    body = Runner(machine, 1).run(case, (CountPath(9, True),))
    assert [i.text for i in body.instructions] == [
        "add %l0, 9, %o0",
        "call hash_count_back",
        "sethi %hi(0x60000000), %o1",
    ]
    assert Runner(machine, 1).run(case, (CountPath(100000),)).cost == 5
    assert Runner(machine, 1).run(case, (CountConstantPath(5),)).cost == 3


@pytest.mark.parametrize("machine", MACHINES)
def test_each_missing_register_costs_a_save_and_a_restore(machine: MachineKind) -> None:
    runner = Runner(machine, 1)
    free = free_case(machine, 0)
    for kept, extra in ((INTEGER & ~(1 << R.G1), 2), (INTEGER, 4)):
        site = Site(kept & ~(1 << R.L0), free.site.frame, free.site.slots)
        case = Case(machine, free.access, site, 7, free.state)
        assert runner.run(case, (CountEdge(1),)).cost == 4 + extra


@pytest.mark.parametrize("mode", range(3))
def test_stack_register_pays_for_its_loads_and_stores(mode: int) -> None:
    machine = MachineKind.SPARCV9
    runner = Runner(machine, 1)
    for action, loads in ((SetRegister(9), 1), (AddRegister(9), 2), (CountPath(9), 1)):
        in_register = runner.run(free_case(machine, mode), (action,)).cost
        assert runner.run(free_case(machine, mode, None), (action,)).cost == in_register + loads
    assert runner.run(free_case(machine, 1, None), (SetRegister(0),)).cost == 1


def test_paths_beyond_32_bits_in_64_bit_code() -> None:
    runner = Runner(MachineKind.SPARCV9, 1)
    for register in (R.L0, None):
        for number in (1 << 40, -(1 << 40) + 5, 0x123456789ABC):
            case = free_case(MachineKind.SPARCV9, 1, register)
            runner.run(case, (SetRegister(number),))
            runner.run(case, (AddRegister(number),))


def test_v8_keeps_every_set_of_flags_over_a_hash_call() -> None:
    runner = Runner(MachineKind.SPARCV8, 1)
    free = free_case(MachineKind.SPARCV8, 2)
    costs = set()
    for icc in (f for f in range(16) if f & 12 != 12):
        for live in (CC | free.site.live, ALL & ~Y & ~(1 << R.L0)):
            site = Site(live, free.site.frame, free.site.slots)
            state = State(list(free.state.registers), icc, 0, 0)
            case = Case(MachineKind.SPARCV8, free.access, site, 7, state)
            costs.add(runner.run(case, (CountPath(3),)).cost)
    assert len(costs) == 2
    assert RESTORE_ROUTINE in runner.symbols


def test_v9_never_touches_conditions() -> None:
    assert XCC & CC
    for machine in (MachineKind.SPARCV9, MachineKind.SPARCV8PLUS):
        free = free_case(machine, 2)
        site = Site(free.site.live | CC, free.site.frame, free.site.slots)
        plain = snippet_body((CountPath(3),), free.access, free.site)
        assert snippet_body((CountPath(3),), free.access, site) == plain


def test_hash_registers_are_the_convention() -> None:
    assert HASH_REGISTERS == (R.O0, R.O1, R.O7)
