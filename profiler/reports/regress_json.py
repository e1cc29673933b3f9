"""`simprof regress check` as JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from simprof.profiler.profiles.codec import big_integers
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
    from simprof.profiler.experiments.regress.routines import RoutineChange

SCHEMA = "simprof/regress/1"


def render(check: Check) -> str:
    """Return the document."""
    document = {
        "schema": SCHEMA,
        "baseline": check.baseline,
        "status": check.status,
        "summary": words.summary(check),
        "runs": [_run(run) for run in check.runs],
    }
    with big_integers():
        return json.dumps(document, indent=2) + "\n"


def _run(run: RunCheck) -> dict[str, Any]:
    return {
        "name": run.name,
        "state": run.state,
        "error": run.error,
        "ending": _differences(run.ending),
        "causes": _causes(run.causes),
        "settings": [_setting(setting) for setting in run.settings],
    }


def _setting(check: SettingCheck) -> dict[str, Any]:
    return {
        "name": check.name,
        "state": check.state,
        "differences": _differences(check.differences),
        "causes": _causes(check.causes),
        "routines": [_routine(routine) for routine in check.routines],
    }


def _differences(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    return [
        {
            "metric": each.metric,
            "baseline": _number(each.old),
            "now": _number(each.new),
            "percent": _number(each.percent),
            "allowed": each.allowed,
            "exceeded": each.exceeded,
        }
        for each in differences
    ]


def _number(number: int | Fraction | str | None) -> int | float | str | None:
    return float(number) if isinstance(number, Fraction) else number


def _causes(causes: Iterable[Cause]) -> list[dict[str, Any]]:
    return [
        {"kind": each.kind, "text": each.text, "details": list(each.details)} for each in causes
    ]


def _routine(change: RoutineChange) -> dict[str, Any]:
    plan = change.plan
    return {
        "name": change.name,
        "address": change.address,
        "source": change.source or None,
        "presence": change.presence,
        "numbers": {name: list(pair) for name, pair in change.numbers.items()},
        "facts": {name: list(pair) for name, pair in change.facts.items()},
        "graph_differs": change.graph,
        "profile_differs": change.profile,
        "plan": None
        if plan is None
        else {
            "added": list(plan.added),
            "removed": list(plan.removed),
            "changed": list(plan.changed),
            "lines": dict(change.lines),
        },
    }
