"""Annotated source and code as CSV: a row for each line that has code, branch, and instruction.

`kind` says which it is, so that nothing is added up twice: the instructions of a line are not
below it, unless a routine's code is shown beside source.
"""

from __future__ import annotations

from collections.abc import Iterator

from simprof.profiler.profiles.code_counts import Branch
from simprof.profiler.reports import csv_text
from simprof.profiler.reports.annotation import Annotation, CodeView, SourceView
from simprof.profiler.reports.csv_text import Cell
from simprof.simulator.binary.demangling import demangle

COLUMNS = (
    "kind", "file", "line", "routine", "symbol", "address", "executions", "base", "added",
    "taken", "not_taken", "instruction", "source", "code",
)  # fmt: skip


def render(annotation: Annotation) -> str:
    """Return the CSV: columns `COLUMNS`.

    An instruction's `base` is how often it was executed; `taken` and `not_taken` are those of
    conditional branches. `code` is that of `profiles.lines.Placing`.
    """
    return csv_text.render(COLUMNS, _rows(annotation))


def _rows(annotation: Annotation) -> Iterator[tuple[Cell, ...]]:
    for view in annotation.views:
        yield from _lines(view) if isinstance(view, SourceView) else _instructions(view)


def _lines(view: SourceView) -> Iterator[tuple[Cell, ...]]:
    for row in view.rows:
        if row.counts is None:
            continue
        place, counts = (view.file, row.number), row.counts
        sums = (counts.executions, counts.base, counts.added)
        yield ("line", *place, None, None, None, *sums, None, None, None, row.text, row.placing)
        for branch in counts.branches:
            empty = (None, None, None)
            yield (
                "branch",
                *place,
                None,
                None,
                branch.address,
                *empty,
                *_sides(branch),
                None,
                None,
                None,
            )


def _instructions(view: CodeView) -> Iterator[tuple[Cell, ...]]:
    symbol = view.code.profile.name
    names = demangle(symbol), symbol
    for row in view.rows:
        place = (None, None) if row.line is None else (row.line.file, row.line.line)
        counts = (row.executions, row.executions, row.added)
        sides = _sides(row.branch)
        texts = (row.text, row.source, None)
        yield ("instruction", *place, *names, row.address, *counts, *sides, *texts)


def _sides(branch: Branch | None) -> tuple[int | None, int | None]:
    return (None, None) if branch is None else (branch.taken, branch.not_taken)
