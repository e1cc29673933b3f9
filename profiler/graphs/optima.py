"""What the cheapest placements of counters and witnesses cost (BL94 3.1, 3.3, 3.4).

Terms
-----
double cover
    Each vertex twice, as source and as target; each edge joins its source as source and its target
    as target. A cycle of it alternates directions: it is a cycle without pipes.
free
    Without a counter, or a witness.

Vprof(Ecnt) and Trace(Ewit) are cycle breaking problems: heaviest sets of free edges are looked for
that hold no cycle of a kind. Both kinds are hard to break at least cost (BL94 3.4), so the search
tries all sets that can be the heaviest, and gives up on graphs that are too large for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.spanning import block_weights, edge_tree, find_root

LARGEST = 24  # Edges that can execute, of graphs whose optima are looked for
STEPS = 20_000  # Sets that a search tries

End = tuple[int, int]


@dataclass(frozen=True)
class Optima:
    """Costs of the cheapest placements; None where the search for one was given up."""

    eprof_ecnt: float  # Of edge counters that tell all edges
    vprof_vcnt: float  # Of block counters that tell all blocks
    vprof_ecnt: float | None  # Of edge counters that tell all blocks
    trace_ewit: float | None  # Of witnesses that tell a run of one procedure (BL94 4.1)
    trace_blocking: float | None  # Of witnesses that tell a run of several (BL94 4.2)
    # Whether every simple cycle has a pipe: then an optimum of Eprof(Ecnt) is one of Vprof(Ecnt),
    # and of a trace of one procedure (BL94 3.3.2, 4.1). None: the search was given up.
    in_g_star: bool | None


def optima(cfg: ControlFlowGraph, weights: Sequence[float]) -> Optima | None:
    """Return what the optima of a graph cost by these weights; None if it is too large for that, or
    a weight is negative, which no weighting is.
    """
    live = sorted(live_edges(cfg, depth_first(cfg)))
    if len(live) > LARGEST or any(weights[edge] < 0 for edge in live):
        return None
    ends = {edge: (cfg.edges[edge].source, cfg.edges[edge].target) for edge in live}
    inner = [edge for edge in live if ends[edge][0] != cfg.entry]
    tree = edge_tree(cfg, weights)
    root = (cfg.exit, cfg.entry)
    chords = sum(weights[edge] for edge in tree.chords)

    def tells_blocks(free: Collection[int]) -> bool:
        pairs = [root, *(ends[edge] for edge in free)]
        return _rank(cfg, pairs, double=False) == _rank(cfg, pairs, double=True)

    def tells_run(free: Collection[int]) -> bool:
        return not _two_ways(ends[edge] for edge in free)

    forks = {v for v in depth_first(cfg).reached if v != cfg.entry and len(cfg.out_edges[v]) > 1}
    stops = {edge.source for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN} | {cfg.exit}

    def blocks_too(free: Collection[int]) -> bool:
        pairs = [ends[edge] for edge in free]
        return not _two_ways(pairs) and not any(_after(pairs, fork) & stops for fork in forks)

    return Optima(
        eprof_ecnt=chords,
        vprof_vcnt=_block_counters(cfg, [*ends.values(), root], weights),
        vprof_ecnt=_least(live, weights, tells_blocks, chords),
        trace_ewit=_least(inner, weights, tells_run, chords),
        trace_blocking=_least(inner, weights, blocks_too, float("inf")),
        in_g_star=_all_piped([*ends.values(), root]),
    )


def _nodes(pair: End, double: bool) -> End:
    return (2 * pair[0], 2 * pair[1] + 1) if double else pair


# Counts of free edges are known up to circulations over these. Vertices' counts follow if each
# circulation leaves them as they are, so if it is one of the double cover, too. These are a part of
# all circulations, and are all if both graphs have equally many independent cycles, that is, equal
# ranks (BL94's theorem in 3.3.1, as linear algebra).
def _rank(cfg: ControlFlowGraph, pairs: Iterable[End], *, double: bool) -> int:
    parent = list(range(2 * cfg.vertex_count))
    rank = 0
    for pair in pairs:
        source, target = (find_root(parent, node) for node in _nodes(pair, double))
        rank += source != target
        parent[source] = target
    return rank


def _block_counters(cfg: ControlFlowGraph, pairs: Iterable[End], weights: Sequence[float]) -> float:
    """The cost of an optimum of Vprof(Vcnt): chords of a tree whose edges are blocks (Knuth and
    Stevenson), between the components of the double cover.
    """
    parent = list(range(2 * cfg.vertex_count))
    touched = set()
    for pair in pairs:
        source, target = _nodes(pair, True)
        touched |= set(pair)
        parent[find_root(parent, source)] = find_root(parent, target)
    by_block = block_weights(cfg, weights)
    blocks = sorted((b.id for b in cfg.blocks if b.id in touched), key=lambda b: -by_block[b])
    cost = 0.0
    for vertex in (cfg.entry, cfg.exit, *blocks):
        top, end = find_root(parent, 2 * vertex + 1), find_root(parent, 2 * vertex)
        if top != end:
            parent[top] = end
        elif vertex < cfg.entry:
            cost += by_block[vertex]
    return cost


def _after(pairs: Sequence[End], first: int) -> set[int]:
    """The vertices that ways of one edge or more lead to from a vertex."""
    found: set[int] = set()
    work = [first]
    while work:
        vertex = work.pop()
        more = {target for source, target in pairs if source == vertex} - found
        found |= more
        work.extend(more)
    return found


def _two_ways(pairs: Iterable[End]) -> bool:
    """Whether two ways lead from some vertex to another: diamonds, directed cycles."""
    edges = list(pairs)
    out: dict[int, list[int]] = {}
    for source, target in edges:
        out.setdefault(source, []).append(target)
    for first in out:
        seen = {first}
        work = [first]
        while work:
            for target in out.get(work.pop(), ()):
                if target in seen:
                    return True
                seen.add(target)
                work.append(target)
    return False


class _GivenUpError(Exception):
    """A search tried `STEPS` sets."""


def _least(
    edges: Sequence[int],
    weights: Sequence[float],
    allowed: Callable[[Collection[int]], bool],
    known: float,
) -> float | None:
    """The least cost of edges without which the others are allowed to be free. `known`: A cost that
    can be had. Whatever is allowed stays so with fewer free edges.
    """
    # Edges that cost nothing carry a counter.
    order = sorted((edge for edge in edges if weights[edge] > 0), key=lambda e: -weights[e])
    left = STEPS
    best = known

    def search(place: int, free: list[int], cost: float) -> None:
        nonlocal best, left
        if cost >= best:
            return
        if place == len(order):
            best = cost
            return
        left -= 1
        if left < 0:
            raise _GivenUpError
        free.append(order[place])
        if allowed(free):
            search(place + 1, free, cost)
        free.pop()
        search(place + 1, free, cost + weights[order[place]])

    try:
        search(0, [], 0.0)
    except _GivenUpError:
        return None
    return best


def _all_piped(pairs: Sequence[End]) -> bool | None:
    """Whether every simple cycle has a pipe; None if the search for one without was given up."""
    at: dict[End, list[tuple[int, int]]] = {}  # (vertex, whether as source) -> (edge, other end)
    for edge, (source, target) in enumerate(pairs):
        at.setdefault((source, 1), []).append((edge, target))
        at.setdefault((target, 0), []).append((edge, source))
    left = STEPS

    # A cycle without pipes is a way that leaves `first`, goes along edges and against them in
    # turns, and comes back against one.
    def returns(first: int, vertex: int, side: int, last: int, seen: frozenset[int]) -> bool:
        nonlocal left
        for edge, other in at.get((vertex, side), ()):
            left -= 1
            if left < 0:
                raise _GivenUpError
            if edge != last and (
                (other == first and side == 0)
                or (other not in seen and returns(first, other, 1 - side, edge, seen | {other}))
            ):
                return True
        return False

    try:
        return not any(returns(v, v, 1, -1, frozenset([v])) for v in {pair[0] for pair in pairs})
    except _GivenUpError:
        return None
