"""The options of `qpt` and `qpt2`: where counters are, and what a block is."""

from __future__ import annotations

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
