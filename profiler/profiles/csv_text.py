"""Rows of values as CSV (RFC 4180, but for line ends, which are line feeds).

The first row names the columns. Numbers are exact, flags are `true` and `false`, what is unknown
is empty. Names stand as the program has them; commas, quotes and line ends are quoted as the format
says.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO

from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.tables import Cell

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # What begins formulas, for one spreadsheet or another
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?|-", re.IGNORECASE)


def render(names: Sequence[str], rows: Iterable[Iterable[Cell]]) -> str:
    """Return the CSV; `names`: of the columns, `rows`: as many values each."""
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(names)
    with big_integers():
        writer.writerows([_cell(value) for value in row] for row in rows)
    return target.getvalue()


def _cell(value: Cell) -> Cell:
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower() if isinstance(value, bool) else value


def quoted(text: str) -> str:
    """Return a text with a quote before it if a spreadsheet would execute it.

    Names are whatever a program's file says: `=HYPERLINK(...)`, say. Numbers stay numbers.
    """
    if not text.startswith(FORMULA) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"
