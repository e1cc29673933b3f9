"""`tpp`: targeted path profiling (Joshi, Bond and Zilles 2004)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import methodcaller

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.request.request import OptionValue
from simprof.profiler.schemes.definition import (
    PLANNING,
    Loss,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    SchemeOption,
)
from simprof.simulator.errors import UsageError

_PERCENTAGE = "give a percentage from 0 to 100"

COLD = SchemeOption(
    name="cold",
    kind=float,
    default=5.0,  # TPP(5, 15): "a good trade-off between accuracy and overhead" (TPP 5.1)
    help="percentage of its source's executions below which an edge is cold.",
    hint=_PERCENTAGE,
    metavar="I",
    least=0,
    greatest=100,
)


def _loop_fallback(options: Mapping[str, OptionValue]) -> OptionValue:
    """`tpp:cold=0` alone removes nothing, loops' entries included: the paths are those of `pp`."""
    return LOOP.default if options["cold"] else 0.0


LOOP = SchemeOption(
    name="loop",
    kind=float,
    default=15.0,
    help="percentage of its head's executions below which entries disconnect a loop.",
    hint=_PERCENTAGE,
    metavar="J",
    least=0,
    greatest=100,
    default_text="15; 0 if cold=0",
    fallback=_loop_fallback,
)
COLD_ALWAYS = SchemeOption(
    name="cold_always",
    kind=bool,
    default=False,
    help="leave out cold edges even where no hash table becomes an array by that.",
    hint="give true or false",
)
COUNT_OBVIOUS = SchemeOption(
    name="count_obvious",
    kind=bool,
    default=False,
    help="count obvious paths too, which the edge profile tells.",
    hint="give true or false",
)
NO_COLD_COUNTER = SchemeOption(
    name="no_cold_counter",
    kind=bool,
    default=False,
    help="keep cold paths out of all counts, and count them nowhere.",
    hint="give true or false",
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.tpp.planner import plan_tpp

    if order.edge_counts is None:
        raise UsageError("tpp needs an edge profile: give one with --edge-profile")
    return plan_tpp(
        order.cfg,
        order.edge_counts,
        cold=COLD.of(order.options),
        loop=LOOP.of(order.options),
        cold_always=COLD_ALWAYS.of(order.options),
        count_obvious=COUNT_OBVIOUS.of(order.options),
        cold_counter=not NO_COLD_COUNTER.of(order.options),
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _code() -> SchemeCode:
    from simprof.profiler.schemes.tpp.code import CODE

    return CODE


TPP = SchemeDefinition(
    mode="tpp",
    description="acyclic paths, targeted by an edge profile (Joshi, Bond and Zilles 2004)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=PLANNING,
    options=(COLD, LOOP, COLD_ALWAYS, COUNT_OBVIOUS, NO_COLD_COUNTER),
    guided=True,
    judged_by="pp",
    code=_code,
    describe=methodcaller("describe"),
    losses=(
        Loss("cold_paths", "cold paths", "counted together", of_paths=True),
        Loss("overcounted_paths", "obvious paths", "too many"),
        Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
