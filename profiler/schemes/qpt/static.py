"""What edge and vertex plans were made from, for `simprof graph`."""

from __future__ import annotations

from typing import Any

from profiler.plan.decoders import RoutinePlan
from profiler.schemes.qpt.planner import EdgeHeuristicPlan, EdgePlan, VertexPlan


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return the tree of a plan, its counted edges or its counted blocks."""
    match plan:
        case EdgePlan():
            return {"tree": list(plan.tree.in_tree), "dummy_edges": []}
        case EdgeHeuristicPlan():
            counted = {"counted_edges": list(plan.counted), "removed_counters": list(plan.removed)}
            return {"tree": list(plan.tree.in_tree)} | counted
        case VertexPlan():
            return {"counted_blocks": [plan.cfg.name_of(block).as_json() for block in plan.counted]}
    raise AssertionError(f"{type(plan).__name__} is no plan of qpt")
