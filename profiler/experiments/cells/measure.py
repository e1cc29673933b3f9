"""Results of cells: of a program that is run, or planned without running it.

1. One observed run to its document, with facts of code and paths   `measure`
2. Plans and generated code of all routines that the file shows   `plan_group`
3. The same of the routines that a run entered, guided by its edge profile   `analyse`

Plans are of routines entered or not. Code that start-up writes, and routines that only a run finds,
are not known there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.places import LayoutRule, fold_slot_blocks, place_edges
from simprof.profiler.code.pricing import plan_sizes
from simprof.profiler.experiments.cells.cells import (
    TREES,
    CellDocument,
    Job,
    failure,
    found,
    pack,
)
from simprof.profiler.experiments.cells.path_facts import (
    RoutinePaths,
    iteration_rows,
    path_facts,
    path_rows,
)
from simprof.profiler.experiments.cells.settings import CellSetting, WeightChoice
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import graph_facts
from simprof.profiler.graphs.spanning import measured, postorder
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.decoders import PathNames, Plan
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.profiles.codec import json_line, parse_json
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.reports import run_json
from simprof.profiler.request.library_sources import is_library_source
from simprof.profiler.request.request import (
    DEFAULT_MODE,
    NO_SCHEME,
    CodeLayout,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import LAYOUT, ProfileKind
from simprof.profiler.schemes.registry import PATH_PROFILER, definition, guided_by, make_plan
from simprof.profiler.session.counters import RoutineEvents
from simprof.profiler.session.observation import Observation, ending
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import (
    EdgeCounts,
    PathCounts,
    SchemeRun,
    saved_profiles,
    weight_source,
)
from simprof.profiler.session.session import observe
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import SimulatorError, UsageError


def measure(request: RunRequest, settings: Sequence[Setting]) -> tuple[CellDocument, ...]:
    """Run a program and return a result for each setting.

    Raises SimulatorError as `session.run_program`. How the program ended is not judged here.
    """
    observation = observe(request, settings)
    check = request.self_check
    measurements = measure_all(observation, self_check=check, brief=not check)
    selects = observation.schemes[0].selects  # the same routines under all settings
    trees = cache(lambda options: tree_costs(observation, selects, options))
    pairs = zip(observation.schemes, measurements, strict=True)
    return tuple(_result(observation, scheme, measurement, trees) for scheme, measurement in pairs)


# Totals that are no property of a cell: how often the program had to be run again.
RUNS = frozenset({"runs", "whole_runs"})


def _result(
    observation: Observation,
    scheme: SchemeRun,
    measurement: RunMeasurement,
    trees: Callable[[SchemeOptions], Mapping[str, int]],
) -> CellDocument:
    mode, options = scheme.setting.mode, scheme.setting.options
    entered = [routine for routine in observation.events if scheme.selects(routine)]
    profiles = measurement.routines[len(measurement.routines) - len(entered) :]
    measured = list(zip(entered, profiles, strict=True))
    loops_added = _self_loops_added(observation, scheme, entered)
    code = [
        {**_run_code(observation, scheme, *each), "self_loop_added": loops_added.get(each[0], 0)}
        for each in measured
    ]
    more: dict[str, Any] = {}
    paths: Mapping[str, tuple[int, int]] = {}
    if definition(mode).counts_paths:
        routines = [_routine_paths(observation, scheme, *each) for each in measured]
        exact = mode == DEFAULT_MODE
        more["facts"] = path_facts(routines, predict=exact)
        if exact:
            paths = path_rows(routines)
            kept = [each for each, row in zip(routines, code, strict=True) if row["own"]]
            if kept:
                more["own_facts"] = path_facts(kept, predict=True)
        elif definition(mode).collected(dict(options.own)) is ProfileKind.ITERATION_PATHS:
            plans = (scheme.routine_plan(routine) for routine in entered)
            spans = (0 if plan is None else plan.most_iterations or 0 for plan in plans)
            paths = iteration_rows(zip(routines, spans, strict=True))
    if mode == "qpt2":
        more["trees"] = dict(trees(SchemeOptions(own=options.own)))
    document = run_json.summary_object(_of_any_machine(observation, scheme, measurement))
    rows: Any = document.pop("routines")
    document["counts"] = {
        **{name: count for name, count in measurement.counts.items() if name not in RUNS},
        **{name: sum(row[name] for row in code) for name in ("jumps", "hashing")},
    }
    # what a mode can lose and has not lost is a number, too
    document["lost"] = {
        **{loss.name: 0 for loss in definition(mode).losses},
        **measurement.lost,
    }
    lists = pack(rows, _without_zeros(code), paths)
    # as a file has it: a tuple is a list
    return CellDocument(parse_json(json_line({**document, "error": None, **more})), lists)


def _of_any_machine(
    observation: Observation, scheme: SchemeRun, measurement: RunMeasurement
) -> RunMeasurement:
    """Return a measurement with routines' source lines, and without names of this machine's files:
    equal cells have equal documents.
    """
    program, guide, options = measurement.program, measurement.guide, dict(measurement.options)
    if isinstance(scheme.setting.options.weights, Path):
        options["weights"] = str(WeightChoice.EXACT)
    lines = observation.program.lines
    found = {each.address: lines.find(each.address) for each in measurement.routines}
    return replace(
        measurement,
        program=replace(program, file=Path(program.file).name),
        options={**options, "edge_profile": None},
        guide=None if guide is None else replace(guide, file=None, sha256=None),
        lines={address: line for address, line in found.items() if line is not None},
    )


def _without_zeros(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without fields that are 0, which readers take them for; None is not 0."""
    return [{name: each for name, each in row.items() if each is None or each} for row in rows]


def _routine_paths(
    observation: Observation, scheme: SchemeRun, routine: int, profile: RoutineProfile
) -> RoutinePaths:
    events = observation.events[routine]
    decoder = definition(scheme.setting.mode).path_decoder(scheme.routine_plan(routine))
    dfs = depth_first(events.cfg)
    removed = (dfs.back_edges - dfs.self_loops) | set(() if decoder is None else decoder.cut_edges)
    return RoutinePaths(events.cfg, profile.path_counts, events.edges, removed)


def find_jumps(
    cfg: ControlFlowGraph, plan: Plan, context: RoutineContext, layout: CodeLayout
) -> tuple[frozenset[int], int]:
    """Return the edges whose code ends with a jump, as `places` places it, and how many of them
    have no other code.
    """
    actions, _, _ = fold_slot_blocks(cfg, plan.plan, context.shared_slots)
    placed = place_edges(cfg, actions, context, LayoutRule(layout, plan.weights))
    return placed.jumping, len(placed.places) - len(actions)


class _Places(NamedTuple):
    """Where the code of a plan is: places, those that need no jump, jumps executed."""

    places: int = 0
    without_jump: int = 0
    jumps: int = 0


def _places(
    cfg: ControlFlowGraph,
    routine_plan: Plan | None,
    context: RoutineContext,
    edges: Sequence[int],
    layout: CodeLayout,
) -> _Places:
    if routine_plan is None:
        return _Places()
    jumping, bare = find_jumps(cfg, routine_plan, context, layout)
    plan = routine_plan.plan
    places = len(plan.instrumented_edges) + len(plan.blocks) + len(plan.block_ends)
    own = places - len(jumping) + bare
    return _Places(places, own, sum(edges[edge] for edge in jumping))


def _run_code(
    observation: Observation, scheme: SchemeRun, routine: int, profile: RoutineProfile
) -> dict[str, Any]:
    """Return `RoutineFigures`' fields of `code`."""
    definition_, routine_plan = definition(scheme.setting.mode), scheme.routine_plan(routine)
    decoder = definition_.path_decoder(routine_plan)
    events = observation.events[routine]
    layout = LAYOUT.of(scheme.setting.options)
    context = observation.contexts.of(routine)
    places = _places(events.cfg, routine_plan, context, events.edges, layout)
    counters = observation.counters(scheme, routine)
    names = PathNames(0, 0) if decoder is None else decoder.names
    line = observation.program.lines.find(events.cfg.address)
    loops = _counted_self_loops(events.cfg, scheme.plan(routine))
    return {
        **_planned_code(scheme.setting.mode, profile.potential_paths, routine_plan),
        "instrumented_edges": places.places,
        "no_jump_edges": places.without_jump,
        "path_increments": (
            0 if profile.table is CounterTable.STREAM else counters.path_increments
        ),
        "hashed_increments": counters.hashed_increments,
        "hashing": counters.hash_instructions,
        "edge_increments": 0 if definition_.writes_trace else sum(counters.events),
        "jumps": places.jumps,
        "name_bits": names.bits,
        "name_counters": names.counters,
        "self_loop_increments": sum(events.edges[edge] for edge in loops),
        "own": line is not None and not is_library_source(line.file),
    }


def _planned_code(mode: str, potential_paths: int, plan: Plan | None) -> dict[str, Any]:
    """Return those of `RoutineFigures`' fields of `code` that follow from graph and plan alone."""
    decoder = definition(mode).path_decoder(plan)
    untruncated = None if decoder is None else decoder.untruncated_paths
    if decoder is not None and untruncated is None:
        untruncated = potential_paths
    graph = None if plan is None else plan.placed_on
    return {
        "untruncated_paths": untruncated,
        "placed_blocks": 0 if graph is None else len(graph.blocks),
        "placed_edges": 0 if graph is None else len(graph.edges),
    }


def _counted_self_loops(cfg: ControlFlowGraph, plan: InstrumentationPlan | None) -> tuple[int, ...]:
    """Return the self-loops that have a counter of their own (EPP 4.1)."""
    if plan is None:
        return ()
    return tuple(
        edge
        for edge, actions in plan.actions.items()
        if cfg.edges[edge].source == cfg.edges[edge].target
        and any(isinstance(action, CountEdge) for action in actions)
    )


def _self_loops_added(
    observation: Observation, scheme: SchemeRun, routines: Sequence[int]
) -> dict[int, int]:
    """Return what the counters of self-loops execute by routine, for `pp`.

    All code is generated once more, in the order in which it was priced: what a counter costs
    depends on its address.
    """
    mode = scheme.setting.mode
    if mode != DEFAULT_MODE:
        return {}
    pricer = registry.pricer(mode, scheme.setting.options)
    found: dict[int, int] = {}
    for routine in routines:
        planned, events = scheme.routine_plan(routine), observation.events[routine]
        if planned is not None:
            plan, context = planned.plan, observation.contexts.of(routine)
            code = pricer.code(events.cfg, plan, planned.weights, context)
            found[routine] = sum(
                events.edges[edge] * code.snippets[edge].cost
                for edge in _counted_self_loops(events.cfg, plan)
            )
    return found


def tree_costs(
    observation: Observation, selects: Callable[[int], bool], options: SchemeOptions
) -> Mapping[str, int]:
    """Return what each placement of `cells.TREES` would have counted in an observed run.

    An edge counter counts its edge, so exact counts tell that without a run (BL94 6.1 does the
    same).

    `selects`: Whether a routine is among those profiled. `options`: Those of the schemes' own are
    kept: what a block is.
    """
    plain = SchemeOptions(own=options.own)
    totals = dict.fromkeys(TREES, 0)
    selected = (events for routine, events in observation.events.items() if selects(routine))
    for events in selected:
        for name, placement in _placements(events, plain):
            totals[name] += sum(placement.plan.event_counts(events.edges, events.block_counts))
    return totals


def _placements(events: RoutineEvents, plain: SchemeOptions) -> Iterator[tuple[str, Plan]]:
    """Yield the placements by name; a least spanning tree is a greatest of negated weights."""
    cfg = events.cfg
    yield "redundant", make_plan(cfg, "qpt", plain)
    greatest = make_plan(cfg, "qpt2", plain)
    yield "heuristic-max", greatest
    least = [-weight for weight in greatest.weights]
    yield "heuristic-min", make_plan(cfg, "qpt2", plain, least)
    exact = measured(cfg, events.edges)
    yield "exact-max", make_plan(cfg, "qpt2", plain, exact)
    yield "exact-min", make_plan(cfg, "qpt2", plain, [-weight for weight in exact])
    yield "postorder-max", make_plan(cfg, "qpt2", plain, postorder(cfg, depth_first(cfg)))


REPETITIONS = 3
TIMED = frozenset({"qpt", "qpt2"})  # Modes whose times somebody reads (BL94 table 1)
PATIENCE = 1.0  # Seconds after which nothing is measured another time


def plan_group(group: tuple[Job, ...]) -> tuple[CellDocument, ...]:
    """Plan one program under the settings of `group`, whose jobs differ in nothing else.

    Raises SimulatorError if the program cannot be read. What one setting cannot do is an error of
    its result.
    """
    program = elf.load(group[0].program)
    recovered, recovery = _recovered(program)
    plannings = [_Planning(job.cell.setting, recovered) for job in group]
    _take_all(plannings, range(len(recovered.routines)), ProgramContexts(recovered))
    return tuple(planning.result(recovery) for planning in plannings)


def analyse(
    request: RunRequest, settings: Sequence[CellSetting], guide: Path | None = None
) -> tuple[CellDocument, ...]:
    """Run a program, then plan and generate its instrumentation under each setting.

    Routines are those entered; the run's edge profile guides those that need one, or that of
    another input, saved at `guide`.

    Raises SimulatorError as `measure`.
    """
    by_paths = [each for each in settings if guided_by(each.mode) is ProfileKind.PATHS]
    profiler = [
        Setting(PATH_PROFILER, PATH_PROFILER, each.scheme(guide=guide).options) for each in by_paths
    ]
    observation = observe(request, (NO_SCHEME, *profiler[:1]))
    _, recovery = _recovered(observation.program)
    recovered, counts = observation.recovered, observation.edge_counts
    paths = observation.path_counts if profiler else None
    plannings = [_Planning(setting, recovered, counts, guide, paths) for setting in settings]
    _take_all(plannings, sorted(observation.events), ProgramContexts(recovered))
    ended = ending(observation, observation.result)
    ran = {
        "exit": run_json.ending_object(ended),
        "instructions": {"base": observation.base, "added": 0},
    }
    return tuple(planning.result(recovery).but(**ran) for planning in plannings)


def _recovered(program: Program) -> tuple[ProgramGraphs, float]:
    """Return a program's graphs, and the seconds that they took in the quickest of some tries."""
    recovery, spent = float("inf"), 0.0
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        recovered = recover(program)
        seconds = time.perf_counter() - started
        recovery, spent = min(recovery, seconds), spent + seconds
        if spent > PATIENCE:
            break
    return recovered, recovery


def _take_all(
    plannings: Sequence[_Planning], routines: Iterable[int], contexts: ProgramContexts
) -> None:
    # A routine is planned under all settings before the next one is, so that what they need of its
    # graph is worked out once. Settings whose times somebody reads come first, each of them at
    # every other routine: so each has its share of what they have in common.
    timed_first = [each for each in plannings if each.is_timed]
    others = [each for each in plannings if not each.is_timed]
    for place, number in enumerate(routines):
        first = place % max(len(timed_first), 1)
        for planning in (*timed_first[first:], *timed_first[:first], *others):
            planning.take(number, contexts)
        contexts.forget(number)


class _Planning:
    """One setting's part of the work: routines are taken in ascending order."""

    def __init__(
        self,
        setting: CellSetting,
        recovered: ProgramGraphs,
        counts: EdgeCounts | None = None,  # Of a run that guides it; None: there was none.
        guide: Path | None = None,  # Saved profile of the input that guides it instead
        paths: PathCounts | None = None,  # Those of the run, where paths guide it
    ) -> None:
        self._setting, self._recovered, self._counts = setting, recovered, counts
        self._guide, self._paths = counts, paths
        self._error: str | None = None
        self._sizes = Counter(counter_bytes=0, snippets=0, code_bytes=0)
        if counts is not None:
            self._sizes["routine_bytes"] = 0
        self._rows: list[dict[str, Any]] = []
        self._code: list[dict[str, Any]] = []
        self._planning = self._generation = 0.0
        with self._noting_errors():
            guided = counts is not None and setting.weights != WeightChoice.EXACT
            if not guided and (guided_by(setting.mode) or setting.weights == WeightChoice.EXACT):
                why = "needs a run: it cannot be planned from the file alone"
                raise UsageError(f"{setting.name} {why}")
            self._options = setting.scheme(guide=guide).options
            profiles = saved_profiles(recovered.program.sha256)
            self._weights = weight_source(self._options.weights, profiles)
            if registry.beginning(setting.mode, self._options):
                why = "is guided by the beginning of a run, and this is one of the whole"
                raise UsageError(f"{setting.name} {why}")
            if self._options.edge_profile is not None:
                profile = profiles(self._options.edge_profile)
                self._guide, self._paths = EdgeCounts.saved(profile), profile.path_counts_for
            is_read = self._guide is not None and registry.needs_unit_flow(setting.mode)
            self._unit_flow = self._guide.unit_flow if self._guide and is_read else None
            self._pricer = registry.pricer(setting.mode, self._options)
            self._selected = SelectedRoutines(recovered, setting.selection)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except SimulatorError as error:
            self._error = str(error)

    def take(self, number: int, contexts: ProgramContexts) -> None:
        if self._error is None:
            with self._noting_errors():
                cfg = self._recovered.routines[number]
                if self._selected.takes(cfg):
                    self._plan(cfg, contexts.of(number))

    @property
    def is_timed(self) -> bool:
        return self._counts is not None or self._setting.mode in TIMED

    def _plan(self, cfg: ControlFlowGraph, context: RoutineContext) -> None:
        counts = None if self._guide is None else self._guide(cfg) or (0,) * len(cfg.edges)
        paths = None if self._paths is None else self._paths(cfg) or {}
        weights = self._weights(cfg)
        started = time.perf_counter()
        mode, options = self._setting.mode, self._options
        plan = make_plan(cfg, mode, options, weights, counts, paths, self._unit_flow)
        planned = time.perf_counter()
        code = self._pricer.code(cfg, plan.plan, plan.weights, context)
        self._planning += planned - started
        if self.is_timed:
            code.generate()
            self._generation += time.perf_counter() - planned
        nothing = (0,) * len(cfg.edges)
        places = _places(cfg, plan, context, nothing, LAYOUT.of(self._options))
        sizes = plan_sizes(plan.plan, code, 0)
        decoder = definition(mode).path_decoder(plan)
        potential = graph_facts(cfg).potential_paths
        row = {
            "symbol": cfg.name,
            "routine_address": address_text(cfg.address),
            "potential_paths": potential,
            "numbered_paths": None if decoder is None else decoder.num_paths,
            "table": str(plan.plan.table),
        }
        self._rows.append(row)
        self._code.append(
            {
                **_planned_code(mode, potential, plan),
                "instrumented_edges": places.places,
                "no_jump_edges": places.without_jump,
                "own": self._selected.is_own(cfg),
                "counter_bytes": 0 if self._counts is None else sizes["counter_bytes"],
            }
        )
        self._sizes.update(sizes)
        if self._counts is not None:
            instructions = sum(block.instructions for block in cfg.blocks)
            self._sizes["routine_bytes"] += 4 * instructions

    def result(self, recovery: float) -> CellDocument:
        seconds = {"planning": self._planning, "generation": self._generation}
        if self._error is not None:
            return failure(self._error).timed(recovery=recovery, **seconds)
        lists = pack(self._rows, _without_zeros(self._code))
        made = CellDocument(found(sizes=dict(self._sizes)), lists)
        return made.timed(recovery=recovery, **seconds)
