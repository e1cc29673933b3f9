"""The one loop in which a program is run: passes, each with a named reason, until there is none.

A pass recovers the graphs, chooses what plans routines, and executes the program. What it shows is
a value, `Runs`, which the next pass begins with. The program reads the same in each of them, and
nothing that it writes appears twice.

Terms
reason
    Why a program is run (`Reason`); `why` finds it in what the runs so far have shown.
stage
    Passes under the same schemes (`Stage`). Where schemes need an edge profile first, the others
    are the first stage.

Steps -> functions
1. is there a reason to run the program?                   `why`
2. what only its start-up shows                            `_start_up`
3. recover, choose, execute                                `_count`, `_play`
4. collect, once the graphs lack nothing                   `_finished`
5. schemes that waited for the edge profile, replayed      `_replayed`
6. the counters that a replay leaves out                   `_for_counters`, `_completed`
7. traces for the self-check                               `_write_trace`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.engine.lowering import KnownProducts
from simprof.profiler.engine.silence import EventsLostError
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    NO_SCHEME,
    Phase,
    ProgressCallback,
    Setting,
    report_progress,
)
from simprof.profiler.schemes.registry import (
    NO_CONTEXTS,
    beginning,
    definition,
    has_own_table,
)
from simprof.profiler.session.contexts import check_contexts
from simprof.profiler.session.counters import Counters
from simprof.profiler.session.execution import GRACE, ExecutionOptions, ProgramExecution
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import Invocation, Observation, collect
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    PathCounts,
    Planner,
    Planners,
    SchemeRun,
    judges,
    make_schemes,
    needs_first_run,
    needs_path_counts,
)
from simprof.profiler.session.world import World
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.running import RunResult
from simprof.simulator.stopping import Stopped

if TYPE_CHECKING:
    from simprof.profiler.session.traces import TraceOrder

MAXIMUM_RUNS = 16  # Runs of a stage until the graphs explain everything that the program does


class Reason(StrEnum):
    """Why a program is run."""

    COUNTS = "counts"  # which every result has once
    START_UP = "start-up"  # it writes code, or loads modules, that its file does not show
    GRAPHS = "graphs"  # they lacked something that it did
    EVENTS = "events"  # too few blocks raised them to tell what it did
    EDGE_PROFILE = "edge profile"  # it guides schemes, which had to wait for it
    COUNTERS = "counters"  # some of these schemes' do not follow from the run that gave the profile
    ORDER = "order"  # that of all events is wanted: a trace, which a self-check regenerates


class Study(Struct, frozen=True):
    """What stays the same through all passes."""

    invocation: Invocation  # How the run was asked for
    planners: Planners
    memory: BinaryMemory  # What earlier sessions knew of the program
    progress: ProgressCallback | None  # Who is told how far the session is, if anybody
    settings: tuple[Setting, ...] = ()  # The schemes
    trace: TraceOrder | None = None  # The trace that is to be written, if one is
    # Traces that are wanted once everything has been counted: who writes each, and where to
    orders: tuple[tuple[Setting, Path], ...] = ()
    # Whether the execution is regenerated from traces, and compared, and what it has learnt checked
    checks: bool = False
    # What recoveries have found, for the next one to reuse
    known: Known = field(default_factory=Known)
    # Numbers of the only routines that concern the schemes; None: all that were selected.
    routines: frozenset[int] | None = None
    # The edge profile of the whole run, where it is given; a first stage of some routines, which
    # counts paths, lacks the others'.
    guide: EdgeCounts | None = None
    # Graphs that are there already, with the discoveries that they rest on
    recovered: tuple[Discoveries, ProgramGraphs] | None = None
    _linked: dict[object, Known] = field(default_factory=dict)

    @property
    def keeps_plans(self) -> bool:
        """Whether it is worth while to keep the schemes' plans."""
        # To write the plans of many schemes takes as long as to make them. A scheme that an edge
        # profile guides comes with another, which prices that.
        return self.routines is None and len(self.settings) <= 2

    @property
    def keeps_products(self) -> bool:
        """Whether what the schemes do along segments is kept for later runs."""
        # A trace and counts by context have operations of their own in the same lists.
        return self.keeps_plans and self.trace is None and self.invocation.contexts is None

    def recover(self, program: Program, discoveries: Discoveries) -> ProgramGraphs:
        """Return the program's graphs, which may be known already."""
        if self.recovered is not None and self.recovered[0] == discoveries:
            return self.recovered[1]
        loaded = discoveries.modules, discoveries.earlier
        known = self._linked.setdefault(loaded, Known()) if program.modules else self.known
        limit = self.invocation.max_instructions
        told = partial(report_progress, self.progress, Phase.RECOVERING, limit=limit)
        return self.memory.recover(discoveries, known, told, program)


class Stage(Struct, frozen=True):
    """Passes under the same schemes; each is made because the graphs of the last were not right."""

    study: Study
    settings: tuple[Setting, ...]
    planners: Sequence[Planner]
    edge_counts: EdgeCounts | None = None  # Of an earlier stage, for schemes that they guide
    replayable: bool = False  # Whether other schemes are to be replayed on what it counts
    left: int = MAXIMUM_RUNS - 1  # How many passes may follow the next one
    is_dense: bool = False  # Whether all blocks raise events in the next pass
    known: KnownProducts = field(default_factory=dict)  # What its passes know of routines
    # The run whose counters it completes, and those, by scheme and routine; None: it is a run of
    # its own.
    completes: Observation | None = None
    left_out: Mapping[Setting, frozenset[int]] = field(default_factory=dict)


class Runs(Struct, frozen=True):
    """The runs of a program so far, and what they leave to the next one."""

    world: World  # That the program runs in
    discoveries: Discoveries = field(default_factory=Discoveries)  # Beside the program's file
    # runs, whole_runs: How many runs there were, and how many of them were whole.
    runs: int = 0
    whole_runs: int = 0
    reasons: tuple[Reason, ...] = ()  # Why there was each of them
    # What all passes begin with; None: the start-up has not been looked at yet.
    begun: Discoveries | None = None
    stage: Stage | None = None
    # is_lost, is_lacking: Whether the last pass could not tell what the program did, and whether
    # its graphs were not right.
    is_lost: bool = False
    is_lacking: bool = False
    observation: Observation | None = None  # What a pass on the right graphs has counted
    # Routines without counters, by scheme, that a run of their own can have counted
    left_out: Mapping[Setting, frozenset[int]] = field(default_factory=dict)
    is_guided: bool = True  # Whether all schemes have had the edge profile that they need
    traces: int = 0  # How many of the traces that are wanted have been written


def why(runs: Runs, orders: int = 0) -> Reason | None:
    """Return why the program has to be run, or run again; None if everything is known."""
    # orders: How many traces are wanted.
    if runs.begun is None:
        return Reason.START_UP
    if runs.is_lost:
        return Reason.EVENTS
    if runs.is_lacking:
        return Reason.GRAPHS
    if runs.observation is None:
        return Reason.COUNTS
    if runs.left_out:
        return Reason.COUNTERS
    if not runs.is_guided:
        return Reason.EDGE_PROFILE
    return Reason.ORDER if runs.traces < orders else None


def observe_in(
    world: World,
    study: Study,
    seen: Discoveries | None = None,
    guide: EdgeCounts | None = None,
    paths: PathCounts | None = None,
) -> Observation:
    """Observe a program in its world; `seen`, `guide`, `paths`: see `session.observe`."""
    study.planners.beginnings.update(_beginnings(study, world))
    study.planners.path_counts = paths
    with ExitStack() as stack:
        checked = _checked_traces(study, world, stack) if study.checks else []
        own = None if study.trace is None else study.trace.path
        orders = tuple(each for each in checked if each[1] != own)
        begun = Runs(world, seen or Discoveries())
        runs = run_passes(replace(study, orders=orders), begun, guide)
        observation = runs.observation
        assert observation is not None
        for setting, path in checked:
            from simprof.profiler.session.self_check import check_trace  # reads traces: numba

            check_trace(path, setting.name, observation.events.values())
    return replace(
        observation,
        memory=study.memory,
        keeps_plans=study.keeps_plans,
        opened=world.opened,
        runs=runs.runs,
        whole_runs=runs.whole_runs,
        reasons=runs.reasons,
    )


def _beginnings(study: Study, world: World) -> dict[int, EdgeCounts]:
    """Return the edge profiles of the run's beginnings that guide schemes, by instructions."""
    found: dict[int, EdgeCounts] = {}
    for setting in study.settings:
        number = beginning(setting.mode, setting.options)
        if number and setting.options.edge_profile is not None:
            raise UsageError(
                f"{setting.name}: --edge-profile guides it, too: give one of both, not both"
            )
        if not number or number in found:
            continue
        # Later runs in the same world read what this one has read, and write nothing twice.
        limit = number if world.limit is None else min(number, world.limit)
        first = replace(world, guest=replace(world.guest, max_instructions=limit))
        invocation = replace(study.invocation, contexts=None, max_instructions=limit)
        part = Study(invocation, study.planners, study.memory, study.progress, (NO_SCHEME,))
        (measurement,) = measure_all(observe_in(first, part), keep_plans=False)
        # By addresses: the rest of the run may show edges that its beginning does not.
        found[number] = EdgeCounts.saved(measurement.edge_profile())
    return found


def _checked_traces(study: Study, world: World, stack: ExitStack) -> list[tuple[Setting, Path]]:
    """Return the traces that a self-check regenerates: a scheme that writes one, and its file.

    That is the trace which the user wanted, if it is a file; the others are temporary.
    """
    contexts = study.invocation.contexts
    if world.program.parts or (contexts is not None and contexts.entry is not None):
        return []  # a trace is of a whole run, and tells nothing of stubs
    found: list[tuple[Setting, Path]] = []
    for position, setting in enumerate(study.settings):
        if not definition(setting.mode).writes_trace:
            continue
        own = None if study.trace is None or position else study.trace.path
        if own is None or (own.exists() and not own.is_file()):
            own = stack.enter_context(scratch_directory("simprof-self-check-")) / "trace"
        found.append((setting, own))
    return found


def run_passes(study: Study, runs: Runs, edge_counts: EdgeCounts | None = None) -> Runs:
    """Run a program until there is no reason to do so again.

    `edge_counts`: An edge profile that guides schemes; None: a first stage counts it. Raises
    KeyboardInterrupt if the user ends the run for a trace.
    """
    _check_trees(study)
    study = replace(study, guide=edge_counts)
    while (reason := why(runs, len(study.orders))) is not None:
        if reason not in (Reason.START_UP, Reason.COUNTS):
            runs = replace(runs, reasons=(*runs.reasons, reason))
        match reason:
            case Reason.START_UP:
                runs = _start_up(study, runs)
            case Reason.COUNTS | Reason.GRAPHS | Reason.EVENTS:
                runs = _count(runs, runs.stage or _first_stage(study))
            # the others begin another stage: its passes find nothing of the last one in memory
            case Reason.COUNTERS:
                runs = _for_counters(study, runs)
            case Reason.EDGE_PROFILE:
                runs = _for_edge_profile(study, runs)
            case Reason.ORDER:
                runs = _write_trace(study, runs)
    return runs


def run_bare(world: World) -> tuple[Discoveries, RunResult]:
    """Run a program under no scheme; return what it loads, and how the run ended."""
    return world.loaded_modules()  # no other module has a program run


def _start_up(study: Study, runs: Runs) -> Runs:
    """Find what only the program's start-up shows: words of code, or what it loads."""
    world = runs.world
    if world.program.parts:
        report_progress(study.progress, Phase.RUNNING, limit=world.limit)
        shown, result = run_bare(world)
        world = world.ending_like(result)
    else:
        _check_names(study, runs)
        words, world = world.late_words()
        if words is None:
            return replace(runs, begun=runs.discoveries)
        shown = words
    known = shown.merged(runs.discoveries)
    reasons = (*runs.reasons, Reason.START_UP)
    return replace(runs, world=world, begun=known, discoveries=known, reasons=reasons)


def _check_names(study: Study, runs: Runs) -> None:
    """Check that the program has what a selection and windows name: UsageError if it has not."""
    # before it runs at all: that of its start-up (`World.late_words`) is all of a short program
    selection, contexts = study.invocation.selection, study.invocation.contexts
    if selection.is_all and contexts is None:
        return
    recovered = study.recover(runs.world.program_with(runs.discoveries), runs.discoveries)
    Graphs(recovered, selection)
    if contexts is not None:
        check_contexts(recovered, contexts)


def _check_trees(study: Study) -> None:
    """Check that the costs of all schemes are known by calling context where that is asked for."""
    contexts = study.invocation.contexts
    if contexts is None or not contexts.tree:
        return
    own = (each.name for each in study.settings if has_own_table(each.mode))
    if (name := next(own, None)) is not None:
        raise UsageError(f"{name}: {NO_CONTEXTS}: make call trees under another mode")


def _first_stage(study: Study) -> Stage:
    """Return the stage of all schemes, or of those that others need the edge profile of."""
    settings = study.settings
    if not needs_first_run(settings):
        return _stage(study, settings, None)
    has_paths = study.planners.path_counts is not None or not needs_path_counts(settings)
    if study.guide is not None and has_paths:
        return _stage(study, settings, study.guide)
    study.planners.of(settings)  # what is wrong with saved profiles shows before a whole run
    free = [setting for setting in settings if not needs_first_run((setting,))]
    return replace(_stage(study, (*free, *judges(settings)), None), replayable=True)


def _stage(study: Study, settings: Sequence[Setting], edge_counts: EdgeCounts | None) -> Stage:
    planners = study.planners.of(settings, edge_counts)
    return Stage(study, tuple(settings), planners, edge_counts)


def _count(before: Runs, stage: Stage) -> Runs:
    """Make one pass of a stage."""
    # Where a program shows what its graphs lack piece by piece, each run lasts longer, so that the
    # last one need not be made on graphs that lack something.
    grace = GRACE << MAXIMUM_RUNS - 1 - stage.left if stage.left else None
    options = ExecutionOptions(
        grace=grace,
        replayable=stage.replayable,
        edge_counts=stage.edge_counts,
        known=stage.known,
        is_dense=stage.is_dense,
        contexts=stage.study.invocation.contexts,
        checks=stage.study.checks,
    )
    try:
        execution = _play(stage.study, before, stage.planners, options)
    except EventsLostError:
        if stage.is_dense:
            raise
        return replace(before, is_lost=True, stage=replace(stage, is_dense=True))
    world, result = before.world, execution.result
    is_given_up = execution.given_up and result.reason == "budget"  # not cut short from outside
    runs = replace(
        before,
        world=world if is_given_up else world.ending_like(result),
        discoveries=before.discoveries.merged(execution.discoveries),
        stage=stage,
        is_lost=False,
        is_lacking=False,
        runs=before.runs + 1,
    )
    has_more = runs.discoveries != before.discoveries
    if stage.left and has_more:
        execution.close()
        stage = replace(stage, left=stage.left - 1, is_dense=False)
        return replace(runs, is_lacking=True, stage=stage)
    # after the last pass that is made, the graphs may lack something still
    if not has_more and (earlier := execution.earlier) is not None:
        more = earlier.more(execution.lowering)
        stage.study.memory.keep_products(runs.discoveries, earlier.kept.of, more)
    runs = replace(runs, whole_runs=runs.whole_runs + 1)
    observation = collect(execution.counted(), stage.study.invocation, len(stage.settings))
    execution.close()
    return _finished(runs, stage, replace(observation, discoveries=runs.discoveries))


def _play(
    study: Study,
    runs: Runs,
    planners: Sequence[Planner],
    options: ExecutionOptions,
) -> ProgramExecution:
    """Recover, choose, execute."""
    world, discoveries = runs.world, runs.discoveries
    report_progress(study.progress, Phase.RECOVERING, limit=world.limit)
    program = world.program_with(discoveries)
    recovered = study.recover(program, discoveries)
    if study.keeps_products and not (program.parts or options.replayable):
        settings = [planner.setting for planner in planners]
        options = replace(options, products=study.memory.products(discoveries, settings))
    _remember(study, runs, planners)
    selected = Graphs(recovered, study.invocation.selection, study.routines)
    schemes = make_schemes(selected, planners)
    if study.trace is not None:
        options = replace(options, start_trace=partial(study.trace.begin, schemes[0], discoveries))
    phase = Phase.RERUNNING if runs.runs else Phase.RUNNING
    report_progress(study.progress, phase, limit=world.limit)
    return world.execute(discoveries, recovered, schemes, options)


def _remember(study: Study, runs: Runs, planners: Iterable[Planner]) -> None:
    # Of a few routines, in one of several processes, plans are made in less time than read.
    for planner in planners if study.routines is None else ():
        planner.remember(study.memory.plans(runs.discoveries, planner.setting))


def _finished(runs: Runs, stage: Stage, observation: Observation) -> Runs:
    """Return what a pass leaves whose graphs lacked nothing; replay schemes that had to wait."""
    if stage.completes is not None:
        return _completed(runs, stage, observation)
    runs = replace(runs, observation=observation)
    if not stage.replayable:
        return runs
    study = stage.study
    if needs_path_counts(study.settings):
        study.planners.path_counts = observation.path_counts
    executed, limit = observation.result.instructions, runs.world.limit
    report_progress(study.progress, Phase.PLANNING, instructions=executed, limit=limit)
    if study.invocation.contexts is not None:
        # what is counted by context is that of schemes which take part in the run
        return replace(runs, is_guided=False)
    planners = study.planners.of(study.settings, study.guide or observation.edge_counts)
    _remember(study, runs, planners)
    # those behind are of schemes that only judge others
    replayed, left_out = _replayed(observation, planners[: len(study.settings)])
    if left_out and study.trace is not None:
        # all schemes have to take part in the run that is traced
        return replace(runs, is_guided=False)
    return replace(runs, observation=replayed, left_out=left_out)


def _replayed(
    guide: Observation, planners: Sequence[Planner]
) -> tuple[Observation, dict[Setting, frozenset[int]]]:
    """Return the run `guide` as if the schemes of all `planners` had been part of it.

    Those that need no edge profile were. The others are replayed on what the run counted. Also
    return those that cannot be, each with the routines whose counters it lacks.
    """
    assert isinstance(guide.counters, Counters)
    graphs = Graphs(guide.recovered, guide.invocation.selection)
    known = {scheme.setting: scheme for scheme in guide.schemes}
    slots = count(sum(scheme.slot is not None for scheme in guide.schemes))
    guided = [
        SchemeRun(planner.setting, graphs, planner.make, next(slots), planner.forget)
        for planner in planners
        if planner.setting not in known
    ]
    left = zip(guided, guide.counters.replay(guided), strict=True)
    lacking = {scheme.setting: routines for scheme, routines in left if routines}
    known |= {scheme.setting: scheme for scheme in guided}
    return replace(guide, schemes=[known[planner.setting] for planner in planners]), lacking


def _for_edge_profile(study: Study, runs: Runs) -> Runs:
    """Begin another stage: all schemes, guided by what has been counted."""
    assert runs.observation is not None
    stage = _stage(study, study.settings, study.guide or runs.observation.edge_counts)
    return replace(runs, stage=stage, observation=None, is_guided=True)


def _for_counters(study: Study, runs: Runs) -> Runs:
    """Begin another stage: the counters that a replay has left out, and no others."""
    first, left_out = runs.observation, runs.left_out
    assert first is not None
    routines = frozenset[int]().union(*left_out.values())
    some = replace(study, routines=routines, recovered=(first.discoveries, first.recovered))
    stage = _stage(some, tuple(left_out), study.guide or first.edge_counts)
    stage = replace(stage, completes=first, left_out=left_out)
    return replace(runs, stage=stage, observation=None, left_out={})


def _completed(runs: Runs, stage: Stage, again: Observation) -> Runs:
    """Return a run with the counters of a second one, if that was the same."""
    first = stage.completes
    assert first is not None
    if runs.discoveries != first.discoveries or not again.result.ended_like(first.result):
        return replace(runs, observation=first, is_guided=False)
    schemes = {
        (scheme.setting, routine): scheme
        for scheme in again.schemes
        for routine in stage.left_out[scheme.setting]
    }

    def counters(scheme: SchemeRun, routine: int) -> RoutineCounters:
        other = schemes.get((scheme.setting, routine))
        run, scheme = (first, scheme) if other is None else (again, other)
        return run.counters(scheme, routine)

    return replace(runs, observation=replace(first, counters=counters))


def _write_trace(study: Study, runs: Runs) -> Runs:
    """Run once more, as the run did, and write the next of the traces, of all routines."""
    from simprof.profiler.session.traces import TraceOrder  # which few sessions need

    setting, path = study.orders[runs.traces]
    invocation = replace(study.invocation, selection=ALL_ROUTINES)
    traced = replace(study, invocation=invocation, trace=TraceOrder(path, invocation))
    later = replace(runs, world=runs.world.untimed())
    options = ExecutionOptions(grace=None)
    result = _play(traced, later, traced.planners.of([setting]), options).result
    if result.reason == "interrupted":
        raise Stopped(result.signal or SIGINT)
    return replace(runs, traces=runs.traces + 1)
