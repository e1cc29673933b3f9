"""`tpp`: targeted path profiling (Joshi, Bond and Zilles 2004)."""

from __future__ import annotations

from collections.abc import Mapping

from simprof import schemes as s

COLD = s.percentage(
    name="cold",
    default=5.0,  # TPP(5, 15): "a good trade-off between accuracy and overhead" (TPP 5.1)
    help="percentage of its source's executions below which an edge is cold.",
    metavar="I",
)


def _loop_fallback(options: Mapping[str, s.OptionValue]) -> s.OptionValue:
    """`tpp:cold=0` alone removes nothing, loops' entries included: the paths are those of `pp`."""
    return LOOP.default if options["cold"] else 0.0


LOOP = s.percentage(
    name="loop",
    default=15.0,
    help="percentage of its head's executions below which entries disconnect a loop.",
    metavar="J",
    default_text="15; 0 if cold=0",
    fallback=_loop_fallback,
)
COLD_ALWAYS = s.flag(
    "cold_always", "leave out cold edges even where no hash table becomes an array by that."
)
LITERAL_COLD = s.flag(
    "literal_cold",
    "take for cold what no path without cold edges from ENTRY to EXIT leads through, loops "
    "included.",
)
OBVIOUS_FIRST = s.flag(
    "obvious_first",
    "find obvious paths before cold ones are left out, so that no cold path is counted as one.",
)
COUNT_OBVIOUS = s.flag("count_obvious", "count obvious paths too (determined by the edge profile).")
NO_COLD_COUNTER = s.flag(
    "no_cold_counter", "keep cold paths out of all counts, and count them nowhere."
)
BRANCHING = s.flag(
    "branching", "tell cold paths from hot ones by a branch, instead of a conditional move."
)
FIRST = s.SchemeOption(
    name="first",
    kind=int,
    default=0,
    help="instructions at the run's beginning whose edge profile guides it; 0: all.",
    hint="give a number of instructions",
    metavar="N",
    least=0,
)


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.tpp.planner import plan_tpp

    if order.edge_counts is None:
        raise s.UsageError("tpp needs an edge profile: give one with --edge-profile")
    return plan_tpp(
        order.cfg,
        order.edge_counts,
        cold=COLD.of(order.options),
        loop=LOOP.of(order.options),
        cold_always=COLD_ALWAYS.of(order.options),
        literal_cold=LITERAL_COLD.of(order.options),
        obvious_first=OBVIOUS_FIRST.of(order.options),
        count_obvious=COUNT_OBVIOUS.of(order.options),
        cold_counter=not NO_COLD_COUNTER.of(order.options),
        branching=BRANCHING.of(order.options),
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
    reads=s.PLANNING,
    options=(
        COLD,
        LOOP,
        COLD_ALWAYS,
        LITERAL_COLD,
        OBVIOUS_FIRST,
        COUNT_OBVIOUS,
        NO_COLD_COUNTER,
        BRANCHING,
        FIRST,
        s.REGISTERS,
        s.LAYOUT,
    ),
    registers=s.registers_of_paths,
    guided=s.ProfileKind.EDGES,
    beginning=FIRST.of,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("cold_paths", "cold paths", "counted together", of_paths=True),
        s.Loss("overcounted_paths", "obvious paths", "too many"),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
