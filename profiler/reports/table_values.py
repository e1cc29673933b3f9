"""Values of tables as people read them, shared by all renderings of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simprof.profiler.experiments.tables.table import Column, Form, Row, Value
from simprof.profiler.reports.display import group_digits

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


def cells(columns: Sequence[Column], row: Row) -> tuple[str, ...]:
    """Return a row's values as text; a failed row has its error in the second column."""
    if row.kind == "failed":
        return (str(row.values[0]), f"failed: {row.error}", *[""] * (len(columns) - 2))
    return tuple(
        shown(value, column.form) for value, column in zip(row.values, columns, strict=True)
    )
