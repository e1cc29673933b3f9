"""gcc's own edge counters: builds with them, the files that programs write, the table."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    COMPILER_INCREMENTS,
    Cell,
    CellDocument,
    CellKind,
    RoutineFigures,
)
from simprof.profiler.experiments.cells.executed import arc_counts, arc_increments
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.cells.sweep import obtain
from simprof.profiler.experiments.suites.builder import build_suite, flags_of
from simprof.profiler.experiments.suites.suite import (
    BUILDS,
    CounterBuild,
    Suite,
    Width,
    build_name,
    parse_build,
)
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.others import BEFORE_AND_AFTER, GCOV_ARCS
from simprof.profiler.experiments.tables.results import TABLES, tables
from simprof.profiler.experiments.tables.spec import SuiteMember, View, make
from simprof.profiler.experiments.tables.table import ReportTable
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import Selection
from simprof.simulator.errors import UsageError
from tests.support.report_tables import document_of, routine

ARCS = (CounterBuild.NONE, CounterBuild.ARCS)
SUITE = """\
title = "one program"
[[benchmark]]
name = "one"
group = "INT"
why = "a test"
sources = ["one.c"]
[benchmark.inputs.train]
arguments = ["1"]
[benchmark.inputs.ref]
arguments = ["20"]
"""
SOURCE = """\
#include <stdlib.h>
static int __attribute__((noinline)) next(int n)
{
    if (n & 1)
        return rand() < 0;
    return n;
}
int main(int argc, char **argv)
{
    int sum = 0, turns = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < turns; i++)
        sum += next(i);
    return sum < 0;
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    for name, text in (("one.c", SOURCE), ("own.toml", SUITE)):
        (tmp_path / name).write_text(text)
    return load_suite(str(tmp_path / "own.toml"))


# --- builds


@pytest.mark.parametrize("width", BUILDS)
@pytest.mark.parametrize("counters", CounterBuild)
def test_a_build_is_known_by_its_name(width: Width, counters: CounterBuild) -> None:
    assert parse_build(build_name(width, counters)) == (width, counters)
    assert build_name(width) == BUILDS[width]


def test_unknown_builds_name_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        parse_build("v9-O3")
    assert str(caught.value) == (
        "unknown build 'v9-O3': choose from v9-O2, v8plus-O2, v9-O2-arcs, v8plus-O2-arcs"
    )


def test_counters_are_the_only_difference_of_flags(suite: Suite) -> None:
    recipe = suite.benchmarks[0].recipe
    plain, counted = (flags_of(recipe, 64, each) for each in ARCS)
    assert [flag for flag in counted if flag not in plain] == [
        "-fprofile-arcs",
        "-fprofile-dir=.",
        "-frandom-seed=0",
    ]
    assert [flag for flag in counted if flag in plain] == list(plain)


def test_a_committed_program_without_sources_says_so() -> None:
    micro = load_suite("micro")
    sieve = replace(micro, benchmarks=(micro.benchmark("sieve"),))
    report = build_suite(sieve, widths=(64,), counters=ARCS)
    assert list(report.programs) == [("sieve", "v9-O2")]
    assert report.failures == {
        ("sieve", "v9-O2-arcs"): "sieve is committed and its suite does not say how to build it "
        "with -fprofile-arcs: leave it out"
    }


@pytest.mark.toolchain
def test_nothing_of_the_machine_is_in_a_program_with_counters(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for place in ("here", "there/below"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
        report = build_suite(suite, counters=ARCS)
        assert report.failures == {}
        program = report.programs["one", "v9-O2-arcs"]
        assert str(tmp_path).encode() not in program.path.read_bytes()
        digests.add(program.sha256)
    assert len(digests) == 1
    assert len({each.sha256 for each in report.programs.values()}) == 4


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", [*BUILDS][:1])
def test_kernels_with_counters_are_the_committed_code(width: Width) -> None:
    """Built in the same way, but without the flag, they execute what the committed files do.

    Only what comes before `main` and after `exit` is the C library's.
    """
    wcet = load_suite("wcet")
    recipes = {each.name: each.recipe.counted for each in wcet.benchmarks}
    assert None not in recipes.values()
    again = tuple(replace(b, recipe=recipes[b.name] or b.recipe) for b in wcet.benchmarks)
    edges, build = setting("edges", user_only=True), build_name(width)
    cells = [Cell(b.name, edges, "train", build=build) for b in wcet.benchmarks]

    def executed(result: CellDocument) -> int:
        assert result.error is None
        rows = (row for row in result.routines if row.symbol not in BEFORE_AND_AFTER)
        return sum(row.instructions for row in rows)

    committed = obtain(wcet, cells, workers=0).cells
    built = obtain(replace(wcet, benchmarks=again), cells, workers=0).cells
    assert [executed(built[c]) for c in cells] == [executed(committed[c]) for c in cells]
    assert all(built[cell].base > committed[cell].base for cell in cells)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", BUILDS)
def test_a_run_tells_how_often_the_counters_count(suite: Suite, width: Width) -> None:
    """Twice 20 turns, twice 10 odd numbers, and what is executed once.

    gcc counts where a loop or a branch goes and, as a call may not return, what comes after it.
    """
    plain, counted = (
        Cell("one", setting("edges"), "ref", build=build_name(width, each)) for each in ARCS
    )
    results = obtain(suite, (plain, counted), workers=0).cells
    assert all(result.error is None for result in results.values())
    assert COMPILER_INCREMENTS not in results[plain].counts
    assert results[counted].counts[COMPILER_INCREMENTS] == 2 * 20 + 2 * 10 + 4
    assert results[counted].base > results[plain].base
    again = obtain(suite, (counted,), workers=0).cells[counted]
    assert again == results[counted], "files of an earlier run are not there"


@pytest.mark.long
@pytest.mark.toolchain
def test_own_routines_are_those_of_user_only(suite: Suite) -> None:
    whole = Cell("one", setting("edges"), "ref")
    of_user = Cell("one", setting("edges", user_only=True), "ref")
    results = obtain(suite, (whole, of_user), workers=0).cells
    rows = results[whole].routines
    assert [row.symbol for row in rows if row.own] == ["main", "next"]
    assert [row.symbol for row in results[of_user].routines if row.own] == ["main", "next"]
    assert len(results[of_user].routines) == 2 < len(rows)
    plans = [
        replace(cell, input="", kind=CellKind.PLAN, setting=setting("pp")) for cell in (whole,)
    ]
    (planned,) = obtain(suite, plans, workers=0).cells.values()
    assert {row.symbol for row in planned.routines if row.own} == {"main", "next"}


# --- files of counters


def record(tag: int, *words: int, length: int | None = None) -> bytes:
    size = 4 * len(words) if length is None else length
    return struct.pack(f">Ii{len(words)}I", tag, size, *words)


FUNCTION, COUNTERS, SUMMARY = 0x0100_0000, 0x01A1_0000, 0xA100_0000
START = b"gcda" + b"B22*" + bytes(8)
FILE = (
    START
    + record(SUMMARY, 1, 9)
    + record(FUNCTION, 7, 1, 2)
    + record(COUNTERS, 5, 0, 1, 2)
    + record(FUNCTION, 8, 1, 2)
    + record(COUNTERS, length=-24)
    + record(FUNCTION)
)


def test_counters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "one.gcda"
    path.write_bytes(FILE + bytes(4))
    assert arc_counts(path) == {7: (5, 1 + (2 << 32)), 8: (0, 0, 0)}
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "two.gcda").write_bytes(FILE)
    assert arc_increments(tmp_path) == 2 * (5 + 1 + (2 << 32))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"adcg" + FILE[4:], "one.gcda holds no counters of a big-endian program"),
        (b"", "one.gcda holds no counters of a big-endian program"),
        (FILE[:-4], "one.gcda is cut"),
        (FILE[: len(START) + 16 + 20 + 20], "one.gcda is cut"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "one.gcda"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        arc_counts(path)
    assert str(caught.value) == message


def test_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^the program wrote no counters of gcc's$"):
        arc_increments(tmp_path)
    with pytest.raises(UsageError, match=r"one\.gcda cannot be read"):
        arc_counts(tmp_path / "one.gcda")


# --- the table


def test_it_is_a_table_of_no_paper() -> None:
    assert GCOV_ARCS.name in tables()
    assert GCOV_ARCS.name not in TABLES


def test_the_builds_that_it_needs() -> None:
    cells = list(GCOV_ARCS.cells([SuiteMember("p")], View("train", "v8plus-O2")))
    assert {(cell.setting.name, cell.input, cell.build) for cell in cells} == {
        ("edges", "train", "v8plus-O2"),
        ("edges", "train", "v8plus-O2-arcs"),
        ("qpt2", "train", "v8plus-O2"),
        ("naive", "train", "v8plus-O2"),
    }


def test_own_routines_are_told_apart_whatever_the_view_is_of() -> None:
    view = View(selection=Selection(exclude=("print",), user_only=True))
    names = {cell.setting.name for cell in GCOV_ARCS.cells([SuiteMember("p")], view)}
    assert names == {f"{mode}:exclude=print" for mode in ("edges", "qpt2", "naive")}


def rows(*routines: tuple[str, dict[str, int]]) -> tuple[RoutineFigures, ...]:
    return tuple(routine(name, CounterTable.NONE, **{"own": True, **n}) for name, n in routines)


def table_of(**changed: CellDocument) -> ReportTable:
    def result(base: int, *routines: tuple[str, dict[str, int]], **counts: int) -> CellDocument:
        return document_of(base=base, counts=counts, routines=rows(*routines))

    results = {
        "plain": result(
            1000,
            ("_start", {"instructions": 5}),
            ("main", {"instructions": 790}),
            ("strlen", {"instructions": 195, "own": False}),
            ("__sparc_get_pc_thunk.l7", {"instructions": 10, "own": False}),
        ),
        "arcs": result(
            1500,
            ("_sub_I_00100_0", {"instructions": 30}),
            ("_sub_D_00100_1", {"instructions": 3}),
            ("main", {"instructions": 580}),
            ("inlined_no_more", {"instructions": 380}),
            ("__sparc_get_pc_thunk.l7", {"instructions": 40, "own": False}),
            ("gcov_do_dump", {"instructions": 272, "own": False}),
            compiler_increments=60,
        ),
        "qpt2": result(
            1000,
            ("main", {"added": 160, "edge_increments": 40}),
            ("strlen", {"added": 50, "edge_increments": 9, "own": False}),
        ),
        "naive": result(
            1000, ("_start", {"added": 4, "edge_increments": 1}), ("main", {"added": 800})
        ),
    }
    results |= changed
    view = View()
    cells = {view.cell(need, "p"): results[name] for name, need in GCOV_ARCS.needs.items()}
    return make(GCOV_ARCS, [SuiteMember("p", "INT")], cells, view)


def test_a_row_by_hand() -> None:
    table = table_of()
    (row,) = table.rows
    named: dict[str, Any] = dict(
        zip((column.key for column in table.columns), row.values, strict=True)
    )
    assert named == {
        "program": "p",
        "base": 1000,
        "own": 80.0,
        "executed": 1500,
        "counting": 200,
        "start_dump": 300,
        "gcc": 20.0,
        "qpt2": 16.0,
        "naive": 80.0,
        "gcc_qpt2": 1.25,
        "gcc_naive": 0.25,
        "increments": 1.5,
    }
    assert named["base"] + named["counting"] + named["start_dump"] == named["executed"]


def test_a_program_that_cannot_be_built_is_a_row() -> None:
    table = table_of(arcs=document_of(error="no compiler"))
    assert table.failures == (("p", "no compiler"),)


@pytest.mark.long
@pytest.mark.toolchain
def test_the_table_of_a_suite(
    suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from simprof.profiler.experiments.tables.results import run_tables

    report = run_tables(suite, [GCOV_ARCS], View(), workers=0)
    assert report.failures == ()
    (row,) = report.tables[0].rows
    assert row.values[0] == "one"
    assert all(isinstance(value, int | float) for value in row.values[1:])
