"""Experiments as pages: tables with plots and verdicts, and costs of a suite's programs.

A plot is grouped bars in SVG: one group a program, the paper's bars paler. It is a file by itself,
or a part of a page, whose style sheet then chooses its colours. Equal numbers give equal files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct

from simprof.profiler.experiments.cells.cells import CellDocument
from simprof.profiler.experiments.reports.tables import cells, in_words, shown
from simprof.profiler.experiments.suites.suite import Benchmark, Suite
from simprof.profiler.experiments.tables.averages import PAPER_COLUMN
from simprof.profiler.experiments.tables.spec import TableReport
from simprof.profiler.experiments.tables.table import (
    Bars,
    ReportTable,
    TableColumn,
    Verdict,
    as_float,
)
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.reports.html import page
from simprof.profiler.reports.html.summary import longest

CLASSES = {
    Verdict.HOLDS: "holds",
    Verdict.FAILS: "fails",
    Verdict.TOO_FEW: "open",
    Verdict.UNTESTABLE: "open",
}


def render_tables_page(report: TableReport) -> str:
    """Return the page."""
    return page.render(
        "tables.html",
        title=f"simprof: results of suite {report.suite}",
        report=report,
        verdicts=list(Verdict),
        classes=CLASSES,
        count=lambda table: Counter(claim.verdict for claim in table.claims),
        plot=plot,
        cells=cells,
        kind=_kind,
        in_words=in_words,
    )


def _kind(column: TableColumn) -> str:
    names = ["number"] if column.numeric else []
    return " ".join([*names, *(["paper"] if column.key.endswith(PAPER_COLUMN) else [])])


COLOURS = ("#3465a4", "#cc6633", "#4e9a06", "#75507b", "#a08000", "#555753")
BAR, GAP, LEFT, TOP, HEIGHT, BOTTOM = 9, 10, 62, 34, 240, 110
# Width of a letter, and how far a name of length 1 reaches to the left and down (at 55 degrees)
LETTER, ACROSS, DOWN = 7, 0.58, 0.82
PALE = 0.4
TICKS = 5


class Series(Struct, frozen=True):
    """Bars of one colour, by its number; `paper`: they are the paper's numbers."""

    title: str
    colour: int
    paper: bool
    values: tuple[float | None, ...]
    texts: tuple[str, ...]


class Axis(Struct, frozen=True):
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


class Box(Struct, frozen=True):
    """A bar of series number `series`, or what stands for it in the legend; its right `text`."""

    x: float
    y: float
    width: float
    height: float
    series: int
    paper: bool
    text: str

    @property
    def colour(self) -> str:
        """The colour where no style sheet says another."""
        return COLOURS[self.series]


def render_plot(table: ReportTable) -> str | None:
    """Return the plot of a table; None where it has none, or no number to show."""
    made = plot(table)
    return None if made is None else page.environment().get_template("plot.svg").render(plot=made)


def plot(table: ReportTable) -> dict[str, Any] | None:
    """Return what the template `plot.svg` draws, and where; None as in `render_plot`."""
    bars = table.bars
    if bars is None:
        return None
    series = _series(table, bars)
    numbers = [value for group in series for value in group.values if value is not None]
    if not numbers:
        return None
    axis = _axis(numbers, bars)
    group = BAR * len(series) + GAP
    names = [
        (LEFT + GAP // 2 + position * group + (group - GAP) // 2, row)
        for position, row in enumerate(table.made)
    ]
    reach = [(x, LETTER * len(str(row.values[0]))) for x, row in names]
    return {
        "title": table.title,
        "axis": bars.axis,
        # Names lean to the left: long ones begin before everything else, and end below.
        "start": min(0, *(math.floor(x - ACROSS * length) for x, length in reach)),
        "width": max(LEFT + group * len(table.made), LEFT + 320, *_legend_places(series)) + 20,
        "height": TOP + HEIGHT + max(BOTTOM, *(20 + round(DOWN * size) for _, size in reach)),
        "left": LEFT,
        "middle": TOP + HEIGHT // 2,
        "ticks": [(round(axis.place(tick), 1), _tick(tick)) for tick in axis.ticks()],
        "baseline": None if bars.baseline is None else round(axis.place(bars.baseline), 1),
        "bars": list(_bars(series, axis, group)),
        "names_at": TOP + HEIGHT + 12,
        "names": names,
        "legend": [
            Box(x, 10, 10, 10, each.colour, each.paper, each.title)
            for x, each in zip(_legend_places(series), series, strict=False)
        ],
        "pale": PALE,
    }


def _tick(number: float) -> str:
    return f"{number:g}" if number < 1e6 else f"{number:.0e}"


def _series(table: ReportTable, bars: Bars) -> list[Series]:
    series = []
    keys = {column.key for column in table.columns}
    for number, key in enumerate(bars.columns):
        colour = number % len(COLOURS)
        series.append(_one(table, key, colour, paper=False))
        if f"{key}{PAPER_COLUMN}" in keys:
            series.append(_one(table, f"{key}{PAPER_COLUMN}", colour, paper=True))
    return series


def _one(table: ReportTable, key: str, colour: int, *, paper: bool) -> Series:
    position = table.index(key)
    column = table.columns[position]
    title = column.title
    if paper:  # behind its own column there may be one of what was executed
        title = f"{table.columns[table.index(key.removesuffix(PAPER_COLUMN))].title} (paper)"
    values, texts = [], []
    for row in table.made:
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


def _bars(series: Sequence[Series], axis: Axis, group: int) -> Iterator[Box]:
    ground = axis.place(axis.low if axis.logarithmic else max(axis.low, 0.0))
    for number, each in enumerate(series):
        for position, value in enumerate(each.values):
            if value is None:
                continue
            x = LEFT + GAP // 2 + position * group + number * BAR
            top, bottom = sorted((axis.place(value), ground))
            size = round(top, 1), BAR - 1, round(bottom - top, 1)
            yield Box(x, *size, each.colour, each.paper, each.texts[position])


def _legend_places(series: Sequence[Series]) -> list[int]:
    """Return where each entry of the legend begins, and where the last one ends."""
    return list(accumulate((28 + 7 * len(group.title) for group in series), initial=LEFT))


LONGEST_BAR = 100  # Units that the longest bar takes


def render_suite_page(
    suite: Suite,
    # Its programs, each with a result for each setting.
    rows: Sequence[tuple[Benchmark, Sequence[CellDocument]]],
    settings: Sequence[str],  # Names of the settings
    basis: str,  # Which inputs and builds were run, in words
) -> str:
    """Return the page."""
    most = longest([each.overhead for _, found in rows for each in found if not each.failed])
    return page.render(
        "suite.html",
        title=f"simprof: suite {suite.name}",
        about=suite.title,
        basis=basis,
        rows=rows,
        settings=settings,
        bar_length=lambda result: round(LONGEST_BAR * result.overhead / most, 2),
        version=OWN_VERSION,
    )
