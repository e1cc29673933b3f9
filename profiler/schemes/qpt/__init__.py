"""`qpt2` and `qpt`: edge and vertex profiling (Ball and Larus 1994)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from simprof import schemes as s


class VertexPlacement(StrEnum):
    """Where `qpt` puts its counters (BL94 section 3)."""

    REDUNDANT = "redundant"  # in every block
    VERTEX_OPTIMAL = "vertex-optimal"  # in fewest blocks: Vprof(Vcnt), Knuth and Stevenson
    EDGE_HEURISTIC = "edge-heuristic"  # on edges, as figure 11 chooses them: Vprof(Ecnt)
    MIXED = "mixed"  # on edges and in blocks: Eprof(Mcnt), tells edges, too
    EDGE = "edge"  # on the chords of a spanning tree, as `qpt2`: Eprof(Ecnt)


class BlockBasis(StrEnum):
    """What the blocks are that counters are placed for."""

    SPLIT = "split"  # those of docs/SEMANTICS.md, which end at calls and delay slots
    MERGED = "merged"  # BL94's straight-line sequences: `contract`
    FOLDED = "folded"  # these, and the slot of an annulled branch is part of its edge


class Qpt2Options(s.RegisterOptions):
    """The options of `qpt2`."""

    reads = ("weights",)
    blocks = s.choice(
        BlockBasis.SPLIT,
        "blocks that end at calls and delay slots, straight-line splits merged, or also slots of "
        "annulled branches folded into their edges.",
    )


class QptOptions(Qpt2Options):
    """The options of `qpt`."""

    placement = s.choice(VertexPlacement.REDUNDANT, "where the counters are.")


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
