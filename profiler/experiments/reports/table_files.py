"""Tables of experiments as CSV, JSON (schema simprof/tables/1) and Markdown (docs/results.md).

CSV has a block of rows for each table, with a header of its own. Its numbers are as exact as they
were computed. `kind` distinguishes programs, averages, programs that failed (with `error`), and
rows of the paper, which have the columns that our table has as well.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

from simprof.profiler.experiments.reports.table_text import cells
from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import (
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    Verdict,
)
from simprof.profiler.profiles.csv_cells import quoted


def render_csv(report: TableReport) -> str:
    """Return all tables, blocks parted by an empty line."""
    return "\n".join(render_csv_table(table) for table in report.tables)


def render_csv_table(table: ReportTable) -> str:
    """Return one table."""
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(("table", "kind", "group", *(column.key for column in table.columns), "error"))
    writer.writerows(_csv_rows(table))
    return target.getvalue()


def _csv_rows(table: ReportTable) -> Iterator[tuple[Value, ...]]:
    for row in table.rows:
        yield _csv_row(table.name, row.kind, row.group, *row.values, row.error or "")
    if table.published is None:
        return
    theirs = [column.key for column in table.published.columns]
    for row in table.published.rows:
        known = dict(zip(theirs, row.values, strict=True))
        kind = "paper average" if row.kind == "average" else "paper"
        values = (known.get(column.key) for column in table.columns)
        yield _csv_row(table.name, kind, row.group, *values, "")


def _csv_row(*values: Value) -> tuple[Value, ...]:
    return tuple(quoted(each) if isinstance(each, str) else each for each in values)


SCHEMA = "simprof/tables/1"


def render_json(report: TableReport) -> str:
    """Return the whole report as one object."""
    plain = {
        "schema": SCHEMA,
        "suite": report.suite,
        "title": report.title,
        "input": report.view.input,
        "build": report.view.build,
        "exclude": list(report.view.selection.exclude),
        "user_only": report.view.selection.user_only,
        "simprof": report.simprof,
        "engine": report.engine,
        "cost_model": report.cost_model,
        "unit": "simulated instructions",
        "tables": [_json_table(table) for table in report.tables],
        "left_out": list(report.left_out),
        "stored": list(report.stored),
        "failures": [{"program": name, "error": error} for name, error in report.failures],
    }
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _json_table(table: ReportTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "source": table.source,
        "caption": table.caption,
        "columns": [
            {"key": each.key, "title": each.title, "form": each.form.value}
            for each in table.columns
        ],
        "rows": [_json_row(table, row) for row in table.rows],
        "published": None if table.published is None else _json_table(table.published),
        "claims": [
            {
                "text": claim.text,
                "verdict": claim.verdict.value,
                "figure": claim.figure,
                "why": claim.why,
            }
            for claim in table.claims
        ],
        "notes": list(table.notes),
    }


def _json_row(table: ReportTable, row: TableRow) -> dict[str, Any]:
    keys = (column.key for column in table.columns)
    values = {key: _json_value(value) for key, value in zip(keys, row.values, strict=True)}
    return {"kind": row.kind, "group": row.group, "error": row.error, "values": values}


def _json_value(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


MARKS = {Verdict.HOLDS: "holds", Verdict.FAILS: "**fails**", Verdict.UNTESTABLE: "not testable"}


def render_markdown(report: TableReport) -> str:
    """Return the report as one page."""
    return "\n".join(
        [*_markdown_head(report), *(line for t in report.tables for line in _markdown_table(t))]
    )


def _markdown_head(report: TableReport) -> Iterator[str]:
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


def _markdown_table(table: ReportTable) -> Iterator[str]:
    yield f'<a id="{table.name}"></a>'
    yield ""
    yield f"## {table.title}"
    yield ""
    yield table.caption
    yield ""
    yield from _markdown_grid(table.columns, [row for row in table.rows if row.kind != "failed"])
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
    yield from _markdown_grid(table.columns, table.rows)
    yield ""
    for note in table.notes:
        yield f"*{_escaped(note)}*"
        yield ""
    yield "</details>"
    yield ""


def _markdown_grid(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> Iterator[str]:
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
