"""`pref`: preferential path profiling (after Vaswani, Nori and Chilimbi 2007)."""

from __future__ import annotations

from simprof import schemes as s

LEAST = s.SchemeOption(
    name="interesting",
    kind=int,
    default=1,
    help="executions in the path profile from which on a path is interesting.",
    hint="give a whole number above 0",
    metavar="N",
    word="least",
    least=1,
)
SHARE = s.percentage(
    name="interesting_share",
    default=0.0,
    help="percentage of its routine's path executions below which a path is not interesting.",
    metavar="P",
    word="share",
)
FALL_BACK = s.flag("fall_back", "count other paths in a hash table, so that none is lost.")
EVERYWHERE = s.flag(
    "everywhere", "number interesting paths apart even where pp needs no hash table for all."
)


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.pref.planner import plan_pref

    if order.path_counts is None:
        raise s.UsageError("pref needs a path profile: give one with --edge-profile")
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


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.pref.code import CODE

    return CODE


PREF = s.SchemeDefinition(
    mode="pref",
    description="interesting acyclic paths (after Vaswani, Nori and Chilimbi 2007)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    reads=("path_limit", "weights"),
    options=(LEAST, SHARE, FALL_BACK, EVERYWHERE, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
    guided=s.ProfileKind.PATHS,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("uninteresting_paths", "uninteresting paths", "counted together", of_paths=True),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
