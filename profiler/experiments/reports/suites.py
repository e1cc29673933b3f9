"""Suites and sweeps as text: programs, builds, costs under schemes, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import percent

if TYPE_CHECKING:
    from simprof.profiler.experiments.cells.cells import CellDocument, Job
    from simprof.profiler.experiments.suites.suite import Benchmark, BuildReport, Suite

DIGITS = 12  # Hexadecimal digits of a checksum that are shown


def render_suites(suites: Sequence[Suite], width: int) -> str:
    """Return the list of all suites."""
    table = layout.columns(
        layout.name("suite"), layout.number("INT"), layout.number("FP"), layout.text("what")
    )
    for suite in suites:
        groups = [benchmark.group for benchmark in suite.benchmarks]
        table.add_row(suite.name, groups.count("INT"), groups.count("FP"), suite.title)
    return layout.print_parts([table], width, color=False)


def render_suite(suite: Suite, width: int) -> str:
    """Return the list of the benchmarks of one suite."""
    table = layout.columns(
        layout.name("benchmark"), *map(layout.text, ("group", "replaces", "from", "why"))
    )
    for benchmark in suite.benchmarks:
        table.add_row(
            benchmark.name, benchmark.group, benchmark.stands_for, origin(benchmark), benchmark.why
        )
    return layout.print_parts([table], width, color=False)


def origin(benchmark: Benchmark) -> str:
    """Say in a few words where a program comes from."""
    recipe = benchmark.recipe
    if recipe.package is not None:
        return f"Debian source package {recipe.package.name}"
    return "committed program" if recipe.committed is not None else "committed source"


def render_build(report: BuildReport, width: int) -> str:
    """Return what was built, and what was not."""
    table = layout.columns(
        layout.name("benchmark"), layout.text("build"), layout.text("sha256"), layout.text("file")
    )
    keys = sorted({*report.programs, *report.failures}, key=lambda key: key[0])
    for key in keys:
        if key in report.programs:
            program = report.programs[key]
            table.add_row(*key, program.sha256[:DIGITS], str(program.path))
        else:
            table.add_row(*key, "-", f"failed: {report.failures[key]}")
    return layout.print_parts([table], width, color=False)


def render_runs(
    rows: Sequence[tuple[Benchmark, Sequence[CellDocument]]], settings: Sequence[str], width: int
) -> str:
    """Return the costs of each setting on each benchmark; `rows` have a result for each setting."""
    table = layout.columns(
        layout.name("benchmark"),
        layout.text("group"),
        layout.number("base"),
        *[layout.number(f"{each} {what}") for each in settings for what in ("added", "overhead")],
        layout.text("failed"),
    )
    for benchmark, results in rows:
        good = [result for result in results if not result.failed]
        base = good[0].base if good else "-"
        costs = [cell for each in results for cell in _costs(each)]
        errors = [each.error for each in results if each.error is not None]
        table.add_row(benchmark.name, benchmark.group, base, *costs, errors[0] if errors else "")
    return layout.print_parts([table], width, color=False)


def _costs(result: CellDocument) -> tuple[layout.Value, layout.Value]:
    if result.failed:
        return ("-", "-")
    return (result.added, percent(result.added, result.base))


MOST_SETTINGS = 8  # Columns of a table; further settings have tables of their own

ProgramKey = tuple[str, str, str]  # Program, input, build


def render_sweep(results: Mapping[Job, CellDocument], output: Path, width: int, color: bool) -> str:
    """Return the overheads of all runs that went well, and what to do next.

    `output`: The results file. `width`, `color`: Of the terminal.
    """
    return layout.print_parts([*_overheads(results), *_next(output)], width, color)


def _overheads(results: Mapping[Job, CellDocument]) -> Iterator[layout.Part]:
    # Cells bring the schemes' options along, which lists of suites do without.
    from simprof.profiler.experiments.cells.cells import CellKind
    from simprof.profiler.experiments.cells.settings import SELECTING

    costs: dict[ProgramKey, dict[str, CellDocument]] = {}
    settings: dict[str, None] = {}
    for job, result in results.items():
        cell = job.cell
        if cell.kind is CellKind.RUN and result.error is None:
            kept = tuple(each for each in cell.setting.own if each[0] not in SELECTING)
            setting = replace(cell.setting, own=kept).label
            settings[setting] = None
            costs.setdefault((cell.benchmark, cell.input, cell.build), {})[setting] = result
    if not costs:
        return
    varying = [k for k in range(3) if k == 0 or len({row[k] for row in costs}) > 1]
    titles = ("program", "input", "build")
    yield from (layout.BLANK, layout.paragraph(f"overhead in %{_selected(results)}"))
    for first in range(0, len(settings), MOST_SETTINGS):
        shown = list(settings)[first : first + MOST_SETTINGS]
        heads = (layout.name(titles[k]) for k in varying)
        table = layout.columns(*heads, *map(layout.number, shown))
        for row, found in costs.items():
            overheads = (_percent(found.get(each)) for each in shown)
            table.add_row(*(row[k] for k in varying), *overheads)
        if first:
            yield layout.BLANK
        yield table


def _selected(results: Mapping[Job, CellDocument]) -> str:
    user_only = any(job.cell.setting.selection.user_only for job in results)
    return ", of the programs' own routines" if user_only else ""


def _percent(result: CellDocument | None) -> str:
    if result is None or not result.base:
        return "-"
    return f"{100 * result.added / result.base:.1f}"


def _next(output: Path) -> Sequence[layout.Part]:
    file = shlex.quote(str(output))
    return (
        layout.BLANK,
        layout.paragraph(
            f"next: simprof table overheads --from {file}    all schemes side by side"
        ),
        layout.paragraph(f"      simprof table --all --from {file}        the papers' tables"),
    )
