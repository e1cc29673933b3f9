"""`naive`, `calls`, `calls-optimal`: the edge profiling of the CS6120 blog."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PlanOrder,
    SchemeCode,
    SchemeDefinition,
    StateScope,
)


def _plan_naive(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.cs6120.planner import plan_naive

    return plan_naive(order.cfg)


def _plan_calls(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.cs6120.planner import plan_calls

    return plan_calls(order.cfg)


def _plan_calls_optimal(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.cs6120.planner import plan_calls_optimal

    return plan_calls_optimal(order.cfg, weights=order.weights)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.cs6120.code import CODE

    return CODE


NAIVE = SchemeDefinition(
    mode="naive", description="edges, a counter on every one", plan=_plan_naive, options=(LAYOUT,)
)
CALLS = SchemeDefinition(
    mode="calls",
    description="edges, two logging calls on every one (CS6120)",
    plan=_plan_calls,
    options=(LAYOUT,),
    code=_code,
    scope=StateScope.PROGRAM,
)
CALLS_OPTIMAL = SchemeDefinition(
    mode="calls-optimal",
    description="edges, two logging calls on every chord of a spanning tree (CS6120)",
    plan=_plan_calls_optimal,
    options=(LAYOUT,),
    reads=("weights",),
    code=_code,
    scope=StateScope.PROGRAM,
)
