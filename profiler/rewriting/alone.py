"""Instrumenting a program without verifying it: `simprof instrument`.

`instrument_file` runs nothing. `instrument_after_run` runs the program first: graphs then have what
only a run shows (where computed jumps lead), and guided schemes their edge profile.
"""

from __future__ import annotations

from pathlib import Path

from profiler.code.context import ProgramContexts
from profiler.plan.decoders import RoutinePlan
from profiler.recovery.recovery import recover
from profiler.request.request import RunRequest, Selection, Setting
from profiler.rewriting.instrument import Instrumented, Order, instrument
from profiler.rewriting.orders import UNFINISHED, order_of
from profiler.rewriting.recipe import counts_of
from profiler.rewriting.shared_targets import shared_targets
from profiler.schemes.registry import definition
from profiler.session.scheme_runs import Graphs, Planner, SavedProfiles
from profiler.session.session import observe
from simulator.binary import elf
from simulator.errors import UsageError


def instrument_after_run(request: RunRequest) -> Instrumented:
    """Return a program with the code of the request's scheme, made with what a run of it shows.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why; also if the run does not come to an end by itself.
    """
    original = _content(request.program)
    observation = observe(request, (request.setting,))
    seen = shared_targets(observation.program, observation.discoveries)
    if seen != observation.discoveries:
        observation = observe(request, (request.setting,), seen)
    result = observation.result
    if result.reason in UNFINISHED:
        raise UsageError(
            f"{request.program}: the run did not come to its own end ({result.reason}): "
            "instrument with a shorter one, or without one"
        )
    (scheme,) = observation.schemes
    return instrument(order_of(observation, scheme, foreseen=False), original)


def instrument_file(file: Path, setting: Setting, selection: Selection) -> Instrumented:
    """Return a program with the code of a scheme in its place.

    Parameters
    ----------
    file
        The program.
    setting
        The scheme.
    selection
        The routines that are instrumented.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why.
    """
    original = _content(file)
    recovered = recover(elf.load(file))
    profiles = SavedProfiles(recovered.program.sha256)
    options, graphs = setting.options, Graphs(recovered, selection)
    planner = Planner(setting, profiles)

    def plan(number: int) -> RoutinePlan | None:
        cfg = graphs(number)
        return None if cfg is None else planner.make(cfg)

    guide, weights = options.edge_profile, options.weights
    guided = guide is not None and definition(setting.mode).guided
    order = Order(
        recovered,
        ProgramContexts(recovered),
        setting,
        plan,
        edge_counts=counts_of(recovered, profiles(guide).counts_for) if guided and guide else {},
        weights=counts_of(recovered, profiles(weights).counts_for)
        if isinstance(weights, Path)
        else {},
        foreseen=False,
    )
    return instrument(order, original)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}): name a readable file"
        ) from None
