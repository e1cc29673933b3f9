"""Claims that compare groups of programs, where the groups are equal or too small."""

from __future__ import annotations

import pytest

from simprof.profiler.experiments.tables.claims import NO_GROUPS, compare_groups, group_means
from simprof.profiler.experiments.tables.table import ReportTable, Verdict
from tests.experiments.test_tables import program_row, small


def groups(integer: list[float], floating: list[float]) -> ReportTable:
    """A table of INT and FP programs with these numbers in column x."""
    rows = [program_row(f"i{k}", "INT", x) for k, x in enumerate(integer)]
    return small(*rows, *(program_row(f"f{k}", "FP", x) for k, x in enumerate(floating)))


@pytest.mark.parametrize("higher", ["INT", "FP"])
def test_equal_means_are_not_higher(higher: str) -> None:
    """4 % is not more than 4 %, whichever group the claim is about."""
    table = groups([3.0, 5.0], [2.0, 6.0])
    assert compare_groups("c", "x", " %", higher=higher)(table).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("integer", "floating", "higher", "verdict"),
    [
        (4.5, 4.25, "INT", Verdict.HOLDS),
        (4.5, 4.25, "FP", Verdict.FAILS),
        (4.25, 4.5, "FP", Verdict.HOLDS),
        (4.25, 4.5, "INT", Verdict.FAILS),
    ],
)
def test_a_little_more_is_higher(
    integer: float, floating: float, higher: str, verdict: Verdict
) -> None:
    table = groups([integer, integer], [floating, floating])
    assert compare_groups("c", "x", higher=higher)(table).verdict is verdict


@pytest.mark.parametrize(
    ("integer", "floating", "means"),
    [([1.0], [2.0, 3.0], (None, 2.5)), ([1.0, 2.0], [], (1.5, None)), ([1.0], [2.0], (None, None))],
)
def test_one_program_is_no_group(
    integer: list[float], floating: list[float], means: tuple[float | None, float | None]
) -> None:
    table = groups(integer, floating)
    assert group_means(table, "x") == means
    claim = compare_groups("c", "x")(table)
    assert (claim.verdict, claim.figure) == (Verdict.UNTESTABLE, NO_GROUPS)
