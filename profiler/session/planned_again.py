"""The instrumentation behind a saved profile, made again from the program's file.

A profile says which edges carried code, not which code. Graphs follow from the file and from what
the run discovered, plans from graphs and options; the profile has both. Whatever does not come out
as the profile has it is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.recovery.recovery import Known, ProgramGraphs
from simprof.profiler.request.request import (
    Phase,
    ProgressCallback,
    SchemeOptions,
    Setting,
    report_progress,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.observation import chosen_options
from simprof.profiler.session.scheme_runs import EdgeCounts, Planner, saved_profiles
from simprof.profiler.trace.format import graphs_again
from simprof.simulator.errors import SimulatorError, UsageError

if TYPE_CHECKING:
    from simprof.simulator.binary.program import Program


class PlannedRoutine(Struct, frozen=True):
    """A routine of a profile with its graph, and its plan and code where it has them."""

    cfg: ControlFlowGraph
    plan: InstrumentationPlan | None = None
    code: RoutineCode | None = None


class PlannedProgram(Struct, frozen=True):
    """What could be made again of a profile."""

    recovered: ProgramGraphs  # The program's graphs
    # By position among the profile's routines; those whose graph is another are absent.
    routines: Mapping[int, PlannedRoutine]
    # Why there is no instrumentation code; None where there is, or where the mode has none.
    reason: str | None = None

    @property
    def without_code(self) -> int:
        """How many routines have a graph, but code that is not what the profile says of it."""
        return sum(routine.code is None for routine in self.routines.values())


def plan_again(
    measurement: RunMeasurement,
    program: Program,
    memory: BinaryMemory | None = None,
    progress: ProgressCallback | None = None,
) -> PlannedProgram:
    """Return the graphs, plans and code behind a profile of `program`."""
    recovered = recover_again(measurement, program, memory, progress)
    found = _found(recovered, measurement)
    bare = {at: PlannedRoutine(recovered.routines[number]) for at, number in found.items()}
    scheme = registry.find(measurement.mode)
    if scheme is None:
        return PlannedProgram(recovered, bare, f"this simprof has no mode {measurement.mode}")
    if not scheme.instruments:
        return PlannedProgram(recovered, bare)
    if measurement.runs > 1 and scheme.guided:
        why = "it adds up several runs, and each of them may have guided other code"
        return PlannedProgram(recovered, bare, why)
    try:
        options = chosen_options(measurement.options)
    except (KeyError, TypeError, ValueError) as error:
        why = f"the profile's options are none that this simprof has: {error}"
        return PlannedProgram(recovered, bare, why)
    try:
        planned = _planned(measurement, options, recovered, found, progress)
    except SimulatorError as error:
        return PlannedProgram(recovered, bare, str(error))
    return PlannedProgram(recovered, planned)


def _planned(
    measurement: RunMeasurement,
    options: SchemeOptions,
    recovered: ProgramGraphs,
    found: Mapping[int, int],
    progress: ProgressCallback | None,
) -> dict[int, PlannedRoutine]:
    """Plan and generate in the order of the run, for that decides where counters are."""
    setting = Setting(measurement.mode, measurement.mode, options)
    if registry.beginning(setting.mode, setting.options):
        raise UsageError("the profile does not hold that of the run's beginning, which guided it")
    saved = saved_profiles(recovered.program.sha256)
    # a scheme that was guided by a first run was guided by the counts that are in the profile
    profile, by_paths = measurement.edge_profile(), registry.guided_by(setting.mode)
    of_paths = (each.name for each in registry.definition(setting.mode).losses if each.of_paths)
    lacks_some = any(measurement.lost.get(name) for name in of_paths)
    if by_paths is ProfileKind.PATHS and options.edge_profile is None and lacks_some:
        raise UsageError("the profile lacks some of the paths that guided it")
    planner = Planner(setting, saved, EdgeCounts.saved(profile), profile.path_counts_for)
    pricer = registry.pricer(measurement.mode, options)
    contexts = ProgramContexts(recovered)
    made = {}
    for done, (position, number) in enumerate(found.items()):
        report_progress(progress, Phase.GENERATING, done, len(found))
        cfg = recovered.routines[number]
        planned = planner.make(cfg)
        plan = planned.plan
        code = pricer.code(cfg, plan, planned.weights, contexts.of(number))
        planner.forget(cfg)
        same = is_planned_so(measurement.routines[position], plan, code)
        made[position] = PlannedRoutine(cfg, plan, code) if same else PlannedRoutine(cfg)
    return made


def is_planned_so(routine: RoutineProfile, plan: InstrumentationPlan, code: RoutineCode) -> bool:
    """Whether a plan and its code are what a profile says of a routine."""
    said = frozenset(at for at, edge in enumerate(routine.edge_counts) if edge.instrumented)
    return (
        plan.instrumented_edges == said
        and plan.table is routine.table
        and plan.addressing is routine.addressing
        and code.path_register == routine.path_register
    )


def has_edges_of(cfg: ControlFlowGraph, routine: RoutineProfile) -> bool:
    """Whether a graph's edges are those of a profile, in the same order."""
    counted = [edge for edge in routine.edge_counts if edge.kind is not EdgeKind.EARLY]
    return len(counted) == len(cfg.edges) and all(
        each.key == (cfg.name_of(edge.source), cfg.name_of(edge.target), edge.kind)
        for each, edge in zip(counted, cfg.edges, strict=True)
    )


def recover_again(
    measurement: RunMeasurement,
    program: Program,
    memory: BinaryMemory | None = None,
    progress: ProgressCallback | None = None,
) -> ProgramGraphs:
    """Recover the graphs of a program as the run had them: kept ones, or new ones.

    Raises UsageError if what the profile says of the run cannot be.
    """
    memory = memory or BinaryMemory(program, None)
    told = partial(report_progress, progress, Phase.RECOVERING)
    sha256, discoveries = measurement.program.sha256, measurement.discoveries or {}
    return graphs_again(
        "the profile",
        program,
        sha256,
        discoveries,
        lambda loaded, known: memory.recover(known, Known(), told, loaded),
    )


def _found(recovered: ProgramGraphs, measurement: RunMeasurement) -> dict[int, int]:
    """Position of a profile's routine -> its number, where its graph has the profile's edges."""
    numbers = recovered.numbers
    known = ((at, each) for at, each in enumerate(measurement.routines) if each.key in numbers)
    pairs = ((at, each, numbers[each.key]) for at, each in known)
    return {at: n for at, each, n in pairs if has_edges_of(recovered.routines[n], each)}
