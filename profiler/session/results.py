"""From an observed run to a `RunMeasurement`: counts checked, code priced, names given."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from simprof.profiler.code.pricing import (
    added,
    address_sizes,
    block_costs,
    edge_costs,
    plan_sizes,
    stream_sizes,
)
from simprof.profiler.graphs import flow
from simprof.profiler.graphs.cfg import EXIT, EdgeKind
from simprof.profiler.graphs.numbering import GraphFacts, graph_facts
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.decoders import Plan, Reading, RoutineCounters, check_shape
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.measures import FlowComparison, Quality, quality
from simprof.profiler.profiles.profile import (
    INFERRED,
    BlockCount,
    EdgeCount,
    Guide,
    PathCount,
    RefusedCalls,
    RoutineProfile,
    RunMeasurement,
    ThreadInfo,
    unplanned,
)
from simprof.profiler.profiles.routine_facts import routine_facts
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.request.errors import CounterRoomError
from simprof.profiler.request.request import ContextChoice, Setting
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.definition import JUDGE, ProfileKind, SchemeDefinition, own_table
from simprof.profiler.session.counters import WRAP, RoutineEvents, check_reading
from simprof.profiler.session.observation import (
    Observation,
    ending,
    options,
    program_info,
    warnings,
)
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.trace.format import discovery_fields
from simprof.simulator.binary.program import SourceLine

if TYPE_CHECKING:
    from simprof.profiler.code.snippets import RoutineCode
    from simprof.profiler.session.self_check import SelfCheck


class RoutineReading(Struct, frozen=True):
    """One scheme on one routine after the run."""

    definition: SchemeDefinition  # The scheme
    plan: Plan | None  # Its plan; None where it has none.
    events: RoutineEvents  # What the run itself counted
    # counters, reading: What the scheme's counters hold, and the profile that they give.
    counters: RoutineCounters
    reading: Reading
    code: RoutineCode | None  # What its code costs; None where it has no plan.
    # Instructions that were executed of it; those inside the hashing routine, which depend on the
    # order of events, are counted by the kernel and not among them.
    added: int
    facts: GraphFacts  # What reports say of its graph, whatever the scheme


def routine_profile(
    routine: RoutineReading, alias: str | None, code: CodeImage, *, with_edges: bool = True
) -> RoutineProfile:
    """Put together what is reported of a routine."""
    # alias: By which other name the user selected it, if by one.
    # with_edges: Whether the counts of its edges and blocks are wanted. If not, paths still come
    # with those of loops of one block, which are on no path of `pp`.
    events = routine.events
    cfg, price = events.cfg, routine.code
    register = None if price is None else price.path_register
    plan = None if routine.plan is None else routine.plan.plan
    decoder = routine.definition.path_decoder(routine.plan)
    others: dict[str, Any] = {}
    if with_edges:
        instrumented = frozenset[int]() if plan is None else plan.instrumented_edges
        blocks, edges, early = range(len(cfg.blocks)), range(len(cfg.edges)), sorted(events.early)
        make = partial(
            RoutineProfile.of_rows,
            partial(_edges, routine, instrumented),
            partial(_blocks, events, price, code, blocks, _untold_blocks(routine)),
            partial(_charged, events, code, edges, early),
        )
        others["cut_blocks"] = events.cut
        if decoder is not None:
            others["split_edges"] = tuple(sorted(decoder.split_edges))
    else:  # made at once: what rows are made of takes more memory than these few
        loops = [] if decoder is None else _crossed_loops(events)
        of_loops = sorted({cfg.edges[loop].source for loop in loops})
        make = partial(
            RoutineProfile,
            edge_counts=_loops_of_one_block(events, loops),
            block_counts=_blocks(events, price, code, of_loops) if loops else (),
        )
    return make(
        **routine_facts(cfg, routine.facts, plan, decoder, register),
        activations=events.entered,
        added=routine.added + routine.counters.hash_instructions,
        instructions=events.instructions,
        path_counts=tuple(_paths(routine)),
        alias=alias,
        numbered_paths=None if decoder is None else decoder.num_paths,
        iterations=None if routine.plan is None else routine.plan.most_iterations,
        limited_loops=() if routine.plan is None else routine.plan.limits,
        **others,
    )


def _blocks(
    events: RoutineEvents,
    price: RoutineCode | None,
    code: CodeImage,
    wanted: Iterable[int],
    untold: Collection[int] = (),
) -> tuple[BlockCount, ...]:
    """Return where blocks of a routine are, how often they were executed, and at what cost."""
    executions, costs, cfg = events.block_counts, block_costs(price), events.cfg
    found = []
    for number, start, length, is_slot, _ in (cfg.blocks[block] for block in wanted):
        count, delayed = executions[number], _is_delayed(code, start, length)
        added = count * costs.get(number, 0)
        told = number not in untold
        found.append(BlockCount(start, length, is_slot, delayed, count, added, told))
    return tuple(found)


def _crossed_loops(events: RoutineEvents) -> list[int]:
    """Return the edges that led from a block to itself."""
    counts = events.edges
    return [e for e, source, target, _ in events.cfg.edges if source == target and counts[e]]


def _loops_of_one_block(events: RoutineEvents, loops: Iterable[int]) -> tuple[EdgeCount, ...]:
    found = []
    for edge, source, _, kind in (events.cfg.edges[loop] for loop in loops):
        name = events.cfg.name_of(source)
        found.append(EdgeCount(name, name, kind, events.edges[edge], False))
    return tuple(found)


def _untold_edges(routine: RoutineReading) -> frozenset[int]:
    """Return the edges whose counts the scheme does not give."""
    # Of a scheme that an edge profile guides, edge counts are an input.
    if routine.plan is None or routine.definition.guided is ProfileKind.EDGES:
        return frozenset()
    if (counts := routine.reading.edges) is None:
        return frozenset(range(len(routine.events.edges)))
    return frozenset(edge for edge, count in enumerate(counts) if count is None)


def _untold_blocks(routine: RoutineReading) -> frozenset[int]:
    counts = routine.reading.blocks or ()
    return frozenset(block for block, count in enumerate(counts) if count is None)


def _edges(routine: RoutineReading, instrumented: Collection[int]) -> tuple[EdgeCount, ...]:
    """Return the counts of the graph's edges, then those of early ends as edges to EXIT."""
    events = routine.events
    cfg, counts = events.cfg, events.edges
    names, untold = cfg.names(), _untold_edges(routine)
    added = edge_costs(routine.code, counts, routine.counters.taken).get
    found = [
        EdgeCount(
            names[source],
            names[target],
            kind,
            count,
            edge in instrumented,
            added(edge, 0),
            edge not in untold,
        )
        for (edge, source, target, kind), count in zip(cfg.edges, counts, strict=True)
    ]
    for block, count in sorted(events.early.items()):
        found.append(EdgeCount(names[block], EXIT, EdgeKind.EARLY, count, False))
    return tuple(found)


def _charged(
    events: RoutineEvents, code: CodeImage, edges: Iterable[int], early: Iterable[int]
) -> list[int]:
    """Return the instructions that edges, and early ends in blocks, are charged to."""
    cfg = events.cfg
    left = [
        start + 4 * length - (8 if _is_delayed(code, start, length) else 4)
        for _, start, length, _, _ in cfg.blocks
    ]
    ends = (cfg.edges[edge][1:3] for edge in edges)
    charged = [left[of] if of < cfg.entry else cfg.blocks[to].start for of, to in ends]
    return charged + [left[block] for block in early]


def _is_delayed(code: CodeImage, start: int, length: int) -> bool:
    """Whether the last instruction of a block is in the delay slot of the one before it."""
    return length >= 2 and code.delays(start + 4 * length - 8)


def _paths(routine: RoutineReading) -> Iterator[PathCount]:
    cfg, reading = routine.events.cfg, routine.reading
    decoder = routine.definition.path_decoder(routine.plan)
    if decoder is None:
        return
    are_shortened = _shortening(decoder)
    whole = ((path, decoder.decode(path), count) for path, count in reading.paths.items())
    begun = ((None, record, count) for record, count in reading.partial.items())
    for path, record, count in chain[tuple[int | None, PathRecord, int]](whole, begun):
        yield PathCount.of(
            cfg,
            record,
            path,
            count,
            record.edges,
            inferred=path is not None and decoder.is_obvious(path),
            shortened=are_shortened(record),
            unexecuted=_unexecuted(routine.events, record),
        )


def _unexecuted(events: RoutineEvents, record: PathRecord) -> int:
    """Return how many instructions of its last block a partial path has not executed."""
    # Where its activations came to different places, they are shared out, rounded up: so paths
    # never seem to have executed more than the routine has.
    if not record.partial:
        return 0
    block = record.blocks[-1]
    return -(-events.unexecuted.get(block, 0) // events.early.get(block, 1))


def _shortening(decoder: Plan) -> Callable[[PathRecord], bool]:
    """Return what tells whether a path begins or ends where a plan cuts paths: at no back edge."""
    cfg = decoder.cfg
    cut = [cfg.edges[edge] for edge in decoder.split_edges]
    begins = {edge.target for edge in cut if edge.source != cfg.entry}
    ends = {edge.source for edge in cut if edge.target != cfg.exit}

    def is_shortened(record: PathRecord) -> bool:
        edges, blocks = [cfg.edges[edge] for edge in record.edges], record.blocks
        if blocks[0] in begins and not (edges and edges[0].source == cfg.entry):
            return True
        whole = record.partial or (edges and edges[-1].target == cfg.exit)
        return blocks[-1] in ends and not whole

    return is_shortened


# Setting -> why it was not measured
Refused = dict[Setting, str]
BETWEEN_TELLINGS = 16  # Routines that are measured before the user is told again


def measure_all(
    observation: Observation,
    *,
    # Whether to validate the graphs, every plan and every profile, too (see `self_check`)
    self_check: bool = False,
    # Leave out the counts of edges and the source lines, which are most of a measurement
    brief: bool = False,
    keep_plans: bool = True,  # Whether the schemes' plans are asked for afterwards
    # Is told every now and then how many routines are measured, and of how many
    told: Callable[[int, int], None] | None = None,
    # Gets the schemes whose counters do not fit their memory, which then have no measurement
    refused: Refused | None = None,
) -> tuple[RunMeasurement, ...]:
    """Return what each scheme measured in an observed run.

    Raises CountError or FlowError if counts contradict each other, RecoveryError or SelfCheckError
    if structures are not as they must be: defects of simprof. Raises CounterRoomError for a scheme
    that would be among `refused`.
    """
    check = None
    if self_check:
        from simprof.profiler.session.self_check import SelfCheck  # which reads traces: numba

        check = SelfCheck(observation)
        check.check_graphs()
    check_flow(observation)
    measuring = [
        Measuring(observation, scheme, check=check, brief=brief) for scheme in observation.schemes
    ]
    _give_back()
    # Each routine is measured under all schemes before the next one, so that what is worked out of
    # it is shared, and need not be kept.
    for done, routine in enumerate(observation.events):
        if told is not None and done % BETWEEN_TELLINGS == 0:
            told(done, len(observation.events))
        for scheme in measuring:
            scheme.measure(routine)
        if not keep_plans:
            observation.forget(routine)
    refuse(measuring, {} if refused is None else refused, raises=refused is None)
    measurements = tuple(each.measurement() for each in measuring if each.refused is None)
    if check is not None:
        for measurement in measurements:
            check.check_profile(measurement)
    return measurements


def _give_back() -> None:
    """Give the system the memory that the run has let go of: its segments, and plans for them."""
    # The C library keeps it between what is still in use: a tenth of all, of a large program.
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def refuse(measuring: Iterable[Measuring], refused: Refused, *, raises: bool) -> None:
    """Note the schemes whose counters did not fit their memory, or raise the error of the first."""
    for each in measuring:
        if each.refused is not None:
            if raises:
                raise each.refused
            refused[each.scheme.setting] = str(each.refused)


def check_flow(observation: Observation) -> None:
    """Check that what enters a block leaves it, or ends in it: FlowError where it does not."""
    for events in observation.events.values():
        flow.check(events.cfg, events.edges, events.early, events.activations)


class RoutineResult(Struct, frozen=True):
    """What one scheme measured in one routine, and what that adds to its totals, by name."""

    profile: RoutineProfile
    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    lost: Mapping[str, int]
    wraps: bool  # A counter of 32 bits would have wrapped
    misguided: bool  # The edge profile that guided the scheme has other counts than this run
    inferred: Mapping[str, int]  # How much of `lost` that profile says
    # With the true profile, where there is one: its own, and that which the run's edge counts give
    compared: FlowComparison | None = None
    edges_compared: FlowComparison | None = None


class Measuring:
    """One scheme of an observed run, measured routine by routine."""

    def __init__(
        self,
        observation: Observation,
        scheme: SchemeRun,
        *,
        # Validates its plans, if anybody does
        check: SelfCheck | None = None,
        brief: bool = False,
    ) -> None:
        self.scheme = scheme
        self.results: list[RoutineResult] = []  # What it measured in each routine so far
        self.refused: CounterRoomError | None = None  # Why it cannot be measured, once that shows
        self._observation = observation
        self._definition = scheme.definition
        self._check = check
        self._brief = brief
        # Asked for by comparisons and sweeps, and by nobody of a run under one mode: it would be a
        # tenth of the time of a large one.
        several = brief or check is not None or len(observation.schemes) > 1
        self._judges_edges = several and scheme.setting.mode == JUDGE
        self.pricer = registry.pricer(self._definition.mode, scheme.setting.options)
        ledger = observation.ledger
        self._tree_costs = None if ledger is None else ledger.costs()

    def measure(self, number: int) -> None:
        """Measure routine number `number` if it was selected; routines come in ascending order."""
        if self.refused is None and self.scheme.selects(number):
            try:
                self.results.append(self._measure(number))
            except CounterRoomError as error:
                self.refused, self.results = error, []

    def _measure(self, number: int) -> RoutineResult:
        """Read the counters of one routine, compare them with the run's, and price the code."""
        observation, scheme = self._observation, self.scheme
        if self._check is not None:
            self._check.check_plan(scheme, number)
        events = observation.events[number]
        plan = scheme.routine_plan(number)
        counters = observation.counters(scheme, number)
        reading = Reading(events.edges) if plan is None else plan.read(counters)
        if plan is not None:
            check_shape(plan, scheme.name, reading)
        if not self._definition.estimates:
            check_reading(events, scheme.name, reading, plan)
        code, spent = self._price(number, plan, counters)
        ledger, tree = observation.ledger, self._tree_costs
        if ledger is not None and tree is not None:
            expected = spent + counters.hash_instructions
            ledger.add_costs(tree, number, code, scheme.slot, expected)
        facts = graph_facts(events.cfg)
        routine = RoutineReading(
            self._definition, plan, events, counters, reading, code, spent, facts
        )
        patterns = observation.invocation.selection.routines
        compared = observation.judging.compare(number, scheme, reading)
        return RoutineResult(
            profile=routine_profile(
                routine,
                observation.names.alias(events.cfg, patterns) if patterns else None,
                observation.recovered.code,
                with_edges=not self._brief,
            ),
            counts=_counts(routine),
            sizes=_sizes(routine, self._observation.program.is64),
            lost={**_lost(routine), **self._misjudged(compared)},
            wraps=counters.largest >= WRAP,
            misguided=self._is_misguided(plan, reading, events.edges),
            inferred=reading.inferred,
            compared=compared,
            edges_compared=self._edges_compared(number),
        )

    def _is_misguided(self, plan: Plan | None, reading: Reading, edges: tuple[int, ...]) -> bool:
        """Whether a profile of another run guided the plan."""
        if plan is None:
            return False
        profile = plan.edge_profile
        return not plan.is_profile_of(reading) or (profile is not None and tuple(profile) != edges)

    def _misjudged(self, compared: FlowComparison | None) -> dict[str, int]:
        """Blocks in paths, and those that the scheme attributes wrongly, by its judge (TPP 5)."""
        if compared is None or self._definition.judge is None or self._definition.estimates:
            return {}
        judged = compared.attribution
        return {
            "flow_blocks": judged.flow,
            "overcounted_blocks": judged.overcounted,
            "undercounted_blocks": judged.undercounted,
        }

    def _edges_compared(self, number: int) -> FlowComparison | None:
        """Compare the run's edge profile with this one, where this one is the truth for others."""
        judging = self._observation.judging
        return judging.edge_profile(number, JUDGE) if self._judges_edges else None

    def _quality(self) -> Quality | None:
        """Return how good the profile is, by its judge; None where nothing judges it."""
        judge, estimate = self._definition.judge, self._definition.estimates
        found = [each.compared for each in self.results if each.compared is not None]
        return quality(found, judge, estimate=estimate) if judge is not None and found else None

    def _edge_quality(self) -> Quality | None:
        found = [each.edges_compared for each in self.results if each.edges_compared is not None]
        return quality(found, self._definition.mode) if found else None

    def _price(
        self, number: int, plan: Plan | None, counters: RoutineCounters
    ) -> tuple[RoutineCode | None, int]:
        """Return what the code of a routine costs, and what was executed of it."""
        if plan is None:
            return None, 0  # and nothing need be known of its registers
        events = self._observation.events[number]
        context = self._observation.contexts.of(number)
        code = self.pricer.code(events.cfg, plan.plan, plan.weights, context)
        return code, added(code, events.edges, events.block_counts, counters.taken)

    def _guide(self) -> Guide | None:
        """Return what guided the scheme."""
        if not self._definition.guided:
            return None
        by_paths = self._definition.guided is ProfileKind.PATHS
        file = self.scheme.setting.options.edge_profile
        first = registry.beginning(self.scheme.setting.mode, self.scheme.setting.options)
        own = file is None and not first
        same = own or not any(result.misguided for result in self.results)
        same = same and not self._observation.has_edges_of_guide
        name = None if file is None else str(file)
        return Guide(name, same, sha256=known_sha256(file), first=first, of_paths=by_paths)

    def _lost(self, guide: Guide | None) -> dict[str, int]:
        """Return what was lost; what an edge profile of another run says under its own names."""
        lost = _total(result.lost for result in self.results)
        if guide is not None and not guide.same_run:
            for name, count in _total(result.inferred for result in self.results).items():
                if count:
                    lost[name] -= count
                    lost[f"{INFERRED}{name}"] = count
        return dict(lost)

    def _lines(self, routines: Sequence[RoutineProfile]) -> Mapping[int, SourceLine]:
        """Source lines of every block that the profile names: those of paths, and executed ones."""
        known = self._observation.program.lines
        if known.is_empty:
            return {}
        # Where processes share the work, the scheme of each knows its own routines only.
        measured = {each.key for each in routines}
        starts = {at for each in routines for path in each.path_counts for at in path.blocks}
        for each in self._observation.events.values():
            if (each.cfg.address, each.cfg.name) not in measured:
                continue
            blocks = zip(each.cfg.blocks, each.block_counts, strict=True)
            starts.update(block.start for block, count in blocks if count)
        addresses = sorted(start for start in starts if isinstance(start, int))
        lines = ((start, known.find(start)) for start in addresses)
        return {start: line for start, line in lines if line is not None}

    def _generated(self) -> Iterator[RoutineProfile]:
        """Yield the routine that stands for code that the program has made, if it ran any."""
        observation = self._observation
        unattributed, is_all = observation.unattributed, observation.invocation.selection.is_all
        if unattributed.generated and is_all and observation.window is None:
            entries, instructions = unattributed.entries, unattributed.generated
            yield unplanned("(generated code)", 0, activations=entries, instructions=instructions)

    def measurement(self) -> RunMeasurement:
        """Return what the scheme measured in all routines together."""
        observation, results = self._observation, self.results
        definition, machine = self._definition, observation.program.machine
        routines = (*self._generated(), *(result.profile for result in results))
        sizes = _total(result.sizes for result in results)
        window, contexts = observation.window, observation.invocation.contexts or ContextChoice()
        entry = contexts.entry
        unattributed = {
            "unattributed_transfers": observation.unattributed.transfers,
            "unattributed_instructions": observation.unattributed.instructions,
            "runs": observation.runs,
            "whole_runs": observation.whole_runs,
            "system_calls": observation.result.system_calls,
            **({} if window is None else {"window_calls": window.calls}),
        }
        wrapped = [result.profile.name for result in results if result.wraps]
        notes = definition.notes(self.scheme.setting.options, observation.recovered.routines)
        run, guide = observation.result, self._guide()
        ledger, tree = observation.ledger, self._tree_costs
        return RunMeasurement(
            program=program_info(observation),
            mode=definition.mode,
            options={
                **options(observation.invocation, self.scheme.setting.options),
                **({} if entry is None else {"entry": entry, "calls": contexts.calls}),
            },
            ending=ending(observation, run),
            base=observation.base,
            added=sum(r.added for r in routines) + definition.code().run_cost(machine, sizes),
            counts={**_NO_COUNTS, **_total(result.counts for result in results), **unattributed},
            routines=routines,
            warnings=tuple(warnings(observation, definition, notes, unattributed, wrapped)),
            partial=run.is_cut_short,
            lines={} if self._brief else self._lines(routines),
            sizes=dict(sizes),
            lost=self._lost(guide),
            refused_calls=tuple(
                RefusedCalls(call.name, call.error, count)
                for call, count in sorted(run.refused_calls.items())
            ),
            call_tree=None if ledger is None or tree is None else ledger.tree(tree),
            threads=tuple(ThreadInfo(each.number, each.instructions) for each in run.threads),
            guide=guide,
            origin=this_simprof(),
            input_sha256=observation.invocation.input_sha256,
            quality=self._quality(),
            edge_quality=self._edge_quality(),
            discoveries=discovery_fields(observation.discoveries),
        )


def _total(parts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Add up numbers by name; names that no part has give 0."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


_NO_COUNTS = dict.fromkeys(
    ("path_increments", "hashed_increments", "edge_increments", "blocks", "transfers"), 0
)


def _counts(routine: RoutineReading) -> dict[str, int]:
    """Return how often things happened in one routine, by name."""
    events, counters = routine.events, routine.counters
    counts = {
        "path_increments": counters.path_increments,
        "hashed_increments": counters.hashed_increments,
        "edge_increments": sum(counters.events),
        "blocks": sum(events.block_counts),
        "transfers": sum(events.edges),
    }
    writer = routine.definition.trace_writer(routine.plan)
    if writer is not None:  # its events are in the trace, and no increments
        counts |= {"edge_increments": 0, "trace_tokens": writer.written(events.edges)}
    if routine.plan is not None and routine.plan.plan.table is CounterTable.STREAM:
        counts |= {"path_increments": 0, "trace_tokens": counters.path_increments}
    if (plan := routine.plan) is not None and plan.edge_profile is not None:
        paths = routine.reading.paths.items()
        counts["inferred_paths"] = sum(count for path, count in paths if plan.is_obvious(path))
    return counts


def _lost(routine: RoutineReading) -> dict[str, int]:
    """Return what the scheme lost, by name, and how many edges its counters give no count of."""
    reading = routine.reading
    untold = len(_untold_edges(routine))
    return {**reading.lost, "unknown_edges": untold} if untold else dict(reading.lost)


def _sizes(routine: RoutineReading, is64: bool) -> dict[str, int]:
    """Return how much counters, code and trace take for one routine, by name."""
    plan, code = routine.plan, routine.code
    if plan is None:
        return {}
    traced = dict(plan.trace_sizes(routine.events.edges))
    traced |= stream_sizes(plan.plan, routine.counters)
    traced |= address_sizes(code, routine.events.block_counts, is64)
    paths, table = routine.counters.paths, own_table(routine.definition, plan.plan)
    own = 0 if table is None else table.size(plan.plan, paths)
    return {**plan_sizes(plan.plan, code, routine.counters.unnamed, own), **traced}
