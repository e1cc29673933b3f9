"""The summary of runs: the first screen of a report, and the comparison page (`compare --html`).

It says what ran, what profiling it costs, and what its reader must know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.reports import mode_facts, quality
from simprof.profiler.reports.comparison_report import NOTHING_REFUSED
from simprof.profiler.reports.display import column, group_digits, percent, plural, visible
from simprof.profiler.reports.html import page
from simprof.profiler.reports.html.frontier import frontier, points
from simprof.profiler.reports.html.routines import ReportRun
from simprof.profiler.reports.mode_facts import (
    SIZE_NAMES,
    NamedMeasurement,
    guide_price,
    lost,
    shown_sizes,
)
from simprof.profiler.reports.run_text import COUNT_NAMES, ending_text, kind_costs, program_text
from simprof.profiler.schemes.mode_options import shown_options

BAR = 100  # Units that the longest bar takes


class Summary(Struct, frozen=True):
    """One run in the summary."""

    name: str
    description: str
    guide: str  # What guided its scheme, where a profile did
    guide_price: str  # The price of that
    program: str
    ended: str
    partial: bool
    base: str
    added: str
    overhead: str
    bar: float  # Its overhead, the longest bar `BAR`
    totals: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]
    kinds: tuple[tuple[str, ...], ...]  # Rows of `run_text.kind_costs`
    warnings: tuple[str, ...]
    sha256: str


def longest(overheads: Sequence[float]) -> float:
    """Return the overhead that the longest bar stands for: the largest, of one at least 100 %."""
    most = max(overheads, default=0.0) or 1.0
    return most if len(overheads) > 1 else max(most, 1.0)


def summaries(runs: Sequence[ReportRun]) -> list[Summary]:
    """Return what is said of each run."""
    most = longest([run.measurement.overhead for run in runs])
    base = column([run.measurement.base for run in runs])
    added = column([run.measurement.added for run in runs])
    return [
        _summary(run, BAR * run.measurement.overhead / most, *shown)
        for run, *shown in zip(runs, base, added, strict=True)
    ]


def _summary(run: ReportRun, bar: float, base: str, added: str) -> Summary:
    measurement = run.measurement
    warnings, guide = [*measurement.warnings, *run.notes], measurement.guide
    return Summary(
        name=run.name,
        description=visible(mode_facts.description(measurement)),
        guide="" if guide is None else visible(mode_facts.guide_name(guide)),
        guide_price=guide_price(measurement),
        program=program_text(measurement),
        ended=visible(ending_text(measurement.ending)),
        partial=measurement.partial,
        base=base,
        added=added,
        overhead=percent(measurement.added, measurement.base),
        bar=round(bar, 2),
        totals=tuple(_totals(measurement)),
        options=tuple(_options(measurement)),
        kinds=tuple(_kinds(measurement)),
        warnings=tuple(map(visible, warnings)),
        sha256=measurement.program.sha256,
    )


def _totals(measurement: RunMeasurement) -> Iterator[tuple[str, str]]:
    ran = sum(routine.ran for routine in measurement.routines)
    yield group_digits(ran), f"routines ran, of {plural(measurement.program.routines, 'routine')}"
    if measurement.runs > 1:
        yield group_digits(measurement.runs), "runs, added up"
    for name, count in measurement.counts.items():
        if count:
            yield group_digits(count), COUNT_NAMES.get(name, name.replace("_", " "))
    for name, size in shown_sizes(measurement).items():
        yield group_digits(size), SIZE_NAMES[name]
    yield from lost(measurement)
    for call in measurement.refused_calls:
        yield group_digits(call.count), visible(f"{call.name} refused ({call.error})")


def _kinds(measurement: RunMeasurement) -> Iterator[tuple[str, ...]]:
    table = kind_costs(measurement)
    rows = [] if table is None else table.rows
    added = column([each for row in rows for each in row if isinstance(each, int)])
    for first, (_, *rest) in zip(added, rows, strict=True):
        yield (first, *map(str, rest))


def _options(measurement: RunMeasurement) -> Iterator[tuple[str, str]]:
    """Yield the options that shaped the run, but those that were not given."""
    options = shown_options(measurement.mode, measurement.options)
    for name, value in sorted(options.items()):
        if value is None or value is False or value == ():
            continue
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        yield name.replace("_", "-"), visible(text)


NOTE = (
    "Accuracy: how much of the hot paths' flow lies on paths that this profile also ranks as hot. "
    "Schemes that count every path are exact. An edge profile gives a path the least flow that it "
    "can have had. The line connects the schemes on the Pareto front. Overheads do not include the "
    "cost of collecting a profile that guides a scheme."
)


class SchemeRow(Struct, frozen=True):
    """A scheme in the table."""

    name: str
    profile: str
    added: str
    overhead: str
    bar: float  # Its overhead, the longest bar `BAR`
    increments: str
    counters: str
    accuracy: str
    coverage: str


def render_comparison(
    rows: Sequence[NamedMeasurement], refused: Mapping[str, str] = NOTHING_REFUSED
) -> str:
    """Return the page about measurements of one run; `refused`: why other modes have none."""
    _, first = rows[0]
    lines = [line for _, one in rows for line in one.warnings]
    lines += (f"{mode}: {why}" for mode, why in refused.items())
    return page.render(
        "compare.html",
        title=f"simprof: schemes compared on {visible(first.program.file)}",
        facts=[
            ("program", program_text(first)),
            ("ended", visible(ending_text(first.ending))),
            ("base", plural(first.base, "instruction")),
        ],
        frontier=frontier(points(rows)),
        note=NOTE,
        rows=_rows(rows),
        warnings=list(map(visible, dict.fromkeys(lines))),
        version=OWN_VERSION,
    )


def _rows(rows: Sequence[NamedMeasurement]) -> list[SchemeRow]:
    every = [measurement for _, measurement in rows]
    most = longest([one.overhead for one in every])
    numbers = (
        column([one.added for one in every]),
        column([mode_facts.increments(one) for one in every]),
        column([one.sizes.get("counter_bytes", 0) for one in every]),
    )
    return [
        SchemeRow(
            name=name,
            profile=mode_facts.collects(one).value,
            added=added,
            overhead=percent(one.added, one.base),
            bar=round(BAR * one.overhead / most, 2),
            increments=increments,
            counters=counters,
            **dict(zip(("accuracy", "coverage"), quality.cells(one, every), strict=True)),
        )
        for (name, one), added, increments, counters in zip(rows, *numbers, strict=True)
    ]
