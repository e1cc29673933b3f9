"""Intervals of integers: what comparisons and conditional branches say about a value."""

from __future__ import annotations

from simprof.profiler.recovery.symbolic import Bounds, ComparedValues, SymbolicState, signed64


def wider(value: Bounds, other: Bounds) -> Bounds:
    """The interval around two intervals."""
    (low, high), (other_low, other_high) = value, other
    if low is not None and (other_low is None or other_low < low):
        low = other_low
    if high is not None and (other_high is None or other_high > high):
        high = other_high
    return low, high


def refine(
    state: SymbolicState, bounds: Bounds, comparison: ComparedValues, condition: int
) -> None:
    """Narrow the fact about the compared value, given that `condition` holds (V9 table 38).

    `bounds` are those of its atom so far.
    """
    value, against = comparison
    base, factor = signed64(value.base), value.factor
    ends = [None if end is None else base + factor * end for end in bounds]
    low, high = ends if factor > 0 else reversed(ends)
    low, high = narrow(low, high, against, condition)
    if factor < 0:
        low, high = (None if end is None else -end for end in (high, low))
        base, factor = -base, -factor
    low = None if low is None else -((base - low) // factor)
    high = None if high is None else (high - base) // factor
    if low is not None or high is not None:
        state["fact", value.atom] = (low, high)


def narrow(low: int | None, high: int | None, against: int, condition: int) -> Bounds:
    """Narrow an interval, given a comparison of the value in it with a constant."""
    match condition:
        case 1:  # equal
            return against, against
        case 9:  # not equal
            if low == against:
                return against + 1, high
            return low, against - 1 if high == against else high
        case 2 | 3:  # less or equal, less
            return low, _least(high, against if condition == 2 else against - 1)
        case 10 | 11:  # greater, greater or equal
            return _most(low, against + 1 if condition == 10 else against), high
        case 4 | 5 if against >= 0:  # the same, unsigned
            return _most(low, 0), _least(high, against if condition == 4 else against - 1)
        case 12 | 13 if against >= 0 and low is not None and low >= 0:
            return _most(low, against + 1 if condition == 12 else against), high
        case 6 if against == 0:  # negative
            return low, _least(high, -1)
        case 14 if against == 0:  # positive
            return _most(low, 0), high
    return low, high


def _least(known: int | None, limit: int) -> int:
    return limit if known is None else min(known, limit)


def _most(known: int | None, limit: int) -> int:
    return limit if known is None else max(known, limit)
