"""`simprof regress check` as JUnit XML, which CI systems show as tests.

A run is a test suite. Its test cases are the settings, and `ending`: how the program ended and
what it wrote. There are no times: how long a check took says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from simprof.profiler.reports import regress_words as words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simprof.profiler.experiments.regress.causes import Cause
    from simprof.profiler.experiments.regress.compare import (
        Check,
        Difference,
        RunCheck,
        SettingCheck,
    )

Element = ElementTree.Element


def render(check: Check) -> str:
    """Return the document."""
    root = Element("testsuites", name="simprof regress")
    for run in check.runs:
        root.append(_suite(run))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _suite(run: RunCheck) -> Element:
    suite = Element("testsuite", name=_clean(run.name))
    ending = _case(suite, run, "ending")
    if run.error is not None:
        kind = "timeout" if run.budget else "error"
        ElementTree.SubElement(ending, "error", message=_clean(run.error), type=kind)
    elif run.ending:
        _fail(ending, run.ending, (), run.causes)
    for setting_check in run.settings:
        _setting(_case(suite, run, setting_check.name), setting_check)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return suite


def _case(suite: Element, run: RunCheck, name: str) -> Element:
    return ElementTree.SubElement(suite, "testcase", classname=_clean(run.name), name=_clean(name))


def _setting(case: Element, setting_check: SettingCheck) -> None:
    routines = [f"{name}: {text}" if text else name for name, text in words.routines(setting_check)]
    if setting_check.failed:
        _fail(case, setting_check.differences, routines, setting_check.causes)
    elif setting_check.differences or setting_check.causes:
        lines = _lines(
            setting_check.differences,
            routines,
            setting_check.causes,
            words.role(setting_check.state),
        )
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))


def _fail(
    case: Element,
    differences: Iterable[Difference],
    routines: Iterable[str],
    causes: Iterable[Cause],
) -> None:
    differences, causes = tuple(differences), tuple(causes)
    beyond = [difference for difference in differences if difference.exceeded]
    first = beyond[0] if beyond else None
    kinds = ", ".join(dict.fromkeys(cause.kind for cause in causes))
    message = "counts differ" if first is None else _moved(first)
    failure = ElementTree.SubElement(
        case, "failure", message=_clean(f"{message} (why: {kinds or 'its limit'})"), type="changed"
    )
    failure.text = _clean("\n".join(_lines(differences, routines, causes)))


def _moved(difference: Difference) -> str:
    metric, old, new, change, allowed, _ = words.row(difference)
    return f"{metric} {old} -> {new} ({change}, allowed: {allowed})"


def _lines(
    differences: Iterable[Difference],
    routines: Iterable[str],
    causes: Iterable[Cause],
    role: str = "why",
) -> list[str]:
    lines = [_moved(difference) for difference in differences]
    for cause in causes:
        lines.append(f"{role}: {cause.kind}: {cause.text}")
        lines += [f"  {detail}" for detail in cause.details]
    return [*lines, *(f"routine {line}" for line in routines)]


def _clean(text: str) -> str:
    """Replace what XML cannot hold (names of routines may have any bytes)."""
    return "".join(c if c in "\t\n" or _fits(ord(c)) else "\ufffd" for c in text)


def _fits(code: int) -> bool:
    return 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
