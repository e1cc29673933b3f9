"""Columns of declared tables: what each shows of what a row is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from simprof.profiler.experiments.cells.cells import CellResult, RoutineRow
from simprof.profiler.experiments.tables.table import (
    Form,
    TableColumn,
    Value,
    percentage,
    ratio,
)
from simprof.simulator.values import dataclass

Found = Mapping[str, CellResult]  # Results of one program by the table's own name of each need

Subject = TypeVar("Subject")  # What a row is about: `Found`, or what `TableSpec.rows` makes of it


@dataclass(frozen=True)
class ColumnSpec(TableColumn, Generic[Subject]):
    """A column with what it shows of a row's subject."""

    value: Callable[[Subject], Value] = lambda _: None
    predicts: str = ""  # Name of the need whose prediction it shows; then `value` reads only that.


# The first column of every table, the name of the row's program.
PROGRAM: ColumnSpec[Any] = ColumnSpec("program", "program")


def count(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of integers."""
    return ColumnSpec(key, title, Form.COUNT, value)


def total(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of integers whose average over programs means nothing."""
    return ColumnSpec(key, title, Form.COUNT, value, average=False)


def percent(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of percentages."""
    return ColumnSpec(key, title, Form.PERCENT, value)


def share(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of percentages that may be small."""
    return ColumnSpec(key, title, Form.SHARE, value)


def factor(
    key: str, title: str, value: Callable[[Subject], Value], *, average: bool = True
) -> ColumnSpec[Subject]:
    """Return a column of ratios with two digits after the point."""
    return ColumnSpec(key, title, Form.RATIO, value, average=average)


def decimal(
    key: str,
    title: str,
    value: Callable[[Subject], Value],
    *,
    average: bool = True,
    quotient: bool = False,
) -> ColumnSpec[Subject]:
    """Return a column of numbers with one digit after the point."""
    return ColumnSpec(key, title, Form.DECIMAL, value, average=average, quotient=quotient)


def seconds(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of times."""
    return ColumnSpec(key, title, Form.SECONDS, value)


def of_overhead(
    need: str, title: str, *, key: str = "", executed: bool = False
) -> ColumnSpec[Found]:
    """Return the column of a need's overhead; `executed`: with what was executed beside it."""
    predicts = need if executed else ""
    return ColumnSpec(
        key or need, title, Form.PERCENT, lambda row: overhead(row[need]), predicts=predicts
    )


def of_normalised(need: str, title: str, *, executed: bool = False) -> ColumnSpec[Found]:
    """Return the column of a need's instructions by those of the run without profiling."""
    predicts = need if executed else ""
    return ColumnSpec(need, title, Form.RATIO, lambda row: normalised(row[need]), predicts=predicts)


# -- expressions ----------------------------------------------------------------------------------


def overhead(result: CellResult) -> float | None:
    """Added instructions in percent of the uninstrumented run's."""
    return percentage(result.added, result.base)


def normalised(result: CellResult) -> float | None:
    """Return the instrumented run's instructions by the uninstrumented run's."""
    return ratio(result.base + result.added, result.base)


def increments(result: CellResult | RoutineRow) -> int:
    """Return increments of path counters, those of self-loops (EPP 4.1) among them."""
    # The papers do not say whether they count the latter. That EPP's instructions by increment
    # (table 1) agree with the length of an average path (table 2), and that even programs of
    # one-block loops execute hardly more edge than path increments, says that it does.
    if isinstance(result, RoutineRow):
        return result.path_increments + result.edge_increments
    return result.counts["path_increments"] + result.counts["edge_increments"]


def scope(routines: Sequence[RoutineRow], *, own: bool) -> list[RoutineRow]:
    """Return the routines that a number is about: the program's own, or all of the binary.

    A program in which none can be told (without -g) is its own in whole.
    """
    found = [row for row in routines if row.own]
    return found if own and found else list(routines)


def hashed(result: CellResult) -> float | None:
    """Return the share of increments that call the hashing routine, in percent."""
    return percentage(result.counts["hashed_increments"], increments(result))
