"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

Steps -> functions
1. load the program; what earlier sessions know of it      `load`
2. open its world, or that of a recorded run               `world`, `recordings`
3. run it, again and again where there is a reason         `passes.Runs`
4. regenerate traces (`--self-check`)                      `self_check.check_trace`
5. measure: read the counters, price the code              `results.measure_all`
6. the price of an edge profile that guides schemes        `_compare`
7. share the modes out among processes                     `shared`
"""

# The request is taken apart at this door: the program, the world that it sees, the selection of
# routines, the schemes' settings, and what is to be written go to the stages that they concern, and
# none of these sees the request.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from simprof.profiler.profiles.cache_files import binaries
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import Discoveries, Known
from simprof.profiler.request.errors import CounterRoomError
from simprof.profiler.request.request import (
    Phase,
    RunRequest,
    SchemeOptions,
    Setting,
    report_progress,
)
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.schemes.registry import PATH_PROFILER, guided_by
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import Invocation, Observation, SchemeComparison
from simprof.profiler.session.passes import Runs
from simprof.profiler.session.results import Refused, measure_all
from simprof.profiler.session.scheme_runs import EdgeCounts, PathCounts, Planners
from simprof.profiler.session.world import open_world
from simprof.simulator.binary.dynamic import load_program
from simprof.simulator.errors import SimulatorError, UnsupportedError

if TYPE_CHECKING:
    from simprof.profiler.trace.recording_format import Recording

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

    `request.mode` and `request.scheme` are not read; `brief`: see `measure_all`; `jobs`: how many
    processes may measure a large program. Raises what `run_program` does.
    """
    asked, found = tuple(settings), None
    # those of all settings: some may be measured by themselves
    compare = partial(_compare, brief=brief, profilers=_guide_profilers(asked))
    if jobs > 1:
        from simprof.profiler.session import shared  # which few sessions need

        if shared.may_be_worth_it(request, asked, jobs):
            memory = load(request)
            compare = partial(compare, memory=memory)
            if shared.is_large(memory.program):
                found = shared.compare_shared(request, asked, jobs, memory, compare)
    if found is None:
        found = compare(request, asked)
    if not found.measurements:
        raise CounterRoomError(found.refused[asked[0]])
    return found


Profilers = Mapping[ProfileKind | None, Setting]  # Kind of profile -> the setting that prices it


def _compare(
    request: RunRequest,
    settings: Sequence[Setting],
    *,
    brief: bool,
    profilers: Profilers,
    memory: BinaryMemory | None = None,  # The program, if it has been loaded
) -> SchemeComparison:
    """Do the same in this process; measurements may be missing of all schemes."""
    limit = request.guest.max_instructions

    def told(done: int, total: int) -> None:
        executed = observation.result.instructions
        report_progress(
            request.progress, Phase.EXPANDING, done, total, instructions=executed, limit=limit
        )

    asked = tuple(settings)
    kinds = dict.fromkeys(guided_by(setting.mode) for setting in asked)
    needed = (profilers[kind] for kind in kinds if kind is not None)
    settings = (*asked, *(profiler for profiler in needed if profiler not in asked))
    observation = observe(request, settings, memory=memory)
    told(0, 0)
    refused: Refused = {}
    measurements = measure_all(
        observation,
        self_check=request.self_check,
        brief=brief and not request.self_check,
        keep_plans=False,
        told=told,
        refused=refused,
    )
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


def _guide_profilers(settings: Sequence[Setting]) -> Profilers:
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


def observe(
    request: RunRequest,  # `mode` and `scheme` are not read
    settings: Sequence[Setting],
    seen: Discoveries | None = None,  # What other runs have shown, for the graphs of the first run
    # Beside `seen`: the edge profile that guides schemes, in the place of this run's own
    guide: EdgeCounts | None = None,
    paths: PathCounts | None = None,  # The path profile in the same place
    known: Known | None = None,  # What recoveries of the program have found already
    memory: BinaryMemory | None = None,  # The program, if it has been loaded
) -> Observation:
    """Run a program under several schemes until the graphs explain the whole run.

    Raises SimulatorError: see `run_program`.
    """
    recording = None
    if request.replay is not None:
        from simprof.profiler.session.recordings import recorded_request
        from simprof.profiler.trace.recording_format import Recording

        recording = Recording(request.replay)
        request = recorded_request(request, recording)
    with _runs(request, settings, recording, seen, known, memory) as runs:
        return runs.observe(guide, paths)


@contextmanager
def _runs(
    request: RunRequest,
    settings: Sequence[Setting],
    recording: Recording | None,
    seen: Discoveries | None,
    known: Known | None,
    memory: BinaryMemory | None,
) -> Iterator[Runs]:
    """Load a program, and open the world that it sees, or that it saw when it was recorded."""
    guest = request.guest
    report_progress(request.progress, Phase.LOADING, limit=guest.max_instructions)
    memory = memory or load(request)
    program = memory.program
    if program.parts and request.trace is not None:
        raise UnsupportedError(
            f"{program.path} is dynamically linked, and a trace does not show which form of a stub "
            "control came to: link the program statically to trace it"
        )
    digest = None if guest.stdin is None else known_sha256(guest.stdin)
    if recording is not None:
        digest = recording.header.guest.stdin or None
    invocation = Invocation(
        request.program,
        request.arguments,
        request.selection,
        guest.max_instructions,
        guest.timeout,
        request.contexts,
        digest,
    )
    trace = None
    if request.trace is not None:
        from simprof.profiler.session.traces import TraceOrder

        trace = TraceOrder(request.trace, invocation)
    with ExitStack() as stack:
        if recording is None:
            world = stack.enter_context(open_world(program, request.arguments, guest))
        else:
            from simprof.profiler.session.recordings import recorded_world

            world = stack.enter_context(recorded_world(program, request, recording))
        runs = Runs(
            world,
            invocation,
            Planners(program.sha256),
            memory,
            tuple(settings),
            progress=request.progress,
            trace=trace,
            checks=request.self_check,
            seen=seen,
            known=known,
        )
        try:
            yield runs
        except SimulatorError:
            # A run that the user interrupts, or that is killed, leaves its trace as far as it goes.
            if trace is not None:
                trace.discard()
            raise


def load(request: RunRequest) -> BinaryMemory:
    """Read the program; return it with what earlier sessions knew of it."""
    files = binaries() if request.remember else None
    return BinaryMemory(load_program(request.program, request.guest.sysroot), files)
