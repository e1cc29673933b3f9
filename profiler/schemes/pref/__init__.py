"""`pref`: preferential path profiling (after Vaswani, Nori and Chilimbi 2007)."""

from __future__ import annotations

from simprof import schemes as s


class PrefOptions(s.PathOptions):
    """The options of `pref`."""

    reads = ("path_limit", "weights")
    interesting = s.SchemeOption(
        1,
        "executions in the path profile from which on a path is interesting.",
        "give a whole number above 0",
        metavar="N",
        word="least",
        least=1,
    )
    interesting_share = s.percentage(
        0.0,
        "percentage of its routine's path executions below which a path is not interesting.",
        metavar="P",
        word="share",
    )
    fall_back = s.flag("count other paths in a hash table, so that none is lost.")
    everywhere = s.flag("number interesting paths apart even where pp needs no hash table for all.")


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.pref.planner import plan_pref

    if order.path_counts is None:
        raise s.UsageError("pref needs a path profile: give one with --edge-profile")
    chosen = PrefOptions(order.options)
    return plan_pref(
        order.cfg,
        order.path_counts,
        least=chosen.interesting,
        share=chosen.interesting_share,
        fall_back=chosen.fall_back,
        everywhere=chosen.everywhere,
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
    options=PrefOptions,
    guided=s.ProfileKind.PATHS,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("uninteresting_paths", "uninteresting paths", "counted together", of_paths=True),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
