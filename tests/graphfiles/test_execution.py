"""Runs of graph files: what executing every walk by itself gives, hashing included."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.code.hash_routine import HashTableModel, hash_costs
from simprof.profiler.graphfiles.execution import execute
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.interpret import ExecutedWalk
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.request.errors import CountError
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.qpt.planner import plan_qpt2
from simprof.profiler.schemes.tpp.code import CountColdPath, CountHotPath, Poison
from simprof.simulator.binary.program import MachineKind
from tests.oracles.brute import graph, random_graph, random_walk, run_plan

COSTS = hash_costs(MachineKind.SPARCV9)


def random_plan(rng: random.Random, cfg: ControlFlowGraph) -> InstrumentationPlan:
    """Arrays and hash tables, truncated graphs, edge counters."""
    if rng.random() < 0.2:
        return plan_qpt2(cfg).plan
    weights = [rng.choice((1.0, 10.0, rng.random())) for _ in cfg.edges]
    limit = rng.choice((1, 3, 10**8))
    table = rng.choice((CounterTable.HASH, CounterTable.HASH, CounterTable.ARRAY, None))
    return plan_pp(cfg, weights=weights, path_limit=limit, table=table).plan


@pytest.mark.seeds(range(80))
def test_repeated_walks_count_and_cost_what_single_ones_do(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((2, 6, 12, 40)))
    plan = random_plan(rng, cfg)
    length = rng.choice((5, 40, 150))
    walks = [
        ExecutedWalk(tuple(random_walk(rng, cfg, length)), rng.choice((0, 1, 2, 3, 7)))
        for _ in range(6)
    ]
    singles = [walk.edges for walk in walks for _ in range(walk.count)]
    together = execute(cfg, plan, walks, COSTS)
    assert together == execute(cfg, plan, [ExecutedWalk(walk) for walk in singles], COSTS)
    reference = run_plan(cfg, plan, singles)
    assert dict(together.paths) == dict(reference.paths)
    assert list(together.events) == reference.counters
    hashing = plan.table is CounterTable.HASH
    assert together.hashed_increments == (sum(reference.paths.values()) if hashing else 0)
    assert (together.hash_instructions > 0) == (together.hashed_increments > 0)


def test_hash_costs_follow_the_order_of_all_counts() -> None:
    cfg = graph(2, [(0, 1), (0, 0), (1, 0)], exits=(0,))
    plan = plan_pp(cfg, path_limit=1, table=CounterTable.HASH).plan
    walk = (3, *[0, 2] * 500, 4)
    counters = execute(cfg, plan, [ExecutedWalk(walk, 3)], COSTS)
    table = HashTableModel(COSTS)
    spent = sum(table.count(key, back) for key, back in keys(plan, [walk] * 3))
    assert spent == counters.hash_instructions
    assert table.counts == dict(counters.paths)


def keys(plan: InstrumentationPlan, walks: list[tuple[int, ...]]) -> list[tuple[int, bool]]:
    """Path numbers counted, in order, by the actions' meaning in EPP 3.4."""
    counted = []
    for walk in walks:
        register = 0
        for edge in walk:
            for action in plan.actions.get(edge, ()):
                if isinstance(action, SetRegister):
                    register = action.constant
                elif isinstance(action, AddRegister):
                    register += action.constant
                elif isinstance(action, CountPath):
                    counted.append((register + action.constant, action.on_back_edge))
                elif isinstance(action, CountConstantPath):
                    counted.append((action.constant, action.on_back_edge))
    return counted


def test_numbers_and_counts_of_any_size_are_exact() -> None:
    cfg = graph(1, [])
    actions: dict[int, tuple[Action, ...]] = {
        0: (AddRegister(2**70 - 1),),
        1: (CountPath(5),),
    }
    plan = InstrumentationPlan(actions, True, CounterTable.HASH, 0, None, 0)
    counters = execute(cfg, plan, [ExecutedWalk((0, 1), 10**30)], COSTS)
    assert counters.paths == {2**70 + 4: 10**30}
    assert counters.hashed_increments == 10**30
    assert counters.hash_instructions == COSTS.insert + (10**30 - 1) * COSTS.hit


def test_cold_counts_do_not_call_the_hashing_routine() -> None:
    cfg = graph(3, [(0, 1), (0, 2), (1, 2)], exits=(2,))
    actions: dict[int, tuple[Action, ...]] = {
        1: (Poison(),),
        3: (SetRegister(0),),
        4: (CountHotPath(7), CountColdPath()),
    }
    plan = InstrumentationPlan(
        actions, True, CounterTable.HASH, 0, None, 0, named_counters=("cold",)
    )
    walks = [ExecutedWalk((3, 0, 2, 4), 5), ExecutedWalk((3, 1, 4), 2)]
    counters = execute(cfg, plan, walks, COSTS)
    assert counters.paths == {7: 5, -1: 5 + 2 * 2}
    assert counters.hashed_increments == 5
    assert counters.hash_instructions == COSTS.insert + 4 * COSTS.hit


@pytest.mark.parametrize(
    ("action", "table"), [(CountPath(5), CounterTable.ARRAY), (CountColdPath(), CounterTable.HASH)]
)
def test_counts_outside_the_counters_are_a_defect_and_said_so(
    action: CountPath | CountColdPath, table: CounterTable
) -> None:
    plan = InstrumentationPlan({0: (action,)}, True, table, 5, Addressing.INDEX, 0)
    with pytest.raises(CountError, match="defect of simprof"):
        execute(graph(1, []), plan, [ExecutedWalk((0, 1))], COSTS)


def test_an_empty_plan_counts_nothing() -> None:
    plan = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 0)
    counters = execute(graph(1, []), plan, [ExecutedWalk((0, 1), 7)], COSTS)
    assert not counters.paths
    assert counters.events == ()
