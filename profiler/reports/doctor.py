"""Findings of `simprof doctor`, as values, as text and as JSON (format `simprof/doctor`)."""

from __future__ import annotations

import json

from simprof.profiler.profiles.documents import head
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.tables import BLANK, CellAlignment, Part, grid, paragraph, print_parts
from simprof.profiler.session.diagnosis import Diagnosis, SystemCheck


def render_text(diagnosis: Diagnosis, width: int = 100) -> str:
    """Return one row a check, then what to do, then the verdict."""
    rows = [(state(check), check.name, visible(check.detail)) for check in diagnosis.checks]
    parts: list[Part] = [grid(*[CellAlignment.TEXT] * 3, rows=rows)]
    wanted: dict[str, list[str]] = {}
    for check in diagnosis.checks:
        if check.remedy and not check.ok:
            wanted.setdefault(check.remedy, []).append(check.name)
    for remedy, names in wanted.items():
        parts += [BLANK, paragraph(f"To get {', '.join(names)}:"), paragraph(remedy, indent=4)]
    verdict = "simprof works." if diagnosis.ok else "simprof does not work here."
    return print_parts([*parts, BLANK, paragraph(verdict)], width, color=False)


def render_json(diagnosis: Diagnosis) -> str:
    """Return one JSON object."""
    checks = [
        {
            "name": check.name,
            "ok": check.ok,
            "required": check.required,
            "detail": check.detail,
            "remedy": None if check.ok else check.remedy,
        }
        for check in diagnosis.checks
    ]
    return json.dumps({**head("doctor"), "ok": diagnosis.ok, "checks": checks}) + "\n"


def state(check: SystemCheck) -> str:
    """Return the word at the start of a check's line."""
    return "ok" if check.ok else "FAILED" if check.required else "missing"
