"""The columns "executed": what instrumented programs executed beside what was predicted.

A table that says which of its columns are predictions (`TableSpec.predictions`) gets a column
beside each, in the same unit, of what the code really executed in the programs that are chosen, and
a last one with the instructions by which the two differ. A program where they do differ has an
error in its row, but keeps its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from simprof.profiler.experiments.cells.cells import ALONE_ROUTINES, PREDICTED, CellResult
from simprof.profiler.experiments.tables.table import EXECUTED, Form, TableColumn, TableRow, Value

OFF = "off"
"""Key of the last column."""
ELSEWHERE = 1e-3
"""Share of base by which two runs of a program may differ because its file lies elsewhere: the C
library copies its path at the start, which takes some more instructions where that is longer."""
CAPTION = (
    " Executed: the same, counted while the instrumented program ran, without what rewriting "
    "itself costs; of the programs for which this is done. Routines that are left alone have no "
    "code that could execute. Off: by how many instructions executed and predicted differ in the "
    "others, over all of the row."
)


@dataclass(frozen=True)
class Prediction:
    """A column that shows a prediction."""

    need: str  # Name of the need that it is made of
    unit: Callable[[CellResult], float | None]  # Makes the column's number of a result


Predictions = Mapping[str, Prediction]
"""By the column's key."""


def executed_columns(
    columns: Sequence[TableColumn], predictions: Predictions
) -> tuple[TableColumn, ...]:
    """Return columns with those of what was executed among them."""

    def made() -> Iterator[TableColumn]:
        for column in columns:
            yield column
            if column.key in predictions:
                yield TableColumn(f"{column.key}{EXECUTED}", "executed", column.form)
        yield TableColumn(OFF, "off", Form.COUNT, average=False)

    return tuple(made())


def executed_row(
    row: TableRow,
    columns: Sequence[TableColumn],
    predictions: Predictions,
    predicted: Mapping[str, CellResult],
    found: Mapping[str, CellResult],
) -> TableRow:
    """Return a program's row with what was executed.

    - `columns`: Of `row`.
    - `predicted`: Results of the predictions, by need.
    - `found`: Results of the instrumented programs, by need; {}: none was run.
    """
    if row.kind == "failed":
        return TableRow(
            (*row.values, *[None] * (len(predictions) + 1)), "failed", row.group, row.error
        )
    values: list[Value] = []
    for column, value in zip(columns, row.values, strict=True):
        values.append(value)
        if column.key in predictions:
            values.append(_executed(predictions[column.key], found))
    ran = {need: result for need, result in found.items() if not result.failed}
    off = sum(abs(each.added - each.counts[PREDICTED]) for each in ran.values()) if ran else None
    return TableRow((*values, off), row.kind, row.group, _error(predicted, found))


def _executed(prediction: Prediction, found: Mapping[str, CellResult]) -> Value:
    result = found.get(prediction.need)
    return None if result is None or result.failed else prediction.unit(result)


def _error(predicted: Mapping[str, CellResult], found: Mapping[str, CellResult]) -> str | None:
    """Say what was otherwise than predicted, in one line."""
    lines = (
        f"executed under {need}: {line}"
        for need, result in found.items()
        for line in problems(result, predicted[need])
    )
    return "; ".join(lines) or None


def problems(result: CellResult, predicted: CellResult | None = None) -> Iterator[str]:
    """Yield what is not as it should be with a run of an instrumented program.

    `predicted`: The result whose prediction stands beside it; None: its own.
    """
    if result.error is not None:
        yield result.error
        return
    yield from result.differences
    if predicted is None:
        return
    for what, here, there in _compared(result, predicted):
        if abs(here - there) > ELSEWHERE * predicted.base:
            yield f"{what} {here:,} instructions there, not {there:,}"


def _compared(result: CellResult, predicted: CellResult) -> Iterator[tuple[str, int, int]]:
    yield "base is", result.base, predicted.base
    if not result.counts[ALONE_ROUTINES]:
        yield "predicted were", result.counts[PREDICTED], predicted.added
