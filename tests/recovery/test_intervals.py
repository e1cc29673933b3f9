"""What comparisons say of a value, against trying out every small number."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from simprof.profiler.recovery.intervals import narrow, refine, wider
from simprof.profiler.recovery.symbolic import (
    MASK64,
    UNBOUNDED,
    Affine,
    Bounds,
    ComparedValues,
    SymbolicState,
)

SMALL = range(-6, 7)
BOUNDS: list[Bounds] = [
    (low, high)
    for low, high in itertools.product([None, -4, 0, 3], [None, -2, 0, 5])
    if low is None or high is None or low <= high
]
CONDITIONS: dict[int, Callable[[int, int], bool]] = {
    1: lambda value, against: value == against,
    2: lambda value, against: value <= against,
    3: lambda value, against: value < against,
    4: lambda value, against: value & MASK64 <= against & MASK64,
    5: lambda value, against: value & MASK64 < against & MASK64,
    9: lambda value, against: value != against,
    10: lambda value, against: value > against,
    11: lambda value, against: value >= against,
    12: lambda value, against: value & MASK64 > against & MASK64,
    13: lambda value, against: value & MASK64 >= against & MASK64,
}


def holds(bounds: Bounds, value: int) -> bool:
    low, high = bounds
    return (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_value_that_passes_the_comparison_is_lost(condition: int) -> None:
    for (low, high), against in itertools.product(BOUNDS, SMALL):
        found = narrow(low, high, against, condition)
        for value in SMALL:
            if holds((low, high), value) and CONDITIONS[condition](value, against):
                assert holds(found, value), (low, high, against, value)


@pytest.mark.parametrize(
    ("condition", "against", "before", "after"),
    [
        (1, 3, UNBOUNDED, (3, 3)),
        (2, 3, (0, None), (0, 3)),
        (3, 3, (0, None), (0, 2)),
        (4, 3, UNBOUNDED, (0, 3)),  # `bgu default` not taken: the bound of a jump table
        (5, 3, UNBOUNDED, (0, 2)),
        (9, 0, (0, 5), (1, 5)),
        (9, 5, (0, 5), (0, 4)),
        (9, 3, (0, 5), (0, 5)),
        (10, 3, UNBOUNDED, (4, None)),
        (11, 3, (None, 9), (3, 9)),
        (12, 3, (0, 9), (4, 9)),
        (12, 3, UNBOUNDED, UNBOUNDED),  # a negative number is larger than 3, unsigned
        (13, 3, (0, 9), (3, 9)),
        (4, -1, UNBOUNDED, UNBOUNDED),
        (6, 0, UNBOUNDED, (None, -1)),
        (14, 0, UNBOUNDED, (0, None)),
        (6, 1, UNBOUNDED, UNBOUNDED),  # the sign of the difference, which may overflow
        (7, 0, UNBOUNDED, UNBOUNDED),
        (8, 0, (1, 2), (1, 2)),
    ],
)
def test_how_far_a_comparison_narrows(
    condition: int, against: int, before: Bounds, after: Bounds
) -> None:
    assert narrow(*before, against, condition) == after


def test_the_interval_around_two() -> None:
    assert wider((1, 4), (3, 9)) == (1, 9)
    assert wider((1, None), (0, 9)) == (0, None)
    assert wider((None, 4), (0, 9)) == (None, 9)


def refined(value: Affine, against: int, condition: int, bounds: Bounds = UNBOUNDED) -> Bounds:
    """What a comparison of `value` says about its atom, 7."""
    state: SymbolicState = {}
    refine(state, bounds, ComparedValues(value, against), condition)
    found: Bounds = state.get(("fact", 7), UNBOUNDED)
    return found


def test_facts_are_about_the_atom_not_about_what_was_compared() -> None:
    assert refined(Affine(0, 7, 1), 3, 4) == (0, 3)
    assert refined(Affine(MASK64 - 64, 7, 1), 3, 4) == (65, 68)  # x - 65 <= 3: 'A' to 'D'
    assert refined(Affine(0, 7, 4), 14, 2) == (None, 3)  # 4 x <= 14
    assert refined(Affine(0, 7, 4), 4, 10, (None, 9)) == (2, 9)  # 4 x > 4
    assert refined(Affine(10, 7, -1), 3, 4) == (7, 10)  # 10 - x <= 3, unsigned


def test_nothing_is_noted_where_nothing_is_known() -> None:
    state: SymbolicState = {}
    refine(state, UNBOUNDED, ComparedValues(Affine(0, 7, 1), 0), 7)
    assert state == {}
