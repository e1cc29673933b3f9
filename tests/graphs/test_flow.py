import random
from collections import Counter

import pytest

from simprof.profiler.graphs.flow import FlowError, block_counts, check, propagate
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.spanning import SpanningTree, maximum_spanning_tree
from tests.oracles.brute import graph, random_graph, random_walk
from tests.support.figures import bl94_5, by_edge, edge, epp_1, walk


def tree_of(cfg, weights) -> SpanningTree:  # type: ignore[no-untyped-def]
    ends = [(each.source, each.target) for each in cfg.edges]
    dead = {each.id for each in cfg.edges} - live_edges(cfg, depth_first(cfg))
    return maximum_spanning_tree(cfg.vertex_count, ends, weights, (cfg.exit, cfg.entry), dead)


def test_figure_3_equations() -> None:
    cfg = epp_1()
    tree_edges = ("A>B", "C>D", "D>F", "E>F", "ENTRY>A", "F>EXIT")
    tree = tree_of(cfg, by_edge(cfg, dict.fromkeys(tree_edges, 5)))
    t, u, v, w = 1000, 200, 30, 4
    chords = {"B>D": t, "B>C": u, "A>C": v, "D>E": w}
    counts = propagate(cfg, tree, {edge(cfg, ends): count for ends, count in chords.items()})
    named = {ends: counts[edge(cfg, ends)] for ends in tree_edges}
    assert named == {
        "C>D": u + v,
        "D>F": t + u + v - w,
        "E>F": w,
        "A>B": t + u,
        "ENTRY>A": t + u + v,
        "F>EXIT": t + u + v,
    }


def test_early_termination_of_bl94_figure_7() -> None:
    cfg = bl94_5()
    whole, cut_short = walk(cfg, "PQBRCPX"), walk(cfg, "PQBRCPQARX")[:-3]
    true = Counter(whole + cut_short)
    tree_edges = ("ENTRY>P", "X>EXIT", "A>R", "B>R", "Q>B", "R>C", "C>P")
    tree = tree_of(cfg, by_edge(cfg, dict.fromkeys(tree_edges, 5)))
    assert edge(cfg, "A>R") not in tree.chords
    chords = {chord: true[chord] for chord in tree.chords}
    stopped = {block.id: 1 for block in cfg.blocks if block.label == "A"}
    counts = propagate(cfg, tree, chords, stopped)
    assert counts == tuple(true[each.id] for each in cfg.edges)
    assert counts[edge(cfg, "A>R")] == 0
    check(cfg, counts, stopped, activations=2)
    # Without the virtual edge A > EXIT the flow that ended in A seems to go on to R.
    assert propagate(cfg, tree, chords)[edge(cfg, "A>R")] == 1


def test_check_names_what_is_wrong() -> None:
    cfg = graph(2, [(0, 1)])
    check(cfg, (3, 3, 3))
    with pytest.raises(FlowError, match="block 0x0 was entered"):
        check(cfg, (2, 3, 3))
    with pytest.raises(FlowError, match="impossible count -1"):
        check(cfg, (-1, -1, -1))
    with pytest.raises(FlowError, match="3 entries for 4 activations"):
        check(cfg, (3, 3, 3), activations=4)
    with pytest.raises(FlowError, match="2 counts for 3 edges"):
        check(cfg, (3, 3))
    check(cfg, (3, 3, 2), {1: 1})


@pytest.mark.seeds(range(100))
def test_random_executions_propagate_on_any_tree(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng)
    tree = tree_of(cfg, [rng.random() for _ in cfg.edges])
    walks = [random_walk(rng, cfg) for _ in range(10)]
    true = Counter(step for steps in walks for step in steps)
    early = Counter(
        target for steps in walks if (target := cfg.edges[steps[-1]].target) != cfg.exit
    )
    counts = propagate(cfg, tree, {chord: true[chord] for chord in tree.chords}, early)
    assert counts == tuple(true[each.id] for each in cfg.edges)
    check(cfg, counts, early, activations=10)
    entered = Counter(cfg.edges[step].target for steps in walks for step in steps)
    assert block_counts(cfg, counts) == tuple(entered[block.id] for block in cfg.blocks)
