"""Mixed counters (BL94 section 3): exact, and no placement is cheaper, by trying them all."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.qpt.options import BlockBasis, VertexPlacement
from simprof.profiler.schemes.qpt.planner import (
    INCREMENT,
    MixedPlan,
    jumping,
    make_plan,
    plan_mixed,
    plan_qpt2,
)
from tests.oracles.brute import graph, random_graph, random_walk, structured_graph
from tests.support.figures import by_edge, edge, named
from tests.support.vertex_counts import cheapest, edge_truth, entering, on_edges, tells_edges

MOST_PLACES = 12
"""Places for counters of which all subsets are tried."""


def spent(plan: MixedPlan, walks: Sequence[Sequence[int]]) -> int:
    """What the counters execute at BL94's prices: 5 an increment, 1 a jump."""
    crossed = Counter(step for steps in walks for step in steps)
    entered = Counter(plan.cfg.edges[step].target for steps in walks for step in steps)
    on_edges = sum(crossed[each] * (5 + (each in plan.jumps)) for each in plan.counted_edges)
    return on_edges + sum(5 * entered[block] for block in plan.counted_blocks)


def finished(rng: random.Random, cfg: ControlFlowGraph) -> list[list[int]]:
    walks = [random_walk(rng, cfg, 40) for _ in range(20)]
    return [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]


@pytest.mark.long
@pytest.mark.seeds(range(60), few=12)
def test_no_placement_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 4)
    while len(cfg.edges) + len(cfg.blocks) > MOST_PLACES:
        cfg = random_graph(rng, 4)
    walks = finished(rng, cfg)
    weights = edge_truth(cfg, walks)
    jumps = [each.id for each in cfg.edges if rng.random() < 0.5]
    plan = plan_mixed(cfg, weights, jumps)
    plan.validate()
    edges = len(cfg.edges)
    blocks = [entering(cfg, block.id) for block in cfg.blocks]
    counters = [*on_edges(range(edges)), *blocks]
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    costs = [weights[each] * (5 + (each in jumps)) for each in range(edges)]
    costs += [5 * entered[block.id] for block in cfg.blocks]

    def works(chosen: Sequence[int]) -> bool:
        return tells_edges(cfg, [counters[each] for each in chosen])

    assert spent(plan, walks) == cheapest(range(len(counters)), costs, works)
    assert works([*plan.counted_edges, *(edges + block for block in plan.counted_blocks)])


@pytest.mark.seeds(range(100))
def test_mixed_counters_cost_no_more_than_counters_on_edges(seed: int) -> None:
    rng = random.Random(seed)
    cfg = structured_graph(rng)
    walks = finished(rng, cfg)
    weights = edge_truth(cfg, walks)
    plan = plan_mixed(cfg, weights, jumping(cfg))
    chords = plan_qpt2(cfg, weights=weights).tree.chords
    on_chords = sum(weights[each] * (INCREMENT + (each in plan.jumps)) for each in chords)
    assert spent(plan, walks) <= on_chords
    assert len(plan.counted_edges) + len(plan.counted_blocks) == len(chords)


def test_a_block_takes_the_counter_of_an_edge_that_needs_a_jump() -> None:
    cfg = named("A>B A>C B>C C>D D>C D>E", "A", "E")
    weights = by_edge(cfg, {
        "ENTRY>A": 1, "A>B": 1, "A>C": 0, "B>C": 1, "C>D": 9, "D>C": 8, "D>E": 1, "E>EXIT": 1,
    })  # fmt: skip
    back = edge(cfg, "D>C")
    cheap = plan_mixed(cfg, weights, [])
    assert back in cheap.counted_edges
    # 8 executions at 5 + 1 are dearer than 9 at 5.
    plan = plan_mixed(cfg, weights, [back])
    assert back not in plan.counted_edges
    assert {"C", "D"} & {str(cfg.name_of(block)) for block in plan.counted_blocks}


def test_early_ends_leave_the_end_of_a_block() -> None:
    cfg = graph(3, [(0, 1), (1, 1), (1, 2)])
    walks = [[3, 0, 1, 1, 2, 4], [3, 0, 1], [3]]
    everywhere = tuple(range(len(cfg.edges)))
    for jumps in ((), everywhere):
        plan = plan_mixed(cfg, [1, 5, 1, 1, 1], jumps)
        executed = execute(cfg, plan.plan, (ExecutedWalk(tuple(steps)) for steps in walks))
        assert plan.read(executed).edges == edge_truth(cfg, walks)


def test_merged_blocks_know_the_jumps_of_the_routines_own_edges() -> None:
    cfg = named("A>B B>C B>D C>E D>E E>F F>B F>G", "A", "G")
    for basis in BlockBasis:
        plan = make_plan(cfg, VertexPlacement.MIXED, basis)
        plan.validate()
        found = plan.describe()
        assert len(found["counted_edges"]) + len(found["counted_blocks"]) == 3
        assert set(found["counted_edges"]) == set(plan.plan.actions)
