"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

Steps -> functions
1. load the program; what earlier sessions know of it      `_load`
2. open its world                                          `world.open_world`
3. run it, again and again where there is a reason         `passes.run_passes`
4. or replay a recording of it                             `replay.RecordedRun`
5. regenerate traces (`--self-check`)                      `self_check.check_trace`
6. measure: read the counters, price the code              `results.measure_all`, `shared`
7. the price of an edge profile that guides schemes        `_compare`

A comparison of a large program is recorded under no scheme and measured from the recording, by
several processes (`_observe_recorded`, `shared`).
"""

# The request is taken apart at this door: the program, the world that it sees, the selection of
# routines, the schemes' settings, and what is to be written go to the stages that they concern, and
# none of these sees the request.

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
from simprof.profiler.request.errors import CounterRoomError, CountError
from simprof.profiler.request.request import (
    NO_SCHEME,
    Phase,
    RunRequest,
    SchemeOptions,
    Setting,
    report_progress,
)
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.schemes.registry import PATH_PROFILER, beginning, definition, guided_by
from simprof.profiler.session.memory import BinaryMemory, run_name
from simprof.profiler.session.observation import Invocation, Observation, SchemeComparison
from simprof.profiler.session.passes import Study, observe_in
from simprof.profiler.session.results import Refused, measure_all
from simprof.profiler.session.scheme_runs import EdgeCounts, PathCounts, Planners
from simprof.profiler.session.world import World, open_world
from simprof.simulator.binary.dynamic import load_program
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import SimulatorError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from simprof.profiler.session.replay import RecordedRun

# Bytes of code from which on the schemes of a comparison are shared out among processes. To plan
# and measure many schemes in a large program takes longer than to run it; what it costs to record
# the run is little beside that, and spares a second one.
LARGE_PROGRAM = 2 << 20
FEW_ROUTINES = 100  # Routines of a recorded run below which one process is enough

# The mode whose price is that of the edge profiles that guide others: it adds least.
EDGE_PROFILER = "qpt2"


def run_program(request: RunRequest) -> RunMeasurement:
    """Run a program under the scheme of `request` and measure it.

    Raises SimulatorError for anything that the user must know (`simprof.simulator.errors`).
    """
    return compare_program(request, (request.setting,)).measurements[0]


def compare_program(
    request: RunRequest, settings: Sequence[Setting], *, brief: bool = False, jobs: int = 1
) -> SchemeComparison:
    """Measure several schemes, all in one emulation, or two (see `SchemeComparison`).

    `request.mode` and `request.scheme` are not read; `brief`, `jobs`: see `measure_all`. Raises
    what `run_program` does.
    """
    try:
        return _compare(request, settings, brief, jobs)
    except (CountError, FlowError) as error:
        if request.replay is None:
            raise
        what, _, _ = str(error).partition(": this is a defect")
        raise UsageError(
            f"{request.replay} contradicts itself ({what}): record it again; if that does not "
            "help, please report the program"
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
    profilers = _guide_profilers(asked)
    more = [profiler for profiler in profilers.values() if profiler not in asked]
    settings = (*asked, *more)
    ordered = any(definition(setting.mode).depends_on_order for setting in settings)
    needs_one = request.self_check or request.trace or request.recording or request.contexts
    has_beginnings = any(beginning(each.mode, each.options) for each in settings)
    is_shareable = not (ordered or needs_one or has_beginnings) and request.selection.is_all
    if jobs > 1 and len(asked) > 1 and is_shareable:
        observation, run = _observe_recorded(request, settings)
    else:
        observation, run = observe(request, settings), None
    told(0, 0)
    refused: Refused = {}
    if run is not None:
        from simprof.profiler.session.shared import measure_shared  # which few sessions need

        measurements = measure_shared(
            observation, run, settings, jobs, brief=brief, told=told, refused=refused
        )
    else:
        measurements = measure_all(
            observation,
            self_check=request.self_check,
            brief=brief and not request.self_check,
            keep_plans=False,
            told=told,
            refused=refused,
        )
    if refused.keys() >= {*asked}:
        raise CounterRoomError(refused[asked[0]])
    kept = [setting for setting in settings if setting not in refused]
    measured = dict(zip(kept, measurements, strict=True))
    for setting, found in measured.items():
        if found.guide is not None:
            profiler = profilers[guided_by(setting.mode)]
            price = None if profiler in refused else measured[profiler].added
            guide = replace(found.guide, mode=profiler.mode, added=price)
            measured[setting] = replace(found, guide=guide)
    return SchemeComparison(
        tuple(measured[setting] for setting in asked if setting in measured),
        observation.runs,
        observation.whole_runs,
        observation.reasons,
        observation.program.lines,
        {setting: refused[setting] for setting in asked if setting in refused},
    )


def _guide_profilers(settings: Sequence[Setting]) -> dict[ProfileKind | None, Setting]:
    """Return the settings that price the profiles that guide some settings, by their kind.

    Each is one of them, or else has the weights of the first that is guided so.
    """
    found: dict[ProfileKind | None, Setting] = {}
    for setting in settings:
        kind = guided_by(setting.mode)
        if kind is None or kind in found:
            continue
        mode = PATH_PROFILER if kind is ProfileKind.PATHS else EDGE_PROFILER
        options = SchemeOptions(weights=setting.options.weights)
        asked = (each for each in settings if each.mode == mode)
        found[kind] = next(asked, Setting(mode, mode, options))
    return found


def _observe_recorded(
    request: RunRequest, settings: Sequence[Setting]
) -> tuple[Observation, RecordedRun | None]:
    """Observe a run and return its recording, too, where it is worth that.

    Without a recording, the run is under `settings`; with one, under none.
    """
    if request.replay is not None:
        run = _recorded(request, request.replay)
        if len(run.entered) < FEW_ROUTINES:
            return run.observe(settings), None
        return run.observe(()), run
    with _studied(request, settings) as (study, world):
        program = world.program
        size = sum(piece.end - piece.start for piece in program.code)
        if program.platform is not Platform.LINUX or size < LARGE_PROGRAM:
            return observe_in(world, study), None
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
                observation = observe_in(world, recorded)
                recording = Recording(order.path)
            except (UnsupportedError, UsageError, OSError):
                # a second thread, or no room for the file; whatever else it is will show again
                return observe_in(world, study), None
            graphs = observation.discoveries, observation.recovered
            study = replace(study, progress=None, recovered=graphs)
            return observation, RecordedRun(study, program, recording, order.path)


def observe(
    request: RunRequest,  # `mode` and `scheme` are not read
    settings: Sequence[Setting],
    seen: Discoveries | None = None,  # What other runs have shown, for the graphs of the first pass
    # Beside `seen`: the edge profile that guides schemes, in the place of this run's own
    guide: EdgeCounts | None = None,
    paths: PathCounts | None = None,  # The path profile in the same place
) -> Observation:
    """Run a program under several schemes until the graphs explain the whole run.

    Raises SimulatorError: see `run_program`.
    """
    if request.replay is not None:
        for setting in settings:
            if beginning(setting.mode, setting.options):
                raise UsageError(
                    f"{setting.name}: a recording does not tell what its first instructions "
                    "executed: run the program without --replay"
                )
        return _recorded(request, request.replay).observe(settings)
    with _studied(request, settings) as (study, world):
        return observe_in(world, study, seen, guide, paths)


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
    name = ""
    if request.remember:
        name = run_name(request.program, request.arguments, guest, request.selection)
    study = Study(
        invocation,
        Planners(program.sha256),
        memory,
        request.progress,
        tuple(settings),
        trace,
        recording,
        checks=request.self_check,
        name=name,
    )
    with ExitStack() as stack:
        world = stack.enter_context(open_world(program, request.arguments, guest))
        if recording is not None:
            stack.callback(recording.close)
        try:
            yield study, world
        except SimulatorError:
            # A run that the user interrupts, or that is killed, leaves its files as far as they go.
            for order in (trace, recording):
                if order is not None:
                    order.discard()
            raise


def _load(request: RunRequest) -> tuple[Program, BinaryMemory]:
    """Read the program; return it with what earlier sessions knew of it."""
    files = binaries() if request.remember else None
    program = load_program(request.program, request.guest.sysroot)
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
    study = Study(invocation, Planners(program.sha256), memory, request.progress)
    return RecordedRun(study, program, recording, path, partial=request.partial)
