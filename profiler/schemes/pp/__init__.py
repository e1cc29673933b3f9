"""`pp`: efficient path profiling (Ball and Larus 1996)."""

from __future__ import annotations

from typing import Any

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import PLANNING, PlanOrder, ProfileKind, SchemeDefinition


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.pp.planner import plan_pp

    return plan_pp(
        order.cfg, weights=order.weights, path_limit=order.options.path_limit, table=order.table
    )


def _describe(plan: RoutinePlan) -> dict[str, Any]:
    from simprof.profiler.schemes.pp.planner import PathPlan
    from simprof.profiler.schemes.static import describe_acyclic

    assert isinstance(plan, PathPlan)
    return describe_acyclic(plan)


PP = SchemeDefinition(
    mode="pp",
    description="acyclic paths (Ball and Larus 1996)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=PLANNING,
    describe=_describe,
)
