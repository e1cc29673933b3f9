"""What instrumented programs execute: cells, columns beside predictions, tables, the command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells.cells import (
    ALONE_INSTRUCTIONS,
    ALONE_ROUTINES,
    PREDICTED,
    REWRITING,
    Cell,
    CellDocument,
    CellKind,
    Job,
    Keys,
    failure,
)
from simprof.profiler.experiments.cells.executed import CAUSES, way
from simprof.profiler.experiments.cells.run import groups, run_group
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import (
    Grid,
    GridProgram,
    local_runner,
    make_order,
    obtain,
    sweep,
)
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.results import TABLES, run_tables, stored_tables, tables
from simprof.profiler.experiments.tables.spec import SuiteMember, TableSpec, View, make
from simprof.profiler.experiments.tables.table import ReportTable, TableRow
from simprof.profiler.rewriting import modes, qemu
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.verification import predicted_rewriting
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.report_tables import document_of

PROGRAM = FIXTURES / "bin/v9/switches.elf"
VIEW = View(executed=("p",))
STANDS_FOR = {
    **dict.fromkeys(("epp1", "tpp2", "cs6120"), "099.go (SPEC95)"),
    "tpp3": "164.gzip (SPEC2000)",
}


def predicted(added: int, base: int = 1000) -> CellDocument:
    counts = dict.fromkeys(("hashed_increments", "hashing"), 0)
    counts |= {"path_increments": 5, "edge_increments": 5}
    return document_of(base=base, added=added, counts=counts)


def ran(
    added: int, *, base: int = 1000, of: int | None = None, alone: int = 0, **more: Any
) -> CellDocument:
    """A run of an instrumented program, of whose code `of` instructions were predicted."""
    counts = {PREDICTED: added if of is None else of, ALONE_ROUTINES: alone}
    return document_of(base, added, counts=counts, **more)


def table_of(
    name: str,
    results: Mapping[str, CellDocument],
    runs: Mapping[str, CellDocument],
    view: View = VIEW,
) -> ReportTable:
    """A table of the program p, from its results by need."""
    spec, program = TABLES[name], SuiteMember("p", "INT", "099.go (SPEC95)")
    cells = {view.cell(need, "p"): results[key] for key, need in spec.needs.items()}
    needs = spec.executed(program, view)
    cells |= {view.cell(needs[key], "p"): result for key, result in runs.items()}
    return make(spec, [program], cells, view)


def row_of(table: ReportTable, name: str = "p") -> tuple[TableRow, dict[str, Any]]:
    row = next(row for row in table.rows if row.values[0] == name)
    return row, dict(zip((each.key for each in table.columns), row.values, strict=True))


# --- columns


def shown_predictions(spec: TableSpec) -> list[str]:
    """The needs whose predictions a table shows."""
    return [column.predicts for column in spec.columns if column.predicts]


def test_tables_of_overheads_say_which_columns_are_predictions() -> None:
    found = {name for name, spec in tables().items() if shown_predictions(spec)}
    assert found == set(STANDS_FOR)
    for name in found:
        spec = TABLES[name]
        assert shown_predictions(spec) == list(spec.needs)
        kinds = [
            cell.kind for cell in spec.cells([SuiteMember("p", "INT", STANDS_FOR[name])], VIEW)
        ]
        assert kinds == [CellKind.RUN] * len(spec.needs) + [CellKind.EXECUTE] * len(spec.needs)
        assert CellKind.EXECUTE not in {cell.kind for cell in spec.cells([SuiteMember("q")], VIEW)}


def test_what_was_executed_is_beside_what_was_predicted_and_before_the_papers() -> None:
    table = table_of(
        "epp1",
        {"pp": predicted(500), "qpt2": predicted(250)},
        {"pp": ran(500), "qpt2": ran(200, alone=1)},
    )
    keys = [column.key for column in table.columns]
    assert keys[2:8] == [
        *("pp", "pp:executed", "pp:paper"),
        *("qpt2", "qpt2:executed", "qpt2:paper"),
    ]
    assert keys[-1] == "off"
    row, values = row_of(table)
    assert (values["pp"], values["pp:executed"], values["pp:paper"]) == (50.0, 50.0, 53.4)
    assert (values["qpt2"], values["qpt2:executed"]) == (25.0, 20.0)  # a routine was left alone
    assert (values["off"], row.error, table.failures) == (0, None, ())
    assert "Off: by how many instructions" in table.caption


def test_the_unit_is_the_columns_own() -> None:
    names = {"calls": 3000, "calls_optimal": 2000, "calls_maximum": 1000, "naive": 500}
    table = table_of(
        "cs6120",
        {name: predicted(added) for name, added in names.items()},
        {name: ran(added) for name, added in names.items()},
    )
    _, values = row_of(table)
    assert [values[f"{name}:executed"] for name in names] == [4.0, 3.0, 2.0, 1.5]


def test_a_difference_is_an_error_that_keeps_its_numbers() -> None:
    wrong = ran(497, of=500, differences=("qemu: 1 instruction less", "qemu: other counters"))
    table = table_of(
        "epp1", {"pp": predicted(500), "qpt2": predicted(250)}, {"pp": wrong, "qpt2": ran(250)}
    )
    row, values = row_of(table)
    assert (row.kind, values["pp"], values["pp:executed"], values["off"]) == (
        *("program", 50.0, 49.7, 3),
    )
    says = "executed under pp: qemu: 1 instruction less; executed under pp: qemu: other counters"
    assert table.failures == (("p", says),)


@pytest.mark.parametrize(
    ("run_of_pp", "says"),
    [
        (ran(489), "executed under pp: predicted were 489 instructions there, not 500"),
        (ran(500, base=998), "executed under pp: base is 998 instructions there, not 1,000"),
        (failure("no room"), "executed under pp: no room"),
    ],
)
def test_another_run_than_the_predicted_one_is_an_error(run_of_pp: CellDocument, says: str) -> None:
    table = table_of(
        "epp1", {"pp": predicted(500), "qpt2": predicted(250)}, {"pp": run_of_pp, "qpt2": ran(250)}
    )
    assert table.failures == (("p", says),)
    row, values = row_of(table)
    assert (row.kind, values["pp"], values["qpt2:executed"]) == ("program", 50.0, 25.0)
    assert (values["pp:executed"] is None) == run_of_pp.failed


def test_graphs_that_know_more_targets_of_jumps_may_have_other_predictions() -> None:
    table = table_of(
        "epp1", {"pp": predicted(500), "qpt2": predicted(250)}, {"pp": ran(490), "qpt2": ran(250)}
    )
    assert table.failures == ()
    _, values = row_of(table)
    assert (values["pp"], values["pp:executed"]) == (50.0, 49.0)


def test_a_file_in_another_place_may_make_a_run_a_little_longer() -> None:
    table = table_of(
        "epp1",
        {"pp": predicted(500), "qpt2": predicted(250)},
        {"pp": ran(501, base=1001), "qpt2": ran(200, alone=1)},
    )
    assert table.failures == ()


def test_programs_that_are_not_run_have_no_numbers_there() -> None:
    spec, programs = (
        TABLES["epp1"],
        [SuiteMember("p", "INT"), SuiteMember("q", "INT"), SuiteMember("r")],
    )
    results = {
        cell: predicted(500) if cell.kind is CellKind.RUN else ran(500)
        for cell in spec.cells(programs, VIEW)
        if cell.benchmark != "r"
    }
    table = make(spec, programs, results, VIEW)
    assert [name for name, _ in table.failures] == ["r"]
    _, values = row_of(table, "q")
    assert (values["pp"], values["pp:executed"], values["off"]) == (50.0, None, None)
    assert all(len(row.values) == len(table.columns) for row in table.rows)
    _, values = row_of(table, "INT average")
    assert (values["pp"], values["pp:executed"], values["off"]) == (
        50.0,
        None,
        None,
    )  # not of the same programs


def test_without_runs_there_are_no_columns() -> None:
    results = {"pp": predicted(500), "qpt2": predicted(250)}
    for view in (View(), VIEW):
        table = table_of("epp1", results, {}, view)
        assert "off" not in {column.key for column in table.columns}
        assert "Executed" not in table.caption and not table.failures


# --- cells


def job(mode: str = "pp", kind: CellKind = CellKind.EXECUTE, **more: Any) -> Job:
    return Job(Cell("switches", setting(mode), kind=kind, build="file"), PROGRAM, **more)


@pytest.mark.long
def test_a_cell_executes_what_another_predicts() -> None:
    modes = ("pp", "qpt2", "tpp")
    jobs = [job(mode, kind) for kind in (CellKind.RUN, CellKind.EXECUTE) for mode in modes]
    parts = groups(jobs)
    assert [len(part) for part in parts] == [3, 3]
    foretold, found = (run_group(part) for part in parts)
    for plain, real in zip(foretold, found, strict=True):
        assert real.error is None and real.document["differences"] == []
        assert (real.base, real.added) == (plain.base, plain.added)
        assert real.counts[PREDICTED] == plain.added
        assert real.counts[REWRITING] == sum(real.counts[name] for name in CAUSES) > 0
        assert (real.counts[ALONE_ROUTINES], real.counts[ALONE_INSTRUCTIONS]) == (0, 0)
        assert "differences" not in plain.document


@pytest.mark.long
def test_other_weights_and_selections_are_executed_too() -> None:
    chosen = (
        setting("qpt2", weights="exact"),
        setting("calls-optimal", weights="uniform"),
        setting("pp", path_limit=4),
        setting("pp", exclude="main"),
    )
    for each in chosen:
        kinds = [
            replace(job(), cell=Cell("c", each, kind=kind))
            for kind in (CellKind.RUN, CellKind.EXECUTE)
        ]
        ((plain,), (real,)) = (run_group((one,)) for one in kinds)
        assert real.error is None and real.document["differences"] == []
        assert (real.base, real.added) == (plain.base, plain.added)


def test_an_instruction_too_many_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_less(*arguments: Any) -> Any:
        found = predicted_rewriting(*arguments)
        found[Cause.START] -= 1
        return found

    monkeypatch.setattr(modes, "predicted_rewriting", one_less)
    (result,) = run_group((job(),))
    assert result.error is None and result.added == result.counts[PREDICTED] + 1
    (line,) = result.document["differences"]
    assert line.endswith("+1")


def test_what_cannot_be_executed_is_an_error() -> None:
    (result,) = run_group((job("edges"),))
    assert result.error == "edges instruments nothing: there is no code to execute"
    (timed,) = run_group((job("edges", CellKind.TIME),))
    assert timed.error == result.error


def test_programs_run_where_their_instructions_can_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qemu, "missing", lambda machine: None)
    monkeypatch.setattr(qemu, "uncounted", lambda machine: None)
    assert way(MachineKind.SPARCV9) == "qemu"
    monkeypatch.setattr(qemu, "uncounted", lambda machine: "no compiler")
    assert way(MachineKind.SPARCV9) == "emulator"
    monkeypatch.setattr(qemu, "missing", lambda machine: "no qemu")
    assert way(MachineKind.SPARCV9) == "emulator"
    (result,) = run_group((job(),))
    assert result.error is None and result.document["differences"] == []


@pytest.mark.long
@pytest.mark.skipif(
    qemu.missing(MachineKind.SPARCV9) is not None, reason="qemu-user is not installed"
)
def test_times_of_three_runs() -> None:
    for mode in ("pp", "tpp"):
        (result,) = run_group((job(mode, CellKind.TIME),))
        spent = result.timing
        assert result.error is None and result.base > 0
        names = ("original", "instrumented", "simulated")
        assert all((spent[name] or 0) > 0 for name in names)
    assert [
        len(part) for part in groups([job("pp", CellKind.TIME), job("qpt2", CellKind.TIME)])
    ] == [1, 1]


def test_without_qemu_only_the_simulation_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "missing", lambda machine: "no qemu")
    (result,) = run_group((job(kind=CellKind.TIME),))
    assert result.error is None and (result.timing["simulated"] or 0) > 0
    assert (result.timing["original"], result.timing["instrumented"]) == (None, None)


def test_a_change_of_rewriting_makes_runs_of_instrumented_programs_anew() -> None:
    keys = {
        kind: Keys().key(job(kind=kind)) for kind in (CellKind.RUN, CellKind.EXECUTE, CellKind.TIME)
    }
    assert keys[CellKind.RUN].rewriting == "" != keys[CellKind.EXECUTE].rewriting
    assert keys[CellKind.TIME].rewriting == keys[CellKind.EXECUTE].rewriting
    assert len({key.engine for key in keys.values()}) == 1


# --- suites and files


def test_suites_say_what_is_executed(tmp_path: Path) -> None:
    for name in ("micro", "wcet"):
        assert load_suite(name).executed == ("*",)
    real = load_suite("spec-like")
    assert len(real.executed) >= 6
    assert set(real.executed) <= {benchmark.name for benchmark in real.benchmarks}
    wrong = tmp_path / "wrong.toml"
    lines = (FIXTURES / "suites/micro.toml").read_text().split("[[benchmark]]")
    one = "[[benchmark]]".join(lines[:2])
    assert 'name = "sieve"' in one
    wrong.write_text(one.replace('"*"', '"zz*"').replace('"../bin', f'"{FIXTURES / "bin"}'))
    with pytest.raises(UsageError, match=r"executed: no benchmark matches 'zz\*'"):
        load_suite(str(wrong))


@pytest.mark.long
def test_a_sweeps_file_has_the_columns_of_what_it_executed(tmp_path: Path) -> None:
    path = tmp_path / "sweep.db"
    program = GridProgram(PROGRAM, "switches")
    grid = Grid(programs=(program,), modes=("pp", "qpt2"), kinds=(CellKind.RUN, CellKind.EXECUTE))
    assert sweep(make_order(grid), path, local_runner(0)).failures == ()
    specs = [tables()[name] for name in ("epp1", "cs6120", "rewriting")]
    report = stored_tables(path, None, specs, View(), partial=True)
    assert [table.name for table in report.tables] == ["epp1", "rewriting"]
    epp1, costs = report.tables
    _, values = row_of(epp1, "switches")
    assert (values["pp:executed"], values["off"]) == (values["pp"], 0)
    assert row_of(costs, "switches")[1]["pp"] == values["pp"]
    assert report.failures == ()


@pytest.mark.long
def test_cells_of_a_suite_are_run_once(tmp_path: Path) -> None:
    micro = load_suite("micro")
    few = replace(micro, benchmarks=(micro.benchmark("switches"), micro.benchmark("faults")))
    cells = [Cell(name, setting("pp"), kind=CellKind.EXECUTE) for name in ("switches", "faults")]
    with Store(tmp_path / "results.db") as store:
        first = obtain(few, cells, store=store, workers=0).cells
        assert obtain(few, cells, store=store, workers=0).cells == first
        assert len(store.rows()) == 2


@pytest.mark.long
def test_tables_of_instrumented_programs_have_those_that_are_run() -> None:
    micro = load_suite("micro")
    few = replace(micro, benchmarks=(micro.benchmark("switches"), micro.benchmark("faults")))
    specs = [tables()["rewriting"]]
    report = run_tables(few, specs, View(), workers=0, executed=["switches"])
    assert [row.values[0] for row in report.tables[0].rows] == ["switches"]
    _, values = row_of(report.tables[0], "switches")
    parts = sum(values[cause.value] for cause in Cause)
    assert parts == pytest.approx(values["rewriting"]) and parts > 0
    report = run_tables(few, specs, View(), workers=0, executed=())
    assert [row.values[0] for row in report.tables[0].rows][:2] == ["switches", "faults"]
    with pytest.raises(UsageError, match="--executed 'zz' matches no benchmark"):
        run_tables(few, specs, View(), workers=0, executed=["zz"])


# --- the command


def simprof(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = run(["table", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.long
def test_micro_is_executed_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("epp1", "--suite", "micro", "--benchmark", "faults", "--benchmark", "switches")
    kept = ("--results", tmp_path / "kept.db", "--jobs", "1")

    def executed(*more: str) -> dict[str, str | None]:
        status, out, err = simprof(capsys, *words, *more, *kept, "--csv")
        assert (status, err) == (0, "")
        rows = [row for row in csv.DictReader(io.StringIO(out)) if row["kind"] == "program"]
        for row in rows:
            assert row.get("off") in (None, "", "0")
            assert row.get("pp:executed") in (None, "", row["pp"])
        return {row["program"]: row.get("pp:executed") for row in rows}

    assert all(float(number or 0) > 0 for number in executed().values())
    assert executed("--predicted") == {"switches": None, "faults": None}
    some = executed("--executed", "swi*")
    assert (float(some["switches"] or 0) > 0, some["faults"]) == (True, "")
    status, out, _ = simprof(capsys, *words, "--executed", "swi*", *kept, "--markdown")
    assert status == 0
    assert "--benchmark faults --benchmark switches --executed 'swi*' --markdown`" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--executed", "zz*"], "--executed 'zz*' matches no benchmark"),
        (["--executed", "switches", "--predicted"], "--predicted with --executed"),
        (["--from", "x.db", "--predicted"], "with --from: with --from nothing is run"),
    ],
)
def test_wrong_uses_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    status, out, err = simprof(capsys, "epp1", *arguments)
    assert (status, out, len(err.splitlines())) == (125, "", 1)
    assert says in err


@pytest.mark.long
def test_a_difference_is_seen_in_every_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_less(*arguments: Any) -> Any:
        found = predicted_rewriting(*arguments)
        found[Cause.START] -= 1
        return found

    monkeypatch.setattr(modes, "predicted_rewriting", one_less)
    path = tmp_path / "sweep.db"
    program = GridProgram(PROGRAM, "switches")
    grid = Grid(programs=(program,), modes=("pp", "qpt2"), kinds=(CellKind.RUN, CellKind.EXECUTE))
    sweep(make_order(grid), path, local_runner(0))
    for form in ("--json", "--csv", "--markdown", "--html", None):
        status, out, err = simprof(capsys, "epp1", "--from", path, *([form] if form else []))
        assert status == 1 and "instructions were executed, +1" in " ".join(out.split())
        assert err.startswith("simprof: switches: executed under pp: ")
        if form == "--json":
            (row,) = (r for r in json.loads(out)["tables"][0]["rows"] if r["kind"] == "program")
            assert row["values"]["off"] == 2 and "+1" in row["error"]
