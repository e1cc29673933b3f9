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
from typing import TYPE_CHECKING

from profiler.recovery.recovery import Discoveries, Known, RecoveredProgram, recover
from profiler.request.request import ALL_ROUTINES, Phase, Progress, Setting
from profiler.schemes.registry import judges, needs_edge_profile
from profiler.session.collect import collect
from profiler.session.execute import ExecutionOptions, ProgramExecution, execute
from profiler.session.memory import BinaryMemory
from profiler.session.observation import Invocation, Observation
from profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    Planner,
    SavedProfiles,
    make_schemes,
)
from profiler.session.traces import TraceOrder
from profiler.session.world import World
from simulator.binary.program import Program

if TYPE_CHECKING:
    from profiler.session.recordings import RecordingOrder

MAXIMUM_RUNS = 16
"""Runs of one program until its graphs explain everything that it does."""

ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class Study:
    """What stays the same through all rounds.

    Attributes
    ----------
    invocation
        How the run was asked for.
    profiles
        Where saved profiles come from.
    trace
        The trace that is to be written, if one is.
    recording
        The recording that is to be made, if one is.
    progress
        Who is told how far the session is, if anybody.
    memory
        What earlier sessions knew of the program.
    known
        What recoveries have found, for the next one to reuse.
    routines
        Numbers of the only routines that concern the schemes; None: all that were selected.
    recovered
        Graphs that are there already, with the discoveries that they rest on.
    """

    invocation: Invocation
    profiles: SavedProfiles
    trace: TraceOrder | None
    recording: RecordingOrder | None
    progress: ProgressCallback | None
    memory: BinaryMemory
    known: Known = field(default_factory=Known)
    routines: frozenset[int] | None = None
    recovered: tuple[Discoveries, RecoveredProgram] | None = None
    _planners: dict[Setting, Planner] = field(default_factory=dict)

    def recover(self, program: Program, discoveries: Discoveries) -> RecoveredProgram:
        """Return the program's graphs, which may be known already."""
        if self.recovered is not None and self.recovered[0] == discoveries:
            return self.recovered[1]
        recovered = self.memory.graphs(discoveries)
        if recovered is None:
            recovered = recover(program, discoveries, self.known)
            self.memory.keep_graphs(recovered, discoveries)
        return recovered

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
    """What the runs so far leave to the next one.

    Attributes
    ----------
    world
        The program with its surroundings. After a run that was cut short from outside, the budget
        is the number of instructions that it executed, so that later runs end at the same place.
    discoveries
        What is known beside the program's file.
    runs, whole_runs
        How many runs there were, and how many of them were whole.
    """

    world: World
    discoveries: Discoveries
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
        world, result = self.world, execution.result
        if not execution.given_up and result.reason in ("budget", "interrupted"):
            world = world.ending_after(result.instructions)
        discoveries = self.discoveries.merged(execution.discoveries)
        return Round(world, discoveries, self.runs + 1, self.whole_runs)


def settle(
    study: Study,
    current: Round,
    settings: Sequence[Setting],
    edge_counts: EdgeCounts | None = None,
    *,
    replayable: bool = False,
) -> tuple[Observation, Round]:
    """Run under `settings` until the graphs explain everything.

    Parameters
    ----------
    study
        What stays the same.
    current
        The round to begin with.
    settings
        The schemes.
    edge_counts
        Those of an earlier run, which guide schemes that need an edge profile.
    replayable
        Whether other schemes are to be replayed on what this run counts.

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
    while True:
        left -= 1
        execution = _play(study, current, planners, replace(options, persistent=not left))
        before, current = current, current.after(execution)
        if not left or current.discoveries == before.discoveries:
            break
        execution.index.close()
        del execution  # its counters are large, and the next run makes its own
    current = replace(current, whole_runs=current.whole_runs + 1)
    observation = collect(
        execution,
        study.invocation,
        len(settings),
        runs=current.runs,
        whole_runs=current.whole_runs,
    )
    execution.index.close()
    return replace(observation, discoveries=current.discoveries), current


def write_trace(study: Study, current: Round, setting: Setting, path: Path) -> None:
    """Run once more, as the run did that `current` comes after, and write its trace.

    Parameters
    ----------
    study, current
        Of a run that has been settled.
    setting
        A scheme that writes a trace. All routines are traced, whatever the user selected.
    path
        Where the trace goes.

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
        raise KeyboardInterrupt


def _play(
    study: Study, current: Round, planners: Sequence[Planner], options: ExecutionOptions
) -> ProgramExecution:
    """Recover, choose, execute: one round."""
    tell(study.progress, Phase.RECOVERING, current.max_instructions)
    recovered = study.recover(current.world.program, current.discoveries)
    for planner in planners:
        planner.remember(study.memory.plans(current.discoveries, planner.setting))
    graphs = Graphs(recovered, study.invocation.selection, study.routines)
    schemes = make_schemes(graphs, planners)
    if study.trace is not None:
        begin = partial(study.trace.begin, schemes[0], current.discoveries)
        options = replace(options, start_trace=begin)
    if study.recording is not None:
        record = partial(study.recording.begin, current.discoveries)
        options = replace(options, record=record)
    phase = Phase.RERUNNING if current.runs else Phase.RUNNING
    tell(study.progress, phase, current.max_instructions)
    return execute(current.world, recovered, schemes, options)


def tell(
    progress: ProgressCallback | None,
    phase: Phase,
    limit: int | None,
    instructions: int = 0,
    done: tuple[int, int] = (0, 0),
) -> None:
    """Tell the user that `phase` begins, or how far it is.

    Parameters
    ----------
    limit
        The budget of the run in instructions; None: none.
    instructions
        How many of these have been executed.
    done
        How many routines are done, and of how many; of 0 where that is not known.
    """
    if progress is not None:
        progress(Progress(phase, instructions, limit, *done))
