"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

A run is a pipeline of values. The request is taken apart at the door (`observe`), and each stage
gets the part that concerns it:

1. load the program                                      `simprof.simulator.binary.elf.load`
2. recover its graphs                                    `recovery.recover`
3. choose what plans a routine, for each scheme          `scheme_runs.make_schemes`
4. execute; routines are planned when first entered      `execution.execute`
5. collect what the run and its schemes have counted     `observation.collect`
6. measure: read the counters, price the code            `results.measure_all`

What an execution discovers that the graphs lack is a value, too. With it, the next round takes
stages 2 to 4 again, on the recorded input, until nothing is discovered (`passes.settle`). The
words of late code are looked for before the first round (`execution.late_words`).

Schemes that need an edge profile first are replayed on what a run under the others has counted
(`_replayed`). What that leaves out is counted by another run, guided by the first (`_completed`).

A comparison of a large program is recorded under no scheme and measured from the recording, by
several processes (`_observe_recorded`, `shared`).

Where an edge profile guides a scheme, the mode that collects such profiles is measured beside it,
on the same counts: that is the price of the profile (`results.with_prices`).

With `--self-check` traces are regenerated before the program's world is closed (`_check_traces`),
and the rest is validated while it is measured (`self_check`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.graphs.flow import FlowError
from simprof.profiler.profiles.cache_files import binaries
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import Phase, RunRequest, SchemeOptions, Setting
from simprof.profiler.schemes.registry import definition, edge_profiler, judges
from simprof.profiler.session.contexts import check_contexts
from simprof.profiler.session.counters import CompletedCounters
from simprof.profiler.session.execution import late_words, scout
from simprof.profiler.session.memory import BinaryMemory, PastRun, with_kept_lines
from simprof.profiler.session.observation import Invocation, Observation, SchemeComparison
from simprof.profiler.session.passes import Round, Study, TraceOrder, settle, tell, write_trace
from simprof.profiler.session.results import measure_all, with_prices
from simprof.profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    Planner,
    SavedProfiles,
    SchemeRun,
    needs_first_run,
)
from simprof.profiler.session.world import World, open_world
from simprof.simulator.binary.dynamic import are_unchanged, load_program
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import SimulatorError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.session.recordings import RecordingOrder
    from simprof.profiler.session.replay import RecordedRun

NO_SCHEME = Setting("edges", "edges", SchemeOptions())
"""What every run counts, and nothing else."""
LARGE_PROGRAM = 2 << 20
"""Bytes of code from which on the schemes of a comparison are shared out among processes. To plan
and measure many schemes in a large program takes longer than to run it; what it costs to record the
run is little beside that, and spares a second one."""
FEW_ROUTINES = 100
"""Routines of a recorded run below which one process is enough."""


def run_program(request: RunRequest) -> RunMeasurement:
    """Run a program under the scheme of `request` and measure it.

    Raises
    ------
    SimulatorError
        Anything that the user must know: see `simprof.simulator.errors`.
    """
    return compare_program(request, (request.setting,)).measurements[0]


def compare_program(
    request: RunRequest, settings: Sequence[Setting], *, brief: bool = False, jobs: int = 1
) -> SchemeComparison:
    """Measure several schemes, all in one emulation, or two (see `SchemeComparison`).

    `request.mode` and `request.scheme` are not read; `brief`, `jobs`: see `measure_all`. Raises
    what `run_program` does.
    """
    with _contradictions(request.replay):
        return _compare(request, settings, brief, jobs)


@contextmanager
def _contradictions(recording: Path | None) -> Iterator[None]:
    """Say of counts that contradict each other that they come from a recording, if they do."""
    try:
        yield
    except (CountError, FlowError) as error:
        if recording is None:
            raise
        what, _, _ = str(error).partition(": this is a defect")
        raise UsageError(
            f"{recording} contradicts itself ({what}): record it again; if that does not help, "
            "please report the program"
        ) from None


def _compare(
    request: RunRequest, settings: Sequence[Setting], brief: bool, jobs: int
) -> SchemeComparison:
    limit = request.guest.max_instructions

    def told(done: int, total: int) -> None:
        executed = observation.result.instructions
        tell(request.progress, Phase.EXPANDING, limit, executed, (done, total))

    asked = tuple(settings)
    profiler = edge_profiler(asked)
    settings = asked if profiler is None or profiler in asked else (*asked, profiler)
    shares = jobs > 1 and len(asked) > 1 and _may_share(request)
    if shares:
        observation, run = _observe_recorded(request, settings)
    else:
        observation, run = observe(request, settings), None
    told(0, 0)
    if run is not None:
        from simprof.profiler.session.shared import measure_shared  # which few sessions need

        measurements = measure_shared(observation, run, settings, jobs, brief=brief, told=told)
    else:
        measurements = measure_all(
            observation,
            self_check=request.self_check,
            brief=brief and not request.self_check,
            keep_plans=False,
            told=told,
        )
    measurements = with_prices(dict(zip(settings, measurements, strict=True)), profiler, asked)
    return SchemeComparison(
        measurements, observation.runs, observation.whole_runs, observation.program.lines
    )


def _may_share(request: RunRequest) -> bool:
    """Whether several processes may measure a recording of the run, as far as the request says."""
    needs_one = request.self_check or request.trace or request.recording or request.contexts
    return not needs_one and request.selection.is_all


def _observe_recorded(
    request: RunRequest, settings: Sequence[Setting]
) -> tuple[Observation, RecordedRun | None]:
    """Observe a run and return its recording, too, where it is worth that.

    Returns
    -------
    Observation, RecordedRun
        Without a recording, the run under `settings`; with one, under none.
    """
    if request.replay is not None:
        run = _recorded(request, request.replay)
        if len(run.entered) < FEW_ROUTINES:
            return run.observe(settings), None
        return run.observe(()), run
    with ExitStack() as stack:
        study, first = stack.enter_context(_studied(request))
        program = first.world.program
        if program.platform is not Platform.LINUX or _text(program) < LARGE_PROGRAM:
            return _observed(study, first, request, settings), None
        study.planners(settings)  # what is wrong with saved profiles shows before a whole run
        from simprof.profiler.session.recordings import RecordingOrder
        from simprof.profiler.session.replay import RecordedRun
        from simprof.profiler.trace.recording_format import Recording

        try:
            path = stack.enter_context(scratch_directory("simprof-recording-")) / "recording"
            order = RecordingOrder(path, study.invocation, request.guest)
            stack.callback(order.close)
            recorded = replace(study, recording=order)
            observation = _observed(recorded, first, request, (NO_SCHEME,))
        except (UnsupportedError, UsageError, OSError):
            # a second thread, or no room for the file; whatever else it is will show again
            return _observed(study, first, request, settings), None
        study = replace(
            study, progress=None, recovered=(observation.discoveries, observation.recovered)
        )
        return observation, RecordedRun(study, program, Recording(path), path)


def _text(program: Program) -> int:
    """Return how many bytes of code a program has."""
    return sum(piece.end - piece.start for piece in program.code)


def observe(
    request: RunRequest,
    settings: Sequence[Setting],
    seen: Discoveries | None = None,
    guide: EdgeCounts | None = None,
) -> Observation:
    """Run a program under several schemes until the graphs explain the whole run.

    - `request`: The program, what it sees, and what is to be told. `mode` and `scheme` are not
      read.
    - `settings`: The schemes.
    - `seen`: What other runs have shown, for the graphs of the first round.
    - `guide`: Beside `seen`: the edge profile that guides schemes, in the place of this run's own.

    Raises
    ------
    SimulatorError
        See `run_program`.
    """
    if request.replay is not None:
        return _recorded(request, request.replay).observe(settings)
    with _studied(request) as (study, first):
        return _observed(study, first, request, settings, seen, guide)


@contextmanager
def _studied(request: RunRequest) -> Iterator[tuple[Study, Round]]:
    """Load a program, and open the world that it sees."""
    guest = request.guest
    tell(request.progress, Phase.LOADING, guest.max_instructions)
    program, memory = _load(request)
    if program.parts and request.trace is not None:
        raise UnsupportedError(
            f"{program.path} is dynamically linked, and a trace cannot tell which form of a stub "
            "control came to: link the program statically to trace it"
        )
    invocation = Invocation(
        request.program,
        request.arguments,
        request.selection,
        guest.max_instructions,
        guest.timeout,
        request.contexts,
    )
    trace = None if request.trace is None else TraceOrder(request.trace, invocation)
    profiles = SavedProfiles(program.sha256)
    recording = None
    if request.recording is not None:
        from simprof.profiler.session.recordings import RecordingOrder  # which few sessions need

        recording = RecordingOrder(request.recording, invocation, guest)
    study = Study(invocation, profiles, trace, recording, request.progress, memory)
    with ExitStack() as stack:
        world = stack.enter_context(open_world(program, request.arguments, guest))
        if recording is not None:
            stack.callback(recording.close)
        stack.enter_context(_discarded_if_refused(trace, recording))
        yield study, Round(world, Discoveries())


def _observed(
    study: Study,
    first: Round,
    request: RunRequest,
    settings: Sequence[Setting],
    seen: Discoveries | None = None,
    guide: EdgeCounts | None = None,
) -> Observation:
    """Observe a program in its world; `seen`, `guide`: see `observe`."""
    if request.remember and seen is None:
        observation, after = _remembered(study, request, first.world, settings)
    else:
        begin = first if seen is None else replace(first, discoveries=seen)
        observation, after = _from_file(study, begin, settings, guide)
    if request.self_check:
        _check_traces(study, after, settings, observation)
    if study.recording is not None:
        study.recording.finish(observation, first.world.files.output_digest)
    if len(settings) == 1:
        _keep_plans(study.memory, observation)
    return replace(observation, memory=study.memory, opened=frozenset(first.world.files.opened))


@contextmanager
def _discarded_if_refused(*orders: TraceOrder | RecordingOrder | None) -> Iterator[None]:
    """Remove what a run that ends with a message has written of its traces and recordings.

    A run that the user interrupts, or that is killed, leaves them as far as they go.
    """
    try:
        yield
    except SimulatorError:
        for order in orders:
            if order is not None:
                order.discard()
        raise


def _load(request: RunRequest) -> tuple[Program, BinaryMemory]:
    """Read the program; return it with what earlier sessions knew of it."""
    files = binaries() if request.remember else None
    program = with_kept_lines(load_program(request.program, request.guest.sysroot), files)
    return program, BinaryMemory(program, files)


def _recorded(request: RunRequest, path: Path) -> RecordedRun:
    """Return a recorded run."""
    from simprof.profiler.session.replay import RecordedRun, check_program, invocation_of
    from simprof.profiler.trace.recording_format import Recording

    recording = Recording(path)
    tell(request.progress, Phase.LOADING, None)
    program, memory = _load(request)
    check_program(recording, path, program)
    invocation = invocation_of(recording, request.program, request.selection)
    profiles = SavedProfiles(program.sha256)
    study = Study(invocation, profiles, None, None, request.progress, memory)
    return RecordedRun(study, program, recording, path, partial=request.partial)


def _keep_plans(memory: BinaryMemory, observation: Observation) -> None:
    (scheme,) = observation.schemes
    entered = ((events.cfg, scheme.routine_plan(n)) for n, events in observation.events.items())
    plans = ((cfg, plan) for cfg, plan in entered if plan is not None)
    memory.keep_plans(observation.discoveries, scheme.setting, plans)


def _remembered(
    study: Study, request: RunRequest, world: World, settings: Sequence[Setting]
) -> tuple[Observation, Round]:
    """Observe a program of which earlier sessions may know something, and keep what this one knows.

    See `memory`: what a run is guessed to discover counts only if it was the same run.
    """
    memory, first = study.memory, Round(world, Discoveries())
    past = memory.run(request)
    if past is not None and past.is_same and are_unchanged(past.discoveries.modules):
        guess = replace(first, discoveries=past.discoveries)
        observation, after = _settled(study, guess, settings)
        is_known = past.is_plain or past.record == world.host.log.digest
        if after.discoveries == past.discoveries and is_known:
            return observation, after
        first = replace(after, discoveries=Discoveries())
    begun = _begun(study, first)
    observation, after = _settled(study, begun, settings)
    if not observation.result.is_cut_short:
        record = world.host.log.digest
        is_plain = not world.program.parts and after.discoveries == begun.discoveries
        is_same = past is None or is_plain or past.record == record
        memory.keep_run(request, PastRun(after.discoveries, record, is_same, is_plain))
    return observation, after


def _from_file(
    study: Study, first: Round, settings: Sequence[Setting], guide: EdgeCounts | None = None
) -> tuple[Observation, Round]:
    """Observe a program, beginning with what its file and its start-up show."""
    return _settled(study, _begun(study, first), settings, guide)


def _begun(study: Study, first: Round) -> Round:
    """Return the first round, with what the program's file and its start-up show."""
    if not first.world.program.parts:
        _check_names(study, first)
        known = late_words(first.world).merged(first.discoveries)
        return replace(first, discoveries=known)
    tell(study.progress, Phase.RUNNING, first.max_instructions)
    loaded, result = scout(first.world)
    known = loaded.merged(first.discoveries)
    return replace(first.ending_like(result), discoveries=known)


def _check_names(study: Study, first: Round) -> None:
    """Check that the program has what a selection and windows name, before it runs at all.

    The run of its start-up, which `late_words` makes, is all of a short program.

    Raises
    ------
    UsageError
        If it has not.
    """
    selection, contexts = study.invocation.selection, study.invocation.contexts
    if selection.is_all and contexts is None:
        return
    recovered = study.recover(first.world.program, first.discoveries)
    Graphs(recovered, selection)
    check_contexts(recovered, contexts)


def _settled(
    study: Study, first: Round, settings: Sequence[Setting], guide: EdgeCounts | None = None
) -> tuple[Observation, Round]:
    if not needs_first_run(settings):
        return settle(study, first, settings)
    if guide is not None:
        return settle(study, first, settings, guide)
    return _observe_guided(study, first, settings)


def _observe_guided(
    study: Study, first: Round, settings: Sequence[Setting]
) -> tuple[Observation, Round]:
    """Observe schemes of which some need an edge profile that nobody gave.

    A first run, under the other schemes, yields the edge profile. The schemes that wait for it are
    then replayed on what that run counted; where that is not possible, they run themselves.
    """
    study.planners(settings)  # what is wrong with saved profiles shows before a whole run
    free = [setting for setting in settings if not needs_first_run((setting,))]
    guide, after = settle(study, first, [*free, *judges(settings)], replayable=True)
    tell(study.progress, Phase.PLANNING, after.max_instructions, guide.result.instructions)
    edge_counts = guide.edge_counts
    if study.invocation.contexts is not None:
        # what is counted by context is that of schemes which take part in the run
        return settle(study, after, settings, edge_counts)
    replayed, left = _replayed(guide, settings, study.planners(settings, edge_counts))
    if not left:
        return replayed, after
    del guide  # it is large
    completed = _completed(study, after, replayed, left, edge_counts)
    if completed is not None:
        return completed
    del replayed
    return settle(study, after, settings, edge_counts)


def _check_traces(
    study: Study, after: Round, settings: Sequence[Setting], observation: Observation
) -> None:
    """Regenerate the trace of each scheme that writes one.

    That is the trace which the user wanted, where it is in a file. Otherwise the program runs
    once more, the same way, and the trace goes to a temporary file.
    """
    from simprof.profiler.session.self_check import check_trace  # which reads traces: numba

    if observation.window is not None or observation.recovered.program.parts:
        return  # a trace is of a whole run, and tells nothing of stubs

    for position, setting in enumerate(settings):
        if not definition(setting.mode).writes_trace:
            continue
        events = observation.events.values()
        if position == 0 and study.trace is not None and study.trace.path.is_file():
            check_trace(study.trace.path, setting.name, events)
            continue
        with scratch_directory("simprof-self-check-") as directory:
            path = directory / "trace"
            write_trace(study, after, setting, path)
            check_trace(path, setting.name, events)


def _replayed(
    guide: Observation, settings: Sequence[Setting], planners: Sequence[Planner]
) -> tuple[Observation, dict[Setting, frozenset[int]]]:
    """Return the run `guide` as if all of `settings` had been part of it.

    Those that need no edge profile were. The others are replayed on what the run counted. Also
    return those that cannot be, each with the routines whose counters it lacks.
    """
    graphs = Graphs(guide.recovered, guide.invocation.selection)
    known = {scheme.setting: scheme for scheme in guide.schemes}
    slots = count(sum(scheme.slot is not None for scheme in guide.schemes))
    schemes: list[SchemeRun] = []
    guided: list[SchemeRun] = []
    for planner, setting in zip(planners, settings, strict=False):
        scheme = known.get(setting)
        if scheme is None:
            scheme = SchemeRun(setting, graphs, planner.make, next(slots), planner.forget)
            guided.append(scheme)
        schemes.append(scheme)
    left = zip(guided, guide.counters.replay(guided), strict=True)
    lacking = {scheme.setting: routines for scheme, routines in left if routines}
    return replace(guide, schemes=schemes), lacking


def _completed(
    study: Study,
    after: Round,
    replayed: Observation,
    left: Mapping[Setting, frozenset[int]],
    edge_counts: EdgeCounts,
) -> tuple[Observation, Round] | None:
    """Run the program once more for the counters that a replay has left out, and for no others.

    None if that run was not the same as the first, or is to be traced or recorded: then all
    schemes have to take part in it.
    """
    if study.trace is not None or study.recording is not None:
        return None
    routines = frozenset().union(*left.values())
    graphs = after.discoveries, replayed.recovered
    partial = replace(study, routines=routines, recovered=graphs)
    again, later = settle(partial, after, list(left), edge_counts)
    if later.discoveries != after.discoveries or not again.result.ended_like(replayed.result):
        return None
    schemes = {
        (scheme.setting, routine): scheme
        for scheme in again.schemes
        for routine in left[scheme.setting]
    }
    counters = CompletedCounters(replayed.counters, again.counters, schemes)
    completed = replace(replayed, counters=counters, runs=later.runs, whole_runs=later.whole_runs)
    return completed, later
