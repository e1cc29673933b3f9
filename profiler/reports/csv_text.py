"""Rows of values as CSV: one line of names, one line a row.

Addresses are hexadecimal, flags 1 and 0, what is unknown is empty.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.csv_cells import quoted

Cell = int | str | float | bool | None
ADDRESS = "address"
"""Name of columns with addresses."""


def render(names: Sequence[str], rows: Iterable[Iterable[Cell]]) -> str:
    """Return the CSV.

    `names`: Of the columns. `rows`: Values, as many as there are names.
    """
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    with big_integers():
        writer.writerow(names)
        for row in rows:
            writer.writerow(_text(name, value) for name, value in zip(names, row, strict=True))
    return target.getvalue()


def _text(name: str, value: Cell) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case int() if name == ADDRESS:
            return f"{value:#x}"
        case str():
            return quoted(value)
    return str(value)
