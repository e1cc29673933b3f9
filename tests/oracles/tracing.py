"""BL94's tracing problem by its definitions (4.1, 4.2), on graphs of few edges.

Nothing here places witnesses: every set of edges is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind

END = -1  # The witness EOF; of several procedures it is none, as a caller goes on


def _first_witnesses(
    cfg: ControlFlowGraph, witnessed: Collection[int], edge: int
) -> tuple[set[int], set[int]]:
    """The witnesses that can be written first on ways that begin with an edge, and the vertices
    that such ways reach without one.
    """
    found: set[int] = set()
    reached: set[int] = set()
    work = [edge]
    while work:
        each = cfg.edges[work.pop()]
        if each.id in witnessed:
            found.add(each.id)
        elif each.target not in reached:
            reached.add(each.target)
            work += cfg.out_edges[each.target]
    return found, reached


def solves(cfg: ControlFlowGraph, witnessed: Collection[int]) -> bool:
    """Whether a set of witnesses solves the tracing problem of a graph with calls."""
    calls = {edge.source for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN}
    for vertex in range(len(cfg.blocks)):
        out = cfg.out_edges[vertex]
        if len(out) < 2:
            continue
        ways = [_first_witnesses(cfg, witnessed, edge) for edge in out]
        if any(reached & {cfg.exit, *calls} for _, reached in ways):
            return False  # no blocking property
        if any(vertex in reached for _, reached in ways):
            return False  # a directed cycle that writes nothing
        if any(one & other for (one, _), (other, _) in combinations(ways, 2)):
            return False
    return True


def solutions(cfg: ControlFlowGraph) -> Iterator[frozenset[int]]:
    """Yield every set of witnesses that solves it; ENTRY edges have none."""
    edges = [edge.id for edge in cfg.edges if edge.source != cfg.entry]
    for size in range(len(edges) + 1):
        for chosen in combinations(edges, size):
            if solves(cfg, chosen):
                yield frozenset(chosen)


def least_cost(cfg: ControlFlowGraph, weights: Sequence[float]) -> float:
    """The cost of the cheapest of them."""
    return min(sum(weights[edge] for edge in chosen) for chosen in solutions(cfg))
