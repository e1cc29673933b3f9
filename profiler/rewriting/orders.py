"""What to instrument, and what is known of the program beforehand.

A `Basis` holds what is the same for all schemes: the graphs, and what a run of the program has
shown, where there was one. `Basis.order` makes the order for one scheme of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.plan.decoders import RoutinePlan
from simprof.profiler.recovery.recovery import Discoveries, RecoveredProgram
from simprof.profiler.request.request import ALL_ROUTINES, Selection, Setting
from simprof.profiler.rewriting.calls import CallPlaces
from simprof.profiler.rewriting.recipe import Counts, counts_of
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.scheme_runs import EdgeCounts, Graphs, Planner, SavedProfiles


@dataclass(frozen=True)
class Order:
    """What is to be instrumented.

    Attributes
    ----------
    recovered, contexts
        The program.
    setting
        The scheme with its options.
    plan
        Routine number -> its plan; None where nothing is to be counted.
    first
        Routines whose counters come first.
    discoveries
        What the graphs rest on beside the program's file. Where it has the targets of jumps, copies
        test whether these lead elsewhere.
    edge_counts, weights
        Those that guide plans, by routine number (`recipe.Recipe`).
    calls
        Those of the program, where they are known already.
    """

    recovered: RecoveredProgram
    contexts: ProgramContexts
    setting: Setting
    plan: Callable[[int], RoutinePlan | None]
    first: Sequence[int] = ()
    discoveries: Discoveries = field(default_factory=Discoveries)
    edge_counts: Counts = field(default_factory=dict)
    weights: Counts = field(default_factory=dict)
    calls: CallPlaces | None = None


@dataclass(frozen=True)
class Basis:
    """A program as it is known before it is instrumented, whatever the scheme.

    Attributes
    ----------
    recovered
        Its graphs.
    selection
        The routines that are instrumented.
    discoveries
        What the graphs rest on beside the program's file.
    entered
        Routines that a run has entered. Their counters come first, as where a run is measured.
    edge_counts
        Those of the run, which guide schemes that need an edge profile; None: there was no run.
    """

    recovered: RecoveredProgram
    selection: Selection = ALL_ROUTINES
    discoveries: Discoveries = field(default_factory=Discoveries)
    entered: Sequence[int] = ()
    edge_counts: EdgeCounts | None = None

    @cached_property
    def _contexts(self) -> ProgramContexts:
        return ProgramContexts(self.recovered)

    @cached_property
    def _calls(self) -> CallPlaces:
        return CallPlaces(self.recovered, self._contexts)

    def order(self, setting: Setting) -> Order:
        """Return the order for one scheme.

        Raises
        ------
        SimulatorError
            If a saved profile cannot be read, or a selection names what is not there.
        """
        profiles = SavedProfiles(self.recovered.program.sha256)
        graphs = Graphs(self.recovered, self.selection)
        planner = Planner(setting, profiles, self.edge_counts)

        def plan(number: int) -> RoutinePlan | None:
            cfg = graphs(number)
            return None if cfg is None else planner.make(cfg)

        edge_counts, weights = _guides(setting, profiles, self.edge_counts)
        return Order(
            self.recovered,
            self._contexts,
            setting,
            plan,
            [number for number in self.entered if graphs(number) is not None],
            self.discoveries,
            counts_of(self.recovered, edge_counts),
            counts_of(self.recovered, weights),
            self._calls,
        )


def _guides(
    setting: Setting, profiles: SavedProfiles, observed: EdgeCounts | None
) -> tuple[EdgeCounts | None, EdgeCounts | None]:
    """Return the edge profile of a guided scheme and the weights of edges (None: there are none).

    Parameters
    ----------
    profiles
        Where saved ones come from.
    observed
        The edge profile where the options name none.
    """
    options = setting.options
    edge_counts = weights = None
    if definition(setting.mode).guided:
        saved = options.edge_profile
        edge_counts = observed if saved is None else profiles(saved).counts_for
    if isinstance(options.weights, Path):
        weights = profiles(options.weights).counts_for
    return edge_counts, weights
