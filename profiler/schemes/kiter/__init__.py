"""`kiter`: k-iteration paths (Roy and Srikant 2009)."""

from __future__ import annotations

from typing import Any

from profiler.plan.decoders import RoutinePlan
from profiler.schemes.definition import (
    PLANNING,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    SchemeOption,
)

ITERATIONS = SchemeOption(
    name="iterations",
    kind=int,
    default=2,
    help="iterations of innermost loops that a path spans.",
    hint="give a whole number from 1 to 1000",
    metavar="K",
    flags=("-k", "--iterations"),
    least=1,
    greatest=1000,
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from profiler.schemes.kiter.planner import plan_kiter

    return plan_kiter(
        order.cfg,
        iterations=ITERATIONS.of(order.options),
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _code() -> SchemeCode:
    from profiler.schemes.kiter.code import CODE

    return CODE


def _describe(plan: RoutinePlan) -> dict[str, Any]:
    from profiler.schemes.kiter.static import describe

    return describe(plan)


KITER = SchemeDefinition(
    mode="kiter",
    description="paths over k iterations of innermost loops (Roy and Srikant 2009)",
    collects=ProfileKind.ITERATION_PATHS,
    plan=_plan,
    reads=PLANNING,
    options=(ITERATIONS,),
    code=_code,
    describe=_describe,
    setting_text=lambda options: f" with k = {options.get('iterations')}",
)
