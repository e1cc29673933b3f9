"""Decisions that a trace's reader derives from its tokens (BL94 section 4).

Whoever makes a plan that writes a trace and whoever reads that trace must agree on this.

Terms
-----
witnessed
    Edges that write a token to the trace when they are crossed.
witness-free
    Without such an edge.
predicate
    A block that control leaves through two edges or more.
decision
    At a predicate, the edge to take when a given token comes next: the witness sets of BL94,
    turned round.
"""

from __future__ import annotations

from collections.abc import Collection

from simprof.profiler.graphs.cfg import ControlFlowGraph, closure

# Bits of a recorded address: the lower half of one; what lies above is the same everywhere.
TARGET_BITS = 32


def decisions(cfg: ControlFlowGraph, witnessed: Collection[int], predicate: int) -> dict[int, int]:
    """Witnessed edge that comes next -> edge to take at `predicate` (BL94's witness sets);
    ValueError if two ways lead to one witness: the edges do not solve the tracing problem.
    """
    found: dict[int, int] = {}
    for first in cfg.out_edges[predicate]:
        for edge in _next_witnesses(cfg, witnessed, first):
            if edge in found:
                raise ValueError(f"witness on edge {edge} is met on two ways from {predicate}")
            found[edge] = first
    return found


def _next_witnesses(cfg: ControlFlowGraph, witnessed: Collection[int], first: int) -> list[int]:
    """The witnessed edges that witness-free ways through `first` lead to; `first` among them."""
    if first in witnessed:
        return [first]
    seen = closure(
        [cfg.edges[first].target],
        lambda v: (cfg.edges[e].target for e in cfg.out_edges[v] if e not in witnessed),
    )
    return [edge for vertex in seen for edge in cfg.out_edges[vertex] if edge in witnessed]


def free_way(
    cfg: ControlFlowGraph, witnessed: Collection[int], source: int, target: int
) -> list[int] | None:
    """The one witness-free way from a block to another, as edges; None if there is none.

    There is one at most: edges that solve the tracing problem leave no diamond without a witness.
    """
    came: dict[int, int] = {}
    work = [source]
    while work and target not in came:
        for edge in cfg.out_edges[work.pop()]:
            after = cfg.edges[edge].target
            if edge not in witnessed and after not in came:
                came[after] = edge
                work.append(after)
    way: list[int] = []
    while source != target or not way:
        if source == target:
            return []
        if target not in came:
            return None
        way.append(came[target])
        target = cfg.edges[came[target]].source
    return way[::-1]
