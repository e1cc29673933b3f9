"""docs/FINDINGS.md: its rows are those of the results, with their verdicts and their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
ROW = re.compile(
    r"^\| \[.*?\]\((?P<page>[\w-]+\.md)#(?P<table>[\w-]+)\) \| (\d+) \| (\d+) \| (.*) \|$", re.M
)
SUMMARY = re.compile(r"^\| \[.*\]\(#([\w-]+)\) \| (\d+) \| (\d+) \|", re.M)
NUMBER = re.compile(r"(?<![\w^.])\d[\d,]*(?:\.\d+)?")
PAGE = (DOCS / "FINDINGS.md").read_text()
FOUND = [(m["page"], m["table"], int(m[3]), int(m[4]), m[5]) for m in ROW.finditer(PAGE)]


def test_it_has_every_table_with_claims() -> None:
    for page in ("results.md", "results-family.md"):
        judged = {
            m[1] for m in SUMMARY.finditer((DOCS / page).read_text()) if int(m[2]) + int(m[3])
        }
        assert judged <= {table for at, table, *_ in FOUND if at == page}


@pytest.mark.parametrize(("page", "table", "holds", "fails", "words"), FOUND)
def test_a_row_says_what_the_table_says(
    page: str, table: str, holds: int, fails: int, words: str
) -> None:
    """Verdicts are the table's, and each number is one of its section, rounded."""
    text = (DOCS / page).read_text()
    counts = {m[1]: (int(m[2]), int(m[3])) for m in SUMMARY.finditer(text)}
    assert counts[table] == (holds, fails), f"docs/FINDINGS.md: verdicts of {table}"
    section = text.split(f'<a id="{table}"></a>')[1].split("<a id=")[0]
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
    counts = SUMMARY.findall((DOCS / "results-wcet.md").read_text())
    holds, fails = (sum(int(row[at]) for row in counts) for at in (1, 2))
    assert f"{holds} claims hold and {fails} fail" in " ".join(PAGE.split())
