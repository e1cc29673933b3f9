"""From what a run counted to what each scheme measured.

A `Scheme` is the run-time face of one mode: it plans a routine when the run first needs it, and
reads its own counters afterwards. The edge counts of every mode come from that mode's counters
alone and are compared with those that the automaton saw; a difference is a defect of simprof
and never passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from profiler.automaton import Automaton
from profiler.cfg import ControlFlowGraph
from profiler.errors import CountError
from profiler.lowering import CounterArea
from profiler.plan import InstrumentationPlan
from profiler.schemes.base import PathRecord, RoutinePlan
from profiler.schemes.pp import PathPlan
from profiler.schemes.qpt import EdgePlan
from profiler.walk import GraphIndex

WRAP = 1 << 32
"""The papers' counters have 32 bits."""


@dataclass(frozen=True)
class RoutineEvents:
    """What the run itself counted in one routine.

    Attributes
    ----------
    edges
        Crossings by edge id.
    early
        Block id -> activations that ended early in it.
    ends
        For each of those activations, how many: (block, register, last counter), the pair of
        each path register in turn.
    """

    cfg: ControlFlowGraph
    edges: tuple[int, ...]
    early: Mapping[int, int]
    ends: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...]

    @property
    def activations(self) -> int:
        """How often the routine was entered."""
        return sum(self.edges[edge] for edge in self.cfg.out_edges[self.cfg.entry])

    @property
    def block_counts(self) -> tuple[int, ...]:
        """Executions by block."""
        cfg = self.cfg
        return tuple(
            sum(self.edges[edge] for edge in cfg.in_edges[block.id]) for block in cfg.blocks
        )


@dataclass(frozen=True)
class Reading:
    """What one scheme's counters say of one routine.

    Attributes
    ----------
    edges
        Count by edge id, derived from the scheme's counters.
    paths
        Path number -> count.
    partial
        Unfinished paths with their counts.
    path_increments, hashed_increments, edge_increments
        How often the scheme's code incremented a counter of each kind.
    hashing
        Instructions that the hashing routine executed.
    largest
        The largest counter.
    """

    edges: tuple[int, ...]
    paths: Mapping[int, int] = field(default_factory=dict)
    partial: Mapping[PathRecord, int] = field(default_factory=dict)
    path_increments: int = 0
    hashed_increments: int = 0
    edge_increments: int = 0
    hashing: int = 0
    largest: int = 0


GraphSource = Callable[[int], ControlFlowGraph | None]
"""Routine number -> its graph if it is to be profiled."""


class Scheme(Protocol):
    """One mode during one run."""

    name: str
    slot: int | None

    def selects(self, routine: int) -> bool:
        """Whether routine number `routine` is to be profiled."""
        ...

    def plan(self, routine: int) -> InstrumentationPlan | None:
        """The plan for routine number `routine`, None where it is not to be profiled."""
        ...

    def routine_plan(self, routine: int) -> RoutinePlan | None:
        """The plan with its decoder."""
        ...

    def read(self, routine: int, events: RoutineEvents, counters: Counters) -> Reading:
        """Read the counters of a routine."""
        ...


class Counters:
    """The path counters of a run, by scheme slot and routine."""

    def __init__(self, automaton: Automaton, areas: Sequence[Mapping[int, CounterArea]]) -> None:
        self._memory = automaton.memory
        self._areas = areas

    def area(self, slot: int, routine: int) -> CounterArea:
        """Where the counters are."""
        return self._areas[slot][routine]

    def paths(self, area: CounterArea) -> dict[int, int]:
        """Counter number -> value, where that is not 0."""
        return self._memory.path_counts(area)

    def hashing(self, area: CounterArea) -> tuple[int, int]:
        """(calls, instructions) of the hashing routine."""
        return self._memory.hashing(area)


P = TypeVar("P", bound=RoutinePlan)


class _Planned(Generic[P]):
    """What schemes with a plan a routine share: plans are made when they are first needed."""

    def __init__(self, graphs: GraphSource, make: Callable[[ControlFlowGraph], P]) -> None:
        self._graphs = graphs
        self._make = make
        self.plans: dict[int, P] = {}

    def selects(self, routine: int) -> bool:
        """See `Scheme`."""
        return self._graphs(routine) is not None

    def routine_plan(self, routine: int) -> P | None:
        """See `Scheme`."""
        cfg = self._graphs(routine)
        if cfg is not None and routine not in self.plans:
            self.plans[routine] = self._make(cfg)
        return self.plans.get(routine)

    def plan(self, routine: int) -> InstrumentationPlan | None:
        """See `Scheme`."""
        plan = self.routine_plan(routine)
        return None if plan is None else plan.plan


class PathScheme(_Planned[PathPlan]):
    """`pp`: acyclic paths."""

    name = "pp"

    def __init__(
        self, graphs: GraphSource, make: Callable[[ControlFlowGraph], PathPlan], slot: int
    ) -> None:
        super().__init__(graphs, make)
        self.slot: int | None = slot

    def read(self, routine: int, events: RoutineEvents, counters: Counters) -> Reading:
        """See `Scheme`."""
        plan = self.plans[routine]
        assert self.slot is not None
        area = counters.area(self.slot, routine)
        paths = Counter(counters.paths(area))
        increments = sum(paths.values())
        partial: Counter[PathRecord] = Counter()
        for block, registers, count in events.ends:
            register, last = registers[self.slot]
            last_id = last - area.base
            partial[plan.decode_partial(register, last_id, block)] += count
            if block in plan.counted_region:
                paths[last_id] -= count
        values = plan.plan.edge_counter_values(events.edges)
        calls, hashing = counters.hashing(area)
        return Reading(
            edges=plan.edge_counts(paths, values, partial.items()),
            paths={number: count for number, count in sorted(paths.items()) if count},
            partial=partial,
            path_increments=increments,
            hashed_increments=calls,
            edge_increments=sum(values),
            hashing=hashing,
            largest=max([*paths.values(), *values], default=0),
        )


class EdgeScheme(_Planned[EdgePlan]):
    """`qpt2`: edges, from counters on the chords of a maximum spanning tree."""

    name = "qpt2"
    slot: int | None = None

    def read(self, routine: int, events: RoutineEvents, counters: Counters) -> Reading:
        """See `Scheme`."""
        plan = self.routine_plan(routine)
        assert plan is not None
        values = plan.plan.edge_counter_values(events.edges)
        return Reading(
            edges=plan.edge_counts(values, events.early),
            edge_increments=sum(values),
            largest=max(values, default=0),
        )


class PlainScheme:
    """`edges`: what the emulator counts by itself; no instrumentation."""

    name = "edges"
    slot: int | None = None

    def __init__(self, graphs: GraphSource) -> None:
        self._graphs = graphs

    def selects(self, routine: int) -> bool:
        """See `Scheme`."""
        return self._graphs(routine) is not None

    def routine_plan(self, routine: int) -> None:
        """No plan."""

    def plan(self, routine: int) -> InstrumentationPlan | None:
        """See `Scheme`."""
        return None

    def read(self, routine: int, events: RoutineEvents, counters: Counters) -> Reading:
        """See `Scheme`."""
        return Reading(edges=events.edges)


def check_edges(cfg: ControlFlowGraph, mode: str, read: Sequence[int], seen: Sequence[int]) -> None:
    """Compare a scheme's edge counts with those that the run saw.

    Raises
    ------
    CountError
        Naming the first edge that differs: a defect of simprof.
    """
    for edge, (counted, crossed) in enumerate(zip(read, seen, strict=True)):
        if counted != crossed:
            ends = cfg.edges[edge]
            raise CountError(
                f"{cfg.name}: {mode} counts {counted} for edge "
                f"{_shown(cfg, ends.source)} -> {_shown(cfg, ends.target)}, which was crossed "
                f"{crossed} times: this is a defect of simprof, please report the program"
            )


def _shown(cfg: ControlFlowGraph, vertex: int) -> str:
    name = cfg.vertex_name(vertex)
    return f"{name:#x}" if isinstance(name, int) else name


def collect_events(index: GraphIndex, automaton: Automaton) -> dict[int, RoutineEvents]:
    """What the run counted, by number of every routine that was entered."""
    counts = automaton.edge_counts()
    ends: dict[int, list[tuple[int, tuple[tuple[int, int], ...], int]]] = {}
    for end, count in automaton.tally.early.items():
        routine = index.routine(end.block)
        block = end.block - int(index.first_block[routine])
        ends.setdefault(routine, []).append((block, end.registers, count))
    touched = np.unique(np.searchsorted(index.first_edge, np.flatnonzero(counts), "right") - 1)
    events = {}
    for routine in sorted({*touched.tolist(), *ends}):
        first, last = index.first_edge[routine], index.first_edge[routine + 1]
        early: Counter[int] = Counter()
        for block, _, count in ends.get(routine, ()):
            early[block] += count
        events[routine] = RoutineEvents(
            index.recovered.routines[routine],
            tuple(counts[first:last].tolist()),
            early,
            tuple(ends.get(routine, ())),
        )
    return events
