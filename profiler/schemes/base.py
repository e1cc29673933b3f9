"""What the schemes share: the one interface, and paths as they are reported."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from profiler.cfg import ControlFlowGraph, EdgeKind
from profiler.plan import InstrumentationPlan


class PathStart(StrEnum):
    """Where a path starts."""

    ENTRY = "entry"
    LOOP = "back-edge"  # at the target of a back edge
    CUT = "cut"  # at the target of cut edges only


class PathEnd(StrEnum):
    """Where a path ends."""

    EXIT = "exit"
    LOOP = "back-edge"  # at the source of a back edge
    CUT = "cut"  # at the source of cut edges only
    DEAD_END = "dead-end"  # in a block that control never leaves; never counted
    PARTIAL = "partial"  # unfinished: its activation ended early


@dataclass(frozen=True)
class PathRecord:
    """A path as reported.

    Attributes
    ----------
    blocks
        Block ids in order.
    edges
        Control-flow edge ids in order, edges from ENTRY and to EXIT included; the edges that
        ended the path before it and that ended this one (back edges, cut edges) are not.
    start, end
        Why it starts and ends where it does.
    """

    blocks: tuple[int, ...]
    edges: tuple[int, ...]
    start: PathStart
    end: PathEnd

    @property
    def partial(self) -> bool:
        """Whether the path was never finished."""
        return self.end is PathEnd.PARTIAL

    def instructions(self, cfg: ControlFlowGraph) -> int:
        """Instructions that one execution of the path executes."""
        return sum(cfg.blocks[block].instructions for block in self.blocks)

    def inner_edges(self, cfg: ControlFlowGraph) -> tuple[int, ...]:
        """Its edges between blocks: one less than it has blocks."""
        outer = (EdgeKind.ENTRY, EdgeKind.EXIT)
        return tuple(edge for edge in self.edges if cfg.edges[edge].kind not in outer)


class RoutinePlan(Protocol):
    """One scheme on one routine: what to do on which edge, and how to read the counters."""

    @property
    def cfg(self) -> ControlFlowGraph:
        """The routine."""
        ...

    @property
    def plan(self) -> InstrumentationPlan:
        """The actions."""
        ...

    @property
    def weights(self) -> tuple[float, ...]:
        """The edge weights that guided the placement, by edge id."""
        ...

    def validate(self) -> None:
        """Raise AssertionError if any structure of the plan is not as it must be."""
        ...
