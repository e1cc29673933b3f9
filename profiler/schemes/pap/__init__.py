"""`pap`: all paths, in mixed-radix numbers of in-edges (after Li, Wang and Leung 2012)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    REGISTERS,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    SchemeOption,
    StateScope,
    registers_of_paths,
)

BITS = SchemeOption(
    name="walk_bits",
    kind=int,
    default=12,
    help="bits of the number that a walk makes before it is written; more in routines whose blocks "
    "have very many ways in.",
    hint="give a number from 6 to 20",
    metavar="N",
    word="bits",
    least=6,
    greatest=20,
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.pap.planner import plan_pap

    return plan_pap(order.cfg, bits=BITS.of(order.options), weights=order.weights)


def _code() -> SchemeCode:
    from simprof.profiler.schemes.pap.code import CODE

    return CODE


PAP = SchemeDefinition(
    mode="pap",
    description="a trace of all walks, from the ways into blocks (after Li, Wang and Leung 2012)",
    collects=ProfileKind.EDGES,
    plan=_plan,
    reads=("weights",),
    options=(BITS, REGISTERS, LAYOUT),
    registers=registers_of_paths,
    code=_code,
    scope=StateScope.PROGRAM,
    writes_paths=True,
)
