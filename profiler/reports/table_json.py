"""Tables of experiments as JSON (schema simprof/tables/1)."""

from __future__ import annotations

import json
import math
from typing import Any

from simprof.profiler.experiments.tables.report import TableReport
from simprof.profiler.experiments.tables.table import ReportTable, Row, Value

SCHEMA = "simprof/tables/1"


def render(report: TableReport) -> str:
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
        "tables": [_table(table) for table in report.tables],
        "left_out": list(report.left_out),
        "stored": list(report.stored),
        "failures": [{"program": name, "error": error} for name, error in report.failures],
    }
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _table(table: ReportTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "source": table.source,
        "caption": table.caption,
        "columns": [
            {"key": each.key, "title": each.title, "form": each.form.value}
            for each in table.columns
        ],
        "rows": [_row(table, row) for row in table.rows],
        "published": None if table.published is None else _table(table.published),
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


def _row(table: ReportTable, row: Row) -> dict[str, Any]:
    keys = (column.key for column in table.columns)
    values = {key: _value(value) for key, value in zip(keys, row.values, strict=True)}
    return {"kind": row.kind, "group": row.group, "error": row.error, "values": values}


def _value(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
