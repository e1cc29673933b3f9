"""Options of `ppp` that its planner reads, too."""

from __future__ import annotations

from enum import StrEnum

from simprof import schemes as s


class ValuePlaces(StrEnum):
    """How paths are numbered, and where their numbers' increments are."""

    TREE = "tree"  # the hottest way on has value 0; values are moved off a spanning tree (EPP 3.3)
    EDGES = "edges"  # the same values, each on its own edge
    EPP = "epp"  # EPP's, moved off a spanning tree, as `tpp` does


GLOBAL = s.percentage(
    name="global_cold",
    default=0.1,
    help="percentage of the program's path executions below which an edge is cold in any routine; "
    "0: cold edges are left out as tpp does.",
    metavar="G",
)
