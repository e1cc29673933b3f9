"""Text reports at every width: as recorded, no line too wide, no number cropped, dropped or added.

`make golden` records `golden/*.txt` again; look at what changes before it is committed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from simprof.profiler.reports import tables
from simprof.profiler.reports.display import SHORT_FROM, fold, scientific, shorten, visible
from tests.support import hostile
from tests.support.turns import first

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = range(40, 221, 3)
NATURAL = 4_000
NUMBER = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d+(\.\d+)?")
SHORT = re.compile(r"-?\d\.\d\de\d+")

reports = pytest.mark.parametrize("name", hostile.REPORTS)


def cells(line: str) -> int:
    """Return what a line takes on a terminal, by Unicode's own tables."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in line)
    return len(line) + wide - sum(unicodedata.combining(each) > 0 for each in line)


def numbers(report: str) -> Counter[str]:
    """Return the numbers in a report; those that may be in short form are in short form."""
    found: Counter[str] = Counter()
    for word in re.findall(r"[^\s()]+", report):
        token = word.rstrip(",;:.")
        if SHORT.fullmatch(token):
            found[token] += 1
        elif NUMBER.fullmatch(token):
            whole = token.replace(",", "")
            is_long = "," in token and abs(int(whole)) >= SHORT_FROM
            found[scientific(int(whole)) if is_long else token] += 1
    return found


@reports
def test_reports_are_as_recorded(name: str) -> None:
    recorded = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert hostile.golden(name) == recorded, "`make golden` records it again"


@pytest.mark.long
@pytest.mark.parametrize("name", first(1, hostile.REPORTS))
def test_lines_fit_and_numbers_are_whole_at_every_width(name: str) -> None:
    """No line is wider than the terminal or commands it; the numbers are those of a wide one.

    None is cropped, dropped or made up.
    """
    wanted = numbers(hostile.REPORTS[name](NATURAL))
    for width in WIDTHS:
        report = hostile.REPORTS[name](width)
        for line in report.split("\n"):
            assert cells(line) <= width, (width, line)
            assert line.isprintable(), (width, line)
        shown = numbers(report)
        assert shown == wanted, (width, shown - wanted, wanted - shown)


@pytest.mark.parametrize(
    "width",
    [*(pytest.param(w, marks=pytest.mark.long if w % 6 else ()) for w in WIDTHS), NATURAL],
)
def test_the_numbers_are_those_of_the_result(width: int) -> None:
    """Not only alike at all widths: those that were measured."""
    run = hostile.hostile_run()
    expected = [run.base, run.added, *run.counts.values()]
    for routine in run.routines:
        expected += [routine.added, routine.instructions, routine.potential_paths]
        expected += [routine.activations, *(path.count for path in routine.path_counts)]
    words = set(hostile.run_report(width).split())
    for number in expected:
        short = {word for word in words if SHORT.fullmatch(word) and stands_for(word, number)}
        assert f"{number:,}" in words or (number >= SHORT_FROM and short), number


def stands_for(short: str, number: int) -> bool:
    """Whether a short form, read back, has the leading digits of a number, and its size."""
    if short.startswith("-"):
        return False  # what is left of a base that is smaller than its routines are together
    least = Decimal(short)
    unit = Decimal(short[:1] + "e" + short.partition("e")[2]) / int(short[0]) / 100
    return least <= number < least + unit


@pytest.mark.parametrize("number", [10**12, hostile.MANY, 10**15 - 1, 10**15, 10**45 + 1, 2**333])
def test_short_forms_read_back(number: int) -> None:
    assert stands_for(scientific(number), number)
    assert not stands_for(scientific(number), number * 10)


# --- text by cells


@pytest.mark.parametrize("width", range(25, 60))
@pytest.mark.parametrize("most", [8_660_000_000_000_000, 10**20])
def test_a_column_has_one_notation(width: int, most: int) -> None:
    """A short form beside all digits of a smaller number would look smaller."""
    table = tables.columns(tables.number("count"), tables.name("routine"))
    for each in (most, 418_000_000_000_000, 3_427_344):
        table.add_row(each, "a_routine_of_a_long_name")
    text = tables.print_parts([table], width, color=False)
    found = [word for word in text.split() if SHORT.fullmatch(word) or NUMBER.fullmatch(word)]
    whole = [f"{most:,}", "418,000,000,000,000", "3,427,344"]
    short = [scientific(most), "4.18e14", "3.42e6"]
    assert found == (short if most == 10**20 or width < 39 else whole)


def test_names_lose_their_middle() -> None:
    assert shorten("abcdefghijklmnop", 16) == "abcdefghijklmnop"
    assert shorten("abcdefghijklmnopq", 16) == "abcdefg...lmnopq"
    assert shorten("経路の数を数える関数", 12) == "経路...関数"
    accents = shorten("e\u0301" * 20, 11)
    assert accents == "e\u0301" * 4 + "..." + "e\u0301" * 4


def test_lines_end_between_words_and_never_within_a_number() -> None:
    assert fold("one two 1,234,567 three", 12) == ["one two", "1,234,567", "three"]
    assert fold("directory/1234567/file.c", 14) == ["directory/", "1234567/file.c"]
    assert fold("x" * 20, 8) == ["x" * 8, "x" * 8, "x" * 4]
    assert fold("x" * 20 + " y", 8) == ["x" * 8, "x" * 8, "xxxx y"]
    assert fold(" " + "y" * 12, 8) == [" " + "y" * 7, "y" * 5]
    assert fold("a\nb", 8) == ["a", "b"]
    assert fold("one two ", 3) == ["one", "two"]
    assert fold("a\n\nb", 8) == ["a", "", "b"]
    assert fold("", 8) == [""]


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert visible("caf\u00e9 関数") == "caf\u00e9 関数"
    assert visible("\x1b[2J\u202e\n\u200b\udc80") == r"\x1b[2J\u202e\n\u200b\x80"
