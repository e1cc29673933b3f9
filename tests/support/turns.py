"""Parameters of which `make test` tries a few: the others are marked `long`.

Values that follow one another in a matrix seldom differ in what they find: of programs, widths and
flags together, cases are taken in which each axis goes on by one value, never all combinations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

Parameters = Any
"""What `pytest.param` makes: its type is not public."""


def first(count: int, cases: Iterable[object], at: int = 0) -> list[Parameters]:
    """Return all cases; all but the first `count` from place `at` on are long.

    A tuple is several arguments.
    """
    made = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [_case(case, at <= number < at + count) for number, case in enumerate(made)]


def turns(*axes: Iterable[object], few: int | None = None) -> list[Parameters]:
    """Return combinations of the values of some axes, as many as the longest axis has.

    All axes go on by one value from each to the next, so that each value is met; one that begins
    again at its end leaves one out, so that axes of one length do not stay in step. All but the
    first `few` are long.
    """
    steps = in_step(*axes)
    return first(len(steps) if few is None else few, steps)


def in_step(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the combinations of `turns`."""
    values = [list(axis) for axis in axes]
    longest = max(map(len, values))
    return [
        tuple(axis[(step + at * (step // len(axis))) % len(axis)] for at, axis in enumerate(values))
        for step in range(longest)
    ]


def _case(arguments: Iterable[object], is_ordinary: bool) -> Parameters:
    return pytest.param(*arguments, marks=() if is_ordinary else pytest.mark.long)
