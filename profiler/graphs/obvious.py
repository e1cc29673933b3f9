"""Obvious paths: those whose counts an edge profile tells (TPP 4.2.2).

Terms
-----
defining edge
    An edge of the acyclic graph that lies on one path only: its source is reached from ENTRY in
    one way, and EXIT from its target in one way. A block where activations end early has one way
    to EXIT more (BL94 3.2): what is executed before it tells nothing of the paths behind it.
obvious path
    A path with a defining edge: it executes as often as that edge. Its defining edges follow
    one another.
EXIT block
    The block that all control leaves the routine from, if there is one and it does nothing else:
    paths "end at the EXIT basic block" (2.1). Elsewhere EXIT is a vertex of its own.
recording point
    An edge to EXIT, or into the EXIT block: there a path is counted (figure 8). It is *obvious* if
    only obvious paths end there.
kept edge
    An edge from which a recording point that is not obvious can be reached, or that leads on from
    one. Only these are instrumented.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from itertools import compress, count

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.plan_calls import call

_SEVERAL = 2


class ObviousPaths(Struct, frozen=True, dict=True):
    """The obvious paths of an acyclic graph whose vertices all lie between ENTRY and EXIT."""

    dag: Dag  # The graph
    defining: tuple[bool, ...]  # Whether the edge is a defining edge, by dag edge
    kept: frozenset[int]  # Dag edges that need instrumentation
    # Where what is known of one recording point is apart from the others.
    points: frozenset[int]
    early: frozenset[int] = frozenset()  # Blocks where activations end early

    @property
    def split(self) -> int | None:
        """The EXIT block, if some of its recording points are obvious and others are not."""
        inside = {self.dag.columns.target[point] for point in self.points} - {self.dag.cfg.exit}
        return min(inside, default=None)

    @cached_property
    def first_edges(self) -> tuple[int, ...]:
        """First defining edges of the obvious paths that no counter counts, one of each path."""
        before, source = self.dag.in_edges, self.dag.columns.source
        return tuple(
            edge
            for edge, defines in enumerate(self.defining)
            if defines
            and edge not in self.kept
            and not any(self.defining[each] for each in before[source[edge]])
        )

    def path(self, defining_edge: int) -> tuple[int, ...]:
        """Return the dag edges of the one path through a defining edge."""
        path = [defining_edge]
        vertex = self.dag.columns.source[defining_edge]
        while vertex != self.dag.cfg.entry:
            (before,) = self.dag.in_edges[vertex]
            path.append(before)
            vertex = self.dag.columns.source[before]
        path.reverse()
        vertex = self.dag.columns.target[defining_edge]
        while vertex != self.dag.cfg.exit:
            (after,) = self.dag.out_edges[vertex]
            path.append(after)
            vertex = self.dag.columns.target[after]
        return tuple(path)

    def validate(self) -> None:
        """Check defining edges against the paths through them; AssertionError if one is on no path,
        or on several, or an edge that is none is on one only.
        """
        before, after = ways_in(self.dag), ways_out(self.dag, self.early)
        for edge in self.dag.edges:
            ways = before[edge.source] * after[edge.target]
            assert ways > 0, f"dag edge {edge.id} is on no path"
            assert self.defining[edge.id] == (ways == 1), (
                f"dag edge {edge.id} is on {ways} paths, which its mark denies"
            )
        for edge in self.dag.edges:
            if edge.id in self.kept and edge.source != self.split:
                assert set(self.dag.in_edges[edge.source]) <= self.kept, (
                    f"dag edge {edge.id} is kept, and a way to it is not"
                )


def find_obvious(dag: Dag, early: frozenset[int] = frozenset()) -> ObviousPaths:
    """Find the defining edges, the obvious recording points and the edges to instrument, where
    activations end early in the blocks `early`.
    """
    source, target, *_ = dag.columns
    only, order, n, m = exit_block(dag.cfg), dag.dfs.topological, dag.vertex_count, len(source)
    size = {k.VERTICES: n, k.EDGES: m, k.ENTRY: dag.cfg.entry, k.EXIT: dag.cfg.exit}
    size |= {k.REACHED: len(order), k.COUNT: len(early), k.ROOT: -1 if only is None else only}
    found = call(
        k.obvious,
        size,
        *(source, target, order, tuple(early)),
        *(n + 1, m, n + 1, m, n, n, n, m, m, m),
    )
    points, kept = (frozenset(compress(count(), found(place))) for place in (13, 14))
    return ObviousPaths(dag, tuple(map(bool, found(12))), kept, points, early)


def exit_block(cfg: ControlFlowGraph) -> int | None:
    """Return the EXIT block; None if control leaves the routine from several, or leads on."""
    source, target = cfg.ends
    blocks = {source[edge] for edge, vertex in enumerate(target) if vertex == cfg.exit}
    only = blocks.pop() if len(blocks) == 1 else cfg.entry
    return only if only != cfg.entry and source.count(only) == 1 else None


def ways_in(dag: Dag) -> list[int]:
    """Number of ways from ENTRY by vertex: 0, 1, or 2 for several."""
    ways, target = [0] * dag.cfg.vertex_count, dag.columns.target
    ways[dag.cfg.entry] = 1
    for vertex in dag.topological:
        if here := ways[vertex]:
            for edge in dag.out_edges[vertex]:
                ways[target[edge]] = min(ways[target[edge]] + here, _SEVERAL)
    return ways


def ways_out(dag: Dag, early: Collection[int] = ()) -> list[int]:
    """Number of ways to EXIT by vertex: 0, 1, or 2 for several; one is to end in block `early`."""
    ways, target = [0] * dag.cfg.vertex_count, dag.columns.target
    ways[dag.cfg.exit] = 1
    for vertex in reversed(dag.topological[:-1]):
        onward = sum([ways[target[edge]] for edge in dag.out_edges[vertex]])
        ways[vertex] = min(onward + (vertex in early), _SEVERAL)
    return ways
