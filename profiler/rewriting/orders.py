"""What to instrument, and what a simulated run of the program under the scheme tells of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profiler.code.context import ProgramContexts
from profiler.plan.decoders import RoutinePlan
from profiler.recovery.recovery import Discoveries, RecoveredProgram
from profiler.request.request import Setting
from profiler.rewriting.calls import CallPlaces
from profiler.rewriting.recipe import Counts, counts_of
from profiler.schemes.registry import definition
from profiler.session.observation import Observation
from profiler.session.scheme_runs import EdgeCounts, SavedProfiles, SchemeRun


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
        What the graphs rest on beside the program's file.
    edge_counts, weights
        Those that guide plans, by routine number (`recipe.Recipe`).
    foreseen
        Whether the run to come is one that has been seen, so that it is known where indirect jumps
        go whose targets the code does not tell. If not, `discoveries` has what other runs have
        shown, and copies test whether jumps lead elsewhere.
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
    foreseen: bool = True
    calls: CallPlaces | None = None


def order_of(observation: Observation, scheme: SchemeRun, *, foreseen: bool) -> Order:
    """Return the order for the program of a run.

    Parameters
    ----------
    observation, scheme
        The run, and the scheme of it that the program is instrumented for. The counters of the
        routines that it entered come first, as where it is measured.
    foreseen
        Whether the instrumented program is to do what this run did.
    """
    setting = scheme.setting
    profiles = SavedProfiles(observation.program.sha256)
    edge_counts, weights = guides(setting, profiles, observation.edge_counts)
    return Order(
        observation.recovered,
        observation.contexts,
        setting,
        scheme.routine_plan,
        [number for number in observation.events if scheme.selects(number)],
        observation.discoveries,
        counts_of(observation.recovered, edge_counts),
        counts_of(observation.recovered, weights),
        foreseen,
    )


def guides(
    setting: Setting, profiles: SavedProfiles, observed: EdgeCounts | None = None
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
