"""`simprof run` as a function: a program under one or more schemes, from file to measurements.

Steps -> functions
1. load the program                                        `simulator.elf.load`
2. recover its graphs                                      `recovery.recover`
3. run it; routines are planned when they are first entered `_Attempt`
4. where it did what the graphs lack, extend them and run it again, on the recorded input once
   the program has touched the outside world                 `_explained_run`
5. read every scheme's counters and price its code         `results.measure`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiler.automaton import Automaton
from profiler.engine import ProfilingObserver
from profiler.errors import CountError
from profiler.hash_routine import hash_costs
from profiler.lowering import HashModel, Lowering
from profiler.measure import RoutineEvents, Scheme, collect_events
from profiler.profile import Measurement
from profiler.recovery import Discoveries, RecoveredProgram, recover
from profiler.request import Mode, Phase, Progress, RunRequest
from profiler.results import measure
from profiler.scheme_runs import Graphs, make_schemes
from profiler.walk import GraphIndex, Missing, MissingEntry, MissingReturn, MissingTarget
from simulator import elf
from simulator.errors import UsageError
from simulator.files import Host, HostCalls, RecordingHost, ReplayHost
from simulator.machine import Limits, Machine, RunResult
from simulator.program import Program

MAXIMUM_RUNS = 16
"""Runs of one program until its graphs explain everything that it does."""

HARMLESS = frozenset({"status", "status_of", "path_of", "read_link", "check_access", "close"})
"""Calls to the host after which a run can simply be started again."""


@dataclass(frozen=True)
class Observation:
    """A finished run whose every transfer the graphs explain (or are known not to)."""

    program: Program
    recovered: RecoveredProgram
    index: GraphIndex
    automaton: Automaton
    schemes: Sequence[Scheme]
    lowering: Lowering
    events: dict[int, RoutineEvents]
    result: RunResult
    runs: int


class RestartNeeded(Exception):  # noqa: N818 - control flow, never shown
    """The graphs lack something, and nothing has happened yet that could not happen again."""


def run_program(request: RunRequest) -> Measurement:
    """Run a program under the scheme of `request` and measure it.

    Raises
    ------
    SimulatorError
        Anything that the user must know: see `simulator.errors`.
    """
    return run_modes(request, (request.mode,))[0]


def run_modes(request: RunRequest, modes: Sequence[Mode]) -> list[Measurement]:
    """Measure several schemes in one emulation; one measurement a mode, in order."""
    observation = observe(request, modes)
    _tell(request, Phase.EXPANDING, observation.result.instructions)
    return [measure(observation, scheme, request) for scheme in observation.schemes]


def observe(request: RunRequest, modes: Sequence[Mode]) -> Observation:
    """Run until the graphs explain the whole run."""
    _tell(request, Phase.LOADING)
    program = elf.load(request.program)
    discoveries = Discoveries()
    with _Input(request, program) as source:
        for runs in range(1, MAXIMUM_RUNS + 1):
            _tell(request, Phase.RECOVERING)
            recovered = recover(program, discoveries)
            attempt = _Attempt(request, recovered, modes, source, last=runs == MAXIMUM_RUNS)
            _tell(request, Phase.RUNNING if runs == 1 else Phase.RERUNNING)
            result = attempt.run()
            found = attempt.discoveries()
            known, discoveries = discoveries, discoveries.merged(found)
            if (result is not None and discoveries == known) or runs == MAXIMUM_RUNS:
                assert result is not None
                return attempt.observation(result, runs)
    raise AssertionError("unreachable")


def _tell(request: RunRequest, phase: Phase, instructions: int = 0) -> None:
    if request.progress is not None:
        request.progress(Progress(phase, instructions, request.guest.max_instructions))


class _Input:
    """The outside world of one request: real until something has happened, then replayed."""

    def __init__(self, request: RunRequest, program: Program) -> None:
        self._request = request
        self._program = program
        self._open: list[Callable[[], None]] = []
        self._recording: RecordingHost | None = None

    def __enter__(self) -> _Input:
        return self

    def __exit__(self, *_: object) -> None:
        for close in self._open:
            close()

    @property
    def untouched(self) -> bool:
        """Whether the program has done nothing yet that a second start could not do again."""
        assert self._recording is not None
        return all(call.method in HARMLESS for call in self._recording.log)

    def host(self) -> HostCalls:
        """The host for the next run."""
        if self._recording is None or self.untouched:
            self._recording = RecordingHost(self._real())
            return self._recording
        return ReplayHost(self._recording.log)

    def _real(self) -> Host:
        guest = self._request.guest
        stdin = 0
        if guest.stdin is not None:
            try:
                stdin = os.open(guest.stdin, os.O_RDONLY)
            except OSError as error:
                raise UsageError(
                    f"--stdin {guest.stdin} cannot be read ({error.strerror}): name a readable file"
                ) from None
            self._open.append(lambda: os.close(stdin))
        host = Host(
            guest.root,
            writable=guest.writable,
            program=self._program.path,
            stdin=stdin,
            stdout=guest.stdout,
            stderr=guest.stderr,
        )
        self._open.insert(0, host.dispose)
        return host


class _Attempt:
    """One run of the program on one set of graphs."""

    def __init__(
        self,
        request: RunRequest,
        recovered: RecoveredProgram,
        modes: Sequence[Mode],
        source: _Input,
        *,
        last: bool,
    ) -> None:
        self._request = request
        self._recovered = recovered
        self._source = source
        self._last = last
        program = recovered.program
        self._index = GraphIndex(recovered)
        self._schemes = make_schemes(Graphs(recovered, request.routines), modes, request.scheme)
        self._lowering = Lowering(
            [scheme.plan for scheme in self._schemes if scheme.slot is not None],
            self._index.first_edge,
            HashModel(hash_costs(program.machine)),
            (1 << (64 if program.is64 else 32)) - 1,
        )
        self._automaton = Automaton(self._index, self._lowering, self._on_missing)
        self._machine = Machine(
            program,
            arguments=request.arguments,
            environment=[name + b"=" + value for name, value in request.guest.environment],
            host=source.host(),
            limits=Limits(
                request.guest.max_instructions, request.guest.timeout, request.guest.memory_limit
            ),
            observer=ProfilingObserver(self._automaton),
            argv0=request.guest.argv0,
        )

    def _on_missing(self, missing: Missing) -> None:
        if not self._last and self._source.untouched:
            raise RestartNeeded

    def run(self) -> RunResult | None:
        """Run; None if the run was given up early to be started again."""
        try:
            result = self._machine.run()
            if self._automaton.error is not None:
                raise self._automaton.error
        except RestartNeeded:
            return None
        fault = result.fault
        self._automaton.finish(
            exited=result.reason == "exit", fault_pc=None if fault is None else fault.pc
        )
        if self._automaton.error is not None:
            raise self._automaton.error
        return result

    def discoveries(self) -> Discoveries:
        """What this run did that the graphs do not know."""
        missing = self._automaton.tally.missing
        entries = {step.address for step in missing if isinstance(step, MissingEntry)}
        targets = {(s.jump, s.target) for s in missing if isinstance(s, MissingTarget)}
        returning = {step.call for step in missing if isinstance(step, MissingReturn)}
        words: set[tuple[int, int]] = set()
        for span in self._recovered.code.deferred:
            if any(address in span for address in (*entries, *(target for _, target in targets))):
                words |= self._words(span.start, span.end)
        return Discoveries(
            frozenset(targets), frozenset(entries), frozenset(returning), frozenset(words)
        )

    def _words(self, start: int, end: int) -> set[tuple[int, int]]:
        data = self._machine.read(start, end - start)
        return {
            (start + at, int.from_bytes(data[at : at + 4], "big")) for at in range(0, len(data), 4)
        }

    def observation(self, result: RunResult, runs: int) -> Observation:
        """The finished run."""
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
            schemes=self._schemes,
            lowering=self._lowering,
            events=collect_events(self._index, self._automaton),
            result=result,
            runs=runs,
        )
