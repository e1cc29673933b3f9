"""Judging claims: our number, the rule that it is judged by, and why it differs where it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from profiler.experiments.tables.table import Claim, ReportTable, Row, Verdict, as_float

Explain = Callable[[], str]
NO_GROUPS = "the suite has fewer than two programs in one of the groups INT and FP"
NO_PROGRAMS = "the suite has no program of the kind that this is about"


def untestable(text: str, reason: str) -> Claim:
    """Return a claim that cannot be tested, and why."""
    return Claim(text, Verdict.UNTESTABLE, reason)


def judge(text: str, holds: bool | None, figure: str, explain: Explain | None = None) -> Claim:
    """Return a judged claim.

    Parameters
    ----------
    holds
        None: there were no numbers to judge by.
    explain
        Called where it fails: what in the data makes it fail.
    """
    if holds is None:
        return untestable(text, figure or NO_PROGRAMS)
    if holds:
        return Claim(text, Verdict.HOLDS, figure)
    return Claim(text, Verdict.FAILS, figure, explain() if explain else "")


def group_means(table: ReportTable, key: str) -> tuple[float | None, float | None]:
    """Return the means of INT and of FP programs; None for a group of fewer than two."""
    integer, floating = (
        table.mean(key, group) if len(table.values(key, group)) > 1 else None
        for group in ("INT", "FP")
    )
    return integer, floating


def compare_groups(
    text: str,
    table: ReportTable,
    key: str,
    unit: str,
    explain: Explain | None = None,
    higher: str = "INT",
) -> Claim:
    """Judge that the mean of a column is higher for the programs of one group."""
    integer, floating = group_means(table, key)
    if integer is None or floating is None:
        return untestable(text, NO_GROUPS)
    return judge(
        text,
        integer > floating if higher == "INT" else floating > integer,
        f"means: INT {number(integer)}{unit}, FP {number(floating)}{unit}",
        explain,
    )


def number(value: float | None) -> str:
    """Return a number for a sentence: three significant digits, more where it is a big one."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0")


def extremes(values: Iterable[float], unit: str = "") -> str:
    """Return "1.2-3.4 %" of some numbers."""
    found = sorted(values)
    if not found:
        return "-"
    return f"{number(found[0])}-{number(found[-1])}{unit}"


def programs(table: ReportTable) -> list[Row]:
    """Return the rows of programs that did not fail."""
    return [row for row in table.rows if row.kind == "program"]


def value(table: ReportTable, row: Row, key: str) -> float | None:
    """Return a number of a row."""
    found = row.values[table.index(key)]
    return as_float(found) if isinstance(found, int | float) else None


def pairs(table: ReportTable, first: str, second: str) -> list[tuple[str, float, float]]:
    """Return (program, a, b) of rows that have both numbers."""
    found = []
    for row in programs(table):
        one, two = value(table, row, first), value(table, row, second)
        if one is not None and two is not None:
            found.append((str(row.values[0]), one, two))
    return found


def bottom(table: ReportTable, key: str, others: tuple[str, ...], count: int = 3) -> str:
    """Return the programs where a column is least, with other columns of theirs, as text."""
    return top(table, key, others, count, sign=1)


def top(
    table: ReportTable, key: str, others: tuple[str, ...], count: int = 3, *, sign: int = -1
) -> str:
    """Return the programs where a column is greatest, with other columns of theirs, as text.

    `sign`: 1 for those where it is least.
    """
    rows = [row for row in programs(table) if value(table, row, key) is not None]
    rows.sort(key=lambda row: sign * (value(table, row, key) or 0))
    titles = {column.key: column.title for column in table.columns}
    parts = []
    for row in rows[:count]:
        shown = ", ".join(
            f"{titles[other]} {number(value(table, row, other))}" for other in (key, *others)
        )
        parts.append(f"{row.values[0]}: {shown}")
    return "; ".join(parts)


def share_of(values: Iterable[bool]) -> tuple[int, int]:
    """Return how many are true, and of how many."""
    found = list(values)
    return sum(found), len(found)
