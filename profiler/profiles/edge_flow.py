"""Bounds on path counts from an edge profile alone.

Terms
-----
definite flow of a path
    How often it executed at least, in every path profile that has this edge profile: many may have
    the same one (EPP figure 1). T. Ball, P. Mataga and M. Sagiv, "Edge Profiling versus Path
    Profiling: The Showdown" (POPL 1998) attribute 76 % (SPEC95 INT) and 84 % (FP) of the execution
    to acyclic paths that way, as TPP (section 1) reports. Along e1..en with the vertices v1..v(n-1)
    between them it is max(0, f(e1) + .. + f(en) - F(v1) - .. - F(v(n-1))); f and F are the
    executions of edges and vertices.
potential flow of a path
    How often it executed at most: min f(ei).

As in path profiling (EPP 4) back edges and cut edges end paths, and edges from a block to itself
are on none: they, and the vertices' executions that come by them, are left out of f and F.

Steps -> functions
1. bounds of one path                          `EdgeFlow.definite_count`, `potential_count`
2. all paths with definite flow                `EdgeFlow.definite_paths`
3. how many paths have which definite flow     `EdgeFlow.definite_flows`, which lists none
4. the definite part of executed paths         `definite_flow`

A path with definite flow was executed, so the executed paths tell the program's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import add

from msgspec import Struct
from msgspec.structs import astuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece

# First block, edge ids in order (those from ENTRY and to EXIT included), executions.
ExecutedPath = tuple[int, tuple[int, ...], int]


class DefiniteFlow(Struct, frozen=True, forbid_unknown_fields=True):
    """Executions of whole paths, and those that follow from the edge profile."""

    # executions, definite_executions: Each path as often as it was executed.
    executions: int = 0
    definite_executions: int = 0
    # blocks, definite_blocks: The same, weighted by the length of paths in blocks, as TPP weighs
    # them.
    blocks: int = 0
    definite_blocks: int = 0

    def __add__(self, other: DefiniteFlow) -> DefiniteFlow:
        return DefiniteFlow(*map(add, astuple(self), astuple(other)))

    @property
    def share(self) -> float | None:
        """Share of the blocks in paths that is definite; None where no path was executed."""
        return self.definite_blocks / self.blocks if self.blocks else None


class EdgeFlow:
    """An edge profile on the acyclic graph of a routine; `counts`: executions by edge id."""

    def __init__(
        self, cfg: ControlFlowGraph, removed: Collection[int], counts: Sequence[int]
    ) -> None:
        # removed: Ids of the edges that end paths: back edges and cut edges, self-loops excepted.
        self._cfg, self._counts, self._removed = cfg, counts, frozenset(removed)
        self._through = [0] * cfg.vertex_count  # executions on the way of a path
        self._begun, self._ended = [0] * cfg.vertex_count, [0] * cfg.vertex_count
        for edge in cfg.edges:
            if edge.source != edge.target:
                self._through[edge.target] += counts[edge.id]
            if edge.id in self._removed:
                self._begun[edge.target] += counts[edge.id]
                self._ended[edge.source] += counts[edge.id]

    def definite_count(self, first_block: int, edges: Sequence[int]) -> int:
        """Return the definite flow of a whole path (see the module)."""
        # The path's first edge carries so many executions; at each block all that leaves by other
        # edges may have come along the path, so at least the rest of them goes on. What is left at
        # the end is the definite flow, and some path profile has no more: at each block what comes
        # in can be continued in any way that the edge profile allows.
        inside, known = tuple(edges), self._begun[first_block]
        if inside and self._cfg.edges[inside[0]].source == self._cfg.entry:
            known, inside = self._counts[inside[0]], inside[1:]
        block = first_block
        for edge in inside:
            known -= self._through[block] - self._counts[edge]
            block = self._cfg.edges[edge].target
        if block != self._cfg.exit:  # it ends at removed edges
            known -= self._through[block] - self._ended[block]
        return max(known, 0)

    def potential_count(self, first_block: int, edges: Sequence[int]) -> int:
        """Return the potential flow of a whole path (see the module)."""
        cfg = self._cfg
        bounds = [self._counts[edge] for edge in edges]
        if not (edges and cfg.edges[edges[0]].source == cfg.entry):
            bounds.append(self._begun[first_block])
        last = cfg.edges[edges[-1]].target if edges else first_block
        if last != cfg.exit:
            bounds.append(self._ended[last])
        return min(bounds)

    def definite_paths(self) -> Iterator[tuple[PathPiece, int]]:
        """Yield the paths with definite flow, and how much each has."""
        # A prefix without definite flow has no continuation with any, so that no more prefixes are
        # looked at than were executed.
        cfg = self._cfg
        begun: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
            ((block,), (), known) for block, known in enumerate(self._begun) if known
        ]
        for edge in cfg.out_edges[cfg.entry]:
            if self._counts[edge] and edge not in self._removed:
                begun.append(((cfg.edges[edge].target,), (edge,), self._counts[edge]))
        while begun:
            blocks, edges, known = begun.pop()
            through = self._through[blocks[-1]]
            if (ended := known - through + self._ended[blocks[-1]]) > 0:
                yield (blocks, edges), ended
            for edge in self._onward(blocks[-1]):
                left, target = known - through + self._counts[edge], cfg.edges[edge].target
                if left > 0 and target == cfg.exit:
                    yield (blocks, (*edges, edge)), left
                elif left > 0:
                    begun.append(((*blocks, target), (*edges, edge), left))

    def definite_flows(self) -> Counter[int]:
        """Return how many paths have which definite flow, above 0, without listing any."""
        cfg, flows = self._cfg, dict[int, Counter[int]]()
        for vertex in self._bottom_up():
            found: Counter[int] = Counter()
            if self._ended[vertex]:
                found[self._ended[vertex]] += 1
            for edge in self._onward(vertex):
                count, target = self._counts[edge], cfg.edges[edge].target
                if target == cfg.exit:
                    found[count] += 1
                    continue
                less = self._through[target] - count
                for flow, paths in flows[target].items():
                    if flow > less:
                        found[flow - less] += paths
            flows[vertex] = found
        total = Counter(flows[cfg.entry])
        for block, begun in enumerate(self._begun):
            less = self._through[block] - begun
            for flow, paths in flows[block].items() if begun else ():
                if flow > less:
                    total[flow - less] += paths
        return +total

    def _onward(self, vertex: int) -> Iterator[int]:
        """Yield the executed edges of a vertex that end no path, and are on some."""
        for edge in self._cfg.out_edges[vertex]:
            target = self._cfg.edges[edge].target
            if self._counts[edge] and edge not in self._removed and target != vertex:
                yield edge

    def _bottom_up(self) -> Iterator[int]:
        """Yield the vertices on the way of paths but EXIT, each behind those its edges lead to."""
        # Where nothing leads to there may be cycles yet.
        seen = {self._cfg.exit}
        begun = (block for block, count in enumerate(self._begun) if count)
        for start in (self._cfg.entry, *begun):
            stack = [] if start in seen else [(start, self._onward(start))]
            seen.add(start)
            while stack:
                vertex, edges = stack[-1]
                edge = next(edges, None)
                if edge is None:
                    yield vertex
                    stack.pop()
                elif (target := self._cfg.edges[edge].target) not in seen:
                    seen.add(target)
                    stack.append((target, self._onward(target)))


def definite_flow(
    cfg: ControlFlowGraph,
    removed: Collection[int],
    counts: Sequence[int],
    paths: Iterable[ExecutedPath],
) -> DefiniteFlow:
    """Sum up the definite flow of a routine's executed whole paths; parameters as `EdgeFlow`'s."""
    flow = EdgeFlow(cfg, removed, counts)
    total = DefiniteFlow()
    for first_block, edges, count in paths:
        length = 1 + sum(
            cfg.edges[edge].source != cfg.entry and cfg.edges[edge].target != cfg.exit
            for edge in edges
        )
        definite = flow.definite_count(first_block, edges)
        total += DefiniteFlow(count, definite, count * length, definite * length)
    return total
