"""Rows of routines and small tables, with nothing in them but what a test is about."""

from __future__ import annotations

from typing import Any

from simprof.profiler.experiments.cells.cells import RoutineRow
from simprof.profiler.experiments.tables.averages import with_averages
from simprof.profiler.experiments.tables.table import (
    Form,
    ReportTable,
    TableColumn,
    TableRow,
)
from simprof.profiler.plan.plan import CounterTable

COLUMNS = (
    TableColumn("program", "program"),
    TableColumn("x", "X %", Form.PERCENT),
    TableColumn("n", "N", Form.COUNT, average=False),
)


def routine(name: str, table: CounterTable, **numbers: Any) -> RoutineRow:
    """A routine with the given numbers and nothing else of interest."""
    plain: dict[str, Any] = {
        "address": 0, "potential_paths": 10, "num_paths": 10,
        "instrumented_edges": None, "no_jump_edges": None,
    }  # fmt: skip
    return RoutineRow(name, table=table, **(plain | numbers))


def small(*rows: TableRow, **more: Any) -> ReportTable:
    return ReportTable(
        "t", "Title", "Paper", "Caption.", COLUMNS, with_averages(COLUMNS, rows), **more
    )


def program_row(name: str, group: str, x: float | None, n: int = 1) -> TableRow:
    return TableRow((name, x, n), "program", group)
