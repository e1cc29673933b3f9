"""Suites for people: what is in them, what was built, what their programs cost under schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiler.reports.numbers import group_digits, percent
from profiler.reports.tables import columns, natural_width, print_parts

if TYPE_CHECKING:
    from rich.table import Table

    from profiler.experiments.cells.cells import CellResult
    from profiler.experiments.suites.suite import Benchmark, BuildReport, Suite

DIGITS = 12
"""Hexadecimal digits of a checksum that are shown."""


def render_suites(suites: Sequence[Suite], width: int) -> str:
    """Return the list of all suites."""
    table = columns(("suite", False), ("INT", True), ("FP", True), ("what", False))
    for suite in suites:
        groups = [benchmark.group for benchmark in suite.benchmarks]
        table.add_row(suite.name, str(groups.count("INT")), str(groups.count("FP")), suite.title)
    return _printed(table, width)


def render_suite(suite: Suite, width: int) -> str:
    """Return the list of the benchmarks of one suite."""
    table = columns(
        ("benchmark", False), ("group", False), ("stands for", False), ("from", False),
        ("why", False),
    )  # fmt: skip
    for benchmark in suite.benchmarks:
        table.add_row(
            benchmark.name, benchmark.group, benchmark.stands_for, origin(benchmark), benchmark.why
        )
    return _printed(table, width)


def origin(benchmark: Benchmark) -> str:
    """Say in a few words where a program comes from."""
    recipe = benchmark.recipe
    if recipe.package is not None:
        return f"Debian source package {recipe.package.name}"
    return "committed program" if recipe.committed is not None else "committed source"


def render_build(report: BuildReport, width: int) -> str:
    """Return what was built, and what was not."""
    table = columns(("benchmark", False), ("build", False), ("sha256", False), ("file", False))
    keys = sorted({*report.programs, *report.failures}, key=lambda key: key[0])
    for key in keys:
        if key in report.programs:
            program = report.programs[key]
            table.add_row(*key, program.sha256[:DIGITS], str(program.path))
        else:
            table.add_row(*key, "-", f"failed: {report.failures[key]}")
    return _printed(table, width)


def render_runs(
    rows: Sequence[tuple[Benchmark, Sequence[CellResult]]], settings: Sequence[str], width: int
) -> str:
    """Return the costs of each setting on each benchmark; `rows` have a result for each setting."""
    table = columns(
        ("benchmark", False), ("group", False), ("base", True),
        *[(f"{name} {what}", True) for name in settings for what in ("added", "overhead")],
        ("failed", False),
    )  # fmt: skip
    for benchmark, results in rows:
        good = [result for result in results if not result.failed]
        base = group_digits(good[0].base) if good else "-"
        costs = [cell for each in results for cell in _costs(each)]
        errors = [each.error for each in results if each.error is not None]
        table.add_row(benchmark.name, benchmark.group, base, *costs, errors[0] if errors else "")
    return _printed(table, width)


def _costs(result: CellResult) -> tuple[str, str]:
    if result.failed:
        return ("-", "-")
    return (group_digits(result.added), percent(result.added, result.base))


def _printed(table: Table, width: int) -> str:
    return print_parts([table], max(width, natural_width(table)), color=False)
