"""What the reports on a checked baseline have in common: numbers, routines and totals in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from simprof.profiler.reports.display import group_digits, plural

if TYPE_CHECKING:
    from simprof.profiler.experiments.regress.causes import Cause
    from simprof.profiler.experiments.regress.compare import (
        Check,
        Difference,
        RunCheck,
        SettingCheck,
        State,
    )
    from simprof.profiler.experiments.regress.routines import RoutineChange

MOST_ROUTINES = 10
"""Routines that a report names for one result."""


def value(number: int | Fraction | str | None) -> str:
    """Return a value of a metric; "-" where there is none."""
    match number:
        case None:
            return "-"
        case int():
            return group_digits(number)
        case Fraction():
            return f"{float(number):.4f}"
        case text if len(text) == 64:  # a digest
            return text[:12]
        case text:
            return text


def change(difference: Difference) -> str:
    """Return by how much a metric moved, in percent."""
    percent = difference.percent
    if percent is None:
        return "-"
    shown = f"{float(percent):+.2f} %"
    return shown if percent == 0 or shown[1:] != "0.00 %" else f"{float(percent):+.1e} %"


def row(difference: Difference) -> tuple[str, str, str, str, str, str]:
    """Return metric, old, new, change, what is allowed, and a mark where that is exceeded."""
    return (
        difference.metric,
        value(difference.old),
        value(difference.new),
        change(difference),
        difference.allowed,
        "exceeded" if difference.exceeded else "",
    )


COLUMNS = ("metric", "baseline", "now", "change", "allowed", "")


def routine(changed: RoutineChange) -> str:
    """Return what differs in one routine, in one line."""
    if changed.presence == "new":
        return "is entered now"
    if changed.presence == "gone":
        return "is not entered any more"
    parts = [f"{name} {value(old)} -> {value(new)}" for name, (old, new) in changed.numbers.items()]
    parts += [
        f"{name} {old or 'none'} -> {new or 'none'}" for name, (old, new) in changed.facts.items()
    ]
    if changed.profile and not changed.numbers:
        parts.append("counts of edges or paths differ")
    if changed.graph:
        parts.append("other graph")
    if changed.plan is not None:
        parts.append("other plan")
    return ", ".join(parts)


def routines(setting_check: SettingCheck) -> Iterator[tuple[str, str]]:
    """Yield the routines whose counts differ, the first ones of many."""
    moved = [each for each in setting_check.routines if each.counts_differ]
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
        "within limits": "moved within limits",
        "same": "the same",
    }
    parts = [f"{states[state]} {text}" for state, text in wording.items() if states[state]]
    if ended:
        parts.append(f"{plural(ended, 'program')} ended otherwise")
    if errors:
        parts.append(f"{plural(errors, 'program')} could not be run")
    compared = f"{plural(check.compared, 'result')} of {plural(len(check.runs), 'run')} compared"
    return f"{compared}: {', '.join(parts) or 'nothing'}"


def quiet(run: RunCheck) -> bool:
    """Whether there is nothing to say about a run."""
    return run.state == "same" and not run.causes and not any(s.causes for s in run.settings)


def own_causes(run: RunCheck, setting_check: SettingCheck) -> tuple[Cause, ...]:
    """Return the causes of one result beyond those of its whole run."""
    return tuple(cause for cause in setting_check.causes if cause not in run.causes)


def role(state: State) -> str:
    """Return what a cause is: a reason, or a remark where nothing differs."""
    return "note" if state == "same" else "why"
