"""Tables of experiments as one page of HTML that needs nothing else: plots are inline SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from profiler.experiments.tables.report import TableReport
from profiler.experiments.tables.table import Claim, Column, ReportTable, Row, Verdict
from profiler.reports import bars_svg
from profiler.reports.table_values import cells

CLASSES = {Verdict.HOLDS: "holds", Verdict.FAILS: "fails", Verdict.UNTESTABLE: "open"}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem;
  padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { text-align: left; border-bottom: 2px solid #999; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.paper { color: #777; }
.average td { font-weight: 600; background: #f5f5f5; }
.failed td { color: #a40000; }
.holds { color: #2e6b00; white-space: nowrap; }
.fails { color: #a40000; font-weight: 600; white-space: nowrap; }
.open { color: #777; white-space: nowrap; }
.wide { overflow-x: auto; }
section { margin-top: 3rem; }
""".strip()


def render(report: TableReport) -> str:
    """Return the page."""
    title = f"simprof: results of suite {report.suite}"
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE}\n</style>\n</head>\n<body>",
        f"<h1>{escape(title)}</h1>",
        *_head(report),
        *(line for table in report.tables for line in _section(table)),
        "</body>\n</html>",
    ]
    return "\n".join(parts) + "\n"


def _head(report: TableReport) -> Iterator[str]:
    if report.title:
        yield f"<p>{escape(report.title)}.</p>"
    yield f"<p>Basis: {escape(report.basis)}. Costs are simulated instructions, not times.</p>"
    if report.command:
        yield f"<p>Made by <code>{escape(report.command)}</code>.</p>"
    for name, error in report.failures:
        yield f'<p class="fails">{escape(name)} failed: {escape(error)}</p>'
    if report.left_out:
        yield f"<p>Not made, for the file has no results: {', '.join(report.left_out)}.</p>"
    yield "<table><tr><th>table</th>" + "".join(f"<th>{v.value}</th>" for v in Verdict) + "</tr>"
    for table in report.tables:
        counts = Counter(claim.verdict for claim in table.claims)
        numbers = "".join(f'<td class="number">{counts[verdict]}</td>' for verdict in Verdict)
        yield f'<tr><td><a href="#{table.name}">{escape(table.title)}</a></td>{numbers}</tr>'
    yield "</table>"


def _section(table: ReportTable) -> Iterator[str]:
    yield f'<section id="{table.name}">\n<h2>{escape(table.title)}</h2>'
    yield f"<p>{escape(table.caption)}</p>"
    plot = bars_svg.render(table)
    if plot is not None:
        yield f'<div class="wide">\n{plot}</div>'
    yield from _grid(table.columns, table.rows)
    yield from _claims(table.claims)
    for note in table.notes:
        yield f"<p><em>{escape(note)}</em></p>"
    if table.published is not None:
        yield """<details open="open"><summary>The paper's numbers</summary>"""
        yield f"<p>{escape(table.published.source)}. {escape(table.published.title)}.</p>"
        yield from _grid(table.published.columns, table.published.rows)
        for note in table.published.notes:
            yield f"<p><em>{escape(note)}</em></p>"
        yield "</details>"
    yield "</section>"


def _grid(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    classes = [_class(column) for column in columns]
    yield (
        '<div class="wide"><table>\n<tr>'
        + "".join(
            f'<th class="{name}">{escape(column.title)}</th>'
            for name, column in zip(classes, columns, strict=True)
        )
        + "</tr>"
    )
    for row in rows:
        if row.kind == "failed":
            span = len(columns) - 1
            yield (
                f'<tr class="failed"><td>{escape(str(row.values[0]))}</td>'
                f'<td colspan="{span}">failed: {escape(row.error or "")}</td></tr>'
            )
            continue
        shown = zip(classes, cells(columns, row), strict=True)
        inner = "".join(f'<td class="{name}">{escape(text)}</td>' for name, text in shown)
        yield f'<tr class="{row.kind}">{inner}</tr>'
    yield "</table></div>"


def _class(column: Column) -> str:
    names = ["number"] if column.numeric else []
    return " ".join([*names, *(["paper"] if column.key.endswith(":paper") else [])])


def _claims(claims: Sequence[Claim]) -> Iterator[str]:
    if not claims:
        return
    yield "<table>\n<tr><th>verdict</th><th>claim</th><th>our figure</th></tr>"
    for claim in claims:
        why = f"<br/><em>Why: {escape(claim.why)}</em>" if claim.why else ""
        yield (
            f'<tr><td class="{CLASSES[claim.verdict]}">{claim.verdict.value}</td>'
            f"<td>{escape(claim.text)}</td><td>{escape(claim.figure)}{why}</td></tr>"
        )
    yield "</table>"
