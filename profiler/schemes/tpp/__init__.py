"""`tpp`: targeted path profiling (Joshi, Bond and Zilles 2004)."""

from __future__ import annotations

from simprof import schemes as s


class TppOptions(s.PathOptions):
    """The options of `tpp`."""

    cold = s.percentage(
        5.0,  # TPP(5, 15): "a good trade-off between accuracy and overhead" (TPP 5.1)
        "percentage of its source's executions below which an edge is cold.",
        metavar="I",
    )
    loop = s.percentage(
        15.0,
        "percentage of its head's executions below which entries disconnect a loop.",
        metavar="J",
        default_text="15; 0 if cold=0",
        # `tpp:cold=0` alone removes nothing, loops' entries included: the paths are those of `pp`.
        implied=lambda chosen: 15.0 if chosen.cold else 0.0,
    )
    cold_always = s.flag("leave out cold edges even where no hash table becomes an array by that.")
    literal_cold = s.flag(
        "take for cold what no path without cold edges from ENTRY to EXIT leads through, loops "
        "included."
    )
    obvious_first = s.flag(
        "find obvious paths before cold ones are left out, so that no cold path is counted as one."
    )
    count_obvious = s.flag("count obvious paths too (determined by the edge profile).")
    no_cold_counter = s.flag("keep cold paths out of all counts, and count them nowhere.")
    branching = s.flag(
        "distinguish cold paths from hot ones by a branch, instead of a conditional move."
    )
    first = s.SchemeOption(
        0,
        "instructions at the run's beginning whose edge profile guides it; 0: all.",
        "give a number of instructions",
        metavar="N",
        least=0,
    )

    @property
    def beginning(self) -> int:
        """See `s.Options`."""
        return self.first


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.tpp.planner import plan_tpp

    if order.edge_counts is None:
        raise s.UsageError("tpp needs an edge profile: give one with --edge-profile")
    chosen = TppOptions(order.options)
    return plan_tpp(
        order.cfg,
        order.edge_counts,
        cold=chosen.cold,
        loop=chosen.loop,
        cold_always=chosen.cold_always,
        literal_cold=chosen.literal_cold,
        obvious_first=chosen.obvious_first,
        count_obvious=chosen.count_obvious,
        cold_counter=not chosen.no_cold_counter,
        branching=chosen.branching,
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
    )


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.tpp.code import CODE

    return CODE


TPP = s.SchemeDefinition(
    mode="tpp",
    description="acyclic paths, targeted by an edge profile (Joshi, Bond and Zilles 2004)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=TppOptions,
    guided=s.ProfileKind.EDGES,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("cold_paths", "cold paths", "counted together", of_paths=True),
        s.Loss("overcounted_paths", "obvious paths", "too many"),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
