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

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, reduce
from itertools import accumulate, chain, compress, count, islice, pairwise
from operator import add
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import (
    ControlFlowGraph,
    edges_by_vertex,
    remembers_recent,
)
from simprof.profiler.graphs.columns import RoutineColumns, compact
from simprof.profiler.graphs.loops import DepthFirst, survey
from simprof.profiler.graphs.plan_calls import call

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


Column = Sequence[int]


class DagColumns(NamedTuple):
    """The edges of an acyclic graph, by id."""

    source: Column
    target: Column
    cfg_edge: Column  # -1 of dummies
    # What the dummies stand for: those of the n-th dummy, `first[n]` to `first[n + 1]`.
    first: Column
    stands_for: Column

    def standing(self) -> list[tuple[int, ...]]:
        """Return what each dummy stands for."""
        return [tuple(self.stands_for[begin:end]) for begin, end in pairwise(self.first)]

    def only(self, kept: AbstractSet[int]) -> DagColumns:
        """Return the columns of the edges `kept`, under new ids in old order."""
        inside = [edge in kept for edge in range(len(self.source))]
        source, target, cfg_edge = (compact([*compress(each, inside)]) for each in self[:3])
        # Dummies are the last edges.
        standing = list(compress(self.standing(), inside[len(inside) + 1 - len(self.first) :]))
        first = compact([*accumulate(map(len, standing), initial=0)])
        return DagColumns(source, target, cfg_edge, first, compact([*chain(*standing)]))

    def edges(self) -> tuple[DagEdge, ...]:
        """Put edges together."""
        standing = iter(self.standing())
        ends = zip(count(), self.source, self.target, self.cfg_edge, strict=False)
        return tuple(
            DagEdge(edge, source, target, None, next(standing))
            if cfg_edge < 0
            else DagEdge(edge, source, target, cfg_edge)
            for edge, source, target, cfg_edge in ends
        )


class Dag(Struct, frozen=True, dict=True):
    """A control-flow graph without cycles, on the same vertex ids."""

    # cfg, dfs: Where it comes from. Edges whose source cannot be reached are left out.
    cfg: ControlFlowGraph
    dfs: DepthFirst
    # Its edges by id: real edges in control-flow order, then the dummies ENTRY -> w, then v ->
    # EXIT, each group in the order of the lowest removed edge that they stand for.
    columns: DagColumns
    # Back edges (self-loops excepted, unless `make_dag` was to merge them) and cut edges, ascending
    removed: tuple[int, ...]
    cut_edges: tuple[int, ...]  # Those of `removed` that are no back edges

    # These take more memory than all else that is kept of a plan, and only planning asks for them.
    @property
    @remembers_recent
    def edges(self) -> tuple[DagEdge, ...]:
        """The edges by id."""
        return self.columns.edges()

    @property
    def vertex_count(self) -> int:
        """Number of vertex ids."""
        return self.cfg.vertex_count

    def targets_of(self, edges: Iterable[int]) -> Iterable[int]:
        """Return which vertex of `cfg` each of some edges leads to."""
        return map(self.columns.target.__getitem__, edges)

    def stood_for(self, edge: int) -> Sequence[int] | None:
        """Return the removed edges that a dummy edge stands for; None: it is a real edge."""
        first, dummy = self.columns.first, edge - self.dummy_ids.start
        if dummy < 0:
            return None
        return self.columns.stands_for[first[dummy] : first[dummy + 1]]

    @property
    @remembers_recent
    def out_edges(self) -> tuple[tuple[int, ...], ...]:
        """Outgoing dag edge ids by vertex."""
        return edges_by_vertex(self.vertex_count, self.columns.source)

    @property
    @remembers_recent
    def in_edges(self) -> tuple[tuple[int, ...], ...]:
        """Incoming dag edge ids by vertex."""
        return edges_by_vertex(self.vertex_count, self.columns.target)

    @property
    @remembers_recent
    def real(self) -> dict[int, int]:
        """Control-flow edge id -> dag edge id, for the edges that are kept."""
        return {edge: number for number, edge in enumerate(self.columns.cfg_edge) if edge >= 0}

    @property
    def dummies(self) -> list[DagEdge]:
        """The dummy edges, ascending."""
        return [edge for edge in self.edges if edge.cfg_edge is None]

    @property
    def dummy_ids(self) -> range:
        """The numbers of the dummy edges."""
        edges = len(self.columns.cfg_edge)
        return range(edges + 1 - len(self.columns.first), edges)

    @property
    def removed_ends(self) -> tuple[list[int], list[int]]:
        """The vertices that removed edges leave, and those that they lead to."""
        source, target = self.cfg.ends
        return [source[edge] for edge in self.removed], [target[edge] for edge in self.removed]

    @cached_property
    def entry_dummy(self) -> dict[int, int]:
        """Target vertex of removed edges -> its dummy edge ENTRY -> vertex."""
        source, target, *_ = self.columns
        return {target[e]: e for e in self.dummy_ids if source[e] == self.cfg.entry}

    @cached_property
    def exit_dummy(self) -> dict[int, int]:
        """Source vertex of removed edges, or dead end -> its dummy edge vertex -> EXIT."""
        source, target, *_ = self.columns
        return {source[e]: e for e in self.dummy_ids if target[e] == self.cfg.exit}

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """Reached vertices, sources before targets; EXIT is last and always present."""
        order = self.dfs.topological
        at = order.index(self.cfg.exit) if self.cfg.exit in order else len(order)
        return (*order[:at], *order[at + 1 :], self.cfg.exit)

    def edge_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights by dag edge from `weights` by control-flow edge; a dummy has the sum."""
        # One after the other: `sum` of floats adds otherwise in newer Pythons.
        standing = map(weights.__getitem__, self.columns.stands_for)
        dummies = iter(
            [reduce(add, islice(standing, b - a), 0) for a, b in pairwise(self.columns.first)]
        )
        return tuple(
            [weights[edge] if edge >= 0 else next(dummies) for edge in self.columns.cfg_edge]
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
    if not cuts and not joined and dfs is survey(cfg).dfs:
        return Dag(cfg, dfs, DagColumns(*survey(cfg).columns.dag()), removed, ())
    vertices, edges, gone = cfg.vertex_count, len(cfg.edges), len(removed)
    most = edges + 2 * gone + vertices
    size = {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: cfg.entry, k.EXIT: cfg.exit}
    found = call(
        k.make_dag,
        size | {k.REACHED: len(dfs.preorder), k.COUNT: gone, k.OTHERS: len(dfs.self_loops)},
        *(*cfg.ends, dfs.preorder, removed, tuple(dfs.self_loops)),
        *(edges, vertices, vertices, vertices, vertices),
        *(most, most, most, 2 * gone + vertices + 1, 2 * gone),
    )
    made, first = found(0), found(14)
    kept, dummies = made[k.COUNT], made[k.OTHERS] + 1
    lengths = enumerate((kept, kept, kept, dummies, first[dummies - 1]), 11)
    columns = DagColumns(*(compact(found(place)[:length]) for place, length in lengths))
    return Dag(cfg, dfs, columns, removed, tuple(sorted(cuts | joined - dfs.self_loops)))


def known_columns(dag: Dag) -> RoutineColumns | None:
    """Return what is found of a graph with those of its program, if nothing but back edges is
    removed.
    """
    known = survey(dag.cfg)
    is_whole = not dag.cut_edges and dag is _make_dag(dag.cfg, known.dfs, NO_EDGES, NO_EDGES)
    return known.columns if is_whole else None


def thin(dag: Dag, kept: AbstractSet[int]) -> Dag:
    """Return the part of `dag` that has the edges `kept` and no others, under new ids in old order.

    Every kept edge must lie on a path from ENTRY to EXIT that consists of kept edges; this is not
    checked. `removed` and `cut_edges` stay.
    """
    # A removed edge may have lost a dummy edge that stood for it: its vertex is then missing in
    # `entry_dummy` or `exit_dummy`.
    columns = dag.columns
    if len(kept) == len(columns.source):
        return dag
    return Dag(dag.cfg, dag.dfs, columns.only(kept), dag.removed, dag.cut_edges)
