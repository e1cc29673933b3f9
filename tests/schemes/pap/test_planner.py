"""Plans of `pap`: walks there and back, on random graphs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.interpret import ExecutedWalk, begin, execute, follow
from simprof.profiler.schemes.pap.planner import ENTERED, WRITTEN, WalkPlan, plan_pap
from tests.oracles.brute import (
    edge_counts,
    graph,
    random_graph,
    random_walk,
    structured_graph,
)

GRAPHS, LONG_GRAPHS = 300, 1000


def long_walk(rng: random.Random, cfg: ControlFlowGraph) -> list[int]:
    """Return a walk of some hundred edges where the graph has one, which may end early."""
    vertex, walk = cfg.entry, list[int]()
    limit = rng.choice((3, 30, 300))
    while vertex != cfg.exit and cfg.out_edges[vertex] and len(walk) < limit:
        inner = [e for e in cfg.out_edges[vertex] if cfg.edges[e].target != cfg.exit]
        ways = inner if inner and rng.random() < 0.95 else cfg.out_edges[vertex]
        walk.append(rng.choice(ways))
        vertex = cfg.edges[walk[-1]].target
    return walk


def check(plan: WalkPlan, walk: list[int]) -> int:
    """Check that the symbols of a walk give it back, one after the other; return how many."""
    cfg = plan.cfg
    execution = begin(plan.plan)
    follow(plan.plan, walk, execution)
    symbols = [each.counter for each in execution.counted]
    assert symbols == plan.encode(walk)
    found = [edge for symbol in symbols for edge in plan.walk(symbol)]
    last = cfg.edges[walk[-1]].target
    if last != cfg.exit:
        found += plan.walk_to(last, execution.registers[0])
    assert found == walk
    return len(symbols)


@pytest.mark.parametrize("graphs", [GRAPHS, pytest.param(LONG_GRAPHS, marks=pytest.mark.long)])
@pytest.mark.parametrize("make", [random_graph, structured_graph])
def test_what_is_decoded_is_the_walk(make: object, graphs: int) -> None:
    written: Counter[bool] = Counter()
    for seed in range(graphs):
        rng = random.Random(seed)
        cfg: ControlFlowGraph = make(rng)  # type: ignore[operator]
        plan = plan_pap(cfg, bits=rng.choice((6, 6, 9, 12, 20)))
        plan.validate()
        walks = [long_walk(rng, cfg) for _ in range(4)]
        walks += [random_walk(rng, cfg) for _ in range(2)]
        for walk in walks:
            written[check(plan, walk) > 1] += 1
        counters = execute(cfg, plan.plan, [ExecutedWalk(tuple(walk)) for walk in walks])
        assert plan.read(counters).edges == edge_counts(cfg, walks)
    assert min(written[True], written[False]) > graphs / 2


def loop() -> ControlFlowGraph:
    """A loop with two ways through it: both meet in 3, which goes back to 0."""
    return graph(4, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)])


def test_a_number_by_hand() -> None:
    plan = plan_pap(loop(), bits=12)
    entry, to_exit = 5, 6
    # 0 is entered by 3 > 0 (digit 0) or from ENTRY (1), 3 from 1 (0) or 2 (1)
    walk = [entry, 0, 2, 4, 1, 3, to_exit]
    number = (((ENTERED * 2 + 1) * 2 + 0) * 2 + 0) * 2 + 1
    assert plan.encode(walk) == [(4 << 12) + number]
    assert plan.walk((4 << 12) + number) == tuple(walk)


def test_a_full_number_is_written_before_the_next_digit() -> None:
    plan = plan_pap(loop(), bits=6)
    walk = [5, *[0, 2, 4] * 10, 0, 2, 6]
    symbols = plan.encode(walk)
    assert len(symbols) > 3
    assert all(symbol & 63 >= 32 for symbol in symbols[:-1])  # no room for another bit
    assert plan.walk(symbols[1])[0] == walk[len(plan.walk(symbols[0]))]


@pytest.mark.parametrize("number", [0, 1, WRITTEN, ENTERED])
def test_a_number_that_no_walk_makes(number: int) -> None:
    plan = plan_pap(loop(), bits=12)
    with pytest.raises(ValueError, match=r"is left of the number of a walk|no way leads"):
        plan.walk((3 << 12) + number)


def test_a_block_with_very_many_ways_in_gets_more_bits() -> None:
    ways = [(0, k) for k in range(1, 40)] + [(k, 40) for k in range(1, 40)]
    plan = plan_pap(graph(41, ways), bits=6)
    plan.validate()
    assert plan.bits == 8
    check(plan, [78, 5, 44, 79])


def test_edges_are_not_known_where_numbers_of_active_routines_are_lost() -> None:
    cfg = loop()
    plan = plan_pap(cfg, bits=12)
    counters = execute(cfg, plan.plan, [ExecutedWalk((5, 0, 2))])
    assert plan.read(counters).edges is not None
    lost = type(counters)(counters.paths, (), counters.early)
    assert plan.read(lost).edges is None
