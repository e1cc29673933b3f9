"""What edge and vertex plans were made from, for `simprof explain`."""

from __future__ import annotations

from typing import Any

from simprof.profiler.graphs.spanning import SpanningTree
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.qpt.merged import MergedPlan
from simprof.profiler.schemes.qpt.mixed import MixedPlan
from simprof.profiler.schemes.qpt.planner import EdgeHeuristicPlan, EdgePlan, VertexPlan
from simprof.profiler.schemes.static import ROOT_EDGE


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return the tree of a plan, its counted edges or its counted blocks."""
    match plan:
        case MergedPlan():
            return _of_merged(plan)
        case EdgePlan():
            return _of_tree(plan.tree) | {"dummy_edges": []}
        case EdgeHeuristicPlan():
            counted = {"counted_edges": list(plan.counted), "removed_counters": list(plan.removed)}
            return _of_tree(plan.tree) | counted
        case MixedPlan():
            blocks = [str(plan.cfg.name_of(block)) for block in plan.counted_blocks]
            return {"counted_edges": list(plan.counted_edges), "counted_blocks": blocks}
        case VertexPlan():
            return {"counted_blocks": [str(plan.cfg.name_of(block)) for block in plan.counted]}
    raise AssertionError(f"{type(plan).__name__} is no plan of qpt")


def _of_tree(tree: SpanningTree) -> dict[str, Any]:
    return {"tree": list(tree.in_tree), "root_edge": ROOT_EDGE}


def _of_merged(plan: MergedPlan) -> dict[str, Any]:
    """Return what `describe` does, by the routine's edges: those inside chains are tree edges."""
    contraction = plan.contraction
    cfg = plan.cfg
    names = [[str(cfg.name_of(block)) for block in chain] for chain in contraction.chains]
    found = describe(plan.inner) | {"merged_blocks": names}
    if "tree" in found:
        in_tree = set(contraction.inside)
        in_tree |= {
            edge for edge, inside in zip(contraction.kept, found["tree"], strict=True) if inside
        }
        found["tree"] = [edge.id in in_tree for edge in cfg.edges]
    for key in ("counted_edges", "removed_counters"):
        if key in found:
            found[key] = [contraction.kept[edge] for edge in found[key]]
    return found
