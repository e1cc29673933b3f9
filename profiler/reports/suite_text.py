"""Suites for people: what is in them, what was built, what their programs cost under schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simprof.profiler.reports.display import percent
from simprof.profiler.reports.tables import Value, columns, name, number, print_parts, text

if TYPE_CHECKING:
    from simprof.profiler.experiments.cells.cells import CellResult
    from simprof.profiler.experiments.suites.suite import Benchmark, BuildReport, Suite

DIGITS = 12
"""Hexadecimal digits of a checksum that are shown."""


def render_suites(suites: Sequence[Suite], width: int) -> str:
    """Return the list of all suites."""
    table = columns(name("suite"), number("INT"), number("FP"), text("what"))
    for suite in suites:
        groups = [benchmark.group for benchmark in suite.benchmarks]
        table.add_row(suite.name, groups.count("INT"), groups.count("FP"), suite.title)
    return print_parts([table], width, color=False)


def render_suite(suite: Suite, width: int) -> str:
    """Return the list of the benchmarks of one suite."""
    table = columns(name("benchmark"), *map(text, ("group", "stands for", "from", "why")))
    for benchmark in suite.benchmarks:
        table.add_row(
            benchmark.name, benchmark.group, benchmark.stands_for, origin(benchmark), benchmark.why
        )
    return print_parts([table], width, color=False)


def origin(benchmark: Benchmark) -> str:
    """Say in a few words where a program comes from."""
    recipe = benchmark.recipe
    if recipe.package is not None:
        return f"Debian source package {recipe.package.name}"
    return "committed program" if recipe.committed is not None else "committed source"


def render_build(report: BuildReport, width: int) -> str:
    """Return what was built, and what was not."""
    table = columns(name("benchmark"), text("build"), text("sha256"), text("file"))
    keys = sorted({*report.programs, *report.failures}, key=lambda key: key[0])
    for key in keys:
        if key in report.programs:
            program = report.programs[key]
            table.add_row(*key, program.sha256[:DIGITS], str(program.path))
        else:
            table.add_row(*key, "-", f"failed: {report.failures[key]}")
    return print_parts([table], width, color=False)


def render_runs(
    rows: Sequence[tuple[Benchmark, Sequence[CellResult]]], settings: Sequence[str], width: int
) -> str:
    """Return the costs of each setting on each benchmark; `rows` have a result for each setting."""
    table = columns(
        name("benchmark"),
        text("group"),
        number("base"),
        *[number(f"{each} {what}") for each in settings for what in ("added", "overhead")],
        text("failed"),
    )
    for benchmark, results in rows:
        good = [result for result in results if not result.failed]
        base = good[0].base if good else "-"
        costs = [cell for each in results for cell in _costs(each)]
        errors = [each.error for each in results if each.error is not None]
        table.add_row(benchmark.name, benchmark.group, base, *costs, errors[0] if errors else "")
    return print_parts([table], width, color=False)


def _costs(result: CellResult) -> tuple[Value, Value]:
    if result.failed:
        return ("-", "-")
    return (result.added, percent(result.added, result.base))
