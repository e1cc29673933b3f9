"""A table of a measurement as CSV (RFC 4180, but for line ends, which are line feeds).

The first row names the columns. Numbers are exact, flags are `true` and `false`, unknown values
are empty. Names stand as the program has them, but that a quote stands before those that a
spreadsheet would execute; quotes, commas and line ends in them are quoted as the format says.
"""

from __future__ import annotations

import csv
from io import StringIO

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.csv_cells import quoted
from simprof.profiler.profiles.tables import DEFAULT, Cell, ProfileTable, table


def write(source: ExportSource) -> bytes:
    """Return the table that was asked for."""
    return render(table(source.measurement, source.table or DEFAULT))


def render(content: ProfileTable) -> bytes:
    """Return a table in UTF-8; what is no character is written with backslashes."""
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(column.name for column in content.columns)
    with big_integers():
        writer.writerows(map(_cell, row) for row in content.rows)
    return target.getvalue().encode(errors="backslashreplace")


def _cell(value: Cell) -> Cell:
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower() if isinstance(value, bool) else value
