"""Cells measured by a recording: `simprof sweep --replay`, `simprof table --replay`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import CellKind, Job, Keys
from simprof.profiler.experiments.cells.recordings import replayed
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import Grid, GridProgram, make_order, sweep
from simprof.profiler.experiments.cells.workers import run_here
from tests.conftest import FIXTURES

Find = Callable[..., Path]
FAILED = 125
SETS: tuple[dict[str, object], ...] = ({}, {"table": "hash"}, {"path_limit": 10})
WEIGHTS = ("heuristic", "exact")


def rows_of(path: Path) -> tuple[tuple[object, ...], ...]:
    with Store(path, create=False) as store:
        return store.rows()


@pytest.fixture(scope="module")
def recorded(fixture_elf: Find, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a program as cells run it."""
    path = tmp_path_factory.mktemp("one") / "control.run"
    record(fixture_elf("control"), path)
    return path


def record(elf: Path, path: Path, *options: str, name: str = "control") -> None:
    words = ["record", str(elf), "--exe", f"/{name}", "--stdin", os.devnull, "-o", str(path)]
    assert run([*words, *options]) == 0


def sweep_words(elf: Path, path: Path, results: Path, *more: str) -> list[str]:
    words = ["sweep", str(elf), "--mode", "pp,edges", "--jobs", "1"]
    return [*words, "--replay", str(path), "-o", str(results), *more]


@pytest.mark.long
def test_rows_are_those_of_the_run(fixture_elf: Find, recorded: Path, tmp_path: Path) -> None:
    """Every number of every cell of all modes, with hash tables and under measured weights."""
    programs = (GridProgram(fixture_elf("control"), "control"),)
    order = make_order(Grid(programs=programs, options=SETS, weights=WEIGHTS))
    assert sweep(order, tmp_path / "a.db", run_here).failures == ()
    assert sweep(order, tmp_path / "b.db", run_here, replay=recorded).failures == ()
    assert rows_of(tmp_path / "a.db") == rows_of(tmp_path / "b.db")


@pytest.mark.long
def test_one_recording_stands_for_one_program(
    fixture_elf: Find, recorded: Path, tmp_path: Path
) -> None:
    elf = fixture_elf("control")
    assert run(sweep_words(elf, recorded, tmp_path / "a.db")) == 0
    plain = make_order(Grid(programs=(GridProgram(elf, "control"),), modes=("pp", "edges")))
    sweep(plain, tmp_path / "b.db", run_here)
    assert rows_of(tmp_path / "a.db") == rows_of(tmp_path / "b.db")


def test_what_no_recording_stands_for(fixture_elf: Find, recorded: Path) -> None:
    """Plans, and instrumented programs."""
    order = make_order(Grid(programs=(GridProgram(fixture_elf("control"), "control"),)))
    job = order.jobs[0]
    given = replayed(recorded, {job: Keys().key(job)})
    assert given(job).replay == recorded

    def of_kind(kind: CellKind) -> Job:
        return replace(job, cell=replace(job.cell, kind=kind))

    assert {given(of_kind(kind)).replay for kind in set(CellKind) - {CellKind.RUN}} == {None}


@pytest.mark.parametrize(
    ("options", "name", "says"),
    [
        ((), "other", "as /other: record it with --exe /control"),
        (("--argv0", "me"), "control", "under the name me: record it with --argv0 control"),
        (("--env", "A=B"), "control", "with other variables"),
        (("--stdin", str(FIXTURES / "src" / "control.c")), "control", "with --stdin /dev/null"),
        (("--stack-size", "16M"), "control", "with other limits"),
        pytest.param(("--max-instructions", "1000000000"), "control", "", marks=pytest.mark.long),
        (("--", "1"), "control", "with other arguments"),
    ],
)
def test_another_run_is_refused(
    options: tuple[str, ...],
    name: str,
    says: str,
    fixture_elf: Find,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In one line that says what to do, before anything is measured."""
    elf, path = fixture_elf("control"), tmp_path / "run"
    record(elf, path, *options, name=name)
    capfd.readouterr()
    status = run(sweep_words(elf, path, tmp_path / "a.db"))
    shown = capfd.readouterr().err
    assert status == (FAILED if says else 0)
    assert says in shown
    assert shown.count("\n") == (1 if says else 0)


def test_what_cannot_be(
    fixture_elf: Find, recorded: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Several programs, another one, a cut file, no recording, a directory, a cluster."""
    control, results = fixture_elf("control"), tmp_path / "a.db"
    cut = tmp_path / "cut"
    cut.write_bytes(recorded.read_bytes()[:-9])
    more = (str(fixture_elf("switches")),)
    for words, says in (
        (sweep_words(control, recorded, results, *more), "of one run, and these cells are of"),
        (sweep_words(fixture_elf("switches"), recorded, results), "of another program than"),
        (sweep_words(control, cut, results), "record it again"),
        (sweep_words(control, tmp_path, results), "cannot be read"),
        (sweep_words(control, control, results), "is not a simprof recording"),
        (sweep_words(control, recorded, results, "--scheduler", "tcp://x"), "--scheduler"),
        (["table", "epp1", "--replay", str(recorded), "--from", str(results)], "--from"),
    ):
        capfd.readouterr()
        assert run(words) == FAILED
        shown = capfd.readouterr().err
        assert says in shown and shown.count("\n") == 1
