"""docs/FINDINGS.md and the data of the results: the page says what they say, with their numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.experiments.reports.tables import render_markdown_table
from simprof.profiler.experiments.tables.claims import Rule, judge
from simprof.profiler.experiments.tables.conditions import Bound, Condition, Relation
from simprof.profiler.experiments.tables.results import tables
from simprof.profiler.experiments.tables.spec import SuiteMember, TableReport, View
from simprof.profiler.experiments.tables.table import (
    Likeness,
    ReportTable,
    TableRow,
    Verdict,
    published,
)
from tests.conftest import ROOT
from tests.support.report_tables import program_row, small
from tools import results

ROW = re.compile(
    r"^\| \[.*?\]\((?P<page>[\w-]+)\.md#(?P<table>[\w-]+)\) \| (\d+) \| (\d+) \| (.*) \|$", re.M
)
NUMBER = re.compile(r"(?<![\w^.])\d[\d,]*(?:\.\d+)?")
PAGE = (ROOT / "docs" / "FINDINGS.md").read_text()
FOUND = [(m["page"], m["table"], int(m[3]), int(m[4]), m[5]) for m in ROW.finditer(PAGE)]
NAMES = [page.name for page in results.PAGES]


@cache
def report(page: str) -> TableReport:
    return results.read(page).report


def verdicts(table: ReportTable) -> tuple[int, int]:
    """How many claims of a table hold, and how many fail."""
    counts = Counter(claim.verdict for claim in table.claims)
    return counts[Verdict.HOLDS], counts[Verdict.FAILS]


def test_it_has_every_table_with_claims() -> None:
    for page in ("results", "results-family"):
        judged = {each.name for each in report(page).tables if sum(verdicts(each))}
        assert judged <= {table for at, table, *_ in FOUND if at == page}


@pytest.mark.parametrize(("page", "table", "holds", "fails", "words"), FOUND)
def test_a_row_says_what_the_table_says(
    page: str, table: str, holds: int, fails: int, words: str
) -> None:
    """Verdicts are the table's, and each number is one of its section, rounded."""
    made = next(each for each in report(page).tables if each.name == table)
    assert verdicts(made) == (holds, fails), f"docs/FINDINGS.md: verdicts of {table}"
    section = render_markdown_table(made)
    known = {value for _, value in numbers(section)} | {
        100 - value for _, value in numbers(section)
    }
    for digits, value in numbers(re.sub(r"\[.*?\]\(.*?\)", "", words)):
        rounded = any(round(each, digits) == value for each in known)
        assert rounded, f"docs/FINDINGS.md: {table} has no {value}"


def numbers(text: str) -> Iterator[tuple[int, float]]:
    """Yield the numbers of a text with how many digits each has after the point."""
    for match in NUMBER.findall(text):
        digits = match.rstrip(",").replace(",", "")
        yield len(digits.partition(".")[2]), float(digits)


def test_the_programs_of_kiter() -> None:
    counts = [verdicts(each) for each in report("results-wcet").tables]
    holds, fails = map(sum, zip(*counts, strict=True))
    assert f"{holds} claims hold and {fails} fail" in " ".join(PAGE.split())


# -- the data -------------------------------------------------------------------------------------


def test_every_page_has_data_and_a_place_in_the_site() -> None:
    assert {path.stem for path in results.DATA.iterdir()} == set(NAMES)
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert all(f": {name}.md\n" in navigation for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_data_are_as_they_would_be_written_and_of_tables_that_are_declared(name: str) -> None:
    measured = results.read(name)
    assert results.as_data(measured) == (results.DATA / f"{name}.json").read_text()
    for table in measured.report.tables:
        spec = tables()[table.name]
        keys = {column.key.partition(":")[0] for column in table.columns}
        assert keys - {"off"} == {column.key for column in spec.columns}
        said = zip(table.claims, spec.claims, strict=True)
        assert all(each.text == rule.text for each, rule in said if isinstance(rule, Rule))
        assert (table.title, table.source) == (spec.title, spec.source)


def test_a_page_shows_what_the_report_that_was_measured_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(
        program_row("a<b|c", "INT", 50.04, 1_234_567),
        program_row("b", "INT", 1 / 3, 7 * 10**400),
        program_row("c", "INT", math.inf),
        program_row("d", "FP", None, -(10**15)),
        TableRow(("e", None, None), "failed", "FP", "it crashed"),
        claims=(judge("It is little.", Condition("x", 2.5, Bound(Relation.AT_MOST, 2.0))),),
        likeness=(Likeness("x", "X %", 6, -0.25, "no more than chance"),),
    )
    table = replace(table, name="epp1", published=published("epp1"))
    report = TableReport("s", "A suite", View(), "9.9", "e", "7-abc", (SuiteMember("b"),), (table,))
    measured = results.Measured("abc", 61, 2, report)
    monkeypatch.setattr(results, "DATA", tmp_path)
    (tmp_path / "p.json").write_text(results.as_data(measured))
    page = results.page(results.read("p"))
    assert page == results.page(measured)
    assert "Measured at commit abc, in 1 min 01 s with 2 processes." in page
    assert "| 7.00e400 |" in page and "1,234,567" in page and "it crashed" in page


def test_pages_are_measured_into_their_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = results.Page("few", "micro", ("cs6120",), "train", only=("sieve",))
    monkeypatch.setattr(results, "PAGES", (page,))
    monkeypatch.setattr(results, "DATA", tmp_path)
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    assert results.main(["--workers", "1"]) == 0
    first, out = results.read("few"), capsys.readouterr().out
    assert "few: measuring cells: 8 of 8" in out and "in all, 0 failures" in out
    (row,) = first.report.tables[0].rows
    assert row.values[0] == "sieve" and row.values[-1] == 0
    assert results.main([]) == 0  # nothing is measured again, and its time counts
    again = results.read("few")
    assert again.report == first.report
    assert (again.seconds or 0) >= (first.seconds or 0)
