"""Estimates of how often each edge executes, to keep instrumentation off the busy ones.

Terms: a *weighting* gives each edge a number; the edge EXIT -> ENTRY has weight 1, so weights
are executions per activation. Weights are floats: sums of products of reciprocals, evaluated in
a fixed order, so the same graph has the same weights on every machine. They only ever choose
between correct placements.
"""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import DepthFirst, live_edges, natural_loops
from simprof.profiler.graphs.recent import remembers_recent

LOOP_MULTIPLIER = 10
"""How often each loop is taken to iterate (BL94, section 5)."""


@remembers_recent
def heuristic(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[float, ...]:
    """Return BL94's structural weighting (section 5, rules 1-3), by edge.

    Each loop iterates `LOOP_MULTIPLIER` times, a loop's flow leaves evenly through its exit
    edges, and what remains at a vertex leaves evenly through its other edges.

    Notes
    -----
    The rules are applied as published, in one topological traversal. On reducible graphs whose
    loops all have exits, each out of one loop only, the result satisfies the flow law; an edge
    that leaves several loops gets its weight from the outermost. A weight can be negative: where
    an exit edge sits deeper in conditionals than an even split of the loop's exits allows, rule
    3 subtracts more than the vertex has. Irreducible regions form no loops (see
    `natural_loops`): their vertices pass on what enters them over edges that are no back edges.
    Edges that cannot execute have weight 0.
    """
    assigned: dict[int, float] = {}
    exits_of = {loop.entry: loop.exits for loop in natural_loops(cfg, dfs)}
    exit_edges = frozenset(edge for exits in exits_of.values() for edge in exits)
    for vertex in dfs.topological:
        weight = _vertex_weight(cfg, dfs, assigned, vertex)  # rule 1
        exits = exits_of.get(vertex)
        if exits is not None:
            for edge in exits:  # rule 2
                assigned.setdefault(edge, weight / len(exits))
            weight *= LOOP_MULTIPLIER
        _share_rest(cfg, assigned, exit_edges, vertex, weight)  # rule 3
    return tuple(assigned.get(edge.id, 0.0) for edge in cfg.edges)


def _vertex_weight(
    cfg: ControlFlowGraph, dfs: DepthFirst, assigned: dict[int, float], vertex: int
) -> float:
    if vertex == cfg.entry:
        return 1.0
    return sum(
        assigned[edge]
        for edge in cfg.in_edges[vertex]
        if edge not in dfs.back_edges and cfg.edges[edge].source in dfs.reached
    )


def _share_rest(
    cfg: ControlFlowGraph,
    assigned: dict[int, float],
    exit_edges: frozenset[int],
    vertex: int,
    weight: float,
) -> None:
    rest = []
    for edge in cfg.out_edges[vertex]:
        if edge in exit_edges:
            weight -= assigned[edge]
        else:
            rest.append(edge)
    for edge in rest:
        assigned[edge] = weight / len(rest)


@remembers_recent
def postorder(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[int, ...]:
    """Return Goldberg's weighting, by edge: post-order numbers of the edges' sources.

    As BL94 7.1.4 describes it and figure 17 (b) shows: a depth-first search from the root numbers
    vertices as it leaves them, so that those far from the root have low numbers and counters on
    what leaves them seem cheap. A back edge weighs more than there are vertices. The flow law does
    not hold, and distance is not nesting: BL94 shows a placement that this makes worse.

    Notes
    -----
    The first vertex left has number 1; all back edges have the number of vertices plus 1. Edges
    that cannot execute have weight 0.

    References
    ----------
    A. Goldberg, "Reducing Overhead in Counter-Based Execution Profiling", Stanford CSL-TR-91-495,
    1991, through T. Ball and J. Larus, 1994 (BL94).
    """
    number = {vertex: at for at, vertex in enumerate(dfs.postorder, 1)}
    return tuple(
        cfg.vertex_count + 1 if edge.id in dfs.back_edges else number.get(edge.source, 0)
        for edge in cfg.edges
    )


@remembers_recent
def uniform(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[float, ...]:
    """Weight 1 for every edge that can execute, 0 for the others."""
    live = live_edges(cfg, dfs)
    return tuple(1.0 if edge.id in live else 0.0 for edge in cfg.edges)


def measured(cfg: ControlFlowGraph, counts: Sequence[int]) -> tuple[int, ...]:
    """Weights from an edge profile: `counts` by edge id.

    Raises
    ------
    ValueError
        If there is not one count per edge, or one is negative.
    """
    if len(counts) != len(cfg.edges):
        raise ValueError(f"{len(counts)} counts for the {len(cfg.edges)} edges of {cfg.name}")
    if min(counts, default=0) < 0:
        raise ValueError(f"negative edge count in the profile of {cfg.name}")
    return tuple(counts)
