"""Instrumented programs, executed: what is read from their counter files is what was simulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.rewriting.elsewhere.counter_file import load
from simprof.profiler.rewriting.elsewhere.reading import read_profile, read_trace
from simprof.profiler.rewriting.instrument import Order, instrument
from simprof.profiler.session.session import run_program
from simprof.profiler.trace.regeneration import regenerate
from tests.rewriting.test_reading import LEAVES, Observed, compare, observe, waiting
from tests.support.turns import first

Find = Callable[..., Path]
MODES = ("pp", "pp-hash", "tpp", "kiter", "bittrace", "qpt2", "naive", "calls", "calls-optimal")


def run_instrumented(run: Observed, name: str, directory: Path) -> Path:
    """Instrument the program of a run, and execute it on the emulator; return its counter file."""
    observation = run.observation
    scheme = next(each for each in observation.schemes if each.name == name)
    edges = {number: events.edges for number, events in observation.events.items()}
    order = Order(
        observation.recovered,
        observation.contexts,
        scheme.setting,
        scheme.routine_plan,
        tuple(observation.events),
        observation.discoveries,
        edges if scheme.definition.guided else {},
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


@pytest.fixture(scope="module", params=["v9", "v8plus", "v8"])
def words(fixture_elf: Find, request: pytest.FixtureRequest) -> Observed:
    """A simulated run of `words` under all settings."""
    return observe(fixture_elf("words", request.param))


@pytest.mark.parametrize("name", first(3, MODES))
def test_a_profile_is_read_back(words: Observed, name: str, tmp_path: Path) -> None:
    counters = load(run_instrumented(words, name, tmp_path))
    compare(read_profile(counters), words.simulated(name))


@pytest.mark.long
@pytest.mark.toolchain
def test_the_stack_of_a_program_that_exits_from_within(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """`main` and another routine wait while the C library ends the program.

    Routines of the C library that look at the program's name and its segments are not compared:
    those of the instrumented program are others.
    """
    run = observe(compile_c(LEAVES, flags=("-O1",)), ["pp", "naive"])
    assert waiting(run) >= {"main", "middle"}
    own = waiting(run) | {"stop", "work", "exit", "__run_exit_handlers"}
    for name in ("pp", "naive"):
        read = read_profile(load(run_instrumented(run, name, tmp_path)))
        found = {r.name: replace(r, added=0) for r in read.routines if r.name in own}
        wanted = {r.name: replace(r, added=0) for r in run.simulated(name).routines}
        assert found == {name: wanted[name] for name in own}


@pytest.mark.parametrize("name", ["witness", "bits"])
def test_a_trace_is_read_back(words: Observed, name: str, tmp_path: Path) -> None:
    counters, made = run_instrumented(words, name, tmp_path), tmp_path / "made"
    raw = counters.with_name("simprof.out.trace").read_bytes()
    assert read_trace(load(counters), raw, made) is None
    result = regenerate(made, None, check=True)
    assert result.complete
    events = words.observation.events.values()
    assert result.result.crossings == sum(sum(routine.edges) for routine in events)
