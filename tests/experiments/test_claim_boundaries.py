"""Claims at their boundaries: what is just enough, and what is not enough by nothing at all."""

from __future__ import annotations

import pytest

from profiler.experiments.cells.cells import CellResult
from profiler.experiments.tables.claims import (
    NO_GROUPS,
    NO_PROGRAMS,
    compare_groups,
    group_means,
    judge,
)
from profiler.experiments.tables.table import ReportTable, Verdict
from tests.experiments.test_tables import counts, program_row, small, table_of


def groups(integer: list[float], floating: list[float]) -> ReportTable:
    """A table of INT and FP programs with these numbers in column x."""
    rows = [program_row(f"i{k}", "INT", x) for k, x in enumerate(integer)]
    return small(*rows, *(program_row(f"f{k}", "FP", x) for k, x in enumerate(floating)))


@pytest.mark.parametrize("higher", ["INT", "FP"])
def test_equal_means_are_not_higher(higher: str) -> None:
    """4 % is not more than 4 %, whichever group the claim is about."""
    table = groups([3.0, 5.0], [2.0, 6.0])
    claim = compare_groups("c", table, "x", " %", lambda: "they are equal", higher)
    assert (claim.verdict, claim.why) == (Verdict.FAILS, "they are equal")
    assert claim.figure == "means: INT 4 %, FP 4 %"


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
    assert compare_groups("c", table, "x", "", higher=higher).verdict is verdict


@pytest.mark.parametrize(
    ("integer", "floating", "means"),
    [([1.0], [2.0, 3.0], (None, 2.5)), ([1.0, 2.0], [], (1.5, None)), ([1.0], [2.0], (None, None))],
)
def test_one_program_is_no_group(
    integer: list[float], floating: list[float], means: tuple[float | None, float | None]
) -> None:
    table = groups(integer, floating)
    assert group_means(table, "x") == means
    claim = compare_groups("c", table, "x", "")
    assert (claim.verdict, claim.figure) == (Verdict.UNTESTABLE, NO_GROUPS)


def test_a_claim_without_numbers_is_neither_right_nor_wrong() -> None:
    claim = judge("c", None, "", lambda: "never asked")
    assert (claim.verdict, claim.figure, claim.why) == (Verdict.UNTESTABLE, NO_PROGRAMS, "")
    assert judge("c", None, "no hashing").figure == "no hashing"


@pytest.mark.parametrize(
    ("added", "verdict"),
    [((299, 100), Verdict.HOLDS), ((300, 100), Verdict.FAILS), ((301, 100), Verdict.FAILS)],
)
def test_three_times_is_not_less_than_three_times(added: tuple[int, int], verdict: Verdict) -> None:
    """EPP 6.1: the overhead of `pp` in units of that of `qpt2`."""
    pp, qpt2 = (
        CellResult(base=1000, added=n, counts=counts(path_increments=10, edge_increments=12))
        for n in added
    )
    claim, *_ = table_of("epp1", {"pp": pp, "qpt2": qpt2}).claims
    assert claim.verdict is verdict
