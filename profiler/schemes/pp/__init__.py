"""`pp`: efficient path profiling (Ball and Larus 1996)."""

from __future__ import annotations

from simprof import schemes as s
from simprof.profiler.schemes.pp.options import PpOptions


def _plan(order: s.PlanOrder) -> s.Plan:
    from simprof.profiler.schemes.pp.planner import plan_pp

    chosen = PpOptions(order.options)
    return plan_pp(
        order.cfg,
        weights=order.weights,
        path_limit=order.options.path_limit,
        per_vertex=chosen.per_vertex,
        table=order.table,
        root=chosen.exit_entry,
    )


PP = s.SchemeDefinition(
    mode="pp",
    description="acyclic paths (Ball and Larus 1996)",
    collects=s.ProfileKind.PATHS,
    plan=_plan,
    options=PpOptions,
)
