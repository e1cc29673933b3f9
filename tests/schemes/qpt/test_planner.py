import random
from collections import Counter

import pytest

from simprof.profiler.graphs.flow import check
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.qpt.planner import plan_qpt2
from tests.oracles.brute import graph, random_graph, random_walk, run_plan
from tests.support.figures import EPP_7_WEIGHTS, bl94_5, by_edge, edge, epp_1


def test_figure_3_instruments_the_same_edges_as_path_profiling() -> None:
    cfg = epp_1()
    plan = plan_qpt2(cfg, weights=by_edge(cfg, EPP_7_WEIGHTS))
    assert list(plan.tree.chords) == [edge(cfg, e) for e in ("A>C", "B>C", "B>D", "D>E")]
    assert plan.plan.table is CounterTable.NONE
    assert not plan.plan.uses_register
    plan.validate()


def test_number_of_counters_is_minimal() -> None:
    cfg = bl94_5()
    plan = plan_qpt2(cfg)
    # |E| - (|V| - 1), with the edge EXIT > ENTRY (BL94 3.2).
    assert plan.plan.edge_counters == len(cfg.edges) + 1 - (cfg.vertex_count - 1)
    # The heuristic keeps the counters off the loop's busiest edges.
    assert sum(plan.weights[chord] for chord in plan.tree.chords) == 0.5 + 0.5 + 4.75 + 4.75


def test_straight_line_counts_once() -> None:
    plan = plan_qpt2(graph(4, [(0, 1), (1, 2), (2, 3)]))
    assert plan.plan.edge_counters == 1
    assert plan.read(RoutineCounters({}, (7,))).edges == (7,) * 5


@pytest.mark.seeds(range(150))
def test_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    weights = rng.choice((None, [rng.randint(0, 5) for _ in cfg.edges]))
    plan = plan_qpt2(cfg, weights=weights)
    plan.validate()
    walks = [random_walk(rng, cfg) for _ in range(20)]
    outcome = run_plan(cfg, plan.plan, walks)
    early = Counter(block for block, _, _ in outcome.early)
    true = Counter(step for steps in walks for step in steps)
    counts = plan.read(RoutineCounters({}, tuple(outcome.counters), early)).all_edges
    assert counts is not None
    assert counts == tuple(true[each.id] for each in cfg.edges)
    check(cfg, counts, early, activations=20)


@pytest.mark.seeds(range(60))
def test_measured_weights_give_the_fewest_increments(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [random_walk(rng, cfg) for _ in range(20)]
    true = Counter(step for steps in walks for step in steps)
    best = plan_qpt2(cfg, weights=[true[each.id] for each in cfg.edges])
    other = plan_qpt2(cfg, weights=[rng.random() for _ in cfg.edges])
    steps = [run_plan(cfg, plan.plan, walks).steps for plan in (best, other)]
    assert steps[0] <= steps[1]
    assert steps[0] <= sum(true.values())
