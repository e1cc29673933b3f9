"""`qpt2` and `qpt`: edge and vertex profiling (Ball and Larus 1994)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.plan.decoders import RoutinePlan
from profiler.schemes.definition import PlanOrder, ProfileKind, SchemeDefinition
from profiler.schemes.qpt.options import PLACEMENT, VertexPlacement


def _plan_qpt2(order: PlanOrder) -> RoutinePlan:
    from profiler.schemes.qpt.planner import plan_qpt2

    return plan_qpt2(order.cfg, weights=order.weights)


def _plan_qpt(order: PlanOrder) -> RoutinePlan:
    from profiler.schemes.qpt.planner import plan_qpt

    return plan_qpt(order.cfg, placement=PLACEMENT.of(order.options), weights=order.weights)


def _describe(plan: RoutinePlan) -> dict[str, Any]:
    from profiler.schemes.qpt.static import describe

    return describe(plan)


def _collects(options: Mapping[str, object]) -> ProfileKind:
    on_edges = options.get("placement") == VertexPlacement.EDGE
    return ProfileKind.EDGES if on_edges else ProfileKind.BLOCKS


QPT2 = SchemeDefinition(
    mode="qpt2",
    description="edges, counters on the chords of a maximum spanning tree (Ball and Larus 1994)",
    plan=_plan_qpt2,
    reads=("weights",),
    describe=_describe,
)
QPT = SchemeDefinition(
    mode="qpt",
    description="blocks (Ball and Larus 1994, section 3)",
    collects=_collects,
    plan=_plan_qpt,
    reads=("weights",),
    options=(PLACEMENT,),
    describe=_describe,
    setting_text=lambda options: f" with placement {options.get('placement')}",
)
