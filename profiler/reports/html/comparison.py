"""A comparison of schemes as a page: `simprof compare --html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.reports import mode_facts, quality
from simprof.profiler.reports.comparison_report import NOTHING_REFUSED
from simprof.profiler.reports.display import column, percent, plural, visible
from simprof.profiler.reports.html import page
from simprof.profiler.reports.html.frontier import frontier, points
from simprof.profiler.reports.html.summary import BAR, longest
from simprof.profiler.reports.mode_facts import NamedMeasurement
from simprof.profiler.reports.run_text import ending_text, program_text

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


def render(rows: Sequence[NamedMeasurement], refused: Mapping[str, str] = NOTHING_REFUSED) -> str:
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
