"""Cells measured by recordings: `simprof sweep --replay` and `simprof table --replay`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import CellKind, Job
from simprof.profiler.experiments.cells.provenance import Keys, Replays, stages
from simprof.profiler.experiments.cells.run import JobGroup, groups
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import Grid, GridProgram, JobOrder, make_order, sweep
from simprof.profiler.experiments.cells.workers import Finished, run_here
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.schemes.registry import definition, planned_modes
from simprof.profiler.trace.recording_format import Recording
from simprof.simulator.machine.machine import Machine
from tests.conftest import FIXTURES

Find = Callable[..., Path]
FAILED = 125
PROGRAMS = ("control", "switches")
SETS: tuple[dict[str, object], ...] = ({}, {"table": "hash"}, {"path_limit": 10})
WEIGHTS = ("heuristic", "exact")
MODES = tuple(mode for mode in planned_modes() if not definition(mode).depends_on_order)


def no_machine(*_: object, **__: object) -> None:
    """Stands where programs are run."""
    raise AssertionError("a program is emulated")


def rows_of(path: Path) -> tuple[tuple[object, ...], ...]:
    with Store(path, create=False) as store:
        return store.rows()


@pytest.fixture(scope="module")
def order(fixture_elf: Find) -> JobOrder:
    """Cells of two programs, with hash tables and truncated routines, under measured weights.

    Of all modes but those that recordings cannot have: their cells are run.
    """
    programs = tuple(GridProgram(fixture_elf(name), name) for name in PROGRAMS)
    return make_order(Grid(programs=programs, modes=MODES, options=SETS, weights=WEIGHTS))


@pytest.fixture(scope="module")
def plain(order: JobOrder, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The rows of a sweep whose programs are run."""
    path = tmp_path_factory.mktemp("plain") / "sweep.db"
    assert sweep(order, path, run_here).failures == ()
    return rows_of(path)


@pytest.fixture(scope="module")
def recordings(
    order: JobOrder, plain: tuple[object, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A directory that a sweep has made, with the same rows."""
    path = tmp_path_factory.mktemp("recorded")
    assert sweep(order, path / "sweep.db", run_here, replay=path / "runs").failures == ()
    assert rows_of(path / "sweep.db") == plain
    return path / "runs"


@pytest.mark.long
def test_each_program_is_recorded_once(order: JobOrder, recordings: Path) -> None:
    """One file for each, whatever is measured, and nothing else."""
    names = sorted(path.name.split("-")[0] for path in recordings.iterdir())
    assert names == sorted(PROGRAMS)
    assert len(groups(order.jobs)) > len(names)


@pytest.mark.long
def test_recorded_cells_emulate_nothing(
    order: JobOrder,
    plain: tuple[object, ...],
    recordings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every number of every cell of all modes is that of the run, what it wrote included."""
    monkeypatch.setattr(Machine, "run", no_machine)
    modes = {job.cell.setting.mode for job in order.jobs}
    assert modes == set(MODES)
    assert sweep(order, tmp_path / "sweep.db", run_here, replay=recordings).failures == ()
    assert rows_of(tmp_path / "sweep.db") == plain


@pytest.mark.long
def test_cut_recordings_of_a_directory_are_made_again(
    order: JobOrder, plain: tuple[object, ...], recordings: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for path in recordings.iterdir():
        (runs / path.name).write_bytes(path.read_bytes()[:-20])
    assert sweep(order, tmp_path / "sweep.db", run_here, replay=runs).failures == ()
    assert rows_of(tmp_path / "sweep.db") == plain
    assert {path.name for path in runs.iterdir()} == {path.name for path in recordings.iterdir()}
    assert all(Recording(path).end is not None for path in runs.iterdir())


def test_what_no_recording_stands_for(order: JobOrder, tmp_path: Path) -> None:
    """Plans, instrumented programs, and programs whose files are looked at (gcc's counters)."""
    key, job = Keys().key(order.jobs[0]), order.jobs[0]
    replays = Replays(tmp_path, is_directory=True)
    assert replays.of(job, key).replay is not None
    for kind in set(CellKind) - {CellKind.RUN}:
        other = replace(job, cell=replace(job.cell, kind=kind))
        assert replays.of(other, key).replay is None
    assert replays.of(replace(job, writable=True), key).replay is None


def test_groups_that_record_come_first(order: JobOrder, tmp_path: Path) -> None:
    """One group a recording that is not there; the others find it made."""
    paths = {name: tmp_path / name for name in PROGRAMS}
    paths["control"].touch()
    jobs = [
        Job(job.cell, job.program, replay=paths[job.cell.benchmark], records=True)
        for job in order.jobs
    ]
    making, others = stages(groups(jobs))
    assert [group[0].cell.benchmark for group in making] == ["switches"]
    assert sorted(making + others, key=str) == sorted(groups(jobs), key=str)
    plain = groups(order.jobs)
    assert stages(plain) == [list(plain)]


# --- one recording, as `simprof record` makes it


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
def test_one_recording_stands_for_one_program(
    fixture_elf: Find, recorded: Path, tmp_path: Path
) -> None:
    elf = fixture_elf("control")
    assert run(sweep_words(elf, recorded, tmp_path / "a.db")) == 0
    plain = make_order(Grid(programs=(GridProgram(elf, "control"),), modes=("pp", "edges")))
    sweep(plain, tmp_path / "b.db", run_here)
    assert rows_of(tmp_path / "a.db") == rows_of(tmp_path / "b.db")


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
    """Several programs, another one, a cut file, a directory that cannot be made, a cluster."""
    control, results = fixture_elf("control"), tmp_path / "a.db"
    cut = tmp_path / "cut"
    cut.write_bytes(recorded.read_bytes()[:-9])
    more = (str(fixture_elf("switches")),)
    for words, says in (
        (sweep_words(control, recorded, results, *more), "of one run, and these cells are of"),
        (sweep_words(fixture_elf("switches"), recorded, results), "of another program than"),
        (sweep_words(control, cut, results), "record it again"),
        (sweep_words(control, tmp_path / "a" / "b", results), "no directory can be made"),
        (sweep_words(control, control, results), "is not a simprof recording"),
        (sweep_words(control, recorded, results, "--scheduler", "tcp://x"), "--scheduler"),
        (["table", "epp1", "--replay", str(recorded), "--from", str(results)], "--from"),
    ):
        capfd.readouterr()
        assert run(words) == FAILED
        shown = capfd.readouterr().err
        assert says in shown and shown.count("\n") == 1


def test_a_given_recording_is_never_written(
    fixture_elf: Find, recorded: Path, tmp_path: Path
) -> None:
    """One that is cut when its turn comes is the error of its cells."""
    order = make_order(Grid(programs=(GridProgram(fixture_elf("control"), "control"),)))
    path = tmp_path / "run"
    path.write_bytes(recorded.read_bytes())

    def cutting(work: Sequence[JobGroup]) -> Iterator[Finished]:
        path.write_bytes(recorded.read_bytes()[:-9])
        return run_here(work)

    outcome = sweep(order, tmp_path / "a.db", cutting, replay=path)
    assert len(outcome.failures) == len(order.jobs)
    assert all("record it again" in error for _, error in outcome.failures)
    assert path.stat().st_size == recorded.stat().st_size - 9


# --- suites


@pytest.mark.long
def test_tables_of_a_suite_from_recordings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tables are the same, and inputs are kept apart."""
    words = ["table", "epp1", "epp3", "--benchmark", "s*es", "--predicted", "--json"]
    replay = ["--replay", str(tmp_path / "runs")]
    made = []
    for name, more in (("a", ()), ("b", replay)):
        capfd.readouterr()
        assert run([*words, "--jobs", "1", "--results", str(tmp_path / name), *more]) == 0
        made.append(json.loads(capfd.readouterr().out))
    assert made[0] == made[1]
    names = sorted(path.name.rpartition("-")[0] for path in (tmp_path / "runs").iterdir())
    assert names == ["switches-v9-O2-ref", "switches-v9-O2-train"]
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")


@pytest.mark.long
def test_suite_from_recordings(tmp_path: Path) -> None:
    """Every third program of a suite under all modes, with arrays and with hash tables."""
    names = tuple(each.name for each in load_suite("micro").benchmarks[::3])
    grid = Grid("micro", benchmarks=names, inputs=("train",), options=({}, {"table": "hash"}))
    order = make_order(grid)
    for name, replay in (("a", None), ("b", tmp_path / "runs"), ("c", tmp_path / "runs")):
        assert sweep(order, tmp_path / name, run_here, replay=replay).failures == ()
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b") == rows_of(tmp_path / "c")
