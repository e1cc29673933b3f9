"""The acyclic graph on which paths are numbered (EPP, section 4).

Terms
-----
removed edge
    A back edge, or an edge cut because too many paths lead through its source (EPP 5.3). A path
    ends when one executes and the next path begins.
dummy edge
    Stands for removed edges: ENTRY -> w for all that lead to w, v -> EXIT for all that leave v.
self-loop
    Neither kept nor removed: it has a counter of its own and ends no path (EPP 4.1).
dead end
    A vertex other than EXIT that keeps no outgoing edge and has none removed (a block that
    loops on itself for ever). It gets a dummy edge to EXIT that stands for nothing, so that
    every path ends in EXIT.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph, edges_by_vertex, remembers_recent
from simprof.profiler.graphs.loops import DepthFirst
from simprof.simulator.values import dataclass

# The one empty set that stands for no edges: what was made with it is remembered by identity.
NO_EDGES: frozenset[int] = frozenset()


class DagEdge(NamedTuple):
    """An edge of the acyclic graph."""

    # A real edge has the id of its control-flow edge in `cfg_edge`; a dummy edge has None there and
    # in `stands_for` the removed edges (none at a dead end).
    id: int
    source: int
    target: int
    cfg_edge: int | None
    stands_for: tuple[int, ...] = ()


@dataclass(frozen=True)
class Dag:
    """A control-flow graph without cycles, on the same vertex ids."""

    # cfg, dfs: Where it comes from. Edges whose source cannot be reached are left out.
    cfg: ControlFlowGraph
    dfs: DepthFirst
    # By id: real edges in control-flow order, then the dummies ENTRY -> w, then v -> EXIT, each
    # group in the order of the lowest removed edge that they stand for.
    edges: tuple[DagEdge, ...]
    # Back edges (self-loops excepted, unless `make_dag` was to merge them) and cut edges, ascending
    removed: tuple[int, ...]
    cut_edges: tuple[int, ...]  # Those of `removed` that are no back edges

    @property
    def vertex_count(self) -> int:
        """Number of vertex ids."""
        return self.cfg.vertex_count

    def targets_of(self, edges: Iterable[DagEdge]) -> Iterable[int]:
        """Return which vertex of `cfg` each of some edges leads to."""
        return (edge.target for edge in edges)

    @cached_property
    def out_edges(self) -> tuple[tuple[int, ...], ...]:
        """Outgoing dag edge ids by vertex."""
        return edges_by_vertex(self.vertex_count, (edge.source for edge in self.edges))

    @cached_property
    def in_edges(self) -> tuple[tuple[int, ...], ...]:
        """Incoming dag edge ids by vertex."""
        return edges_by_vertex(self.vertex_count, (edge.target for edge in self.edges))

    @cached_property
    def real(self) -> dict[int, int]:
        """Control-flow edge id -> dag edge id, for the edges that are kept."""
        return {edge.cfg_edge: edge.id for edge in self.edges if edge.cfg_edge is not None}

    @property
    def dummies(self) -> list[DagEdge]:
        """The dummy edges, ascending."""
        return [edge for edge in self.edges if edge.cfg_edge is None]

    @cached_property
    def entry_dummy(self) -> dict[int, int]:
        """Target vertex of removed edges -> its dummy edge ENTRY -> vertex."""
        entry = self.cfg.entry
        return {edge.target: edge.id for edge in self.dummies if edge.source == entry}

    @cached_property
    def exit_dummy(self) -> dict[int, int]:
        """Source vertex of removed edges, or dead end -> its dummy edge vertex -> EXIT."""
        return {edge.source: edge.id for edge in self.dummies if edge.target == self.cfg.exit}

    @property
    def topological(self) -> tuple[int, ...]:
        """Reached vertices, sources before targets; EXIT is last and always present."""
        order = tuple(vertex for vertex in self.dfs.topological if vertex != self.cfg.exit)
        return (*order, self.cfg.exit)

    def edge_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights by dag edge from `weights` by control-flow edge; a dummy has the sum."""
        return tuple(
            weights[edge.cfg_edge]
            if edge.cfg_edge is not None
            else sum(weights[removed] for removed in edge.stands_for)
            for edge in self.edges
        )

    def validate(self) -> None:
        """Check that the graph is acyclic and that every path runs from ENTRY to EXIT;
        AssertionError if not, or if a live control-flow edge is missing.
        """
        position = {vertex: index for index, vertex in enumerate(self.topological)}
        for edge in self.edges:
            assert position[edge.source] < position[edge.target], (
                f"the acyclic graph has the back edge {edge.id}"
            )
        for vertex in self.topological:
            assert self.out_edges[vertex] or vertex == self.cfg.exit, (
                f"vertex {vertex} of the acyclic graph is a leaf"
            )
        kept = set(self.real) | set(self.removed) | self.dfs.self_loops
        live = {edge.id for edge in self.cfg.edges if edge.source in self.dfs.reached}
        assert kept == live, f"the acyclic graph lost the edges {sorted(kept ^ live)}"
        both = set(self.real) & set(self.removed)
        assert not both, f"the edges {sorted(both)} are both kept and removed"


def make_dag(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    cut_edges: Collection[int] = (),
    merged: Collection[int] = (),
) -> Dag:
    """Remove back edges and `cut_edges` from `cfg`; put dummy edges in their place.

    - `cfg`, `dfs`: The graph and its depth-first search.
    - `cut_edges`: Ids of further edges to remove; back edges and edges to EXIT are not among them.
    - `merged`: Ids of edges from ENTRY, edges to EXIT and self-loops to remove as well: a dummy
      edge at their target, at their source, or at both stands for them too (TPP 4.2.1).
    """
    return _make_dag(cfg, dfs, frozenset(cut_edges) or NO_EDGES, frozenset(merged) or NO_EDGES)


@remembers_recent
def _make_dag(
    cfg: ControlFlowGraph, dfs: DepthFirst, cuts: frozenset[int], joined: frozenset[int]
) -> Dag:
    if cuts & dfs.back_edges or any(cfg.edges[edge].target == cfg.exit for edge in cuts):
        raise ValueError(f"back edges and edges to EXIT cannot be cut ({cfg.name})")
    removed = tuple(sorted((dfs.back_edges - dfs.self_loops) | cuts | joined))
    edges: list[DagEdge] = []
    gone = frozenset(removed) | dfs.self_loops
    for edge in cfg.edges:
        if edge.source in dfs.reached and edge.id not in gone:
            edges.append(DagEdge(len(edges), edge.source, edge.target, edge.id))
    for source, target, stands_for in _dummies(cfg, dfs, removed, edges):
        edges.append(DagEdge(len(edges), source, target, None, tuple(stands_for)))
    return Dag(cfg, dfs, tuple(edges), removed, tuple(sorted(cuts | joined - dfs.self_loops)))


def thin(dag: Dag, kept: AbstractSet[int]) -> Dag:
    """Return the part of `dag` that has the edges `kept` and no others, under new ids in old order.

    Every kept edge must lie on a path from ENTRY to EXIT that consists of kept edges; this is not
    checked. `removed` and `cut_edges` stay.
    """
    # A removed edge may have lost a dummy edge that stood for it: its vertex is then missing in
    # `entry_dummy` or `exit_dummy`.
    if len(kept) == len(dag.edges):
        return dag
    edges = [edge for edge in dag.edges if edge.id in kept]
    renumbered = tuple(edge._replace(id=index) for index, edge in enumerate(edges))
    return replace(dag, edges=renumbered)


def _dummies(
    cfg: ControlFlowGraph, dfs: DepthFirst, removed: tuple[int, ...], kept: list[DagEdge]
) -> list[tuple[int, int, list[int]]]:
    by_target: defaultdict[int, list[int]] = defaultdict(list)
    by_source: defaultdict[int, list[int]] = defaultdict(list)
    for edge in removed:
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        if target != cfg.exit:
            by_target[target].append(edge)
        if source != cfg.entry:
            by_source[source].append(edge)
    inner = {edge.source for edge in kept} | {cfg.exit}
    inner |= {cfg.edges[edge].source for edge in removed} & {cfg.entry}
    for vertex in dfs.preorder:
        if vertex not in inner:
            by_source.setdefault(vertex, [])
    starts = [(cfg.entry, target, edges) for target, edges in by_target.items()]
    ends = [(source, cfg.exit, edges) for source, edges in by_source.items()]
    return starts + ends
