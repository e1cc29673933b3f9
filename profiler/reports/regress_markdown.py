"""`simprof regress check` as Markdown: the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from simprof.profiler.reports import regress_words as words

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.causes import Cause
    from simprof.profiler.experiments.regress.compare import Check, RunCheck, SettingCheck, State

_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#"})


def render(check: Check) -> str:
    """Return the report."""
    lines = [f"## simprof regress: {escape(check.baseline)}", "", f"{words.summary(check)}."]
    lines += ["", *_overview(check)]
    for run in check.runs:
        lines += _run(run)
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return " ".join(text.split()).translate(_SPECIAL)


def _overview(check: Check) -> Iterator[str]:
    settings = list(dict.fromkeys(each.name for run in check.runs for each in run.settings))
    yield from _table(
        ("program", *settings),
        ((run.name, *(_state(run, setting) for setting in settings)) for run in check.runs),
    )


def _state(run: RunCheck, setting: str) -> str:
    if run.error is not None:
        return "error"
    return next((each.state for each in run.settings if each.name == setting), "-")


def _run(run: RunCheck) -> Iterator[str]:
    if words.quiet(run):
        return
    yield from ("", f"### {escape(run.name)}: {run.state}")
    if run.error is not None:
        yield from ("", escape(run.error))
        return
    if run.ending:
        yield from ("", *_table(words.COLUMNS, map(words.row, run.ending)))
    yield from _causes(run.causes, run.state)
    for setting_check in run.settings:
        yield from _setting(run, setting_check)


def _setting(run: RunCheck, setting_check: SettingCheck) -> Iterator[str]:
    causes = words.own_causes(run, setting_check)
    if setting_check.state == "same" and not causes:
        return
    yield from ("", f"#### {escape(setting_check.name)}: {setting_check.state}")
    if setting_check.differences:
        yield from ("", *_table(words.COLUMNS, map(words.row, setting_check.differences)))
    yield from _causes(causes, setting_check.state)
    routines = list(words.routines(setting_check))
    if routines:
        yield from ("", *_table(("routine", "what differs"), routines))


def _causes(causes: Iterable[Cause], state: State) -> Iterator[str]:
    for number, cause in enumerate(causes):
        if not number:
            yield ""
        yield f"- {words.role(state)}: **{cause.kind}**: {escape(cause.text)}"
        yield from (f"  - {escape(detail)}" for detail in cause.details)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, titles))} |"
    yield f"|{'---|' * len(titles)}"
    yield from (f"| {' | '.join(map(escape, row))} |" for row in rows)
