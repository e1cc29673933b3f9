"""The schemes of one run: which graphs they see, with which weights and edge profile."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import count
from pathlib import Path

from msgspec import Struct

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece
from simprof.profiler.graphs.spanning import estimate, measured
from simprof.profiler.plan.decoders import Plan, RoutineGuide
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.profiles.profile import EdgeProfile
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.request.errors import ProfileMismatchError
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes.definition import ProfileKind, SchemeDefinition
from simprof.profiler.schemes.registry import (
    PATH_PROFILER,
    beginning,
    definition,
    find,
    guided_by,
    make_plan,
    needs_unit_flow,
)


class Graphs:
    """The graphs of the routines that the user selected.

    Raises UsageError if the selection does not fit the program (`SelectedRoutines`).
    """

    def __init__(self, recovered: ProgramGraphs, selection: Selection) -> None:
        self.recovered = recovered
        self._selected = SelectedRoutines(recovered, selection)
        self._taken: dict[int, bool] = {}

    def __call__(self, routine: int) -> ControlFlowGraph | None:
        """Return the graph of routine number `routine` if it is selected."""
        cfg = self.recovered.routines[routine]
        if routine not in self._taken:
            self._taken[routine] = self._selected.takes(cfg)
        return cfg if self._taken[routine] else None


# Returns the edge counts of a saved profile; UsageError, ProfileMismatchError if it cannot.
ReadProfile = Callable[[Path], EdgeProfile]


def saved_profiles(sha256: str) -> ReadProfile:
    """Return what loads the saved profiles of one program, which `sha256` is of, each once."""
    return cache(partial(_load_profile, sha256))


def weight_source(
    wanted: Weights | Path, profiles: ReadProfile
) -> Callable[[ControlFlowGraph], Sequence[float] | None]:
    """Return what gives a graph's edge weights by id as asked for; None for BL94's heuristic."""
    if isinstance(wanted, Path):
        profile = profiles(wanted)
        return lambda cfg: measured(cfg, profile.counts_for(cfg) or (0,) * len(cfg.edges))
    return lambda cfg: None if wanted == Weights.HEURISTIC else estimate(cfg, wanted)


def _load_profile(sha256: str, path: Path) -> EdgeProfile:
    from simprof.profiler.profiles.storage import load

    profile = load(path)
    if profile.program.sha256 != sha256:
        raise ProfileMismatchError(
            f"{path} is a profile of another program ({profile.program.file}): "
            "make one of this program with `simprof run -o`"
        )
    return profile.edge_profile()


class EdgeCounts(Struct, frozen=True, dict=True):
    """The edge profile of an earlier run."""

    # Graph -> its edge counts; None where there are none.
    of: Callable[[ControlFlowGraph], Sequence[int] | None]
    # Returns how many acyclic paths the whole program began (`PlanOrder.unit_flow`).
    flow: Callable[[], int]

    def __call__(self, cfg: ControlFlowGraph) -> Sequence[int] | None:
        """Return the edge counts of a graph; None where there are none."""
        return self.of(cfg)

    @cached_property
    def unit_flow(self) -> int:
        """How many acyclic paths the whole program began."""
        return self.flow()

    @classmethod
    def saved(cls, profile: EdgeProfile) -> EdgeCounts:
        """Return those of a saved profile."""
        return cls(profile.counts_for, lambda: profile.unit_flow)


# Graph -> how often each path was executed in an earlier run; None where there was none.
PathCounts = Callable[[ControlFlowGraph], Mapping[PathPiece, int] | None]


class Planner:
    """Plans graphs as one setting asks for, each graph once."""

    def __init__(
        self,
        setting: Setting,
        profiles: ReadProfile,
        # edge_counts, path_counts: Those of a first run, for schemes that they guide
        edge_counts: EdgeCounts | None = None,
        path_counts: PathCounts | None = None,
    ) -> None:
        self.setting = setting
        self._weights = weight_source(setting.options.weights, profiles)
        self._edge_counts, self._path_counts = edge_counts, path_counts
        self._guided_by = guided_by(setting.mode)
        if (file := setting.options.edge_profile) is not None and self._guided_by:
            profile = profiles(file)
            if self._guided_by is ProfileKind.PATHS and not any(profile.paths.values()):
                raise ProfileMismatchError(
                    f"{file} has no paths, which guide {setting.mode}: make one with "
                    f"`simprof run --mode {PATH_PROFILER} -o`"
                )
            self._edge_counts = EdgeCounts.saved(profile)
            self._path_counts = profile.path_counts_for
        self._made: dict[int, tuple[ControlFlowGraph, Plan]] = {}

    def make(self, cfg: ControlFlowGraph) -> Plan:
        """Return the plan of a graph."""
        made = self._made.get(id(cfg))
        if made is None:
            made = self._made[id(cfg)] = cfg, self._make(cfg, self._guide(cfg))
        return made[1]

    def forget(self, cfg: ControlFlowGraph) -> None:
        """Let go of the plan of a graph, which nobody asks for any more."""
        self._made.pop(id(cfg), None)

    @cached_property
    def unit_flow(self) -> int | None:
        """What the edge profile says of the whole program; None where no plan depends on that."""
        if not needs_unit_flow(self.setting.mode) or self._edge_counts is None:
            return None
        return self._edge_counts.unit_flow

    def _guide(self, cfg: ControlFlowGraph) -> RoutineGuide | None:
        """Return the profile that guides the plan of a graph; None where nothing does."""
        if self._guided_by is ProfileKind.PATHS:
            return None if self._path_counts is None else self._path_counts(cfg) or {}
        if self._guided_by is None or self._edge_counts is None:
            return None
        counts = self._edge_counts(cfg)
        return (0,) * len(cfg.edges) if counts is None else counts

    def _make(self, cfg: ControlFlowGraph, guide: RoutineGuide | None) -> Plan:
        mode, options, weights = self.setting.mode, self.setting.options, self._weights(cfg)
        edges, paths = (None, guide) if isinstance(guide, Mapping) else (guide, None)
        return make_plan(cfg, mode, options, weights, edges, paths, self.unit_flow)


def judges(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that judge or guide some of `settings` and are not among them.

    Each has the options of the last setting that it judges or guides.
    """
    used = {setting.mode: setting for setting in settings}
    by_judge = {definition(mode).judge: setting for mode, setting in used.items()}
    guided = [setting for setting in used.values() if needs_path_counts((setting,))]
    by_judge |= {PATH_PROFILER: guided[-1]} if guided else {}
    return [
        Setting(judge, judge, setting.options)
        for judge, setting in by_judge.items()
        if judge is not None and judge not in used and find(judge) is not None
    ]


class Planners:
    """The planners of one session."""

    def __init__(self, sha256: str) -> None:
        self._profiles = saved_profiles(sha256)  # of the program
        self._made: dict[Setting, Planner] = {}
        # Number of instructions -> the edge profile of so many at the run's beginning (TPP 3)
        self.beginnings: dict[int, EdgeCounts] = {}
        # The path profile of a first run, for schemes that it guides; None: there was none yet.
        self.path_counts: PathCounts | None = None

    def of(
        self, settings: Sequence[Setting], edge_counts: EdgeCounts | None = None
    ) -> list[Planner]:
        """Return a planner for each of `settings`, and for those that judge them (TPP 5)."""
        wanted = (*settings, *judges(settings))
        for setting in wanted:
            # plans of other schemes are kept for later runs: most graphs are the same then
            if guided_by(setting.mode) or setting not in self._made:
                first = beginning(setting.mode, setting.options)
                counts = self.beginnings.get(first, edge_counts)
                self._made[setting] = Planner(setting, self._profiles, counts, self.path_counts)
        return [self._made[setting] for setting in wanted]


def needs_first_run(settings: Iterable[Setting]) -> bool:
    """Whether a scheme needs a profile that the user has not given."""
    without = (each for each in settings if each.options.edge_profile is None)
    return any(guided_by(each.mode) and not beginning(each.mode, each.options) for each in without)


def needs_path_counts(settings: Iterable[Setting]) -> bool:
    """Whether a scheme needs a path profile that the user has not given."""
    without = (each for each in settings if each.options.edge_profile is None)
    return any(guided_by(each.mode) is ProfileKind.PATHS for each in without)


# Routine number -> its graph if it is to be profiled.
GraphSource = Callable[[int], ControlFlowGraph | None]


class SchemeRun:
    """One mode during one run: plans a routine when the run first needs it."""

    def __init__(
        self,
        setting: Setting,
        graphs: GraphSource,
        # Plans a routine; None for a mode that instruments nothing
        make: Callable[[ControlFlowGraph], Plan] | None,
        slot: int | None,  # Its number among the schemes that count paths; None if it does not
        # Told of a graph whose plan is not needed any more
        forget: Callable[[ControlFlowGraph], None] | None = None,
        counts: Container[int] | None = None,  # Routines whose counters the run keeps; None: all
    ) -> None:
        self.setting = setting
        self.slot = slot
        self._graphs = graphs
        self._make = make
        self._forget, self._counts = forget, counts
        self._plans: dict[int, Plan | None] = {}

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.setting.name

    @property
    def definition(self) -> SchemeDefinition:
        """What the scheme says of itself."""
        return definition(self.setting.mode)

    def selects(self, routine: int) -> bool:
        """Whether routine number `routine` is to be profiled."""
        return self._graphs(routine) is not None

    def routine_plan(self, routine: int) -> Plan | None:
        """Return a routine's plan with its decoder; None if it is not instrumented."""
        if routine not in self._plans:
            cfg = None if self._make is None else self._graphs(routine)
            self._plans[routine] = None if cfg is None or self._make is None else self._make(cfg)
        return self._plans[routine]

    def forget(self, routine: int) -> None:
        """Let go of a routine's plan: nobody will ask for it any more."""
        plan = self._plans.pop(routine, None)
        if plan is not None and self._forget is not None:
            self._forget(plan.cfg)

    def plan(self, routine: int) -> InstrumentationPlan | None:
        """Return the plan of a routine; None if the routine is not instrumented."""
        routine_plan = self.routine_plan(routine)
        return None if routine_plan is None else routine_plan.plan

    def counted(self, routine: int) -> InstrumentationPlan | None:
        """Return the same if the run keeps the routine's counters."""
        return self.plan(routine) if self._counts is None or routine in self._counts else None


def make_schemes(
    graphs: Graphs,
    planners: Sequence[Planner],
    counted: Mapping[Setting, Container[int]] | None = None,  # See `SchemeRun`; None: everything
) -> list[SchemeRun]:
    """Make the schemes of a run; those whose actions are executed get a slot each."""
    schemes: list[SchemeRun] = []
    slots = count()
    for planner in planners:
        scheme = definition(planner.setting.mode)
        make = planner.make if scheme.instruments else None
        slot = next(slots) if scheme.executes else None
        counts = None if counted is None else counted.get(planner.setting, ())
        schemes.append(SchemeRun(planner.setting, graphs, make, slot, planner.forget, counts))
    return schemes
