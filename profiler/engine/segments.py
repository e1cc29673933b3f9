"""Path segments: what the kernel counts so that every scheme's counters follow, and how they do.

A routine's *segmentation* cuts the walks through its graph into acyclic pieces, at back edges and
wherever else the caller wants, and numbers them as EPP numbers paths: one register, increments on
the chords of a maximum spanning tree. Which schemes run does not matter to it. A segment knows
its edges, the one that ended it included, so that whatever actions a scheme has on them can be
executed for all executions of the segment at once (`products`).

What a plan does along a segment depends on its path registers at the segment's start alone, so it
is executed in Python once for each pair of these that occurs (`SegmentEffect`), and its counters
are sums (`Totals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import Operation
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import PathNumbering
from simprof.profiler.graphs.paths import number_paths
from simprof.profiler.graphs.spanning import heuristic
from simprof.profiler.plan.actions import (
    Action,
    CountEdge,
    Execution,
    PathIncrement,
    RegisterEffect,
    TakenPart,
)
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan

# Segments from one vertex beyond which walks are cut there: keys stay within 63 bits.
SEGMENT_LIMIT = 1 << 32


class Segmentation(Struct, frozen=True):
    """The segments of one routine."""

    # A segment's key is what the kernel's register holds when it ends: the segment's number, the
    # place of the edge that ended it, flags, and a 1 that keeps keys from being 0. Flags are bits
    # that whoever crosses a segment's first or last edge may set once (`products`).

    cfg: ControlFlowGraph
    dag: Dag
    numbering: PathNumbering
    increments: tuple[int, ...]  # By edge of the dag, unscaled
    # By vertex, what register values lack to the sum of the segment's values (unscaled).
    potential: tuple[int, ...]
    shift: int  # number of bits below the segment's number in a key
    flags: int = 0  # how many of them are flags

    @property
    def steps(self) -> dict[int, tuple[Operation, ...]]:
        """Edge id -> what the kernel does on it: BEGIN, where an activation begins, without the
        segment state, which is the run's; ADD; SEGMENT, where a segment ends.
        """
        # Made anew, as only lowering asks, and these are as large as a plan.
        return _steps(self.dag, [each << self.shift for each in self.increments], self.flags)

    def decode(self, key: int) -> tuple[int, ...]:
        """Return the edges of a segment in order, from ENTRY or behind a cut to its end."""
        # Raises `ValueError` if there is no such segment.
        place = (key & (1 << self.shift) - 1) >> self.flags + 1
        if place > len(self.dag.removed):
            raise ValueError(f"{self.cfg.name} has no segment {key}")
        edges = self._real(self.numbering.decode(key >> self.shift))
        if place:
            edges = (*edges, self.dag.removed[place - 1])
        return edges

    def decode_prefix(self, register: int, block: int) -> tuple[int, ...]:
        """Return the edges of the unfinished segment of an activation that is in `block`."""
        # Raises `ValueError` if there is no such segment.
        path_sum = (register >> self.shift) + self.potential[block]
        return self._real(self.numbering.decode_prefix(path_sum, block))

    def flags_of(self, key: int) -> int:
        """Return the flags that are set in a key, or in the register of an unfinished segment."""
        return key >> 1 & (1 << self.flags) - 1

    def _real(self, path: tuple[int, ...]) -> tuple[int, ...]:
        edges = map(self.dag.columns.cfg_edge.__getitem__, path)
        return tuple([edge for edge in edges if edge >= 0])


def segment(
    cfg: ControlFlowGraph,
    cuts: Collection[int] = (),
    weights: Sequence[float] | None = None,
    flags: int = 0,
) -> Segmentation:
    """Cut `cfg` into segments."""
    # `cuts`: Edges that must end a segment. Edges from ENTRY begin one and edges to EXIT end one in
    # any case; self-loops are in none unless they are among these.
    # `weights`: Edge weights by edge id; None for BL94's heuristic.
    # `flags`: How many flags keys have.
    dfs = depth_first(cfg)
    ending = frozenset(
        edge
        for edge in cuts
        if edge not in dfs.back_edges
        and cfg.edges[edge].target != cfg.exit
        and cfg.edges[edge].source != cfg.entry
        and cfg.edges[edge].source in dfs.reached
    )
    turns = frozenset(cuts) & dfs.self_loops
    dag, numbering, _, chords = number_paths(
        cfg,
        dfs,
        heuristic(cfg, dfs) if weights is None else weights,
        path_limit=SEGMENT_LIMIT,
        total_limit=SEGMENT_LIMIT,
        cuts=ending,
        merged=turns,
    )
    shift = 1 + flags + len(dag.removed).bit_length()
    return Segmentation(cfg, dag, numbering, chords.increments, chords.potential, shift, flags)


def _steps(dag: Dag, increments: Sequence[int], flags: int) -> dict[int, tuple[Operation, ...]]:
    """Place the steps: no figure 8 here, so that a segment is counted where it ends."""
    cfg = dag.cfg
    steps: dict[int, tuple[Operation, ...]] = {}
    ends = zip(
        dag.columns.source, dag.columns.target, dag.columns.cfg_edge, increments, strict=True
    )
    for source, target, edge, increment in ends:
        if edge < 0:
            continue
        placed: list[Operation] = []
        if source == cfg.entry:
            placed.append((kernels.BEGIN, increment, 0))
        rest = 0 if placed else increment
        if target == cfg.exit:
            placed.append((kernels.SEGMENT, rest | 1, 0))
        elif rest:
            placed.append((kernels.ADD, rest, 0))
        if placed:
            steps[edge] = tuple(placed)
    for place, removed in enumerate(dag.removed, 1):
        _, source, target, _ = cfg.edges[removed]
        last = increments[dag.exit_dummy[source]]
        first = increments[dag.entry_dummy[target]]
        steps[removed] = ((kernels.SEGMENT, last | place << flags + 1 | 1, first),)
    return steps


# -- Plans along segments

# Whether the guard where a segment began let an action pass, and that where it ended.
Passed = tuple[bool, bool]
# A player's state: its path registers, and its last counter where that may be asked for. Registers
# whose values nobody will read are left out: else stale path numbers would make as many states as
# there are paths.
PathState = tuple[tuple[int, ...], int | None]


class SegmentEffect(NamedTuple):
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

    def add(self, effect: SegmentEffect, times: int) -> None:
        """Count `effect` `times` times."""
        for counter, _ in effect.counted:
            self.paths[counter] += times
        for part in effect.taken:
            self.taken[part] += times
        self.hashed_increments += effect.hashed_increments * times


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
        self.effects: list[SegmentEffect] = []
        self.follows: list[int] = []  # Of each of them, the number of the state behind it
        self.states: list[PathState] = []  # By number
        self._numbers: dict[PathState, int] = {}
        self.start = self.states[self._number((plan.initial, None))]
        self._cfg = cfg
        # A state's number and a segment's key in one integer -> the index among `effects`
        self._known: dict[int, int] = {}
        self._dead: dict[int, bool] = {}  # By vertex: see `_reads_ahead`
        # Edges whose counts in a table are among those at the end of a segment
        source, _ = cfg.ends
        self._in_order = frozenset(edge for edge in self._hashing() if source[edge] != cfg.entry)

    def _number(self, state: PathState) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def _hashing(self) -> frozenset[int]:
        """Return the edges on which paths are counted in a table, in order, under numbers that only
        a register knows.
        """
        return frozenset(
            edge
            for edge, actions in (self.plan.actions.items() if self.plan.counts_in_order else ())
            for action in actions
            if action.effect is RegisterEffect.USES
        )

    def ending_edges(self) -> frozenset[int]:
        """Return the edges that must end segments for the sake of the plan."""
        return acting_turns(self._cfg, self.plan) | self._hashing() | self.plan.guards.keys()

    def effect(
        self, state: int, key: int, edges: Sequence[int], passed: Passed = (False, False)
    ) -> int:
        """Index in `effects` of what segment `key`, which has these edges, does from a state."""
        known = self._known.get(state << 64 | key)
        if known is None:
            known = self._known[state << 64 | key] = len(self.effects)
            made = self.execute(self.states[state], edges, ends=True, passed=passed)
            self.effects.append(made)
            self.follows.append(self._numbers[made.after])
        return known

    def execute(
        self,
        state: PathState,
        edges: Sequence[int],
        *,
        ends: bool,
        passed: Passed = (False, False),
    ) -> SegmentEffect:
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
        counted, is_hashed = tuple(execution.counted), plan.table is CounterTable.HASH
        return SegmentEffect(
            # one object for all that end in the same state: there are as many as all else together
            after=self.states[self._number((registers, last))],
            counted=counted,
            taken=tuple(execution.taken),
            at_end=tuple(at_end),
            hashed_increments=(sum(count.counter >= 0 for count in counted) if is_hashed else 0),
        )

    def fixed_counts(self) -> Iterator[tuple[int, PathIncrement]]:
        """Yield edges with the hashed counts on them that need no segment to end: their numbers are
        fixed.
        """
        execution, initial = Execution([]), self.plan.initial
        for edge, actions in self.plan.actions.items() if self.plan.counts_in_order else ():
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
