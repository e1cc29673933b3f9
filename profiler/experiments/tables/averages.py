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
from collections.abc import Iterator, Mapping, Sequence
from statistics import StatisticsError, correlation, fmean, geometric_mean

from msgspec.structs import replace

from simprof.profiler.experiments.tables.table import (
    AVERAGE_NAMES,
    EXECUTED,
    FEWEST,
    GROUPS,
    ROUTINE,
    Form,
    Likeness,
    ReportTable,
    TableColumn,
    TableRow,
    Value,
    as_number,
    once,
    program_key,
)

PAPER_COLUMN = ":paper"  # Ends the keys of columns with the paper's numbers
GEOMETRIC = "geometric mean"

# -- averages -------------------------------------------------------------------------------------


def with_averages(columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Group rows and add their averages: INT, its means, FP, its means, the means of all.

    A group of one program or none has no average of its own.
    """
    made: list[TableRow] = []
    for group, name in zip(GROUPS, AVERAGE_NAMES, strict=False):
        members = [row for row in rows if row.group == group]
        made += [*members, *_averages(name, group, columns, members)]
    made += (row for row in rows if row.group not in GROUPS)
    return (*made, *_averages(AVERAGE_NAMES[-1], "", columns, rows))


def _averages(
    name: str, group: str, columns: Sequence[TableColumn], rows: Sequence[TableRow]
) -> Iterator[TableRow]:
    members = [row for row in rows if row.kind == "program" and row.judged]
    if len(members) < 2:
        return
    averaged = [
        at
        for at, column in enumerate(columns)
        if column.numeric
        and column.average
        and any(_number(row, at) is not None for row in members)
    ]
    complete = [row for row in members if None not in (_number(row, at) for at in averaged)]
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
    """Yield the row of means, and that of geometric means of quotients."""
    found = {
        at: [(row.program, made) for row in rows if (made := _number(row, at)) is not None]
        for at in averaged
    }
    full = {at: numbers for at, numbers in found.items() if len(numbers) == len(rows)}
    quotients = {
        at: numbers
        for at, numbers in full.items()
        if (columns[at].quotient or columns[at].form is Form.RATIO)
        and all(each > 0 for _, each in numbers)
    }
    named = name.replace(AVERAGE_NAMES[-1], GEOMETRIC)
    for title, of, statistic in ((name, full, fmean), (named, quotients, geometric_mean)):
        if of or title == name:
            means = (statistic(once(of[at])) if at in of else None for at in range(1, len(columns)))
            yield TableRow((title, *means), "average", group)


def _number(row: TableRow, position: int) -> float | None:
    """Return a row's number in a column; None where it has none, or one that is infinite."""
    found = as_number(row.values[position])
    return found if found is not None and math.isfinite(found) else None


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
    theirs = table.published
    if theirs is None:
        return table
    printed = {column.key for column in theirs.columns[1:]} - {ROUTINE}
    known = {(program_key(str(row.values[0])), _routine(theirs, row)): row for row in theirs.rows}
    partners: list[TableRow | None] = []
    for row in table.rows:
        names = matches.get(str(row.values[0]), ())
        candidates = ((program_key(each), _routine(table, row)) for each in names)
        partners.append(next((known[each] for each in candidates if each in known), None))
    if not any(partners):
        return table
    keys = {column.key for column in table.columns}
    columns: list[TableColumn] = []
    places: list[tuple[bool, int]] = []  # Whether a value is ours, and where it is
    for position, column in enumerate(table.columns):
        columns.append(column)
        places.append((True, position))
        key = column.key.removesuffix(EXECUTED)
        # The paper's is behind what was executed.
        if key in printed and not (column.key == key and f"{key}{EXECUTED}" in keys):
            named = f"{key}{PAPER_COLUMN}", "(paper)"
            columns.append(TableColumn(*named, column.form, column.average, column.quotient))
            places.append((False, theirs.index(key)))
    rows = [
        replace(row, values=tuple(_placed(row if ours else partner, at) for ours, at in places))
        for row, partner in zip(table.rows, partners, strict=True)
    ]
    return replace(table, columns=tuple(columns), rows=tuple(rows))


def _routine(table: ReportTable, row: TableRow) -> str:
    return str(table.by_key(row).get(ROUTINE, ""))


def _placed(row: TableRow | None, position: int) -> Value:
    return None if row is None else row.values[position]


# -- likeness -------------------------------------------------------------------------------------

MUCH = 0.7  # Rank correlation from which on two orders are called much alike


def likeness(table: ReportTable) -> tuple[Likeness, ...]:
    """Return how alike the order of programs is to the paper's, by column."""
    titles = {column.key: column.title for column in table.columns}
    found = []
    for paper in (key for key in titles if key.endswith(PAPER_COLUMN)):
        key = paper.removesuffix(PAPER_COLUMN)
        ours, theirs = table.index(key), table.index(paper)
        both = [
            (f"{row.program} {_routine(table, row)}", one, two)
            for row in table.judged
            if (one := _number(row, ours)) is not None and (two := _number(row, theirs)) is not None
        ]
        sides = (
            once((name, one) for name, one, _ in both),
            once((name, two) for name, _, two in both),
        )
        value = spearman(list(zip(*sides, strict=True)))
        count = len(sides[0])
        found.append(Likeness(key, titles[key], count, value, _words(value, count)))
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
