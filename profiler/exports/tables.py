"""Formats of tables: CSV and Parquet.

A table of a measurement as CSV (RFC 4180, but for line ends, which are line feeds).

The first row names the columns. Numbers are exact, flags are `true` and `false`, unknown values
are empty. Names stand as the program has them, but that a quote stands before those that a
spreadsheet would execute; quotes, commas and line ends in them are quoted as the format says.

A table of a measurement as Apache Parquet, written by pyarrow (the extra `parquet`).

Columns have types: 64-bit integers, 64-bit floats, text, truth values. Numbers that may have any
length (path numbers) are text in decimal digits. Unknown values are null.
"""

from __future__ import annotations

import csv
import io
from io import StringIO
from types import ModuleType
from typing import Any

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.csv_cells import quoted
from simprof.profiler.profiles.tables import (
    DEFAULT,
    Cell,
    ColumnKind,
    DataColumn,
    ProfileTable,
    table,
)
from simprof.simulator.errors import UsageError


def write_csv(source: ExportSource) -> bytes:
    """Return the table that was asked for."""
    return render_csv(table(source.measurement, source.table or DEFAULT))


def render_csv(content: ProfileTable) -> bytes:
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


INSTALL = "pip install 'simprof[parquet]'"


def write_parquet(source: ExportSource) -> bytes:
    """Return the table that was asked for.

    Raises
    ------
    UsageError
        If pyarrow is not installed, or a count does not fit 64 bits.
    """
    return render_parquet(table(source.measurement, source.table or DEFAULT))


def render_parquet(content: ProfileTable) -> bytes:
    """Return a table as a Parquet file."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(f"--format parquet needs pyarrow: `{INSTALL}` installs it") from None
    columns = {
        column.name: _array(arrow, column, [row[place] for row in content.rows])
        for place, column in enumerate(content.columns)
    }
    target = io.BytesIO()
    parquet.write_table(arrow.table(columns), target)
    return target.getvalue()


def _array(arrow: ModuleType, column: DataColumn, cells: list[Any]) -> Any:
    """Return the cells of one column as an array of its type."""
    types = {
        ColumnKind.WHOLE: arrow.int64(),
        ColumnKind.LONG: arrow.string(),
        ColumnKind.NUMBER: arrow.float64(),
        ColumnKind.TEXT: arrow.string(),
        ColumnKind.FLAG: arrow.bool_(),
    }
    if column.kind in (ColumnKind.LONG, ColumnKind.TEXT):
        with big_integers():
            cells = [None if cell is None else _text(str(cell)) for cell in cells]
    try:
        return arrow.array(cells, types[column.kind])
    except OverflowError:
        raise UsageError(
            f"column {column.name} has a number that does not fit 64 bits: use --format csv"
        ) from None


def _text(text: str) -> str:
    """Return text that UTF-8 can hold: what is no character is written with backslashes."""
    return text.encode(errors="backslashreplace").decode()
