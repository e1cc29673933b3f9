"""`simprof regress check` for people: what differs, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simprof.profiler.reports import regress_words as words
from simprof.profiler.reports.display import brief
from simprof.profiler.reports.tables import (
    BLANK,
    Paragraph,
    Part,
    Table,
    columns,
    number,
    paragraph,
    print_parts,
    text,
)

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.causes import Cause
    from simprof.profiler.experiments.regress.compare import (
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
    parts: list[Part] = [paragraph(f"{check.baseline}: {words.summary(check)}")]
    for run in check.runs:
        parts += _run(run)
    return print_parts(parts, width, color)


def _run(run: RunCheck) -> Iterator[Part]:
    if words.quiet(run):
        return
    yield from (BLANK, _title(run.name, run.state))
    if run.error is not None:
        yield paragraph(run.error, indent=2)
        return
    if run.ending:
        yield _table(run.ending)
    yield from _causes(run.causes, run.state)
    for setting_check in run.settings:
        yield from _setting(run, setting_check)


def _setting(run: RunCheck, setting_check: SettingCheck) -> Iterator[Part]:
    causes = words.own_causes(run, setting_check)
    if setting_check.state == "same" and not causes:
        return
    yield from (BLANK, _title(f"{run.name}, {setting_check.name}", setting_check.state))
    if setting_check.differences:
        yield _table(setting_check.differences)
    yield from _causes(causes, setting_check.state)
    lines = [
        f"{brief(routine)}: {what}" if what else routine
        for routine, what in words.routines(setting_check)
    ]
    if lines:
        yield paragraph("routines:", indent=2)
        yield from (paragraph(line, indent=4) for line in lines)


def _title(subject: str, state: str) -> Paragraph:
    return paragraph((subject, "bold"), ": ", (state, _STYLES[state]))


def _table(differences: Iterable[Difference]) -> Table:
    metric, *amounts, allowed, mark = words.COLUMNS
    table = columns(text(metric), *map(number, amounts), text(allowed), text(mark), indent=2)
    for difference in differences:
        table.add_row(*words.row(difference))
    return table


def _causes(causes: Iterable[Cause], state: State) -> Iterator[Part]:
    for cause in causes:
        yield paragraph(f"{words.role(state)}: {cause.kind}: {cause.text}", indent=2)
        yield from (paragraph(detail, indent=7) for detail in cause.details)
