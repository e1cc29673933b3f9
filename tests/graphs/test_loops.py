import random

import networkx as nx
import pytest

from simprof.profiler.graphs.loops import (
    depth_first,
    immediate_dominators,
    is_reducible,
    live_edges,
    natural_loops,
)
from tests.oracles.brute import back_edges, graph, random_graph, reachable
from tests.support.figures import edge, epp_10, letters, named


def test_back_edges_follow_the_order_of_successors() -> None:
    irreducible = graph(3, [(0, 1), (0, 2), (1, 2), (2, 1)], exits=(2,))
    swapped = graph(3, [(0, 2), (0, 1), (1, 2), (2, 1)], exits=(2,))
    assert depth_first(irreducible).back_edges == {3}  # 2 > 1, found below 1
    assert depth_first(swapped).back_edges == {2}  # 1 > 2, found below 2


def test_self_loop_is_a_back_edge() -> None:
    dfs = depth_first(graph(1, [(0, 0)]))
    assert dfs.back_edges == dfs.self_loops == {0}


def test_deep_graph_needs_no_recursion() -> None:
    count = 5000
    chain = [(block, block + 1) for block in range(count - 1)]
    dfs = depth_first(graph(count, [*chain, (count - 1, 0)]))
    assert dfs.back_edges == {count - 1}
    assert len(dfs.postorder) == count + 2


def test_figure_10_loop() -> None:
    cfg = epp_10()
    (loop,) = natural_loops(cfg, depth_first(cfg))
    assert letters(cfg, tuple(sorted(loop.body))) == "BDCE"
    assert loop.back_edges == (edge(cfg, "E>B"),)
    assert loop.exits == (edge(cfg, "E>F"),)


def test_loops_of_one_head_are_one_loop() -> None:
    cfg = named("A>B B>C C>B B>D D>B D>E", "A", "E")
    (loop,) = natural_loops(cfg, depth_first(cfg))
    assert letters(cfg, tuple(sorted(loop.body))) == "BCD"
    assert len(loop.back_edges) == 2


def test_irreducible_loop_is_no_natural_loop() -> None:
    cfg = graph(3, [(0, 1), (0, 2), (1, 2), (2, 1)], exits=(2,))
    dfs = depth_first(cfg)
    assert not is_reducible(cfg, dfs)
    assert natural_loops(cfg, dfs) == ()


@pytest.mark.seeds(range(60))
def test_against_slow_references(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    dfs = depth_first(cfg)
    live = reachable(cfg)
    assert dfs.back_edges == back_edges(cfg)
    assert dfs.reached == live
    assert live_edges(cfg, dfs) == {each.id for each in cfg.edges if each.source in live}
    position = {vertex: index for index, vertex in enumerate(dfs.topological)}
    for each in cfg.edges:
        if each.source in live and each.id not in dfs.back_edges:
            assert position[each.source] < position[each.target]


@pytest.mark.long
@pytest.mark.seeds(range(60))
def test_dominators_against_networkx(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    dfs = depth_first(cfg)
    other = nx.DiGraph([(each.source, each.target) for each in cfg.edges])
    expected = dict(nx.immediate_dominators(other, cfg.entry))
    expected[cfg.entry] = cfg.entry
    assert immediate_dominators(cfg, dfs) == expected


@pytest.mark.seeds(range(60))
def test_reducible_means_acyclic_without_dominating_back_edges(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    dfs = depth_first(cfg)
    live = reachable(cfg)
    other = nx.MultiDiGraph([(e.source, e.target) for e in cfg.edges if e.source in live])
    dominator = immediate_dominators(cfg, dfs)

    def dominates(upper: int, lower: int) -> bool:
        while lower not in (upper, cfg.entry):
            lower = dominator[lower]
        return lower == upper

    rest = nx.DiGraph((a, b) for a, b, _ in other.edges if not dominates(b, a))
    assert is_reducible(cfg, dfs) == nx.is_directed_acyclic_graph(rest)


@pytest.mark.seeds(range(100))
def test_loops_nest(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    loops = natural_loops(cfg, depth_first(cfg))
    for one in loops:
        for other in loops:
            assert not one.body & other.body or one.body <= other.body or other.body <= one.body
