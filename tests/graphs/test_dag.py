import random

import pytest

from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first
from tests.oracles.brute import graph, random_graph
from tests.support.figures import edge, epp_10, named


def test_figure_10_has_one_dummy_at_each_end_of_the_back_edge() -> None:
    cfg = epp_10()
    dag = make_dag(cfg, depth_first(cfg))
    dummies = [
        (cfg.name_of(each.source).start, cfg.name_of(each.target).start, each.stands_for)
        for each in dag.edges
        if each.cfg_edge is None
    ]
    back = edge(cfg, "E>B")
    assert dummies == [("ENTRY", "B", (back,)), ("E", "EXIT", (back,))]
    dag.validate()


def test_back_edges_share_dummies_at_heads_and_sources() -> None:
    cfg = named("A>B B>C C>D D>B D>C D>A D>E", "A", "E")
    dag = make_dag(cfg, depth_first(cfg))
    assert [cfg.name_of(vertex).start for vertex in dag.entry_dummy] == ["B", "C", "A"]
    assert [cfg.name_of(vertex).start for vertex in dag.exit_dummy] == ["D"]
    (shared,) = dag.exit_dummy.values()
    assert dag.edges[shared].stands_for == tuple(edge(cfg, e) for e in ("D>B", "D>C", "D>A"))
    assert dag.edge_weights([1, 1, 1, 2, 3, 4, 1, 1, 1])[shared] == 9


def test_self_loop_is_left_aside() -> None:
    dag = make_dag(cfg := graph(1, [(0, 0)]), depth_first(cfg))
    assert dag.removed == ()
    assert [each.cfg_edge for each in dag.edges] == [1, 2]


def test_what_is_made_of_nothing_else_is_made_once() -> None:
    dfs = depth_first(cfg := epp_10())
    dag = make_dag(cfg, dfs)
    assert make_dag(cfg, dfs, [], set()) is dag
    assert make_dag(cfg, dfs, frozenset({1}) & frozenset({2})) is dag
    assert make_dag(cfg, dfs, {edge(cfg, "A>B")}) is not dag


def test_dead_ends_and_endless_loops_reach_exit_over_dummies() -> None:
    cfg = named("A>B B>B A>C C>D D>C A>E", "A", "E")
    dag = make_dag(cfg, depth_first(cfg))
    dag.validate()
    ends = {
        cfg.name_of(source).start: dag.edges[e].stands_for for source, e in dag.exit_dummy.items()
    }
    assert ends == {"B": (), "D": (edge(cfg, "D>C"),)}


def test_edges_from_unreachable_blocks_are_left_out() -> None:
    cfg = graph(3, [(0, 1), (2, 1), (2, 2)], exits=(1,))
    dag = make_dag(cfg, depth_first(cfg))
    assert {each.cfg_edge for each in dag.edges} == {0, 3, 4}
    assert dag.removed == ()
    dag.validate()


def test_back_edges_and_exits_cannot_be_cut() -> None:
    cfg = named("A>B B>A B>C", "A", "C")
    dfs = depth_first(cfg)
    for ends in ("B>A", "C>EXIT"):
        with pytest.raises(ValueError, match="cannot be cut"):
            make_dag(cfg, dfs, [edge(cfg, ends)])
    dag = make_dag(cfg, dfs, [edge(cfg, "B>C")])
    dag.validate()
    assert dag.removed == (edge(cfg, "B>A"), edge(cfg, "B>C"))
    assert dag.cut_edges == (edge(cfg, "B>C"),)


@pytest.mark.seeds(range(100))
def test_random_graphs_become_acyclic(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    make_dag(cfg, depth_first(cfg)).validate()
