"""`sampled`, `pep`: path profiles from samples (after Arnold and Ryder 2001, Bond and McKinley
2005).
"""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PLANNING,
    REGISTERS,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    StateScope,
    registers_of_paths,
)
from simprof.profiler.schemes.sampling.options import INTERVAL, SAMPLES, STRIDE, TICK


def _plan_sampled(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.sampling.planner import plan_sampled

    return plan_sampled(order, INTERVAL.of(order.options))


def _plan_pep(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.sampling.planner import plan_pep

    numbers = (option.of(order.options) for option in (TICK, SAMPLES, STRIDE))
    return plan_pep(order, *numbers)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.sampling.code import CODE

    return CODE


SAMPLED = SchemeDefinition(
    mode="sampled",
    description="acyclic paths, one of every so many (after Arnold and Ryder 2001)",
    collects=ProfileKind.PATHS,
    plan=_plan_sampled,
    reads=PLANNING,
    options=(INTERVAL, REGISTERS, LAYOUT),
    registers=registers_of_paths,
    code=_code,
    scope=StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
PEP = SchemeDefinition(
    mode="pep",
    description="acyclic paths up to loop headers, read in bursts of samples (after Bond and "
    "McKinley 2005)",
    collects=ProfileKind.PATHS,
    plan=_plan_pep,
    reads=PLANNING,
    options=(TICK, SAMPLES, STRIDE, REGISTERS, LAYOUT),
    registers=registers_of_paths,
    code=_code,
    scope=StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
