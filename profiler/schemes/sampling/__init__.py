"""`sampled`, `pep`: path profiles from samples (after Arnold and Ryder 2001, Bond and McKinley
2005).
"""

from __future__ import annotations

from functools import cache

from simprof import schemes as s
from simprof.profiler.schemes.sampling.options import PepOptions, SampledOptions


def _plan_sampled(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_sampled

    chosen = SampledOptions(order.options)
    return plan_sampled(order, chosen.interval, chosen.duplicated)


def _plan_pep(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.sampling.planner import plan_pep

    chosen = PepOptions(order.options)
    return plan_pep(order, chosen.tick, chosen.samples, chosen.stride)


@cache
def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.sampling import code, copies

    return s.SchemeCode(
        generators={**code.CODE.generators, **copies.CODE.generators},
    )


SAMPLED = s.SchemeDefinition(
    mode="sampled",
    description="acyclic paths, one of every so many (after Arnold and Ryder 2001)",
    collects=s.ProfileKind.PATHS,
    plan=_plan_sampled,
    options=SampledOptions,
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
    options=PepOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
    depends_on_order=True,
    estimates=True,
)
