"""What schemes cost the programs of a suite, as a page: `simprof suite run --html FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.suites.suite import Benchmark, Suite
from simprof.profiler.reports.display import group_digits, percent
from simprof.profiler.reports.html import page

BAR = 100
"""Units that the longest bar takes."""


@dataclass(frozen=True)
class Cost:
    """What one setting costs one program; `error`: why that is not known, None where it is."""

    setting: str
    added: str
    overhead: str
    bar: float
    error: str | None


@dataclass(frozen=True)
class ProgramCosts:
    """One program under all settings."""

    name: str
    group: str
    base: str
    costs: tuple[Cost, ...]


def render(
    suite: Suite,
    rows: Sequence[tuple[Benchmark, Sequence[CellResult]]],
    settings: Sequence[str],
    basis: str,
) -> str:
    """Return the page.

    Parameters
    ----------
    suite
        The suite.
    rows
        Its programs, each with a result for each setting.
    settings
        Names of the settings.
    basis
        Which inputs and builds were run, in words.
    """
    overheads = [_overhead(each) for _, results in rows for each in results]
    most = max(overheads, default=0.0) or 1.0
    return page.render(
        "suite.html",
        title=f"simprof: suite {suite.name}",
        about=suite.title,
        basis=basis,
        rows=[_row(benchmark, results, settings, most) for benchmark, results in rows],
        version=version("simprof"),
    )


def _row(
    benchmark: Benchmark, results: Sequence[CellResult], settings: Sequence[str], most: float
) -> ProgramCosts:
    good = [result for result in results if not result.failed]
    return ProgramCosts(
        benchmark.name,
        benchmark.group,
        group_digits(good[0].base) if good else "-",
        tuple(_cost(name, each, most) for name, each in zip(settings, results, strict=True)),
    )


def _cost(setting: str, result: CellResult, most: float) -> Cost:
    if result.failed:
        return Cost(setting, "-", "-", 0.0, result.error or "it failed")
    bar = round(BAR * _overhead(result) / most, 2)
    overhead = percent(result.added, result.base)
    return Cost(setting, group_digits(result.added), overhead, bar, result.error)


def _overhead(result: CellResult) -> float:
    return 0.0 if result.failed or not result.base else result.added / result.base
