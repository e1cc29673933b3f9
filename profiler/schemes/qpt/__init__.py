"""`qpt2` and `qpt`: edge and vertex profiling (Ball and Larus 1994)."""

from __future__ import annotations

from collections.abc import Mapping

from simprof import schemes as s
from simprof.profiler.schemes.qpt.options import Qpt2Options, QptOptions, VertexPlacement


def _plan(order: s.PlanOrder, placement: VertexPlacement) -> s.Plan:
    from simprof.profiler.schemes.qpt.planner import make_plan

    return make_plan(order.cfg, placement, Qpt2Options(order.options).blocks, order.weights)


def _code() -> s.SchemeCode:
    return s.SchemeCode(generators=s.STOLEN_GENERATORS)  # of registers stolen from the program


def _collects(options: Mapping[str, object]) -> s.ProfileKind:
    of_edges = options.get("placement") in (VertexPlacement.EDGE, VertexPlacement.MIXED)
    return s.ProfileKind.EDGES if of_edges else s.ProfileKind.BLOCKS


QPT2 = s.SchemeDefinition(
    mode="qpt2",
    description="edges, counters on the chords of a maximum spanning tree (Ball and Larus 1994)",
    plan=lambda order: _plan(order, VertexPlacement.EDGE),
    options=Qpt2Options,
    code=_code,
)
QPT = s.SchemeDefinition(
    mode="qpt",
    description="blocks (Ball and Larus 1994, section 3)",
    collects=_collects,
    plan=lambda order: _plan(order, QptOptions(order.options).placement),
    options=QptOptions,
    code=_code,
)
