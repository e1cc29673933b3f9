"""`simprof regress check` for people: what differs, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from profiler.reports import regress_words as words
from profiler.reports.tables import columns, print_parts

if TYPE_CHECKING:
    from profiler.experiments.regress.causes import Cause
    from profiler.experiments.regress.compare import (
        Check,
        Difference,
        RunCheck,
        SettingCheck,
        State,
    )

_STYLES = {"same": "green", "within limits": "yellow", "changed": "red", "error": "red"}


def render(check: Check, width: int, color: bool) -> str:
    """Return the report.

    Parameters
    ----------
    width
        Columns of the terminal.
    color
        Whether it has colours.
    """
    parts: list[RenderableType] = [Text(f"{check.baseline}: {words.summary(check)}")]
    for run in check.runs:
        parts += _run(run)
    return print_parts(parts, width, color)


def _run(run: RunCheck) -> Iterator[RenderableType]:
    if words.quiet(run):
        return
    yield from (Text(""), _title(run.name, run.state))
    if run.error is not None:
        yield Padding(Text(run.error), (0, 0, 0, 2))
        return
    if run.ending:
        yield _table(run.ending)
    yield from _causes(run.causes, run.state)
    for setting_check in run.settings:
        yield from _setting(run, setting_check)


def _setting(run: RunCheck, setting_check: SettingCheck) -> Iterator[RenderableType]:
    causes = words.own_causes(run, setting_check)
    if setting_check.state == "same" and not causes:
        return
    yield from (Text(""), _title(f"{run.name}, {setting_check.name}", setting_check.state))
    if setting_check.differences:
        yield _table(setting_check.differences)
    yield from _causes(causes, setting_check.state)
    lines = [f"{name}: {text}" if text else name for name, text in words.routines(setting_check)]
    if lines:
        yield Text("  routines:")
        yield from (Padding(Text(line), (0, 0, 0, 4)) for line in lines)


def _title(name: str, state: str) -> Text:
    return Text.assemble((name, "bold"), ": ", (state, _STYLES[state]))


def _table(differences: Iterable[Difference]) -> RenderableType:
    titles = words.COLUMNS
    table = columns(*((title, title in ("baseline", "now", "change")) for title in titles))
    for difference in differences:
        table.add_row(*map(Text, words.row(difference)))
    return Padding(table, (0, 0, 0, 2))


def _causes(causes: Iterable[Cause], state: State) -> Iterator[RenderableType]:
    for cause in causes:
        yield Padding(Text(f"{words.role(state)}: {cause.kind}: {cause.text}"), (0, 0, 0, 2))
        yield from (Padding(Text(detail), (0, 0, 0, 7)) for detail in cause.details)
