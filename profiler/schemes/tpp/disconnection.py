"""Loops that TPP cuts out of a graph, so that what lies before, in and after them is separate.

A loop is disconnected where the edges into it execute less than j % as often as its header (TPP
4.2.1, 5). Its entry and exit edges are truncated: each ends a path and begins the next. Where
such an edge comes from ENTRY, no path ends with it, and where it leads to EXIT none begins: such
edges and what the loop's back edges do there are one dummy edge then. A loop of one block is its
self-loop; it becomes a back edge as any other, since all its paths are that block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from msgspec import Struct

from simprof import schemes as s


class LoopRegion(Struct, frozen=True):
    """A loop: its blocks, the edges into it (to its headers) and those out of it."""

    body: frozenset[int]
    entries: tuple[int, ...]
    exits: tuple[int, ...]


class Disconnection(Struct, frozen=True):
    """The truncated edges of disconnected loops."""

    loops: tuple[LoopRegion, ...]  # The loops
    # cuts, merged: Edge ids for `make_dag`. Entry and exit edges that are back edges of other
    # loops are in neither: they end paths anyway.
    cuts: frozenset[int]
    merged: frozenset[int]
    # Exit edge -> how often control leaves the loop, all exit edges together; for an edge out of
    # several loops the least of these.
    exit_flow: dict[int, int]


def disconnect(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    counts: Sequence[int],
    executions: Sequence[int],
    percent: Fraction,
) -> Disconnection:
    """Choose the loops to disconnect, by an edge profile and what it says of blocks; `percent` is j
    of TPP(i, j), 0..100.
    """
    share, part = percent.numerator, 100 * percent.denominator

    def iterates(entries: Sequence[int]) -> bool:
        heads = {cfg.edges[edge].target for edge in entries}
        turns = share * sum([executions[head] for head in heads])
        return part * sum([counts[edge] for edge in entries]) < turns

    loops = loop_regions(cfg, dfs, iterates) if share else ()
    if not loops:
        return Disconnection((), s.NO_EDGES, s.NO_EDGES, {})
    source, target = cfg.ends
    truncated = {edge for loop in loops for edge in (*loop.entries, *loop.exits)} - dfs.back_edges
    outer = {e for e in truncated if source[e] == cfg.entry or target[e] == cfg.exit}
    cuts = truncated - outer
    single = {next(iter(loop.body)) for loop in loops if len(loop.body) == 1}
    turns = {edge for edge in dfs.self_loops if source[edge] in single}
    removed = (dfs.back_edges - dfs.self_loops) | cuts | turns
    sources, targets = {source[edge] for edge in removed}, {target[edge] for edge in removed}
    joined = {
        e
        for e in outer
        if (source[e] == cfg.entry and target[e] in targets)
        or (target[e] == cfg.exit and source[e] in sources)
    }
    return Disconnection(loops, frozenset(cuts), frozenset(joined | turns), _flows(loops, counts))


def _flows(loops: Iterable[LoopRegion], counts: Sequence[int]) -> dict[int, int]:
    flows: dict[int, int] = {}
    for loop in loops:
        flow = sum(counts[edge] for edge in loop.exits)
        for edge in loop.exits:
            flows[edge] = min(flow, flows.get(edge, flow))
    return flows


def loop_regions(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, chosen: Callable[[Sequence[int]], bool]
) -> tuple[LoopRegion, ...]:
    """Return the loops that are `chosen` by their entry edges: natural ones, then irreducible
    regions.
    """
    (source, target), reached, proper = cfg.ends, dfs.reached, s.proper_back_edges(cfg, dfs)
    regions: dict[frozenset[int], LoopRegion] = {}
    heads = s.loop_entries(cfg, dfs)
    into: dict[int, list[int]] = {head: [] for head in heads}
    # Other edges to the head of a natural loop come from outside, and no others do.
    for edge, head in enumerate(target) if heads else ():
        if head in into and edge not in proper and source[edge] in reached:
            into[head].append(edge)
    for head, back_edges in heads.items():
        if chosen(into[head]):
            loop = s.natural_loop(cfg, dfs, head, back_edges)
            regions[loop.body] = LoopRegion(loop.body, tuple(into[head]), loop.exits)
    # Irreducible regions are loops with several headers: the strongly connected component around a
    # back edge whose target does not dominate its source.
    inside = set[int]()
    for edge in sorted(dfs.back_edges - proper):
        if (head := target[edge]) not in inside:
            body = _component(cfg, head)
            inside |= body
            outside = reached - body
            entries = [e for e, to in enumerate(target) if to in body and source[e] in outside]
            if body not in regions and chosen(entries):
                regions[body] = LoopRegion(body, tuple(entries), s.exits_of(cfg, body))
    return tuple(regions.values())


def _component(cfg: s.ControlFlowGraph, vertex: int) -> frozenset[int]:
    """Return the strongly connected component of a vertex that is reached."""
    (source, target), onward, back = cfg.ends, cfg.out_edges, cfg.in_edges
    ahead = s.closure([vertex], lambda v: [target[edge] for edge in onward[v]])
    inside = s.closure([vertex], lambda v: ahead.intersection([source[e] for e in back[v]]))
    return frozenset(inside)
