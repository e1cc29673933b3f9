"""Profiles as one page to explore: `simprof report PROFILE... --html FILE`.

The page holds a summary as HTML, and compressed data that its scripts show when asked: an index
(all routines in one table, the hottest paths and edges), and details of routines in groups, so that
a page of thousands of routines opens at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from profiler.profiles.profile import Measurement
from profiler.reports import mode_facts
from profiler.reports.display import visible
from profiler.reports.html import page
from profiler.reports.html.routines import Row, Run, detail, facts, hottest, rows
from profiler.reports.html.summary import summaries
from profiler.reports.html.texts import SourceTexts

__all__ = ["Run", "render"]

GROUP = 40
"""Routines whose details are packed together."""

MOST = 200
"""Hot paths, and hot edges, of a run in the index."""

SCRIPTS = (
    "vendor/dagre.min.js",
    "assets/core.js",
    "assets/table.js",
    "assets/layout.js",
    "assets/graph.js",
    "assets/code.js",
    "assets/routine.js",
    "assets/lists.js",
    "assets/main.js",
)


def render(runs: Sequence[Run], texts: SourceTexts | None = None) -> str:
    """Return the page.

    Parameters
    ----------
    runs
        What it is about, in this order; their names differ.
    texts
        The source files that it quotes.
    """
    texts = texts or SourceTexts()
    shown = rows(runs)
    title = f"simprof: {visible(runs[0].measurement.program.file)}"
    return page.render(
        "report.html",
        SCRIPTS,
        title=title,
        runs=summaries(runs),
        index=page.packed(_index(runs, shown)),
        groups=[page.packed(group) for group in _groups(runs, shown, texts)],
        version=version("simprof"),
    )


def _index(runs: Sequence[Run], shown: Sequence[Row]) -> dict[str, Any]:
    return {
        "runs": [_run(number, run, shown) for number, run in enumerate(runs)],
        "group": GROUP,
        "routines": [
            [
                row.name,
                f"{row.address:x}",
                [
                    None if position is None else facts(run.measurement.routines[position])
                    for run, position in zip(runs, row.positions, strict=True)
                ],
            ]
            for row in shown
        ],
    }


def _run(number: int, run: Run, shown: Sequence[Row]) -> dict[str, Any]:
    measurement = run.measurement
    return {
        "name": run.name,
        "base": measurement.base,
        "added": measurement.added,
        "collects": str(mode_facts.collects(measurement)),
        "note": run.note,
        "paths": _hot_paths(number, measurement, shown),
        "edges": _hot_edges(number, measurement, shown),
    }


def _hot_paths(number: int, measurement: Measurement, shown: Sequence[Row]) -> list[list[Any]]:
    """Return [row, position among the routine's shown paths, id, count, instructions, blocks]."""
    ranked = []
    for place, row in enumerate(shown):
        position = row.positions[number]
        if position is None:
            continue
        for rank, path in enumerate(hottest(measurement.routines[position])):
            name = "partial" if path.partial else str(path.id)
            cells = [place, rank, name, path.count, path.instructions, len(path.blocks)]
            ranked.append((path.count * path.instructions, cells))
    ranked.sort(key=lambda each: -each[0])
    return [cells for _, cells in ranked[:MOST]]


def _hot_edges(number: int, measurement: Measurement, shown: Sequence[Row]) -> list[list[Any]]:
    """Return [row, edge, source, target, kind, count, whether it carries code]."""
    ranked = []
    for place, row in enumerate(shown):
        position = row.positions[number]
        if position is None:
            continue
        for edge_number, edge in enumerate(measurement.routines[position].edge_counts):
            if edge.count:
                ranked.append((edge.count, place, edge_number, edge))
    ranked.sort(key=lambda each: -each[0])
    return [
        [
            place,
            at,
            edge.source.text(""),
            edge.target.text(""),
            edge.kind.value,
            count,
            int(edge.instrumented),
        ]
        for count, place, at, edge in ranked[:MOST]
    ]


def _groups(
    runs: Sequence[Run], shown: Sequence[Row], texts: SourceTexts
) -> Iterator[list[list[Any]]]:
    """Yield the details of routines: of each one a list by run; a number means: as in that run."""
    for start in range(0, len(shown), GROUP):
        yield [_details(runs, row, texts) for row in shown[start : start + GROUP]]


def _details(runs: Sequence[Run], row: Row, texts: SourceTexts) -> list[Any]:
    made: list[Any] = []
    for run, position in zip(runs, row.positions, strict=True):
        found = None if position is None else detail(run, position, texts)
        if found is not None and found in made:
            made.append(made.index(found))
        else:
            made.append(found)
    return made
