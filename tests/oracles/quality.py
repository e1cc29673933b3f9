"""How good a profile is by plain definitions, sharing no code with the product.

A profile is a table of counts by name of a path; what a path weighs is a table, too. Everything is
an exact fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

Counts = Mapping[object, int]


def flow(counts: Counts, weights: Counts) -> dict[object, int]:
    return {path: count * weights[path] for path, count in counts.items() if count * weights[path]}


def hot_paths(true: Counts, percent: float) -> set[object]:
    """Names of the paths with more than so many percent of all flow."""
    total = sum(true.values())
    return {path for path, n in true.items() if Fraction(n) > Fraction(str(percent)) / 100 * total}


def accuracy(true: Counts, claimed: Counts, percent: float) -> Fraction | None:
    """Wall's weight matching, on average over all choices among paths with equal claims."""
    hot = hot_paths(true, percent)
    if not hot:
        return None
    ranked = sorted(claimed.values(), reverse=True)[: len(hot)]
    least = ranked[-1] if len(ranked) == len(hot) else 0
    sure = {path for path, n in claimed.items() if n > least}
    tied = [path for path, n in claimed.items() if n == least]
    places = min(len(hot) - len(sure), len(tied))
    results = [
        Fraction(sum(true[path] for path in (sure | set(chosen)) & hot))
        for chosen in combinations(tied, places)
    ]
    return sum(results, Fraction(0)) / len(results) / sum(true[path] for path in hot)


def coverage(true: Counts, claimed: Counts, scale: Fraction = Fraction(1)) -> Fraction | None:
    total = sum(true.values())
    if not total:
        return None
    found = [min(Fraction(n), claimed.get(path, 0) * scale) for path, n in true.items()]
    return sum(found, Fraction(0)) / total


def hot_coverage(true: Counts, claimed: Counts, percent: float) -> Fraction | None:
    hot = hot_paths(true, percent)
    if not hot:
        return None
    return Fraction(sum(true[p] for p in hot if p in claimed), sum(true[p] for p in hot))


def overlap(true: Counts, claimed: Counts) -> Fraction | None:
    """Sum of the lesser shares."""
    totals = sum(true.values()), sum(claimed.values())
    if not totals[0]:
        return None
    if not totals[1]:
        return Fraction(0)
    names = {*true, *claimed}
    shares = (
        min(Fraction(true.get(name, 0), totals[0]), Fraction(claimed.get(name, 0), totals[1]))
        for name in names
    )
    return sum(shares, Fraction(0))


def routine_overlap(routines: list[tuple[Counts, Counts]]) -> Fraction | None:
    total = sum(sum(true.values()) for true, _ in routines)
    if not total:
        return None
    parts = [(sum(true.values()), overlap(true, claimed)) for true, claimed in routines]
    return sum((n * part for n, part in parts if part is not None), Fraction(0)) / total
