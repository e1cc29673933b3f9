"""The code of tpp's actions, executed from random states, against `Action.execute`."""

from __future__ import annotations

import dataclasses
import random

import pytest
from msgspec.structs import replace

from simprof.profiler.code.layout import ARRAYS_BASE, CounterLayout
from simprof.profiler.code.snippet_parts import HASH_REGISTERS, Body
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import Action, AddRegister, Execution, SetRegister
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.tpp.code import (
    COLD_COUNTER,
    POISON,
    POISONED,
    CountBranching,
    CountColdPath,
    CountHotPath,
    CountUnlessCold,
    Poison,
)
from simprof.simulator.binary.program import MachineKind
from tests.support.code_bench import END_TRAP, STACK
from tests.support.snippets import (
    HASHED,
    MACHINES,
    Case,
    Runner,
    check_preserved,
    check_stack,
    encoded,
    free_case,
    get_path,
    make_case,
    set_path,
)
from tests.support.turns import turns

ARRAY_AT = ARRAYS_BASE + 0x2008
ARRAY = CounterLayout(ARRAY_AT, ARRAYS_BASE + 0x9008, ARRAY_AT - 4)
HASH = replace(HASHED, named=ARRAYS_BASE + 0x8C04)
V9, V8PLUS, V8 = MachineKind.SPARCV9, MachineKind.SPARCV8PLUS, MachineKind.SPARCV8
DRIFTS = [0, 0, 1, -1, 4095, -4095, 100_000, -100_000]


def tpp_case(rng: random.Random, machine: MachineKind, mode: int, on_stack: bool) -> Case:
    """A random case with a cold counter."""
    return with_cold_counter(make_case(rng, machine, mode, on_stack))


def with_cold_counter(case: Case) -> Case:
    layout = HASH if case.access.table is CounterTable.HASH else ARRAY
    return dataclasses.replace(case, access=replace(case.access, layout=layout))


def machine_number(case: Case, number: int) -> int:
    """The path number that the machine's register stands for, poisoned ones included."""
    if number > POISON // 2:
        return number
    return (POISONED - case.access.offset) // case.access.scale + number - POISON


class TppRunner(Runner):
    """Executes snippets from hot and from poisoned registers."""

    def run(self, case: Case, actions: tuple[Action, ...], number: int | None = None) -> Body:
        """Execute the snippet of `actions` with `number` in the path register."""
        before = case.number if number is None else number
        set_path(case, self.bench, machine_number(case, before))
        if case.machine is V8PLUS and case.access.register is not None:
            case.state.registers[case.access.register] |= self.rng.getrandbits(32) << 32
        stack = self.bench.read(STACK, 1 << 16)
        body = snippet_body(actions, case.access, case.site)
        outcome = self.bench.run(body.instructions, case.state, self.symbols)
        text = [i.text for i in body.instructions]
        assert outcome.trap == 0x100 + END_TRAP, text
        execution = Execution([before])
        for action in actions:
            action.execute(execution)
        hashed = sum(self.expect_path(case, *count) for count in execution.counted)
        conditional = body.taken_cost * len(execution.taken)
        assert outcome.executed - hashed == body.cost + conditional, text
        if not isinstance(actions[-1], CountHotPath | CountBranching | CountUnlessCold):
            after = machine_number(case, execution.registers[0])
            assert get_path(case, self.bench, outcome.state) == encoded(case, after), text
        check_preserved(case, outcome.state)
        check_stack(case, stack, self.bench.read(STACK, 1 << 16))
        self.check_counters()
        return body

    def expect_path(self, case: Case, counter: int, back: bool) -> int:
        if counter == COLD_COUNTER:
            self.bump(case.access.layout.named)
            return 0
        return self.expect_count(case, counter, back)


def random_snippet(rng: random.Random, case: Case) -> tuple[tuple[Action, ...], int]:
    """Actions as plans have them, and a path register to start from, hot or poisoned."""
    constant = rng.choice([0, 1, 5, 1022, 1023, 1024, 4095, 4096, 70000, -3])
    count = CountHotPath(constant, rng.random() < 0.5, case.access.table is CounterTable.HASH)
    kind = rng.choice([CountUnlessCold, CountBranching])
    ignoring = kind(constant, rng.random() < 0.5)
    number = rng.randrange(4000) - constant
    if rng.random() < 0.4:
        number = POISON + rng.choice(DRIFTS)
    snippets: list[tuple[Action, ...]] = [
        (count,),
        (count,),
        (ignoring,),
        (ignoring,),
        (ignoring, SetRegister(rng.choice([0, 7, 5000]))),
        (ignoring, Poison()),
        (Poison(), AddRegister(-17), ignoring),
        (count, SetRegister(rng.choice([0, 7, 5000]))),
        (count, Poison()),
        (Poison(),),
        (CountColdPath(),),
        (CountColdPath(), Poison()),
        (CountColdPath(), SetRegister(3)),
        (Poison(), AddRegister(-17), count),
    ]
    if case.machine is V8 and case.access.register in HASH_REGISTERS:
        # Where code changes icc, no path register is one that restoring icc destroys.
        snippets = [actions for actions in snippets if ignoring not in actions]
    return rng.choice(snippets), number


@pytest.mark.parametrize(("on_stack", "mode", "machine"), turns([False, True], range(3), MACHINES))
def test_snippets_do_what_they_mean(machine: MachineKind, mode: int, on_stack: bool) -> None:
    runner = TppRunner(machine, 100 + 10 * mode + on_stack)
    costs = set()
    for _ in range(90):
        case = tpp_case(runner.rng, machine, mode, on_stack)
        actions, number = random_snippet(runner.rng, case)
        costs.add(runner.run(case, actions, number).cost)
    runner.check_total()
    assert len(costs) > 4


@pytest.mark.parametrize(
    ("machine", "mode", "costs"),
    [
        (V9, 0, (7, 7)),
        (V8PLUS, 0, (7, 7)),
        (V8, 0, (9, 9)),
        (V9, 1, (8, 9)),
        (V8PLUS, 1, (8, 9)),
        (V8, 1, (8, 9)),
    ],
)
def test_hot_count_where_registers_are_free(
    machine: MachineKind, mode: int, costs: tuple[int, int]
) -> None:
    """TPP A.1 in addressing mode: seven instructions."""
    case = with_cold_counter(free_case(machine, mode))
    for constant, cost in zip((0, 5), costs, strict=True):
        body = snippet_body((CountHotPath(constant),), case.access, case.site)
        assert body.cost == cost, [i.text for i in body.instructions]
        assert body.taken_cost == 0


@pytest.mark.parametrize(
    ("machine", "mode", "costs"),
    [
        (V9, 0, (3, 3)), (V8PLUS, 0, (4, 4)), (V8, 0, (4, 4)),
        (V9, 1, (3, 4)), (V8PLUS, 1, (4, 5)), (V8, 1, (4, 5)),
    ],
)  # fmt: skip
def test_count_unless_cold_where_registers_are_free(
    machine: MachineKind, mode: int, costs: tuple[int, int]
) -> None:
    """A hot path in addressing mode takes one instruction less than appendix A.1's on V9."""
    case = with_cold_counter(free_case(machine, mode))
    for constant, cost in zip((0, 5), costs, strict=True):
        body = snippet_body((CountUnlessCold(constant),), case.access, case.site)
        assert body.cost == cost, [i.text for i in body.instructions]
        assert body.taken_cost == (3, 6)[mode]


@pytest.mark.parametrize(
    ("machine", "mode", "cost"),
    [
        (V9, 0, 6), (V8PLUS, 0, 7), (V8, 0, 7),
        (V9, 1, 9), (V8PLUS, 1, 10), (V8, 1, 10),
        (V9, 2, 6), (V8PLUS, 2, 7), (V8, 2, 7),
    ],
)  # fmt: skip
def test_branching_count_where_registers_are_free(
    machine: MachineKind, mode: int, cost: int
) -> None:
    """TPP 4.1: a hot path takes one instruction less than with A.1's conditional move, on V9."""
    case = with_cold_counter(free_case(machine, mode))
    body = snippet_body((CountBranching(0),), case.access, case.site)
    assert body.cost == cost, [i.text for i in body.instructions]
    hot = (3, 6, 2)[mode]  # of the fixed cost, which a cold path saves
    assert body.taken_cost == 5 - hot, "sethi; ld; add; ba; st"
    assert body.hash_calls == (mode == 2)
    names = [instruction.text.split()[0].partition(",")[0] for instruction in body.instructions]
    if (machine, mode) == (V9, 0):
        cold = ["sethi", "ld", "add", "ba", "st"]
        assert names == ["srl", "brz", "nop", *cold, "ld", "add", "st"]


def test_code_of_appendix_a() -> None:
    case = with_cold_counter(free_case(V9, 0))
    count = snippet_body((CountHotPath(5),), case.access, case.site).instructions
    names = [instruction.text.split()[0] for instruction in count]
    assert names == ["sethi", "or", "sra", "movrnz", "ld", "add", "st"]
    (poison,) = snippet_body((Poison(),), case.access, case.site).instructions
    assert poison.text.startswith("sethi %hi(0xc0000000)")


@pytest.mark.parametrize("machine", MACHINES)
def test_hashed_count_calls_for_hot_paths_only(machine: MachineKind) -> None:
    case = with_cold_counter(free_case(machine, 2))
    body = snippet_body((CountHotPath(5, hashed=True),), case.access, case.site)
    assert (body.hash_calls, body.taken_cost) == (1, 2)  # sethi; call
    assert body.cost == (8 if machine is V9 else 9)
