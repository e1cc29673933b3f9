"""`sampled`, `pep`: path profiles from samples (after Arnold and Ryder 2001, Bond and McKinley
2005).
"""

from __future__ import annotations

from functools import cache

from simprof import schemes as s
from simprof.profiler.schemes.sampling.options import DUPLICATED, INTERVAL, SAMPLES, STRIDE, TICK


def _plan_sampled(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_sampled

    return plan_sampled(order, INTERVAL.of(order.options), DUPLICATED.of(order.options))


def _plan_pep(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_pep

    numbers = (option.of(order.options) for option in (TICK, SAMPLES, STRIDE))
    return plan_pep(order, *numbers)


@cache
def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.sampling import code, copies

    return s.SchemeCode(
        generators={**code.CODE.generators, **copies.CODE.generators},
    )


def _registers(options: s.SchemeOptions) -> s.RegisterUse:
    use = s.registers_of_paths(options)
    if use is s.RegisterUse.SPILLED and DUPLICATED.of(options):
        raise s.UsageError("--registers spilled: not with two copies of a routine: give liveness")
    return use


SAMPLED = s.SchemeDefinition(
    mode="sampled",
    description="acyclic paths, one of every so many (after Arnold and Ryder 2001)",
    collects=s.ProfileKind.PATHS,
    plan=_plan_sampled,
    reads=s.PLANNING,
    options=(INTERVAL, DUPLICATED, s.REGISTERS, s.LAYOUT),
    registers=_registers,
    code=_code,
    scope=s.StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
PEP = s.SchemeDefinition(
    mode="pep",
    description="acyclic paths up to loop headers, read in bursts of samples (after Bond and "
    "McKinley 2005)",
    collects=s.ProfileKind.PATHS,
    plan=_plan_pep,
    reads=s.PLANNING,
    options=(TICK, SAMPLES, STRIDE, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
    code=_code,
    scope=s.StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
