"""Which loops k-iteration paths iterate (KITER 5).

Loops with one head and nested bodies are nested loops, as in KITER figure 8; the others that share
a head are one loop with several tails. A loop is left acyclic that has another loop, or part of
an irreducible one, inside, or whose paths would not tell how often its edges were executed
(`Unrolled.ambiguous_loops`). Self-loops are no loops here: they have counters of their own (KITER
3; EPP 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import DepthFirst, loop_body, proper_back_edges


@dataclass(frozen=True)
class IteratedLoop:
    """A loop and the number of its iterations that paths span (k of KITER, by loop)."""

    head: int
    body: frozenset[int]
    back_edges: tuple[int, ...]
    iterations: int


def find_loops(cfg: ControlFlowGraph, dfs: DepthFirst, iterations: int) -> tuple[IteratedLoop, ...]:
    """Return the loops that can be iterated (see the module), all with k = `iterations`."""
    by_head: dict[int, list[int]] = {}
    for edge in sorted(proper_back_edges(cfg, dfs) - dfs.self_loops):
        by_head.setdefault(cfg.edges[edge].target, []).append(edge)
    candidates = (
        _innermost(cfg, dfs, head, by_head[head], iterations)
        for head in dfs.topological
        if head in by_head
    )
    return tuple(loop for loop in candidates if loop is not None)


def _innermost(
    cfg: ControlFlowGraph, dfs: DepthFirst, head: int, back_edges: list[int], iterations: int
) -> IteratedLoop | None:
    bodies = [loop_body(cfg, dfs, head, [cfg.edges[edge].source]) for edge in back_edges]
    smallest = (body for body in bodies if not any(other < body for other in bodies))
    body = frozenset().union(*smallest)
    own = tuple(edge for edge in back_edges if cfg.edges[edge].source in body)
    for vertex in body:
        for edge in cfg.out_edges[vertex]:
            inside = cfg.edges[edge].target in body and edge in dfs.back_edges
            if inside and edge not in own and edge not in dfs.self_loops:
                return None
    return IteratedLoop(head, body, own, iterations)


def with_iterations(
    loops: Iterable[IteratedLoop], iterations: Mapping[int, int]
) -> tuple[IteratedLoop, ...]:
    """Return `loops` with k by head; those with k = 1 are acyclic and left out."""
    chosen = (replace(loop, iterations=iterations[loop.head]) for loop in loops)
    return tuple(loop for loop in chosen if loop.iterations > 1)
