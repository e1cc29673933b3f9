"""The kernel of planning, as machine code and in Python, beside the slow planner."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

import pytest

from simprof.profiler.graphs import plan_calls
from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, make_dag
from simprof.profiler.graphs.loops import (
    depth_first,
    immediate_dominators,
    natural_loops,
    proper_back_edges,
)
from simprof.profiler.graphs.numbering import find_cut_edges, number, truncate
from simprof.profiler.graphs.obvious import exit_block, find_obvious
from simprof.profiler.graphs.paths import dag_tree, number_paths, truncated_dag
from simprof.profiler.graphs.spanning import (
    SpanningTree,
    chord_increments,
    edge_shares,
    heuristic,
    maximum_spanning_tree,
)
from simprof.profiler.plan.placement import Detours, choose_steps
from simprof.profiler.request.weights import Guess
from simprof.simulator.cpu import compiled
from tests.oracles import planning
from tests.oracles.brute import diamonds, graph, random_graph

Weights = list[float] | list[int]


@pytest.fixture(params=["machine code", "Python"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the kernel run in one of the two ways, and in no other."""
    name: str = request.param
    if name == "Python":
        monkeypatch.setattr(compiled, "native", lambda function: None)
    elif compiled.is_plain():
        pytest.skip("NUMBA_DISABLE_JIT is set")
    else:
        monkeypatch.setattr(plan_calls, "_in_python", _refuse)
    return name


def _refuse(*arguments: object) -> Callable[[int], list[int]]:
    raise AssertionError("the kernel was run in Python")


def some_weights(rng: random.Random, cfg: ControlFlowGraph) -> Weights:
    """Return weights of any kind, by edge: equal ones, negative ones, counts."""
    count = len(cfg.edges)
    kinds: list[Callable[[], float]] = [
        lambda: rng.choice((-1.5, 0.0, 0.1, 0.25, 3.0)),
        lambda: rng.randrange(4),
        lambda: rng.randrange(1 << 40),
        rng.random,
    ]
    kind = rng.choice(kinds)
    return [kind() for _ in range(count)]


def some_guess(rng: random.Random) -> Guess:
    return Guess(
        rng.choice((10.0, 3.7, 100.0)), rng.choice((None, 0.7)), rng.choice((None, None, 0.88))
    )


def check(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((3, 9, 9, 25)))
    dfs, known = depth_first(cfg), planning.search(cfg)
    assert dfs.preorder == tuple(known.preorder)
    assert dfs.postorder == tuple(known.postorder)
    assert dfs.back_edges == set(known.back)
    check_loops(rng, cfg)
    entry_edges = [edge.id for edge in cfg.edges if cfg.entry == edge.source in dfs.reached]
    inner = [
        edge.id
        for edge in cfg.edges
        if edge.id not in dfs.back_edges
        and edge.target != cfg.exit
        and edge.source != cfg.entry
        and edge.source in dfs.reached
    ]
    cuts = rng.sample(inner, rng.randint(0, len(inner))) if rng.random() < 0.4 else []
    may_merge = [*entry_edges, *dfs.self_loops]
    merged = rng.sample(may_merge, rng.randint(0, len(may_merge))) if rng.random() < 0.3 else []
    weights = some_weights(rng, cfg)
    for given in (([], []), (cuts, merged)):
        check_dag(rng, cfg, weights, *given)


def check_loops(rng: random.Random, cfg: ControlFlowGraph) -> None:
    dfs, known = depth_first(cfg), planning.search(cfg)
    above = planning.dominators(cfg, known)
    nearest = immediate_dominators(cfg, dfs)
    assert list(nearest) == list(dfs.topological)
    for vertex, dominator in nearest.items():
        expected = above[vertex] - {vertex}
        assert expected == (above[dominator] if vertex != cfg.entry else set())
    assert proper_back_edges(cfg, dfs) == planning.proper_back_edges(cfg, known)
    loops = [(loop.entry, set(loop.body), [*loop.back_edges], [*loop.exits])
             for loop in natural_loops(cfg, dfs)]  # fmt: skip
    assert loops == planning.loops(cfg, known)
    for guess in (Guess(), some_guess(rng)):
        assert heuristic(cfg, dfs, guess) == tuple(planning.heuristic(cfg, known, guess))
        assert edge_shares(cfg, dfs, guess) == tuple(planning.shares(cfg, known, guess))


def check_dag(
    rng: random.Random, cfg: ControlFlowGraph, weights: Weights, cuts: list[int], merged: list[int]
) -> None:
    dag = make_dag(cfg, depth_first(cfg), cuts, merged)
    known = planning.dag(cfg, planning.search(cfg), cuts, merged)
    assert list(dag.removed) == known.removed
    assert [edge[1:] for edge in dag.edges] == known.edges
    assert [edge.id for edge in dag.edges] == list(range(len(dag.edges)))
    numbering = number(dag)
    paths, values, order = planning.number(known)
    assert list(numbering.num_paths) == paths
    assert list(numbering.values) == values
    assert [list(edges) for edges in numbering.order] == order
    ends = [edge[:2] for edge in known.edges]
    sums = [
        weights[edge] if edge is not None else sum(weights[removed] for removed in stands)
        for _, _, edge, stands in known.edges
    ]
    root = cfg.exit, cfg.entry
    for root_in_tree in (True, False):
        tree = dag_tree(dag, weights, root_in_tree)
        inside = planning.tree(cfg.vertex_count, ends, sums, root if root_in_tree else None)
        assert list(tree.in_tree) == inside
        found = chord_increments(tree, numbering.values, root)
        given = cfg.vertex_count, ends, inside, values, root
        assert (list(found.increments), list(found.potential)) == planning.increments(*given)
        assert found.root == found.potential[cfg.exit]
        whole = number_paths(
            cfg,
            dag.dfs,
            weights,
            path_limit=None,
            total_limit=None,
            cuts=cuts,
            merged=merged,
            root_in_tree=root_in_tree,
        )
        assert whole == (dag, numbering, tree, found)
    check_instrumented(rng, dag, known, [*tree.in_tree])
    barred = rng.sample(range(len(ends)), rng.randint(0, len(ends)))
    forest = maximum_spanning_tree(cfg.vertex_count, ends, sums, None, barred)
    assert list(forest.in_tree) == planning.tree(cfg.vertex_count, ends, sums, None, barred)
    if not (cuts or merged):
        for threshold in {1, 2, 3, numbering.total - 1, numbering.total} - {0}:
            cut = truncate(dag, threshold)
            assert ([*cut.cut_edges], cut.paths) == planning.truncate(known, threshold)
        limit, total = rng.randint(1, max(numbering.total, 1)), rng.choice((None, 5))
        expected = planning.cut_edges(known, limit, inf if total is None else total)
        assert list(find_cut_edges(dag, limit, total)) == expected
        limits = limit, total
        whole = number_paths(cfg, dag.dfs, weights, path_limit=limit, total_limit=total)
        assert list(whole.dag.cut_edges) == expected
        assert whole.dag == truncated_dag(cfg, dag.dfs, *limits)
        assert whole.numbering == number(whole.dag)
        assert whole.tree == dag_tree(whole.dag, weights)
        assert whole.increments == chord_increments(whole.tree, whole.numbering.values)


def check_instrumented(
    rng: random.Random, dag: Dag, known: planning.Edges, inside: list[bool]
) -> None:
    blocks = [block.id for block in dag.cfg.blocks]
    early = frozenset(rng.sample(blocks, rng.randint(0, len(blocks))) if rng.random() < 0.3 else ())
    some, others = (frozenset(rng.sample(blocks, rng.choice((0, 1, len(blocks))))) for _ in "12")
    tree = SpanningTree(dag.vertex_count, *dag.columns[:2], tuple(inside), frozenset(), None)
    found = choose_steps(dag, tree, [0] * len(inside), Detours(some, others))
    steps = found.initial, found.static_region, found.final, found.counted_region
    assert tuple(map(set, steps)) == planning.register_steps(known, inside, some, others)
    if number(dag).total > 2000:
        return
    paths = find_obvious(dag, early)
    defining = {edge for edge, defines in enumerate(paths.defining) if defines}
    expected = planning.obvious(known, early, exit_block(dag.cfg))
    assert (defining, set(paths.points), set(paths.kept)) == expected


@pytest.mark.long
@pytest.mark.seeds(range(500), few=100)
@pytest.mark.usefixtures("by")
def test_plans_are_those_of_the_slow_planner(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.fresh_seeds(200)
@pytest.mark.usefixtures("by")
def test_plans_are_those_of_the_slow_planner_on_fresh_graphs(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("count", [59, 60, 61, 62, 63, 64, 65, 200])
def test_numbers_beyond_a_word_are_exact(count: int) -> None:
    cfg = diamonds(count)
    dag = make_dag(cfg, depth_first(cfg))
    known = planning.dag(cfg, planning.search(cfg))
    numbering = number(dag)
    assert numbering.total == 1 << count
    assert (list(numbering.num_paths), list(numbering.values)) == planning.number(known)[:2]
    tree = dag_tree(dag, [1] * len(cfg.edges))
    found = chord_increments(tree, numbering.values)
    given = cfg.vertex_count, tree.ends, tree.in_tree, numbering.values, (cfg.exit, cfg.entry)
    assert (list(found.increments), list(found.potential)) == planning.increments(*given)
    ones = [1] * len(cfg.edges)
    whole = number_paths(cfg, dag.dfs, ones, path_limit=None, total_limit=None)
    assert whole == (dag, numbering, tree, found)
    whole = number_paths(cfg, dag.dfs, ones, path_limit=100, total_limit=1000)
    assert list(whole.dag.cut_edges) == planning.cut_edges(known, 100, 1000)
    cut = truncate(dag, 1 << count - 1)
    assert ([*cut.cut_edges], cut.paths) == planning.truncate(known, 1 << count - 1)


def test_weights_that_are_equal_as_floats_are_told_apart() -> None:
    """Counts of a long run, one apart, choose the tree that they choose as integers."""
    ends = [(0, 1), (0, 1)]
    for weights, inside in (([1 << 53, (1 << 53) + 1], (False, True)), ([1, 1], (True, False))):
        assert maximum_spanning_tree(2, ends, weights, None).in_tree == inside


def test_sort_is_stable() -> None:
    rng = random.Random(3)
    for count in range(40):
        key = [rng.randrange(5) for _ in range(count)]
        items = list(range(count))
        k.sort(items, [0] * count, 0, count, key)
        assert items == sorted(range(count), key=key.__getitem__)


def test_edges_to_vertices_that_there_are_not_are_refused() -> None:
    with pytest.raises(IndexError, match="vertices that there are not"):
        depth_first(graph(2, [(0, 1), (1, 7)]))
    with pytest.raises(IndexError, match="vertices that there are not"):
        maximum_spanning_tree(2, [(0, 1), (0, -1)], [1.0, 1.0], None)
