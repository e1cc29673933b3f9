"""`bittrace`: paths named by branch outcomes (Ball and Larus 1996, section 2)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PER_VERTEX,
    PLANNING,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    flag,
)

MERGED = flag(
    "merged",
    "set the register where the first outcome is known, and count where the last is, as pp does "
    "(EPP 3.4).",
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.bittrace.planner import plan_bittrace

    return plan_bittrace(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=PER_VERTEX.of(order.options),
        table=order.table,
        merged=MERGED.of(order.options),
    )


def _code() -> SchemeCode:
    from simprof.profiler.schemes.bittrace.code import CODE

    return CODE


BITTRACE = SchemeDefinition(
    mode="bittrace",
    description="acyclic paths, named by their branch outcomes (Ball and Larus 1996, section 2)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=PLANNING,
    options=(MERGED, PER_VERTEX, LAYOUT),
    code=_code,
)
