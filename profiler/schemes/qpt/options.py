"""The option of `qpt`: where its counters are."""

from __future__ import annotations

from enum import StrEnum

from profiler.schemes.definition import SchemeOption


class VertexPlacement(StrEnum):
    """Where `qpt` puts its counters (BL94 section 3)."""

    REDUNDANT = "redundant"  # in every block
    VERTEX_OPTIMAL = "vertex-optimal"  # in fewest blocks: Vprof(Vcnt), Knuth and Stevenson
    EDGE_HEURISTIC = "edge-heuristic"  # on edges, as figure 11 chooses them: Vprof(Ecnt)
    EDGE = "edge"  # on the chords of a spanning tree, as `qpt2`: Eprof(Ecnt)


PLACEMENT = SchemeOption(
    name="placement",
    kind=VertexPlacement,
    default=VertexPlacement.REDUNDANT,
    help="where the counters are.",
    hint=f"give one of {', '.join(VertexPlacement)}",
)
