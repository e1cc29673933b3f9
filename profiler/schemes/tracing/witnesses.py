"""Where witnesses go: blockers first, then a spanning tree (BL94 section 4).

Terms
-----
predicate
    A block that control leaves through two edges or more. BL94 has two successors; of parallel
    edges the counts could not be distinguished, so they make a predicate here.
call
    A block that control leaves through a call-return edge.
witness-free
    Without an edge that writes a witness.
blocking property
    No witness-free way leads from a predicate to a call or to EXIT: what follows a predicate in
    the trace was then written by its own routine.

ENTRY is no predicate: which entry an activation has is known from what called it. What a reader
may conclude from witnesses is in `plan.tracing`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind, closure
from simprof.profiler.graphs.loops import depth_first, live_edges
from simprof.profiler.graphs.spanning import SpanningTree, maximum_spanning_tree


def predicates(cfg: ControlFlowGraph, live: Collection[int]) -> frozenset[int]:
    """Blocks with two live outgoing edges or more."""
    return frozenset(
        block.id
        for block in cfg.blocks
        if sum(edge in live for edge in cfg.out_edges[block.id]) > 1
    )


def call_blocks(cfg: ControlFlowGraph) -> frozenset[int]:
    """Blocks that end with a call that returns."""
    return frozenset(edge.source for edge in cfg.edges if edge.kind is EdgeKind.CALL_RETURN)


def blockers(
    cfg: ControlFlowGraph, vertices: Collection[int], live: Collection[int]
) -> frozenset[int]:
    """Edges out of predicates from which no predicate precedes one of `vertices`."""
    # The union of BL94's `blockers(G, v)`; backwards from the vertices, up to the predicates.
    forks = predicates(cfg, live)
    into = [[edge for edge in edges if edge in live] for edges in cfg.in_edges]
    seen = closure(
        vertices, lambda v: {cfg.edges[edge].source for edge in into[v]}.difference(forks)
    )
    return frozenset(edge for v in seen for edge in into[v] if cfg.edges[edge].source in forks)


def place_witnesses(cfg: ControlFlowGraph, weights: Sequence[float]) -> frozenset[int]:
    """Return the edges that write witnesses: all blockers, then chords (BL94 4.2)."""
    live = live_edges(cfg, depth_first(cfg))
    blocking = blockers(cfg, {cfg.exit, *call_blocks(cfg)}, live)
    return with_chords(cfg, blocking, weights, live)


def with_chords(
    cfg: ControlFlowGraph,
    witnessed: Collection[int],
    weights: Sequence[float],
    live: Collection[int],
) -> frozenset[int]:
    """Add the chords of a heaviest forest of the other edges (BL94's modified algorithm)."""
    # The edge EXIT -> ENTRY takes no part (BL94 4.1), nor do ENTRY edges, which the caller tells
    # apart.
    barred = {edge.id for edge in cfg.edges if edge.id in witnessed or not _usable(cfg, edge.id)}
    barred |= {edge.id for edge in cfg.edges if edge.id not in live}
    forest = maximum_spanning_tree(cfg.vertex_count, _ends(cfg), weights, None, barred)
    return frozenset(witnessed) | frozenset(forest.chords)


def _usable(cfg: ControlFlowGraph, edge: int) -> bool:
    return cfg.edges[edge].source != cfg.entry


def _ends(cfg: ControlFlowGraph) -> list[tuple[int, int]]:
    return [(edge.source, edge.target) for edge in cfg.edges]


def counting_tree(cfg: ControlFlowGraph, witnessed: Collection[int]) -> SpanningTree:
    """The edges that a reader of the trace cannot count directly, as a tree to solve for."""
    # It can count witnessed edges by their witnesses and ENTRY edges by the calls.
    live = live_edges(cfg, depth_first(cfg))
    inside = tuple(
        edge.id in live and edge.id not in witnessed and _usable(cfg, edge.id) for edge in cfg.edges
    )
    dead = frozenset(edge.id for edge in cfg.edges if edge.id not in live)
    root = (cfg.exit, cfg.entry)
    return SpanningTree(cfg.vertex_count, tuple(_ends(cfg)), inside, dead, root)
