"""`bittrace`, `fifo`: what path profiling is compared with (Ball and Larus 1996, section 2)."""

from __future__ import annotations

from simprof import schemes as s


class BittraceOptions(s.VertexLimitOptions):
    """The options of `bittrace`."""

    merged = s.flag(
        "set the register where the first outcome is known, and count where the last is, as pp "
        "does (EPP 3.4)."
    )


class FifoOptions(s.EdgeOptions):
    """The options of `fifo`."""

    reads = ("weights",)
    branches = s.whole_number(8, "branches of a window.", 1, 60, metavar="N", word="k")


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.bittrace.planner import plan_bittrace

    chosen = BittraceOptions(order.options)
    return plan_bittrace(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=chosen.per_vertex,
        table=order.table,
        merged=chosen.merged,
    )


def _plan_fifo(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.bittrace.planner import plan_fifo

    branches = FifoOptions(order.options).branches
    return plan_fifo(order.cfg, branches=branches, weights=order.weights)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.bittrace.code import CODE

    return CODE


BITTRACE = s.SchemeDefinition(
    mode="bittrace",
    description="acyclic paths, named by their branch outcomes (Ball and Larus 1996, section 2)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=BittraceOptions,
    code=_code,
)
FIFO = s.SchemeDefinition(
    mode="fifo",
    description="windows of the last k branches (Young and Smith, by Ball and Larus 1996, "
    "section 2)",
    collects=s.ProfileKind.WINDOWS,
    plan=_plan_fifo,
    options=FifoOptions,
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
