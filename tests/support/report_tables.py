"""Rows of routines and small tables, with nothing in them but what a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simprof.profiler.experiments.cells.cells import CellDocument, RoutineFigures, found, pack
from simprof.profiler.experiments.tables.averages import with_averages
from simprof.profiler.experiments.tables.table import (
    Form,
    ReportTable,
    TableColumn,
    TableRow,
)
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.codec import encode

COLUMNS = (
    TableColumn("program", "program"),
    TableColumn("x", "X %", Form.PERCENT),
    TableColumn("n", "N", Form.COUNT, average=False),
)


def routine(
    name: str, table: CounterTable, address: int = 0, paths: int | None = 10, **numbers: Any
) -> RoutineFigures:
    """A routine with the given numbers and nothing else of interest."""
    plain: dict[str, Any] = {"potential_paths": 10}
    return RoutineFigures(
        name, f"{address:#x}", table=str(table), numbered_paths=paths, **(plain | numbers)
    )


def document_of(
    base: int = 0,
    added: int = 0,
    error: str | None = None,
    routines: Sequence[RoutineFigures] = (),
    paths: Mapping[str, tuple[int, int]] | None = None,
    timing: Mapping[str, float | None] | None = None,
    **parts: Any,
) -> CellDocument:
    """The document of a cell with the given figures and parts, and nothing else."""
    lists = pack([encode(each) for each in routines], (), paths)
    return CellDocument(found(base, added, error, **parts), lists, timing or {})


def small(*rows: TableRow, **more: Any) -> ReportTable:
    return ReportTable(
        "t", "Title", "Paper", "Caption.", COLUMNS, with_averages(COLUMNS, rows), **more
    )


def program_row(name: str, group: str, x: float | None, n: int = 1) -> TableRow:
    return TableRow((name, x, n), "program", group)
