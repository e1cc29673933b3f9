"""Runs of graph files on the kernel: what plain Python does; jitted and as plain Python."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import plain_execution
from brute import graph, random_graph, random_walk
from profiler.cfg import ControlFlowGraph
from profiler.execution import execute
from profiler.graph_files import GREATEST_CROSSINGS, Walk
from profiler.hash_routine import HashTableModel, hash_costs
from profiler.plan import AddRegister, Addressing, CountPath, InstrumentationPlan, Table
from profiler.schemes.pp import plan_pp
from profiler.schemes.qpt import plan_qpt2
from simulator.errors import UsageError
from simulator.program import MachineKind

ROOT = Path(__file__).parent.parent
COSTS = hash_costs(MachineKind.SPARCV9)


def random_plan(rng: random.Random, cfg: ControlFlowGraph) -> InstrumentationPlan:
    """Any plan of any scheme: arrays and hash tables, truncated graphs, edge counters."""
    if rng.random() < 0.2:
        return plan_qpt2(cfg).plan
    weights = [rng.choice((1.0, 10.0, rng.random())) for _ in cfg.edges]
    limit = rng.choice((1, 3, 10**8))
    table = rng.choice((Table.HASH, Table.HASH, Table.ARRAY, None))
    return plan_pp(cfg, weights=weights, path_limit=limit, table=table).plan


def random_case(seed: int) -> tuple[InstrumentationPlan, list[Walk]]:
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((2, 6, 12, 40)))
    plan = random_plan(rng, cfg)
    counts = (0, 1, 2, 3, 1000, 10**12, GREATEST_CROSSINGS // 1000)
    length = rng.choice((5, 40, 150))
    walks = [Walk(tuple(random_walk(rng, cfg, length)), rng.choice(counts)) for _ in range(6)]
    return plan, walks


def compare(seed: int) -> dict[str, Any]:
    plan, walks = random_case(seed)
    table = HashTableModel(COSTS) if plan.table is Table.HASH else None
    found = execute(plan, walks, COSTS)
    assert found == plain_execution.execute(plan, walks, table), seed
    return asdict(found)


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_the_kernel_does_what_plain_python_does(first: int) -> None:
    results = [compare(seed) for seed in range(first, first + 20)]
    assert sum(result["hash_instructions"] > 0 for result in results) >= 3
    assert sum(result["edge_increments"] > 0 for result in results) >= 3


def test_the_kernel_as_plain_python_does_it_too() -> None:
    code = (
        "import json, sys; sys.path.insert(0, 'tests'); import test_execution as t\n"
        "from profiler import kernels; assert kernels.PLAIN\n"
        "print(json.dumps([t.compare(seed) for seed in range(40)]))"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        check=True,
    )
    assert json.loads(plain.stdout) == json.loads(json.dumps([compare(seed) for seed in range(40)]))


def test_a_long_walk_with_more_paths_than_the_tables_first_room() -> None:
    cfg = graph(2, [(0, 1), (0, 0), (1, 0)], exits=(0,))
    plan = plan_pp(cfg, path_limit=1, table=Table.HASH).plan
    walk = Walk((3, *[0, 2] * 80_000, 4), 3)
    counters = execute(plan, [walk], COSTS)
    assert counters == plain_execution.execute(plan, [walk], HashTableModel(COSTS))
    assert counters.path_increments > 3 * 80_000


def test_path_numbers_beyond_64_bits_are_refused() -> None:
    edges = []
    for top in range(0, 3 * 70, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    plan = plan_pp(graph(211, edges), path_limit=None, table=Table.HASH)
    assert plan.num_paths == 2**70
    with pytest.raises(UsageError, match="do not fit 64 bits"):
        execute(plan.plan, [], COSTS)


def test_path_numbers_below_64_bits_are_exact() -> None:
    actions = {0: (AddRegister(2**61 - 1),), 1: (CountPath(5),)}
    plan = InstrumentationPlan(actions, True, Table.HASH, 0, None, 0)
    walk = Walk((0, 1), 1)
    assert execute(plan, [walk], COSTS).paths == {2**61 + 4: 1}


def test_counts_outside_an_array_are_a_defect_and_said_so() -> None:
    plan = InstrumentationPlan({0: (CountPath(5),)}, True, Table.ARRAY, 5, Addressing.INDEX, 0)
    with pytest.raises(Exception, match="defect of simprof"):
        execute(plan, [Walk((0,), 1)], COSTS)


def test_an_empty_plan_counts_nothing() -> None:
    plan = InstrumentationPlan({}, False, Table.NONE, 0, None, 0)
    counters = execute(plan, [Walk((0, 1), 7)], COSTS)
    assert counters.paths == {}
    assert counters.edges == ()
