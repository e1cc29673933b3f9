"""How the columns of a table share the width that there is. Numbers are never cropped.

Terms
-----
natural width
    What a column takes where there is room for everything in it.
floor
    What it takes at least: its numbers whole, its names shortened, its texts folded.

Steps -> functions
------------------
1. All columns side by side, the wide ones narrower, titles folded      `spread`
2. else the same with the columns of the longest numbers in short form   `_compacted`
3. else columns in several lines a row, one line below the other         `_stacked`
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from simprof.profiler.reports.display import cells, fold, shorten
from simprof.profiler.reports.numbers import needs_short, scientific, whole

NAME_FLOOR = 16
TEXT_FLOOR = 24
"""Also of what is no whole number in a column of numbers, such as values by iteration."""

COMPACTED_FROM = 10**12
"""For want of room, only columns with larger numbers have short forms."""

STACKED_INDENT = 2


class Kind(Enum):
    """What a column holds: numbers at the right, names to be shortened, texts to be folded."""

    NUMBER = "number"
    NAME = "name"
    TEXT = "text"


@dataclass(frozen=True)
class Styled:
    """A text with its style: "bold", "red", ..., empty for none."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    title: str
    kind: Kind


Value = int | str
"""An entry of a table; a number is given as such where it may have a short form."""


@dataclass(frozen=True)
class Need:
    """How many cells a column takes at least, and where there is room."""

    floor: int
    natural: int


@dataclass(frozen=True)
class Place:
    """A column of a line: which, how wide, and whether its long numbers have the short form."""

    column: int
    width: int
    compact: bool = False


Line = tuple[Place, ...]


def fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Value]], width: int, space: int
) -> tuple[Line, ...]:
    """Return the lines that each row takes, and the head.

    Parameters
    ----------
    columns
        The heads.
    rows
        The entries, one for each column.
    width
        Cells in all.
    space
        Cells between columns.
    """
    by_column = [[row[at] for row in rows] for at in range(len(columns))]
    pairs = list(zip(columns, by_column, strict=True))
    for compact in _compacted(by_column):
        needs = [need(column, entries, at in compact) for at, (column, entries) in enumerate(pairs)]
        widths = spread(needs, width, space)
        if widths is not None:
            return (tuple(Place(at, each, at in compact) for at, each in enumerate(widths)),)
    compact = next(_compacted(by_column))
    needs = [need(*pair, compact=at in compact) for at, pair in enumerate(pairs)]
    return tuple(_stacked(needs, compact, width, space))


def need(column: Column, entries: Sequence[Value], compact: bool) -> Need:
    """Return what a column takes; `compact`: with its long numbers in short form."""
    words = max(map(cells, column.title.split(" ")))
    wholes = [cells(whole(each, compact)) for each in entries if isinstance(each, int)]
    texts = [cells(line) for each in entries if isinstance(each, str) for line in each.split("\n")]
    most, longest = max(wholes, default=0), max(texts, default=0)
    least = NAME_FLOOR if column.kind is Kind.NAME else TEXT_FLOOR
    floor = max(words, most, min(longest, least))
    return Need(floor, max(cells(column.title), most, longest))


def spread(needs: Sequence[Need], width: int, space: int) -> list[int] | None:
    """Share `width` among columns side by side; None where not even their floors fit.

    All get the same, but none less than its floor or more than it takes.
    """
    room = width - space * (len(needs) - 1)
    if sum(each.floor for each in needs) > room:
        return None
    low, high = 0, max((each.natural for each in needs), default=0)
    while low < high:
        level = (low + high + 1) // 2
        taken = sum(min(each.natural, max(each.floor, level)) for each in needs)
        low, high = (level, high) if taken <= room else (low, level - 1)
    widths = [min(each.natural, max(each.floor, low)) for each in needs]
    left = room - sum(widths)
    for at, each in enumerate(needs):
        if left > 0 and widths[at] < each.natural:
            widths[at] += 1
            left -= 1
    return widths


def _compacted(by_column: Sequence[Sequence[Value]]) -> Iterator[frozenset[int]]:
    """Yield which columns have short forms: those that need them, the widest other, and so on."""
    numbers = [[each for each in entries if isinstance(each, int)] for entries in by_column]
    largest = {at: max(map(abs, each), default=0) for at, each in enumerate(numbers)}
    must = {at for at, each in enumerate(numbers) if needs_short(each)}
    may = sorted(
        (at for at in largest if at not in must and largest[at] >= COMPACTED_FROM),
        key=lambda at: -largest[at],
    )
    yield from (frozenset({*must, *may[:count]}) for count in range(len(may) + 1))


def _stacked(
    needs: Sequence[Need], compact: Collection[int], width: int, space: int
) -> Iterator[Line]:
    """Yield lines of columns, as many in each as fit; those after the first are indented."""
    room, start = width, 0
    while start < len(needs):
        end = start + 1
        while (
            end < len(needs)
            and sum(each.floor for each in needs[start : end + 1]) + space * (end - start) <= room
        ):
            end += 1
        line = [Need(min(each.floor, room), each.natural) for each in needs[start:end]]
        widths = spread(line, room, space) or [room]
        places = range(start, end)
        yield tuple(Place(at, each, at in compact) for at, each in zip(places, widths, strict=True))
        start, room = end, width - STACKED_INDENT


def shown(entry: Value, kind: Kind, place: Place) -> list[str]:
    """Return the lines of one entry, none wider than its place, all but texts filled up to it."""
    width = place.width
    if isinstance(entry, int):
        text = whole(entry, place.compact)
        lines = [text if cells(text) <= width else scientific(entry)]
    elif kind is Kind.NAME:
        lines = [shorten(entry, width)]
    else:
        lines = fold(entry, width)
    if kind is Kind.NUMBER:
        return [" " * (width - cells(line)) + line for line in lines]
    return lines
