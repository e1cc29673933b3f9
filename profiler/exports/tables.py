"""Formats of tables: CSV (`profiles.csv_text`), and Apache Parquet, written by pyarrow.

In Parquet columns have types: 64-bit integers, 64-bit floats, text, truth values. Numbers that may
have any length (path numbers) are text in decimal digits. Unknown values are null.
"""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.profiles import csv_text
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.tables import DEFAULT, ColumnKind, DataColumn, ProfileTable
from simprof.profiler.reports.listings import RowChoice, listing
from simprof.simulator.errors import UsageError


def _rows(source: ExportSource) -> ProfileTable:
    """Return the rows of the table that was asked for, in the order in which `show` lists them."""
    return listing(source.table or DEFAULT, source.measurement, RowChoice()).table


def write_csv(source: ExportSource) -> bytes:
    """Return the table that was asked for."""
    return render_csv(_rows(source))


def render_csv(content: ProfileTable) -> bytes:
    """Return a table in UTF-8; what is no character is written with backslashes."""
    text = csv_text.render([column.name for column in content.columns], content.cells())
    return text.encode(errors="backslashreplace")


def write_parquet(source: ExportSource) -> bytes:
    """Return the table that was asked for; UsageError without pyarrow, or for counts too large."""
    return render_parquet(_rows(source))


def render_parquet(content: ProfileTable) -> bytes:
    """Return a table as a Parquet file."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        install = "pip install 'simprof[parquet]'"
        raise UsageError(f"--format parquet needs pyarrow: `{install}` installs it") from None
    rows = list(content.cells())
    columns = {
        column.name: _array(arrow, column, [row[place] for row in rows])
        for place, column in enumerate(content.columns)
    }
    target = io.BytesIO()
    parquet.write_table(arrow.table(columns), target)
    return target.getvalue()


def _array(arrow: ModuleType, column: DataColumn, cells: list[Any]) -> Any:
    types = {
        ColumnKind.WHOLE: arrow.int64(),
        ColumnKind.NUMBER: arrow.float64(),
        ColumnKind.FLAG: arrow.bool_(),
    }
    kind = types.get(column.kind, arrow.string())
    if column.kind not in types:
        with big_integers():
            cells = [None if cell is None else _text(str(cell)) for cell in cells]
    try:
        return arrow.array(cells, kind)
    except OverflowError:
        raise UsageError(
            f"column {column.name} has a number that does not fit 64 bits: use --format csv"
        ) from None


def _text(text: str) -> str:
    """Return text that UTF-8 can hold: what is no character is written with backslashes."""
    return text.encode(errors="backslashreplace").decode()
