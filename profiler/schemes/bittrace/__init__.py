"""`bittrace`, `fifo`: what path profiling is compared with (Ball and Larus 1996, section 2)."""

from __future__ import annotations

from simprof import schemes as s

MERGED = s.flag(
    "merged",
    "set the register where the first outcome is known, and count where the last is, as pp does "
    "(EPP 3.4).",
)

BRANCHES = s.SchemeOption(
    name="branches",
    kind=int,
    default=8,
    help="branches of a window.",
    hint="give a whole number from 1 to 60",
    metavar="N",
    word="k",
    least=1,
    greatest=60,
)


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.bittrace.planner import plan_bittrace

    return plan_bittrace(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=s.PER_VERTEX.of(order.options),
        table=order.table,
        merged=MERGED.of(order.options),
    )


def _plan_fifo(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.bittrace.fifo import plan_fifo

    return plan_fifo(order.cfg, branches=BRANCHES.of(order.options), weights=order.weights)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.bittrace.code import CODE

    return CODE


BITTRACE = s.SchemeDefinition(
    mode="bittrace",
    description="acyclic paths, named by their branch outcomes (Ball and Larus 1996, section 2)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    reads=s.PLANNING,
    options=(MERGED, s.PER_VERTEX, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
    code=_code,
)
FIFO = s.SchemeDefinition(
    mode="fifo",
    description="windows of the last k branches (Young and Smith, by Ball and Larus 1996, "
    "section 2)",
    collects=s.ProfileKind.WINDOWS,
    plan=_plan_fifo,
    reads=("weights",),
    options=(BRANCHES, s.LAYOUT),
    code=_code,
    losses=(
        s.Loss(
            "limited_routines",
            "windows",
            "with fewer than k branches in a window: four words hold no more",
            "routine",
        ),
    ),
)
