"""`pref`: preferential path profiling (after Vaswani, Nori and Chilimbi 2007)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    REGISTERS,
    Loss,
    PlanOrder,
    ProfileKind,
    SchemeCode,
    SchemeDefinition,
    SchemeOption,
    flag,
    percentage,
    registers_of_paths,
)
from simprof.simulator.errors import UsageError

LEAST = SchemeOption(
    name="interesting",
    kind=int,
    default=1,
    help="executions in the path profile from which on a path is interesting.",
    hint="give a whole number above 0",
    metavar="N",
    word="least",
    least=1,
)
SHARE = percentage(
    name="interesting_share",
    default=0.0,
    help="percentage of its routine's path executions below which a path is not interesting.",
    metavar="P",
    word="share",
)
FALL_BACK = flag("fall_back", "count other paths in a hash table, so that none is lost.")
EVERYWHERE = flag(
    "everywhere", "number interesting paths apart even where pp needs no hash table for all."
)


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.pref.planner import plan_pref

    if order.path_counts is None:
        raise UsageError("pref needs a path profile: give one with --edge-profile")
    return plan_pref(
        order.cfg,
        order.path_counts,
        least=LEAST.of(order.options),
        share=SHARE.of(order.options),
        fall_back=FALL_BACK.of(order.options),
        everywhere=EVERYWHERE.of(order.options),
        weights=order.weights,
        path_limit=order.options.path_limit,
    )


def _code() -> SchemeCode:
    from simprof.profiler.schemes.pref.code import CODE

    return CODE


PREF = SchemeDefinition(
    mode="pref",
    description="interesting acyclic paths (after Vaswani, Nori and Chilimbi 2007)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=("path_limit", "weights"),
    options=(LEAST, SHARE, FALL_BACK, EVERYWHERE, REGISTERS, LAYOUT),
    registers=registers_of_paths,
    guided=ProfileKind.PATHS,
    judged_by="pp",
    code=_code,
    losses=(
        Loss("uninteresting_paths", "uninteresting paths", "counted together", of_paths=True),
        Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
