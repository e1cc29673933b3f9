"""docs/EXPORTS.md: it lists all formats, and its commands print what it shows."""

from __future__ import annotations

import re

import pytest

from simprof.profiler.exports.formats import FORMATS
from simprof.profiler.profiles.tables import COLUMNS, NAMES
from tests.conftest import ROOT
from tools.document_outputs import rewritten

PAGE = ROOT / "docs" / "EXPORTS.md"
COLUMN = re.compile(rf"\| `\w+` \| (all|({'|'.join(NAMES)})\b)")


def test_every_format_has_its_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## Columns")[0], re.MULTILINE)
    assert sorted(rows) == sorted(FORMATS)


@pytest.mark.long
@pytest.mark.viewers
def test_its_commands_print_what_it_shows() -> None:
    text = PAGE.read_text()
    assert rewritten(text) == text, "run tools/document_outputs.py --write docs/EXPORTS.md"


def column_rows() -> list[str]:
    """The rows of the page's table of columns: one for each meaning that a column has."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for name, columns in COLUMNS.items():
        for column in columns:
            places.setdefault((column.name, column.kind.value, column.meaning), []).append(name)
    return [
        f"| `{name}` | {'all' if len(of) == len(COLUMNS) else ', '.join(of)} | {kind} | {meaning} |"
        for (name, kind, meaning), of in places.items()
    ]


def test_every_column_has_its_row() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if COLUMN.match(line)]
    assert rows == column_rows(), "\n".join(column_rows())


def test_a_name_means_one_thing() -> None:
    """A column has one kind in all tables; counted things are not called by two names."""
    kinds: dict[str, set[str]] = {}
    for columns in COLUMNS.values():
        for column in columns:
            kinds.setdefault(column.name, set()).add(column.kind.value)
    names = {name for name, found in kinds.items() if len(found) > 1}
    assert names == {"blocks", "edges"}  # how many a routine has, and those of a path
