"""Acyclic paths of a graph: their numbering, their records, edge counts from path counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ENTRIES, ControlFlowGraph, EdgeKind, remembers_recent
from simprof.profiler.graphs.dag import Dag, known_columns, make_dag
from simprof.profiler.graphs.flow import solve_tree
from simprof.profiler.graphs.loops import DepthFirst, survey
from simprof.profiler.graphs.numbering import (
    PathNumbering,
    choose_cuts,
    find_cut_edges,
    number,
    numbering_of,
    path_threshold,
)
from simprof.profiler.graphs.plan_calls import LIMIT, Reals, call
from simprof.profiler.graphs.spanning import (
    ChordIncrements,
    SpanningTree,
    chord_increments,
    find_tree,
)


class PathStart(StrEnum):
    """Where a path starts."""

    ENTRY = "entry"
    REENTRY = "re-entry"  # where control came back into the routine, by no call (`PathCount`)
    LOOP = "back-edge"  # at the target of a back edge
    CUT = "cut"  # at the target of cut edges only
    LOOP_ENTRY = "loop-entry"  # at the head of a collapsed loop (`kiter:outer`)
    BRANCH = "branch"  # at the first branch of a window


class PathEnd(StrEnum):
    """Where a path ends."""

    EXIT = "exit"
    LOOP = "back-edge"  # at the source of a back edge
    CUT = "cut"  # at the source of cut edges only
    LOOP_EXIT = "loop-exit"  # where control leaves a collapsed loop
    BRANCH = "branch"  # behind the last branch of a window
    DEAD_END = "dead-end"  # in a block that control never leaves; never counted
    PARTIAL = "partial"  # unfinished: its activation ended early


# Blocks and edges of a path, or of a part of one, as in `PathRecord`.
PathPiece = tuple[tuple[int, ...], tuple[int, ...]]


class PathRecord(Struct, frozen=True):
    """A path as reported."""

    blocks: tuple[int, ...]  # Block ids in order
    # Control-flow edge ids in order, edges from ENTRY and to EXIT included; the edges that ended
    # the path before it and that ended this one (back edges, cut edges) are not.
    edges: tuple[int, ...]
    # start, end: Why it starts and ends where it does.
    start: PathStart
    end: PathEnd
    # Places in `blocks` of the heads of collapsed loops, each of which stands for its loop
    collapsed: tuple[int, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether the path was never finished."""
        return self.end is PathEnd.PARTIAL

    def instructions(self, cfg: ControlFlowGraph) -> int:
        """Instructions that one execution of the path executes, without collapsed loops."""
        inside = (self.blocks[at] for at in self.collapsed)
        return sum(cfg.blocks[block].instructions for block in self.blocks) - sum(
            cfg.blocks[block].instructions for block in inside
        )

    def inner_edges(self, cfg: ControlFlowGraph) -> tuple[int, ...]:
        """Its edges between blocks: one less than it has blocks."""
        outer = (*ENTRIES, EdgeKind.EXIT)
        return tuple(edge for edge in self.edges if cfg.edges[edge].kind not in outer)


def dag_path(dag: Dag, blocks: Sequence[int], edges: Sequence[int]) -> tuple[int, ...] | None:
    """Return the dag edges, from ENTRY to EXIT, of a path given as in `PathRecord`; None if the dag
    has no such path.
    """
    path = [dag.real.get(edge, -1) for edge in edges]
    if not edges or dag.cfg.edges[edges[0]].source != dag.cfg.entry:
        path.insert(0, dag.entry_dummy.get(blocks[0], -1))
    if not edges or dag.cfg.edges[edges[-1]].target != dag.cfg.exit:
        path.append(dag.exit_dummy.get(blocks[-1], -1))
    return None if -1 in path else tuple(path)


@remembers_recent
def truncated_dag(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    path_limit: int | None,
    total_limit: int | None,
    per_vertex: bool = False,
) -> Dag:
    """Return the acyclic graph of `cfg`, cut where too many paths lead (EPP 5.3); parameters as of
    `numbering.find_cut_edges`.
    """
    dag = make_dag(cfg, dfs)
    cuts = find_cut_edges(dag, path_limit, total_limit, per_vertex)
    return make_dag(cfg, dfs, cuts) if cuts else dag


class NumberedPaths(NamedTuple):
    """The paths of an acyclic graph, numbered, and their numbers moved onto chords."""

    dag: Dag
    numbering: PathNumbering
    tree: SpanningTree
    increments: ChordIncrements


def number_paths(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    weights: Sequence[float],
    *,
    path_limit: int | None,
    total_limit: int | None,
    per_vertex: bool = False,
    cuts: Collection[int] = (),
    merged: Collection[int] = (),
    root_in_tree: bool = True,
) -> NumberedPaths:
    """Do what `make_dag`, `find_cut_edges` and `number_dag` do one after the other; parameters as
    there.
    """
    threshold, dag = path_threshold(path_limit, total_limit), make_dag(cfg, dfs, cuts, merged)
    if (made := _numbered(dag, weights, root_in_tree, threshold)) is not None:
        return made
    more = choose_cuts(dag, threshold, total_limit, per_vertex)
    return number_dag(make_dag(cfg, dfs, {*cuts, *more}, merged), weights, root_in_tree)


def number_dag(dag: Dag, weights: Sequence[float], root_in_tree: bool = True) -> NumberedPaths:
    """Do in one go what `number`, `dag_tree` and `chord_increments` do one after the other;
    parameters as there.
    """
    made = _numbered(dag, weights, root_in_tree, 0)
    assert made is not None, "paths are limited, and no limit is given"
    return made


def _numbered(
    dag: Dag, weights: Sequence[float], root_in_tree: bool, threshold: int
) -> NumberedPaths | None:
    """Return numbered paths; None if more than `threshold` lead from some vertex; 0: any number."""
    cfg, root = dag.cfg, (dag.cfg.exit, dag.cfg.entry)
    if cfg.ordered:  # the kernel's increments are those of its own order
        numbering, tree = number(dag), dag_tree(dag, weights, root_in_tree)
        if 0 < threshold < max(numbering.num_paths):
            return None
        return NumberedPaths(dag, numbering, tree, chord_increments(tree, numbering.values, root))
    source, target, cfg_edge, first, stands = dag.columns
    known = known_columns(dag) if root_in_tree else None
    if known is not None and 0 < threshold < known.most:
        return None
    if known is not None and known.most < LIMIT and weights == survey(cfg).heuristic:
        return _known_paths(dag)
    n, m, reached = cfg.vertex_count, len(source), dag.dfs.topological
    size = {k.VERTICES: n, k.EDGES: m, k.ENTRY: cfg.entry, k.EXIT: cfg.exit}
    size |= {k.ROOT: root_in_tree, k.REACHED: len(reached), k.THRESHOLD: threshold}
    made = call(
        k.number_chords,
        size | {k.OTHERS: len(first) - 1},
        *(Reals(weights), source, target, cfg_edge, first, stands, reached),
        *(n + 1, m, m, m, n, m, Reals(m), m, m, Reals(m), n, m, n + 1, n, n, 2 * m, n, m),
    )
    if 0 < threshold < made(0)[k.PATHS]:
        return None
    numbering = numbering_of(dag, *map(made, (8, 9, 12, 13)))
    inside, potential, increments = map(made, (19, 24, 25))
    return _with_chords(numbering, inside, potential, increments, root if root_in_tree else None)


@remembers_recent
def _known_paths(dag: Dag) -> NumberedPaths:
    """Return the paths of a routine as they were numbered with those of its program."""
    # The engine's segments and all schemes that weigh edges alike share them.
    known = survey(dag.cfg).columns
    found, at = known.found, known.dag_edges
    inside, increments = found.in_tree[at].tolist(), found.increment[at].tolist()
    potential = found.potential[known.vertices].tolist()
    numbering, root = numbering_of(dag, *known.numbers()), (dag.cfg.exit, dag.cfg.entry)
    return _with_chords(numbering, inside, potential, increments, root)


def _with_chords(
    numbering: PathNumbering,
    inside: Iterable[int],
    potential: Sequence[int],
    increments: Iterable[int],
    root: tuple[int, int] | None,
) -> NumberedPaths:
    dag = numbering.dag
    source, target, in_tree = dag.columns.source, dag.columns.target, tuple(map(bool, inside))
    tree = SpanningTree(dag.vertex_count, source, target, in_tree, frozenset(), root)
    chords = ChordIncrements(tuple(increments), tuple(potential), potential[dag.cfg.exit])
    return NumberedPaths(dag, numbering, tree, chords)


@remembers_recent
def dag_tree(dag: Dag, weights: Sequence[float], root_in_tree: bool = True) -> SpanningTree:
    """Return a spanning tree of `dag` that keeps increments off its busy edges (EPP 3.3); `weights`
    are by edge id of its control-flow graph. `root_in_tree`: Whether EXIT -> ENTRY is in the tree,
    and no chord.
    """
    root = (dag.cfg.exit, dag.cfg.entry) if root_in_tree else None
    columns, by_edge = dag.columns, dag.edge_weights(weights)
    return find_tree(dag.vertex_count, columns.source, columns.target, by_edge, root)


def removed_forest(dag: Dag, weights: Sequence[float]) -> SpanningTree:
    """Choose the removed edges whose counts follow from those of the paths.

    The forest's edges are numbered as the graph's `removed`. `weights`, by edge id: the least
    frequent edges stay outside and need counters of their own.
    """
    # The paths give the flow over the removed edges out of each vertex, and into each vertex. So
    # the counts of a forest follow (BL94 3.2) in the graph that has a vertex v for each source and
    # a vertex |V| + w for each target of removed edges.
    (sources, targets), count = dag.removed_ends, dag.vertex_count
    targets = [count + target for target in targets]
    return find_tree(2 * count, sources, targets, [weights[edge] for edge in dag.removed], None)


def edge_counts(
    dag: Dag,
    removed_tree: SpanningTree,
    counted: Iterable[tuple[int, int]],
    paths: Iterable[tuple[PathRecord, int]],
) -> tuple[int, ...]:
    """Derive the count of every edge from whole and unfinished paths with their counts.

    `removed_tree`: The result of `removed_forest`. `counted`: Edges with counters of their own, and
    what these hold: self-loops and the forest's chords.
    """
    # Edge counts: a path's own edges executed as often as the path. What ended it and what began
    # the next is known by vertex only: the paths tell how often the removed edges of one source,
    # and those of one target, executed together. Where that does not determine each of them (two
    # sources with removed edges to the same two targets, or parallel ones) the least frequent get
    # counters of their own, so that edge counts are always exact. Reducible graphs without cuts
    # rarely need one.
    cfg = dag.cfg
    counts = [0] * len(cfg.edges)
    supply = [0] * removed_tree.vertex_count
    for record, count in paths:
        for edge in record.edges:
            counts[edge] += count
        if record.start is not PathStart.ENTRY:
            supply[cfg.vertex_count + record.blocks[0]] -= count
        if record.end in (PathEnd.LOOP, PathEnd.CUT):
            supply[record.blocks[-1]] += count
    for edge, count in counted:
        counts[edge] = count
    solved = solve_tree(removed_tree, [counts[edge] for edge in dag.removed], supply)
    for edge, count in zip(dag.removed, solved, strict=True):
        counts[edge] = count
    return tuple(counts)


def path_record(dag: Dag, path: Iterable[int], partial: bool = False) -> PathRecord:
    """Return the path of these dag edges, from ENTRY to EXIT (to its last block if `partial`)."""
    steps, cfg_edge = tuple(path), dag.columns.cfg_edge
    blocks = tuple([vertex for vertex in dag.targets_of(steps) if vertex != dag.cfg.exit])
    real = tuple([edge for edge in map(cfg_edge.__getitem__, steps) if edge >= 0])
    first, last = dag.stood_for(steps[0]), dag.stood_for(steps[-1])
    start = PathStart.LOOP if _has_back_edge(dag, first) else PathStart.CUT
    end = PathEnd.LOOP if _has_back_edge(dag, last) else PathEnd.CUT
    if partial:
        end = PathEnd.PARTIAL
    elif not last:
        end = PathEnd.EXIT if last is None else PathEnd.DEAD_END
    return PathRecord(blocks, real, start if first else PathStart.ENTRY, end)


def _has_back_edge(dag: Dag, removed: Iterable[int] | None) -> bool:
    return any(edge in dag.dfs.back_edges for edge in removed or ())
