"""Overhead against accuracy, every scheme one point: a picture in SVG.

The axis of overhead begins at 0 and is a square root's, so that schemes of a few percent and those
of several hundred have room in one picture. A line joins the schemes that no other one beats in
both. Equal numbers give equal pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.reports.mode_facts import NamedMeasurement, instruments
from simprof.profiler.reports.quality import known

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 56, 80, 680, 300, 90, 46
RADIUS, LINE, LETTER = 4, 13, 6.3  # of points; height of a line of text, width of a letter
TICKS = 8
STEPS = (1, 2, 5)


class SchemePoint(NamedTuple):
    """A scheme: its name, its overhead, and its accuracy, 1 where the profile is exact."""

    name: str
    overhead: float
    accuracy: float


class PointLabel(NamedTuple):
    """A point with its name."""

    name: str
    # x, y: The point; at: where the text begins, on its base line.
    x: float
    y: float
    at: tuple[float, float]
    is_apart: bool  # Whether a line has to lead from the text to the point
    tip: str  # Its numbers
    best: bool  # Whether no other scheme is as good for less


class Frontier(Struct, frozen=True):
    """What the template `frontier.svg` draws, and where."""

    labels: tuple[PointLabel, ...]
    line: str  # The path through those that are best
    across: tuple[tuple[float, str], ...]  # Ticks of the overhead
    upwards: tuple[tuple[float, str], ...]  # Those of the accuracy
    most: float  # The overhead at the right end of the axis
    left: int = LEFT
    top: int = TOP
    bottom: int = TOP + HEIGHT
    width: int = LEFT + WIDTH + RIGHT
    height: int = TOP + HEIGHT + BOTTOM


def points(rows: Sequence[NamedMeasurement]) -> list[SchemePoint]:
    """Return the schemes whose accuracy is known."""
    every = [measurement for _, measurement in rows]
    found = [(name, one, known(one, every)[0]) for name, one in rows if instruments(one)]
    return [SchemePoint(name, one.overhead, good) for name, one, good in found if good is not None]


def frontier(schemes: Sequence[SchemePoint]) -> Frontier | None:
    """Return the picture; None of fewer than two schemes."""
    if len(schemes) < 2:
        return None
    most = max(max(scheme.overhead for scheme in schemes), 0.01)
    step = _step(100 * most)
    ticks = [0.0, *(tick / 100 for tick in _root_ticks(step, 100 * most))]

    def place(overhead: float, accuracy: float) -> tuple[float, float]:
        x = LEFT + WIDTH * math.sqrt(max(overhead, 0) / max(most, ticks[-1]))
        return round(x, 1), round(TOP + HEIGHT * (1 - accuracy), 1)

    best = best_of(schemes)
    corners = [place(each.overhead, each.accuracy) for each in best]
    return Frontier(
        tuple(_labels(schemes, [place(*each[1:]) for each in schemes], set(best))),
        _stairs(corners),
        tuple((place(tick, 0)[0], f"{100 * tick:.3g} %") for tick in ticks),
        tuple((place(0, tick / 4)[1], f"{25 * tick} %") for tick in range(5)),
        max(most, ticks[-1]),
    )


def best_of(schemes: Sequence[SchemePoint]) -> list[SchemePoint]:
    """Return the schemes that are more accurate than all that cost less, by overhead."""
    found: list[SchemePoint] = []
    for scheme in sorted(schemes, key=lambda each: (each.overhead, -each.accuracy, each.name)):
        if not found or scheme.accuracy > found[-1].accuracy:
            found.append(scheme)
    return found


def _step(most: float) -> float:
    """Return the first tick: a round number about where a root has its first eighth."""
    wanted = most / TICKS**2
    power = 10.0 ** math.floor(math.log10(wanted))
    return next((s * power for s in STEPS if s * power >= wanted), 10 * power)


def _root_ticks(step: float, most: float) -> Iterator[float]:
    """Yield ticks as far apart as the squares of whole numbers, rounded to `step`."""
    for number in count(1):
        tick = step * number**2
        yield tick
        if tick >= most:
            return


def _stairs(corners: Sequence[tuple[float, float]]) -> str:
    x, y = corners[0]
    steps = (f"H{x}V{y}" for x, y in corners[1:])
    return f"M{x} {y}{''.join(steps)}H{LEFT + WIDTH}"


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


def _labels(
    schemes: Sequence[SchemePoint], places: Sequence[tuple[float, float]], best: set[SchemePoint]
) -> Iterator[PointLabel]:
    """Yield the points, each name at the nearest place where nothing else is."""
    taken = [_Box(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places]
    for scheme, (x, y) in zip(schemes, places, strict=True):
        number, at, box = _free_spot(x, y, LETTER * len(scheme.name), taken)
        taken.append(box)
        tip = f"{scheme.name}: overhead {scheme.overhead:.2%}, accuracy {scheme.accuracy:.2%}"
        yield PointLabel(scheme.name, x, y, at, number >= BESIDE, tip, scheme in best)


def _free_spot(
    x: float, y: float, size: float, taken: Sequence[_Box]
) -> tuple[int, tuple[float, float], _Box]:
    """Return the first of `_spots` where nothing is, or else the last: number, place and box."""
    found = 0, (x, y), taken[0]
    for number, (left, base) in enumerate(_spots(x, y, size)):
        box = _Box(left - 2, base - LINE + 3, left + size + 2, base + 3)
        found = number, (round(left, 1), round(base, 1)), box
        fits = box.left >= 0 and box.top >= 0 and box.bottom <= TOP + HEIGHT + 2
        if fits and not any(box.meets(each) for each in taken):
            break
    return found


BESIDE = 4  # Spots that touch their point
FARTHEST = 9  # Lines of text


def _spots(x: float, y: float, size: float) -> Iterator[tuple[float, float]]:
    """Yield where a text can begin: above, below, right, left; then lines farther off."""
    yield x - size / 2, y - 7
    yield x - size / 2, y + 15
    yield x + 7, y + 4
    yield x - 7 - size, y + 4
    for lines in range(1, FARTHEST):
        for base in (y - 7 - LINE * lines, y + 15 + LINE * lines):
            yield from ((x + away, base) for away in chain((8, -8 - size, -size / 2)))
