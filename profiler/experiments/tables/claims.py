"""Judging claims: what is measured, the bound that it must keep, the rows that decide a failure.

A claim is judged by conditions (`conditions.Condition`). Verdict, figure, rule and reason are all
made of them; a reason names rows of the table and says nothing that the table does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from simprof.profiler.experiments.tables.conditions import (
    Condition,
    CountCondition,
    Member,
    Relation,
    count_of,
    member,
    within,
)
from simprof.profiler.experiments.tables.table import (
    Claim,
    ReportTable,
    TableRow,
    Verdict,
    as_float,
)
from simprof.profiler.experiments.tables.written import extremes, number

NO_GROUPS = "the table has results of fewer than two programs in one of the groups INT and FP"
NO_PROGRAMS = "the table has no result of a program that this is about"

ABOVE, AT_LEAST = Relation.ABOVE, Relation.AT_LEAST
BELOW, AT_MOST = Relation.BELOW, Relation.AT_MOST


def untestable(text: str, reason: str) -> Claim:
    """Return a claim that cannot be tested, and why."""
    return Claim(text, Verdict.UNTESTABLE, reason)


def judge(text: str, *conditions: Condition | None, absent: str = NO_PROGRAMS) -> Claim:
    """Return a claim that holds if all conditions do.

    `conditions`: None: there were no numbers to judge by. `absent`: Why the claim is not testable
    then.
    """
    found = tuple(each for each in conditions if each is not None)
    if not found or len(found) < len(conditions):
        return untestable(text, absent)
    figures = "; ".join(dict.fromkeys(each.figure for each in found))
    rules = " and ".join(each.rule if len(found) == 1 else each.named_rule for each in found)
    failing = [each for each in found if not each.holds]
    return Claim(
        text,
        Verdict.FAILS if failing else Verdict.HOLDS,
        f"{figures}; rule: {rules}",
        ". ".join(each.reason for each in failing),
        found,
    )


# -- conditions of one column ---------------------------------------------------------------------


def members(
    table: ReportTable,
    key: str,
    relation: Relation,
    bound: float,
    unit: str = "",
    group: str = "",
    others: tuple[str, ...] = (),
) -> tuple[Member, ...]:
    """Return each program's part in a condition on a column (of `group` only).

    `others`: Keys of columns whose numbers are shown beside.
    """
    found = []
    for row in programs(table):
        shown = value(table, row, key)
        if shown is not None and group in ("", row.group):
            more = beside(table, row, others)
            found.append(member(str(row.values[0]), shown, relation, bound, unit, more))
    return tuple(found)


def beside(table: ReportTable, row: TableRow, keys: Iterable[str]) -> str:
    """Return numbers of a row with their columns' titles: "inst/inc 15.2, hashed % 3"."""
    titles = {column.key: column.title for column in table.columns}
    return ", ".join(f"{titles[key]} {number(value(table, row, key))}" for key in keys)


def mean_is(
    table: ReportTable,
    key: str,
    relation: Relation,
    bound: float,
    unit: str = "",
    *,
    what: str = "mean",
    group: str = "",
    others: tuple[str, ...] = (),
) -> Condition | None:
    """Require a bound of the mean of a column; None where the column has no number."""
    found = table.values(key, group)
    if not found:
        return None
    parts = members(table, key, relation, bound, unit, group, others)
    return Condition(
        what, fmean(found), relation, bound, unit, remark=extremes(found, unit), members=parts
    )


def mean_within(
    table: ReportTable,
    key: str,
    low: float,
    high: float,
    unit: str = "",
    *,
    others: tuple[str, ...] = (),
) -> Condition | None:
    """Require that the mean of a column lies in a range; None where the column has no number."""
    parts = [
        (str(row.values[0]), shown, beside(table, row, others))
        for row in programs(table)
        if (shown := value(table, row, key)) is not None
    ]
    remark = extremes((each for _, each, _ in parts), unit)
    return within("mean", table.mean(key), low, high, unit, remark=remark, parts=parts)


def each_is(
    table: ReportTable,
    key: str,
    relation: Relation,
    bound: float,
    unit: str = "",
    *,
    what: str = "",
    group: str = "",
    others: tuple[str, ...] = (),
) -> Condition | None:
    """Require a bound of every number of a column; None where it has no number."""
    found = table.values(key, group)
    if not found:
        return None
    furthest = min(found) if relation.wants_more else max(found)
    word = "lowest" if relation.wants_more else "highest"
    return Condition(
        f"{what} {word}".strip(),
        furthest,
        relation,
        bound,
        unit,
        remark=extremes(found, unit, bound),
        scope="in each",
        members=members(table, key, relation, bound, unit, group, others),
    )


# -- conditions of two numbers --------------------------------------------------------------------


def value_is(
    what: str,
    measured: float | None,
    relation: Relation,
    bound: float,
    unit: str = "",
    *,
    remark: str = "",
    parts: Iterable[Member] = (),
) -> Condition | None:
    """Require a bound of a number that was put together of several; None where there is none."""
    if measured is None:
        return None
    return Condition(what, measured, relation, bound, unit, remark=remark, members=tuple(parts))


def differs(
    first: tuple[str, float | None],
    relation: Relation,
    second: tuple[str, float | None],
    unit: str = "",
    *,
    remark: str = "",
    parts: Iterable[Member] = (),
) -> Condition | None:
    """Require an order of two measured numbers, each with its name; None where one is absent."""
    (what, one), (against, two) = first, second
    if one is None or two is None:
        return None
    return Condition(what, one, relation, two, unit, against, remark, members=tuple(parts))


def ordered(
    rows: Iterable[tuple[str, float, float]],
    relation: Relation,
    titles: tuple[str, str] = ("", ""),
    unit: str = "",
) -> list[Member]:
    """Return rows' parts in an order of two of their numbers.

    `rows`: As `pairs` has them. `titles`: What is said before each number.
    """
    made = []
    for name, one, two in rows:
        alone = Condition(titles[0], one, relation, two, unit, titles[1] or "against")
        miss = relation.miss(one, two)
        made.append(Member(name, alone.figure.strip(), alone.holds, miss))
    return made


def fraction(part: int, of: int, count: int) -> int:
    """Return the least number of `count` rows that is `part / of` of them, one at least."""
    return max(1, -(-part * count // of))


def half(count: int) -> int:
    """Return the least number that is half of `count`."""
    return fraction(1, 2, count)


def most(count: int) -> int:
    """Return the least number that is more than half of `count`."""
    return count // 2 + 1


# -- groups ---------------------------------------------------------------------------------------


def group_means(table: ReportTable, key: str) -> tuple[float | None, float | None]:
    """Return the means of INT and of FP programs; None for a group of fewer than two."""
    integer, floating = (
        table.mean(key, group) if len(table.values(key, group)) > 1 else None
        for group in ("INT", "FP")
    )
    return integer, floating


def compare_groups(
    text: str, table: ReportTable, key: str, unit: str = "", *, higher: str = "INT"
) -> Claim:
    """Judge that the mean of a column is higher for the programs of one group."""
    lower = "FP" if higher == "INT" else "INT"
    means = dict(zip(("INT", "FP"), group_means(table, key), strict=True))
    high, low = means[higher], means[lower]
    if high is None or low is None:
        return untestable(text, NO_GROUPS)
    parts = (
        *members(table, key, ABOVE, low, unit, higher),
        *members(table, key, BELOW, high, unit, lower),
    )
    named = (f"mean of {higher}", high), ABOVE, (f"mean of {lower}", low)
    return judge(text, differs(*named, unit, parts=parts))


# -- rows -----------------------------------------------------------------------------------------


def programs(table: ReportTable) -> list[TableRow]:
    """Return the rows of programs that did not fail."""
    return [row for row in table.rows if row.kind == "program"]


def value(table: ReportTable, row: TableRow, key: str) -> float | None:
    """Return a number of a row."""
    found = row.values[table.index(key)]
    return as_float(found) if isinstance(found, int | float) else None


def pairs(
    table: ReportTable, first: str, second: str, group: str = ""
) -> list[tuple[str, float, float]]:
    """Return (program, a, b) of rows (of `group` only) that have both numbers."""
    found = []
    for row in programs(table):
        one, two = value(table, row, first), value(table, row, second)
        if one is not None and two is not None and group in ("", row.group):
            found.append((str(row.values[0]), one, two))
    return found


__all__ = [
    "ABOVE",
    "AT_LEAST",
    "AT_MOST",
    "BELOW",
    "NO_GROUPS",
    "NO_PROGRAMS",
    "Condition",
    "CountCondition",
    "Member",
    "Relation",
    "beside",
    "compare_groups",
    "count_of",
    "differs",
    "each_is",
    "extremes",
    "fraction",
    "group_means",
    "half",
    "judge",
    "mean_is",
    "mean_within",
    "member",
    "members",
    "most",
    "number",
    "ordered",
    "pairs",
    "programs",
    "untestable",
    "value",
    "value_is",
    "within",
]
