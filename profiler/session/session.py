"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

Steps -> functions
1. load the program                                        `simulator.binary.elf.load`
2. recover its graphs                                      `recovery.recover`
3. run it; routines are planned when they are first entered `_Attempt`
4. where it did what the graphs lack, extend them and run it again on the recorded input, before
   which the words of late code are looked for             `_Session.settle`, `_late_words`
5. where a scheme needs an edge profile first, do 3 and 4 with the others, and replay it on what
   they counted, or else run everything once again         `observe`, `_Session.replayed`
6. read every scheme's counters and price its code         `results.measure`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from profiler.code.context import ProgramContexts
from profiler.engine.automaton import Automaton
from profiler.engine.lowering import Lowering, hash_model
from profiler.engine.observer import ProfilingObserver
from profiler.engine.walk import GraphIndex, Missing, MissingEntry, MissingReturn, MissingTarget
from profiler.graphs.cfg import ControlFlowGraph
from profiler.profiles.profile import Measurement
from profiler.recovery.code_image import build_code_image
from profiler.recovery.late_code import START_UP, read_words
from profiler.recovery.recovery import Discoveries, Known, RecoveredProgram, recover
from profiler.request.errors import CountError
from profiler.request.request import Phase, Progress, RunRequest, Setting
from profiler.schemes.registry import judges
from profiler.session.counters import Counters, RoutineEvents, Scheme, collect_events
from profiler.session.results import measure_all
from profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    Planner,
    SavedProfiles,
    make_schemes,
    needs_first_run,
)
from simulator.binary import elf
from simulator.binary.program import Program
from simulator.errors import UsageError
from simulator.linux.files import Host, RecordingHost
from simulator.machine.machine import Machine
from simulator.machine.running import Limits, Observer, RunResult

WINDOWS = 8
"""Register windows, as UltraSPARC and qemu-user have them. When a window is spilled decides what
dead stack memory holds, and a few programs (memchr's last word) execute by that."""

MAXIMUM_RUNS = 16
"""Runs of one program until its graphs explain everything that it does."""

GRACE = 3_000_000
"""Instructions for which a run goes on after it has done something that the graphs lack: whatever
else is missing may show up, and the next run is the wiser."""


@dataclass(frozen=True)
class Observation:
    """A finished run whose every transfer the graphs explain (or are known not to).

    `judges` are schemes by mode: those by which others are judged (TPP 5) are among them.
    """

    program: Program
    recovered: RecoveredProgram
    index: GraphIndex
    automaton: Automaton
    schemes: Sequence[Scheme]
    judges: Mapping[str, Scheme]
    events: dict[int, RoutineEvents]
    counters: Counters
    contexts: ProgramContexts
    result: RunResult
    runs: int
    emulations: int


@dataclass(frozen=True)
class Comparison:
    """Several schemes on one program.

    Attributes
    ----------
    measurements
        In the order of the settings.
    emulations
        How many whole runs of the program that took: 1, or 2 where a scheme needs an edge
        profile first and cannot be replayed (`replay`). Runs given up early because the graphs
        lacked something are not counted.
    """

    measurements: tuple[Measurement, ...]
    emulations: int


def run_program(request: RunRequest) -> Measurement:
    """Run a program under the scheme of `request` and measure it.

    Raises
    ------
    SimulatorError
        Anything that the user must know: see `simulator.errors`.
    """
    return compare_program(request, (request.setting,)).measurements[0]


def compare_program(request: RunRequest, settings: Sequence[Setting]) -> Comparison:
    """Measure several schemes, all in one emulation, or two (see `Comparison`).

    `request.mode` and `request.scheme` are not read. Raises what `run_program` does.
    """
    observation = observe(request, settings)
    _tell(request, Phase.EXPANDING, observation.result.instructions)
    return Comparison(measure_all(observation, request), observation.emulations)


def observe(request: RunRequest, settings: Sequence[Setting]) -> Observation:
    """Run until the graphs explain the whole run.

    Schemes that need an edge profile first are replayed on the segments of a run under the
    others; where that is not possible, all of them run again together.
    """
    _tell(request, Phase.LOADING)
    program = elf.load(request.program)
    with _outside(request, program) as host:
        session = _Session(request, program, host)
        if not needs_first_run(settings):
            return session.settle(settings)
        session.plan(settings)  # what is wrong with saved profiles shows before anything runs
        free = [setting for setting in settings if not needs_first_run((setting,))]
        guide = session.settle([*free, *judges(settings)], replayable=True)
        return session.replayed(settings, guide) or session.settle(settings, guide)


class _Session:
    """One program with its outside world, run as often as it takes."""

    def __init__(self, request: RunRequest, program: Program, host: RecordingHost) -> None:
        self._request = request
        self._program = program
        self._host = host
        self._known = Known()
        self._discoveries = _late_words(request, program, host)
        self._profiles = SavedProfiles(program.sha256)
        self._runs = 0
        self._emulations = 0

    def plan(self, settings: Sequence[Setting], counts: EdgeCounts | None = None) -> list[Planner]:
        """Make ready to plan under `settings`, and under the reference of `tpp`."""
        wanted = [*settings, *judges(settings)]
        return [Planner(setting, self._profiles, counts) for setting in wanted]

    def settle(
        self,
        settings: Sequence[Setting],
        guide: Observation | None = None,
        *,
        replayable: bool = False,
    ) -> Observation:
        """Run under `settings` until the graphs explain everything.

        `guide` ran before; `replayable`: others are to be replayed on what this run counts.
        """
        counts = None if guide is None else _counts_by_graph(guide)
        planners = self.plan(settings, counts)
        for left in range(MAXIMUM_RUNS - 1, -1, -1):
            _tell(self._request, Phase.RECOVERING)
            recovered = recover(self._program, self._discoveries, self._known)
            self._host.rewind()
            schemes = make_schemes(Graphs(recovered, self._request.routines), planners)
            attempt = _Attempt(
                self._request,
                recovered,
                schemes,
                self._host,
                counts,
                last=not left,
                replayable=replayable,
            )
            if self._request.trace is not None:
                attempt.write_trace(self._request, self._discoveries)
            _tell(self._request, Phase.RERUNNING if self._runs else Phase.RUNNING)
            self._runs += 1
            result = attempt.run()
            found = self._discoveries.merged(attempt.discoveries())
            if found == self._discoveries:
                break
            self._discoveries = found
            self._request = _no_longer_than(self._request, result, attempt.given_up)
        self._emulations += 1
        self._request = _no_longer_than(self._request, result, attempt.given_up)
        return attempt.observation(len(settings), result, self._runs, self._emulations)

    def replayed(self, settings: Sequence[Setting], guide: Observation) -> Observation | None:
        """What `settings` measure in the run `guide`, which had those that need no edge profile.

        None where the others need a run of their own.
        """
        _tell(self._request, Phase.PLANNING, guide.result.instructions)
        graphs = Graphs(guide.recovered, self._request.routines)
        planners = self.plan(settings, _counts_by_graph(guide))
        known = {scheme.setting: scheme for scheme in guide.schemes}
        first = sum(scheme.slot is not None for scheme in guide.schemes)
        schemes: list[Scheme] = []
        for planner, setting in zip(planners, settings, strict=False):
            scheme = known.get(setting)
            if scheme is None:
                slot = first + len(schemes)
                scheme = Scheme(setting, graphs, planner.make, slot)
                if not guide.counters.replay(scheme, slot):
                    return None
            schemes.append(scheme)
        return replace(guide, schemes=schemes)


def _counts_by_graph(observation: Observation) -> EdgeCounts:
    """Edge counts of an observed run, by graph."""
    numbers = {
        (cfg.address, cfg.name): number for number, cfg in enumerate(observation.recovered.routines)
    }

    def counts(cfg: ControlFlowGraph) -> Sequence[int] | None:
        events = observation.events.get(numbers.get((cfg.address, cfg.name), -1))
        return None if events is None else events.edges

    return counts


@contextmanager
def _outside(request: RunRequest, program: Program) -> Iterator[RecordingHost]:
    """The program's outside world, for as many runs as it takes."""
    guest = request.guest
    with ExitStack() as stack:
        stdin = 0
        if guest.stdin is not None:
            stdin = stack.enter_context(_open_input(guest.stdin)).fileno()
        host = Host(
            guest.root,
            writable=guest.writable,
            program=program.path,
            stdin=stdin,
            stdout=guest.stdout,
            stderr=guest.stderr,
        )
        stack.callback(host.dispose)
        yield RecordingHost(host)


def _open_input(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(
            f"--stdin {path} cannot be read ({error.strerror}): name a readable file"
        ) from None


def _machine(
    request: RunRequest,
    program: Program,
    host: RecordingHost,
    observer: Observer | None = None,
    on_late_code: Callable[[], None] | None = None,
) -> Machine:
    guest = request.guest
    return Machine(
        program,
        arguments=request.arguments,
        environment=[name + b"=" + value for name, value in guest.environment],
        host=host,
        limits=Limits(guest.max_instructions, guest.timeout, guest.memory_limit, guest.stack_size),
        observer=observer,
        on_late_code=on_late_code,
        argv0=guest.argv0,
        windows=WINDOWS,
    )


def _late_words(request: RunRequest, program: Program, host: RecordingHost) -> Discoveries:
    """The words of code that start-up writes, if the program has any."""
    spans = build_code_image(program).deferred
    if not spans:
        return Discoveries()
    words: frozenset[tuple[int, int]] = frozenset()

    def found() -> None:
        nonlocal words
        words = read_words(machine.read, spans)
        machine.stop_soon(0)

    machine = _machine(request, program, host, on_late_code=found)
    machine.stop_soon(START_UP)
    machine.run()
    return Discoveries(late_words=words)


def _no_longer_than(request: RunRequest, result: RunResult, given_up: bool) -> RunRequest:
    """The request for another run, which must end where this one was cut short from outside."""
    if given_up or result.reason not in ("budget", "interrupted"):
        return request
    guest = replace(request.guest, max_instructions=result.instructions, timeout=None)
    return replace(request, guest=guest)


def _tell(request: RunRequest, phase: Phase, instructions: int = 0) -> None:
    if request.progress is not None:
        request.progress(Progress(phase, instructions, request.guest.max_instructions))


class _Attempt:
    """One run of the program on one set of graphs."""

    def __init__(
        self,
        request: RunRequest,
        recovered: RecoveredProgram,
        schemes: Sequence[Scheme],
        host: RecordingHost,
        counts: EdgeCounts | None,
        *,
        last: bool,
        replayable: bool,
    ) -> None:
        self._recovered = recovered
        self._last = last
        program = recovered.program
        self.given_up = False
        self._index = GraphIndex(recovered)
        self._schemes = schemes
        self._lowering = Lowering(
            [scheme.plan for scheme in self._schemes if scheme.slot is not None],
            recovered.routines,
            self._index.first_edge,
            hash_model(program.machine),
            (1 << (64 if program.is64 else 32)) - 1,
            lambda routine: None if counts is None else counts(recovered.routines[routine]),
            keep_history=replayable,
        )
        self._automaton = Automaton(self._index, self._lowering, self._on_missing)
        observer = ProfilingObserver(self._automaton)
        self._machine = _machine(request, program, host, observer)

    def write_trace(self, request: RunRequest, discoveries: Discoveries) -> None:
        """Have the run write the trace that `request` asks for."""
        from profiler.schemes import registry
        from profiler.trace.format import TraceFile, TraceHeader
        from profiler.trace.recorder import TraceRecorder

        assert request.trace is not None
        scheme = self._schemes[0]
        definition = registry.definition(scheme.setting.mode)
        if not definition.writes_trace:
            modes = " or ".join(registry.trace_modes())
            raise UsageError(
                f"--trace: mode {scheme.setting.mode} writes no trace; use --mode {modes}"
            )
        if request.routines:
            raise UsageError("--trace needs all routines: leave out --routine")
        program = self._recovered.program
        header = TraceHeader(
            file=str(request.program),
            sha256=program.sha256,
            machine=str(program.machine),
            arguments=tuple(a.decode(errors="backslashreplace") for a in request.arguments),
            mode=str(scheme.setting.mode),
            discoveries={name: sorted(found) for name, found in vars(discoveries).items()},
        )
        self._automaton.trace = TraceRecorder(
            self._lowering.memory,
            self._index,
            lambda routine: definition.trace_writer(scheme.routine_plan(routine)),
            TraceFile(request.trace, header),
        )

    def _on_missing(self, missing: Missing) -> None:
        if not self._last and not self.given_up:
            self.given_up = True
            self._machine.stop_soon(GRACE)

    def run(self) -> RunResult:
        """Run to the end, or until `given_up`."""
        result = self._machine.run()
        if self._automaton.error is not None:
            raise self._automaton.error
        fault = result.fault
        inside = fault is not None and fault.origin is None
        self._automaton.finish(
            exited=result.reason == "exit", fault_pc=fault.pc if fault and inside else None
        )
        if self._automaton.error is not None:
            raise self._automaton.error
        return result

    def discoveries(self) -> Discoveries:
        """What this run did that the graphs do not know.

        Late words come first: as long as they are missing, what happens behind them looks like
        entries that there are not.
        """
        missing = self._automaton.tally.missing
        entries = {s.address for s in missing if isinstance(s, MissingEntry) and not s.behind}
        targets = {(s.jump, s.target) for s in missing if isinstance(s, MissingTarget)}
        returning = {step.call for step in missing if isinstance(step, MissingReturn)}
        reached = entries | {target for _, target in targets}
        late = [s for s in self._recovered.code.deferred if any(a in s for a in reached)]
        if late and not self._recovered.knows_late_words:
            return Discoveries(late_words=read_words(self._machine.read, late))
        return Discoveries(frozenset(targets), frozenset(entries), frozenset(returning))

    def observation(
        self, wanted: int, result: RunResult, runs: int, emulations: int
    ) -> Observation:
        """The finished run; the first `wanted` schemes are those that the user asked for."""
        events = collect_events(self._index, self._automaton)
        counters = Counters(self._lowering, events)
        if self._automaton.lost:
            raise CountError(
                f"{self._automaton.lost} path counts fell outside their tables: this is a defect "
                "of simprof, please report the program"
            )
        return Observation(
            program=self._recovered.program,
            recovered=self._recovered,
            index=self._index,
            automaton=self._automaton,
            schemes=self._schemes[:wanted],
            judges={s.setting.mode: s for s in reversed(self._schemes)},
            events=events,
            counters=counters,
            contexts=ProgramContexts(self._recovered),
            result=result,
            runs=runs,
            emulations=emulations,
        )
