"""Tables of experiments as CSV: a block of rows for each table, with a header of its own.

Numbers are as exact as they were computed. `kind` tells programs from averages, from programs
that failed (with `error`) and from the paper's rows, of which the columns that we have too are
there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import ReportTable, Value
from simprof.profiler.profiles.csv_cells import quoted


def render(report: TableReport) -> str:
    """Return all tables, blocks parted by an empty line."""
    return "\n".join(render_table(table) for table in report.tables)


def render_table(table: ReportTable) -> str:
    """Return one table."""
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(("table", "kind", "group", *(column.key for column in table.columns), "error"))
    writer.writerows(_rows(table))
    return target.getvalue()


def _rows(table: ReportTable) -> Iterator[tuple[Value, ...]]:
    for row in table.rows:
        yield _row(table.name, row.kind, row.group, *row.values, row.error or "")
    if table.published is None:
        return
    theirs = [column.key for column in table.published.columns]
    for row in table.published.rows:
        known = dict(zip(theirs, row.values, strict=True))
        kind = "paper average" if row.kind == "average" else "paper"
        values = (known.get(column.key) for column in table.columns)
        yield _row(table.name, kind, row.group, *values, "")


def _row(*values: Value) -> tuple[Value, ...]:
    return tuple(quoted(each) if isinstance(each, str) else each for each in values)
