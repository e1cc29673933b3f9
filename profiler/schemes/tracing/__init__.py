"""`witness` and `bits`: whole traces (Ball and Larus 1994, sections 4 and 6.2)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    StateScope,
)


def _plan_witness(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_witness

    return plan_witness(order.cfg, weights=order.weights)


def _plan_bits(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.tracing.planner import plan_bits

    return plan_bits(order.cfg, weights=order.weights)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.tracing.code import CODE

    return CODE


WITNESS = SchemeDefinition(
    mode="witness",
    description="a trace of witnesses that tells the whole execution (Ball and Larus 1994)",
    collects=ProfileKind.TRACE,
    plan=_plan_witness,
    reads=("weights",),
    code=_code,
    scope=StateScope.PROGRAM,
)
BITS = SchemeDefinition(
    mode="bits",
    description="a trace of branch outcomes that tells the whole execution "
    "(Ball and Larus 1994, 6.2)",
    collects=ProfileKind.TRACE,
    plan=_plan_bits,
    reads=("weights",),
    code=_code,
    scope=StateScope.PROGRAM,
)
