"""From what a run counted to what each scheme's counters hold.

A `Scheme` is the run-time face of one mode: it plans a routine when the run first needs it, and
afterwards hands the routine's counters to the plan's decoder. The edge counts of every mode come
from that mode's counters alone and are compared with those that the automaton saw; a difference
is a defect of simprof and never passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from profiler.engine.automaton import Automaton
from profiler.engine.lowering import Lowering
from profiler.engine.products import CountedSegment, Totals
from profiler.engine.segment_replay import SegmentReplay
from profiler.engine.walk import GraphIndex
from profiler.graphs import flow
from profiler.graphs.cfg import ControlFlowGraph
from profiler.graphs.facts import GraphFacts, graph_facts
from profiler.plan.decoders import Reading, RoutineCounters, RoutinePlan, UnfinishedPath
from profiler.plan.plan import InstrumentationPlan
from profiler.request.errors import CountError
from profiler.request.request import Setting

WRAP = 1 << 32
"""The papers' counters have 32 bits."""


@dataclass(frozen=True)
class UnfinishedSegment:
    """Activations that ended early in `block`: their segment register and state, how many."""

    block: int
    register: int
    segments: int
    count: int


@dataclass(frozen=True)
class RoutineEvents:
    """What the run itself counted in one routine.

    Attributes
    ----------
    edges
        Crossings by edge id.
    ends
        The activations that ended early.
    """

    cfg: ControlFlowGraph
    edges: tuple[int, ...]
    ends: tuple[UnfinishedSegment, ...]

    @property
    def early(self) -> dict[int, int]:
        """Block id -> activations that ended early in it."""
        early: Counter[int] = Counter()
        for end in self.ends:
            early[end.block] += end.count
        return dict(early)

    @property
    def activations(self) -> int:
        """How often the routine was entered."""
        return sum(self.edges[edge] for edge in self.cfg.out_edges[self.cfg.entry])

    @cached_property
    def graph_facts(self) -> GraphFacts:
        """What reports say of the routine's graph; the same under all schemes."""
        return graph_facts(self.cfg)

    @property
    def block_counts(self) -> tuple[int, ...]:
        """Executions by block."""
        return flow.block_counts(self.cfg, self.edges)


GraphSource = Callable[[int], ControlFlowGraph | None]
"""Routine number -> its graph if it is to be profiled."""


class Scheme:
    """One mode during one run.

    Parameters
    ----------
    setting
        The mode and its options.
    graphs
        The routines to profile.
    make
        Plans a routine; None for a mode that instruments nothing.
    slot
        Its number among the schemes that count paths; None if it does not.
    """

    def __init__(
        self,
        setting: Setting,
        graphs: GraphSource,
        make: Callable[[ControlFlowGraph], RoutinePlan] | None,
        slot: int | None,
    ) -> None:
        self.setting = setting
        self.slot = slot
        self._graphs = graphs
        self._make = make
        self._plans: dict[int, RoutinePlan | None] = {}

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.setting.name

    def selects(self, routine: int) -> bool:
        """Whether routine number `routine` is to be profiled."""
        return self._graphs(routine) is not None

    def routine_plan(self, routine: int) -> RoutinePlan | None:
        """The plan of a routine with its decoder; None where there is none."""
        if routine not in self._plans:
            cfg = None if self._make is None else self._graphs(routine)
            made = None if cfg is None or self._make is None else self._make(cfg)
            self._plans[routine] = made
        return self._plans[routine]

    def plan(self, routine: int) -> InstrumentationPlan | None:
        """The plan of a routine; None where there is none."""
        whole = self.routine_plan(routine)
        return None if whole is None else whole.plan


@dataclass
class _PathTotals:
    """Of one scheme on one routine: finished segments, and what was left unfinished."""

    totals: Totals = field(default_factory=Totals)
    unfinished: Counter[tuple[int, tuple[int, ...], int | None]] = field(default_factory=Counter)


class Counters:
    """The counters of all schemes after a run.

    Parameters
    ----------
    lowering
        Of the run.
    events
        By routine number.
    """

    def __init__(self, lowering: Lowering, events: Mapping[int, RoutineEvents]) -> None:
        self._lowering = lowering
        self._events = events
        self._paths = {
            key: _PathTotals(totals) for key, totals in lowering.products.totals().items()
        }
        for routine, mine in events.items():
            for end in mine.ends:
                self._finish(routine, end)

    def _finish(self, routine: int, end: UnfinishedSegment) -> None:
        products = self._lowering.products
        found = products.finish(routine, end.block, end.register, end.segments, end.count)
        for slot, (stretch, path) in found.items():
            mine = self._paths.setdefault((routine, slot), _PathTotals())
            mine.totals.add(stretch, end.count)
            mine.unfinished[path.block, path.registers, path.last] += end.count

    def replay(self, scheme: Scheme, slot: int) -> bool:
        """Count under a scheme that was not part of the run, as number `slot`.

        False, with nothing counted, where that is not possible (see `replay`).
        """
        made: dict[tuple[int, int], _PathTotals] = {}
        segments = self._segments
        for routine, events in self._events.items():
            plan = scheme.plan(routine)
            if plan is None or not plan.counts_paths:
                continue
            product = self._lowering.products.product(routine)
            if product is None:
                return False
            replay = SegmentReplay(events.cfg, plan, product, segments.get(routine, ()))
            if not replay.possible:
                return False
            mine = made[routine, slot] = _PathTotals(replay.totals)
            for end in events.ends:
                history = self._lowering.products.history(end.segments)
                stretch = replay.unfinished(history, end.register, end.block)
                if stretch is None:
                    return False
                mine.totals.add(stretch, end.count)
                mine.unfinished[end.block, *stretch.after] += end.count
        self._paths |= made
        return True

    @cached_property
    def _segments(self) -> dict[int, list[CountedSegment]]:
        return self._lowering.products.segments()

    def of(self, scheme: Scheme, routine: int) -> RoutineCounters:
        """What the counters of `scheme` for routine number `routine` hold."""
        events = self._events[routine]
        plan = scheme.plan(routine)
        values: tuple[int, ...] = ()
        if plan is not None:
            values = plan.event_counts(events.edges, events.block_counts)
        mine = _PathTotals()
        if scheme.slot is not None:
            mine = self._paths.get((routine, scheme.slot), mine)
        _, hashing = self._lowering.hashing(routine, scheme.slot or 0)
        return RoutineCounters(
            paths=dict(sorted(mine.totals.paths.items())),
            events=values,
            early=events.early,
            unfinished=tuple(UnfinishedPath(*end, n) for end, n in mine.unfinished.items()),
            hashed=mine.totals.hashed,
            hashing=0 if scheme.slot is None else hashing,
            taken=mine.totals.taken,
        )


def check_reading(events: RoutineEvents, mode: str, reading: Reading) -> None:
    """Compare the counts that a scheme derives with those that the run saw.

    Raises
    ------
    CountError
        Naming the first edge or block that differs: a defect of simprof.
    """
    cfg = events.cfg
    for edge, counted in enumerate(reading.edges or ()):
        if counted != events.edges[edge]:
            ends = cfg.edges[edge]
            place = f"edge {cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)}"
            raise _defect(cfg, mode, place, counted, events.edges[edge])
    if reading.blocks is not None:
        pairs = zip(reading.blocks, events.block_counts, strict=True)
        for block, (counted, executed) in enumerate(pairs):
            if counted != executed:
                raise _defect(cfg, mode, f"block {cfg.name_of(block)}", counted, executed)


def _defect(cfg: ControlFlowGraph, mode: str, place: str, counted: int, seen: int) -> CountError:
    return CountError(
        f"{cfg.name}: {mode} counts {counted} for {place}, which was executed {seen} times: "
        "this is a defect of simprof, please report the program"
    )


def collect_events(index: GraphIndex, automaton: Automaton) -> dict[int, RoutineEvents]:
    """What the run counted, by number of every routine that was entered."""
    counts = automaton.edge_counts()
    ends: dict[int, list[UnfinishedSegment]] = {}
    for end, count in automaton.tally.early.items():
        routine = index.routine(end.block)
        block = end.block - int(index.first_block[routine])
        left = UnfinishedSegment(block, end.register, end.segments, count)
        ends.setdefault(routine, []).append(left)
    touched = np.unique(np.searchsorted(index.first_edge, np.flatnonzero(counts), "right") - 1)
    events = {}
    for routine in sorted({*touched.tolist(), *ends}):
        first, last = index.first_edge[routine], index.first_edge[routine + 1]
        events[routine] = RoutineEvents(
            index.recovered.routines[routine],
            tuple(counts[first:last].tolist()),
            tuple(ends.get(routine, ())),
        )
    return events
