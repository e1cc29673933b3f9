"""What TPP's plan was made from, for `simprof explain`."""

from __future__ import annotations

from typing import Any

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.static import describe_acyclic, ends
from simprof.profiler.schemes.tpp.planner import TppPlan


def describe(plan: RoutinePlan) -> dict[str, Any]:
    """Return what a `TppPlan` was made from."""
    assert isinstance(plan, TppPlan)
    return describe_acyclic(plan) | _targeted(plan.cfg, plan)


def _targeted(cfg: ControlFlowGraph, plan: TppPlan) -> dict[str, Any]:
    """Return what TPP leaves out; `cold` edges are those on no hot path, `obvious` paths by id."""
    hot = plan.graphs.hot
    kept = set(hot.real) | {removed for edge in hot.edges for removed in edge.stands_for}
    live = {edge.id for edge in cfg.edges if edge.source in hot.dfs.reached} - hot.dfs.self_loops
    return {
        "edge_profile": list(plan.edge_profile),
        "cold": [edge.id in live - kept for edge in cfg.edges],
        "locally_cold": [ends(cfg, edge) for edge in sorted(plan.cold)],
        "disconnected_loops": [
            {
                "blocks": [str(cfg.name_of(block)) for block in sorted(loop.body)],
                "entries": [ends(cfg, edge) for edge in loop.entries],
                "exits": [ends(cfg, edge) for edge in loop.exits],
            }
            for loop in plan.disconnection.loops
        ],
        "counted_paths": plan.numbering.total,
        "obvious": list(range(plan.numbering.total, plan.num_paths)),
    }
