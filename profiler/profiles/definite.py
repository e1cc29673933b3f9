"""Definite flow: how much of a path profile follows from the edge profile alone.

Terms
-----
edge profile
    How often each edge executed. Many path profiles may have the same one (EPP figure 1).
definite flow of a path
    How often it executed at least, in every path profile that has this edge profile.

T. Ball, P. Mataga and M. Sagiv, "Edge Profiling versus Path Profiling: The Showdown" (POPL 1998)
attribute 76 % (SPEC95 INT) and 84 % (FP) of the execution to acyclic paths that way, as TPP
(section 1) reports. TPP's own measure of a profile, *attribution*, is another number (`accuracy`).

Step: `definite_count` follows the path. Its first edge carries so many executions; at each block
all that leaves by other edges may have come along the path, so at least the rest of them goes on.
What is left at the end is the definite flow, and some path profile has no more: at each block
what comes in can be continued in any way that the edge profile allows.

A path with definite flow was executed, so the executed paths tell the program's definite flow:
`definite_flow`. As in path profiling (EPP 4) back edges and cut edges end paths, and edges from a
block to itself are on none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from simprof.profiler.graphs.cfg import ControlFlowGraph

ExecutedPath = tuple[int, tuple[int, ...], int]
"""First block, edge ids in order (those from ENTRY and to EXIT included), executions."""


@dataclass(frozen=True)
class DefiniteFlow:
    """Executions of whole paths, and those that follow from the edge profile.

    Attributes
    ----------
    executions, definite_executions
        Each path as often as it was executed.
    blocks, definite_blocks
        The same, weighted by the length of paths in blocks, as TPP weighs them.
    """

    executions: int = 0
    definite_executions: int = 0
    blocks: int = 0
    definite_blocks: int = 0

    def __add__(self, other: DefiniteFlow) -> DefiniteFlow:
        return DefiniteFlow(
            self.executions + other.executions,
            self.definite_executions + other.definite_executions,
            self.blocks + other.blocks,
            self.definite_blocks + other.definite_blocks,
        )

    @property
    def share(self) -> float | None:
        """Share of the blocks in paths that is definite; None where no path was executed."""
        return self.definite_blocks / self.blocks if self.blocks else None


class EdgeFlow:
    """An edge profile on the acyclic graph of a routine.

    Parameters
    ----------
    cfg
        The routine.
    removed
        Ids of the edges that end paths: back edges and cut edges, self-loops excepted.
    counts
        Executions by edge id.
    """

    def __init__(
        self, cfg: ControlFlowGraph, removed: Collection[int], counts: Sequence[int]
    ) -> None:
        self._cfg, self._counts = cfg, counts
        self._through = [0] * cfg.vertex_count  # executions on the way of a path
        self._begun, self._ended = [0] * cfg.vertex_count, [0] * cfg.vertex_count
        for edge in cfg.edges:
            if edge.source != edge.target:
                self._through[edge.target] += counts[edge.id]
            if edge.id in removed:
                self._begun[edge.target] += counts[edge.id]
                self._ended[edge.source] += counts[edge.id]

    def definite_count(self, first_block: int, edges: Sequence[int]) -> int:
        """Return the definite flow of a whole path (see the module)."""
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
