"""Tables of experiments for people, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from profiler.experiments.tables.report import TableReport
from profiler.experiments.tables.table import Claim, Column, ReportTable, Row, Verdict
from profiler.reports.table_values import cells
from profiler.reports.tables import columns, natural_width, print_parts

STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNTESTABLE: "dim"}


def render(report: TableReport, width: int = 100, color: bool = False) -> str:
    """Return all tables of a report; rows that need more than `width` columns take more."""
    parts = [part for table in report.tables for part in table_parts(table)]
    grids = [part for part in parts if isinstance(part, RichTable) and part.show_header]
    widest = max([width, *(natural_width(grid) for grid in grids)])
    return print_parts([*parts, *_ending(report)], widest, color)


def table_parts(table: ReportTable) -> Iterator[RenderableType]:
    """Yield the parts of one table: title, caption, rows, the paper's rows, claims, notes."""
    yield Text(table.title, style="bold")
    yield Text(table.caption)
    yield Text("")
    yield grid(table.columns, [row for row in table.rows if row.kind != "failed"])
    for name, error in table.failures:
        yield Text(f"{name} failed: {error}", style="red")
    if not table.rows:
        yield Text("no rows: no program has anything to tell here")
    if table.published is not None:
        yield Text("")
        yield Text(f"The paper's numbers ({table.published.source})", style="italic")
        yield Text(table.published.title)
        yield grid(table.published.columns, table.published.rows)
    if table.claims:
        yield Text("")
        yield Text("Claims", style="italic")
        yield claims(table.claims)
    for note in (*table.notes, *(table.published.notes if table.published else ())):
        yield Text(f"note: {note}")
    yield Text("")


def grid(heads: Sequence[Column], rows: Sequence[Row]) -> RichTable:
    """Return rows under their columns' titles."""
    made = columns(*((column.title, column.numeric) for column in heads))
    for row in rows:
        made.add_row(*cells(heads, row), style="bold" if row.kind == "average" else None)
    return made


def claims(found: Sequence[Claim]) -> RichTable:
    """Return claims with their verdicts."""
    made = RichTable.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for claim in found:
        made.add_row(Text(claim.verdict.value, style=STYLES[claim.verdict]), claim.text)
        made.add_row("", f"{claim.figure}{f'. Why: {claim.why}' if claim.why else ''}")
    return made


def _ending(report: TableReport) -> Iterator[RenderableType]:
    if report.left_out:
        yield Text(f"not made, for the file has no results: {', '.join(report.left_out)}")
