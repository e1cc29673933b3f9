"""What plans become for the kernel: operations by edge, joined where one does the work of two."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, cost_words
from simprof.profiler.engine.memory import Operation
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.simulator.binary.program import MachineKind
from tests.support.event_player import MASK
from tests.support.figures import edge, named
from tests.support.hash_tables import counts_of
from tests.support.operation_lists import fuse, joined

ADD, BEGIN, SEGMENT = kernels.ADD, kernels.BEGIN, kernels.SEGMENT
CALL, RETURN, HASH = kernels.CALL, kernels.RETURN, kernels.HASH


@pytest.mark.parametrize(
    ("operations", "fused"),
    [
        ([(ADD, 2, 0), (ADD, 3, 0)], [(ADD, 5, 0)]),
        ([(BEGIN, 2, 16), (ADD, 3, 0)], [(BEGIN, 5, 16)]),
        ([(ADD, 2, 0), (SEGMENT, 3, 7)], [(SEGMENT, 5, 7)]),
        ([(SEGMENT, 3, 7), (ADD, 2, 0)], [(SEGMENT, 3, 9)]),
        ([(ADD, 1, 0), (ADD, 2, 0), (SEGMENT, 4, 1), (ADD, 8, 0)], [(SEGMENT, 7, 9)]),
        ([(SEGMENT, 1, 2), (SEGMENT, 3, 4)], [(SEGMENT, 1, 2), (SEGMENT, 3, 4)]),
        ([(ADD, 1, 0), (BEGIN, 2, 16)], [(ADD, 1, 0), (BEGIN, 2, 16)]),
        ([(ADD, 1, 0), (CALL, 8, 0), (ADD, 2, 0)], [(ADD, 1, 0), (CALL, 8, 0), (ADD, 2, 0)]),
        ([(RETURN, 0, 0), (ADD, 2, 0)], [(RETURN, 0, 0), (ADD, 2, 0)]),
        ([], []),
    ],
)
def test_neighbours_are_joined_within_one_activation(
    operations: list[Operation], fused: list[Operation]
) -> None:
    assert joined(operations) == fused == fuse(operations)


@pytest.mark.seeds(range(300))
def test_operations_are_joined_as_the_oracle_joins_them(seed: int) -> None:
    rng = random.Random(seed)
    kinds = (BEGIN, ADD, SEGMENT, HASH, CALL, RETURN, kernels.WINDOW, kernels.ADD_WINDOW)
    operations = [
        (rng.choice(kinds), rng.choice((0, 0, 3, 8)), rng.choice((0, 0, 5, 16)))
        for _ in range(rng.randrange(9))
    ]
    assert joined(operations) == fuse(operations)


def plan_of(
    actions: Mapping[int, tuple[Action, ...]],
    table: CounterTable = CounterTable.ARRAY,
    events: int = 0,
) -> InstrumentationPlan:
    addressing = Addressing.INDEX if table is CounterTable.ARRAY else None
    return InstrumentationPlan(
        actions, table is not CounterTable.NONE, table, 16, addressing, events
    )


def lowering_of(
    plans: Mapping[int, InstrumentationPlan | None], *graphs: ControlFlowGraph
) -> tuple[Lowering, list[int]]:
    """A lowering of one scheme, and the list of the routines that it asks the scheme about."""
    asked: list[int] = []

    def planner(routine: int) -> InstrumentationPlan | None:
        asked.append(routine)
        return plans[routine]

    first = np.cumsum([0, *(len(cfg.edges) for cfg in graphs)]).astype(np.int64)
    model = cost_words(MachineKind.SPARCV9)
    return Lowering([planner], graphs, first, model, MASK), asked


LINE = named("A>B", "A", "B")
"""Edges: 0 is A>B, 1 ENTRY>A, 2 B>EXIT. It has one path."""
COUNTED = plan_of({1: (SetRegister(0),), 2: (CountPath(0),)})


def test_a_routine_of_one_path_is_one_segment() -> None:
    """Its key: number 0, ended by no removed edge, and the 1 that every key has."""
    lowering, _ = lowering_of({0: COUNTED}, LINE)
    ((begin, register, start),) = lowering.operations(1)
    assert (begin, register) == (BEGIN, 0)
    assert start >= kernels.FIRST_STATE
    assert lowering.operations(0) == ()
    assert lowering.operations(2) == ((SEGMENT, 1, 0),)


def test_routines_are_lowered_when_they_are_first_crossed() -> None:
    """Edges 3, 4 and 5 are those of the second routine."""
    lowering, asked = lowering_of({0: COUNTED, 1: COUNTED}, LINE, LINE)
    assert asked == []
    assert lowering.operations(5) == ((SEGMENT, 1, 0),)
    assert lowering.operations(4)[0][0] == BEGIN
    assert asked == [1]
    lowering.operations(0)
    assert asked == [1, 0]


def test_what_counts_no_paths_costs_the_kernel_nothing() -> None:
    """Edge counters follow from the edge counts; a routine may not be profiled at all."""
    edges_only = plan_of({0: (CountEdge(0),)}, CounterTable.NONE, events=1)
    lowering, _ = lowering_of({0: edges_only, 1: None}, LINE, LINE)
    assert [lowering.operations(number) for number in range(6)] == [()] * 6


def test_without_schemes_no_routine_is_looked_at() -> None:
    model = cost_words(MachineKind.SPARCV9)
    lowering = Lowering([], [LINE], np.array([0, 3], np.int64), model, MASK)
    assert lowering.operations(2) == ()
    assert lowering.products.product(0) is None


def test_hashed_counts_of_fixed_numbers_are_operations_of_their_own() -> None:
    """They come before the step of the segment, in the routine's own table."""
    plan = plan_of(
        {0: (CountConstantPath(9),), 2: (CountConstantPath(4, True),)}, CounterTable.HASH
    )
    lowering, _ = lowering_of({0: COUNTED, 1: plan}, LINE, LINE)
    table = 0 << kernels.TABLE_SHIFT
    assert lowering.operations(3) == ((HASH | table, 9, 1),)
    assert lowering.operations(5) == (
        (HASH | kernels.HASH_BACK_EDGE | table, 4, 1),
        (SEGMENT, 1, 0),
    )


def test_each_hashing_routine_has_a_table_of_its_own() -> None:
    plan = plan_of({0: (CountConstantPath(9),)}, CounterTable.HASH)
    lowering, _ = lowering_of({0: plan, 1: plan}, LINE, LINE)
    tables = [lowering.operations(number)[0][0] >> kernels.TABLE_SHIFT for number in (0, 3)]
    assert tables == [0, 1]
    memory = lowering.memory
    memory.grow_nodes()
    for number, times in ((0, 2), (3, 5)):
        operations = memory.add_operations(list(lowering.operations(number)))
        for _ in range(times):
            assert memory.execute(operations, 0) == kernels.OK
    assert counts_of(lowering, 0, 0) == {9: 2}
    assert counts_of(lowering, 1, 0) == {9: 5}
    calls, instructions = lowering.hash_works()[1, 0]
    assert calls == 5 and instructions > 0


def test_arrays_have_no_hash_table() -> None:
    lowering, _ = lowering_of({0: COUNTED}, LINE)
    lowering.operations(0)
    assert counts_of(lowering, 0, 0) is None
    assert not lowering.hash_works()
    assert counts_of(lowering, 7, 0) is None


def test_a_hashed_count_that_depends_on_the_register_ends_its_segment() -> None:
    """With an array only B>EXIT ends one; with a hash table A>B has to, as well."""
    actions = {1: (SetRegister(0),), 0: (CountPath(0), AddRegister(1)), 2: (CountPath(0),)}
    ends = []
    for table in (CounterTable.ARRAY, CounterTable.HASH):
        lowering, _ = lowering_of({0: plan_of(actions, table)}, LINE)
        codes = {number: lowering.operations(number) for number in range(3)}
        ends.append([n for n, found in codes.items() if any(o[0] == SEGMENT for o in found)])
    assert ends == [[2], [0, 2]]
    assert edge(LINE, "A>B") == 0


def test_routines_have_states_and_hash_tables_in_the_order_in_which_they_are_entered() -> None:
    fixed = plan_of({0: (CountConstantPath(9),)}, CounterTable.HASH)
    counted = {1: (SetRegister(0),), 0: (CountPath(0), AddRegister(1)), 2: (CountPath(0),)}
    plans = {0: fixed, 1: COUNTED, 2: plan_of(counted, CounterTable.HASH)}

    def entered(*routines: int) -> tuple[list[int], dict[int, tuple[int, int]]]:
        """Return the states in which the routines' activations begin, and the tables' owners."""
        lowering, _ = lowering_of(plans, LINE, LINE, LINE)
        begun = [lowering.operations(3 * routine + 1) for routine in routines]
        return [state for ((_, _, state),) in begun], lowering.tables()

    assert entered(0, 1, 2)[1] == {0: (0, 0), 1: (2, 0)}
    states, tables = entered(2, 0, 1)
    assert tables == {0: (2, 0), 1: (0, 0)}
    assert states == entered(0, 1, 2)[0] and len(set(states)) == 3 and 0 not in states
