"""Paths as reports have them, and the edge counts that follow from them, worked out by hand.

The edges of `LOOP`'s acyclic graph, by id: 0 A>B, 1 A>C, 2 B>D, 3 C>D, 4 ENTRY>A, 5 D>EXIT, then
the dummies of the back edge D>A: 6 ENTRY>A and 7 D>EXIT.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.paths import (
    PathEnd,
    PathStart,
    edge_counts,
    path_record,
    removed_forest,
    truncated_dag,
)
from tests.support.figures import by_edge, edge, letters, named

LOOP = named("A>B A>C B>D C>D D>A", "A", "D")


def dag_of(cfg: ControlFlowGraph, cuts: Sequence[str] = ()) -> Dag:
    return make_dag(cfg, depth_first(cfg), [edge(cfg, ends) for ends in cuts])


@pytest.mark.parametrize(
    ("path", "blocks", "edges", "start", "end"),
    [
        ([4, 0, 2, 5], "ABD", ["ENTRY>A", "A>B", "B>D", "D>EXIT"], "entry", "exit"),
        ([4, 1, 3, 7], "ACD", ["ENTRY>A", "A>C", "C>D"], "entry", "back-edge"),
        ([6, 1, 3, 7], "ACD", ["A>C", "C>D"], "back-edge", "back-edge"),
        ([6, 0, 2, 5], "ABD", ["A>B", "B>D", "D>EXIT"], "back-edge", "exit"),
    ],
)
def test_paths_of_a_loop(
    path: list[int], blocks: str, edges: list[str], start: str, end: str
) -> None:
    record = path_record(dag_of(LOOP), path)
    assert letters(LOOP, record.blocks) == blocks
    assert list(record.edges) == [edge(LOOP, ends) for ends in edges]
    assert (record.start, record.end) == (PathStart(start), PathEnd(end))
    assert not record.partial


def test_an_unfinished_path_ends_in_its_last_block() -> None:
    record = path_record(dag_of(LOOP), [6, 1], partial=True)
    assert letters(LOOP, record.blocks) == "AC"
    assert (record.end, record.partial) == (PathEnd.PARTIAL, True)


def test_a_cut_edge_ends_one_path_and_begins_the_next() -> None:
    """With A>B cut: 0 A>C, 1 B>D, 2 C>D, 3 ENTRY>A, 4 D>EXIT, then ENTRY>B, ENTRY>A, A>EXIT."""
    dag = dag_of(LOOP, ["A>B"])
    to_cut = path_record(dag, [3, dag.exit_dummy[0]])
    assert (letters(LOOP, to_cut.blocks), to_cut.end) == ("A", PathEnd.CUT)
    behind = path_record(dag, [dag.entry_dummy[1], 1, 4])
    assert (letters(LOOP, behind.blocks), behind.start) == ("BD", PathStart.CUT)


def test_a_block_that_loops_on_itself_for_ever_is_a_dead_end() -> None:
    cfg = named("A>B A>C C>C", "A", "B")
    dag = dag_of(cfg)
    record = path_record(dag, [2, 1, dag.exit_dummy[2]])
    assert (letters(cfg, record.blocks), record.end) == ("AC", PathEnd.DEAD_END)


def test_edges_execute_as_often_as_the_paths_over_them() -> None:
    """Entered twice, over B; round three times over C; out over B.

    The back edge has no counter: its count follows from how many paths ended in D and began in A.
    """
    dag = dag_of(LOOP)
    tree = removed_forest(dag, [1] * len(LOOP.edges))
    assert tree.chords == ()
    paths = [([4, 0, 2, 7], 2), ([6, 1, 3, 7], 3), ([6, 0, 2, 5], 2)]
    records = [(path_record(dag, path), count) for path, count in paths]
    assert list(edge_counts(dag, tree, [], records)) == by_edge(
        LOOP, {"ENTRY>A": 2, "A>B": 4, "A>C": 3, "B>D": 4, "C>D": 3, "D>A": 5, "D>EXIT": 2}
    )


def test_unfinished_paths_count_on_their_edges_and_end_nothing() -> None:
    """Entered twice over C; one activation ended early in D, the other went round and out by B."""
    dag = dag_of(LOOP)
    tree = removed_forest(dag, [1] * len(LOOP.edges))
    records = [
        (path_record(dag, [4, 1, 3], partial=True), 1),
        (path_record(dag, [4, 1, 3, 7]), 1),
        (path_record(dag, [6, 0, 2, 5]), 1),
    ]
    assert list(edge_counts(dag, tree, [], records)) == by_edge(
        LOOP, {"ENTRY>A": 2, "A>B": 1, "A>C": 2, "B>D": 1, "C>D": 2, "D>A": 1, "D>EXIT": 1}
    )


TANGLED = named("A>B B>C C>D C>A C>B D>A D>B", "A", "D")
"""Two blocks, C and D, with back edges to the same two, A and B."""


def test_where_paths_do_not_tell_back_edges_apart_the_rarest_is_counted() -> None:
    """Of the four back edges the counts of three follow from the paths and the fourth."""
    dag = dag_of(TANGLED)
    weights = by_edge(TANGLED, {"C>A": 5, "C>B": 4, "D>A": 1, "D>B": 3})
    tree = removed_forest(dag, weights)
    assert [dag.removed[chord] for chord in tree.chords] == [edge(TANGLED, "D>A")]


def test_counted_edges_decide_what_paths_leave_open() -> None:
    """The walk A B C A B C D B C D A B C D: its path ends and starts fit D>A taken 0 times, too."""
    dag = dag_of(TANGLED)
    tree = removed_forest(dag, by_edge(TANGLED, {"C>A": 5, "C>B": 4, "D>A": 1, "D>B": 3}))
    (enter, leave) = (dag.real[edge(TANGLED, ends)] for ends in ("ENTRY>A", "D>EXIT"))
    down = {ends: dag.real[edge(TANGLED, ends)] for ends in ("A>B", "B>C", "C>D")}
    a, b, c, d = range(4)
    starts, ends = dag.entry_dummy, dag.exit_dummy
    paths = [
        [enter, down["A>B"], down["B>C"], ends[c]],  # A B C, then C>A
        [starts[a], down["A>B"], down["B>C"], down["C>D"], ends[d]],  # A B C D, then D>B
        [starts[b], down["B>C"], down["C>D"], ends[d]],  # B C D, then D>A
        [starts[a], down["A>B"], down["B>C"], down["C>D"], leave],  # A B C D, and out
    ]
    records = [(path_record(dag, path), 1) for path in paths]
    counted = {"ENTRY>A": 1, "A>B": 3, "B>C": 4, "C>D": 3, "D>EXIT": 1, "D>B": 1}
    found = edge_counts(dag, tree, [(edge(TANGLED, "D>A"), 1)], records)
    assert list(found) == by_edge(TANGLED, {**counted, "C>A": 1, "D>A": 1})
    other = edge_counts(dag, tree, [(edge(TANGLED, "D>A"), 0)], records)
    assert list(other) == by_edge(TANGLED, {**counted, "C>A": 2, "C>B": -1, "D>B": 2})


def test_graphs_are_cut_only_where_too_many_paths_lead() -> None:
    """Two choices in a row have four paths."""
    cfg = named("A>B A>C B>D C>D D>E D>F E>G F>G", "A", "G")
    dfs = depth_first(cfg)
    assert truncated_dag(cfg, dfs, 4, None).cut_edges == ()
    assert truncated_dag(cfg, dfs, None, None).cut_edges == ()
    assert truncated_dag(cfg, dfs, 3, None).cut_edges != ()


def test_edges_between_blocks_are_one_less_than_blocks() -> None:
    """Those from ENTRY and to EXIT do not count."""
    cfg = named("A>B", "A", "B")
    whole = path_record(dag_of(cfg), [1, 0, 2])
    assert [edge(cfg, ends) for ends in ("ENTRY>A", "A>B", "B>EXIT")] == list(whole.edges)
    assert whole.inner_edges(cfg) == (edge(cfg, "A>B"),)


def test_edges_that_end_at_a_cut_are_counted_for_where_the_next_path_begins() -> None:
    """A>B is cut: paths A, B D and so on; two sources with removed edges, to two targets."""
    dag = dag_of(LOOP, ["A>B"])
    tree = removed_forest(dag, [1.0] * len(LOOP.edges))
    by_ends = {(e.source, e.target, e.cfg_edge is None): e.id for e in dag.edges}
    a, b, d = (next(k for k, block in enumerate(LOOP.blocks) if block.label == n) for n in "ABD")
    entry, end = LOOP.entry, LOOP.exit
    to_cut = path_record(dag, [by_ends[entry, a, False], by_ends[a, end, True]])
    behind = path_record(
        dag, [by_ends[entry, b, True], by_ends[b, d, False], by_ends[d, end, False]]
    )
    assert (to_cut.end, behind.start) == (PathEnd.CUT, PathStart.CUT)
    counts = edge_counts(dag, tree, [], [(to_cut, 7), (behind, 7)])
    expected = {"ENTRY>A": 7, "A>B": 7, "B>D": 7, "D>EXIT": 7}
    assert list(counts) == by_edge(LOOP, expected)
