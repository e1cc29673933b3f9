"""Loops that TPP cuts out of a graph, so that what lies before, in and after them is separate.

A loop is disconnected where the edges into it execute less than j % as often as its header (TPP
4.2.1, 5). Its entry and exit edges are truncated: each ends a path and begins the next. Where
such an edge comes from ENTRY, no path ends with it, and where it leads to EXIT none begins: such
edges and what the loop's back edges do there are one dummy edge then. A loop of one block is its
self-loop; it becomes a back edge as any other, since all its paths are that block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain

from simprof.profiler.graphs.cfg import ControlFlowGraph, closure, remembers_recent
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.graphs.loops import DepthFirst, exits_of, natural_loops, proper_back_edges
from simprof.simulator.values import dataclass


@dataclass(frozen=True)
class LoopRegion:
    """A loop: its blocks, the edges into it (to its headers) and those out of it."""

    body: frozenset[int]
    entries: tuple[int, ...]
    exits: tuple[int, ...]


@dataclass(frozen=True)
class Disconnection:
    """The truncated edges of disconnected loops."""

    loops: tuple[LoopRegion, ...]  # The loops
    # cuts, merged: Edge ids for `dag.make_dag`. Entry and exit edges that are back edges of other
    # loops are in neither: they end paths anyway.
    cuts: frozenset[int]
    merged: frozenset[int]
    # Exit edge -> how often control leaves the loop, all exit edges together; for an edge out of
    # several loops the least of these.
    exit_flow: dict[int, int]


def disconnect(
    cfg: ControlFlowGraph, dfs: DepthFirst, counts: Sequence[int], percent: Fraction
) -> Disconnection:
    """Choose the loops to disconnect, by an edge profile; `percent` is j of TPP(i, j), 0..100."""
    executions = block_counts(cfg, counts)
    share, part = percent.numerator, 100 * percent.denominator
    loops = tuple(
        loop
        for loop in (loop_regions(cfg, dfs) if share else ())
        if part * sum(counts[edge] for edge in loop.entries)
        < share * sum(executions[head] for head in {cfg.edges[e].target for e in loop.entries})
    )
    truncated = {edge for loop in loops for edge in (*loop.entries, *loop.exits)} - dfs.back_edges
    outer = truncated & {*cfg.out_edges[cfg.entry], *cfg.in_edges[cfg.exit]}
    cuts = truncated - outer
    single = {next(iter(loop.body)) for loop in loops if len(loop.body) == 1}
    turns = {edge for edge in dfs.self_loops if cfg.edges[edge].source in single}
    removed = (dfs.back_edges - dfs.self_loops) | cuts | turns
    sources = {cfg.edges[edge].source for edge in removed}
    targets = {cfg.edges[edge].target for edge in removed}
    joined = {
        edge
        for edge in outer
        if (cfg.edges[edge].source == cfg.entry and cfg.edges[edge].target in targets)
        or (cfg.edges[edge].target == cfg.exit and cfg.edges[edge].source in sources)
    }
    return Disconnection(loops, frozenset(cuts), frozenset(joined | turns), _flows(loops, counts))


def _flows(loops: Iterable[LoopRegion], counts: Sequence[int]) -> dict[int, int]:
    flows: dict[int, int] = {}
    for loop in loops:
        flow = sum(counts[edge] for edge in loop.exits)
        for edge in loop.exits:
            flows[edge] = min(flow, flows.get(edge, flow))
    return flows


@remembers_recent
def loop_regions(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[LoopRegion, ...]:
    """Return all loops: natural ones, then irreducible regions."""
    bodies = {loop.body: None for loop in natural_loops(cfg, dfs)}
    # Irreducible regions are loops with several headers: the strongly connected component around a
    # back edge whose target does not dominate its source.
    inside = set[int]()
    for edge in sorted(dfs.back_edges - proper_back_edges(cfg, dfs)):
        if (head := cfg.edges[edge].target) not in inside:
            component = _component(cfg, dfs, head)
            inside |= component
            bodies.setdefault(component)
    return tuple(_region(cfg, dfs, body) for body in bodies)


def _region(cfg: ControlFlowGraph, dfs: DepthFirst, body: frozenset[int]) -> LoopRegion:
    outside, (source, _) = dfs.reached - body, cfg.ends
    into = chain.from_iterable(map(cfg.in_edges.__getitem__, body))
    entries = sorted([edge for edge in into if source[edge] in outside])
    return LoopRegion(body, tuple(entries), exits_of(cfg, body))


def _component(cfg: ControlFlowGraph, dfs: DepthFirst, vertex: int) -> frozenset[int]:
    """Return the strongly connected component of `vertex`."""
    inside = closure([vertex], cfg.targets) & dfs.reached
    return frozenset(closure([vertex], lambda v: inside.intersection(cfg.sources(v))))
