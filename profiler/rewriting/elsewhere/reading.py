"""From a counter file to the profile that `simprof run -o` saves.

Steps -> functions
1. recover the program's graphs as they were when it was instrumented     `recovered_again`
2. plan its routines again, and give their counters their places          `placed_again`
3. read the stacks: which activations ended early                         `early_ends.StackReader`
4. read each routine's counters, and derive its edge counts               `_read_routine`
5. measure, as a simulated run is measured                                `session.results`

What no counter tells is not in the profile: what conditional code and hashing cost (`added` is
without them), refused system calls, where a fault happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import CounterSpace
from simprof.profiler.graphs.flow import FlowError, block_counts
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.decoders import (
    Reading,
    RoutineCounters,
    RoutinePlan,
    check_shape,
)
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.rewriting.elsewhere.counter_file import EXITED, KILLED, CounterFile
from simprof.profiler.rewriting.elsewhere.early_ends import StackReader, read_with_ends
from simprof.profiler.rewriting.elsewhere.memory import (
    MemoryCounters,
    PlacedPlan,
    placed,
    program_memory,
    read_counters,
)
from simprof.profiler.rewriting.elsewhere.recipe import PlanRecipe, of_header
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.counters import RoutineEvents, UnfinishedSegment
from simprof.profiler.session.execution import Unattributed
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import Invocation, Observation
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.simulator.binary import elf
from simprof.simulator.errors import UsageError
from simprof.simulator.machine.running import RunResult


def read_profile(file: CounterFile, program: Path | None = None) -> RunMeasurement:
    """Return the profile that an instrumented program has counted.

    `file`: Its counter file, or several merged. `program`: The program before it was instrumented;
    None: the file that the header names.

    Raises
    ------
    SimulatorError
        If the program is another one, or the counters do not tell a profile, and why.
    """
    recipe = of_header(file)
    scheme = definition(recipe.mode)
    if scheme.writes_trace:
        raise UsageError(
            f"{file.name} is of mode {recipe.mode}, which counts nothing but writes a trace: "
            "`simprof read` makes a trace file of that"
        )
    recovered = recovered_again(file, recipe, program)
    plans, codes = placed_again(file, recipe, recovered)
    contexts = ProgramContexts(recovered)
    stacks = StackReader(recovered, contexts, recipe.copies)
    ends: dict[int, Counter[int]] = {}
    for frames in file.frames:
        for number, early in stacks.ends(frames).items():
            ends.setdefault(number, Counter()).update(early)
    read = _Read({}, {})
    try:
        for number, code in codes.items():
            memory, early = read_counters(code, file.read), ends.get(number, Counter())
            if memory.paths or any(memory.events) or early:
                plan = plans[number]
                counters, edges = _read_routine(scheme, recipe, number, plan, memory, early)
                segments = tuple(UnfinishedSegment(block, 0, 0, n) for block, n in early.items())
                read.events[number] = RoutineEvents(plan.cfg, edges, segments)
                read.counters[number] = counters
        return _measured(recipe, recovered, contexts, plans, read, file.ends)
    except FlowError as error:
        what, _, _ = str(error).partition(";")
        raise UsageError(
            f"{file.name}: {what}: the file is damaged, or the program left routines by longjmp or "
            "an exception, which its counters do not tell: use `simprof run`"
        ) from None


@dataclass(frozen=True)
class _Read:
    """What was read, by routine number: the `CounterSource` of an observation."""

    events: dict[int, RoutineEvents]
    counters: dict[int, RoutineCounters]

    def of(self, scheme: SchemeRun, routine: int) -> RoutineCounters:
        """Return what the counters of a routine hold; there is one scheme."""
        return self.counters[routine]

    def replay(self, schemes: Sequence[SchemeRun]) -> list[frozenset[int]]:
        """Say that no other scheme can be derived."""
        return [frozenset(self.events) for _ in schemes]


def recovered_again(file: CounterFile, recipe: PlanRecipe, program: Path | None) -> ProgramGraphs:
    """Return the graphs of the program that a counter file is of, as they were.

    Raises
    ------
    UsageError, ProfileMismatchError
        If the program is not there, or is another one now.
    """
    known = file.header["program"]
    path = Path(known["file"]) if program is None else program
    if not path.is_file():
        raise UsageError(f"{file.name} is of {path}, which is not there: name it with --program")
    loaded = elf.load(path)
    if loaded.sha256 != known["sha256"]:
        raise ProfileMismatchError(
            f"{file.name} is of another program than {path} is now: name that with --program"
        )
    return recover(loaded, recipe.discoveries)


def placed_again(
    file: CounterFile, recipe: PlanRecipe, recovered: ProgramGraphs
) -> tuple[dict[int, RoutinePlan], dict[int, PlacedPlan]]:
    """Plan the routines of a counter file again, and lay out their counters.

    Returns
    -------
    dict, dict
        Routine number -> its plan; the same with the places of its counters.

    Raises
    ------
    ProfileMismatchError
        If the plans take other memory than the file has.
    """
    planner, space = recipe.planner(recovered), CounterSpace()
    scheme = definition(recipe.mode)
    fits = all(0 <= number < len(recovered.routines) for number in recipe.routines)
    plans: dict[int, RoutinePlan] = {}
    codes: dict[int, PlacedPlan] = {}
    for number in recipe.routines if fits else ():
        plan = planner.make(recovered.routines[number])
        layout = space.place(plan.plan)
        if number in recipe.words:
            layout = space.with_words(layout, recipe.words[number])
        plans[number], codes[number] = plan, placed(scheme, plan, layout)
    if not fits or program_memory(codes).regions != file.regions:
        raise ProfileMismatchError(
            f"{file.name} is of a program that another version of simprof has instrumented: "
            "instrument it again"
        )
    return plans, codes


def _read_routine(
    scheme: SchemeDefinition,
    recipe: PlanRecipe,
    number: int,
    plan: RoutinePlan,
    memory: MemoryCounters,
    early: Mapping[int, int],
) -> tuple[RoutineCounters, tuple[int, ...]]:
    """Return a routine's counters, and the count of each of its edges."""
    cfg = plan.cfg
    counters = RoutineCounters(memory.paths, memory.events, early)
    decoder = scheme.path_decoder(plan)
    if scheme.guided:
        if early and plan.plan.counts_paths:
            raise _untold(cfg.name, "which paths were under way when the program ended")
        return counters, recipe.edge_counts.get(number, (0,) * len(cfg.edges))
    if decoder is not None and early:
        iterated = scheme.collected() is ProfileKind.ITERATION_PATHS
        if iterated and depth_first(cfg).back_edges:
            raise _untold(cfg.name, "in which iteration it was when the program ended")
        counters, reading = read_with_ends(decoder, memory, early)
    else:
        reading = _plain_reading(plan, counters)
        check_shape(plan, scheme.mode, reading)
    if reading.edges is None:
        raise _untold(cfg.name, "how often its edges were crossed, only its blocks")
    return counters, reading.edges


def _plain_reading(plan: RoutinePlan, counters: RoutineCounters) -> Reading:
    try:
        return plan.read(counters)
    except ValueError as error:
        raise UsageError(f"{plan.cfg.name}: its counters are damaged: {error}") from None


def _untold(routine: str, what: str) -> UsageError:
    return UsageError(f"{routine}: its counters do not tell {what}: use another mode, such as qpt2")


def _measured(
    recipe: PlanRecipe,
    recovered: ProgramGraphs,
    contexts: ProgramContexts,
    plans: Mapping[int, RoutinePlan],
    read: _Read,
    ends: Sequence[int],
) -> RunMeasurement:
    """Measure what was read as if a simulated run had counted it."""
    setting = Setting(recipe.mode, recipe.mode, recipe.options)
    numbers = {(cfg.address, cfg.name): n for n, cfg in enumerate(recovered.routines)}
    scheme = SchemeRun(
        setting,
        lambda number: recovered.routines[number] if number in plans else None,
        lambda cfg: plans[numbers[cfg.address, cfg.name]],
        0,
    )
    observation = Observation(
        invocation=Invocation(recovered.program.path, selection=Selection()),
        program=recovered.program,
        recovered=recovered,
        schemes=(scheme,),
        judges={},
        events=dict(sorted(read.events.items())),
        counters=read,
        contexts=contexts,
        result=_result(ends, _instructions(read)),
        unattributed=Unattributed(0, 0),
        irregular=(),
        memory=BinaryMemory(recovered.program, None),
        runs=len(ends),
        whole_runs=len(ends),
    )
    (measurement,) = measure_all(observation)
    notes = ["read from counters: `added` is without conditional code and hashing"]
    if not all(ends):
        notes.append("how the program ended is not known")
    if recipe.left:
        names = ", ".join(recovered.routines[number].name for number in recipe.left)
        notes.append(f"left alone by `simprof instrument`, and not counted: {names}")
    return replace(measurement, runs=len(ends), warnings=(*measurement.warnings, *notes))


def _result(ends: Sequence[int], instructions: int) -> RunResult:
    """Return the result of the first run that did not exit with 0, or else of the first run."""
    end = next((end for end in ends if end not in (0, EXITED)), ends[0])
    if end & KILLED:
        number = end & ~KILLED
        return RunResult(128 + number, "signal", number, None, instructions, 0, 0, 0, 0.0, 0.0, 0)
    status = end & ~EXITED
    return RunResult(status, "exit", None, None, instructions, 0, 0, 0, 0.0, 0.0, 0)


def _instructions(read: _Read) -> int:
    """Return the instructions of all blocks executed: of the routines that were instrumented."""
    return sum(
        count * block.instructions
        for events in read.events.values()
        for count, block in zip(
            block_counts(events.cfg, events.edges), events.cfg.blocks, strict=True
        )
    )
