"""`pap`: all paths, in mixed-radix numbers of in-edges (after Li, Wang and Leung 2012)."""

from __future__ import annotations

from simprof import schemes as s


class PapOptions(s.PathOptions):
    """The options of `pap`."""

    reads = ("weights",)
    walk_bits = s.whole_number(
        12,
        "bits of the number that a walk makes before it is written; more in routines whose blocks "
        "have very many incoming edges.",
        least=6,
        greatest=20,
        metavar="N",
        word="bits",
    )


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.pap.planner import plan_pap

    bits = PapOptions(order.options).walk_bits
    return plan_pap(order.cfg, bits=bits, weights=order.weights)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.pap.planner import CODE

    return CODE


PAP = s.SchemeDefinition(
    mode="pap",
    description="a trace of all walks, from the edges into blocks (after Li, Wang and Leung 2012)",
    collects=s.ProfileKind.EDGES,
    plan=_plan,
    options=PapOptions,
    code=_code,
    scope=s.StateScope.PROGRAM,
    writes_paths=True,
)
