"""Tables of experiments as one page: plots, tables beside the papers' own, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import Claim, Column, ReportTable, Row, Verdict
from simprof.profiler.reports.html import bars, page
from simprof.profiler.reports.table_values import cells

CLASSES = {Verdict.HOLDS: "holds", Verdict.FAILS: "fails", Verdict.UNTESTABLE: "open"}


@dataclass(frozen=True)
class Cell:
    """A text and the classes of its cell."""

    text: str
    kind: str


@dataclass(frozen=True)
class GridRow:
    """A row; `error`: why it could not be made, None where it was."""

    cells: tuple[Cell, ...]
    kind: str
    error: str | None


@dataclass(frozen=True)
class Grid:
    """Heads and rows."""

    heads: tuple[Cell, ...]
    rows: tuple[GridRow, ...]


@dataclass(frozen=True)
class Section:
    """What the page has of one table; `verdicts`: how many claims have each."""

    name: str
    title: str
    caption: str
    verdicts: tuple[int, ...]
    plot: bars.Plot | None
    grid: Grid
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    published: ReportTable | None
    published_grid: Grid | None


def render(report: TableReport) -> str:
    """Return the page."""
    return page.render(
        "tables.html",
        title=f"simprof: results of suite {report.suite}",
        report=report,
        verdicts=[verdict.value for verdict in Verdict],
        classes=CLASSES,
        sections=[_section(table) for table in report.tables],
    )


def _section(table: ReportTable) -> Section:
    counts = Counter(claim.verdict for claim in table.claims)
    published = table.published
    return Section(
        name=table.name,
        title=table.title,
        caption=table.caption,
        verdicts=tuple(counts[verdict] for verdict in Verdict),
        plot=bars.plot(table),
        grid=_grid(table.columns, table.rows),
        claims=tuple(table.claims),
        notes=tuple(table.notes),
        published=published,
        published_grid=None if published is None else _grid(published.columns, published.rows),
    )


def _grid(columns: Sequence[Column], rows: Sequence[Row]) -> Grid:
    kinds = [_kind(column) for column in columns]
    heads = (Cell(column.title, kind) for column, kind in zip(columns, kinds, strict=True))
    return Grid(tuple(heads), tuple(_row(columns, kinds, row) for row in rows))


def _row(columns: Sequence[Column], kinds: Sequence[str], row: Row) -> GridRow:
    shown = tuple(Cell(text, kind) for text, kind in zip(cells(columns, row), kinds, strict=True))
    error = (row.error or "") if row.kind == "failed" else None
    return GridRow(shown, row.kind, error)


def _kind(column: Column) -> str:
    names = ["number"] if column.numeric else []
    return " ".join([*names, *(["paper"] if column.key.endswith(":paper") else [])])
