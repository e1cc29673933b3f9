"""Rows of averages, the paper's numbers beside ours, and how alike the two are.

- Averages are of one kind, the papers' (arithmetic means of the rows' values, ratios included, each
  program the same weight however long it runs), and over the same programs in every column. Where
  some programs have no number in a column (one that was not instrumented and run, one that hashes
  nothing), it has no average; a row "average of 7" is then over those that have all numbers. Beside
  them stand geometric means of ratios, which do not depend on what is divided by what.
- Programs that stand in for one original count as one, and those that stand in for none of the
  paper's do not count (`TableRow.judged`).
- Likeness is Spearman's rank correlation: whether programs are in the order of their originals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import StatisticsError, correlation, fmean, geometric_mean

from msgspec.structs import replace

from simprof.profiler.experiments.tables.table import (
    AVERAGE_NAMES,
    EXECUTED,
    FEWEST,
    Form,
    Likeness,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    as_float,
    once,
    program_key,
)

PAPER_COLUMN = ":paper"  # Ends the keys of columns with the paper's numbers
GEOMETRIC = "geometric mean"
ROUTINE = "routine"  # Key of the column that tells rows of one program apart

# -- averages -------------------------------------------------------------------------------------


def with_averages(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Group rows and add their averages: INT, its means, FP, its means, the means of all.

    A group of one program or none has no average of its own.
    """
    made: list[TableRow] = []
    groups = ("INT", "FP")
    for group, name in zip(groups, AVERAGE_NAMES, strict=False):
        members = [row for row in rows if row.group == group]
        made.extend(members)
        made.extend(_averages(name, group, columns, members))
    made.extend(row for row in rows if row.group not in groups)
    made.extend(_averages(AVERAGE_NAMES[-1], "", columns, rows))
    return tuple(made)


def _averages(
    name: str, group: str, columns: Sequence[TableColumn], rows: Sequence[TableRow]
) -> Iterator[TableRow]:
    members = [row for row in rows if row.kind == "program" and row.judged]
    if len(members) < 2:
        return
    averaged = [
        position
        for position, column in enumerate(columns)
        if column.numeric and column.average and any(_has(row, position) for row in members)
    ]
    complete = [row for row in members if all(_has(row, position) for position in averaged)]
    yield from _means(name, group, columns, averaged, members)
    if 1 < len(complete) < len(members):
        count = len({row.program for row in complete})
        yield from _means(f"{name} of {count}", group, columns, averaged, complete)


def _means(
    name: str,
    group: str,
    columns: Sequence[TableColumn],
    averaged: Sequence[int],  # Positions of columns with averages
    rows: Sequence[TableRow],
) -> Iterator[TableRow]:
    full = [position for position in averaged if all(_has(row, position) for row in rows)]
    quotients = [
        position
        for position in full
        if (columns[position].quotient or columns[position].form is Form.RATIO)
        and all(_number(row, position) > 0 for row in rows)
    ]
    yield _mean(name, group, columns, full, rows, fmean)
    if quotients:
        named = name.replace(AVERAGE_NAMES[-1], GEOMETRIC)
        yield _mean(named, group, columns, quotients, rows, geometric_mean)


def _mean(
    name: str,
    group: str,
    columns: Sequence[TableColumn],
    positions: Sequence[int],
    rows: Sequence[TableRow],
    statistic: Callable[[list[float]], float],
) -> TableRow:
    values: list[Value] = [None] * len(columns)
    values[0] = name
    for position in positions:
        values[position] = statistic(once((row.program, _number(row, position)) for row in rows))
    return TableRow(tuple(values), "average", group)


def _has(row: TableRow, position: int) -> bool:
    value = row.values[position]
    return isinstance(value, int | float) and math.isfinite(as_float(value))


def _number(row: TableRow, position: int) -> float:
    value = row.values[position]
    return as_float(value) if isinstance(value, int | float) else math.nan


# -- the paper's numbers --------------------------------------------------------------------------


def beside(table: ReportTable, matches: Mapping[str, Sequence[str]]) -> ReportTable:
    """Set the paper's numbers beside ours, in columns of their own.

    `matches`: Name of a program -> names of the paper's programs that it stands in for. Where rows
    are of routines, a routine's name is the paper's.

    Returns
    -------
    Table
        `table` itself where the paper has no program that one of ours stands in for.
    """
    published = table.published
    if published is None or not table.compared:
        return table
    rows = {
        (program_key(str(row.values[0])), _routine(published, row)): row for row in published.rows
    }
    partners: list[TableRow | None] = []
    for row in table.rows:
        names = matches.get(str(row.values[0]), ())
        candidates = ((program_key(each), _routine(table, row)) for each in names)
        partners.append(next((rows[each] for each in candidates if each in rows), None))
    if not any(partners):
        return table
    return _merged(table, published, partners)


def _routine(table: ReportTable, row: TableRow) -> str:
    return str(table.by_key(row).get(ROUTINE, ""))


def _merged(
    table: ReportTable, published: ReportTable, partners: Sequence[TableRow | None]
) -> ReportTable:
    columns: list[TableColumn] = []
    values: list[list[Value]] = [[] for _ in table.rows]
    keys = {column.key for column in table.columns}
    for position, column in enumerate(table.columns):
        columns.append(column)
        for made, row in zip(values, table.rows, strict=True):
            made.append(row.values[position])
        key = column.key.removesuffix(EXECUTED)
        if key not in table.compared or (column.key == key and f"{key}{EXECUTED}" in keys):
            continue  # the paper's is behind what was executed
        theirs = published.index(key)
        columns.append(
            TableColumn(
                f"{key}{PAPER_COLUMN}",
                "(paper)",
                column.form,
                average=column.average,
                quotient=column.quotient,
            )
        )
        for made, partner in zip(values, partners, strict=True):
            made.append(None if partner is None else partner.values[theirs])
    rows = tuple(
        replace(row, values=tuple(made)) for row, made in zip(table.rows, values, strict=True)
    )
    return replace(table, columns=tuple(columns), rows=rows)


# -- likeness -------------------------------------------------------------------------------------

MUCH = 0.7  # Rank correlation from which on two orders are called much alike


def likeness(table: ReportTable) -> tuple[Likeness, ...]:
    """Return how alike the order of programs is to the paper's, by column."""
    titles = {column.key: column.title for column in table.columns}
    found = []
    for column in table.columns:
        if not column.key.endswith(PAPER_COLUMN):
            continue
        key = column.key.removesuffix(PAPER_COLUMN)
        ours, theirs = table.index(key), table.index(column.key)
        both = [
            (f"{row.program} {_routine(table, row)}", _number(row, ours), _number(row, theirs))
            for row in table.judged
            if _has(row, ours) and _has(row, theirs)
        ]
        pairs = list(
            zip(
                once((name, one) for name, one, _ in both),
                once((name, two) for name, _, two in both),
                strict=True,
            )
        )
        value = spearman(pairs)
        found.append(Likeness(key, titles[key], len(pairs), value, _words(value, len(pairs))))
    return tuple(found)


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the rank correlation of pairs, equal numbers at the mean of their ranks.

    None where one side is all alike, or there are fewer than two.
    """
    ones, twos = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
    try:
        return correlation(ones, twos)
    except StatisticsError:
        return None


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(each) + (ordered.count(each) - 1) / 2 for each in values]


def _words(value: float | None, count: int) -> str:
    if count < FEWEST:
        return "too few programs"
    if value is None:
        return "all alike, so there is no order"
    # Without any likeness one value in twenty is beyond this: the spread is 1/sqrt(n - 1).
    chance = 1.96 / math.sqrt(count - 1)
    if abs(value) < chance:
        return f"no more than chance: below {chance:.2f}"
    if value < 0:
        return "the opposite order"
    return "much alike" if value >= MUCH else "alike in part"


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
