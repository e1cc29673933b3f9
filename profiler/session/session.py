"""`simprof run` and `compare` as functions: a program under schemes, from file to measurements.

A run is a pipeline of values. The request is taken apart at the door (`observe`), and each stage
gets the part that concerns it:

1. load the program                                      `simulator.binary.elf.load`
2. recover its graphs                                    `recovery.recover`
3. choose what plans a routine, for each scheme          `scheme_runs.make_schemes`
4. execute; routines are planned when first entered      `execute.execute`
5. collect what the run and its schemes have counted     `collect.collect`
6. measure: read the counters, price the code            `results.measure_all`

What an execution discovers that the graphs lack is a value, too. With it, the next round takes
stages 2 to 4 again, on the recorded input, until nothing is discovered (`settle`). The words of
late code are looked for before the first round (`discover.late_words`).

Schemes that need an edge profile first are replayed on what a run under the others has counted
(`_replayed`); where that is not possible, everything runs once again, guided by that run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from profiler.profiles.profile import Measurement
from profiler.recovery.recovery import Discoveries, Known, recover
from profiler.request.request import Phase, Progress, RunRequest, Setting
from profiler.schemes.registry import judges
from profiler.session.collect import collect
from profiler.session.discover import late_words
from profiler.session.execute import Execution, ExecutionOptions, execute
from profiler.session.observation import Comparison, Invocation, Observation
from profiler.session.results import measure_all
from profiler.session.scheme_runs import (
    EdgeCounts,
    Graphs,
    Planner,
    SavedProfiles,
    SchemeRun,
    make_schemes,
    needs_first_run,
)
from profiler.session.traces import TraceOrder
from profiler.session.world import World, open_world
from simulator.binary import elf

MAXIMUM_RUNS = 16
"""Runs of one program until its graphs explain everything that it does."""

ProgressCallback = Callable[[Progress], None]


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
    limit = request.guest.max_instructions
    _tell(request.progress, Phase.EXPANDING, limit, observation.result.instructions)
    measurements = measure_all(observation, self_check=request.self_check)
    return Comparison(measurements, observation.emulations)


def observe(request: RunRequest, settings: Sequence[Setting]) -> Observation:
    """Run until the graphs explain the whole run.

    Schemes that need an edge profile first are replayed on the segments of a run under the
    others; where that is not possible, all of them run again together.
    """
    guest = request.guest
    _tell(request.progress, Phase.LOADING, guest.max_instructions)
    program = elf.load(request.program)
    invocation = Invocation(
        request.program, request.arguments, request.routines, guest.max_instructions, guest.timeout
    )
    with open_world(program, request.arguments, guest) as world:
        first = Round(world, late_words(world))
        study = _Study(
            invocation,
            SavedProfiles(program.sha256),
            None if request.trace is None else TraceOrder(request.trace, invocation),
            request.progress,
        )
        if not needs_first_run(settings):
            return settle(study, first, settings)[0]
        study.planners(settings)  # what is wrong with saved profiles shows before a whole run
        free = [setting for setting in settings if not needs_first_run((setting,))]
        guiding = [*free, *judges(settings)]
        guide, after = settle(study, first, guiding, replayable=True)
        _tell(request.progress, Phase.PLANNING, after.max_instructions, guide.result.instructions)
        replayed = _replayed(guide, settings, study.planners(settings, guide.edge_counts))
        return replayed or settle(study, after, settings, guide.edge_counts)[0]


@dataclass(frozen=True)
class _Study:
    """What stays the same through all rounds.

    Attributes
    ----------
    invocation
        How the run was asked for.
    profiles
        Where saved profiles come from.
    trace
        The trace that is to be written, if one is.
    progress
        Who is told how far the session is, if anybody.
    known
        What recoveries have found, for the next one to reuse.
    """

    invocation: Invocation
    profiles: SavedProfiles
    trace: TraceOrder | None
    progress: ProgressCallback | None
    known: Known = field(default_factory=Known)

    def planners(
        self, settings: Sequence[Setting], edge_counts: EdgeCounts | None = None
    ) -> list[Planner]:
        """What plans routines under `settings`, and under those that judge them (TPP 5)."""
        wanted = [*settings, *judges(settings)]
        return [Planner(setting, self.profiles, edge_counts) for setting in wanted]


@dataclass(frozen=True)
class Round:
    """What the runs so far leave to the next one.

    Attributes
    ----------
    world
        The program with its surroundings. Its budget ends where a run was cut short from outside.
    discoveries
        What is known beside the program's file.
    runs, emulations
        How many runs there were, and how many of them were whole.
    """

    world: World
    discoveries: Discoveries
    runs: int = 0
    emulations: int = 0

    @property
    def max_instructions(self) -> int | None:
        """The budget of the next run."""
        return self.world.guest.max_instructions

    def after(self, execution: Execution) -> Round:
        """Return what the round leaves in which this execution took place."""
        world, result = self.world, execution.result
        if not execution.given_up and result.reason in ("budget", "interrupted"):
            world = world.ending_after(result.instructions)
        discoveries = self.discoveries.merged(execution.discoveries)
        return Round(world, discoveries, self.runs + 1, self.emulations)


def settle(
    study: _Study,
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
        The run that the graphs explain, and what it leaves to another.
    """
    planners = study.planners(settings, edge_counts)
    options = ExecutionOptions(replayable=replayable, edge_counts=edge_counts)
    left = MAXIMUM_RUNS
    while True:
        left -= 1
        execution = _play(study, current, planners, replace(options, persistent=not left))
        before, current = current, current.after(execution)
        if not left or current.discoveries == before.discoveries:
            break
        del execution  # its counters are large, and the next run makes its own
    current = replace(current, emulations=current.emulations + 1)
    observation = collect(
        execution,
        study.invocation,
        len(settings),
        runs=current.runs,
        emulations=current.emulations,
    )
    return observation, current


def _play(
    study: _Study, current: Round, planners: Sequence[Planner], options: ExecutionOptions
) -> Execution:
    """Recover, choose, execute: one round."""
    _tell(study.progress, Phase.RECOVERING, current.max_instructions)
    recovered = recover(current.world.program, current.discoveries, study.known)
    schemes = make_schemes(Graphs(recovered, study.invocation.routines), planners)
    if study.trace is not None:
        begin = partial(study.trace.begin, schemes[0], current.discoveries)
        options = replace(options, start_trace=begin)
    phase = Phase.RERUNNING if current.runs else Phase.RUNNING
    _tell(study.progress, phase, current.max_instructions)
    return execute(current.world, recovered, schemes, options)


def _replayed(
    guide: Observation, settings: Sequence[Setting], planners: Sequence[Planner]
) -> Observation | None:
    """What `settings` measure in the run `guide`, which had those that need no edge profile.

    None where the others need a run of their own.
    """
    graphs = Graphs(guide.recovered, guide.invocation.routines)
    known = {scheme.setting: scheme for scheme in guide.schemes}
    first = sum(scheme.slot is not None for scheme in guide.schemes)
    schemes: list[SchemeRun] = []
    for planner, setting in zip(planners, settings, strict=False):
        scheme = known.get(setting)
        if scheme is None:
            slot = first + len(schemes)
            scheme = SchemeRun(setting, graphs, planner.make, slot)
            if not guide.counters.replay(scheme, slot):
                return None
        schemes.append(scheme)
    return replace(guide, schemes=schemes)


def _tell(
    progress: ProgressCallback | None, phase: Phase, limit: int | None, instructions: int = 0
) -> None:
    """Say what begins now, after so many instructions of the budget `limit`."""
    if progress is not None:
        progress(Progress(phase, instructions, limit))
