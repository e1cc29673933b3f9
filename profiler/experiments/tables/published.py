"""The papers' own numbers, as data: read from `fixtures/suites/published/*.toml`.

Each file has one paper's tables: `[[table]]` with `name`, `source`, `title`, `columns` (keys),
`forms`, `titles`, `rows`, `notes`, `family` ("SPEC" if not given). A row's second value is its
group where there is a column "group", or "average". An empty text where a number belongs is a
number that was not printed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from simprof.profiler.experiments.suites.sources import suites_directory
from simprof.profiler.experiments.tables.table import (
    AVERAGE_NAMES,
    Form,
    ReportTable,
    RowKind,
    TableColumn,
    TableRow,
    Value,
)
from simprof.simulator.errors import UsageError

GROUP = "group"


def published(name: str) -> ReportTable | None:
    """Return what the paper prints for our table `name`; None: nothing that is data.

    Raises
    ------
    UsageError
        If the data are missing or are not as they should be.
    """
    return _all(suites_directory() / "published").get(name)


@cache
def _all(directory: Path) -> Mapping[str, ReportTable]:
    found: dict[str, ReportTable] = {}
    for path in sorted(directory.glob("*.toml")):
        for table in read_published(path):
            found[table.name] = table
    return MappingProxyType(found)


def read_published(path: Path) -> tuple[ReportTable, ...]:
    """Read the tables of one file.

    Raises
    ------
    UsageError
        If it cannot be read or is not as it should be.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return tuple(_table(entry) for entry in data["table"])
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        detail = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is not a file of published tables: {detail}") from None


def _table(entry: Mapping[str, Any]) -> ReportTable:
    columns = tuple(
        TableColumn(key, title, Form(form))
        for key, title, form in zip(entry["columns"], entry["titles"], entry["forms"], strict=True)
    )
    shown = tuple(column for column in columns if column.key != GROUP)
    rows = tuple(_row(columns, values) for values in entry["rows"])
    return ReportTable(
        str(entry["name"]),
        str(entry["title"]),
        str(entry["source"]),
        "",
        shown,
        rows,
        notes=tuple(entry.get("notes", ())),
        family=str(entry.get("family", "SPEC")),
    )


def _row(columns: Sequence[TableColumn], values: Sequence[Value]) -> TableRow:
    if len(values) != len(columns):
        raise ValueError(f"row {values[:1]} has {len(values)} values for {len(columns)} columns")
    group, kept = "", []
    for column, value in zip(columns, values, strict=True):
        if column.key == GROUP:
            group = str(value)
        else:
            kept.append(_value(column, value))
    kind: RowKind = "average" if kept[0] in AVERAGE_NAMES else "program"
    if kind == "average":
        group = str(kept[0]).removesuffix("average").strip()
    return TableRow(tuple(kept), kind, group)


def _value(column: TableColumn, value: Value) -> Value:
    if not column.numeric:
        return str(value)
    if value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} in column {column.key} is no number")
    if column.form is Form.COUNT and not isinstance(value, int):
        raise ValueError(f"{value!r} in column {column.key} is no count")
    return value
