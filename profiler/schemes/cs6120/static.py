"""What the logging plans were made from, for `simprof explain`."""

from __future__ import annotations

from typing import Any

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.cs6120.planner import CallsPlan
from simprof.profiler.schemes.static import ROOT_EDGE


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return the logged edges' pairs of numbers, and where `logdisrupt` is called."""
    assert isinstance(plan, CallsPlan)
    cfg = plan.cfg
    pairs: list[list[int] | None] = [None] * len(cfg.edges)
    for pair in plan.logged:
        pairs[pair.edge] = [pair.source, pair.destination]
    disrupted = plan.disrupted
    static: dict[str, Any] = {
        "pairs": pairs,
        "disrupted_blocks": [str(cfg.name_of(block)) for block in sorted(disrupted.blocks)],
        "disrupted_edges": sorted(disrupted.edges),
    }
    if plan.tree is None:
        return static
    return static | {"tree": list(plan.tree.in_tree), "root_edge": ROOT_EDGE}
