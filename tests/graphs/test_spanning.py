import itertools
import random
from dataclasses import replace

import networkx as nx
import pytest

from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import number
from simprof.profiler.graphs.spanning import SpanningTree, chord_increments, maximum_spanning_tree
from tests.oracles.brute import random_graph
from tests.support.figures import EPP_7_WEIGHTS, by_edge, edge, epp_1


def random_ends(rng: random.Random) -> tuple[int, list[tuple[int, int]]]:
    count = rng.randint(2, 9)
    return count, [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 20))]


@pytest.mark.seeds(range(80))
@pytest.mark.parametrize("least", [False, True])
def test_weight_against_networkx(seed: int, least: bool) -> None:
    rng = random.Random(seed)
    count, ends = random_ends(rng)
    weights = [rng.choice((0.0, 0.5, 1.0, 2.5, rng.random())) for _ in ends]
    root = (count - 1, 0)
    sign = -1 if least else 1
    tree = maximum_spanning_tree(count, ends, [sign * weight for weight in weights], root)
    if nx.is_connected(nx.Graph([*ends, root])):
        tree.validate()
    other = nx.MultiGraph()
    for (source, target), weight in zip(ends, weights, strict=True):
        other.add_edge(source, target, weight=weight)
    other.add_edge(*root, weight=-1e9 if least else 1e9)
    reference = nx.minimum_spanning_edges if least else nx.maximum_spanning_edges
    expected = sum(data["weight"] for *_, data in reference(other, data=True))
    expected -= -1e9 if least else 1e9
    assert tree.weight(weights) == pytest.approx(expected, abs=1e-6)


def test_ties_keep_the_order_of_edges() -> None:
    tree = maximum_spanning_tree(2, [(0, 1), (0, 1), (1, 0)], [1, 1, 1], None)
    assert tree.in_tree == (True, False, False)
    assert tree.chords == (1, 2)


def test_root_edge_is_in_the_tree_whatever_it_costs() -> None:
    tree = maximum_spanning_tree(2, [(0, 1)], [100.0], (1, 0))
    assert tree.chords == (0,)
    tree.validate()


def test_excluded_edges_are_neither_tree_nor_chords() -> None:
    tree = maximum_spanning_tree(3, [(0, 1), (1, 2)], [1, 5], (1, 0), excluded=[1])
    assert tree.in_tree == (False, False)
    assert tree.chords == (0,)
    tree.validate()


def test_validate_sees_a_tree_that_does_not_span() -> None:
    tree = maximum_spanning_tree(3, [(0, 1), (1, 2)], [1, 1], None)
    broken = type(tree)(3, tree.ends, (True, False), frozenset(), None)
    with pytest.raises(AssertionError, match="span"):
        broken.validate()


def test_figure_7_increment_of_b_d_is_four() -> None:
    cfg = epp_1()
    dag = make_dag(cfg, depth_first(cfg))
    values = number(dag).values
    ends = [(each.source, each.target) for each in dag.edges]
    tree = maximum_spanning_tree(
        cfg.vertex_count, ends, by_edge(cfg, EPP_7_WEIGHTS), (cfg.exit, cfg.entry)
    )
    result = chord_increments(tree, values)
    named = {ends: result.increments[edge(cfg, ends)] for ends in ("A>C", "B>C", "B>D", "D>E")}
    assert named == {"A>C": 0, "B>C": 2, "B>D": 4, "D>E": 1}
    assert [edge(cfg, ends) for ends in named] == list(tree.chords)


@pytest.mark.seeds(range(60))
def test_increments_and_potentials_agree_with_values_on_every_path(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 7)
    dag = make_dag(cfg, depth_first(cfg))
    numbering = number(dag)
    ends = [(each.source, each.target) for each in dag.edges]
    tree = maximum_spanning_tree(
        cfg.vertex_count, ends, [rng.random() for _ in ends], (cfg.exit, cfg.entry)
    )
    tree.validate()
    result = chord_increments(tree, numbering.values)
    for path_id in range(min(numbering.total, 40)):
        total = register = 0
        for step in numbering.decode(path_id):
            total += numbering.values[step]
            register += result.increments[step]
            assert total == register + result.potential[dag.edges[step].target]
        assert register == total == path_id


def test_increments_need_the_root_edge() -> None:
    tree = maximum_spanning_tree(2, [(0, 1)], [1], None)
    with pytest.raises(ValueError, match="EXIT"):
        chord_increments(tree, [0])


@pytest.mark.seeds(range(40))
def test_validate_maximum_accepts_the_forests_of_greatest_weight_and_no_others(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    ends = tuple((rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(1, 7)))
    weights = [rng.choice((0.5, 1.0, 2.0)) for _ in ends]
    root = (count - 1, 0) if seed % 2 else None
    best = maximum_spanning_tree(count, ends, weights, root, excluded=[0])
    best.validate_maximum(weights)
    size, greatest = sum(best.in_tree), best.weight(weights)
    for flags in itertools.product((False, True), repeat=len(ends)):
        other = replace(best, in_tree=flags)
        if flags[0]:
            continue
        if size == sum(flags) and greatest == other.weight(weights) and _is_forest(other):
            other.validate_maximum(weights)
        else:
            with pytest.raises(AssertionError, match=r"closes a cycle|lacks edge"):
                other.validate_maximum(weights)


def _is_forest(tree: SpanningTree) -> bool:
    graph = nx.MultiGraph(
        [ends for ends, inside in zip(tree.ends, tree.in_tree, strict=True) if inside]
    )
    if tree.root_edge is not None:
        graph.add_edge(*tree.root_edge)
    return graph.number_of_edges() == 0 or bool(nx.is_forest(graph))


def test_validate_sees_increments_that_do_not_reproduce_the_values() -> None:
    tree = maximum_spanning_tree(2, [(0, 1), (0, 1)], [1, 1], (1, 0))
    right = chord_increments(tree, [0, 1])
    right.validate(tree, [0, 1])
    with pytest.raises(AssertionError, match="edge 1 does not reproduce its value 2"):
        right.validate(tree, [0, 2])
    with pytest.raises(AssertionError, match="has a potential"):
        replace(right, potential=(0, 1)).validate(tree, [0, 1])
    bent = SpanningTree(2, tree.ends, (True, False), frozenset(), (1, 0))
    with pytest.raises(AssertionError, match="tree edge 0 has an increment"):
        replace(right, increments=(1, 1)).validate(bent, [1, 1])
