"""What `simprof instrument` did: JSON (format `simprof/instrument`) and text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from simprof.profiler.profiles.documents import head
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports.display import plural
from simprof.profiler.reports.tables import Table, columns, grid, name, print_parts, section, text
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.schemes.registry import definition


def render_json(program: Path, output: Path, mode: str, made: Instrumented) -> str:
    """Return one object: what was written, how large it is, what was left alone."""
    facts: Mapping[str, object] = {
        **head("instrument"),
        "program": str(program),
        "output": str(output),
        "mode": mode,
        "routines": len(made.placed),
        "routines_left": [
            {"routine": routine, "reason": reason} for routine, reason in made.left_names
        ],
        "segment": {
            "address": address_text(made.rewritten.base),
            "bytes": len(made.rewritten.code),
        },
        "counter_bytes": sum(each.size for each in made.memory.dumped if not each.is_table),
        "tables": sum(each.is_table for each in made.memory.dumped),
        "application_registers": [register.text for register in made.carried],
    }
    return json.dumps(facts) + "\n"


def render_text(
    program: Path,
    output: Path,
    mode: str,
    made: Instrumented,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return the same for people."""
    summary = grid()
    summary.add_row("program", str(program))
    summary.add_row("written", f"{output}, mode {mode}")
    summary.add_row("instrumented", plural(len(made.placed), "routine"))
    size = plural(len(made.rewritten.code), "byte")
    summary.add_row("new code", f"{size} at {made.rewritten.base:#x}")
    if made.carried:
        names = ", ".join(register.text for register in made.carried)
        summary.add_row("kept free", f"{names}: the program keeps values there across calls")
    title = "Left alone: these count nothing"
    if definition(mode).writes_trace:
        title = "Left alone: a trace cannot be followed into these"
    parts = [summary, *section(title, _left(made))]
    return print_parts(parts, width, color)


def _left(made: Instrumented) -> Table | None:
    table = columns(name("routine"), text("why"))
    for routine, reason in made.left_names:
        table.add_row(routine, reason)
    return table if made.left_names else None
