"""What `ppp` puts on cold edges: free poison, and nothing that keeps code from moving past them.

Terms
-----
free poison
    Where a cold path comes to the kept graph, at vertex w, the path register is set so that all
    sums of increments from there end beyond the last path's number: N - lo(w), with N paths and
    lo(w) the least sum of increments from w to EXIT. The values of the edges from w add up to
    0 .. NumPaths(w) - 1, and potentials make increments of them (`ChordIncrements`), so lo(w) is
    the potential of w, and a poisoned register counts in N .. N + NumPaths(w) - 1. No count tests
    it. An array has so many counters more; together they are the counter of cold paths.
pushed past
    Cold edges keep no initialisation and no count from moving (PPP). Where a count has moved up
    past a cold edge, the cold path that takes the edge is counted as a hot one; so is a cold path
    that comes to where the register is still to be set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from simprof import schemes as s
from simprof.profiler.schemes.tpp.actions import CountColdPath, Poison
from simprof.profiler.schemes.tpp.poisoning import Actions, HotGraphs, LeftOut


class PracticalGraphs(HotGraphs, frozen=True, dict=True):
    """The two graphs that decide what happens on which edge."""

    free: bool = True  # Whether poison is free
    pushes: bool = True  # Whether code moves past cold edges

    @cached_property
    def detours(self) -> s.Detours:
        """What no initialisation and no count is moved past."""
        if not self.pushes:
            return self.ways
        # What obvious paths take is not cold, and nothing moves past it.
        last, first = self.kept.exit_dummy, self.kept.entry_dummy
        left_out = self.left_out
        leaves = {left.source for left in left_out if left.comes_hot and left.source not in last}
        joins = {left.target for left in left_out if left.goes_hot and left.target not in first}
        return s.Detours(self.ways.joins & joins, self.ways.leaves & leaves)

    def start(self, left: LeftOut, counted: frozenset[int]) -> s.Action | None:
        """What keeps the path that leads on from an edge from being taken for a hot one."""
        if not self.free:
            return super().start(left, counted)
        if left.goes_hot or left.target == self.hot.cfg.exit:
            return None
        if left.target in counted:
            return CountColdPath()  # nothing counts it later
        return Poison() if left.target in self.kept_vertices else None

    def tested(self, action: s.Action, hashed: bool) -> s.Action:
        """What is done in place of an action where poison may be met."""
        return action if self.free else super().tested(action, hashed)

    def poisoning_edges(self, placement: s.Placement) -> dict[int, int]:
        """Return the edges that poison the register, and where they lead."""
        counted, static = placement.counted_region, placement.static_region
        return {
            left.edge: left.target
            for left in self.left_out
            # Where the register is still to be set, poison would be lost.
            if isinstance(self.start(left, counted), Poison) and left.target not in static
        }

    def practical_actions(
        self,
        placement: s.Placement,
        hashed: bool,
        numbering: s.PathNumbering,
        potential: Sequence[int],
    ) -> tuple[Actions, int]:
        """Return what is done on edges, and how many counters an array has."""
        poisoned, total = self.poisoning_edges(placement), numbering.total
        made: Actions = {}
        for edge, group in self.actions(placement, hashed).items():
            kept = [action for action in group if edge in poisoned or action != Poison()]
            if self.free and edge in poisoned:
                poison = s.SetRegister(total - potential[poisoned[edge]])
                kept = [poison if action == Poison() else action for action in kept]
            if kept:
                made[edge] = tuple(kept)
        more = [numbering.num_paths[vertex] for vertex in poisoned.values() if self.free]
        return made, total + max(more, default=0)

    def pushed_past(self, counted: frozenset[int], static: frozenset[int]) -> Iterator[int]:
        """Yield the edges, once for each reason, whose crossings bound how many executions of cold
        paths are counted as hot: each wrong count is of the last path that comes from such an edge
        to where the register is set, or of the first that leaves by one where all is counted.
        """
        for left in self.left_out:
            if not left.comes_hot and left.source in counted:
                yield left.edge
            if not left.goes_hot and left.target in static:
                yield left.edge

    def doubtful(self, counted: frozenset[int], static: frozenset[int]) -> frozenset[int]:
        """Return where a path may be another than it seems, as code moved past cold edges."""
        unpoisoned = static.intersection(left.target for left in self.left_out if not left.goes_hot)
        return self.reached(unpoisoned) | (self.poisoned & counted)

    def unseen(self, counted: frozenset[int]) -> Iterator[int]:
        """Yield the edges whose crossings are ends of cold paths that nothing counts, if poison is
        free: paths end at them, or lead from them to where others have been counted.
        """
        source = self.hot.cfg.ends[0]
        yield from (edge for edge in self.cold_ends if source[edge] not in counted)
        for left in self.left_out:
            entered = isinstance(self.start(left, counted), CountColdPath)
            if entered and (left.ends or left.source not in counted):
                yield left.edge
