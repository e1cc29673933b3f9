"""A routine's graph as it may turn out: without some edges of the graph that a run is made on.

A run may expect control to come into a routine where perhaps it never will
(`recovery.calls`). The plans of its schemes depend on whether it does, and that is known
only at the end. So the run follows the graph with all of these ENTRY edges, and each scheme counts
once for every graph that may turn out to be the routine's. Of each scheme one is kept at the end;
it has done all that it would have done alone, in the same order, hash tables included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Protocol

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.plan.plan import InstrumentationPlan


@dataclass(frozen=True)
class GraphVariant:
    """One graph that a routine may turn out to have."""

    cfg: ControlFlowGraph  # The graph. Its blocks are those of the run's graph.
    edges: tuple[int, ...]  # Its edges in the run's graph, by id

    @cached_property
    def _own(self) -> dict[int, int]:
        return {outer: own for own, outer in enumerate(self.edges)}

    def own(self, edges: Iterable[int]) -> tuple[int, ...]:
        """Return edges of the run's graph as this graph's; it does not have all of them."""
        return tuple(self._own[edge] for edge in edges if edge in self._own)

    def outer(self, edges: Iterable[int]) -> frozenset[int]:
        """Return edges of this graph as the run's."""
        return frozenset(self.edges[edge] for edge in edges)


class Variants(Protocol):
    """What knows of which routines the graph depends on the run."""

    def of(self, routine: int) -> Sequence[GraphVariant]:
        """Return all graphs that routine number `routine` may have; none where that is known."""
        ...

    def plan(self, slot: int, routine: int, variant: GraphVariant) -> InstrumentationPlan | None:
        """Return what scheme number `slot` plans for one of them."""
        ...


def variants_of(
    cfg: ControlFlowGraph, base: ControlFlowGraph, expected: Sequence[int]
) -> list[tuple[frozenset[int], GraphVariant]]:
    """Return all graphs that a routine may have, each with the expected edges that are in it.

    - `cfg`: The graph with all expected edges.
    - `base`: That without any.
    - `expected`: These edges, by id.
    """
    subsets = [
        frozenset(taken)
        for size in range(len(expected) + 1)
        for taken in combinations(expected, size)
    ]
    return [(taken, _without(cfg, base, frozenset(expected) - taken)) for taken in subsets]


def _without(
    cfg: ControlFlowGraph, base: ControlFlowGraph, dropped: frozenset[int]
) -> GraphVariant:
    kept = tuple(edge for edge in range(len(cfg.edges)) if edge not in dropped)
    if len(kept) == len(base.edges):
        return GraphVariant(base, kept)
    edges = tuple(cfg.edges[outer]._replace(id=own) for own, outer in enumerate(kept))
    return GraphVariant(replace(cfg, edges=edges), kept)
