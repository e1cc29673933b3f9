"""`witness` and `bits`: whole traces (Ball and Larus 1994, sections 4 and 6.2)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    StateScope,
)


def _plan(order: PlanOrder, witnesses: bool) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_bits, plan_witness

    return (plan_witness if witnesses else plan_bits)(order.cfg, weights=order.weights)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.tracing.code import CODE

    return CODE


WITNESS = SchemeDefinition(
    mode="witness",
    description="a trace of witnesses that tells the whole execution (Ball and Larus 1994)",
    collects=ProfileKind.TRACE,
    plan=lambda order: _plan(order, witnesses=True),
    reads=("weights",),
    options=(LAYOUT,),
    code=_code,
    scope=StateScope.PROGRAM,
)
BITS = SchemeDefinition(
    mode="bits",
    description="a trace of branch outcomes that tells the whole execution "
    "(Ball and Larus 1994, 6.2)",
    collects=ProfileKind.TRACE,
    plan=lambda order: _plan(order, witnesses=False),
    reads=("weights",),
    options=(LAYOUT,),
    code=_code,
    scope=StateScope.PROGRAM,
)
