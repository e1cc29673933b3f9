"""`qpt2` and `qpt`: edge and vertex profiling (Ball and Larus 1994)."""

from __future__ import annotations

from collections.abc import Mapping

from simprof import schemes as s
from simprof.profiler.schemes.qpt.options import BLOCKS, PLACEMENT, VertexPlacement


def _plan(order: s.PlanOrder, placement: VertexPlacement) -> s.Plan:
    from simprof.profiler.schemes.qpt.planner import make_plan

    return make_plan(order.cfg, placement, BLOCKS.of(order.options), order.weights)


def _code() -> s.SchemeCode:
    from simprof.profiler.schemes.qpt.code import CODE

    return CODE


def _collects(options: Mapping[str, object]) -> s.ProfileKind:
    of_edges = options.get("placement") in (VertexPlacement.EDGE, VertexPlacement.MIXED)
    return s.ProfileKind.EDGES if of_edges else s.ProfileKind.BLOCKS


QPT2 = s.SchemeDefinition(
    mode="qpt2",
    description="edges, counters on the chords of a maximum spanning tree (Ball and Larus 1994)",
    plan=lambda order: _plan(order, VertexPlacement.EDGE),
    reads=("weights",),
    options=(BLOCKS, s.REGISTERS, s.LAYOUT),
    code=_code,
    registers=s.REGISTERS.of,
)
QPT = s.SchemeDefinition(
    mode="qpt",
    description="blocks (Ball and Larus 1994, section 3)",
    collects=_collects,
    plan=lambda order: _plan(order, PLACEMENT.of(order.options)),
    reads=("weights",),
    options=(PLACEMENT, BLOCKS, s.REGISTERS, s.LAYOUT),
    code=_code,
    registers=s.REGISTERS.of,
)
