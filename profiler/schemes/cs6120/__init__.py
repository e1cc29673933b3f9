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


def _plan(order: PlanOrder, mode: str) -> RoutinePlan:
    from simprof.profiler.schemes.cs6120 import planner

    if mode == "naive":
        return planner.plan_naive(order.cfg)
    if mode == "calls":
        return planner.plan_calls(order.cfg)
    return planner.plan_calls_optimal(order.cfg, weights=order.weights)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.cs6120.code import CODE

    return CODE


NAIVE = SchemeDefinition(
    mode="naive",
    description="edges, a counter on every one",
    plan=lambda order: _plan(order, "naive"),
    options=(LAYOUT,),
)
CALLS = SchemeDefinition(
    mode="calls",
    description="edges, two logging calls on every one (CS6120)",
    plan=lambda order: _plan(order, "calls"),
    options=(LAYOUT,),
    code=_code,
    scope=StateScope.PROGRAM,
)
CALLS_OPTIMAL = SchemeDefinition(
    mode="calls-optimal",
    description="edges, two logging calls on every chord of a spanning tree (CS6120)",
    plan=lambda order: _plan(order, "calls-optimal"),
    options=(LAYOUT,),
    reads=("weights",),
    code=_code,
    scope=StateScope.PROGRAM,
)
