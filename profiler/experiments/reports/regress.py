"""Reports on a checked baseline (`simprof regress check`): text, Markdown, JSON and JUnit XML.

All of them name what differs, and why, in the same words. In JUnit XML, which CI systems show as
tests, a run is a test suite; its test cases are the settings, and `ending`: how the program ended
and what it wrote. There are no times: how long a check took says nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.profiles.codec import big_integers, encode
from simprof.profiler.profiles.documents import head
from simprof.profiler.reports.display import brief, exact_percent, group_digits, growth, plural
from simprof.profiler.reports.tables import (
    BLANK,
    Part,
    columns,
    number,
    paragraph,
    print_parts,
    text,
)
from simprof.profiler.schemes.cost_model import this_simprof

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.causes import RoutineChange
    from simprof.profiler.experiments.regress.regress import (
        Check,
        MetricChange,
        RunCheck,
        SettingCheck,
        State,
    )

MOST_ROUTINES = 10  # Routines that a report names for one result


def shown(number: int | Fraction | str | None) -> str:
    """Return a value of a metric; "-" where there is none."""
    match number:
        case None:
            return "-"
        case int():
            return group_digits(number)
        case Fraction():
            return exact_percent(100 * number)
        case text if len(text) == 64:  # a digest
            return text[:12]
        case text:
            return text


def moved_by(difference: MetricChange) -> str:
    """Return by how much a metric moved, in percent."""
    old, new = difference.baseline, difference.now
    if isinstance(old, str) or isinstance(new, str) or old is None or new is None:
        return "-"
    return growth(old, new) if difference.moved or not old else "+0.00 %"


# Metrics whose names do not end with their unit, as those of "sizes.code_bytes" do
_UNITS = {
    "base": "instructions",
    "added": "instructions",
    "overhead": "of base",
    "counts.hashing": "instructions",
    "sizes.snippets": "sites",
    **dict.fromkeys(("reason", "status", "output"), ""),
}


def unit_of(metric: str) -> str:
    """Return what a metric counts."""
    return _UNITS.get(metric, re.split(r"[._]", metric)[-1])


def row(difference: MetricChange) -> tuple[str, str, str, str, str, str, str]:
    """Return metric, unit, old, new, change, what is allowed, and a mark where it is exceeded."""
    must_equal = difference.allowed == "exact"
    return (
        difference.metric,
        unit_of(difference.metric),
        shown(difference.baseline),
        shown(difference.now),
        moved_by(difference),
        "must be equal" if must_equal else difference.allowed,
        ("differs" if must_equal else "exceeded") if difference.exceeded else "",
    )


COLUMNS = ("metric", "unit", "baseline", "now", "change", "allowed", "")


# Numbers of a routine whose names are no units
_NUMBERS = {
    "activations": "times entered",
    "added": "added instructions",
    "cut_edges": "cut edges",
}


def routine(changed: RoutineChange) -> str:
    """Return what differs in one routine, in one line."""
    if changed.presence == "new":
        return "is entered now"
    if changed.presence == "gone":
        return "is not entered any more"
    parts = [
        f"{_NUMBERS.get(name, name)} {shown(old)} -> {shown(new)}"
        for name, (old, new) in changed.numbers.items()
    ]
    parts += [
        f"{name} {old or 'none'} -> {new or 'none'}" for name, (old, new) in changed.facts.items()
    ]
    if changed.profile_differs and not changed.numbers:
        parts.append("counts of edges or paths differ")
    if changed.graph_differs:
        parts.append("other graph")
    if changed.plan is not None:
        parts.append("other plan")
    return ", ".join(parts)


def routine_lines(checked: RunCheck | SettingCheck) -> Iterator[tuple[str, str]]:
    """Yield the routines whose counts differ with what differs, the first ones of many."""
    moved = [each for each in checked.routines if each.counts_differ]
    for each in moved[:MOST_ROUTINES]:
        yield f"{each.name} ({each.source})" if each.source else each.name, routine(each)
    if len(moved) > MOST_ROUTINES:
        yield f"and {len(moved) - MOST_ROUTINES} more", ""


def summary(check: Check) -> str:
    """Return the outcome of everything in one sentence."""
    states = Counter(setting.state for run in check.runs for setting in run.settings)
    ended = sum(bool(run.ending) for run in check.runs)
    errors = sum(run.error is not None for run in check.runs)
    wording: dict[State, str] = {
        "changed": "changed",
        "above maximum": "above their maximum",
        "within limits": "moved within limits",
        "same": "the same",
    }
    parts = [f"{states[state]} {text}" for state, text in wording.items() if states[state]]
    if ended:
        parts.append(f"exit status or output of {plural(ended, 'program')} changed")
    if errors:
        parts.append(f"{plural(errors, 'program')} could not be run")
    compared = f"{plural(check.compared, 'result')} of {plural(len(check.runs), 'run')} compared"
    return f"{compared}: {', '.join(parts) or 'nothing'}"


# What reports have a section of, with the names of its run and, if it is a result, its setting
Section = tuple[tuple[str, ...], "RunCheck | SettingCheck"]


def sections(check: Check) -> Iterator[Section]:
    """Yield what there is to say, in the order of the runs, a run before its results.

    Causes of a result are those beyond those of its whole run.
    """
    for run in check.runs:
        results = [
            ((run.name, each.name), replace(each, causes=own))
            for each in run.settings
            if (own := tuple(cause for cause in each.causes if cause not in run.causes))
            or each.state != "same"
        ]
        if results or run.causes or run.state != "same":
            yield (run.name,), run
            yield from results


def _role(checked: RunCheck | SettingCheck) -> str:
    """Return what a cause is: a reason, or a remark where nothing differs."""
    return "note" if checked.state == "same" else "why"


_STYLES: dict[State, str] = {
    "same": "green",
    "within limits": "yellow",
    "above maximum": "red",
    "changed": "red",
    "error": "red",
}


def render_text(check: Check, width: int, color: bool) -> str:
    """Return the report. `width`: Columns of the terminal. `color`: Whether it has colours."""
    parts: list[Part] = [paragraph(f"{check.baseline}: {summary(check)}")]
    for section in sections(check):
        parts += _text(section)
    return print_parts(parts, width, color)


def _text(section: Section) -> Iterator[Part]:
    subject, checked = ", ".join(section[0]), section[1]
    yield from (BLANK, paragraph((subject, "bold"), ": ", (checked.state, _STYLES[checked.state])))
    if checked.error is not None:
        yield paragraph(checked.error, indent=2)
    if checked.differences:
        metric, unit, *amounts, allowed, mark = COLUMNS
        heads = text(metric), text(unit), *map(number, amounts), text(allowed), text(mark)
        table = columns(*heads, indent=2)
        for difference in checked.differences:
            table.add_row(*row(difference))
        yield table
    for cause in checked.causes:
        yield paragraph(f"{_role(checked)}: {cause.kind}: {cause.text}", indent=2)
        yield from (paragraph(detail, indent=7) for detail in cause.details)
    routines = list(routine_lines(checked))
    if routines:
        yield paragraph("routines:", indent=2)
    for name, what in routines:
        yield paragraph(f"{brief(name)}: {what}" if what else name, indent=4)


_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\`*_[]<>|#"})


def render_markdown(check: Check) -> str:
    """Return the report."""
    lines = [f"## simprof regress: {escape(check.baseline)}", "", f"{summary(check)}."]
    settings = list(dict.fromkeys(each.name for run in check.runs for each in run.settings))
    overview = []
    for run in check.runs:
        states = {each.name: each.state for each in run.settings}
        absent = "-" if run.error is None else "error"
        overview.append((run.name, *(states.get(setting, absent) for setting in settings)))
    lines += ["", *_table_markdown(("program", *settings), overview)]
    for section in sections(check):
        lines += _markdown(section)
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return " ".join(text.split()).translate(_SPECIAL)


def _markdown(section: Section) -> Iterator[str]:
    names, checked = section
    yield from ("", f"##{'#' * len(names)} {escape(names[-1])}: {checked.state}")
    if checked.error is not None:
        yield from ("", escape(checked.error))
    if checked.differences:
        yield from ("", *_table_markdown(COLUMNS, map(row, checked.differences)))
    if checked.causes:
        yield ""
    for cause in checked.causes:
        yield f"- {_role(checked)}: **{cause.kind}**: {escape(cause.text)}"
        yield from (f"  - {escape(detail)}" for detail in cause.details)
    routines = list(routine_lines(checked))
    if routines:
        yield from ("", *_table_markdown(("routine", "what differs"), routines))


def _table_markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, titles))} |"
    yield f"|{'---|' * len(titles)}"
    yield from (f"| {' | '.join(map(escape, row))} |" for row in rows)


def render_json(check: Check) -> str:
    """Return the document."""
    document = {
        **head("regress"),
        "measured_by": encode(this_simprof()),
        "baseline": check.baseline,
        "status": check.status,
        "summary": summary(check),
        "runs": _document(check.runs),
    }
    with big_integers():
        return json.dumps(document, indent=2) + "\n"


LARGEST_FLOAT = 1e300  # Shares of numbers written by hand may be larger than any float.

# Structures of a check whose objects in JSON are not their fields -> what these have
_OBJECTS = {
    "RunCheck": ("name", "state", "error", "ending", "causes", "settings"),
    "SettingCheck": ("name", "state", "differences", "causes", "routines"),
    "MetricChange": ("metric", "baseline", "now", "percent", "allowed", "exceeded"),
}


def _document(value: object) -> Any:
    """Return a part of a check as JSON."""
    match value:
        case Struct():
            names = _OBJECTS.get(type(value).__name__, value.__struct_fields__)
            return {name: _document(getattr(value, name)) for name in names}
        case tuple():
            return [_document(each) for each in value]
        case Fraction():
            return float(value) if abs(value) < LARGEST_FLOAT else None
    return encode(value)


_element = ElementTree.SubElement
_WIDTH = 100  # Columns of the text in JUnit's report


def render_junit(check: Check) -> str:
    """Return the document: a test case for how each program ended, and for each of its results."""
    root = ElementTree.Element("testsuites", name="simprof regress")
    for run in check.runs:
        suite = _element(root, "testsuite", name=_clean(run.name))
        ending = _case(suite, "ending", ((run.name,), run), bool(run.ending))
        if run.error is not None:
            kind = "timeout" if run.budget else "error"
            _element(ending, "error", message=_clean(run.error), type=kind)
        for each in run.settings:
            _case(suite, each.name, ((run.name, each.name), each), each.failed)
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", str(len(suite.findall("testcase/error"))))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _case(
    suite: ElementTree.Element, name: str, section: Section, failed: bool
) -> ElementTree.Element:
    """Add a test case, with what the report for people says of it."""
    names, checked = section
    case = _element(suite, "testcase", classname=_clean(names[0]), name=_clean(name))
    noted = len(names) > 1 and (checked.differences or checked.causes)
    if checked.error is not None or not (failed or noted):
        return case
    said = _element(case, "failure" if failed else "system-out")
    said.text = _clean(print_parts(list(_text(section)), _WIDTH, color=False))
    if failed:
        said.set("type", "changed")
        said.set("message", _clean(_message(checked)))
    return case


def _message(checked: RunCheck | SettingCheck) -> str:
    """Return the first thing that is beyond its limit, and why, in one line."""
    beyond = (each for each in checked.differences if each.exceeded)
    kinds = ", ".join(dict.fromkeys(cause.kind for cause in checked.causes)) or "its limit"
    return f"{next(map(_moved, beyond), 'counts differ')} (why: {kinds})"


def render_github(check: Check) -> str:
    """Return a workflow command for each failure, which GitHub shows as an annotation."""
    lines = []
    for run in check.runs:
        failed: list[Section] = [((run.name,), run)] if run.error or run.ending else []
        failed += [((run.name, each.name), each) for each in run.settings if each.failed]
        for names, checked in failed:
            subject = " ".join(("simprof:", *names))
            title = _escaped(subject).replace(":", "%3A").replace(",", "%2C")
            said = _escaped(checked.error or _message(checked))
            lines.append(f"::error title={title}::{said}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return " ".join(text.replace("%", "%25").split())


def _moved(difference: MetricChange) -> str:
    metric, _, old, new, change, allowed, _ = row(difference)
    limit = allowed if difference.allowed == "exact" else f"allowed: {allowed}"
    return f"{metric} {old} -> {new} ({change}; {limit})"


def _clean(text: str) -> str:
    """Replace what XML cannot hold (names of routines may have any bytes)."""
    return re.sub("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
