"""`pp`: efficient path profiling (Ball and Larus 1996)."""

from __future__ import annotations

from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.schemes.definition import (
    LAYOUT,
    PER_VERTEX,
    PLANNING,
    REGISTERS,
    PlanOrder,
    ProfileKind,
    SchemeDefinition,
    registers_of_paths,
)
from simprof.profiler.schemes.pp.options import EXIT_ENTRY


def _plan(order: PlanOrder) -> RoutinePlan:
    from simprof.profiler.schemes.pp.planner import plan_pp

    return plan_pp(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=PER_VERTEX.of(order.options),
        table=order.table,
        root=EXIT_ENTRY.of(order.options),
    )


PP = SchemeDefinition(
    mode="pp",
    description="acyclic paths (Ball and Larus 1996)",
    collects=ProfileKind.PATHS,
    plan=_plan,
    reads=PLANNING,
    options=(EXIT_ENTRY, PER_VERTEX, REGISTERS, LAYOUT),
    registers=registers_of_paths,
)
