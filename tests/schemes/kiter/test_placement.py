"""Where compensation of k-iteration paths goes: off busy edges, and never onto edges that leave."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.kiter.planner import IterationPlan, plan_kiter
from tests.oracles.brute import random_walk
from tests.support.figures import named
from tests.support.loop_graphs import random_loops


def compensated(plan: IterationPlan) -> set[int]:
    """Edges of the unrolled graph with compensation."""
    compensation = plan.increments.compensation
    return {edge.id for edge in plan.dag.edges if compensation[edge.id]}


def test_compensation_is_where_it_costs_nothing() -> None:
    """A loop of two blocks, left by either of two parallel edges B > C, which are busy.

    An exit edge in the tree would take the place of the dummy edge that starts the paths behind
    the back edge, and the back edge would have to compensate.
    """
    cfg = named("B>C A>B B>C B>A", "A", "C")
    plan = plan_kiter(cfg, iterations=2, weights=[9, 8, 9, 2, 6, 1])
    plan.validate()
    (edge,) = (plan.dag.edges[number] for number in compensated(plan))
    assert edge.cfg_edge is None and edge.source == cfg.entry


@pytest.mark.seeds(range(60))
def test_edges_that_leave_a_loop_compensate_nothing(seed: int) -> None:
    """There the accumulators of compensated paths are dropped."""
    rng = random.Random(seed)
    cfg = random_loops(rng, 6)
    weights = [float(rng.randint(1, 9)) for _ in cfg.edges]
    plan = plan_kiter(cfg, iterations=rng.choice((2, 3)), weights=weights)
    leaving = {
        each.id
        for each in plan.dag.edges
        if (loop := plan.dag.loop_of.get(plan.dag.base(each.source)))
        and plan.dag.base(each.target) not in loop.body
    }
    assert leaving or not plan.loops
    assert not compensated(plan) & leaving
    walks = [ExecutedWalk(tuple(random_walk(rng, cfg, 40))) for _ in range(5)]
    counters = execute(cfg, plan.plan, walks)
    assert plan.read(counters).edges == tuple(
        sum(walk.edges.count(edge.id) for walk in walks) for edge in cfg.edges
    )
