"""Numbers as arrays of the shortest kind: a tuple of them takes four to sixteen times as much."""

from __future__ import annotations

from array import array
from collections.abc import Sequence


def compact(values: Sequence[int]) -> array[int] | tuple[int, ...]:
    """Return numbers as an array of the shortest kind that holds them, or else as a tuple."""
    for kind in "hiq":
        try:
            return array(kind, values)
        except OverflowError:
            continue
    return tuple(values)
