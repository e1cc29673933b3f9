"""Columns of declared tables: what each shows of what a row is about."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from simprof.profiler.experiments.cells.cells import CellResult, RoutineRow
from simprof.profiler.experiments.tables.table import Form, TableColumn, Value, ratio
from simprof.profiler.profiles.measures import Quality

Found = Mapping[str, CellResult]  # Results of one program by the table's own name of each need

Subject = TypeVar("Subject")  # What a row is about: `Found`, or what `TableSpec.rows` makes of it


# -- quantities -----------------------------------------------------------------------------------


class Quantity(Generic[Subject]):
    """A number of a row's subject. Arithmetic makes others: None where a part is, or divides by 0.

    `100 * PP.added / PP.base` is PP's overhead in percent.
    """

    def __init__(self, value: Callable[[Subject], Any]) -> None:
        self._value = value

    def __call__(self, subject: Subject) -> Any:
        """Return it for a subject."""
        return self._value(subject)

    def __add__(self, other: Quantity[Subject]) -> Quantity[Subject]:
        return self._with(other, operator.add)

    def __sub__(self, other: Quantity[Subject]) -> Quantity[Subject]:
        return self._with(other, operator.sub)

    def __truediv__(self, other: Quantity[Subject]) -> Quantity[Subject]:
        return self._with(other, ratio)

    def __rmul__(self, factor: int) -> Quantity[Subject]:
        return self._with(Quantity(lambda _: factor), operator.mul)

    def _with(self, other: Quantity[Subject], made: Callable[..., Any]) -> Quantity[Subject]:
        def value(subject: Subject) -> Any:
            parts = self(subject), other(subject)
            return None if None in parts else made(*parts)

        return Quantity(value)


class ResultOf:
    """Quantities of the result of a need."""

    def __init__(self, need: str) -> None:
        self._need = need
        self.base = self.of(lambda result: result.base)
        self.added = self.of(lambda result: result.added)
        self.instructions = self.base + self.added  # Of the instrumented run
        self.overhead = 100 * self.added / self.base
        # Increments of path counters, those of self-loops (EPP 4.1) among them
        self.increments = self.of(increments)
        self.hashed = 100 * self.counts("hashed_increments") / self.increments

    def of(self, value: Callable[[CellResult], Any]) -> Quantity[Found]:
        """Return what a function makes of the result."""
        return Quantity(lambda row: value(row[self._need]))

    def counts(self, name: str) -> Quantity[Found]:
        """Return one of its `counts`."""
        return self.of(lambda result: result.counts[name])

    def sizes(self, name: str) -> Quantity[Found]:
        """Return one of its `sizes`."""
        return self.of(lambda result: result.sizes[name])

    def seconds(self, name: str) -> Quantity[Found]:
        """Return a field of its `timing`."""
        return self.of(lambda result: getattr(result.timing, name))

    def total(
        self,
        name: str,
        among: Callable[[CellResult], Sequence[RoutineRow]] = lambda result: result.routines,
    ) -> Quantity[Found]:
        """Return the sum of a field of its routines."""
        return self.of(lambda result: sum(getattr(row, name) for row in among(result)))


def in_percent(found: Quality | None, measure: str) -> float | None:
    """Return one of `measures.MEASURES` in percent; None where nothing judges the profile."""
    value = None if found is None else getattr(found, measure)
    return None if value is None else 100 * value


def increments(result: CellResult) -> int:
    """Return increments of path counters, those of self-loops (EPP 4.1) among them."""
    # The papers do not say whether they count the latter. That EPP's instructions by increment
    # (table 1) agree with the length of an average path (table 2), and that even programs of
    # one-block loops execute hardly more edge than path increments, says that it does.
    return result.counts["path_increments"] + result.counts["edge_increments"]


def own_routines(result: CellResult) -> Sequence[RoutineRow]:
    """Return the program's own routines, not those of its libraries.

    A program in which none can be told (without -g) is its own in whole.
    """
    return [row for row in result.routines if row.own] or result.routines


# -- columns --------------------------------------------------------------------------------------


class ColumnSpec(TableColumn, Generic[Subject], frozen=True, kw_only=True):
    """A column with what it shows of a row's subject."""

    value: Callable[[Subject], Value] = lambda _: None
    predicts: str = ""  # Name of the need whose prediction it shows; then `value` reads only that.


# The first column of every table, the name of the row's program.
PROGRAM: ColumnSpec[Any] = ColumnSpec("program", "program")


def count(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of integers."""
    return ColumnSpec(key, title, Form.COUNT, value=value)


def total(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of integers whose average over programs means nothing."""
    return ColumnSpec(key, title, Form.COUNT, value=value, average=False)


def percent(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of percentages."""
    return ColumnSpec(key, title, Form.PERCENT, value=value)


def share(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of percentages that may be small."""
    return ColumnSpec(key, title, Form.SHARE, value=value)


def factor(
    key: str, title: str, value: Callable[[Subject], Value], *, average: bool = True
) -> ColumnSpec[Subject]:
    """Return a column of ratios with two digits after the point."""
    return ColumnSpec(key, title, Form.RATIO, value=value, average=average)


def decimal(
    key: str,
    title: str,
    value: Callable[[Subject], Value],
    *,
    average: bool = True,
    quotient: bool = False,
) -> ColumnSpec[Subject]:
    """Return a column of numbers with one digit after the point."""
    return ColumnSpec(key, title, Form.DECIMAL, value=value, average=average, quotient=quotient)


def seconds(key: str, title: str, value: Callable[[Subject], Value]) -> ColumnSpec[Subject]:
    """Return a column of times."""
    return ColumnSpec(key, title, Form.SECONDS, value=value)


def of_overhead(
    need: str, title: str, *, key: str = "", executed: bool = False
) -> ColumnSpec[Found]:
    """Return the column of a need's overhead; `executed`: with what was executed beside it."""
    value, predicts = ResultOf(need).overhead, need if executed else ""
    return ColumnSpec(key or need, title, Form.PERCENT, value=value, predicts=predicts)


def of_quality(need: str, measure: str, title: str, *, key: str = "") -> ColumnSpec[Found]:
    """Return the column of how good a need's profile is, by one of `measures.MEASURES`."""
    value = ResultOf(need).of(lambda result: in_percent(result.quality, measure))
    return percent(key or f"{need}_{measure}", title, value)


def of_normalised(need: str, title: str, *, executed: bool = False) -> ColumnSpec[Found]:
    """Return the column of a need's instructions by those of the run without profiling."""
    result, predicts = ResultOf(need), need if executed else ""
    value = result.instructions / result.base
    return ColumnSpec(need, title, Form.RATIO, value=value, predicts=predicts)
