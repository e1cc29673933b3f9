"""`naive`, `calls`, `calls-optimal`: the edge profiling of the CS6120 blog."""

from __future__ import annotations

from simprof import schemes as s


class CallsOptimalOptions(s.EdgeOptions):
    """The options of `calls-optimal`."""

    reads = ("weights",)


def _plan(order: s.PlanOrder, mode: str) -> s.Plan:
    from simprof.profiler.schemes.cs6120 import planner

    if mode == "naive":
        return planner.plan_naive(order.cfg)
    if mode == "calls":
        return planner.plan_calls(order.cfg)
    return planner.plan_calls_optimal(order.cfg, weights=order.weights)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.cs6120.code import CODE

    return CODE


NAIVE = s.SchemeDefinition(
    mode="naive",
    description="edges, a counter on every one",
    plan=lambda order: _plan(order, "naive"),
    options=s.EdgeOptions,
)
CALLS = s.SchemeDefinition(
    mode="calls",
    description="edges, two logging calls on every one (CS6120)",
    plan=lambda order: _plan(order, "calls"),
    options=s.EdgeOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
)
CALLS_OPTIMAL = s.SchemeDefinition(
    mode="calls-optimal",
    description="edges, two logging calls on every chord of a spanning tree (CS6120)",
    plan=lambda order: _plan(order, "calls-optimal"),
    options=CallsOptimalOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
)
