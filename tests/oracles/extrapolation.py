"""Counts of unlogged edges from those of logged ones, by iteration until nothing changes.

What the blog did by hand (CS6120), after A. Neustifter's dissertation: wherever all edges of a
block but one are known, the flow law gives that one. ENTRY and EXIT are joined by an edge of
their own, EXIT -> ENTRY, as if each activation were followed by the next. If the unknown edges
form a spanning tree some vertex always has one unknown edge left, so the iteration ends with all
counts known; `flow.propagate` finds the same along the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import NO_EXITS


def extrapolate(
    cfg: ControlFlowGraph,
    known: Mapping[int, int],
    early_exits: Mapping[int, int] = NO_EXITS,
) -> tuple[int, ...]:
    """Derive the count of every edge.

    - `cfg`: The routine.
    - `known`: Edge id -> count, edges that cannot execute included.
    - `early_exits`: Block -> activations that ended early in it: a virtual edge to EXIT.

    Raises
    ------
    ValueError
        Not all counts follow from the known ones.
    """
    ends = [(edge.source, edge.target) for edge in cfg.edges] + [(cfg.exit, cfg.entry)]
    counts = dict(known)
    surplus = [0] * cfg.vertex_count  # known flow in minus known flow out
    unknown: list[set[int]] = [set() for _ in range(cfg.vertex_count)]
    for block, count in early_exits.items():
        surplus[block] -= count
        surplus[cfg.exit] += count
    for edge, (source, target) in enumerate(ends):
        if edge in counts:
            surplus[source] -= counts[edge]
            surplus[target] += counts[edge]
        else:
            unknown[source].add(edge)
            unknown[target].add(edge)
    _iterate(ends, counts, surplus, unknown)
    if any(unknown):
        raise ValueError(f"{cfg.name}: the known counts leave others open")
    return tuple(counts[edge] for edge in range(len(cfg.edges)))


def _iterate(
    ends: Sequence[tuple[int, int]],
    counts: dict[int, int],
    surplus: list[int],
    unknown: Sequence[set[int]],
) -> None:
    """Fill in the last unknown edge of a vertex until no vertex has just one."""
    work = [vertex for vertex, edges in enumerate(unknown) if len(edges) == 1]
    while work:
        vertex = work.pop()
        if len(unknown[vertex]) != 1:
            continue
        (edge,) = unknown[vertex]
        source, target = ends[edge]
        counts[edge] = count = surplus[vertex] if source == vertex else -surplus[vertex]
        surplus[source] -= count
        surplus[target] += count
        for end in (source, target):
            unknown[end].discard(edge)
            if len(unknown[end]) == 1:
                work.append(end)
