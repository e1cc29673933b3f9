"""Instrumenting a program without running it: `simprof instrument`."""

from __future__ import annotations

from pathlib import Path

from profiler.code.context import ProgramContexts
from profiler.plan.decoders import RoutinePlan
from profiler.recovery.recovery import recover
from profiler.request.request import Phase, Progress, Selection, Setting
from profiler.rewriting.garbage import collected_later
from profiler.rewriting.instrument import Instrumented, Watch, instrument, unwatched
from profiler.rewriting.orders import Order, guides
from profiler.rewriting.recipe import counts_of
from profiler.rewriting.rewritable import load_rewritable
from profiler.session.scheme_runs import Graphs, Planner, SavedProfiles
from simulator.errors import UsageError


def instrument_file(
    file: Path, setting: Setting, selection: Selection, progress: Watch = unwatched
) -> Instrumented:
    """Return a program with the code of a scheme in its place.

    Parameters
    ----------
    file
        The program.
    setting
        The scheme.
    selection
        The routines that are instrumented.
    progress
        Is told what is being done.

    Raises
    ------
    SimulatorError
        If it cannot be done, and why.
    """
    original = content_of(file)
    with collected_later():
        progress(Progress(Phase.RECOVERING))
        return instrument(_order(file, setting, selection, progress), original, progress)


def _order(file: Path, setting: Setting, selection: Selection, progress: Watch) -> Order:
    recovered = recover(
        load_rewritable(file),
        told=lambda done, total: progress(Progress(Phase.RECOVERING, done=done, total=total)),
    )
    profiles = SavedProfiles(recovered.program.sha256)
    graphs = Graphs(recovered, selection)
    planner = Planner(setting, profiles)

    def plan(number: int) -> RoutinePlan | None:
        cfg = graphs(number)
        return None if cfg is None else planner.make(cfg)

    edge_counts, weights = guides(setting, profiles)
    return Order(
        recovered,
        ProgramContexts(recovered),
        setting,
        plan,
        edge_counts=counts_of(recovered, edge_counts),
        weights=counts_of(recovered, weights),
        foreseen=False,
    )


def content_of(file: Path) -> bytes:
    """Return what is in a file; `UsageError` if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}): name a readable file"
        ) from None
