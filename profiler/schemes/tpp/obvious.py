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
recording point
    An edge to EXIT: there a path is counted. It is *obvious* if only obvious paths end there.
kept edge
    An edge from which a recording point that is not obvious can be reached. Only these are
    instrumented.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from simprof.profiler.graphs.cfg import closure
from simprof.profiler.graphs.dag import Dag

_SEVERAL = 2


@dataclass(frozen=True)
class ObviousPaths:
    """The obvious paths of an acyclic graph whose vertices all lie between ENTRY and EXIT."""

    dag: Dag  # The graph
    defining: tuple[bool, ...]  # Whether the edge is a defining edge, by dag edge
    kept: frozenset[int]  # Dag edges that need instrumentation
    early: frozenset[int] = frozenset()  # Blocks where activations end early

    @cached_property
    def first_edges(self) -> tuple[int, ...]:
        """First defining edges of the obvious paths that no counter counts, one of each path."""
        first = (
            edge.id
            for edge in self.dag.edges
            if not any(self.defining[before] for before in self.dag.in_edges[edge.source])
        )
        return tuple(edge for edge in first if self.defining[edge] and edge not in self.kept)

    def path(self, defining_edge: int) -> tuple[int, ...]:
        """Return the dag edges of the one path through a defining edge."""
        path = [defining_edge]
        vertex = self.dag.edges[defining_edge].source
        while vertex != self.dag.cfg.entry:
            (before,) = self.dag.in_edges[vertex]
            path.append(before)
            vertex = self.dag.edges[before].source
        path.reverse()
        vertex = self.dag.edges[defining_edge].target
        while vertex != self.dag.cfg.exit:
            (after,) = self.dag.out_edges[vertex]
            path.append(after)
            vertex = self.dag.edges[after].target
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
            if edge.id in self.kept:
                assert set(self.dag.in_edges[edge.source]) <= self.kept, (
                    f"dag edge {edge.id} is kept, and a way to it is not"
                )


def find_obvious(dag: Dag, early: frozenset[int] = frozenset()) -> ObviousPaths:
    """Find the defining edges, the obvious recording points and the edges to instrument, where
    activations end early in the blocks `early`.
    """
    before, after = ways_in(dag), ways_out(dag, early)
    defining = tuple(before[edge.source] == after[edge.target] == 1 for edge in dag.edges)
    needed = set(dag.in_edges[dag.cfg.exit]) - obvious_recording_points(dag, defining)
    kept = closure(needed, lambda edge: dag.in_edges[dag.edges[edge].source])
    return ObviousPaths(dag, defining, frozenset(kept), early)


def obvious_recording_points(dag: Dag, defining: Sequence[bool]) -> set[int]:
    """Return the edges to EXIT that no path without defining edge reaches (TPP figure 8)."""
    seen = closure(
        [dag.cfg.entry],
        lambda v: (dag.edges[e].target for e in dag.out_edges[v] if not defining[e]),
    )
    ends = dag.in_edges[dag.cfg.exit]
    return {edge for edge in ends if defining[edge] or dag.edges[edge].source not in seen}


def ways_in(dag: Dag) -> list[int]:
    """Number of ways from ENTRY by vertex: 0, 1, or 2 for several."""
    ways = [0] * dag.cfg.vertex_count
    ways[dag.cfg.entry] = 1
    for vertex in dag.topological:
        for edge in dag.out_edges[vertex]:
            target = dag.edges[edge].target
            ways[target] = min(ways[target] + ways[vertex], _SEVERAL)
    return ways


def ways_out(dag: Dag, early: Collection[int] = ()) -> list[int]:
    """Number of ways to EXIT by vertex: 0, 1, or 2 for several; one is to end in block `early`."""
    ways = [0] * dag.cfg.vertex_count
    ways[dag.cfg.exit] = 1
    for vertex in reversed(dag.topological[:-1]):
        onward = sum(ways[dag.edges[edge].target] for edge in dag.out_edges[vertex])
        ways[vertex] = min(onward + (vertex in early), _SEVERAL)
    return ways
