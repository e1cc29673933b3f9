"""The options of `ppp`."""

from __future__ import annotations

from enum import StrEnum

from simprof import schemes as s
from simprof.profiler.schemes.tpp import TppOptions


class ValuePlaces(StrEnum):
    """How paths are numbered, and where their numbers' increments are."""

    TREE = "tree"  # the hottest way on has value 0; values are moved off a spanning tree (EPP 3.3)
    EDGES = "edges"  # the same values, each on its own edge
    EPP = "epp"  # EPP's, moved off a spanning tree, as `tpp` does


class PppOptions(s.PathOptions):
    """The options of `ppp`."""

    cold = TppOptions.cold
    loop = TppOptions.loop
    global_cold = s.percentage(
        0.1,
        "percentage of the program's path executions below which an edge is cold in any routine; "
        "0: cold edges are left out as tpp does.",
        metavar="G",
    )
    hot_limit = s.whole_number(
        4000,
        "hot paths of a routine beyond which G is doubled for it until it has fewer, and no "
        "hash table; 0: it never is.",
        least=0,
        greatest=(1 << 31) - 1,
        hint="give a whole number",
        metavar="N",
        word="limit",
    )
    numbering = s.choice(
        ValuePlaces.TREE,
        "the hottest edge out of a block adds 0, and values are moved off a spanning tree; each "
        "stays on its own edge; or EPP's numbers, as tpp.",
    )
    tested = s.flag("distinguish cold paths from hot ones where they are counted, as tpp does.")
    no_pushing = s.flag(
        "move nothing past cold edges, so that no cold path is counted as a hot one."
    )
    skip = s.percentage(
        75.0,
        "percentage of a routine's path executions that, once the edge profile determines them, "
        "leave it without code; 0: none is left.",
        metavar="S",
    )
    first = TppOptions.first

    @property
    def beginning(self) -> int:
        """See `s.Options`."""
        return self.first
