"""Measuring only some routines: sums are those of the routines selected, in every command."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import main
from simprof.profiler.experiments.cells.cells import Cell, CellDocument, CellKind
from simprof.profiler.experiments.cells.settings import parse, selecting, setting
from simprof.profiler.experiments.cells.sweep import obtain
from simprof.profiler.experiments.suites.suite import Suite
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.results import TABLES, run_tables
from simprof.profiler.experiments.tables.spec import View
from simprof.profiler.request import library_sources
from simprof.profiler.request.request import GuestOptions, RunRequest, Selection
from simprof.profiler.schemes import registry
from simprof.profiler.session.session import run_program
from simprof.simulator.errors import UsageError

OWN = Selection(user_only=True, tolerant=True)
BENCHMARK = "faults"
MODES = list(registry.planned_modes())


@pytest.fixture(autouse=True)
def runtime_is_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the fixtures' own C library for one: they are compiled with debug information."""
    monkeypatch.setattr(library_sources, "LIBRARIES", ("runtime",))


@pytest.fixture(scope="module")
def suite() -> Suite:
    micro = load_suite("micro")
    return replace(micro, benchmarks=(micro.benchmark(BENCHMARK),))


def measured(suite: Suite, cells: Sequence[Cell]) -> list[CellDocument]:
    results = obtain(suite, cells, store=None, workers=0).cells
    made = [results[cell] for cell in cells]
    assert not any(result.error for result in made)
    return made


@pytest.mark.long
def test_rows_of_selected_routines_are_those_of_the_whole_run(suite: Suite) -> None:
    whole = [Cell(BENCHMARK, setting(mode)) for mode in MODES]
    own = [replace(cell, setting=selecting(cell.setting, OWN)) for cell in whole]
    results = measured(suite, [*whole, *own])
    for mode, every, some in zip(MODES, results[: len(MODES)], results[len(MODES) :], strict=True):
        names = {row.symbol for row in some.routines}
        assert "main" in names
        assert names < {row.symbol for row in every.routines}, mode
        kept = tuple(row for row in every.routines if row.symbol in names)
        assert some.routines == kept, mode
        assert some.base == every.base
        # flushing a trace belongs to no routine
        if registry.definition(mode).code().stream is None:
            assert some.added == sum(row.added for row in kept)
        for name in ("path_increments", "edge_increments", "jumps", "hashing"):
            assert some.counts[name] == sum(getattr(row, name) for row in kept), (mode, name)


@pytest.mark.long
def test_tables_of_selected_routines_are_sums_of_their_rows(suite: Suite) -> None:
    plan = Cell(BENCHMARK, setting("qpt2"), "", CellKind.PLAN)
    cells = [Cell(BENCHMARK, setting("pp")), plan]
    cells += [replace(cell, setting=selecting(cell.setting, OWN)) for cell in cells]
    _, _, pp, planned = measured(suite, cells)
    names = ("epp1", "epp2", "tpp4", "tpp-fig9")
    specs = [TABLES[name] for name in names]
    report = run_tables(suite, specs, View(selection=OWN), store=None, workers=0)
    assert "the programs' own routines only" in report.basis
    found = {}
    for table in report.tables:
        assert report.basis in table.caption
        (row,) = (row for row in table.rows if row.kind == "program")
        found[table.name] = dict(zip((each.key for each in table.columns), row.values, strict=True))
    rows = pp.routines
    counted = sum(row.path_increments + row.edge_increments for row in rows)
    assert found["epp1"]["path_increments"] == counted > 0
    assert found["epp1"]["pp"] == 100 * sum(row.added for row in rows) / pp.base
    assert found["epp2"]["potential"] == sum(row.potential_paths for row in rows)
    assert found["tpp-fig9"]["routines"] == len(rows)
    assert {row.symbol for row in rows} <= {row.symbol for row in planned.routines}


def test_trees_are_of_the_selected_routines(suite: Suite) -> None:
    """BL94 graph 4 shares its placements with graphs 1 to 3."""
    modes = {"redundant": "qpt", "heuristic-max": "qpt2"}
    cells = [Cell(BENCHMARK, selecting(setting(mode), OWN)) for mode in modes.values()]
    results = measured(suite, cells)
    for name, result in zip(modes, results, strict=True):
        assert results[1].part("trees")[name] == result.counts["edge_increments"]


def test_the_whole_program_is_what_it_was(suite: Suite) -> None:
    (result,) = measured(suite, [Cell(BENCHMARK, setting("pp"))])
    assert setting("pp", user_only=False, exclude="").name == "pp"
    assert {"main", "print_text"} & {row.symbol for row in result.routines}


def test_names_of_settings() -> None:
    chosen = selecting(setting("tpp", cold=1), Selection((), ("print*", "_start"), True))
    assert chosen.name == "tpp:user-only:cold=1:exclude=print*|_start"
    assert parse(chosen.name) == chosen
    assert chosen.selection == Selection((), ("print*", "_start"), True, tolerant=True)
    assert selecting(setting("pp"), Selection()) == setting("pp")
    with pytest.raises(UsageError, match=r"--exclude 'a\|b' has a \|: use \? for it"):
        selecting(setting("pp"), Selection(exclude=("a|b",)))


def test_one_run_adds_up(fixture_elf: Callable[..., Path], tmp_path: Path) -> None:
    request = RunRequest(fixture_elf("loops"), GuestOptions(tmp_path, stdin=Path("/dev/null")))
    every = run_program(request)
    some = run_program(replace(request, selection=Selection(exclude=("main",), user_only=True)))
    names = {routine.name for routine in some.routines}
    assert "main" not in names and names < {routine.name for routine in every.routines}
    assert some.added == sum(r.added for r in every.routines if r.name in names)
    assert some.options["user_only"] is True and tuple(some.options["exclude"]) == ("main",)  # type: ignore[arg-type]


def simprof(*words: object) -> int:
    """Run a command; return its exit status."""
    with pytest.raises(SystemExit) as caught:
        main(list(map(str, words)))
    return int(str(caught.value.code or 0))


def json_of(
    capfd: pytest.CaptureFixture[str], *words: object, status: int = 0
) -> dict[str, object]:
    capfd.readouterr()
    assert simprof(*words) == status
    found: dict[str, object] = json.loads(capfd.readouterr().out)
    return found


@pytest.mark.long
def test_json_says_the_selection(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = fixture_elf("loops")
    selecting_options = ("--user-only", "--exclude", "main", "--json", "-")
    run = json_of(capfd, "run", *selecting_options, program)
    assert run["options"]["user_only"] is True  # type: ignore[index]
    assert run["options"]["exclude"] == ["main"]  # type: ignore[index]
    assert "main" not in {each["symbol"] for each in run["routines"]}  # type: ignore[attr-defined]
    table = json_of(
        capfd, "table", "epp1", "--benchmark", BENCHMARK, "--user-only", "--exclude", "x*",
        "--results", tmp_path / "kept.db", "--json",
    )  # fmt: skip
    assert (table["user_only"], table["exclude"]) == (True, ["x*"])
    assert "the programs' own routines only, without routines x*" in str(table["tables"])


@pytest.mark.long
def test_every_measuring_command_has_the_options(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = fixture_elf("loops")
    own = ("--user-only", "--exclude", "main")
    compared = json_of(capfd, "compare", *own, "--mode", "pp,qpt2", "--json", "-", program)
    for each in compared["modes"].values():  # type: ignore[attr-defined]
        assert "main" not in {routine["symbol"] for routine in each["routines"]}
    baseline = tmp_path / "b.baseline"
    assert simprof("regress", "record", "--mode", "pp", *own, "-o", baseline, program) == 0
    text = baseline.read_text()
    assert '"exclude", ["main"]' in text and '"user_only", true' in text
    assert simprof("regress", "check", baseline) == 0
    swept = tmp_path / "s.db"
    sweep: list[object] = ["sweep", program, "--mode", "pp", *own, "-o", swept]
    assert simprof(*sweep) == 0
    table = json_of(capfd, "table", "overheads", "--from", swept, "--json")
    assert "the programs' own routines only, without routines main" in str(table), "the file's own"
    assert simprof("sweep", "x.toml", "--user-only", "-o", swept) == 125
    assert "--user-only with x.toml" in capfd.readouterr().err
    suite = ["suite", "run", "micro", "--benchmark", BENCHMARK, "--mode", "pp", "--user-only"]
    assert simprof(*suite) == 0
    assert "pp:user-only" in capfd.readouterr().out


@pytest.mark.parametrize("words", [("--user-only",), ("--exclude", "main")])
def test_a_trace_is_of_all_routines(
    fixture_elf: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    program, trace = fixture_elf("loops"), tmp_path / "t.trace"
    run: list[object] = ["run", "--mode", "bits", "--trace", trace, *words, program]
    assert simprof(*run) == 125
    assert "--trace needs all routines" in capfd.readouterr().err
