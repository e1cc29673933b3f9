"""Plans executed on walks, action by action, with every counter worked out by hand.

The plan is the one of EPP 3.4 on a loop around a choice: paths 0 and 1 come from the entry over B
and C, 2 and 3 are the same behind the back edge, which has an edge counter as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountEdge,
    CountPath,
    PathIncrement,
    SetRegister,
)
from simprof.profiler.plan.decoders import UnfinishedPath
from simprof.profiler.plan.interpret import ExecutedWalk, begin, execute, follow
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.schemes.tpp.code import CountColdPath
from tests.support.figures import edge, named, walk

LOOP = named("A>B A>C B>D C>D D>A", "A", "D")
A, B, C, D = range(4)
ACTIONS: Mapping[int, tuple[Action, ...]] = {
    edge(LOOP, "ENTRY>A"): (SetRegister(0),),
    edge(LOOP, "A>C"): (AddRegister(1),),
    edge(LOOP, "D>A"): (CountEdge(0), CountPath(0, True), SetRegister(2)),
    edge(LOOP, "D>EXIT"): (CountPath(0),),
}
PLAN = InstrumentationPlan(ACTIONS, True, CounterTable.ARRAY, 4, Addressing.INDEX, 1)
OVER_C_THEN_B = ExecutedWalk(tuple(walk(LOOP, "ACDABD")), 2)
STOPPED_IN_D = ExecutedWalk(tuple(walk(LOOP, "ABDACD")[:-1]), 3)


def test_each_walk_counts_as_often_as_it_was_executed() -> None:
    """Twice C then B, three times B then C without an end; the back edge is crossed 5 times."""
    found = execute(LOOP, PLAN, [OVER_C_THEN_B, STOPPED_IN_D])
    assert found.paths == {1: 2, 2: 2, 0: 3}
    assert found.events == (5,)
    assert found.early == {D: 3}
    assert found.unfinished == (UnfinishedPath(D, (3,), None, 3),)
    assert (found.hashed_increments, found.hash_instructions, found.taken) == (0, 0, {})


def test_what_was_counted_last_is_kept_where_it_may_be_taken_back() -> None:
    counted = replace(PLAN, counted_region=frozenset({D}))
    assert execute(LOOP, counted, [STOPPED_IN_D]).unfinished == (UnfinishedPath(D, (3,), 0, 3),)


def test_equal_ends_are_one_entry() -> None:
    found = execute(LOOP, PLAN, [STOPPED_IN_D, STOPPED_IN_D])
    assert found.unfinished == (UnfinishedPath(D, (3,), None, 6),)


def test_counts_in_a_hash_table_are_counted_and_cold_ones_are_not() -> None:
    """Path 1 is cold here: its count needs no table."""
    actions = {**ACTIONS, edge(LOOP, "D>EXIT"): (CountColdPath(),)}
    plan = replace(PLAN, actions=actions, table=CounterTable.HASH, addressing=None)
    found = execute(LOOP, plan, [OVER_C_THEN_B])
    assert found.paths == {1: 2, -1: 2}
    assert found.hashed_increments == 2


def test_a_plan_without_paths_has_no_unfinished_ones() -> None:
    edges_only = InstrumentationPlan(
        {edge(LOOP, "D>A"): (CountEdge(0),)}, False, CounterTable.NONE, 0, None, 1
    )
    found = execute(LOOP, edges_only, [STOPPED_IN_D])
    assert (found.paths, found.events, found.unfinished) == ({}, (3,), ())
    assert found.early == {D: 3}


def test_actions_of_blocks_count_executions() -> None:
    """D is executed twice by each walk of two turns: 2 x 2 + 3 x 2 times, B 2 + 3 times."""
    plan = InstrumentationPlan(
        {}, False, CounterTable.NONE, 0, None, 2,
        blocks={B: (CountEdge(0),)}, block_ends={D: (CountEdge(1),)},
    )  # fmt: skip
    assert execute(LOOP, plan, [OVER_C_THEN_B, STOPPED_IN_D]).events == (5, 10)


def test_following_keeps_the_activation_between_pieces_of_a_walk() -> None:
    execution = begin(PLAN)
    assert execution.registers == [0]
    edges = walk(LOOP, "ACDABD")
    follow(PLAN, edges[:3], execution)
    assert (execution.registers, execution.counted) == ([1], [])
    follow(PLAN, edges[3:], execution)
    assert execution.counted == [PathIncrement(1, True), PathIncrement(2, False)]
    assert execution.edge == edge(LOOP, "D>EXIT")


def test_blocks_execute_as_often_as_they_are_entered() -> None:
    crossings = [0] * len(LOOP.edges)
    for step in walk(LOOP, "ACDABDABD"):
        crossings[step] += 1
    assert block_counts(LOOP, crossings) == (3, 2, 1, 3)
