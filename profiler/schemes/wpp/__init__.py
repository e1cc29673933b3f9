"""`wpp`: whole program paths (after Larus, PLDI 1999)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    REGISTERS,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    StateScope,
    registers_of_paths,
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.wpp.planner import plan_wpp

    return plan_wpp(order.cfg, weights=order.weights, path_limit=order.options.path_limit)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.wpp.code import CODE

    return CODE


WPP = SchemeDefinition(
    mode="wpp",
    description="acyclic paths, in the order in which they are executed (after Larus 1999)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=("path_limit", "weights"),
    options=(REGISTERS, LAYOUT),
    registers=registers_of_paths,
    code=_code,
    scope=StateScope.PROGRAM,
    orders_paths=True,
)
