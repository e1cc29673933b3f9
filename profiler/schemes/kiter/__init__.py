"""`kiter`: k-iteration paths (Roy and Srikant 2009)."""

from __future__ import annotations

from operator import attrgetter

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PLANNING,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    SchemeOption,
    flag,
)

ITERATIONS = SchemeOption(
    name="iterations",
    kind=int,
    default=2,
    help="iterations of innermost loops that a path spans.",
    hint="give a whole number from 1 to 1000",
    metavar="K",
    word="k",
    least=1,
    greatest=1000,
)
UNOPTIMISED = flag(
    "unoptimised", "add every edge's value on that edge, as the paper's measurements do."
)
HASH_ABOVE = SchemeOption(
    name="hash_above",
    kind=int,
    default=0,
    help="paths beyond which a routine's counters are in a hash table (6000 in the paper).",
    hint="give a whole number, 0 to go by the increments",
    metavar="N",
    least=0,
    greatest=(1 << 31) - 1,
    default_text="0: by the increments, as EPP does",
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.kiter.planner import plan_kiter

    return plan_kiter(
        order.cfg,
        iterations=ITERATIONS.of(order.options),
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
        event_counting=not UNOPTIMISED.of(order.options),
        hash_above=HASH_ABOVE.of(order.options) or None,
    )


def _code() -> SchemeCode:
    from simprof.profiler.schemes.kiter.code import CODE

    return CODE


KITER = SchemeDefinition(
    mode="kiter",
    description="paths over k iterations of innermost loops (Roy and Srikant 2009)",
    collects=ProfileKind.ITERATION_PATHS,
    plan=_plan,
    reads=PLANNING,
    options=(ITERATIONS, UNOPTIMISED, HASH_ABOVE, LAYOUT),
    code=_code,
    iterations=attrgetter("most_iterations"),
)
