"""Block profiling (BL94 section 3): against brute force, linear algebra and the paper's examples.

Linear algebra: which counts are determined by which. Edge counts of finished activations are the
circulations of the graph with the edge EXIT -> ENTRY; counters tell all block counts if every
circulation that is 0 on the counters is 0 in every block.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import block_weights, maximum_spanning_tree
from simprof.profiler.plan.decoders import Plan, Reading
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.qpt.planner import (
    EdgeHeuristicPlan,
    EdgePlan,
    VertexPlan,
    plan_qpt,
    plan_qpt2,
)
from tests.oracles.brute import graph, random_graph, random_walk, reachable
from tests.support.figures import by_edge, edge, named, walk
from tests.support.vertex_counts import (
    Vector,
    cheapest,
    circulations,
    edge_truth,
    entering,
    on_edges,
    tells_edges,
    value,
)

TELL_EDGES = (VertexPlacement.EDGE, VertexPlacement.MIXED)
"""Placements whose counters are read as edge counts; of the others, blocks' counts are read."""


def read(plan: Plan, walks: Sequence[Sequence[int]]) -> Reading:
    counted = Counter(map(tuple, walks))
    executed = (ExecutedWalk(steps, count) for steps, count in counted.items())
    return plan.read(execute(plan.cfg, plan.plan, executed))


def increments(plan: Plan, walks: Sequence[Sequence[int]]) -> int:
    counted = Counter(map(tuple, walks))
    executed = (ExecutedWalk(steps, count) for steps, count in counted.items())
    return sum(execute(plan.cfg, plan.plan, executed).events)


def block_truth(cfg: ControlFlowGraph, walks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    return tuple(entered[block.id] for block in cfg.blocks)


def negated(weights: Iterable[float]) -> list[float]:
    """Return the weights with which a greatest spanning tree is a least one."""
    return [-weight for weight in weights]


# -- linear algebra


def tells_blocks(cfg: ControlFlowGraph, counters: Iterable[Vector]) -> bool:
    left = circulations(cfg, counters)
    return not any(value(entering(cfg, b.id), vector) for b in cfg.blocks for vector in left)


# -- BL94's examples


def figure_4() -> tuple[ControlFlowGraph, list[float]]:
    """BL94 figure 4 from its text: the derived counts, the cycle, and costs 124, 62 and 59."""
    cfg = named("a>b a>f b>c b>e c>d c>e d>e e>b e>f f>g f>h g>X h>X", "a", "X", "BL94 figure 4")
    weights = {
        "ENTRY>a": 10, "X>EXIT": 10, "a>b": 3, "a>f": 7, "b>c": 45, "b>e": 4, "c>d": 20,
        "c>e": 25, "d>e": 20, "e>b": 46, "e>f": 3, "f>g": 4, "f>h": 6, "g>X": 4, "h>X": 6,
    }  # fmt: skip
    return cfg, by_edge(cfg, weights)


def blocks_named(cfg: ControlFlowGraph, blocks: Iterable[int]) -> str:
    return "".join(sorted(str(cfg.name_of(block)) for block in blocks))


@pytest.mark.long
def test_figure_4a_vertex_counters_cost_124() -> None:
    cfg, weights = figure_4()
    plan = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=weights)
    assert isinstance(plan, VertexPlan)
    plan.validate()
    costs = block_weights(cfg, weights)
    assert sum(costs[block] for block in plan.counted) == 124
    assert len(plan.counted) == 5
    # e = b and a = f = X = g + h: one of b and e is counted, none of a, f, X.
    assert blocks_named(cfg, plan.counted) in {"bcdgh", "cdegh"}
    candidates = [block.id for block in cfg.blocks]
    assert (
        cheapest(
            candidates, costs, lambda chosen: tells_blocks(cfg, [entering(cfg, b) for b in chosen])
        )
        == 124
    )


def test_figure_4b_edge_counters_for_edges_cost_62() -> None:
    cfg, weights = figure_4()
    plan = plan_qpt(cfg, placement=VertexPlacement.EDGE, weights=weights)
    assert isinstance(plan, EdgePlan)
    assert sum(weights[chord] for chord in plan.tree.chords) == 62
    assert len(plan.tree.chords) == 6


def test_figure_4c_edge_counters_for_vertices_cost_59() -> None:
    cfg, weights = figure_4()
    plan = plan_qpt(cfg, placement=VertexPlacement.EDGE_HEURISTIC, weights=weights)
    assert isinstance(plan, EdgeHeuristicPlan)
    plan.validate()
    assert plan.removed == (edge(cfg, "e>f"),)
    assert sum(weights[each] for each in plan.counted) == 59
    assert tells_blocks(cfg, on_edges(plan.counted))
    for left_out in plan.counted:  # every counter is necessary
        assert not tells_blocks(cfg, on_edges(e for e in plan.counted if e != left_out))


def test_figure_4c_blocks_are_right_though_edges_are_not_known() -> None:
    cfg, weights = figure_4()
    walks = [walk(cfg, "abcdebefgX"), walk(cfg, "afhX"), walk(cfg, "abcefgX"), walk(cfg, "afgX")]
    for placement in VertexPlacement:
        reading = read(plan_qpt(cfg, placement=placement, weights=weights), walks)
        if placement in TELL_EDGES:
            assert reading.edges == edge_truth(cfg, walks)
            continue
        assert reading.blocks == block_truth(cfg, walks)
    plan = plan_qpt(cfg, placement=VertexPlacement.EDGE_HEURISTIC, weights=weights)
    assert read(plan, walks).edges is None


def test_figure_4_modified_makes_vertex_counters_the_cheaper() -> None:
    """BL94 3.1: with a vertex for each dot of (c), Vprof(Vcnt) costs 59, Eprof(Ecnt) 62 still."""
    cfg = named("a>b a>f b>c b>1 1>e c>2 2>d c>3 3>e d>e e>b e>f f>g f>h g>X h>X", "a", "X")
    weights = by_edge(cfg, {
        "ENTRY>a": 10, "X>EXIT": 10, "a>b": 3, "a>f": 7, "b>c": 45, "b>1": 4, "1>e": 4, "c>2": 20,
        "2>d": 20, "c>3": 25, "3>e": 25, "d>e": 20, "e>b": 46, "e>f": 3, "f>g": 4, "f>h": 6,
        "g>X": 4, "h>X": 6,
    })  # fmt: skip
    vertex = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=weights)
    assert isinstance(vertex, VertexPlan)
    costs = block_weights(cfg, weights)
    assert sum(costs[block] for block in vertex.counted) == 59
    assert blocks_named(cfg, vertex.counted) in {"123gh", "13dgh"}
    edges = plan_qpt2(cfg, weights=weights)
    assert sum(weights[chord] for chord in edges.tree.chords) == 62


def test_structured_graphs_lose_nothing_by_edge_profiling() -> None:
    """BL94 3.3.2: with whiles, ifs and sequences alone, figure 11 finds nothing to remove."""
    cfg = named("a>b b>c b>h c>d c>e d>f e>f f>g g>g1 g>g2 g1>b g2>b h>i i>h h>X", "a", "X")
    plan = plan_qpt(cfg, placement=VertexPlacement.EDGE_HEURISTIC)
    assert isinstance(plan, EdgeHeuristicPlan)
    assert plan.removed == ()
    assert dict(plan.plan.actions) == dict(plan_qpt2(cfg).plan.actions)


def test_pipeless_cycles_with_a_common_vertex_lose_one_counter() -> None:
    """BL94 3.3.3: removed chords' cycles have no vertex in common, as figure 9 would allow."""
    # Parallel edges are the shortest pipeless cycles: a > b twice, b > c twice.
    cfg = graph(3, [(0, 1), (0, 1), (1, 2), (1, 2)])
    plan = plan_qpt(cfg, placement=VertexPlacement.EDGE_HEURISTIC, weights=[1, 1, 2, 2, 1, 1])
    assert isinstance(plan, EdgeHeuristicPlan)
    assert plan.removed == (3,)
    apart = graph(4, [(0, 1), (0, 1), (1, 2), (2, 3), (2, 3)])
    plan = plan_qpt(apart, placement=VertexPlacement.EDGE_HEURISTIC, weights=[5, 5, 1, 5, 5, 9, 9])
    assert isinstance(plan, EdgeHeuristicPlan)
    assert plan.removed == (1, 4)


def test_figure_7_early_ends() -> None:
    """BL94 figure 7: an activation that ends in A leaves no flow behind A."""
    cfg = named("P>Q P>X Q>A Q>B A>R B>R R>C R>X C>P", "P", "X", "BL94 figure 7")
    walks = [walk(cfg, "PQBRCPQARX")[:-3]]
    assert cfg.name_of(cfg.edges[walks[0][-1]].target).start == "A"
    for placement in VertexPlacement:
        reading = read(plan_qpt(cfg, placement=placement), walks)
        blocks = reading.blocks
        if blocks is not None:
            assert blocks == block_truth(cfg, walks)
        if reading.edges is not None:
            assert reading.edges == edge_truth(cfg, walks)
    assert read(plan_qpt(cfg, placement=VertexPlacement.EDGE), walks).edges == edge_truth(
        cfg, walks
    )


# -- shapes


def test_straight_line_needs_one_counter_or_none() -> None:
    cfg = graph(4, [(0, 1), (1, 2), (2, 3)])
    redundant = plan_qpt(cfg, placement=VertexPlacement.REDUNDANT)
    optimal = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL)
    assert redundant.plan.edge_counters == 4
    assert optimal.plan.edge_counters == 1
    walks = [[3, 0, 1, 2, 4], [3, 0], [3]]
    for plan in (redundant, optimal):
        assert read(plan, walks).blocks == (3, 2, 1, 1)
        assert read(plan, walks).edges == (2, 1, 1, 3, 1)


def test_loop_of_the_first_block() -> None:
    """EXIT and the first block share a predecessor: activations cannot be told, nor need be."""
    cfg = graph(2, [(0, 0), (0, 1)], exits=(0, 1))
    plan = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL)
    plan.validate()
    walks = [[2, 0, 0, 1, 4], [2, 3], [2, 0]]
    assert read(plan, walks).blocks == block_truth(cfg, walks)


def test_block_never_left_needs_no_counter() -> None:
    cfg = graph(3, [(0, 1), (0, 2)], exits=(1,))
    plan = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=[1, 9, 10, 1])
    assert plan.plan.edge_counters == 1
    walks = [[2, 1], [2, 1], [2, 0, 3]]
    assert read(plan, walks).blocks == (3, 1, 2)


def test_unreachable_blocks_have_no_counter() -> None:
    cfg = graph(3, [(0, 2), (1, 2)])
    plan = plan_qpt(cfg, placement=VertexPlacement.REDUNDANT)
    assert set(plan.plan.blocks) == {0, 2}


# -- random graphs


def check_random_graph(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = [random_walk(rng, cfg, rng.choice((2, 40))) for _ in range(20)]
    weights = rng.choice((None, edge_truth(cfg, walks), [rng.randint(0, 5) for _ in cfg.edges]))
    spent = {}
    for placement in VertexPlacement:
        plan = plan_qpt(cfg, placement=placement, weights=weights)
        plan.validate()
        reading = read(plan, walks)
        spent[placement] = increments(plan, walks)
        if placement in TELL_EDGES:
            assert reading.edges is not None
        else:
            assert reading.blocks == block_truth(cfg, walks), placement
        if reading.edges is not None:
            assert reading.edges == edge_truth(cfg, walks), placement
    assert spent[VertexPlacement.VERTEX_OPTIMAL] <= spent[VertexPlacement.REDUNDANT]
    assert spent[VertexPlacement.EDGE_HEURISTIC] <= spent[VertexPlacement.EDGE]
    assert spent[VertexPlacement.EDGE] <= sum(map(len, walks))  # a counter on every edge


@pytest.mark.seeds(range(1100), few=100)
def test_random_graphs(seed: int) -> None:
    check_random_graph(seed)


@pytest.mark.seeds(range(40))
def test_edges_are_told_exactly_where_blocks_determine_them(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 6)
    plan = plan_qpt(cfg, placement=VertexPlacement.REDUNDANT)
    told = read(plan, [random_walk(rng, cfg)]).edges is not None
    determined = tells_edges(cfg, [entering(cfg, block.id) for block in cfg.blocks])
    assert told == determined


# -- minimum costs


def finished(rng: random.Random, cfg: ControlFlowGraph) -> list[list[int]]:
    walks = [random_walk(rng, cfg) for _ in range(30)]
    return [steps for steps in walks if cfg.edges[steps[-1]].target == cfg.exit]


def small_graph(rng: random.Random, most_edges: int) -> ControlFlowGraph:
    while True:
        cfg = random_graph(rng, 6)
        live = reachable(cfg)
        if cfg.exit in live and sum(e.source in live for e in cfg.edges) <= most_edges:
            return cfg


@pytest.mark.long
@pytest.mark.seeds(range(40))
def test_vertex_optimal_is_the_minimum(seed: int) -> None:
    """With measured weights no set of blocks that tells all counts executes less often."""
    rng = random.Random(seed)
    cfg = small_graph(rng, 14)
    walks = finished(rng, cfg)
    plan = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=edge_truth(cfg, walks))
    assert isinstance(plan, VertexPlan)
    live = depth_first(cfg).reached
    candidates = [block.id for block in cfg.blocks if block.id in live]
    costs = block_truth(cfg, walks)

    def works(chosen: Sequence[int]) -> bool:
        return tells_blocks(cfg, [entering(cfg, block) for block in chosen])

    assert works(plan.counted)
    assert increments(plan, walks) == cheapest(candidates, costs, works)
    fewest = cheapest(candidates, [1] * len(cfg.blocks), works)
    assert len(plan.counted) == fewest


@pytest.mark.seeds(range(25))
def test_spanning_tree_is_the_minimum(seed: int) -> None:
    """With measured weights no set of edges that tells all counts executes less often."""
    rng = random.Random(seed)
    cfg = small_graph(rng, 8)
    walks = finished(rng, cfg)
    plan = plan_qpt2(cfg, weights=edge_truth(cfg, walks))
    live = reachable(cfg)
    candidates = [each.id for each in cfg.edges if each.source in live]

    def works(chosen: Sequence[int]) -> bool:
        return tells_edges(cfg, on_edges(chosen))

    assert works(plan.tree.chords)
    assert increments(plan, walks) == cheapest(candidates, edge_truth(cfg, walks), works)


@pytest.mark.seeds(range(60))
def test_figure_3_hierarchy_of_profiling_problems(seed: int) -> None:
    """BL94 figure 3(a): Vprof(Ecnt) <= Eprof(Ecnt) and Vprof(Ecnt) <= Vprof(Vcnt), at optimum.

    Pushing block counters onto the outgoing edges keeps what they tell, at the same cost; figure
    11's placement tells all blocks and costs no more than the tree's chords.
    """
    rng = random.Random(seed)
    cfg = small_graph(rng, 12)
    walks = finished(rng, cfg)
    weights = edge_truth(cfg, walks)
    vertex = plan_qpt(cfg, placement=VertexPlacement.VERTEX_OPTIMAL, weights=weights)
    assert isinstance(vertex, VertexPlan)
    pushed = [edge_id for block in vertex.counted for edge_id in cfg.out_edges[block]]
    assert tells_blocks(cfg, on_edges(pushed))
    assert sum(weights[each] for each in pushed) == increments(vertex, walks)
    heuristic = plan_qpt(cfg, placement=VertexPlacement.EDGE_HEURISTIC, weights=weights)
    assert isinstance(heuristic, EdgeHeuristicPlan)
    assert tells_blocks(cfg, on_edges(heuristic.counted))
    assert increments(heuristic, walks) <= increments(plan_qpt2(cfg, weights=weights), walks)


@pytest.mark.seeds(range(60))
def test_exact_max_heuristic_max_exact_min_ordering(seed: int) -> None:
    """BL94 graph 4: reductions Exact-Max >= Heuristic-Max, Heuristic-Min >= Exact-Min."""
    rng = random.Random(seed)
    cfg = random_graph(rng)
    walks = finished(rng, cfg)
    exact = edge_truth(cfg, walks)
    estimated = plan_qpt2(cfg).weights
    ends = [(each.source, each.target) for each in cfg.edges]
    dead = [each.id for each in cfg.edges if each.source not in depth_first(cfg).reached]
    root = (cfg.exit, cfg.entry)

    def spent(weights: Sequence[float]) -> int:
        tree = maximum_spanning_tree(cfg.vertex_count, ends, weights, root, dead)
        return sum(exact[chord] for chord in tree.chords)

    exact_max = increments(plan_qpt2(cfg, weights=exact), walks)
    heuristic_max = increments(plan_qpt2(cfg), walks)
    exact_min = spent(negated(exact))
    assert exact_max == spent(exact)
    assert exact_max <= heuristic_max <= exact_min
    assert exact_max <= spent(negated(estimated)) <= exact_min


def test_graph_4_on_the_loop_of_figure_1() -> None:
    """The heuristic does as well as measured weights on a loop, and the worst tree far worse."""
    cfg = named("P>A P>B A>C B>A B>C C>P C>X", "P", "X", "BL94 figure 13 as a loop")
    one = walk(cfg, "P" + "ACP" * 9 + "BACPBCX")
    exact = edge_truth(cfg, [one])
    ends = [(each.source, each.target) for each in cfg.edges]
    worst = maximum_spanning_tree(cfg.vertex_count, ends, negated(exact), (cfg.exit, cfg.entry))
    redundant = increments(plan_qpt(cfg, placement=VertexPlacement.REDUNDANT), [one])
    exact_max = increments(plan_qpt2(cfg, weights=exact), [one])
    heuristic_max = increments(plan_qpt2(cfg), [one])
    exact_min = sum(exact[chord] for chord in worst.chords)
    assert exact_max <= heuristic_max < exact_min
    assert exact_max < redundant
