"""`pp`: efficient path profiling (Ball and Larus 1996)."""

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.pp.options import EXIT_ENTRY


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.pp.planner import plan_pp

    return plan_pp(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=s.PER_VERTEX.of(order.options),
        table=order.table,
        root=EXIT_ENTRY.of(order.options),
    )


PP = s.SchemeDefinition(
    mode="pp",
    description="acyclic paths (Ball and Larus 1996)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    reads=s.PLANNING,
    options=(EXIT_ENTRY, s.PER_VERTEX, s.REGISTERS, s.LAYOUT),
    registers=s.registers_of_paths,
)
