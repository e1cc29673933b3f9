"""What a sweep ends with: overheads of what was run, and the commands that come next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from simprof.profiler.experiments.cells.cells import CellResult, Job, Kind
from simprof.profiler.experiments.cells.settings import SELECTING, CellSetting
from simprof.profiler.reports.display import plural
from simprof.profiler.reports.tables import (
    BLANK,
    Part,
    columns,
    name,
    number,
    paragraph,
    print_parts,
)

MOST_SETTINGS, MOST_PROGRAMS = 8, 20
"""Columns and rows that are shown; `simprof table` shows all."""

Row = tuple[str, str, str]
"""Program, input, build."""


def render(results: Mapping[Job, CellResult], output: Path, width: int, color: bool) -> str:
    """Return the overheads of all runs that went well, and what to do next.

    Parameters
    ----------
    output
        The results file.
    width, color
        Of the terminal.
    """
    return print_parts([*_overheads(results), *_next(output)], width, color)


def _overheads(results: Mapping[Job, CellResult]) -> Iterator[Part]:
    costs: dict[Row, dict[str, CellResult]] = {}
    settings: dict[str, None] = {}
    for job, result in results.items():
        cell = job.cell
        if cell.kind is Kind.RUN and result.error is None:
            setting = _without_selection(cell.setting).name
            settings[setting] = None
            costs.setdefault((cell.benchmark, cell.input, cell.build), {})[setting] = result
    if not costs:
        return
    shown = list(settings)[:MOST_SETTINGS]
    varying = [k for k in range(3) if k == 0 or len({row[k] for row in costs}) > 1]
    titles = ("program", "input", "build")
    table = columns(*(name(titles[k]) for k in varying), *map(number, shown))
    for row, found in list(costs.items())[:MOST_PROGRAMS]:
        table.add_row(*(row[k] for k in varying), *(_percent(found.get(each)) for each in shown))
    yield from (BLANK, paragraph(f"overhead in %{_selected(results)}"), table)
    for what, count in (
        ("setting", len(settings) - len(shown)),
        ("program", len(costs) - MOST_PROGRAMS),
    ):
        if count > 0:
            yield paragraph(f"and {plural(count, f'more {what}')}")


def _without_selection(setting: CellSetting) -> CellSetting:
    kept = tuple(option for option in setting.options if option[0] not in SELECTING)
    return replace(setting, options=kept)


def _selected(results: Mapping[Job, CellResult]) -> str:
    user_only = any(job.cell.setting.selection.user_only for job in results)
    return ", of the programs' own routines" if user_only else ""


def _percent(result: CellResult | None) -> str:
    if result is None or not result.base:
        return "-"
    return f"{100 * result.added / result.base:.1f}"


def _next(output: Path) -> Sequence[Part]:
    file = shlex.quote(str(output))
    return (
        BLANK,
        paragraph(f"next: simprof table overheads --from {file}    all schemes side by side"),
        paragraph(f"      simprof table --all --from {file}        the papers' tables"),
    )
