"""Instrumented programs, executed: what is read from their counter files is what was simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.rewriting.elsewhere.counter_file import load
from simprof.profiler.rewriting.elsewhere.reading import read_profile, read_trace
from simprof.profiler.trace.regeneration import regenerate
from tests.support.read_back import run_instrumented
from tests.support.reading import LEAVES, Observed, compare, observe, waiting
from tests.support.turns import turns

Find = Callable[..., Path]
WIDTHS = ("v9", "v8plus", "v8")
MODES = (
    *("pp", "pp-hash", "tpp", "kiter", "bittrace", "fifo"),
    *("qpt2", "naive", "calls", "calls-optimal"),
)


@pytest.fixture(scope="module")
def words(fixture_elf: Find, request: pytest.FixtureRequest) -> Observed:
    """A simulated run of `words` under all settings."""
    return observe(fixture_elf("words", request.param))


@pytest.mark.parametrize(("name", "words"), turns(MODES, WIDTHS, few=2), indirect=["words"])
def test_a_profile_is_read_back(words: Observed, name: str, tmp_path: Path) -> None:
    counters = load(run_instrumented(words, name, tmp_path))
    read = read_profile(counters)
    compare(read, words.simulated(name))
    # Its edge counts are those of the profile that guided it, whatever this run did.
    assert (read.guide is not None and not read.guide.same_run) is (name == "tpp")


@pytest.mark.long
@pytest.mark.toolchain
def test_the_stack_of_a_program_that_exits_from_within(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """`main` and another routine wait while the C library ends the program.

    Routines of the C library that look at the program's name and its segments are not compared:
    those of the instrumented program are others.
    """
    run = observe(compile_c(LEAVES, flags=("-O1",)), ["pp"])
    assert waiting(run) >= {"main", "middle"}
    own = waiting(run) | {"stop", "work", "exit", "__run_exit_handlers"}
    read = read_profile(load(run_instrumented(run, "pp", tmp_path)))
    found = {r.name: replace(r, added=0) for r in read.routines if r.name in own}
    wanted = {r.name: replace(r, added=0) for r in run.simulated("pp").routines}
    assert found == {name: wanted[name] for name in own}


@pytest.mark.parametrize(
    ("name", "words"),
    turns(["witness", "bits", "bytes", "block-trace"], WIDTHS, few=2),
    indirect=["words"],
)
def test_a_trace_is_read_back(words: Observed, name: str, tmp_path: Path) -> None:
    counters, made = run_instrumented(words, name, tmp_path), tmp_path / "made"
    raw = counters.with_name("simprof.out.trace").read_bytes()
    assert read_trace(load(counters), raw, made) is None
    result = regenerate(made, None, check=True)
    assert result.complete
    events = words.observation.events.values()
    assert result.result.crossings == sum(sum(routine.edges) for routine in events)
