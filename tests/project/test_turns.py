"""`support.turns`: which cases of a matrix `make test` runs, and that the others are there."""

from __future__ import annotations

import pytest

from tests.support.turns import Parameters, first, turns


def ordinary(cases: list[Parameters]) -> list[tuple[object, ...]]:
    return [tuple(case.values) for case in cases if not case.marks]


def test_axes_go_on_in_step() -> None:
    cases = turns("abcd", (1, 2, 3))
    assert ordinary(cases) == [("a", 1), ("b", 2), ("c", 3), ("d", 2)]
    assert len(cases) == 4


def test_axes_of_one_length_meet_in_other_pairs() -> None:
    met = {values[1:] for values in ordinary(turns(range(8), "xy", "12"))}
    assert met == {("x", "1"), ("x", "2"), ("y", "1"), ("y", "2")}


def test_no_more_than_asked_for_are_ordinary() -> None:
    cases = turns("abcd", (1, 2, 3), few=2)
    assert ordinary(cases) == [("a", 1), ("b", 2)]
    assert [case.values for case in cases[2:]] == [("c", 3), ("d", 2)]
    assert {mark.name for case in cases for mark in case.marks} == {"long"}
    assert ordinary(turns("ab", "xy", "12", few=9)) == [("a", "x", "1"), ("b", "y", "2")]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_first_of_a_list(count: int) -> None:
    cases = first(count, [("a", 1), ("b", 2), ("c", 3)])
    assert ordinary(cases) == [("a", 1), ("b", 2), ("c", 3)][:count]
    assert len(cases) == 3
    assert ordinary(first(1, "ab")) == [("a",)]
