"""What to instrument, given a simulated run of the program under the scheme."""

from __future__ import annotations

from pathlib import Path

from profiler.request.request import Setting
from profiler.rewriting.instrument import Order
from profiler.rewriting.recipe import counts_of
from profiler.schemes.registry import definition
from profiler.session.observation import Observation
from profiler.session.scheme_runs import EdgeCounts, SavedProfiles, SchemeRun


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
