"""Columns of a table as grouped bars, in SVG: one group a program, the paper's bars paler.

Written by hand so that the page needs nothing else and equal numbers give equal files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from profiler.experiments.tables.table import Bars, ReportTable, as_float
from profiler.reports.table_values import shown

COLOURS = ("#3465a4", "#cc6633", "#4e9a06", "#75507b", "#a08000", "#555753")
BAR, GAP, LEFT, TOP, HEIGHT, BOTTOM = 9, 10, 62, 34, 240, 110
PALE = 0.4
TICKS = 5


@dataclass(frozen=True)
class Series:
    """Bars of one colour; `paper`: they are the paper's numbers."""

    title: str
    colour: str
    paper: bool
    values: tuple[float | None, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Axis:
    """From numbers to heights."""

    low: float
    high: float
    logarithmic: bool

    def place(self, value: float) -> float:
        """Return the distance from the top."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = (math.log10(max(x, low)) for x in (value, low, high))
        return TOP + HEIGHT * (1 - (min(value, high) - low) / ((high - low) or 1))

    def ticks(self) -> list[float]:
        """Return the numbers with a line."""
        if self.logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            skip = max(1, (last - first) // TICKS)
            return [10.0**power for power in range(first, last + 1, skip)]
        step = _step(self.high - self.low)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [self.low + step * number for number in range(count + 1)]


def render(table: ReportTable) -> str | None:
    """Return the plot of a table; None where it has none, or no number to show."""
    bars = table.bars
    if bars is None:
        return None
    rows = [row for row in table.rows if row.kind != "failed"]
    names = [str(row.values[0]) for row in rows]
    series = _series(table, bars)
    numbers = [value for group in series for value in group.values if value is not None]
    if not numbers:
        return None
    axis = _axis(numbers, bars)
    group = BAR * len(series) + GAP
    width = max(LEFT + group * len(rows), LEFT + 320, _legend_end(series)) + 20
    height = TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(table.title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_scale(axis, bars, width),
        *_bars(series, axis, group),
        *_names(names, group, [row.kind == "average" for row in rows]),
        *_legend(series),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _series(table: ReportTable, bars: Bars) -> list[Series]:
    series = []
    keys = {column.key for column in table.columns}
    for number, key in enumerate(bars.columns):
        colour = COLOURS[number % len(COLOURS)]
        series.append(_one(table, key, colour, paper=False))
        if f"{key}:paper" in keys:
            series.append(_one(table, f"{key}:paper", colour, paper=True))
    return series


def _one(table: ReportTable, key: str, colour: str, *, paper: bool) -> Series:
    position = table.index(key)
    column = table.columns[position]
    title = column.title
    if paper:
        title = f"{table.columns[position - 1].title} (paper)"
    values, texts = [], []
    for row in table.rows:
        if row.kind == "failed":
            continue
        value = row.values[position]
        number = as_float(value) if isinstance(value, int | float) else None
        values.append(number if number is None or math.isfinite(number) else None)
        texts.append(f"{row.values[0]}, {title}: {shown(value, column.form)}")
    return Series(title, colour, paper, tuple(values), tuple(texts))


def _axis(numbers: Sequence[float], bars: Bars) -> Axis:
    if bars.logarithmic:
        positive = [number for number in numbers if number > 0] or [1.0]
        low = 10.0 ** math.floor(math.log10(min(positive)))
        high = 10.0 ** math.ceil(math.log10(max(positive)))
        return Axis(low, high if high > low else low * 10, True)
    low, high = min(0.0, *numbers), max(*numbers, bars.baseline or 0.0, 1e-9)
    step = _step(high - low)
    return Axis(math.floor(low / step) * step, math.ceil(high / step) * step, False)


def _step(span: float) -> float:
    """Return a round distance of about five lines."""
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * TICKS >= span)


def _scale(axis: Axis, bars: Bars, width: int) -> Iterator[str]:
    for tick in axis.ticks():
        y = axis.place(tick)
        label = f"{tick:g}" if tick < 1e6 else f"{tick:.0e}"
        yield f'<path d="M{LEFT} {y:.1f}H{width - 10}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    if bars.baseline is not None:
        y = axis.place(bars.baseline)
        yield f'<path d="M{LEFT} {y:.1f}H{width - 10}" stroke="#333" stroke-dasharray="4 3"/>'
    middle = TOP + HEIGHT // 2
    yield (
        f'<text x="14" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle})">{escape(bars.axis)}</text>'
    )


def _bars(series: Sequence[Series], axis: Axis, group: int) -> Iterator[str]:
    ground = axis.place(axis.low if axis.logarithmic else max(axis.low, 0.0))
    for number, each in enumerate(series):
        for position, value in enumerate(each.values):
            if value is None:
                continue
            x = LEFT + GAP // 2 + position * group + number * BAR
            top, bottom = sorted((axis.place(value), ground))
            opacity = PALE if each.paper else 1
            yield (
                f'<rect x="{x}" y="{top:.1f}" width="{BAR - 1}" height="{bottom - top:.1f}" '
                f'fill="{each.colour}" fill-opacity="{opacity}">'
                f"<title>{escape(each.texts[position])}</title></rect>"
            )


def _names(names: Sequence[str], group: int, strong: Sequence[bool]) -> Iterator[str]:
    y = TOP + HEIGHT + 12
    for position, (name, is_strong) in enumerate(zip(names, strong, strict=True)):
        x = LEFT + GAP // 2 + position * group + (group - GAP) // 2
        weight = ' font-weight="bold"' if is_strong else ""
        yield (
            f'<text x="{x}" y="{y}" text-anchor="end"{weight} '
            f'transform="rotate(-55 {x} {y})">{escape(name)}</text>'
        )


def _legend(series: Sequence[Series]) -> Iterator[str]:
    for x, each in zip(_legend_places(series), series, strict=True):
        opacity = PALE if each.paper else 1
        yield (
            f'<rect x="{x}" y="10" width="10" height="10" fill="{each.colour}" '
            f'fill-opacity="{opacity}"/><text x="{x + 14}" y="19">{escape(each.title)}</text>'
        )


def _legend_places(series: Sequence[Series]) -> list[int]:
    """Return where each entry of the legend begins."""
    widths = [28 + 7 * len(group.title) for group in series]
    return [LEFT + sum(widths[:position]) for position in range(len(series))]


def _legend_end(series: Sequence[Series]) -> int:
    return _legend_places(series)[-1] + 28 + 7 * len(series[-1].title)
