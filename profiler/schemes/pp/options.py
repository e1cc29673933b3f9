"""The options of `pp`."""

from __future__ import annotations

from enum import StrEnum

from simprof import schemes as s


class RootEdge(StrEnum):
    """Where EXIT -> ENTRY is, which makes the graph strongly connected (EPP 3.3)."""

    TREE = "tree"  # in the spanning tree
    CHORD = "chord"  # a chord, whose increment is part of every count
    CHEAPER = "cheaper"  # of both, the one whose code executes less by the weights


class PpOptions(s.VertexLimitOptions):
    """The options of `pp`."""

    exit_entry = s.choice(
        RootEdge.TREE,
        "where the edge EXIT -> ENTRY is: in the spanning tree, a chord counted in EXIT, or "
        "where the code executes less by the weights.",
    )
