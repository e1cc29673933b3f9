"""Rules: what must hold of a finished table for a claim of a paper to hold.

A `Rule` is a claim with its requirements. A requirement makes a condition (`conditions.Condition`)
of a table, or None where the table has no numbers for it, and then the claim cannot be judged.
Verdict, figure, rule and reason are all made of conditions; a reason names rows of the table and
says nothing that the table does not.

- Most requirements are about one number of each program (`Series`): a column (`column`), or
  something of two columns (`combined`). `mean_is`, `each_is`, `statistic_is` bound
  their mean, the furthest of them, or another statistic; `count_is` counts programs within bounds.
- Others compare two columns (`means_differ`, `count_ordered`) or groups of programs
  (`compare_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.experiments.tables.conditions import (
    Between,
    Bound,
    Condition,
    Member,
    above,
    below,
    count_of,
    extremes,
    member,
    number,
    papers,
    value_is,
)
from simprof.profiler.experiments.tables.table import (
    FEWEST,
    Claim,
    ReportTable,
    TableRow,
    Verdict,
    as_float,
    once,
)

NO_GROUPS = "the table has results of fewer than two programs in one of the groups INT and FP"
NO_PROGRAMS = "the table has no result of a program that this is about"

Requirement = Callable[[ReportTable], Condition | None]
# A rule, or a function where words of a claim depend on the table.
Judge = Callable[[ReportTable], Claim]


class Rule(Struct, frozen=True):
    """A claim that holds if all requirements are met."""

    text: str  # The claim, in our words, with the paper's figure
    requirements: tuple[Requirement, ...]  # (): it cannot be tested here
    absent: str  # Why it is not testable where a requirement has no numbers
    # Returns why it is not testable by a table though there are numbers; "" where it is.
    beyond: Callable[[ReportTable], str] = lambda _: ""

    def __call__(self, table: ReportTable) -> Claim:
        """Return the claim with what a table says about it."""
        if reason := self.beyond(table):
            return Claim(self.text, Verdict.UNTESTABLE, reason)
        return judge(self.text, *(each(table) for each in self.requirements), absent=self.absent)


def rule(text: str, *requirements: Requirement, absent: str = NO_PROGRAMS) -> Rule:
    """Return a rule (see `Rule`)."""
    return Rule(text, requirements, absent)


# Percent of hashed increments: "little" holds for EPP's compress, li, ijpeg, swim and turb3d.
LITTLE = 2.0
HASHED = "hashed"  # Key of the column with PP's share of hashed increments, in percent


def of_hashing(text: str, *requirements: Requirement, absent: str = NO_PROGRAMS) -> Rule:
    """Return the rule of a claim about hash tables: programs that use hardly any test nothing."""

    def beyond(table: ReportTable) -> str:
        mean = table.mean(HASHED)
        if mean is None or mean >= LITTLE:
            return ""
        return (
            f"it is about hash tables, and these programs hash {number(mean)} % of PP's increments "
            f"on average (under {number(LITTLE)} %)"
        )

    return Rule(text, requirements, absent, beyond)


def untestable(text: str, reason: str) -> Rule:
    """Return the rule of a claim that no table here can test."""
    return Rule(text, (), reason)


def judge(text: str, *conditions: Condition | None, absent: str = NO_PROGRAMS) -> Claim:
    """Return a claim that holds if all conditions do; None: there were no numbers to judge by.

    Of fewer programs than `FEWEST` nothing is said, whatever they say.
    """
    found = tuple(each for each in conditions if each is not None)
    if not found or len(found) < len(conditions):
        return Claim(text, Verdict.UNTESTABLE, absent)
    figures = "; ".join(dict.fromkeys(each.figure for each in found))
    rules = " and ".join(
        f"{each.rule if len(found) == 1 else each.named_rule} ({each.sourced_rule})"
        for each in found
    )
    failing = [each for each in found if not each.holds]
    programs = min(each.programs for each in found)
    verdict = Verdict.FAILS if failing else Verdict.HOLDS
    if programs < FEWEST:
        verdict, failing = Verdict.TOO_FEW, []
    return Claim(
        text,
        verdict,
        f"{figures}; rule: {rules}; {programs} program{'' if programs == 1 else 's'}",
        ". ".join(each.reason for each in failing),
        found,
    )


# -- rows -----------------------------------------------------------------------------------------


class ProgramNumber(NamedTuple):
    """A program's number."""

    name: str
    value: float
    more: str = ""  # Further numbers of it
    program: str = ""  # Its program, where `name` says more than that


Expression = Callable[[float, float], float | None]
Series = Callable[[ReportTable], list[ProgramNumber]]


def value(table: ReportTable, row: TableRow, key: str) -> float | None:
    """Return a number of a row."""
    found = row.values[table.index(key)]
    return as_float(found) if isinstance(found, int | float) else None


def beside(table: ReportTable, row: TableRow, keys: Iterable[str]) -> str:
    """Return numbers of a row with their columns' titles: "inst/inc 15.2, hashed % 3"."""
    titles = {column.key: column.title for column in table.columns}
    return ", ".join(f"{titles[key]} {number(value(table, row, key))}" for key in keys)


def pairs(
    table: ReportTable, first: str, second: str, group: str = ""
) -> list[tuple[str, float, float]]:
    """Return (program, a, b) of rows (of `group` only) that have both numbers."""
    found = []
    for row in table.judged:
        one, two = value(table, row, first), value(table, row, second)
        if one is not None and two is not None and group in ("", row.group):
            found.append((str(row.values[0]), one, two))
    return found


def column(key: str, group: str = "", others: Sequence[str] = ()) -> Series:
    """Return the numbers of a column (of `group` only), with those of `others` beside them."""

    def series(table: ReportTable) -> list[ProgramNumber]:
        return [
            ProgramNumber(str(row.values[0]), found, beside(table, row, others))
            for row in table.judged
            if (found := value(table, row, key)) is not None and group in ("", row.group)
        ]

    return series


def combined(
    first: str,
    second: str,
    expression: Expression,
    group: str = "",
    more: Callable[[float, float], str] = lambda one, two: "",  # What is said of the two beside it
) -> Series:
    """Return what an expression makes of two columns' numbers, where it is not None."""

    def series(table: ReportTable) -> list[ProgramNumber]:
        return [
            ProgramNumber(name, made, more(one, two))
            for name, one, two in pairs(table, first, second, group)
            if (made := expression(one, two)) is not None
        ]

    return series


def members(parts: Iterable[ProgramNumber], limit: Bound | Between) -> tuple[Member, ...]:
    """Return each program's part in a condition."""
    return tuple(member(name, each, limit, more, program) for name, each, more, program in parts)


# -- requirements of one number of each program ---------------------------------------------------


def statistic_is(
    what: str,
    statistic: Callable[[list[float]], float],
    series: Series,
    limit: Bound | Between,
    *,
    remark: Callable[[list[float]], str] | None = None,
    scope: str = "",
) -> Requirement:
    """Require a limit of a statistic; but for extremes, an original counts once.

    `what` may have a place for the number of programs, {}. `remark`: What the figure says of the
    numbers; their extremes by default.
    """

    def require(table: ReportTable) -> Condition | None:
        parts = series(table)
        if not parts:
            return None
        values = [part.value for part in parts]
        originals = {str(row.values[0]): row.program for row in table.judged}
        counted = once((originals.get(part.name, part.name), part.value) for part in parts)
        return value_is(
            what.format(len(parts)),
            statistic(values if statistic in (min, max) else counted),
            limit,
            remark=extremes(values, limit.unit) if remark is None else remark(values),
            scope=scope,
            parts=members(parts, limit),
        )

    return require


def mean_is(
    key: str,
    limit: Bound | Between,
    *,
    what: str = "mean",
    group: str = "",
    others: Sequence[str] = (),
) -> Requirement:
    """Require a limit of the mean of a column."""
    return statistic_is(what, fmean, column(key, group, others), limit)


def each_is(
    key: str,
    bound: Bound,
    *,
    what: str = "",
    group: str = "",
    others: Sequence[str] = (),
) -> Requirement:
    """Require a bound of every number of a column."""
    wants_more = bound.relation.wants_more
    return statistic_is(
        f"{what} {'lowest' if wants_more else 'highest'}".strip(),
        min if wants_more else max,
        column(key, group, others),
        bound,
        remark=lambda values: extremes(values, bound.unit, bound.value),
        scope="in each",
    )


def count_is(
    what: str,
    least: Callable[[int], int],
    series: Series,
    bound: Bound,
    *,
    remark: Callable[[list[float]], str] | None = None,
) -> Requirement:
    """Require that so many programs keep a bound. `least`: How many of so many.

    Whose the bound of one is, that of their number is.
    """

    def require(table: ReportTable) -> Condition | None:
        parts = series(table)
        values = [part.value for part in parts]
        said = extremes(values, bound.unit, bound.value) if remark is None else remark(values)
        return count_of(members(parts, bound), what, least(len(parts)), said, bound.whose)

    return require


# -- requirements of two columns ------------------------------------------------------------------


Relation = Callable[[float, str], Bound]  # `above` or another: makes the bound that a number is


def ordered(
    rows: Iterable[tuple[str, float, float]],  # As `pairs` has them
    relation: Relation,
    titles: tuple[str, str],  # What is said before each number
    unit: str = "",
) -> list[Member]:
    """Return rows' parts in an order of two of their numbers."""
    made = []
    for name, one, two in rows:
        alone = Condition(titles[0], one, relation(two, unit), titles[1])
        made.append(Member(name, alone.figure, alone.holds, alone.bound.miss(one)))
    return made


def count_ordered(
    what: str,
    least: Callable[[int], int],
    first: str,
    relation: Relation,
    second: str,
    titles: tuple[str, str] | None = None,  # Said before the numbers; None: the columns' titles
    unit: str = "",
) -> Requirement:
    """Require that in so many programs the numbers of two columns are in an order."""

    def require(table: ReportTable) -> Condition | None:
        heads = {column.key: column.title for column in table.columns}
        said = titles or (heads[first], heads[second])
        found = ordered(pairs(table, first, second), relation, said, unit)
        return count_of(found, what, least(len(found)))

    return require


def differs(
    first: tuple[str, float | None],
    relation: Relation,
    second: tuple[str, float | None],
    unit: str = "",
    parts: Iterable[Member] = (),
) -> Condition | None:
    """Compare two measured numbers, each with its name; None where one is absent."""
    (what, one), (against, two) = first, second
    if one is None or two is None:
        return None
    bound = papers(relation(two, unit))  # the order is the paper's
    return Condition(what, one, bound, against, members=tuple(parts))


def means_differ(
    first: tuple[str, str],
    relation: Relation,
    second: tuple[str, str],
    titles: tuple[str, str],
    unit: str = "",
) -> Requirement:
    """Require an order of the means of two columns.

    `first`, `second`: What a mean is called, and the key of its column. `titles`: What is said
    before the numbers of a program.
    """
    (what, one), (against, two) = first, second

    def require(table: ReportTable) -> Condition | None:
        means = (what, table.mean(one)), relation, (against, table.mean(two))
        return differs(*means, unit, ordered(pairs(table, one, two), relation, titles, unit))

    return require


def means_give(
    what: str,
    expression: Expression,
    first: str,
    second: str,
    limit: Bound | Between,
    *,
    group: str = "",
    # What the figure says of the means.
    remark: Callable[[float, float], str] = lambda one, two: "",
    # What is said of a program's two numbers; None: programs are not shown.
    more: Callable[[float, float], str] | None = lambda one, two: "",
) -> Requirement:
    """Require a limit of what an expression makes of the means of two columns."""

    def require(table: ReportTable) -> Condition | None:
        one, two = table.mean(first, group), table.mean(second, group)
        if one is None or two is None:
            return None
        parts = [] if more is None else combined(first, second, expression, group, more)(table)
        return value_is(
            what,
            expression(one, two),
            limit,
            remark=remark(one, two),
            parts=members(parts, limit),
            behind=len(pairs(table, first, second, group)),
        )

    return require


# -- groups ---------------------------------------------------------------------------------------


def group_means(table: ReportTable, key: str) -> tuple[float | None, float | None]:
    """Return the means of INT and of FP programs; None for a group of fewer than two."""
    integer, floating = (
        table.mean(key, group) if len(table.values(key, group)) > 1 else None
        for group in ("INT", "FP")
    )
    return integer, floating


def compare_groups(text: str, key: str, unit: str = "", *, higher: str = "INT") -> Rule:
    """Return the rule that the mean of a column is higher for the programs of one group."""
    lower = "FP" if higher == "INT" else "INT"

    def require(table: ReportTable) -> Condition | None:
        means = dict(zip(("INT", "FP"), group_means(table, key), strict=True))
        high, low = means[higher], means[lower]
        if high is None or low is None:
            return None
        parts = (
            *members(column(key, higher)(table), above(low, unit)),
            *members(column(key, lower)(table), below(high, unit)),
        )
        return differs((f"mean of {higher}", high), above, (f"mean of {lower}", low), unit, parts)

    return rule(text, require, absent=NO_GROUPS)


# -- how many -------------------------------------------------------------------------------------


def fraction(part: int, of: int) -> Callable[[int], int]:
    """Return what the least number is of so many rows that is `part / of` of them, one at least."""
    return lambda count: max(1, -(-part * count // of))


half = fraction(1, 2)


def most(count: int) -> int:
    """Return the least number that is more than half."""
    return count // 2 + 1


def all_but_one(count: int) -> int:
    """Return one less, one at least."""
    return max(1, count - 1)


def every(count: int) -> int:
    """Return all."""
    return count


def some(count: int) -> int:
    """Return one."""
    return 1
