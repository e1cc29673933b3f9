"""`ppp`: practical path profiling (after Bond and McKinley, CGO 2005)."""

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.ppp.options import GLOBAL, ValuePlaces
from simprof.profiler.schemes.tpp import COLD, FIRST, LOOP

LIMIT = s.SchemeOption(
    name="hot_limit",
    kind=int,
    default=4000,
    help="hot paths of a routine beyond which G is doubled for it until it has fewer, and no "
    "hash table; 0: it never is.",
    hint="give a whole number",
    metavar="N",
    word="limit",
    least=0,
    greatest=(1 << 31) - 1,
)
NUMBERING = s.choice(
    "numbering",
    ValuePlaces.TREE,
    "the hottest way on adds 0, and values are moved off a spanning tree; each stays on its own "
    "edge; or EPP's numbers, as tpp.",
)
TESTED = s.flag(
    "tested", "tell cold paths from hot ones where they are counted, as tpp does, not for free."
)
NO_PUSHING = s.flag(
    "no_pushing", "move nothing past cold edges, so that no cold path is counted as a hot one."
)
SKIP = s.percentage(
    name="skip",
    default=75.0,
    help="percentage of a routine's path executions that, once the edge profile determines them, "
    "leave it without code; 0: none is left.",
    metavar="S",
)
PARTS = (GLOBAL, LIMIT, NUMBERING, TESTED, NO_PUSHING, SKIP)  # As of `planner.Parts`


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.ppp.planner import Parts, plan_ppp

    if order.edge_counts is None or order.unit_flow is None:
        raise s.UsageError("ppp needs an edge profile: give one with --edge-profile")
    chosen = order.options
    parts = Parts(order.unit_flow, *[option.of(chosen) for option in PARTS])
    return plan_ppp(
        order.cfg,
        order.edge_counts,
        parts,
        cold=COLD.of(chosen),
        loop=LOOP.of(chosen),
        weights=order.weights,
        path_limit=chosen.path_limit,
        table=order.table,
    )


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.tpp.code import CODE

    return CODE


PPP = s.SchemeDefinition(
    mode="ppp",
    description="acyclic paths, practical path profiling (after Bond and McKinley 2005)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    reads=s.PLANNING,
    options=(COLD, LOOP, *PARTS, FIRST, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
    guided=s.ProfileKind.EDGES,
    whole_program=True,
    beginning=FIRST.of,
    judged_by="pp",
    code=_code,
    losses=(
        s.Loss("cold_paths", "cold paths", "counted together", of_paths=True),
        s.Loss("pushed_paths", "cold paths", "counted as hot ones, at most"),
        s.Loss("overcounted_paths", "obvious paths", "too many"),
        s.Loss("unpredicted_paths", "paths of routines left out", "not identified", of_paths=True),
        s.Loss("unknown_unfinished", "unfinished paths", "not identified"),
    ),
)
