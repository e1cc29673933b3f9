"""Shared by tests: what `tests/rewriting/test_read_back.py` and others use."""

from __future__ import annotations

import os
from pathlib import Path

from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.rewriting.instrument import Basis, Order, instrument
from simprof.profiler.session.session import run_program
from tests.support.reading import Observed


def run_instrumented(run: Observed, name: str, directory: Path) -> Path:
    """Instrument the program of a run, and execute it on the emulator; return its counter file."""
    observation = run.observation
    scheme = next(each for each in observation.schemes if each.name == name)
    edges = {number: events.edges for number, events in observation.events.items()}
    plans = {number: scheme.routine_plan(number) for number in observation.events}
    guides = ((n, plan.path_profile) for n, plan in plans.items() if plan is not None)
    paths = {
        n: tuple((*piece, count) for piece, count in guide.items())
        for n, guide in guides
        if guide is not None
    }
    basis = Basis(observation.recovered, discoveries=observation.discoveries)
    order = Order(
        basis,
        scheme.setting,
        scheme.routine_plan,
        tuple(observation.events),
        edges if scheme.definition.guided else {},
        paths,
    )
    made = directory / "instrumented"
    made.write_bytes(instrument(order, observation.program.path.read_bytes()).file)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        guest = GuestOptions(
            root=directory, writable=directory, stdin=Path(os.devnull), stdout=null, stderr=null
        )  # fmt: skip
        run_program(RunRequest(made, guest, mode="edges"))
    finally:
        os.close(null)
    return directory / "simprof.out"
