"""Actions of TPP on the edges that its acyclic graph lacks (TPP 4.1.2, A.2, A.3).

Terms
-----
hot graph, kept graph
    The acyclic graph without what is cold, and that without what only obvious paths need. The
    kept graph is instrumented as EPP does it, up to `Detours`.
poisoned vertex
    A vertex of the kept graph where the path register may be poisoned. Counts from there test it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.tpp.code import (
    CountBranching,
    CountColdPath,
    CountHotPath,
    CountUnlessCold,
    Poison,
)

Actions = dict[int, tuple[s.Action, ...]]


class LeftOut(NamedTuple):
    """A control-flow edge that the kept graph lacks, though control can take it: it is cold, or on
    obvious paths only, or paths end with it.
    """

    edge: int
    source: int
    target: int
    ends: bool  # Whether paths end with it
    # Whether a hot path leads over it; where paths end, whether a hot one does, or begins behind it
    comes_hot: bool
    goes_hot: bool


class HotGraphs(Struct, frozen=True, dict=True):
    """The two graphs that decide what happens on which edge."""

    # hot, kept: `kept` is a part of `hot`.
    hot: s.Dag
    kept: s.Dag
    # Whether cold paths have a counter; else they are only kept out of others (TPP 4.1).
    counts_cold: bool = True
    branching: bool = False  # Whether a branch, not a conditional move, chooses it (4.1, A.1)
    # The EXIT block, if control reaches it over obvious recording points and over others
    split: int | None = None

    @cached_property
    def hot_vertices(self) -> frozenset[int]:
        """Vertices on hot paths, ENTRY and EXIT among them if there are any."""
        return frozenset(self.hot.columns.source) | frozenset(self.hot.columns.target)

    @cached_property
    def kept_vertices(self) -> frozenset[int]:
        """Vertices that the kept graph has edges from."""
        return frozenset(self.kept.columns.source)

    @property
    @s.remembers_recent
    def left_out(self) -> tuple[LeftOut, ...]:
        """The edges that the kept graph lacks, ascending."""
        hot, (cfg, dfs) = self.hot, (self.hot.cfg, self.hot.dfs)
        removed, kept, real = frozenset(hot.removed), self.kept.real, hot.real
        last, first, reached = hot.exit_dummy, hot.entry_dummy, dfs.reached
        # Self-loops are no such edges unless paths end at them: their counters change no path.
        inside = kept.keys() | (dfs.self_loops - removed)
        return tuple(
            LeftOut(edge, source, target, True, source in last, target in first)
            if edge in removed
            else LeftOut(edge, source, target, False, edge in real, edge in real)
            for edge, source, target, _ in cfg.edges
            if edge not in inside and source in reached
        )

    @property
    def detours(self) -> s.Detours:
        """What no initialisation and no count is moved past."""
        return self.ways

    @cached_property
    def ways(self) -> s.Detours:
        """Where control leaves the kept graph, and where it comes back poisoned."""
        if not self.kept_vertices:
            return s.Detours()
        joins, leaves = set(), set()
        last, first = self.kept.exit_dummy, self.kept.entry_dummy
        for _, source, target, ends, _, _ in self.left_out:
            if not (ends and source in last):
                leaves.add(source)
            if not (ends and target in first):
                joins.add(target)
        return s.Detours(frozenset(joins & self.kept_vertices), frozenset(leaves))

    @cached_property
    def poisoned(self) -> frozenset[int]:
        """Vertices of the kept graph where the path register may be poisoned."""
        return self.reached(self.ways.joins) - {self.kept.cfg.exit}

    def reached(self, starts: frozenset[int]) -> frozenset[int]:
        """Return the vertices that the kept graph leads to from some, these included."""
        if not starts:
            return starts
        onward, target = self.kept.out_edges, self.kept.columns.target
        return frozenset(s.closure(starts, lambda v: [target[e] for e in onward[v]]))

    @cached_property
    def cold_ends(self) -> frozenset[int]:
        """Edges that end cold paths only."""
        return frozenset(left.edge for left in self.left_out if self._end(left))

    def actions(self, placement: s.Placement, hashed: bool = False) -> Actions:
        """Return the placement's actions, with poison and cold counts; in a hash table or not."""
        source, counted, poisoned = self.hot.cfg.ends[0], placement.counted_region, self.poisoned
        combined: Actions = dict(placement.actions)
        for edge, group in placement.actions.items():
            if source[edge] in poisoned:
                combined[edge] = tuple([self.tested(action, hashed) for action in group])
        # Poison is dropped where nothing could ever meet it.
        dropped: list[s.Action] = [] if poisoned - counted else [Poison()]
        dropped += [] if self.counts_cold else [CountColdPath()]
        for left in self.left_out:
            new = (self._end(left), *combined.get(left.edge, ()), self.start(left, counted))
            if kept := [action for action in new if action and action not in dropped]:
                combined[left.edge] = tuple(kept)
        return dict(sorted(combined.items()))

    def uncounted_entries(self, placement: s.Placement) -> frozenset[int]:
        """Return the edges that lead cold paths without a counter, or obvious ones, to where others
        have been counted.
        """
        if self.counts_cold and self.split is None:
            return frozenset()
        counted = placement.counted_region
        starts = ((left, self.start(left, counted)) for left in self.left_out)
        return frozenset(
            left.edge
            for left, action in starts
            if (left.target == self.split and action is None)
            or (isinstance(action, CountColdPath) and not self.counts_cold)
        )

    def tested(self, action: s.Action, hashed: bool) -> s.Action:
        """What is done in place of an action where poison may be met."""
        if not isinstance(action, s.CountPath):
            return action
        if not self.counts_cold:  # what may be a cold path is counted only if it is none
            return CountUnlessCold(action.constant, action.on_back_edge)
        if self.branching:
            return CountBranching(action.constant, action.on_back_edge)
        return CountHotPath(action.constant, action.on_back_edge, hashed)

    def _end(self, left: LeftOut) -> s.Action | None:
        """What happens to the path that an edge ends, if it does."""
        cfg = self.hot.cfg
        is_end = left.source != cfg.entry and (left.ends or left.target == cfg.exit)
        return CountColdPath() if is_end and not left.comes_hot else None

    def start(self, left: LeftOut, counted: frozenset[int]) -> s.Action | None:
        """What keeps the path that leads on from an edge from being taken for a hot one."""
        # At a cold vertex the register is always poisoned: every way from a hot vertex to it
        # poisons, and nothing changes the register there. So a path that ends at a cold vertex
        # needs no test, and a cold back edge need not poison again (figure 6c).
        target = left.target
        if left.goes_hot or target == self.hot.cfg.exit:
            return None
        if target in counted:
            return CountColdPath()  # nothing counts it later
        if target in self.hot_vertices and target not in self.kept_vertices:
            return None  # nothing counts there
        return Poison() if left.source in self.hot_vertices else None


def register_range(
    kept: s.Dag, actions: Mapping[int, tuple[s.Action, ...]], increments: tuple[int, ...]
) -> int:
    """Return the greatest distance from its first value that a path gets the register to."""
    # Whatever edge a path starts behind, and the first values themselves, are counted in.
    least, most = [0] * kept.cfg.vertex_count, [0] * kept.cfg.vertex_count
    placed = chain.from_iterable(actions.values())
    starts = (abs(action.constant) for action in placed if isinstance(action, s.SetRegister))
    first = max(starts, default=0)
    target = kept.columns.target
    for vertex in kept.topological:
        for edge in kept.out_edges[vertex]:
            low, high, to = (
                least[vertex] + increments[edge],
                most[vertex] + increments[edge],
                target[edge],
            )
            if low < least[to]:
                least[to] = low
            if high > most[to]:
                most[to] = high
    return first + max(max(most), -min(least))
