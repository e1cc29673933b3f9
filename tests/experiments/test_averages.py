"""Averages over the same programs, geometric means beside them, likeness to the paper's order."""

from __future__ import annotations

import itertools
import math
import random
from statistics import fmean

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.reports.tables import in_words
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.tables.averages import (
    beside,
    likeness,
    spearman,
    with_averages,
)
from simprof.profiler.experiments.tables.claims import statistic
from simprof.profiler.experiments.tables.results import TABLES
from simprof.profiler.experiments.tables.spec import SuiteMember, View, make
from simprof.profiler.experiments.tables.table import (
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    published,
)
from tests.support.report_tables import document_of

COLUMNS = (
    TableColumn("program", "program"),
    TableColumn("cost", "cost %", Form.PERCENT),
    TableColumn("executed", "executed", Form.PERCENT),
    TableColumn("quotient", "a/b", Form.RATIO),
)


def averaged(*rows: TableRow) -> dict[str, tuple[object, ...]]:
    """The rows of averages by name."""
    made = with_averages(COLUMNS, rows)
    return {str(row.values[0]): row.values[1:] for row in made if row.kind == "average"}


def row(name: str, *values: float | None, original: str = "", judged: bool = True) -> TableRow:
    return TableRow((name, *values), "program", "INT", original=original, judged=judged)


def test_every_column_averages_the_same_programs() -> None:
    found = averaged(row("a", 10, 11, 2), row("b", 20, None, 4), row("c", 60, 59, 8))
    assert found["INT average"] == (30, None, fmean([2, 4, 8]))
    assert found["INT average of 2"] == (35, 35, 5)
    assert found["INT geometric mean"] == (None, None, pytest.approx(4))
    assert found["INT geometric mean of 2"] == (None, None, pytest.approx(4))
    assert found["average"] == found["INT average"]


def test_an_original_counts_once_and_others_not_at_all() -> None:
    found = averaged(
        row("a", 10, 10, 1, original="go"),
        row("b", 30, 30, 3, original="go"),
        row("c", 50, 50, 8, original="gcc"),
        row("d", 999, 999, 999, judged=False),
    )
    assert found["INT average"] == ((20 + 50) / 2, 35, (2 + 8) / 2)
    assert found["INT geometric mean"][2] == pytest.approx(math.sqrt(2 * 8))


def test_the_geometric_mean_does_not_depend_on_what_is_divided() -> None:
    chosen = random.Random(25)
    quotients = [chosen.uniform(0.1, 9) for _ in range(7)]
    one, two = (
        averaged(*(row(f"p{at}", 1, 1, x) for at, x in enumerate(values)))["INT geometric mean"][2]
        for values in (quotients, [1 / x for x in quotients])
    )
    assert isinstance(one, float) and isinstance(two, float)
    assert one * two == pytest.approx(1)


def test_no_geometric_mean_of_numbers_that_are_not_positive() -> None:
    assert "INT geometric mean" not in averaged(row("a", 1, 1, -5.6), row("b", 1, 1, 2))


# --- rank correlation


@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_spearman_is_that_of_the_textbook(count: int) -> None:
    """Without equal numbers: 1 - 6 sum d^2 / (n (n^2 - 1)), over all orders."""
    for order in itertools.permutations(range(count)):
        pairs = [(float(10 * at), 2.0**rank) for at, rank in enumerate(order)]
        squares = sum((at - rank) ** 2 for at, rank in enumerate(order))
        expected = 1 - 6 * squares / (count * (count**2 - 1))
        assert spearman(pairs) == pytest.approx(expected)


def test_spearman_of_equal_numbers() -> None:
    """Equal numbers have the mean of their ranks: 1, 2.5, 2.5, 4 against 1, 2, 3, 4."""
    found = spearman([(1, 1), (5, 2), (5, 3), (9, 4)])
    assert found == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert spearman([(1, 2), (1, 3), (1, 4)]) is None
    assert spearman([(1, 2)]) is None and spearman([]) is None


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([1, 2, 3, 4], "too few programs"),
        ([1, 2, 3, 4, 5, 6, 7, 8], "much alike"),
        ([8, 7, 6, 5, 4, 3, 2, 1], "the opposite order"),
        ([6, 5, 4, 3, 2, 1, 7, 8, 9, 10, 11], "alike in part"),
        ([4, 1, 7, 8, 2, 3, 6, 5], "no more than chance: below 0.74"),
        ([1] * 6, "all alike, so there is no order"),
    ],
)
def test_what_a_rank_correlation_means(numbers: list[float], words: str) -> None:
    names = [f"p{at}" for at in range(len(numbers))]
    columns = COLUMNS[:2]
    theirs = [TableRow((name, at), "program", "INT") for at, name in enumerate(names)]
    ours = [TableRow((name, x), "program", "INT") for name, x in zip(names, numbers, strict=True)]
    paper = ReportTable("t", "T", "S", "", columns, tuple(theirs))
    table = ReportTable("t", "T", "S", "", columns, tuple(ours), paper)
    (found,) = likeness(beside(table, {name: (name,) for name in names}))
    assert (found.key, found.count, found.words) == ("cost", len(numbers), words)
    assert in_words((found,)).endswith(f"of {len(numbers)} ({words}).")
    assert in_words(()) == ""


# --- real suites


def test_the_papers_averages_are_those_that_it_prints() -> None:
    """Where a suite has a stand-in of each of its programs, whatever else the suite has."""
    programs = [
        SuiteMember(each.name, each.group, each.stands_for)
        for each in load_suite("spec-like").benchmarks
    ]
    spec, view = TABLES["epp1"], View()
    counts = dict.fromkeys(("path_increments", "edge_increments", "hashing"), 10)
    counts["hashed_increments"] = 1
    fine = document_of(base=1000, added=10, counts=counts)
    table = make(spec, programs, dict.fromkeys(spec.cells(programs, view), fine), view)
    theirs = published("epp1")
    assert theirs is not None
    printed = {row.values[0]: theirs.by_key(row) for row in theirs.rows if row.kind == "average"}
    for name in ("INT average", "FP average", "average"):
        (row,) = (row for row in table.rows if row.values[0] == name)
        found = table.by_key(row)
        for key in ("pp", "qpt2", "hashed"):
            assert round(float(str(found[f"{key}:paper"])), 1) == printed[name][key]
    judged = {row.values[0] for row in table.judged}
    of_spec2000 = {each.name for each in programs if each.releases == {"SPEC2000"}}
    assert {each.name for each in programs} - judged == {*of_spec2000, "dblat2", "dblat3"}
    assert {"bzip2", "minigzip", "crash"} < of_spec2000
    assert any("bzip2, minigzip, " in note and "crash" in note for note in table.notes)
    assert statistic(replace(table, rows=table.judged), "mean(pp)") == statistic(table, "mean(pp)")
