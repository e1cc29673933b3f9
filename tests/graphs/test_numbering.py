"""Numbers of paths, and the edges that are cut for them: the papers' figures, and brute force."""

import itertools
import random
from collections.abc import Iterable

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import (
    GraphFacts,
    PathNumbering,
    cuts_at,
    find_cut_edges,
    graph_facts,
    number,
    truncate,
)
from simprof.profiler.schemes.pp import plan_pp
from tests.oracles.brute import Path, all_paths, back_edges, graph, random_graph
from tests.support.figures import EPP_2_ENCODING, by_edge, edge, epp_1, epp_10, letters, named


def numbered(cfg, cuts=()) -> PathNumbering:  # type: ignore[no-untyped-def]
    return number(make_dag(cfg, depth_first(cfg), cuts))


def blocks_of(numbering: PathNumbering, path_id: int) -> str:
    cfg = numbering.dag.cfg
    targets = [numbering.dag.edges[step].target for step in numbering.decode(path_id)]
    return letters(cfg, tuple(vertex for vertex in targets if vertex != cfg.exit))


def diamonds(count: int) -> list[tuple[int, int]]:
    edges = []
    for top in range(0, 3 * count, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    return edges


def test_figure_6_path_counts_and_values() -> None:
    cfg = epp_1()
    numbering = numbered(cfg)
    counts = {block.label: numbering.num_paths[block.id] for block in cfg.blocks}
    assert counts == {"A": 6, "B": 4, "C": 2, "D": 2, "E": 1, "F": 1}
    assert list(numbering.values) == by_edge(cfg, {"A>B": 2, "B>D": 2, "D>E": 1})


def test_figure_2_encoding() -> None:
    numbering = numbered(epp_1())
    assert {blocks_of(numbering, path_id): path_id for path_id in range(6)} == EPP_2_ENCODING


def test_path_3_regenerates_as_section_3_5_tells() -> None:
    assert blocks_of(numbered(epp_1()), 3) == "ABCDEF"


def test_figure_10_without_dummies_confuses_paths() -> None:
    cfg = epp_10()
    numbering = numbered(cfg)
    acyclic = named("A>B B>D B>C C>E D>E E>F F>G F>H G>H", "A", "H")
    plain = numbered(acyclic)
    value = {
        (str(plain.dag.cfg.name_of(each.source)), str(plain.dag.cfg.name_of(each.target))):
        plain.values[each.id] for each in plain.dag.edges
    }  # fmt: skip
    confused = {
        text: sum(value[pair] for pair in itertools.pairwise(text))
        for text in ("BCE", "ABCE", "BCEFGH", "ABCEFGH")
    }
    assert confused == dict.fromkeys(confused, 2)
    found = [blocks_of(numbering, path_id) for path_id in range(numbering.total)]
    assert len(set(found)) == len(found) == 12
    # The four classes of paths of section 4.
    assert set(confused) <= set(found)


def test_successor_with_most_paths_comes_last() -> None:
    numbering = numbered(named("A>B A>C B>D B>D C>D", "A", "D"))
    values = {each.cfg_edge: numbering.values[each.id] for each in numbering.dag.edges}
    assert (values[0], values[1]) == (1, 0)


def test_parallel_edges_are_paths_of_their_own() -> None:
    numbering = numbered(graph(2, [(0, 1)] * 3))
    assert numbering.total == 3
    assert len({numbering.decode(path_id) for path_id in range(3)}) == 3


@pytest.mark.seeds(range(40))
def test_all_paths_come_in_the_order_of_their_numbers(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    numbering = numbered(cfg)
    paths = list(numbering.paths())
    assert paths == [numbering.decode(path_id) for path_id in range(numbering.total)]
    targets = [numbering.dag.edges[step].target for path in paths for step in path]
    blocks = [target for target in targets if target != cfg.exit]
    assert numbering.blocks_of_all_paths() == len(blocks)


def test_overflow_is_exact() -> None:
    cfg = graph(301, diamonds(100))
    numbering = numbered(cfg)
    assert numbering.total == 2**100 > 10**30
    last = numbering.total - 1
    assert numbering.encode(numbering.decode(last)) == last
    numbering.validate()


@pytest.mark.parametrize("path_id", [-1, 6])
def test_there_is_no_such_path(path_id: int) -> None:
    with pytest.raises(ValueError, match="no path"):
        numbered(epp_1()).decode(path_id)


def test_prefix_of_a_vertex_off_the_path_is_refused() -> None:
    numbering = numbered(epp_1())
    with pytest.raises(ValueError, match="no path of this value"):
        numbering.decode_prefix(0, 5)  # E; path 0 is ACDF


def test_truncation_cuts_where_the_limit_is_passed() -> None:
    cfg = graph(10, diamonds(3))
    dag = make_dag(cfg, depth_first(cfg))
    # From the last diamond's top lead 2 paths, from the next 4: too many.
    cuts = truncate(dag, threshold=3).cut_edges
    assert [cfg.edges[cut].source for cut in cuts] == [3, 3]
    numbering = numbered(cfg, cuts)
    # Top: two ways to the cut. The cut vertex: none but to EXIT. Two cut edges start 2 each.
    assert numbering.num_paths[3] == 1
    assert numbering.total == 2 + 2 + 2
    assert find_cut_edges(dag, path_limit=None) == ()
    assert find_cut_edges(dag, path_limit=8) == ()


def test_edges_to_exit_are_not_cut() -> None:
    cfg = graph(3, [(0, 1), (0, 2), (1, 2)], exits=(0, 2))
    dag = make_dag(cfg, depth_first(cfg))
    cuts = truncate(dag, threshold=2).cut_edges
    assert {cfg.edges[cut].target for cut in cuts} == {1, 2}
    assert {cfg.edges[cut].source for cut in cuts} == {0}


def test_total_limit_lowers_the_threshold() -> None:
    cfg = graph(61, diamonds(20))
    dag = make_dag(cfg, depth_first(cfg))
    generous = numbered(cfg, find_cut_edges(dag, 100, None))
    strict = numbered(cfg, find_cut_edges(dag, 100, 80))
    assert 100 >= generous.total > 80 >= strict.total


def test_truncation_one_at_a_time_gives_the_same_cuts() -> None:
    rng = random.Random(5)
    for _ in range(60):
        cfg = random_graph(rng)
        dfs = depth_first(cfg)
        limit = rng.choice((1, 2, 3, 6))
        cuts: set[int] = set()
        while True:
            dag = make_dag(cfg, dfs, cuts)
            counts = number(dag).num_paths
            over = [
                [step for step in cfg.out_edges[vertex]
                 if step in dag.real and cfg.edges[step].target != cfg.exit]
                for vertex in reversed(dag.topological)
                if counts[vertex] > limit and vertex != cfg.entry
            ]  # fmt: skip
            over = [edges for edges in over if edges]
            if not over:
                break
            cuts |= set(over[0])
        found = truncate(make_dag(cfg, dfs), limit)
        assert set(found.cut_edges) == cuts
        assert found.paths == number(make_dag(cfg, dfs, cuts)).total


def test_limit_of_a_vertex_leaves_a_routine_more() -> None:
    """EPP 5.3's threshold is for each vertex: starts at cut edges add up."""
    dag = make_dag(cfg := graph(61, diamonds(20)), depth_first(cfg))
    assert truncate(dag, 100).paths > 100
    assert numbered(cfg, find_cut_edges(dag, 100)).total <= 100


def ways_to_exit(cfg: ControlFlowGraph, cuts: Iterable[int], vertex: int) -> int:
    """Count the ways from a vertex to where a path ends, by walking all of them."""
    back, cut = back_edges(cfg), set(cuts)
    out = [edge for edge in cfg.edges if edge.source == vertex]
    loops = {edge.id for edge in out if edge.source == edge.target}
    ends = any(edge.id in (back - loops) | cut for edge in out)
    kept = [edge for edge in out if edge.id not in back | cut]
    onward = sum(
        1 if edge.target == cfg.exit else ways_to_exit(cfg, cut, edge.target) for edge in kept
    )
    return onward + (ends or not kept)


@pytest.mark.seeds(range(100))
def test_a_limit_of_each_vertex_cuts_those_that_pass_it(seed: int) -> None:
    """EPP 5.3: all edges out of a vertex with more paths than the threshold are cut, no others."""
    rng = random.Random(seed)
    cfg, limit = random_graph(rng, 8), rng.choice((1, 2, 3, 6, 10))
    dfs = depth_first(cfg)
    cuts = set(find_cut_edges(make_dag(cfg, dfs), limit, None, per_vertex=True))
    by_source = {cfg.edges[cut].source for cut in cuts}
    assert cfg.entry not in by_source
    for vertex in set(dfs.reached) - {cfg.entry, cfg.exit}:
        own = {edge.id for edge in cfg.edges if edge.source == vertex}
        can = {e for e in own - back_edges(cfg) if cfg.edges[e].target != cfg.exit}
        passes = ways_to_exit(cfg, cuts - own, vertex) > limit
        assert cuts & own == (can if passes else set())


def test_a_limit_of_each_vertex_leaves_the_routine_more() -> None:
    dag = make_dag(cfg := graph(61, diamonds(20)), depth_first(cfg))
    each, both = (find_cut_edges(dag, 100, most, per_vertex=True) for most in (None, 300))
    # Six diamonds have 64 paths. So of twenty the seventh and the fourteenth from the end are cut;
    # 64 paths lead from the first one, and from either branch of both that are cut.
    assert {cfg.edges[cut].source for cut in each} == {3 * 6, 3 * 13}
    assert numbered(cfg, each).total == 64 + 4 * 64
    assert 300 >= numbered(cfg, both).total > 100
    assert find_cut_edges(dag, 100) != each


@pytest.mark.seeds(range(200))
def test_no_routine_has_more_paths_than_the_limit(seed: int) -> None:
    """The limit holds where any threshold can keep it, with the highest that does so nearby."""
    rng = random.Random(seed)
    cfg = random_graph(rng, rng.choice((6, 10, 20)))
    dag = make_dag(cfg, depth_first(cfg))
    whole = number(dag).total
    limit = rng.choice((1, 5, 12, 20, 40, max(whole - 1, 1), whole, whole + 1))
    cuts = find_cut_edges(dag, limit)
    paths = numbered(cfg, cuts).total
    assert not cuts or whole > limit
    by_threshold = [truncate(dag, threshold) for threshold in range(1, limit + 1)]
    least = min(each.paths for each in by_threshold)
    if paths > limit:  # no halved threshold keeps it
        halves = {limit >> bits for bits in range(limit.bit_length())}
        assert paths == min(truncate(dag, half).paths for half in halves) >= least
        return
    assert paths <= limit
    chosen = max(each.threshold for each in by_threshold if each.cut_edges == cuts)
    if chosen < limit:
        assert truncate(dag, chosen + 1).paths > limit, "a finer truncation keeps the limit, too"


@pytest.mark.seeds(range(60))
def test_a_cut_vertex_has_as_many_paths_as_is_said(seed: int) -> None:
    cfg = random_graph(random.Random(seed), 8)
    dag = make_dag(cfg, depth_first(cfg))
    for vertex in dag.dfs.reached - {cfg.entry, cfg.exit}:
        cuts, left = cuts_at(dag, vertex)
        if cuts:
            assert numbered(cfg, tuple(sorted(cuts))).num_paths[vertex] == left


def test_limit_must_be_positive() -> None:
    cfg = epp_1()
    with pytest.raises(ValueError, match="path limit"):
        find_cut_edges(make_dag(cfg, depth_first(cfg)), 0)


@pytest.mark.seeds(range(150))
def test_numbering_is_perfect(seed: int) -> None:
    rng = random.Random(seed)
    cfg = random_graph(rng, 8)
    dag = make_dag(cfg, depth_first(cfg))
    cuts = find_cut_edges(dag, rng.choice((1, 2, 4, 10**8)))
    numbering = numbered(cfg, cuts)
    numbering.validate()
    expected = all_paths(cfg, cuts)
    assert numbering.total == len(expected)
    found = set()
    for path_id in range(numbering.total):
        steps = [numbering.dag.edges[step] for step in numbering.decode(path_id)]
        blocks = tuple(step.target for step in steps if step.target != cfg.exit)
        edges = tuple(step.cfg_edge for step in steps if step.cfg_edge is not None)
        found.add(Path(blocks, edges, False))
        assert numbering.encode(step.id for step in steps) == path_id
    assert found == expected


def test_edge_names_are_unique() -> None:
    with pytest.raises(AssertionError):
        edge(named("A>B A>B", "A", "B"), "A>B")


def test_a_routine_may_have_as_many_paths_as_its_limit() -> None:
    """EPP figure 1 has 6 paths: a limit of 6 leaves it whole, one of 5 cuts it."""
    cfg = epp_1()
    dag = make_dag(cfg, depth_first(cfg))
    assert find_cut_edges(dag, 100, 6) == ()
    assert find_cut_edges(dag, 100, 5) != ()


def test_figure_1_of_epp_has_six_paths() -> None:
    assert graph_facts(epp_1()) == GraphFacts(
        blocks=6, edges=10, back_edges=0, irreducible=False, potential_paths=6
    )


def test_a_loop_with_two_entries_is_irreducible() -> None:
    facts = graph_facts(named("A>B A>C B>C C>B C>D", "A", "D"))
    assert facts.irreducible
    assert facts.back_edges == 1


@pytest.mark.seeds(range(60))
def test_paths_are_counted_before_any_edge_is_cut(seed: int) -> None:
    cfg = random_graph(random.Random(seed))
    facts = graph_facts(cfg)
    assert facts.potential_paths == len(all_paths(cfg))
    assert facts.potential_paths == plan_pp(cfg, path_limit=None).num_paths
    assert facts.back_edges == len(back_edges(cfg))
