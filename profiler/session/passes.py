"""The one loop in which a program is run, again and again, until there is no reason to do so.

Each run is made on graphs that contain all that the runs before it have shown. The program reads
the same in each of them, and nothing that it writes appears twice.

Terms
reason
    Why a program is run again (`Reason`): its graphs lacked something that it did, or a profile
    that guides schemes is there now, and what they count does not follow from the run that gave it.

Steps -> methods of `Runs`
1. what a dynamically linked program loads                 `_load`
2. recover, plan, execute                                  `_execute`
3. run again on better graphs; collect                     `_observed`
4. schemes that waited for a profile, without another run  `_first_run`
5. what does not follow from it, in another run            `_all`, `_together`
6. traces for the self-check                               `_write_trace`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from msgspec.structs import replace

from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.kernels import INSTRUCTIONS
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
    ProgramExecution,
    all_loaded,
    execute,
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
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.codewatch import LoadedCode
from simprof.simulator.machine.running import RunResult
from simprof.simulator.stopping import Stopped

if TYPE_CHECKING:
    from simprof.profiler.session.traces import TraceOrder
    from simprof.simulator.leon.machine import LeonMachine
    from simprof.simulator.machine.machine import Machine

MAXIMUM_RUNS = 16  # Runs under the same schemes until the graphs explain all that the program does


class Reason(StrEnum):
    """Why a program is run again."""

    GRAPHS = "graphs"  # they lacked something that it did
    PROFILE = "profile"  # it guides schemes, which had to wait for it


class Runs:
    """The runs of a program in its world, and what each of them leaves to the next."""

    def __init__(
        self,
        world: World,
        invocation: Invocation,  # How it was asked for
        planners: Planners,
        memory: BinaryMemory,  # What earlier sessions knew of the program
        settings: tuple[Setting, ...],  # The schemes
        *,
        progress: ProgressCallback | None = None,  # Who is told how far the session is, if anybody
        trace: TraceOrder | None = None,  # The trace that is to be written, if one is
        # Whether the execution is regenerated from traces, and compared, and what native code has
        # learnt checked
        checks: bool = False,
        seen: Discoveries | None = None,  # What other runs have shown, for the first one's graphs
        known: Known | None = None,  # What recoveries have found, for the next one to reuse
    ) -> None:
        self.world, self.invocation, self.planners = world, invocation, planners
        self.memory, self.settings = memory, settings
        self._progress, self._trace, self._checks = progress, trace, checks
        self._known = known or Known()
        self.discoveries = seen or Discoveries()  # Beside the program's file
        # runs, whole_runs: How many runs there were that counted, and how many of them were whole.
        self.runs = self.whole_runs = 0
        self.reasons: list[Reason] = []  # Why there was each of them but the first
        # Graphs that a run has been made on which lacked nothing, with what they rest on
        self._recovered: tuple[Discoveries, ProgramGraphs] | None = None

    def observe(
        self, guide: EdgeCounts | None = None, paths: PathCounts | None = None
    ) -> Observation:
        """Run the program until there is no reason to do so again.

        `guide`, `paths`: Profiles that guide schemes; None: a run of the others counts them.
        """
        self.planners.beginnings.update(self._beginnings())
        self.planners.path_counts = paths
        _check_trees(self.invocation, self.settings)
        if self.world.program.parts and not self.discoveries.modules:
            self._load()
        else:
            self._check_names()
        with ExitStack() as stack:
            checked = self._checked_traces(stack) if self._checks else []
            own = None if self._trace is None else self._trace.path
            observation = self._all(guide)
            for setting, path in checked:
                from simprof.profiler.session.self_check import check_trace  # reads traces: numba

                if path != own:
                    self._write_trace(setting, path)
                check_trace(path, setting.name, observation.events.values())
        return replace(
            observation,
            memory=self.memory,
            opened=self.world.opened,
            runs=self.runs,
            whole_runs=self.whole_runs,
            reasons=tuple(self.reasons),
        )

    def _beginnings(self) -> dict[int, EdgeCounts]:
        """Return the edge profiles of the run's beginnings that guide schemes, by instructions."""
        found: dict[int, EdgeCounts] = {}
        world = self.world
        for setting in self.settings:
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
            invocation = replace(self.invocation, contexts=None, max_instructions=limit)
            settings, progress = (NO_SCHEME,), self._progress
            part = Runs(first, invocation, self.planners, self.memory, settings, progress=progress)
            (measurement,) = measure_all(part.observe(), keep_plans=False)
            # By addresses: the rest of the run may show edges that its beginning does not.
            found[number] = EdgeCounts.saved(measurement.edge_profile())
        return found

    def _checked_traces(self, stack: ExitStack) -> list[tuple[Setting, Path]]:
        """Return the traces that a self-check regenerates: a scheme that writes one, and its file.

        That is the trace which the user wanted, if it is a file; the others are temporary.
        """
        contexts = self.invocation.contexts
        if self.world.program.parts or (contexts is not None and contexts.entry is not None):
            return []  # a trace is of a whole run, and tells nothing of stubs
        found: list[tuple[Setting, Path]] = []
        for position, setting in enumerate(self.settings):
            if not definition(setting.mode).writes_trace:
                continue
            own = None if self._trace is None or position else self._trace.path
            if own is None or (own.exists() and not own.is_file()):
                own = stack.enter_context(scratch_directory("simprof-self-check-")) / "trace"
            found.append((setting, own))
        return found

    def _all(self, edge_counts: EdgeCounts | None) -> Observation:
        """Run the program under all schemes; `edge_counts`: As `guide` of `observe`."""
        settings = self.settings
        if not needs_first_run(settings):
            return self._observed(settings)
        has_paths = self.planners.path_counts is not None or not needs_path_counts(settings)
        if edge_counts is None or not has_paths:
            self.planners.of(settings)  # what is wrong with saved profiles shows before a whole run
            first, left = self._first_run(edge_counts)
            edge_counts = edge_counts or first.edge_counts
            if left is not None and not left:
                return first
            self.reasons.append(Reason.PROFILE)
            if left is not None and self._recovered is not None:
                again = self._observed(tuple(left), edge_counts, counted=left)
                return _together(first, again, left)
            del first  # which is large
        return self._observed(settings, edge_counts)

    def _first_run(
        self, edge_counts: EdgeCounts | None
    ) -> tuple[Observation, Mapping[Setting, set[int]] | None]:
        """Run the schemes that need no profile; return the run as if all had been part of it.

        Also return the routines in which a scheme's counters do not follow from it: what they hold
        there depends on the order of segments, as what hash tables cost does. None: all schemes
        have to be part of another run.
        """
        settings, planners = self.settings, self.planners
        free = [setting for setting in settings if not needs_first_run((setting,))]
        first = self._observed((*free, *judges(settings)), guides=True)
        if needs_path_counts(settings):
            planners.path_counts = first.path_counts
        self._tell(Phase.PLANNING, instructions=first.result.instructions)
        if self.invocation.contexts is not None:
            return first, None  # only schemes that are part of a run are counted by context
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
        left = first.counters.replay(waiting)
        schemes = [known[planner.setting] for planner in wanted]
        # all have to be part of the run that is traced
        return replace(first, schemes=schemes), None if left and self._trace is not None else left

    def _load(self) -> None:
        """Run a dynamically linked program, counting nothing: most code is in what it loads."""
        self._tell(Phase.RUNNING)
        result, loaded = run_bare(self.world)
        self.world = self.world.ending_like(result)
        self.discoveries = self.discoveries.merged(all_loaded(loaded))

    def _check_names(self) -> None:
        """Check that the program has what a selection and windows name: UsageError if not."""
        # before it runs at all; of one that is dynamically linked, its first run shows that
        selection, contexts = self.invocation.selection, self.invocation.contexts
        if selection.is_all and contexts is None:
            return
        recovered = self._recover()
        Graphs(recovered, selection)
        if contexts is not None:
            check_contexts(recovered, contexts)

    def _observed(
        self,
        settings: Sequence[Setting],
        edge_counts: EdgeCounts | None = None,  # That guides some of the schemes
        *,
        guides: bool = False,  # Whether other schemes wait for what the run counts
        counted: Mapping[Setting, set[int]] | None = None,  # As of `make_schemes`
    ) -> Observation:
        """Run a program under some schemes until its graphs lack nothing."""
        planners = self.planners.of(settings, edge_counts)
        before = 0  # Runs that were given up
        while True:
            is_last = before == MAXIMUM_RUNS - 1
            # Where a program shows what its graphs lack piece by piece, each run lasts longer, so
            # that the last one need not be made on graphs that lack something.
            grace = None if is_last else GRACE << before
            execution = self._execute(planners, grace, edge_counts, guides=guides, counted=counted)
            result, had = execution.result, self.discoveries
            is_given_up = execution.given_up and result.reason == "budget"  # not from outside
            if not is_given_up:
                self.world = self.world.ending_like(result)
            self.discoveries = had.merged(execution.discoveries)
            self.runs += 1
            if self.discoveries != had and not is_last:
                execution.close()
                del execution  # its plans are as large as those of the next run
                self.reasons.append(Reason.GRAPHS)
                before += 1
                continue
            # after the last run that is made, the graphs may lack something still
            if self.discoveries == had:
                self._recovered = had, execution.recovered
            observation = collect(execution, self.invocation, len(settings))
            execution.close()
            self.whole_runs += 1
            return replace(observation, discoveries=self.discoveries)

    def _execute(
        self,
        planners: Sequence[Planner],
        grace: int | None,  # As of `execution.execute`
        edge_counts: EdgeCounts | None = None,
        *,
        guides: bool = False,
        counted: Mapping[Setting, set[int]] | None = None,
    ) -> ProgramExecution:
        """Recover, plan, execute."""
        self._tell(Phase.RECOVERING)
        if self._recovered is not None and self._recovered[0] == self.discoveries:
            recovered = self._recovered[1]
        else:
            recovered = self._recover()
        schemes = make_schemes(Graphs(recovered, self.invocation.selection), planners, counted)
        run = partial(
            execute,
            partial(self._start, self.world.linked(self.discoveries)),
            recovered,
            schemes,
            grace=grace,
            replayable=guides,
            edge_counts=edge_counts,
            contexts=self.invocation.contexts,
            checks=self._checks,
        )
        if self._trace is not None:
            run = partial(run, start_trace=partial(self._trace.begin, schemes[0], self.discoveries))
        try:
            execution = run()
        except EventsLostError:
            # Too few blocks raised events to tell what the program did: all of them do.
            execution = run(is_dense=True)
        if execution.given_up:
            return execution
        return replace(execution, result=self.world.ended(execution.result))

    def _start(self, world: World, automaton: Automaton) -> Machine | LeonMachine:
        clock = automaton.clock  # natively counted while the program runs
        phase = Phase.RERUNNING if self.runs else Phase.RUNNING
        self._tell(phase, clock=lambda: int(clock[INSTRUCTIONS]))
        return world.machine(automaton)

    def _recover(self) -> ProgramGraphs:
        """Return the program's graphs, which may be known already."""
        program, discoveries = self.world.program_with(self.discoveries), self.discoveries
        told = partial(report_progress, self._progress, Phase.RECOVERING, limit=self.world.limit)
        return self.memory.recover(discoveries, self._known, told, program)

    def _tell(
        self, phase: Phase, instructions: int = 0, clock: Callable[[], int] | None = None
    ) -> None:
        limit, told = self.world.limit, self._progress
        report_progress(told, phase, instructions=instructions, limit=limit, clock=clock)

    def _write_trace(self, setting: Setting, path: Path) -> None:
        """Run once more, as the run did, and write a trace of all routines."""
        from simprof.profiler.session.traces import TraceOrder  # which few sessions need

        whole = replace(self.invocation, selection=ALL_ROUTINES, contexts=None)
        traced = Runs(
            self.world.untimed(),
            whole,
            self.planners,
            self.memory,
            (setting,),
            progress=self._progress,
            trace=TraceOrder(path, whole),
            seen=self.discoveries,
            known=self._known,
        )
        traced.runs, traced._recovered = self.runs, self._recovered
        result = traced._execute(self.planners.of([setting]), None).result
        if result.reason == "interrupted":
            raise Stopped(result.signal or SIGINT)


def _together(
    first: Observation, again: Observation, left: Mapping[Setting, set[int]]
) -> Observation:
    """Return a run whose counters are those of a second one in the routines that were left."""
    later = {scheme.setting: scheme for scheme in again.schemes}

    def counters(scheme: SchemeRun, routine: int) -> RoutineCounters:
        if routine in left.get(scheme.setting, ()):
            return again.counters(later[scheme.setting], routine)
        return first.counters(scheme, routine)

    return replace(first, counters=counters)


def run_bare(world: World) -> tuple[RunResult, LoadedCode]:
    """Run a program under no scheme; return how it ended, and what it has loaded."""
    return world.run_bare()  # no other module has a program run


def _check_trees(invocation: Invocation, settings: Iterable[Setting]) -> None:
    """Check that the costs of all schemes are known by calling context where that is asked for."""
    if invocation.contexts is None or not invocation.contexts.tree:
        return
    own = (each.name for each in settings if has_own_table(each.mode))
    if (name := next(own, None)) is not None:
        raise UsageError(f"{name}: {NO_CONTEXTS}: make call trees under another mode")
