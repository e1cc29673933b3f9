"""A table of a measurement as Apache Parquet, written by pyarrow (the extra `parquet`).

Columns have types: 64-bit integers, 64-bit floats, text, truth values. Numbers that may have any
length (path numbers) are text in decimal digits. Unknown values are null.
"""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.tables import DEFAULT, Column, ColumnKind, ProfileTable, table
from simprof.simulator.errors import UsageError

INSTALL = "pip install 'simprof[parquet]'"


def write(source: ExportSource) -> bytes:
    """Return the table that was asked for.

    Raises
    ------
    UsageError
        If pyarrow is not installed, or a count does not fit 64 bits.
    """
    return render(table(source.measurement, source.table or DEFAULT))


def render(content: ProfileTable) -> bytes:
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


def _array(arrow: ModuleType, column: Column, cells: list[Any]) -> Any:
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
