"""`--path-limit` for every path scheme: no routine is left with more paths than it.

Cutting every branch leaves no more than about a path for each edge and each vertex, twice that
where TPP takes loops apart. Any limit from there on can be kept, and must be.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.numbering import graph_facts, truncate
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.profiler.schemes.kiter.planner import plan_kiter
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.tpp.planner import plan_tpp
from tests.oracles.brute import graph, random_graph
from tests.support.loop_graphs import random_loops

Planned = Callable[[ControlFlowGraph, int, random.Random], int]


def pp_paths(cfg: ControlFlowGraph, limit: int, _: random.Random) -> int:
    return plan_pp(cfg, path_limit=limit).num_paths


def bittrace_paths(cfg: ControlFlowGraph, limit: int, _: random.Random) -> int:
    return plan_bittrace(cfg, path_limit=limit).num_paths


def tpp_paths(cfg: ControlFlowGraph, limit: int, rng: random.Random) -> int:
    counts = [rng.choice((0, 1, 5, 100)) for _ in cfg.edges]
    plan = plan_tpp(
        cfg,
        counts,
        cold=rng.choice((0, 5, 30)),
        loop=rng.choice((0, 30, 100)),
        cold_always=rng.random() < 0.5,
        path_limit=limit,
    )
    return max(plan.num_paths, plan.numbering.total)


def kiter_paths(cfg: ControlFlowGraph, limit: int, rng: random.Random) -> int:
    return plan_kiter(cfg, iterations=rng.choice((1, 2, 3)), path_limit=limit).num_paths


def many_paths(rng: random.Random) -> ControlFlowGraph:
    """Return a graph that mostly has more paths than edges."""
    shape = rng.randrange(3)
    if shape == 0:
        return random_graph(rng, rng.choice((12, 25, 40)))
    if shape == 1:
        return random_loops(rng, rng.choice((9, 15, 20)))
    ways = rng.randint(6, 14)
    chain = [(top, top + 1 + way) for top in range(0, 3 * ways, 3) for way in (0, 1)]
    chain += [(top + 1 + way, top + 3) for top in range(0, 3 * ways, 3) for way in (0, 1)]
    back = [(3 * rng.randint(1, ways), 3 * rng.randrange(ways)) for _ in range(rng.randint(0, 2))]
    return graph(3 * ways + 1, [*chain, *back])


@pytest.mark.parametrize("paths", [pp_paths, bittrace_paths, tpp_paths, kiter_paths])
def test_no_routine_is_left_with_more_paths_than_the_limit(paths: Planned) -> None:
    truncated = 0
    for seed in range(150):
        rng = random.Random(seed)
        cfg = many_paths(rng)
        least = 2 * (len(cfg.edges) + cfg.vertex_count)
        limit = rng.randint(least, 4 * least)
        truncated += graph_facts(cfg).potential_paths > limit
        assert paths(cfg, limit, rng) <= limit, seed
    assert truncated > 20, "hardly a graph had too many paths"


def test_a_vertex_limit_alone_would_not_hold() -> None:
    """What EPP 5.3's threshold for each vertex leaves of the same graphs."""
    beyond = 0
    for seed in range(150):
        rng = random.Random(seed)
        cfg = many_paths(rng)
        least = 2 * (len(cfg.edges) + cfg.vertex_count)
        limit = rng.randint(least, 4 * least)
        beyond += truncate(plan_pp(cfg, path_limit=None).dag, limit).paths > limit
    assert beyond > 20
