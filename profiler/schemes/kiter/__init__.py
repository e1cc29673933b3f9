"""`kiter`: k-iteration paths (Roy and Srikant 2009)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simprof import schemes as s

ITERATIONS = s.SchemeOption(
    name="iterations",
    kind=int,
    default=2,
    help="iterations of innermost loops that a path spans (of all loops with outer).",
    hint="give a whole number from 1 to 1000",
    metavar="K",
    word="k",
    least=1,
    greatest=1000,
)
OUTER = s.flag(
    "outer",
    "iterate loops that hold others too: the loops inside are collapsed, and have paths of their "
    "own.",
)
UNOPTIMISED = s.flag(
    "unoptimised", "add every edge's value on that edge, as the paper's measurements do."
)
HASH_ABOVE = s.SchemeOption(
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


ITERATIONS_OF = s.SchemeOption(
    name="iterations_of",
    kind=str,
    default="",
    help="k of some routines (names, with wildcards), or loops (by the block at their head): "
    "main=4+sort@0x10400=1+@B=3. The last one that fits a loop counts.",
    hint="give ROUTINE=K, ROUTINE@HEAD=K or @HEAD=K, several with + between, K from 1 to 1000",
    metavar="WHERE=K+...",
    word="k-of",
    default_text="none",
    pattern=r"([^+=]+=0*([1-9][0-9]{0,2}|1000)(\+(?!$)|$))*",
)
HOT = s.percentage(
    name="hot",
    default=0.0,
    help="percent of its routine's instructions that a loop needs to be iterated, by the weights: "
    "counts where --weights names a saved profile.",
    metavar="PERCENT",
    default_text="0: all are",
)
GIVE_UP = s.SchemeOption(
    name="give_up",
    kind=int,
    default=0,
    help="paths beyond which a routine is not profiled at all (60000 in the paper).",
    hint="give a whole number, 0 to lower k instead",
    metavar="N",
    least=0,
    greatest=(1 << 31) - 1,
    default_text="0: k is lowered instead",
)


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.kiter.choice import read_choices
    from simprof.profiler.schemes.kiter.nested import plan_outer
    from simprof.profiler.schemes.kiter.planner import give_up, plan_kiter

    makers = (plan_outer, plan_kiter) if OUTER.of(order.options) else (plan_kiter,)
    plans = (
        make(
            order.cfg,
            iterations=ITERATIONS.of(order.options),
            choices=read_choices(ITERATIONS_OF.of(order.options)),
            hot=HOT.of(order.options),
            weights=order.weights,
            path_limit=order.options.path_limit,
            table=order.table,
            event_counting=not UNOPTIMISED.of(order.options),
            hash_above=HASH_ABOVE.of(order.options) or None,
        )
        for make in makers
    )
    plan = next(plan for plan in plans if plan is not None)
    return give_up(plan, GIVE_UP.of(order.options) or None)


def _notes(options: s.SchemeOptions, routines: Iterable[s.ControlFlowGraph]) -> Iterator[str]:
    from simprof.profiler.schemes.kiter.choice import unmatched

    if left := unmatched(ITERATIONS_OF.of(options), routines):
        yield f"kiter: k-of names no loop: {', '.join(left)}"


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.kiter.code import CODE

    return CODE


KITER = s.SchemeDefinition(
    mode="kiter",
    description="paths over k iterations of loops (Roy and Srikant 2009)",
    collects=s.ProfileKind.ITERATION_PATHS,
    plan=_plan,
    reads=s.PLANNING,
    options=(
        ITERATIONS,
        ITERATIONS_OF,
        OUTER,
        HOT,
        UNOPTIMISED,
        HASH_ABOVE,
        GIVE_UP,
        s.REGISTERS,
        s.LAYOUT,
    ),
    registers=s.registers_of_paths,
    code=_code,
    notes=_notes,
    losses=(
        s.Loss("given_up_routines", "paths", "not profiled: more paths than give-up", "routine"),
    ),
)
