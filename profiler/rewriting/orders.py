"""What to instrument, given a simulated run of the program under the scheme."""

from __future__ import annotations

from pathlib import Path

from profiler.rewriting.instrument import Order
from profiler.rewriting.recipe import counts_of
from profiler.schemes.registry import definition
from profiler.session.observation import Observation
from profiler.session.scheme_runs import SavedProfiles, SchemeRun

UNFINISHED = ("budget", "interrupted", "refused")
"""Ways in which a simulated run ends that are not the program's own."""


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
    guided = definition(setting.mode).guided
    profiles = SavedProfiles(observation.program.sha256)
    edge_counts = weights = None
    if guided:
        edge_counts = observation.edge_counts
        if setting.options.edge_profile is not None:
            edge_counts = profiles(setting.options.edge_profile).counts_for
    if isinstance(setting.options.weights, Path):
        weights = profiles(setting.options.weights).counts_for
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
