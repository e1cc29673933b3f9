"""`support.turns`: which cases of a matrix `make test` runs, and that the others are there."""

from __future__ import annotations

import pytest

from tests.support.turns import Parameters, first, turns


def ordinary(cases: list[Parameters]) -> list[tuple[object, ...]]:
    return [tuple(case.values) for case in cases if not case.marks]


def test_axes_go_on_in_step_and_all_is_there() -> None:
    cases = turns("abcd", (1, 2, 3))
    assert ordinary(cases) == [("a", 1), ("b", 2), ("c", 3), ("d", 1)]
    assert [case.values for case in cases] == [(x, y) for x in "abcd" for y in (1, 2, 3)]
    assert {mark.name for case in cases for mark in case.marks} == {"long"}


def test_no_more_than_asked_for() -> None:
    assert ordinary(turns("abcd", (1, 2, 3), few=2)) == [("a", 1), ("b", 2)]
    assert ordinary(turns("ab", "xy", "12", few=9)) == [("a", "x", "1"), ("b", "y", "2")]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_first_of_a_list(count: int) -> None:
    cases = first(count, [("a", 1), ("b", 2), ("c", 3)])
    assert ordinary(cases) == [("a", 1), ("b", 2), ("c", 3)][:count]
    assert len(cases) == 3
    assert ordinary(first(1, "ab")) == [("a",)]
