"""Depth-first search, natural loops and reducibility of control-flow graphs.

Terms
-----
back edge
    An edge whose target is on the search's stack. Successors are visited in the order of
    `cfg.out_edges`. A self-loop is a back edge too.
natural loop of a back edge x -> y
    Where y dominates x: y, and every vertex with a directed path to x that does not include y
    (BL94, section 5). The loop of an entry y is the union over its back edges.
loop-exit edge
    An edge from inside a natural loop to outside of it.
live edge
    An edge whose source can be reached from ENTRY. Other edges never execute and take no part
    in any later step.

Steps: `depth_first` -> `natural_loops`, `is_reducible`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain, compress, count
from typing import Any, NamedTuple

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph, remembers_recent
from simprof.profiler.graphs.columns import RoutineColumns, columns_of
from simprof.profiler.graphs.plan_calls import call


class DepthFirst(Struct, frozen=True, dict=True):
    """A depth-first search from ENTRY."""

    # preorder, postorder: The vertices reached, in order of discovery and of completion.
    preorder: tuple[int, ...]
    postorder: tuple[int, ...]
    back_edges: frozenset[int]  # Ids of the back edges, self-loops included
    self_loops: frozenset[int]  # Ids of the edges with one vertex as source and target

    @cached_property
    def reached(self) -> frozenset[int]:
        """Vertices that can be reached from ENTRY."""
        return frozenset(self.preorder)

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """The reached vertices, sources before targets along all edges but back edges."""
        return self.postorder[::-1]


class Loop(Struct, frozen=True):
    """The natural loop of an entry: its vertices, back edges and exit edges (by edge id)."""

    entry: int
    body: frozenset[int]
    back_edges: tuple[int, ...]
    exits: tuple[int, ...]


class Survey(NamedTuple):
    """What nearly every plan asks of a graph, found in one go."""

    dfs: DepthFirst
    proper: frozenset[int]  # Back edges whose target dominates their source
    heuristic: tuple[float, ...]  # BL94's weights where nothing else is taken for granted
    columns: RoutineColumns  # All that is found


@remembers_recent
def survey(cfg: ControlFlowGraph) -> Survey:
    """Search `cfg` from ENTRY, and what follows from the search."""
    columns, (source, target) = columns_of(cfg), cfg.ends
    preorder, postorder, back, proper = columns.search()
    dfs = DepthFirst(
        tuple(preorder),
        tuple(postorder),
        frozenset(back),
        frozenset([edge for edge in back if source[edge] == target[edge]]),
    )
    weights = tuple(columns.found.weight[columns.edges].tolist())
    return Survey(dfs, frozenset(compress(back, proper)), weights, columns)


def depth_first(cfg: ControlFlowGraph) -> DepthFirst:
    """Search `cfg` from ENTRY, successors in the order of `cfg.out_edges`."""
    # Iterative, so that deep graphs are no problem; linear time.
    return survey(cfg).dfs


@remembers_recent
def live_edges(cfg: ControlFlowGraph, dfs: DepthFirst) -> frozenset[int]:
    """Ids of the edges whose source can be reached from ENTRY."""
    reached = dfs.reached
    return frozenset([edge for edge, source in enumerate(cfg.ends[0]) if source in reached])


@remembers_recent
def natural_loops(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[Loop, ...]:
    """Return the natural loops, in topological order of their entries."""
    return tuple(natural_loop(cfg, dfs, *each) for each in loop_entries(cfg, dfs).items())


def loop_entries(cfg: ControlFlowGraph, dfs: DepthFirst) -> dict[int, list[int]]:
    """Map the entries of natural loops, in topological order, to their back edges."""
    # BL94's loops nest, which holds only where loops are entered at their entry. A back edge whose
    # target does not dominate its source (an irreducible graph) therefore makes no loop here.
    by_entry: dict[int, list[int]] = {}
    for edge in sorted(proper_back_edges(cfg, dfs)):
        by_entry.setdefault(cfg.edges[edge].target, []).append(edge)
    return {entry: by_entry[entry] for entry in dfs.topological if entry in by_entry}


def natural_loop(
    cfg: ControlFlowGraph, dfs: DepthFirst, entry: int, back_edges: Sequence[int]
) -> Loop:
    """Return the natural loop of an entry, by its back edges."""
    body = loop_body(cfg, dfs, entry, (cfg.edges[edge].source for edge in back_edges))
    return Loop(entry, body, tuple(back_edges), exits_of(cfg, body))


def exits_of(cfg: ControlFlowGraph, body: Collection[int]) -> tuple[int, ...]:
    """Return the edges out of a set of vertices, ascending."""
    edges, (_, target) = chain.from_iterable(map(cfg.out_edges.__getitem__, body)), cfg.ends
    return tuple(sorted([edge for edge in edges if target[edge] not in body]))


def loop_body(
    cfg: ControlFlowGraph, dfs: DepthFirst, entry: int, sources: Iterable[int]
) -> frozenset[int]:
    """Return `entry` and the vertices from which `sources` are reached without passing it."""
    vertices, edges, ends = cfg.vertex_count, len(cfg.edges), tuple(sources)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: entry, k.COUNT: len(ends)}
    found = call(
        k.loop_body,
        size | {k.REACHED: len(dfs.preorder)},
        *(*cfg.ends, dfs.preorder, ends, vertices + 1, edges, vertices, vertices, vertices),
    )
    return frozenset(compress(count(), found(9)))


def immediate_dominators(cfg: ControlFlowGraph, dfs: DepthFirst) -> dict[int, int]:
    """Map each reached vertex to its immediate dominator; ENTRY to itself."""
    dominator = _dominate(cfg, dfs, ())(11)
    return {vertex: dominator[vertex] for vertex in dfs.topological}


def _dominate(
    cfg: ControlFlowGraph, dfs: DepthFirst, back: tuple[int, ...]
) -> Callable[[int], Any]:
    vertices, edges = cfg.vertex_count, len(cfg.edges)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.COUNT: len(back)}
    return call(
        k.dominate,
        size | {k.REACHED: len(dfs.topological)},
        *(*cfg.ends, dfs.topological, back, vertices + 1, edges),
        *(vertices, vertices, vertices, vertices, vertices, len(back)),
    )


@remembers_recent
def proper_back_edges(cfg: ControlFlowGraph, dfs: DepthFirst) -> frozenset[int]:
    """Back edges whose target dominates their source."""
    found = survey(cfg)
    if found.dfs is dfs:
        return found.proper
    back = tuple(dfs.back_edges)
    return frozenset(compress(back, _dominate(cfg, dfs, back)(12)))


def is_reducible(cfg: ControlFlowGraph, dfs: DepthFirst) -> bool:
    """Whether every back edge's target dominates its source."""
    return proper_back_edges(cfg, dfs) == dfs.back_edges
