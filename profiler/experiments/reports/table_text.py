"""Tables of experiments as text; values as all renderings of tables show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import (
    Claim,
    Form,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    Verdict,
)
from simprof.profiler.reports.display import group_digits, readable
from simprof.profiler.reports.tables import (
    BLANK,
    Part,
    Styled,
    Table,
    columns,
    name,
    number,
    paragraph,
    print_parts,
    text,
)
from simprof.profiler.reports.tables import Column as LayoutColumn
from simprof.profiler.reports.tables import Value as Entry
from simprof.profiler.reports.tables import grid as facts

ABSENT = "-"
_DIGITS = {Form.PERCENT: 1, Form.SHARE: 3, Form.RATIO: 2, Form.DECIMAL: 1, Form.SECONDS: 3}


def shown(value: Value, form: Form) -> str:
    """Return a value as text, "-" where there is none."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "inf"
    if form is Form.COUNT:
        return group_digits(value if isinstance(value, int) else round(value))
    if isinstance(value, int) and abs(value) > 10**15:
        return group_digits(value)
    return f"{value:,.{_DIGITS.get(form, 2)}f}"


def cells(columns: Sequence[TableColumn], row: TableRow) -> tuple[str, ...]:
    """Return a row's values as text; a failed row has its error in the second column."""
    if row.kind == "failed":
        return (str(row.values[0]), f"failed: {row.error}", *[""] * (len(columns) - 2))
    return tuple(
        shown(value, column.form) for value, column in zip(row.values, columns, strict=True)
    )


NAMES = frozenset({"program", "benchmark", "routine"})
"""Titles of columns whose entries may be shortened in the middle."""

STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNTESTABLE: "dim"}


def render_text(report: TableReport, width: int = 100, color: bool = False) -> str:
    """Return all tables of a report in lines of at most `width` columns."""
    parts = [part for table in report.tables for part in table_parts(table)]
    return print_parts([*parts, *_ending(report)], width, color)


def render_names(titles: Mapping[str, str], width: int) -> str:
    """Return the names of tables with their titles."""
    made = facts()
    for each in titles.items():
        made.add_row(*each)
    return print_parts([made], width, color=False)


def table_parts(table: ReportTable) -> Iterator[Part]:
    """Yield the parts of one table: title, caption, rows, the paper's rows, claims, notes."""
    yield paragraph(table.title, style="bold")
    yield paragraph(table.caption)
    yield BLANK
    yield grid(table.columns, [row for row in table.rows if row.kind != "failed"])
    for failed, error in table.failures:
        yield paragraph(f"{failed} failed: {error}", style="red")
    if not table.rows:
        yield paragraph("no rows: no program has anything to tell here")
    if table.published is not None:
        yield BLANK
        yield paragraph(f"The paper's numbers ({table.published.source})", style="italic")
        yield paragraph(table.published.title)
        yield grid(table.published.columns, table.published.rows)
    if table.claims:
        yield BLANK
        yield paragraph("Claims", style="italic")
        yield claims(table.claims)
    for note in (*table.notes, *(table.published.notes if table.published else ())):
        yield paragraph(f"note: {note}")
    yield BLANK


def grid(heads: Sequence[TableColumn], rows: Sequence[TableRow]) -> Table:
    """Return rows under their columns' titles."""
    made = columns(*map(_head, heads))
    for row in rows:
        texts = zip(heads, row.values, cells(heads, row), strict=True)
        entries = (_entry(column, value, shown) for column, value, shown in texts)
        made.add_row(*entries, style="bold" if row.kind == "average" else "")
    return made


def _head(column: TableColumn) -> LayoutColumn:
    if column.numeric:
        return number(column.title)
    return name(column.title) if column.title in NAMES else text(column.title)


def _entry(column: TableColumn, value: object, shown: str) -> Entry:
    """Return a count as a number, which has a short form; everything else as the text shown."""
    if column.form is Form.COUNT and isinstance(value, int):
        return value
    return readable(shown) if column.title == "routine" else shown


def claims(found: Sequence[Claim]) -> Table:
    """Return claims with their verdicts."""
    made = facts()
    for claim in found:
        made.add_row(Styled(claim.verdict.value, STYLES[claim.verdict]), claim.text)
        made.add_row("", f"{claim.figure}{f'. Why: {claim.why}' if claim.why else ''}")
    return made


def _ending(report: TableReport) -> Iterator[Part]:
    if report.left_out:
        yield paragraph(f"not made, for the file has no results: {', '.join(report.left_out)}")
    yield from map(paragraph, report.stored)
