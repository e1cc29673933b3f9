"""What one scheme does along path segments: its plan, executed once a state and segment.

The kernel counts segments, not the actions of a plan. What a plan does along a segment depends on
its path registers at the segment's start alone, so it is executed in Python once for each pair of
these that occurs (`Stretch`), and its counters are sums (`Totals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct, field

from simprof.profiler.graphs.cfg import ControlFlowGraph, remembers_recent
from simprof.profiler.plan.actions import (
    Action,
    CountEdge,
    Execution,
    Guard,
    PathIncrement,
    RegisterEffect,
    TakenPart,
)
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan

# Whether the guard where a segment began let an action pass, and that where it ended.
Passed = tuple[bool, bool]
# A player's state: its path registers, and its last counter where that may be asked for. Registers
# whose values nobody will read are left out: else stale path numbers would make as many states as
# there are paths.
PathState = tuple[tuple[int, ...], int | None]


class Stretch(NamedTuple):
    """What a scheme does along a segment from one of its states."""

    after: PathState  # The state behind it
    # counted, taken: As in `Execution`.
    counted: tuple[PathIncrement, ...]
    taken: tuple[TakenPart, ...]
    # Those of `counted` that the kernel counts in a hash table when the segment ends; others that
    # are hashed have operations of their own (`Player.fixed_counts`).
    at_end: tuple[PathIncrement, ...]
    hashed_increments: int  # How many of `counted` are hashed, both kinds


class Totals(Struct):
    """Counters of one scheme on one routine, as `RoutineCounters` has them."""

    paths: Counter[int] = field(default_factory=Counter)
    taken: Counter[TakenPart] = field(default_factory=Counter)
    hashed_increments: int = 0

    def add(self, stretch: Stretch, times: int) -> None:
        """Count `stretch` `times` times."""
        for counter, _ in stretch.counted:
            self.paths[counter] += times
        for part in stretch.taken:
            self.taken[part] += times
        self.hashed_increments += stretch.hashed_increments * times


def acting_turns(cfg: ControlFlowGraph, plan: InstrumentationPlan) -> frozenset[int]:
    """Return the self-loops on which more is done than counting the edge."""
    # Such an edge has to end segments: edge counts do not tell what is done there.
    source, target = cfg.ends
    acting = {
        edge
        for edge, actions in plan.actions.items()
        if source[edge] == target[edge]
        and any(not isinstance(action, CountEdge) for action in actions)
    }
    entries = (edge for edge in plan.uncounted_entries if source[edge] == target[edge])
    return frozenset(acting.union(entries))


class Player:
    """One scheme on one routine: executes its plan along segments."""

    def __init__(self, cfg: ControlFlowGraph, plan: InstrumentationPlan) -> None:
        self.plan = plan
        self._is_hashed = plan.table is CounterTable.HASH
        self._is_ordered = plan.counts_in_order
        self.stretches: list[Stretch] = []
        self.start: PathState = (plan.initial, None)
        self._cfg = cfg
        self._known: dict[tuple[PathState, int], int] = {}
        # Edges on which paths are counted in a table, in order, under numbers that only a register
        # knows
        self._hashing = {
            edge
            for edge, actions in (plan.actions.items() if self._is_ordered else ())
            if any(action.effect is RegisterEffect.USES for action in actions)
        }
        in_order = self._hashing.difference(cfg.out_edges[cfg.entry])
        self._acts = {
            edge: _Act(actions, edge in in_order, edge in plan.uncounted_entries)
            for edge, actions in plan.actions.items()
        }
        for edge in range(len(cfg.edges)) if plan.is_duplicated else ():
            self._acts.setdefault(edge, _Act((), False, False))  # crossed in one of two copies
        for edge in plan.uncounted_entries:
            self._acts.setdefault(edge, _Act((), False, True))

    @property
    def acting_edges(self) -> frozenset[int]:
        """The edges on which the plan does something."""
        return frozenset(self.plan.actions)

    def ending_edges(self) -> frozenset[int]:
        """Return the edges that must end segments for the sake of the plan."""
        return acting_turns(self._cfg, self.plan) | self._hashing | self.plan.guards.keys()

    @cached_property
    def _dead(self) -> frozenset[int]:
        # Not where all segments that were executed lead to EXIT: there nobody asks.
        return _dead_registers(self._cfg, self.plan)

    def stretch(
        self, state: PathState, key: int, edges: Sequence[int], passed: Passed = (False, False)
    ) -> int:
        """Index in `stretches` of what segment `key`, which has these edges, does from `state`."""
        known = self._known.get((state, key))
        if known is None:
            known = self._known[state, key] = len(self.stretches)
            self.stretches.append(self.execute(state, edges, ends=True, passed=passed))
        return known

    def execute(
        self,
        state: PathState,
        edges: Sequence[int],
        *,
        ends: bool,
        passed: Passed = (False, False),
    ) -> Stretch:
        """Execute the plan along `edges`; `ends`: they are a whole segment."""
        is_duplicated = self.plan.is_duplicated
        execution = Execution(list(state[0]), state[1], is_duplicated=is_duplicated)
        at_end: list[PathIncrement] = []
        for place, edge in enumerate(edges, 1):
            act = self._acts.get(edge)
            if act is None:
                continue
            before = len(execution.counted)
            execution.passes = passed[ends and place == len(edges)]
            execution.run(edge, act.actions)
            if act.in_order:
                at_end += [count for count in execution.counted[before:] if count.counter >= 0]
            if act.forgets:
                execution.last = None
        registers, last = tuple(execution.registers), execution.last
        if edges:
            block = self._cfg.ends[1][edges[-1]]
            if block not in self.plan.counted_region:
                last = None
            if ends and (block == self._cfg.exit or block in self._dead):
                registers = self.start[0]
        counted = tuple(execution.counted)
        return Stretch(
            after=(registers, last),
            counted=counted,
            taken=tuple(execution.taken),
            at_end=tuple(at_end),
            hashed_increments=(
                sum(count.counter >= 0 for count in counted) if self._is_hashed else 0
            ),
        )

    def guard(self, edge: int) -> Guard | None:
        """Return what decides about an action on an edge; None: nothing does."""
        return self.plan.guards.get(edge)

    def fixed_counts(self, edge: int) -> list[PathIncrement]:
        """Hashed counts on `edge` that need no segment to end: their numbers are fixed."""
        act = self._acts.get(edge) if self._is_ordered else None
        if act is None or act.in_order:
            return []
        execution = Execution(list(self.start[0]))
        execution.run(edge, act.actions)
        return [count for count in execution.counted if count.counter >= 0]


class _Act(NamedTuple):
    """What a plan does on one edge."""

    actions: tuple[Action, ...]  # in order
    in_order: bool  # whether its hashed counts are among those at the end of a segment
    forgets: bool  # whether a path begins there that nothing counts (`plan.uncounted_entries`)


def _dead_registers(cfg: ControlFlowGraph, plan: InstrumentationPlan) -> frozenset[int]:
    """Vertices at which nobody reads a path register before it is set or given up."""
    effect, source = {edge: _effect(acts) for edge, acts in plan.actions.items()}, cfg.ends[0]
    live = {source[edge] for edge, reads in effect.items() if reads}
    live |= _never_leaving(cfg)
    acting = {edge for edge, reads in effect.items() if reads is not None}
    return frozenset(range(cfg.vertex_count)) - _before(cfg, live, acting)


def _before(
    cfg: ControlFlowGraph, vertices: Collection[int], barred: Collection[int] = ()
) -> set[int]:
    """Return vertices, and those from which edges that are not barred lead to one of them."""
    found, work = set(vertices), list(vertices)
    sources, entering = cfg.ends[0], cfg.in_edges
    while work:
        for edge in entering[work.pop()]:
            source = sources[edge]
            if source not in found and edge not in barred:
                found.add(source)
                work.append(source)
    return found


@remembers_recent
def _never_leaving(cfg: ControlFlowGraph) -> frozenset[int]:
    """Vertices from which no way leads to EXIT: activations there can only end early."""
    # No action reads the register of an unfinished path there, but its decoder does.
    return frozenset(range(cfg.vertex_count)) - _before(cfg, {cfg.exit})


def _effect(actions: Iterable[Action]) -> bool | None:
    """Whether the first action on registers reads them (True) or sets them (False)."""
    for action in actions:
        if action.effect is not RegisterEffect.IGNORES:
            return action.effect is not RegisterEffect.DEFINES
    return None
