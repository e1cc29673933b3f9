"""Tables of experiments as text, CSV, JSON (format simprof/tables) and Markdown.

A value is written alike in text, Markdown and pages (`cells`). CSV has a block of rows for each
table, with a header of its own, and numbers as exact as they were computed; `kind` distinguishes
programs, averages, programs that failed (with `error`), and rows of the paper, which have the
columns that our table has as well.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simprof.profiler.experiments.tables.conditions import Condition
from simprof.profiler.experiments.tables.spec import TableReport
from simprof.profiler.experiments.tables.table import (
    Claim,
    Form,
    Likeness,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    Verdict,
)
from simprof.profiler.profiles import csv_text
from simprof.profiler.profiles.documents import head
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import group_digits, readable
from simprof.profiler.reports.tables import BLANK, Part, Styled, paragraph, print_parts

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


def in_words(found: Sequence[Likeness]) -> str:
    """Return what the likenesses of a table say; "" where there are none."""
    if not found:
        return ""
    parts = (
        f"{each.title} {'-' if each.correlation is None else f'{each.correlation:.2f}'} "
        f"of {each.count} ({each.words})"
        for each in found
    )
    return (
        "Order of rows against their originals' in the paper, Spearman's rank correlation "
        f"(1: the same order, 0: none, -1: the opposite): {'; '.join(parts)}."
    )


# -- text -----------------------------------------------------------------------------------------

# Titles of columns whose entries may be shortened in the middle: those of C++ fill screens
NAMES = frozenset({"routine"})
STYLES = {
    Verdict.HOLDS: "green",
    Verdict.FAILS: "red",
    Verdict.TOO_FEW: "dim",
    Verdict.UNTESTABLE: "dim",
}


def render_text(report: TableReport, width: int = 100, color: bool = False) -> str:
    """Return all tables of a report in lines of at most `width` columns."""
    parts = [part for table in report.tables for part in _table_text(table)]
    if report.left_out:
        left_out = ", ".join(report.left_out)
        parts.append(paragraph(f"not made, for the file has no results: {left_out}"))
    return print_parts([*parts, *map(paragraph, report.stored)], width, color)


def render_names(titles: Mapping[str, str], width: int) -> str:
    """Return the names of tables with their titles."""
    made = layout.grid()
    for each in titles.items():
        made.add_row(*each)
    return print_parts([made], width, color=False)


def _table_text(table: ReportTable) -> Iterator[Part]:
    yield paragraph(table.title, style="bold")
    yield paragraph(table.caption)
    yield BLANK
    yield _grid_text(table.columns, table.made)
    for failed, error in table.failures:
        yield paragraph(f"{failed} failed: {error}", style="red")
    if not table.rows:
        yield paragraph("no rows: no program has a value here")
    if table.likeness:
        yield BLANK
        yield paragraph(in_words(table.likeness))
    notes = table.notes
    if table.published is not None:
        yield BLANK
        yield paragraph(f"The paper's numbers ({table.published.source})", style="italic")
        yield paragraph(table.published.title)
        yield _grid_text(table.published.columns, table.published.rows)
        notes += table.published.notes
    if table.claims:
        yield BLANK
        yield paragraph("Claims", style="italic")
        made = layout.grid()
        for claim in table.claims:
            made.add_row(Styled(claim.verdict.value, STYLES[claim.verdict]), claim.text)
            made.add_row("", f"{claim.figure}{f'. Why: {claim.why}' if claim.why else ''}")
        yield made
    yield from (paragraph(f"note: {note}") for note in notes)
    yield BLANK


def _grid_text(heads: Sequence[TableColumn], rows: Sequence[TableRow]) -> layout.Table:
    made = layout.columns(*map(_head_text, heads))
    for row in rows:
        texts = zip(heads, row.values, cells(heads, row), strict=True)
        entries = (_entry_text(column, value, shown) for column, value, shown in texts)
        made.add_row(*entries, style="bold" if row.kind == "average" else "")
    return made


def _head_text(column: TableColumn) -> layout.Column:
    if column.numeric:
        return layout.number(column.title)
    return layout.name(column.title) if column.title in NAMES else layout.text(column.title)


def _entry_text(column: TableColumn, value: object, shown: str) -> layout.Value:
    # A count stays a number, which has a short form where a line has no room for it.
    if column.form is Form.COUNT and isinstance(value, int):
        return value
    return readable(shown) if column.title == "routine" else shown


# -- CSV ------------------------------------------------------------------------------------------


def render_csv(report: TableReport) -> str:
    """Return all tables, blocks parted by an empty line."""
    return "\n".join(render_csv_table(table) for table in report.tables)


def render_csv_table(table: ReportTable) -> str:
    """Return one table."""
    keys = (column.key for column in table.columns)
    return csv_text.render(("table", "kind", "group", *keys, "error"), _csv_rows(table))


def _csv_rows(table: ReportTable) -> Iterator[tuple[Value, ...]]:
    for row in table.rows:
        yield (table.name, row.kind, row.group, *row.values, row.error or "")
    if table.published is None:
        return
    for row in table.published.rows:
        known = table.published.by_key(row)
        kind = "paper average" if row.kind == "average" else "paper"
        yield (table.name, kind, row.group, *(known.get(each.key) for each in table.columns), "")


# -- JSON -----------------------------------------------------------------------------------------


def render_json(report: TableReport) -> str:
    """Return the whole report as one object."""
    plain = {
        **head("tables"),
        "suite": report.suite,
        "title": report.title,
        "input": report.view.input,
        "build": report.view.build,
        "exclude": list(report.view.selection.exclude),
        "user_only": report.view.selection.user_only,
        "simprof": report.simprof,
        "engine": report.engine,
        "cost_model": report.cost_model,
        "programs": [
            {
                "name": each.benchmark,
                "build": each.build,
                "input": each.input,
                "sha256": each.program or None,
                "input_sha256": each.stdin or None,
            }
            for each in report.files
        ],
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
        "likeness": [
            {
                "column": each.key,
                "count": each.count,
                "rank_correlation": each.correlation,
                "words": each.words,
            }
            for each in table.likeness
        ],
        "claims": [_json_claim(claim) for claim in table.claims],
        "notes": list(table.notes),
    }


def _json_claim(claim: Claim) -> dict[str, Any]:
    names = "text", "verdict", "figure", "why", "programs"
    return {
        **{name: getattr(claim, name) for name in names},
        "conditions": [_json_condition(each) for each in claim.conditions],
    }


def _json_condition(condition: Condition) -> dict[str, Any]:
    bound = condition.bound
    relation: str = bound.relation.value
    least: float | None = None
    most: float | None = None
    if condition.between is not None:
        relation, (least, most) = "within", condition.between
    elif bound.relation.wants_more:
        least = bound.value
    else:
        most = bound.value
    return {
        "what": condition.what,
        "value": _finite(condition.value),
        "relation": relation,
        "least": _finite(least),
        "most": _finite(most),
        "unit": condition.unit.strip(),
        "against": condition.against,
        "whose": condition.whose.name.lower(),
        "holds": condition.holds,
        "distance": _finite(condition.distance),
        "programs": condition.programs,
    }


def _finite(value: float | None) -> float | None:
    """Return a number, None where it is infinite: JSON has none of these."""
    return None if value is None or not math.isfinite(value) else value


def _json_row(table: ReportTable, row: TableRow) -> dict[str, Any]:
    # JSON has no infinite numbers.
    values = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in table.by_key(row).items()
    }
    return {
        "kind": row.kind,
        "group": row.group,
        "original": row.original,
        "judged": row.judged,
        "error": row.error,
        "values": values,
    }


# -- Markdown -------------------------------------------------------------------------------------

MARKS = {
    Verdict.HOLDS: "holds",
    Verdict.FAILS: "**fails**",
    Verdict.TOO_FEW: "too few programs",
    Verdict.UNTESTABLE: "not testable",
}


def render_markdown(report: TableReport) -> str:
    """Return the report as one page."""
    blocks = [
        *_head_markdown(report),
        *(b for each in report.tables for b in _table_markdown(each)),
    ]
    return "".join(f"{block}\n\n" for block in blocks).removesuffix("\n")


def _head_markdown(report: TableReport) -> Iterator[str]:
    yield f"# Results: suite {report.suite}"
    if report.title:
        yield f"{report.title}."
    yield f"Basis: {report.basis}. Costs are simulated instructions, not times."
    if report.command:
        yield f"Generated; do not edit. Made by `{report.command}`."
    if report.failures:
        yield "\n".join(_failures_markdown(report.failures))
    if report.left_out:
        yield f"Not made, for the file has no results: {', '.join(report.left_out)}."
    if report.stored:
        yield "\n".join(f"- {line}" for line in report.stored)
    if any(program.stands_for for program in report.programs):
        yield "\n".join(
            [
                "| program | group | replaces |",
                "|---|---|---|",
                *(
                    f"| {_escaped(each.name)} | {each.group} | {_escaped(each.stands_for)} |"
                    for each in report.programs
                ),
            ]
        )
    heads = " | ".join(mark.strip("*") for mark in MARKS.values())
    verdicts = [f"| table | {heads} |", f"|---|{'---:|' * len(MARKS)}"]
    for table in report.tables:
        counts = Counter(claim.verdict for claim in table.claims)
        shown = " | ".join(str(counts[verdict]) for verdict in MARKS)
        verdicts.append(f"| [{table.title}](#{table.name}) | {shown} |")
    yield "\n".join(verdicts)


def _failures_markdown(failures: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, error in failures:
        yield f"- **{_escaped(name)} failed**: {_escaped(error)}"


def render_markdown_table(table: ReportTable) -> str:
    """Return one table."""
    return "\n\n".join(_table_markdown(table)) + "\n"


def _table_markdown(table: ReportTable) -> Iterator[str]:
    yield f'<a id="{table.name}"></a>'
    yield f"## {table.title}"
    yield table.caption
    yield _grid_markdown(table.columns, table.made)
    yield from _failures_markdown(table.failures)
    if table.likeness:
        yield _escaped(in_words(table.likeness))
    if table.claims:
        yield "\n".join(
            f"- {MARKS[claim.verdict]}: {_escaped(claim.text)} — {_escaped(claim.figure)}."
            f"{f' *Why:* {_escaped(claim.why)}' if claim.why else ''}"
            for claim in table.claims
        )
    yield from (f"*{_escaped(note)}*" for note in table.notes)
    if (published := table.published) is not None:
        yield "<details><summary>The paper's numbers</summary>"
        yield f"{published.source}. {published.title}."
        yield _grid_markdown(published.columns, published.rows)
        yield from (f"*{_escaped(note)}*" for note in published.notes)
        yield "</details>"


def _grid_markdown(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> str:
    lines = [
        "| " + " | ".join(_escaped(column.title) for column in columns) + " |",
        "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|",
    ]
    for row in rows:
        mark = "**" if row.kind == "average" else ""
        shown = (f"{mark}{_escaped(text)}{mark}" for text in cells(columns, row))
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    for character in "\\|<>*_`":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


# -- LaTeX ----------------------------------------------------------------------------------------

_SIGNS = {each: f"\\{each}" for each in "&%$#_{}"}
_LATEX = str.maketrans({**_SIGNS, "\\": "\\textbackslash{}", "~": "\\~{}", "^": "\\^{}"})


def render_latex(table: ReportTable) -> str:
    """Return one table as an environment `tabular`, which needs no package."""
    lines = [" & ".join(each.title.translate(_LATEX) for each in table.columns) + r" \\ \hline"]
    for row in table.made:
        texts = (text.translate(_LATEX) for text in cells(table.columns, row))
        if row.kind == "average":
            texts = (rf"\textbf{{{text}}}" if text else "" for text in texts)
        lines.append(" & ".join(texts) + r" \\")
    aligned = "".join("r" if column.numeric else "l" for column in table.columns)
    body = "\n".join(lines)
    return f"% {table.title}\n\\begin{{tabular}}{{{aligned}}}\n{body}\n\\end{{tabular}}\n"
