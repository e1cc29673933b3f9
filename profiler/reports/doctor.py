"""What `simprof doctor` finds, as values, as text and as JSON (format `simprof/doctor`)."""

from __future__ import annotations

import json

from simprof.profiler.profiles.documents import head
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.tables import BLANK, CellAlignment, Part, grid, paragraph, print_parts
from simprof.profiler.session.diagnosis import Diagnosis, SystemCheck


def render_text(diagnosis: Diagnosis, width: int = 100) -> str:
    """Return one row a check, then what to do, then the verdict."""
    table = grid(CellAlignment.TEXT, CellAlignment.TEXT, CellAlignment.TEXT)
    for check in diagnosis.checks:
        table.add_row(state(check), check.name, visible(check.detail))
    parts: list[Part] = [table]
    remedies = dict.fromkeys(
        check.remedy for check in diagnosis.checks if not check.ok and check.remedy
    )
    for remedy in remedies:
        names = [
            check.name for check in diagnosis.checks if not check.ok and check.remedy == remedy
        ]
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
    if check.ok:
        return "ok"
    return "FAILED" if check.required else "missing"
