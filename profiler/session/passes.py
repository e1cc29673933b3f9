"""Running a program again and again, until its graphs explain everything that it does.

One round recovers the graphs, chooses what plans routines, and executes the program. What that
run discovers is merged into the `Round` that the next one begins with; the program then reads the
same as before, and nothing that it writes appears twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.walk import GraphIndex
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.profiler.request.request import ALL_ROUTINES, Phase, Progress, Setting
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.registry import judges, needs_edge_profile
from simprof.profiler.session.execution import (
    ExecutionOptions,
    ProgramExecution,
    are_same,
    execute,
    expected_entries,
)
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import Invocation, Observation, collect
from simprof.profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    Planner,
    SavedProfiles,
    SchemeRun,
    make_schemes,
)
from simprof.profiler.session.world import World
from simprof.profiler.trace.format import discovery_fields
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.running import RunResult
from simprof.simulator.stopping import Stopped

if TYPE_CHECKING:
    from simprof.profiler.session.recordings import RecordingOrder

MAXIMUM_RUNS = 16
"""Runs of one program until its graphs explain everything that it does."""

ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class Study:
    """What stays the same through all rounds."""

    invocation: Invocation  # How the run was asked for
    profiles: SavedProfiles  # Where saved profiles come from
    trace: TraceOrder | None  # The trace that is to be written, if one is
    recording: RecordingOrder | None  # The recording that is to be made, if one is
    progress: ProgressCallback | None  # Who is told how far the session is, if anybody
    memory: BinaryMemory  # What earlier sessions knew of the program
    # What recoveries have found, for the next one to reuse
    known: Known = field(default_factory=Known)
    # Numbers of the only routines that concern the schemes; None: all that were selected.
    routines: frozenset[int] | None = None
    # Graphs that are there already, with the discoveries that they rest on
    recovered: tuple[Discoveries, ProgramGraphs] | None = None
    _planners: dict[Setting, Planner] = field(default_factory=dict)
    _linked: dict[object, Known] = field(default_factory=dict)

    @property
    def may_expect(self) -> bool:
        """Whether a run may be made on graphs that turn out at its end.

        Not where something that depends on them is written down while the program runs.
        """
        return self.trace is None and self.recording is None and self.recovered is None

    def recover(self, program: Program, discoveries: Discoveries) -> ProgramGraphs:
        """Return the program's graphs, which may be known already."""
        if self.recovered is not None and self.recovered[0] == discoveries:
            return self.recovered[1]
        recovered = self.memory.graphs(discoveries, program)
        if recovered is None:
            loaded = discoveries.modules, discoveries.earlier
            known = self._linked.setdefault(loaded, Known()) if program.modules else self.known
            recovered = recover(program, discoveries, known, self._told_recovery)
            self.memory.keep_graphs(recovered, discoveries)
        return recovered

    def _told_recovery(self, done: int, total: int) -> None:
        tell(self.progress, Phase.RECOVERING, self.invocation.max_instructions, done=(done, total))

    def planners(
        self, settings: Sequence[Setting], edge_counts: EdgeCounts | None = None
    ) -> list[Planner]:
        """Return a planner for each of `settings`, and for those that judge them (TPP 5).

        Those that `edge_counts` do not guide keep their plans for later rounds: most graphs are
        the same then.
        """
        return [
            Planner(setting, self.profiles, edge_counts)
            if needs_edge_profile(setting.mode)
            else self._planner(setting)
            for setting in (*settings, *judges(settings))
        ]

    def _planner(self, setting: Setting) -> Planner:
        if setting not in self._planners:
            self._planners[setting] = Planner(setting, self.profiles)
        return self._planners[setting]


@dataclass(frozen=True)
class Round:
    """What the runs so far leave to the next one."""

    # The program with its surroundings. After a run that was cut short from outside, the budget is
    # the number of instructions that it executed, so that later runs end at the same place.
    world: World
    discoveries: Discoveries  # What is known beside the program's file
    # runs, whole_runs: How many runs there were, and how many of them were whole.
    runs: int = 0
    whole_runs: int = 0

    @property
    def max_instructions(self) -> int | None:
        """The budget of the next run."""
        return self.world.guest.max_instructions

    def untimed(self) -> Round:
        """Return this round for a run that ends where an earlier one did, however long it takes."""
        guest = replace(self.world.guest, timeout=None)
        return replace(self, world=replace(self.world, guest=guest))

    def after(self, execution: ProgramExecution) -> Round:
        """Return the round that follows this one, in which `execution` took place."""
        ended = self if execution.given_up else self.ending_like(execution.result)
        discoveries = self.discoveries.merged(execution.discoveries)
        return Round(ended.world, discoveries, self.runs + 1, self.whole_runs)

    def ending_like(self, result: RunResult) -> Round:
        """Return this round for runs that end where one ended that was cut short from outside."""
        if result.reason not in ("budget", "interrupted"):
            return self
        return replace(self, world=self.world.ending_after(result.instructions))


def settle(
    study: Study,
    current: Round,
    settings: Sequence[Setting],
    edge_counts: EdgeCounts | None = None,
    *,
    replayable: bool = False,
) -> tuple[Observation, Round]:
    """Run under `settings` until the graphs explain everything.

    - `study`: What stays the same.
    - `current`: The round to begin with.
    - `settings`: The schemes.
    - `edge_counts`: Those of an earlier run, which guide schemes that need an edge profile.
    - `replayable`: Whether other schemes are to be replayed on what this run counts.

    Returns
    -------
    Observation, Round
        The last run, whose graphs lacked nothing, and the round that may follow it.
    """
    planners = study.planners(settings, edge_counts)
    options = ExecutionOptions(
        replayable=replayable, edge_counts=edge_counts, contexts=study.invocation.contexts
    )
    left = MAXIMUM_RUNS
    expects = study.may_expect and edge_counts is None
    while True:
        left -= 1
        options = replace(options, persistent=not left)
        execution = _play(study, current, planners, options, expects=expects and left > 0)
        before, current = current, current.after(execution)
        if execution.expected is not None:
            settled = _turned_out(study, current, planners, execution)
            if settled is not None:
                execution = settled
                break
            expects = not execution.lacks_nothing and current.discoveries != before.discoveries
        elif not left or current.discoveries == before.discoveries:
            break
        execution.close()
        del execution  # its counters are large, and the next run makes its own
    current = replace(current, whole_runs=current.whole_runs + 1)
    # after the last run that is made, the graphs may lack something still: its ways are of others
    is_settled = execution.expected is not None or current.discoveries == before.discoveries
    is_kept = is_settled and not current.world.program.parts
    ways = execution.automaton.known_ways() if is_kept else None
    if ways is not None:
        has_expected = execution.expected is not None
        study.memory.keep_ways(current.discoveries, ways, expected=has_expected)
    observation = collect(
        execution,
        study.invocation,
        len(settings),
        runs=current.runs,
        whole_runs=current.whole_runs,
    )
    execution.close()
    return replace(observation, discoveries=current.discoveries), current


def write_trace(study: Study, current: Round, setting: Setting, path: Path) -> None:
    """Run once more, as the run did that `current` comes after, and write its trace.

    - `study`, `current`: Of a run that has been settled.
    - `setting`: A scheme that writes a trace. All routines are traced, whatever the user selected.
    - `path`: Where the trace goes.

    Raises
    ------
    KeyboardInterrupt
        If the user ends it: the trace then says nothing of the earlier run.
    """
    invocation = replace(study.invocation, selection=ALL_ROUTINES)
    traced = replace(study, invocation=invocation, trace=TraceOrder(path, invocation))
    options = ExecutionOptions(persistent=True)
    execution = _play(traced, current.untimed(), traced.planners([setting]), options)
    if execution.result.reason == "interrupted":
        raise Stopped(execution.result.signal or SIGINT)


def _play(
    study: Study,
    current: Round,
    planners: Sequence[Planner],
    options: ExecutionOptions,
    *,
    expects: bool = False,
) -> ProgramExecution:
    """Recover, choose, execute: one round; `expects`: on graphs with what may turn out."""
    tell(study.progress, Phase.RECOVERING, current.max_instructions)
    world = current.world.linked(current.discoveries)
    recovered = study.recover(world.program, current.discoveries)
    expects = expects and not world.program.parts
    expected = expected_entries(recovered) if expects else None
    unsure = frozenset[tuple[int, str]]() if expected is None else expected.names
    options = replace(options, expected=expected)
    if not world.program.parts:
        ways = partial(study.memory.ways, current.discoveries, expected=expected is not None)
        options = replace(options, ways=ways)
    graphs = recovered if expected is None else expected.recovered
    schemes = _schemes(study, current, planners, graphs, unsure)
    if study.trace is not None:
        begin = partial(study.trace.begin, schemes[0], current.discoveries)
        options = replace(options, start_trace=begin)
    if study.recording is not None:
        record = partial(study.recording.begin, current.discoveries)
        options = replace(options, record=record)
    phase = Phase.RERUNNING if current.runs else Phase.RUNNING
    tell(study.progress, phase, current.max_instructions)
    return execute(world, recovered, schemes, options)


def _schemes(
    study: Study,
    current: Round,
    planners: Sequence[Planner],
    recovered: ProgramGraphs,
    unsure: frozenset[tuple[int, str]] = frozenset(),
) -> list[SchemeRun]:
    """Make the schemes of a run; what earlier sessions planned for `unsure` routines is not read.

    The graphs of these routines, given by address and name, may not be those that were planned.
    """
    for planner in planners:
        known = study.memory.plans(current.discoveries, planner.setting)
        planner.remember(known.without(unsure) if unsure else known)
    return make_schemes(Graphs(recovered, study.invocation.selection, study.routines), planners)


def _turned_out(
    study: Study, current: Round, planners: Sequence[Planner], execution: ProgramExecution
) -> ProgramExecution | None:
    """Return a run that expected entries as one on the graphs with those that control came by.

    None where it cannot be taken for that: the graphs lacked something else, or have to be others.
    """
    expected = execution.expected
    if expected is None or not execution.lacks_nothing:
        return None
    used = expected.used(execution.counts.edge_counts)
    graphs = expected.graphs_with(used)
    if used and not are_same(study.recover(current.world.program, current.discoveries), graphs):
        return None
    return execution.turned_out(graphs, _schemes(study, current, planners, graphs))


def tell(
    progress: ProgressCallback | None,
    phase: Phase,
    limit: int | None,
    instructions: int = 0,
    done: tuple[int, int] = (0, 0),
) -> None:
    """Tell the user that `phase` begins, or how far it is.

    - `limit`: The budget of the run in instructions; None: none.
    - `instructions`: How many of these have been executed.
    - `done`: How many routines are done, and of how many; of 0 where that is not known.
    """
    if progress is not None:
        progress(Progress(phase, instructions, limit, *done))


if TYPE_CHECKING:
    from simprof.profiler.trace.format import TraceFile
    from simprof.profiler.trace.recorder import TraceRecorder


@dataclass
class TraceOrder:
    """Where the trace of a run goes, and how the run was asked for.

    Each round of a session begins the file again.
    """

    path: Path
    invocation: Invocation
    _file: TraceFile | None = field(default=None, init=False)

    def begin(
        self, scheme: SchemeRun, discoveries: Discoveries, index: GraphIndex, memory: EngineMemory
    ) -> TraceRecorder:
        """Begin the trace of a run.

        - `scheme`: The one whose plans say what is written.
        - `discoveries`: What the graphs rest on beside the program's file; readers need it to
          recover them.
        - `index`, `memory`: The graphs, and the kernel's memory.

        Raises
        ------
        UsageError
            If the mode writes no trace, not all routines are profiled, or the file cannot be
            written.
        """
        from simprof.profiler.trace.format import TraceFile, TraceHeader
        from simprof.profiler.trace.recorder import TraceRecorder

        definition = scheme.definition
        if not definition.writes_trace:
            modes = " or ".join(registry.trace_modes())
            raise UsageError(f"--trace: mode {definition.mode} writes no trace; use --mode {modes}")
        if not self.invocation.selection.is_all:
            raise UsageError(
                "--trace needs all routines: leave out --routine, --exclude and --user-only"
            )
        program = index.recovered.program
        header = TraceHeader(
            file=str(self.invocation.file),
            sha256=program.sha256,
            machine=str(program.machine),
            arguments=self.invocation.argument_texts,
            mode=definition.mode,
            discoveries=discovery_fields(discoveries),
        )
        file = self._file = TraceFile(self.path, header)
        return TraceRecorder(
            memory,
            index,
            lambda routine: definition.trace_writer(scheme.routine_plan(routine)),
            file,
        )

    def discard(self) -> None:
        """Remove the file, if it has been begun: the run has failed."""
        if self._file is not None:
            self._file.discard()
