"""Tables of experiments as Markdown: what docs/results.md is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import Column, ReportTable, Row, Verdict
from simprof.profiler.reports.table_values import cells

MARKS = {Verdict.HOLDS: "holds", Verdict.FAILS: "**fails**", Verdict.UNTESTABLE: "not testable"}


def render(report: TableReport) -> str:
    """Return the report as one page."""
    return "\n".join([*_head(report), *(line for t in report.tables for line in _table(t))])


def _head(report: TableReport) -> Iterator[str]:
    yield f"# Results: suite {report.suite}"
    yield ""
    if report.title:
        yield f"{report.title}."
        yield ""
    yield f"Basis: {report.basis}. Costs are simulated instructions, not times."
    yield ""
    if report.command:
        yield f"Generated; do not edit. Made by `{report.command}`."
        yield ""
    for name, error in report.failures:
        yield f"- **{_escaped(name)} failed**: {_escaped(error)}"
    if report.failures:
        yield ""
    if report.left_out:
        yield f"Not made, for the file has no results: {', '.join(report.left_out)}."
        yield ""
    if report.stored:
        yield from (f"- {line}" for line in report.stored)
        yield ""
    yield from _programs(report)
    yield from _verdicts(report)


def _programs(report: TableReport) -> Iterator[str]:
    if not any(program.stands_for for program in report.programs):
        return
    yield "| program | group | stands for |"
    yield "|---|---|---|"
    for program in report.programs:
        yield f"| {_escaped(program.name)} | {program.group} | {_escaped(program.stands_for)} |"
    yield ""


def _verdicts(report: TableReport) -> Iterator[str]:
    """Count the verdicts by table."""
    yield "| table | holds | fails | not testable |"
    yield "|---|---:|---:|---:|"
    for table in report.tables:
        counts = Counter(claim.verdict for claim in table.claims)
        shown = " | ".join(str(counts[verdict]) for verdict in Verdict)
        yield f"| [{table.title}](#{table.name}) | {shown} |"
    yield ""


def _table(table: ReportTable) -> Iterator[str]:
    yield f'<a id="{table.name}"></a>'
    yield ""
    yield f"## {table.title}"
    yield ""
    yield table.caption
    yield ""
    yield from _grid(table.columns, [row for row in table.rows if row.kind != "failed"])
    yield ""
    for name, error in table.failures:
        yield f"- **{_escaped(name)} failed**: {_escaped(error)}"
        yield ""
    yield from _claims(table)
    for note in table.notes:
        yield f"*{_escaped(note)}*"
        yield ""
    if table.published is not None:
        yield from _published(table.published)


def _claims(table: ReportTable) -> Iterator[str]:
    for claim in table.claims:
        why = f" *Why:* {_escaped(claim.why)}" if claim.why else ""
        yield f"- {MARKS[claim.verdict]}: {_escaped(claim.text)} — {_escaped(claim.figure)}.{why}"
    if table.claims:
        yield ""


def _published(table: ReportTable) -> Iterator[str]:
    yield "<details><summary>The paper's numbers</summary>"
    yield ""
    yield f"{table.source}. {table.title}."
    yield ""
    yield from _grid(table.columns, table.rows)
    yield ""
    for note in table.notes:
        yield f"*{_escaped(note)}*"
        yield ""
    yield "</details>"
    yield ""


def _grid(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    yield "| " + " | ".join(_escaped(column.title) for column in columns) + " |"
    yield "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|"
    for row in rows:
        shown = [_escaped(text) for text in cells(columns, row)]
        if row.kind == "average":
            shown = [f"**{text}**" for text in shown]
        yield "| " + " | ".join(shown) + " |"


def _escaped(text: str) -> str:
    for character in "\\|<>*_`":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
