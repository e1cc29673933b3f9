"""What one scheme does along path segments: its plan, executed once a state and segment.

The kernel counts segments, not the actions of a plan. What a plan does along a segment depends on
its path registers at the segment's start alone, so it is executed in Python once for each pair of
these that occurs (`Stretch`), and its counters are sums (`Totals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from simprof.profiler.graphs.cfg import ControlFlowGraph
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
        self._dead: dict[int, bool] = {}  # By vertex: see `_reads_ahead`
        # Edges on which paths are counted in a table, in order, under numbers that only a register
        # knows
        self._hashing = {
            edge
            for edge, actions in (plan.actions.items() if self._is_ordered else ())
            for action in actions
            if action.effect is RegisterEffect.USES
        }
        # Those of them whose counts are among those at the end of a segment
        self._in_order = {edge for edge in self._hashing if cfg.ends[0][edge] != cfg.entry}

    def ending_edges(self) -> frozenset[int]:
        """Return the edges that must end segments for the sake of the plan."""
        return acting_turns(self._cfg, self.plan) | self._hashing | self.plan.guards.keys()

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
        plan, actions, entries = self.plan, self.plan.actions, self.plan.uncounted_entries
        execution = Execution(list(state[0]), state[1], is_duplicated=plan.is_duplicated)
        at_end: list[PathIncrement] = []
        acting = edges
        if not plan.is_duplicated:  # else the crossing itself is noted, in one of two copies
            acting = [edge for edge in edges if edge in actions or edge in entries]
        for edge in acting:
            before = len(execution.counted)
            execution.passes = passed[ends and edge == edges[-1]]
            execution.run(edge, actions.get(edge, ()))
            if edge in self._in_order:
                at_end += [count for count in execution.counted[before:] if count.counter >= 0]
            if edge in entries:  # a path begins there that nothing counts
                execution.last = None
        registers, last = tuple(execution.registers), execution.last
        if edges:
            block = self._cfg.ends[1][edges[-1]]
            if last is not None and block not in plan.counted_region:
                last = None
            if ends and registers != self.start[0] and self._is_dead(block):
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

    def fixed_counts(self) -> Iterator[tuple[int, PathIncrement]]:
        """Yield edges with the hashed counts on them that need no segment to end: their numbers are
        fixed.
        """
        execution, initial = Execution([]), self.plan.initial
        for edge, actions in self.plan.actions.items() if self._is_ordered else ():
            if edge in self._in_order:
                continue
            before = len(execution.counted)
            execution.registers[:] = initial
            execution.run(edge, actions)
            yield from ((edge, each) for each in execution.counted[before:] if each.counter >= 0)

    def _is_dead(self, vertex: int) -> bool:
        """Whether nobody reads a path register at `vertex` before it is set or given up."""
        known = self._dead.get(vertex)
        if known is None:
            is_read = vertex != self._cfg.exit and _reads_ahead(self._cfg, self.plan, vertex)
            known = self._dead[vertex] = not is_read
        return known


def _reads_ahead(cfg: ControlFlowGraph, plan: InstrumentationPlan, vertex: int) -> bool:
    """Whether a path register may be read behind `vertex` before it is set."""
    # As a rule, the first way that is tried leads to a count.
    targets, leaving, found, work = cfg.ends[1], cfg.out_edges, {vertex}, [vertex]
    while work:
        for edge in leaving[work.pop()]:
            actions, target = plan.actions.get(edge), targets[edge]
            reads = _reads(actions) if actions else None
            if reads:
                return True
            if reads is None and target not in found:
                found.add(target)
                work.append(target)
    # No action reads the register of a path that cannot end, but its decoder does.
    return not _all_leave(cfg, found)


def _all_leave(cfg: ControlFlowGraph, vertices: Iterable[int]) -> bool:
    """Whether EXIT can be reached from each of `vertices`: else activations there end early."""
    targets, leaving = cfg.ends[1], {cfg.exit}
    for start in vertices:
        before, work = {start: start}, [start]  # vertex -> the one that it was found from
        while work and work[-1] not in leaving:
            vertex = work.pop()
            for target in (targets[edge] for edge in cfg.out_edges[vertex]):
                if target not in before:
                    before[target] = vertex
                    work.append(target)
        if not work:
            return False
        vertex = work.pop()
        while vertex != start:
            vertex = before[vertex]
            leaving.add(vertex)
    return True


def _reads(actions: Iterable[Action]) -> bool | None:
    """Whether the first action on registers reads them (True) or sets them (False)."""
    for action in actions:
        if action.effect is not RegisterEffect.IGNORES:
            return action.effect is not RegisterEffect.DEFINES
    return None
