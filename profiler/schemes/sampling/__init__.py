"""`sampled`, `pep`: path profiles from samples (after Arnold and Ryder 2001, Bond and McKinley
2005).
"""

from __future__ import annotations

from functools import cache

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.request.request import RegisterUse, SchemeOptions
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
from simprof.profiler.schemes.sampling.options import DUPLICATED, INTERVAL, SAMPLES, STRIDE, TICK
from simprof.simulator.errors import UsageError


def _plan_sampled(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.sampling.planner import plan_sampled

    return plan_sampled(order, INTERVAL.of(order.options), DUPLICATED.of(order.options))


def _plan_pep(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.sampling.planner import plan_pep

    numbers = (option.of(order.options) for option in (TICK, SAMPLES, STRIDE))
    return plan_pep(order, *numbers)


@cache
def _code() -> SchemeCode:
    from simprof.profiler.schemes.sampling import code, copies

    return SchemeCode(
        generators={**code.CODE.generators, **copies.CODE.generators},
    )


def _registers(options: SchemeOptions) -> RegisterUse:
    use = registers_of_paths(options)
    if use is RegisterUse.SPILLED and DUPLICATED.of(options):
        raise UsageError("--registers spilled: not with two copies of a routine: give liveness")
    return use


SAMPLED = SchemeDefinition(
    mode="sampled",
    description="acyclic paths, one of every so many (after Arnold and Ryder 2001)",
    collects=ProfileKind.PATHS,
    plan=_plan_sampled,
    reads=PLANNING,
    options=(INTERVAL, DUPLICATED, REGISTERS, LAYOUT),
    registers=_registers,
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
