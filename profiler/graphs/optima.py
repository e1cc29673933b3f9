"""Costs of the cheapest placements of counters and witnesses (BL94 3.1, 3.3, 3.4).

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

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.spanning import block_weights, edge_tree, find_root

LARGEST = 24  # Edges that can execute, of graphs whose optima are looked for
STEPS = 20_000  # Sets that a search tries

End = tuple[int, int]
Classes = tuple[int, ...]  # Vertex -> a vertex that is the same for all that edges join
Ways = tuple[int, ...]  # Vertex -> bits of those that ways lead to from it, itself among them
State = TypeVar("State")  # What is known of free edges


class Optima(Struct, frozen=True):
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

    # Counts of free edges are known up to circulations over these. Vertices' counts follow if each
    # circulation leaves them as they are, so if it is one of the double cover, too. These are a
    # part of all circulations, and are all if both graphs have equally many independent cycles
    # (BL94's theorem in 3.3.1, as linear algebra): if each edge closes a cycle in both or neither.
    def tells_blocks(free: tuple[Classes, Classes], edge: int) -> tuple[Classes, Classes] | None:
        plain, double = free
        source, target = ends[edge]
        more = _joined(plain, source, target), _joined(double, source, outside + target)
        return more if (more[0] is plain) == (more[1] is double) else None

    def tells_run(free: Ways, edge: int) -> Ways | None:
        return _with_edge(free, *ends[edge])

    forks = {v for v in depth_first(cfg).reached if v != cfg.entry and len(cfg.out_edges[v]) > 1}
    stops = {edge.source for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN} | {cfg.exit}
    stop_bits = sum(1 << vertex for vertex in stops)

    def blocks_too(free: Ways, edge: int) -> Ways | None:
        ways = _with_edge(free, *ends[edge])
        # Without cycles, no way leads from a vertex to itself.
        if ways is None or any(ways[fork] & stop_bits & ~(1 << fork) for fork in forks):
            return None
        return ways

    outside = cfg.vertex_count
    doubled = _joined(tuple(range(2 * outside)), root[0], outside + root[1])
    rooted = _joined(tuple(range(outside)), *root), doubled
    still = tuple(1 << vertex for vertex in range(outside))
    return Optima(
        eprof_ecnt=chords,
        vprof_vcnt=_block_counters(cfg, [*ends.values(), root], weights),
        vprof_ecnt=_least(live, weights, tells_blocks, rooted, chords),
        trace_ewit=_least(inner, weights, tells_run, still, chords),
        trace_blocking=_least(inner, weights, blocks_too, still, float("inf")),
        in_g_star=_all_piped([*ends.values(), root]),
    )


def _joined(classes: Classes, one: int, other: int) -> Classes:
    """The classes with two joined; the same object if they are one."""
    kept, gone = classes[one], classes[other]
    if kept == gone:
        return classes
    return tuple([kept if each == gone else each for each in classes])


def _with_edge(ways: Ways, source: int, target: int) -> Ways | None:
    """The ways with those over one more edge; None if two lead from some vertex to another:
    diamonds, directed cycles.
    """
    behind, here = ways[target], 1 << source
    if any(each & behind for each in ways if each & here):
        return None
    return tuple([each | behind if each & here else each for each in ways])


def _block_counters(cfg: ControlFlowGraph, pairs: Iterable[End], weights: Sequence[float]) -> float:
    """The cost of an optimum of Vprof(Vcnt): chords of a tree whose edges are blocks (Knuth and
    Stevenson), between the components of the double cover.
    """
    parent = list(range(2 * cfg.vertex_count))
    touched = set()
    for pair in pairs:
        source, target = 2 * pair[0], 2 * pair[1] + 1
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


class _GivenUpError(Exception):
    """A search tried `STEPS` sets."""


def _least(
    edges: Sequence[int],
    weights: Sequence[float],
    allowed: Callable[[State, int], State | None],
    none: State,
    known: float,
) -> float | None:
    """The least cost of edges without which the others are allowed to be free. `allowed`: What is
    known of free edges, with one more; None if they may not all be free. `none`: What is known of
    no edge. `known`: A cost that can be had. Whatever is allowed stays so with fewer free edges.
    """
    # Edges that cost nothing carry a counter.
    order = sorted((edge for edge in edges if weights[edge] > 0), key=lambda e: -weights[e])
    left = STEPS
    best = known

    def search(place: int, free: State, cost: float) -> None:
        nonlocal best, left
        if cost >= best:
            return
        if place == len(order):
            best = cost
            return
        left -= 1
        if left < 0:
            raise _GivenUpError
        more = allowed(free, order[place])
        if more is not None:
            search(place + 1, more, cost)
        search(place + 1, free, cost + weights[order[place]])

    try:
        search(0, none, 0.0)
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
