"""The oracles on graphs: they refuse what they do not know."""

from __future__ import annotations

import pytest

from simprof.profiler.plan.actions import CountEdge, WriteTrace
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.profiler.schemes.tpp.code import Poison
from tests.oracles.brute import graph, run_plan

CHOICE = graph(4, [(0, 1), (0, 2), (1, 3), (2, 3)])


@pytest.mark.parametrize("action", [Poison(), WriteTrace(1, 8)], ids=str)
def test_actions_that_the_oracle_does_not_know_are_refused(action: object) -> None:
    actions = {1: (action,)}
    plan = InstrumentationPlan(actions, True, CounterTable.ARRAY, 2, None, 0)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="no idea"):
        run_plan(CHOICE, plan, [])


def test_another_schemes_plan_is_refused() -> None:
    with pytest.raises(AssertionError, match="no idea"):
        run_plan(CHOICE, plan_bittrace(CHOICE).plan, [])


@pytest.mark.parametrize("where", ["blocks", "block_ends"])
def test_actions_of_blocks_are_refused(where: str) -> None:
    places = {where: {0: (CountEdge(0),)}}
    plan = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 1, **places)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="no idea"):
        run_plan(CHOICE, plan, [])
