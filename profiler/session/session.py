"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

The request is taken apart at this door: the program, the world that it sees, the selection of
routines, the schemes' settings, and what is to be written go to the stages that they concern, and
none of these sees the request.

Steps -> functions
1. load the program; what earlier sessions know of it      `_load`
2. open its world                                          `world.open_world`
3. run it, again and again where there is a reason         `passes.run_passes`
4. or replay a recording of it                             `replay.RecordedRun`
5. regenerate traces (`--self-check`)                      `self_check.check_trace`
6. measure: read the counters, price the code              `results.measure_all`, `shared`
7. the price of an edge profile that guides schemes        `results.with_prices`

A comparison of a large program is recorded under no scheme and measured from the recording, by
several processes (`_observe_recorded`, `shared`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simprof.profiler.graphs.flow import FlowError
from simprof.profiler.profiles.cache_files import binaries
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.errors import CountError
from simprof.profiler.request.request import (
    Phase,
    RunRequest,
    SchemeOptions,
    Setting,
    report_progress,
)
from simprof.profiler.schemes.registry import definition, edge_profiler
from simprof.profiler.session.memory import BinaryMemory, PastRun, run_name, with_kept_lines
from simprof.profiler.session.observation import Invocation, Observation, SchemeComparison
from simprof.profiler.session.passes import Emulated, Runs, Study, run_passes
from simprof.profiler.session.results import measure_all, with_prices
from simprof.profiler.session.scheme_runs import EdgeCounts, Planners
from simprof.profiler.session.world import World, open_world
from simprof.simulator.binary.dynamic import are_unchanged, load_program
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import SimulatorError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.session.recordings import RecordingOrder, TraceOrder
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
        report_progress(
            request.progress, Phase.EXPANDING, done, total, instructions=executed, limit=limit
        )

    asked = tuple(settings)
    profiler = edge_profiler(asked)
    settings = asked if profiler is None or profiler in asked else (*asked, profiler)
    ordered = any(definition(setting.mode).depends_on_order for setting in settings)
    shares = jobs > 1 and len(asked) > 1 and not ordered and _may_share(request)
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
        measurements,
        observation.runs,
        observation.whole_runs,
        observation.reasons,
        observation.program.lines,
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
    with _studied(request, settings) as (study, world):
        program = world.program
        if program.platform is not Platform.LINUX or _text(program) < LARGE_PROGRAM:
            return _observed(study, world, request), None
        study.planners.of(settings)  # what is wrong with saved profiles shows before a whole run
        from simprof.profiler.session.recordings import RecordingOrder
        from simprof.profiler.session.replay import RecordedRun
        from simprof.profiler.trace.recording_format import Recording

        with ExitStack() as stack:
            try:
                scratch = stack.enter_context(scratch_directory("simprof-recording-"))
                order = RecordingOrder(scratch / "recording", study.invocation, request.guest)
                stack.callback(order.close)
                recorded = replace(study, recording=order, settings=(NO_SCHEME,))
                observation = _observed(recorded, world, request)
                recording = Recording(order.path)
            except (UnsupportedError, UsageError, OSError):
                # a second thread, or no room for the file; whatever else it is will show again
                return _observed(study, world, request), None
            graphs = observation.discoveries, observation.recovered
            study = replace(study, progress=None, recovered=graphs)
            return observation, RecordedRun(study, program, recording, order.path)


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
    - `seen`: What other runs have shown, for the graphs of the first pass.
    - `guide`: Beside `seen`: the edge profile that guides schemes, in the place of this run's own.

    Raises
    ------
    SimulatorError
        See `run_program`.
    """
    if request.replay is not None:
        return _recorded(request, request.replay).observe(settings)
    with _studied(request, settings) as (study, world):
        return _observed(study, world, request, seen, guide)


@contextmanager
def _studied(request: RunRequest, settings: Sequence[Setting]) -> Iterator[tuple[Study, World]]:
    """Load a program, and open the world that it sees."""
    guest = request.guest
    report_progress(request.progress, Phase.LOADING, limit=guest.max_instructions)
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
        None if guest.stdin is None else known_sha256(guest.stdin),
    )
    trace, recording = None, None
    if request.trace is not None or request.recording is not None:
        from simprof.profiler.session.recordings import RecordingOrder, TraceOrder

        if request.trace is not None:
            trace = TraceOrder(request.trace, invocation)
        if request.recording is not None:
            recording = RecordingOrder(request.recording, invocation, guest)
    planners = Planners(program.sha256)
    study = Study(invocation, tuple(settings), planners, trace, recording, request.progress, memory)
    with ExitStack() as stack:
        world = stack.enter_context(open_world(program, request.arguments, guest))
        if recording is not None:
            stack.callback(recording.close)
        stack.enter_context(_discarded_if_refused(trace, recording))
        yield study, world


def _observed(
    study: Study,
    world: World,
    request: RunRequest,
    seen: Discoveries | None = None,
    guide: EdgeCounts | None = None,
) -> Observation:
    """Observe a program in its world; `seen`, `guide`: see `observe`."""
    memory, settings = study.memory, study.settings
    name = ""
    if request.remember and seen is None:
        name = run_name(request.program, request.arguments, request.guest, request.selection)
    with ExitStack() as stack:
        checked = _checked_traces(study, world, stack) if request.self_check else []
        own = None if study.trace is None else study.trace.path
        orders = tuple(each for each in checked if each[1] != own)
        study = replace(study, orders=orders)
        runs = run_passes(study, _begun(memory, name, Emulated(world), seen), guide)
        observation = runs.observation
        assert observation is not None
        for setting, path in checked:
            from simprof.profiler.session.self_check import check_trace  # reads traces: numba

            check_trace(path, setting.name, observation.events.values())
    if name and runs.past is None and not observation.result.is_cut_short:
        _keep_run(memory, name, runs, is_dynamic=bool(world.program.parts))
    if study.recording is not None:
        study.recording.finish(observation, world.files.output_digest)
    if len(settings) == 1:
        _keep_plans(memory, observation)
    return replace(
        observation,
        memory=memory,
        opened=frozenset(world.files.opened),
        runs=runs.runs,
        whole_runs=runs.whole_runs,
        reasons=runs.reasons,
    )


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
    report_progress(request.progress, Phase.LOADING)
    program, memory = _load(request)
    check_program(recording, path, program)
    invocation = invocation_of(recording, request.program, request.selection)
    planners = Planners(program.sha256)
    study = Study(invocation, (), planners, None, None, request.progress, memory)
    return RecordedRun(study, program, recording, path, partial=request.partial)


def _begun(memory: BinaryMemory, name: str, events: Emulated, seen: Discoveries | None) -> Runs:
    """Return what is known before a program is run.

    `name`: Of the run, in `memory`: what a run is guessed to discover counts only if it was the
    same run. `seen`: What other runs have shown.
    """
    past = memory.run(name) if name else None
    if past is not None and past.is_same and are_unchanged(past.discoveries.modules):
        return Runs(events, past.discoveries, past=past)
    return Runs(events, seen or Discoveries())


def _keep_run(memory: BinaryMemory, name: str, runs: Runs, *, is_dynamic: bool) -> None:
    """Keep what a run has shown, unless it is what another one had shown."""
    past, record = memory.run(name), runs.events.record
    is_plain = not is_dynamic and runs.discoveries == runs.begun
    is_same = past is None or is_plain or past.record == record
    memory.keep_run(name, PastRun(runs.discoveries, record, is_same, is_plain))


def _keep_plans(memory: BinaryMemory, observation: Observation) -> None:
    (scheme,) = observation.schemes
    entered = ((events.cfg, scheme.routine_plan(n)) for n, events in observation.events.items())
    plans = ((cfg, plan) for cfg, plan in entered if plan is not None)
    memory.keep_plans(observation.discoveries, scheme.setting, plans)
