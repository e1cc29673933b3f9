"""`wpp`: whole program paths (after Larus, PLDI 1999)."""

from __future__ import annotations

from simprof import schemes as s


class WppOptions(s.PathOptions):
    """The options of `wpp`."""

    reads = ("path_limit", "weights")


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.wpp.planner import plan_wpp

    return plan_wpp(order.cfg, weights=order.weights, path_limit=order.options.path_limit)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.wpp.planner import CODE

    return CODE


WPP = s.SchemeDefinition(
    mode="wpp",
    description="acyclic paths, in the order in which they are executed (after Larus 1999)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=WppOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
    orders_paths=True,
)
