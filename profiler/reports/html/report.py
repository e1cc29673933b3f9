"""Profiles as one page to explore: `simprof show PROFILE... --html FILE`.

The page holds a summary as HTML, and compressed data that its scripts show when asked: an index
(all routines in one table, the hottest paths and edges), and details of routines in groups, so that
a page of thousands of routines opens at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simprof.profiler.profiles.cache_files import binaries, is_wanted
from simprof.profiler.profiles.calls import CallTree, without_sites
from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.profiles.program_files import SourceFiles, find_program
from simprof.profiler.profiles.tables import path_lines
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.call_tree import tree_rows
from simprof.profiler.reports.display import ShortNames, plural, visible
from simprof.profiler.reports.hot_tables import HELPER_MARK, HELPER_NOTE
from simprof.profiler.reports.html import page
from simprof.profiler.reports.html.frontier import frontier, points
from simprof.profiler.reports.html.routines import (
    ReportRun,
    RoutineInRuns,
    detail,
    facts,
    hottest,
    path_name,
    rows,
)
from simprof.profiler.reports.html.summary import NOTE, summaries
from simprof.profiler.request.request import Phase, ProgressCallback, report_progress
from simprof.profiler.schemes import registry
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.planned_again import PlannedProgram, plan_again

__all__ = ["ReportRun", "render"]

NOWHERE_ELSE = SourceFiles()
WHOLE_NAMES = ShortNames(())  # of files: none is shortened

GROUP = 40  # Routines whose details are packed together
MOST = 200  # Hot paths, and hot edges, of a run in the index

_OWN_SCRIPTS = ("core", "table", "layout", "graph", "code", "routine", "lists", "main")
SCRIPTS = ("vendor/dagre.min.js", *(f"assets/{name}.js" for name in _OWN_SCRIPTS))


def shown_runs(
    paths: Sequence[Path],
    measurements: Sequence[RunMeasurement],
    elf: Path | None,
    progress: ProgressCallback | None,
) -> list[ReportRun]:
    """Return saved profiles with what their programs' files tell besides, or why that is missing.

    - `paths`: The files of `measurements`.
    - `elf`: The program; None: where it was when it ran.
    - `progress`: Is told of recovering graphs and generating code again.
    """
    runs = zip(distinct(paths, measurements), measurements, paths, strict=True)
    return [_shown_run(*run, elf, progress) for run in runs]


def distinct(paths: Sequence[Path], measurements: Sequence[RunMeasurement]) -> list[str]:
    """Return a short name for each profile: its mode where that tells them apart."""
    modes = [mode_facts.setting_name(measurement) for measurement in measurements]
    if len(set(modes)) == len(modes):
        return modes
    stems = [visible(path.stem) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{number}: {visible(str(path))}" for number, path in enumerate(paths, 1)]


def _shown_run(
    name: str,
    measurement: RunMeasurement,
    path: Path,
    elf: Path | None,
    progress: ProgressCallback | None,
) -> ReportRun:
    found = find_program(measurement, elf, path)
    counts = SourceCounts(found.named(measurement), found.program)
    if found.program is None:
        note = f"instructions and added code are not shown: {found.note}"
        return ReportRun(name, counts, None, (note, *counts.notes))
    memory = BinaryMemory(found.program, binaries() if is_wanted() else None)
    planned = plan_again(measurement, found.program, memory, progress)
    return ReportRun(name, counts, planned, (*_notes(measurement, planned), *counts.notes))


def _notes(measurement: RunMeasurement, planned: PlannedProgram) -> Iterator[str]:
    if planned.reason is not None:
        yield f"added code is not shown: {planned.reason}"
        return
    scheme = registry.find(measurement.mode)
    if scheme is not None and scheme.instruments:
        unknown = len(measurement.routines) - len(planned.routines) + planned.without_code
        if unknown:
            why = "this simprof makes other code of the program than the one that measured it"
            if measurement.discoveries is None:
                why = "the profile is from an earlier simprof, which did not keep their graphs"
            yield f"added code is not shown of {plural(unknown, 'routine')}: {why}"


def render(
    runs: Sequence[ReportRun],
    sources: SourceFiles = NOWHERE_ELSE,
    progress: ProgressCallback | None = None,
) -> str:
    """Return the page about runs, whose names differ, in this order."""
    shown = rows(runs)
    return page.render(
        "report.html",
        SCRIPTS,
        title=f"simprof: {visible(runs[0].measurement.program.file)}",
        runs=summaries(runs),
        frontier=frontier(points([(run.name, run.measurement) for run in runs])),
        note=NOTE,
        instruments=any(mode_facts.instruments(run.measurement) for run in runs),
        index=page.packed(_index(runs, shown)),
        groups=[page.packed(group) for group in _groups(runs, shown, sources, progress)],
        has_calls=any(run.measurement.call_tree is not None for run in runs),
        helper_note=HELPER_NOTE if any(row.name.endswith(HELPER_MARK) for row in shown) else None,
        version=OWN_VERSION,
    )


def _index(runs: Sequence[ReportRun], shown: Sequence[RoutineInRuns]) -> dict[str, Any]:
    return {
        "runs": [_run(number, run, shown) for number, run in enumerate(runs)],
        "group": GROUP,
        "routines": [
            [
                row.name,
                f"{row.address:#x}",
                [
                    None if position is None else facts(run.measurement.routines[position])
                    for run, position in zip(runs, row.positions, strict=True)
                ],
            ]
            for row in shown
        ],
    }


def _run(number: int, run: ReportRun, shown: Sequence[RoutineInRuns]) -> dict[str, Any]:
    measurement = run.measurement
    paths, edges = _hot_paths(number, measurement, shown), _hot_edges(number, measurement, shown)
    return {
        "name": run.name,
        "base": measurement.base,
        "added": measurement.added,
        "collects": str(mode_facts.collects(measurement)),
        "instruments": int(mode_facts.instruments(measurement)),
        "notes": run.notes,
        "paths": paths[:MOST],
        "pathCount": len(paths),
        "edges": edges[:MOST],
        "edgeCount": len(edges),
        "calls": None if measurement.call_tree is None else _calls(measurement.call_tree),
    }


def _calls(tree: CallTree) -> dict[str, Any]:
    cut = f"The tree is cut at {tree.limit:,} contexts." if tree.beyond else ""
    return {"rows": [list(row) for row in tree_rows(without_sites(tree))], "note": cut}


def _hot_paths(
    number: int, measurement: RunMeasurement, shown: Sequence[RoutineInRuns]
) -> list[list[Any]]:
    """Return the paths, the hottest first.

    Each is [row, position among the routine's shown paths, name, count, instructions, number of
    blocks, source lines in words, whether the count is of another run]; such come last.
    """
    ranked = []
    for place, routine in _of_run(number, measurement, shown):
        for rank, path in enumerate(hottest(measurement, routine)):
            lines = WHOLE_NAMES.route(path_lines(path, measurement))
            elsewhere = measurement.is_of_another_run(path)
            numbers = path.count, path.instructions, len(path.blocks)
            cells = [place, rank, path_name(path), *numbers, lines, int(elsewhere)]
            ranked.append(((elsewhere, -path.count * path.instructions), cells))
    ranked.sort(key=lambda each: each[0])
    return [cells for _, cells in ranked]


def _hot_edges(
    number: int, measurement: RunMeasurement, shown: Sequence[RoutineInRuns]
) -> list[list[Any]]:
    """Return [row, edge, source, target, kind, count, whether it carries code]."""
    ranked = [
        (place, at, edge)
        for place, routine in _of_run(number, measurement, shown)
        for at, edge in enumerate(routine.edge_counts)
        if edge.count
    ]
    ranked.sort(key=lambda each: -each[2].count)
    cells = []
    for place, at, edge in ranked:
        ends = str(edge.source), str(edge.target), edge.kind.value
        cells.append([place, at, *ends, edge.count, int(edge.instrumented)])
    return cells


def _of_run(
    number: int, measurement: RunMeasurement, shown: Sequence[RoutineInRuns]
) -> Iterator[tuple[int, RoutineProfile]]:
    """Yield the rows of routines that ran in a run."""
    for place, row in enumerate(shown):
        if (position := row.positions[number]) is not None:
            yield place, measurement.routines[position]


def _groups(
    runs: Sequence[ReportRun],
    shown: Sequence[RoutineInRuns],
    sources: SourceFiles,
    progress: ProgressCallback | None,
) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(shown), GROUP):
        report_progress(progress, Phase.WRITING, start, len(shown))
        yield [_details(runs, row, sources) for row in shown[start : start + GROUP]]


def _details(runs: Sequence[ReportRun], row: RoutineInRuns, sources: SourceFiles) -> dict[str, Any]:
    """Return the graphs of a routine, and by run [number of its graph, what its scheme does]."""
    graphs: list[Any] = []
    made: list[Any] = []
    for run, position in zip(runs, row.positions, strict=True):
        if position is None:
            made.append(None)
            continue
        graph, scheme = detail(run, position, sources)
        if graph not in graphs:
            graphs.append(graph)
        made.append([graphs.index(graph), scheme])
    return {"graphs": graphs, "runs": made}
