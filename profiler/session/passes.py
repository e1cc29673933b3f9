"""The one loop in which a program is run, again and again, until there is no reason to do so.

Each run is made on graphs that contain all that the runs before it have shown. The program reads
the same in each of them, and nothing that it writes appears twice.

Terms
reason
    Why a program is run again (`Reason`): its graphs lacked something that it did, or a profile
    that guides schemes is there now, and what they count does not follow from the run that gave it.

Steps -> functions
1. what a dynamically linked program loads                 `_loaded`
2. recover, plan, execute                                  `_execute`
3. run again on better graphs; collect                     `_observed`
4. schemes that waited for a profile, without another run  `_first_run`
5. the others, in another run                              `run_passes`, `_together`
6. traces for the self-check                               `_write_trace`
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

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
from simprof.profiler.session.execution import (
    GRACE,
    ExecutionOptions,
    ProgramExecution,
    all_loaded,
)
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
from simprof.simulator.machine.codewatch import LoadedCode
from simprof.simulator.machine.running import RunResult
from simprof.simulator.stopping import Stopped

if TYPE_CHECKING:
    from simprof.profiler.session.traces import TraceOrder

MAXIMUM_RUNS = 16  # Runs under the same schemes until the graphs explain all that the program does


class Reason(StrEnum):
    """Why a program is run again."""

    GRAPHS = "graphs"  # they lacked something that it did
    PROFILE = "profile"  # it guides schemes, which had to wait for it


class Study(Struct, frozen=True):
    """What stays the same through all runs."""

    invocation: Invocation  # How the run was asked for
    planners: Planners
    memory: BinaryMemory  # What earlier sessions knew of the program
    progress: ProgressCallback | None  # Who is told how far the session is, if anybody
    settings: tuple[Setting, ...] = ()  # The schemes
    trace: TraceOrder | None = None  # The trace that is to be written, if one is
    # Whether the execution is regenerated from traces, and compared, and what it has learnt checked
    checks: bool = False
    # What recoveries have found, for the next one to reuse
    known: Known = field(default_factory=Known)
    _linked: dict[object, Known] = field(default_factory=dict)

    def recover(self, program: Program, discoveries: Discoveries) -> ProgramGraphs:
        """Return the program's graphs, which may be known already."""
        loaded = discoveries.modules, discoveries.earlier
        known = self._linked.setdefault(loaded, Known()) if program.modules else self.known
        limit = self.invocation.max_instructions
        told = partial(report_progress, self.progress, Phase.RECOVERING, limit=limit)
        return self.memory.recover(discoveries, known, told, program)


class Runs(Struct, frozen=True):
    """The runs of a program so far, and what they leave to the next one."""

    world: World  # That the program runs in
    discoveries: Discoveries = field(default_factory=Discoveries)  # Beside the program's file
    # runs, whole_runs: How many runs there were that counted, and how many of them were whole.
    runs: int = 0
    whole_runs: int = 0
    reasons: tuple[Reason, ...] = ()  # Why there was each of them but the first
    # Graphs that a run has been made on which lacked nothing, with the discoveries they rest on
    recovered: tuple[Discoveries, ProgramGraphs] | None = None


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
    runs = Runs(world, seen or Discoveries())
    _check_trees(study)
    if world.program.parts and not runs.discoveries.modules:
        runs = _loaded(study, runs)
    else:
        _check_names(study, runs)
    with ExitStack() as stack:
        checked = _checked_traces(study, world, stack) if study.checks else []
        own = None if study.trace is None else study.trace.path
        runs, observation = run_passes(study, runs, guide)
        for setting, path in checked:
            from simprof.profiler.session.self_check import check_trace  # reads traces: numba

            if path != own:
                _write_trace(study, runs, setting, path)
            check_trace(path, setting.name, observation.events.values())
    return replace(
        observation,
        memory=study.memory,
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


def run_passes(
    study: Study, runs: Runs, edge_counts: EdgeCounts | None = None
) -> tuple[Runs, Observation]:
    """Run a program until there is no reason to do so again.

    `edge_counts`: An edge profile that guides schemes; None: a run of the others counts it.
    """
    settings = study.settings
    if not needs_first_run(settings):
        return _observed(study, runs, settings)
    has_paths = study.planners.path_counts is not None or not needs_path_counts(settings)
    if edge_counts is None or not has_paths:
        study.planners.of(settings)  # what is wrong with saved profiles shows before a whole run
        runs, first, left = _first_run(study, runs, edge_counts)
        edge_counts = edge_counts or first.edge_counts
        if not left:
            return runs, first
        runs = replace(runs, reasons=(*runs.reasons, Reason.PROFILE))
        if left != settings and runs.recovered is not None:
            runs, again = _observed(study, runs, left, edge_counts)
            return runs, _together(first, again)
        del first  # which is large
    return _observed(study, runs, settings, edge_counts)


def _first_run(
    study: Study, runs: Runs, edge_counts: EdgeCounts | None
) -> tuple[Runs, Observation, tuple[Setting, ...]]:
    """Run the schemes that need no profile; return the run as if all had been part of it.

    Also return those whose counters do not follow from it, which have to be part of another run:
    what they count depends on the order of segments, as what hash tables cost does.
    """
    settings, planners = study.settings, study.planners
    free = [setting for setting in settings if not needs_first_run((setting,))]
    runs, first = _observed(study, runs, (*free, *judges(settings)), guides=True)
    if needs_path_counts(settings):
        planners.path_counts = first.path_counts
    executed, limit = first.result.instructions, runs.world.limit
    report_progress(study.progress, Phase.PLANNING, instructions=executed, limit=limit)
    if study.invocation.contexts is not None:
        return runs, first, settings  # only schemes that are part of a run are counted by context
    assert isinstance(first.counters, Counters)
    # those behind are of schemes that only judge others
    wanted = planners.of(settings, edge_counts or first.edge_counts)[: len(settings)]
    graphs = Graphs(first.recovered, first.invocation.selection)
    known = {scheme.setting: scheme for scheme in first.schemes}
    slots = count(sum(scheme.slot is not None for scheme in first.schemes))
    waiting = [
        SchemeRun(planner.setting, graphs, planner.make, next(slots), planner.forget)
        for planner in wanted
        if planner.setting not in known
    ]
    known |= {scheme.setting: scheme for scheme in waiting}
    left = tuple(scheme.setting for scheme in first.counters.replay(waiting))
    if left and study.trace is not None:
        left = settings  # all have to be part of the run that is traced
    return runs, replace(first, schemes=[known[planner.setting] for planner in wanted]), left


def _together(first: Observation, again: Observation) -> Observation:
    """Return a run whose schemes are, as far as they were part of it, those of a second one."""
    later = {scheme.setting: scheme for scheme in again.schemes}

    def counters(scheme: SchemeRun, routine: int) -> RoutineCounters:
        run = again if later.get(scheme.setting) is scheme else first
        return run.counters(scheme, routine)

    schemes = [later.get(scheme.setting, scheme) for scheme in first.schemes]
    return replace(first, schemes=schemes, counters=counters)


def run_bare(world: World) -> tuple[RunResult, LoadedCode]:
    """Run a program under no scheme; return how it ended, and what it has loaded."""
    return world.run_bare()  # no other module has a program run


def _loaded(study: Study, runs: Runs) -> Runs:
    """Run a dynamically linked program, counting nothing: most of its code is in what it loads."""
    report_progress(study.progress, Phase.RUNNING, limit=runs.world.limit)
    result, loaded = run_bare(runs.world)
    discoveries = runs.discoveries.merged(all_loaded(loaded))
    return replace(runs, world=runs.world.ending_like(result), discoveries=discoveries)


def _check_names(study: Study, runs: Runs) -> None:
    """Check that the program has what a selection and windows name: UsageError if it has not."""
    # before it runs at all; of one that is dynamically linked, its first run shows what there is
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


def _observed(
    study: Study,
    runs: Runs,
    settings: Sequence[Setting],
    edge_counts: EdgeCounts | None = None,  # That guides some of the schemes
    *,
    guides: bool = False,  # Whether other schemes wait for what the run counts
) -> tuple[Runs, Observation]:
    """Run a program under some schemes until its graphs lack nothing."""
    planners = study.planners.of(settings, edge_counts)
    before = 0  # Runs that were given up
    while True:
        is_last = before == MAXIMUM_RUNS - 1
        options = ExecutionOptions(
            # Where a program shows what its graphs lack piece by piece, each run lasts longer, so
            # that the last one need not be made on graphs that lack something.
            grace=None if is_last else GRACE << before,
            replayable=guides,
            edge_counts=edge_counts,
            contexts=study.invocation.contexts,
            checks=study.checks,
        )
        execution = _execute(study, runs, planners, options)
        result, had = execution.result, runs.discoveries
        is_given_up = execution.given_up and result.reason == "budget"  # not cut short from outside
        runs = replace(
            runs,
            world=runs.world if is_given_up else runs.world.ending_like(result),
            discoveries=had.merged(execution.discoveries),
            runs=runs.runs + 1,
        )
        if runs.discoveries != had and not is_last:
            execution.close()
            del execution  # its plans are as large as those of the next run
            runs = replace(runs, reasons=(*runs.reasons, Reason.GRAPHS))
            before += 1
            continue
        # after the last run that is made, the graphs may lack something still
        if runs.discoveries == had:
            runs = replace(runs, recovered=(had, execution.recovered))
        observation = collect(execution.counted(), study.invocation, len(settings))
        execution.close()
        runs = replace(runs, whole_runs=runs.whole_runs + 1)
        return runs, replace(observation, discoveries=runs.discoveries)


def _execute(
    study: Study, runs: Runs, planners: Sequence[Planner], options: ExecutionOptions
) -> ProgramExecution:
    """Recover, plan, execute."""
    world, discoveries = runs.world, runs.discoveries
    report_progress(study.progress, Phase.RECOVERING, limit=world.limit)
    program = world.program_with(discoveries)
    if runs.recovered is not None and runs.recovered[0] == discoveries:
        recovered = runs.recovered[1]
    else:
        recovered = study.recover(program, discoveries)
    schemes = make_schemes(Graphs(recovered, study.invocation.selection), planners)
    if study.trace is not None:
        options = replace(options, start_trace=partial(study.trace.begin, schemes[0], discoveries))
    phase = Phase.RERUNNING if runs.runs else Phase.RUNNING
    report_progress(study.progress, phase, limit=world.limit)
    try:
        return world.execute(discoveries, recovered, schemes, options)
    except EventsLostError:
        if options.is_dense:
            raise
    # Too few blocks raised events to tell what the program did: all of them do.
    return world.execute(discoveries, recovered, schemes, replace(options, is_dense=True))


def _write_trace(study: Study, runs: Runs, setting: Setting, path: Path) -> None:
    """Run once more, as the run did, and write a trace of all routines."""
    from simprof.profiler.session.traces import TraceOrder  # which few sessions need

    invocation = replace(study.invocation, selection=ALL_ROUTINES)
    traced = replace(study, invocation=invocation, trace=TraceOrder(path, invocation))
    later = replace(runs, world=runs.world.untimed())
    options = ExecutionOptions(grace=None)
    result = _execute(traced, later, traced.planners.of([setting]), options).result
    if result.reason == "interrupted":
        raise Stopped(result.signal or SIGINT)
