import random

import pytest

from simprof.profiler.graphs.loops import depth_first, is_reducible
from simprof.profiler.graphs.spanning import maximum_spanning_tree
from simprof.profiler.graphs.weights import heuristic, measured, postorder, uniform
from tests.oracles.brute import back_edges, graph, random_graph, structural_weights
from tests.support.figures import bl94_5, by_edge, named


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
        for edge in cfg.edges:
            if edge.source == vertex and edge.target not in seen:
                visit(edge.target)
        left.append(vertex)

    visit(cfg.entry)
    back = back_edges(cfg)
    weights = postorder(cfg, depth_first(cfg))
    for edge in cfg.edges:
        if edge.id in back:
            assert weights[edge.id] > cfg.vertex_count
        elif edge.source in seen:
            assert weights[edge.id] == left.index(edge.source) + 1
        else:
            assert weights[edge.id] == 0


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
