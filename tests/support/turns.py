"""Parameters of which `make test` tries a few: the others are marked `long`.

Values that follow one another in a matrix seldom differ in what they find. Of programs, widths and
flags together, `make test` takes some in which each axis goes on by one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
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
    """Return all combinations of the values of some axes, most of which are long.

    The others are those that all axes come to in step, each beginning again at its end: the first
    `few`, or as many as the longest axis has, so that each value is met.
    """
    values = [list(axis) for axis in axes]
    together = set(islice(in_step(*(range(len(axis)) for axis in values)), few))
    return [
        _case([axis[at] for axis, at in zip(values, places, strict=True)], places in together)
        for places in product(*(range(len(axis)) for axis in values))
    ]


def in_step(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the combinations that all axes come to in step, as many as the longest axis has."""
    values = [list(axis) for axis in axes]
    steps = range(max(map(len, values)))
    return [tuple(axis[step % len(axis)] for axis in values) for step in steps]


def _case(arguments: Iterable[object], is_ordinary: bool) -> Parameters:
    return pytest.param(*arguments, marks=() if is_ordinary else pytest.mark.long)
