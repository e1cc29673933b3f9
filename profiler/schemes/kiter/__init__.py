"""`kiter`: k-iteration paths (Roy and Srikant 2009)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simprof import schemes as s


class KiterOptions(s.PathOptions):
    """The options of `kiter`."""

    iterations = s.whole_number(
        2,
        "iterations of innermost loops that a path spans (of all loops with outer).",
        least=1,
        greatest=1000,
        metavar="K",
        word="k",
    )
    iterations_of = s.SchemeOption(
        "",
        "k of some routines (names, with wildcards), or loops (by the block at their head): "
        "main=4+sort@0x10400=1+@B=3. The last one that fits a loop counts.",
        "give ROUTINE=K, ROUTINE@HEAD=K or @HEAD=K, several with + between, K from 1 to 1000",
        metavar="WHERE=K+...",
        word="k-of",
        default_text="none",
        pattern=r"([^+=]+=0*([1-9][0-9]{0,2}|1000)(\+(?!$)|$))*",
    )
    outer = s.flag(
        "iterate loops that hold others too: the loops inside are collapsed, and have paths of "
        "their own."
    )
    hot = s.percentage(
        0.0,
        "percent of its routine's instructions that a loop needs to be iterated, by the weights: "
        "counts where --weights names a saved profile.",
        metavar="PERCENT",
        default_text="0: all are",
    )
    unoptimised = s.flag("add every edge's value on that edge, as the paper's measurements do.")
    hash_above = s.whole_number(
        0,
        "paths beyond which a routine's counters are in a hash table (6000 in the paper).",
        least=0,
        greatest=(1 << 31) - 1,
        hint="give a whole number, 0 to go by the increments",
        metavar="N",
        default_text="0: by the increments, as EPP does",
    )
    give_up = s.whole_number(
        0,
        "paths beyond which a routine is not profiled at all (60000 in the paper).",
        least=0,
        greatest=(1 << 31) - 1,
        hint="give a whole number, 0 to lower k instead",
        metavar="N",
        default_text="0: k is lowered instead",
    )


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.kiter.loops import read_choices
    from simprof.profiler.schemes.kiter.planner import give_up, plan_kiter

    chosen = KiterOptions(order.options)
    plan = plan_kiter(
        order.cfg,
        iterations=chosen.iterations,
        outer=chosen.outer,
        choices=read_choices(chosen.iterations_of),
        hot=chosen.hot,
        weights=order.weights,
        path_limit=order.options.path_limit,
        table=order.table,
        event_counting=not chosen.unoptimised,
        hash_above=chosen.hash_above or None,
    )
    return give_up(plan, chosen.give_up or None)


def _notes(options: s.SchemeOptions, routines: Iterable[s.ControlFlowGraph]) -> Iterator[str]:
    from simprof.profiler.schemes.kiter.loops import unmatched

    if left := unmatched(KiterOptions(options).iterations_of, routines):
        yield f"kiter: k-of names no loop: {', '.join(left)}"


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.kiter.code import CODE

    return CODE


KITER = s.SchemeDefinition(
    mode="kiter",
    description="paths over k iterations of loops (Roy and Srikant 2009)",
    collects=s.ProfileKind.ITERATION_PATHS,
    plan=_plan,
    options=KiterOptions,
    code=_code,
    notes=_notes,
    losses=(
        s.Loss("given_up_routines", "paths", "not profiled: more paths than give-up", "routine"),
    ),
)
