"""Spanning trees, increments on chords, and counts that follow from those of chords."""

import itertools
import random

import networkx as nx
import pytest
from msgspec.structs import replace

from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first, is_reducible
from simprof.profiler.graphs.numbering import number
from simprof.profiler.graphs.spanning import (
    SpanningTree,
    chord_increments,
    heuristic,
    maximum_spanning_tree,
    measured,
    postorder,
    uniform,
)
from tests.oracles.brute import back_edges, graph, random_graph, structural_weights
from tests.support.figures import EPP_7_WEIGHTS, bl94_5, by_edge, edge, epp_1, named


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
    broken = type(tree)(3, tree.source, tree.target, (True, False), frozenset(), None)
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
    bent = SpanningTree(2, tree.source, tree.target, (True, False), frozenset(), (1, 0))
    with pytest.raises(AssertionError, match="tree edge 0 has an increment"):
        replace(right, increments=(1, 1)).validate(bent, [1, 1])


def test_loop_with_two_exits() -> None:
    # Rules 1 to 3 by hand: the loop entry P has weight 1, its two exit edges one half each; of
    # P's 10 executions 9.5 go on, Q splits them evenly, R keeps what does not leave.
    cfg = bl94_5()
    expected = {
        "ENTRY>P": 1, "P>X": 0.5, "P>Q": 9.5, "Q>A": 4.75, "Q>B": 4.75, "A>R": 4.75,
        "B>R": 4.75, "R>X": 0.5, "R>C": 9, "C>P": 9, "X>EXIT": 1,
    }  # fmt: skip
    assert list(heuristic(cfg, depth_first(cfg))) == by_edge(cfg, expected)


def test_nested_loops_multiply() -> None:
    cfg = named("A>B B>B B>C C>A C>D", "A", "D")
    weights = heuristic(cfg, depth_first(cfg))
    expected = {
        "ENTRY>A": 1, "A>B": 10, "B>B": 90, "B>C": 10, "C>A": 9, "C>D": 1, "D>EXIT": 1,
    }  # fmt: skip
    assert list(weights) == by_edge(cfg, expected)


def test_edge_out_of_two_loops_is_weighted_by_the_outer() -> None:
    cfg = named("A>B B>B B>X B>C C>A C>X", "A", "X")
    weights = heuristic(cfg, depth_first(cfg))
    # Outer exits B > X and C > X: 0.5 each. Inner exits: B > X has its weight, B > C gets half
    # of B's 10, and the self-loop the rest of 100.
    expected = {
        "ENTRY>A": 1, "A>B": 10, "B>X": 0.5, "C>X": 0.5, "B>C": 5, "B>B": 94.5, "C>A": 4.5,
        "X>EXIT": 1,
    }  # fmt: skip
    assert list(weights) == by_edge(cfg, expected)


def test_infinite_loop_and_unreachable_code() -> None:
    cfg = graph(3, [(0, 0), (2, 1)], exits=(1,))
    assert heuristic(cfg, depth_first(cfg)) == (10.0, 0.0, 1.0, 0.0)
    assert uniform(cfg, depth_first(cfg)) == (1.0, 0.0, 1.0, 0.0)


@pytest.mark.seeds(range(150))
def test_against_the_rules_in_exact_arithmetic(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    dfs = depth_first(cfg)
    if is_reducible(cfg, dfs):
        exact = structural_weights(cfg)
        assert heuristic(cfg, dfs) == pytest.approx([float(weight) for weight in exact])


@pytest.mark.seeds(range(60))
def test_irreducible_graphs_have_finite_weights(seed: int) -> None:
    cfg = random_graph(random.Random(1000 + seed))
    weights = heuristic(cfg, depth_first(cfg))
    assert len(weights) == len(cfg.edges)
    assert all(abs(weight) < 1e12 for weight in weights)


def test_goldbergs_weights_number_vertices_as_the_search_leaves_them() -> None:
    """BL94 7.1.4: an edge has the number of its source, a back edge more than any vertex."""
    cfg = named("P>Q P>R Q>S R>S S>P S>X", "P", "X")
    # Left in the order EXIT, X, S, Q, R, P, ENTRY; eight are more than the seven vertices.
    expected = {
        "S>P": 8, "X>EXIT": 2, "S>X": 3, "Q>S": 4, "R>S": 5, "P>Q": 6, "P>R": 6, "ENTRY>P": 7,
    }  # fmt: skip
    assert cfg.vertex_count == 7
    assert list(postorder(cfg, depth_first(cfg))) == by_edge(cfg, expected)


@pytest.mark.seeds(range(60))
def test_goldbergs_weights_by_a_recursive_search(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    left: list[int] = []
    seen: set[int] = set()

    def visit(vertex: int) -> None:
        seen.add(vertex)
        for each in cfg.edges:
            if each.source == vertex and each.target not in seen:
                visit(each.target)
        left.append(vertex)

    visit(cfg.entry)
    back = back_edges(cfg)
    weights = postorder(cfg, depth_first(cfg))
    for each in cfg.edges:
        if each.id in back:
            assert weights[each.id] > cfg.vertex_count
        elif each.source in seen:
            assert weights[each.id] == left.index(each.source) + 1
        else:
            assert weights[each.id] == 0


def test_distance_from_the_root_is_not_nesting() -> None:
    """BL94 figure 17 (b)'s point: far from the root, yet executed by every activation."""
    cfg = named("A>B A>C B>D B>E D>F E>F F>G C>G G>H G>I H>J I>J", "A", "J")
    dfs = depth_first(cfg)
    flow = heuristic(cfg, dfs)
    ends = [(each.source, each.target) for each in cfg.edges]
    cost = {}
    for name, weights in (("heuristic", flow), ("post-order", postorder(cfg, dfs))):
        tree = maximum_spanning_tree(cfg.vertex_count, ends, weights, (cfg.exit, cfg.entry))
        cost[name] = sum(flow[chord] for chord in tree.chords)
    assert cost == {"heuristic": 1.5, "post-order": 2.25}


def test_measured_weights_are_checked() -> None:
    cfg = graph(1, [])
    assert measured(cfg, [3, 3]) == (3, 3)
    with pytest.raises(ValueError, match="2 edges"):
        measured(cfg, [3])
    with pytest.raises(ValueError, match="negative"):
        measured(cfg, [3, -1])
