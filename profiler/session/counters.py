"""Counts of a run by routine, and the contents of each scheme's counters.

The counts that a mode reports come from that mode's counters alone and are compared with those
that the automaton saw (`check_reading`); a difference is a defect of simprof, never passed over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.engine.products import (
    CountedSegment,
    Products,
    RoutineProduct,
    SegmentReplay,
)
from simprof.profiler.engine.segments import Totals
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.graphs import flow
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.decoders import (
    Plan,
    Reading,
    RoutineCounters,
    UnfinishedPath,
    defect_of,
)
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.profiles.profile import CutBlock
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import Setting
from simprof.profiler.schemes.definition import own_table
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.simulator.binary.program import MachineKind


class UnfinishedSegment(Struct, frozen=True):
    """Activations of a routine that ended early in the same way."""

    block: int  # The block in which they ended, by its id in the routine
    register: int  # What their segment register held
    segments: int  # The state of the segment automaton in which their last segment began
    count: int  # How many activations these are


class RoutineEvents(Struct, frozen=True, dict=True):
    """What the run itself counted in one routine."""

    cfg: ControlFlowGraph
    edges: tuple[int, ...]  # Crossings by edge id
    ends: tuple[UnfinishedSegment, ...]  # The activations that ended early
    cut: tuple[CutBlock, ...] = ()  # The executions of blocks that did not come to their end

    @cached_property
    def early(self) -> Mapping[int, int]:
        """Block id -> activations that ended early in it."""
        early: dict[int, int] = defaultdict(int)
        for end in self.ends:
            early[end.block] += end.count
        return dict(early)

    @cached_property
    def activations(self) -> int:
        """How many activations the routine had: calls of it, and re-entries."""
        by_edge = zip(self.cfg.edges, self.edges, strict=True)
        return sum(count for edge, count in by_edge if edge.source == self.cfg.entry)

    @cached_property
    def entered(self) -> int:
        """How often the routine was entered anew."""
        by_edge = zip(self.cfg.edges, self.edges, strict=True)
        return sum(count for edge, count in by_edge if edge.kind is EdgeKind.ENTRY)

    @cached_property
    def block_counts(self) -> tuple[int, ...]:
        """Executions by block."""
        return flow.block_counts(self.cfg, self.edges)

    @property
    def instructions(self) -> int:
        """Instructions executed: those of the routine's blocks, but for what was not reached."""
        counts = zip(self.block_counts, self.cfg.blocks, strict=True)
        entered = sum(count * block.instructions for count, block in counts)
        return entered - sum(self.unexecuted.values())

    @cached_property
    def unexecuted(self) -> Mapping[int, int]:
        """Block id -> its instructions that executions of it did not reach."""
        total: Counter[int] = Counter()
        for cut in self.cut:
            total[cut.block] += cut.count * (self.cfg.blocks[cut.block].instructions - cut.executed)
        return total


def collect_events(
    # Which numbers belong to which routine
    index: GraphIndex,
    # Crossings by program-wide edge number
    edge_counts: NDArray[np.int64],
    # How many activations ended early, by how they did
    early: Mapping[EarlyEnd, int],
    # How many executions of a block (its program-wide number) ended before an address in it
    cut: Mapping[tuple[int, int], int] = MappingProxyType({}),
) -> dict[int, RoutineEvents]:
    """Return what the run counted, by number of every routine that was entered."""
    cuts: dict[int, list[CutBlock]] = defaultdict(list)
    for (number, address), count in cut.items():
        routine = index.routine(number)
        executed = (address - index.block_start(number)) // 4
        cuts[routine].append(CutBlock(number - int(index.first_block[routine]), executed, count))
    ends: dict[int, list[UnfinishedSegment]] = defaultdict(list)
    for end, count in early.items():
        routine = index.routine(end.block)
        block = end.block - int(index.first_block[routine])
        ends[routine].append(UnfinishedSegment(block, end.register, end.segments, count))
    crossed = np.flatnonzero(edge_counts)
    touched = np.searchsorted(index.first_edge, crossed, "right") - 1  # ascending
    entered = touched[np.diff(touched, prepend=-1) > 0].tolist()
    events = {}
    for routine in sorted({*entered, *ends}):
        first, last = index.first_edge[routine], index.first_edge[routine + 1]
        events[routine] = RoutineEvents(
            index.recovered.routines[routine],
            tuple(edge_counts[first:last].tolist()),
            tuple(ends.get(routine, ())),
            tuple(cuts.get(routine, ())),
        )
    return events


WRAP = 1 << 32  # The papers' counters have 32 bits


class _PathTotals(Struct):
    """What one scheme counted in one routine."""

    # Along segments, finished ones and the crossed part of others
    totals: Totals = field(default_factory=Totals)
    # (block, path registers, last counter) -> activations that ended early in this state
    unfinished: Counter[tuple[int, tuple[int, ...], int | None]] = field(default_factory=Counter)


# (scheme, routine number) -> what the scheme's counters for the routine hold.
ReadCounters = Callable[[SchemeRun, int], RoutineCounters]


class Counters:
    """The counters of all schemes after a run."""

    def __init__(
        self,
        lowering: Lowering,
        events: Mapping[int, RoutineEvents],
        # How often each transition of the segment automaton counts; None: as often as it was taken
        times: Sequence[int] | None = None,
        machine: MachineKind = MachineKind.SPARCV9,  # What the code is for
    ) -> None:
        self._machine = machine
        self._hash_work = lowering.hash_works()
        self._entries = {owner: lowering.entries(n) for n, owner in lowering.tables().items()}
        # (routine, slot) -> what was executed in its routine for an OWN table
        self._own_costs: dict[tuple[int, int], int] = {}
        self._products: Products | None = lowering.products
        self._events = events
        self._paths = {
            key: _PathTotals(totals) for key, totals in lowering.products.totals(times).items()
        }
        for routine, routine_events in events.items():
            for end in routine_events.ends:
                self._finish(lowering.products, routine, end)
        if not lowering.products.keeps_history:
            self._products = None

    def _finish(self, products: Products, routine: int, end: UnfinishedSegment) -> None:
        """Count what each scheme did in segments that were left unfinished."""
        by_slot = products.finish(routine, end.block, end.register, end.segments, end.count)
        for slot, (effect, path) in by_slot.items():
            paths = self._paths.setdefault((routine, slot), _PathTotals())
            paths.totals.add(effect, end.count)
            paths.unfinished[path.block, path.registers, path.last] += end.count

    def replay(self, schemes: Sequence[SchemeRun]) -> dict[Setting, set[int]]:
        """Derive the counters of schemes that no scheme of the run has the slots of, once.

        Return the routines in which a scheme's counters do not follow from the segments that were
        counted (`SegmentReplay`); schemes without such routines are left out.
        """
        products, self._products = self._products, None  # whose segments are large
        if products is None:
            return {scheme.setting: set(self._events) for scheme in schemes}
        segments = products.segments()
        left: dict[Setting, set[int]] = defaultdict(set)
        for routine, events in self._events.items():
            # A large program's segments and its plans under all schemes do not fit side by side.
            product = products.take(routine)
            counted = segments.pop(routine, [])
            for scheme in schemes:
                plan = scheme.plan(routine)
                if scheme.slot is None or plan is None or not plan.counts_paths:
                    continue
                paths = None
                if product is not None and products.has_histories(routine):
                    paths = _replayed(products, product, counted, events, plan)
                if paths is None:
                    left[scheme.setting].add(routine)
                else:
                    self._paths[routine, scheme.slot] = paths
        return left

    def __call__(self, scheme: SchemeRun, routine: int) -> RoutineCounters:
        """Return what the counters of `scheme` for routine number `routine` hold."""
        events = self._events[routine]
        plan = scheme.plan(routine)
        values: tuple[int, ...] = ()
        if plan is not None:
            values = plan.event_counts(events.edges, events.block_counts)
        counted, spent = _PathTotals(), 0
        if scheme.slot is not None:
            counted = self._paths.get((routine, scheme.slot), counted)
            hash_work = self._hash_work.get((routine, scheme.slot))
            spent = 0 if hash_work is None else hash_work.instructions
        paths = dict(sorted(counted.totals.paths.items()))
        table = None if plan is None else own_table(scheme.definition, plan)
        if plan is not None and table is not None and scheme.slot is not None:
            key = routine, scheme.slot
            paths = {number: paths[number] for number in self._entries.get(key, {})}
            if key not in self._own_costs:
                self._own_costs[key] = table.cost(self._machine, plan, paths)
            spent = self._own_costs[key]
        return RoutineCounters(
            paths=paths,
            events=values,
            early=events.early,
            unfinished=tuple(UnfinishedPath(*end, n) for end, n in counted.unfinished.items()),
            hashed_increments=counted.totals.hashed_increments,
            hash_instructions=spent,
            taken=counted.totals.taken,
        )


def _replayed(
    products: Products,
    product: RoutineProduct,
    segments: Sequence[CountedSegment],
    events: RoutineEvents,
    plan: InstrumentationPlan,
) -> _PathTotals | None:
    """Return what `plan` would have counted in one routine; None if that does not follow."""
    replay = SegmentReplay(events.cfg, plan, product, segments)
    if not replay.possible:
        return None
    paths = _PathTotals(replay.totals)
    for end in events.ends:
        history = products.history(end.segments)
        effect = replay.unfinished(history, end.register, end.block)
        if effect is None:
            return None
        paths.totals.add(effect, end.count)
        paths.unfinished[end.block, *effect.after] += end.count
    return paths


def check_reading(
    events: RoutineEvents, mode: str, reading: Reading, plan: Plan | None = None
) -> None:
    """Compare the counts that a scheme derives with those that the run saw.

    Raises CountError naming the first edge or block that differs: a defect of simprof, or of the
    module that `plan` is from.
    """
    cfg = events.cfg
    for edge, counted in enumerate(reading.edges or ()):
        if counted is not None and counted != events.edges[edge]:
            ends = cfg.edges[edge]
            place = f"edge {cfg.name_of(ends.source)} -> {cfg.name_of(ends.target)}"
            raise _defect(cfg, mode, plan, place, counted, events.edges[edge])
    if reading.blocks is not None:
        pairs = zip(reading.blocks, events.block_counts, strict=True)
        for block, (derived, executed) in enumerate(pairs):
            if derived not in (None, executed):
                place = f"block {cfg.name_of(block)}"
                raise _defect(cfg, mode, plan, place, derived or 0, executed)


def _defect(
    cfg: ControlFlowGraph, mode: str, plan: Plan | None, place: str, counted: int, seen: int
) -> CountError:
    return CountError(
        f"{cfg.name}: {mode} counts {counted} for {place}, which was executed {seen} times: "
        f"this is a defect of {defect_of(plan)} the program"
    )
