"""What `simprof instrument` did: JSON (format `simprof/instrument`) and text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from simprof.profiler.profiles.documents import result_head, this_simprof
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports.display import plural
from simprof.profiler.reports.run_json import program_object
from simprof.profiler.reports.tables import Table, columns, grid, name, print_parts, section, text
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.schemes.mode_options import setting_object
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.observation import planning_options


def render_json(
    output: Path,
    setting: Setting,
    made: Instrumented,
    selection: Selection,
    input_sha256: str | None = None,
) -> str:
    """Return one object: what was written, how large it is, what was left alone.

    `input_sha256`: Of the input of the run before, if there was one.
    """
    options = planning_options(setting.options, selection)
    facts: Mapping[str, object] = {
        **result_head(
            "instrument",
            program_object(made.program),
            input_sha256,
            setting_object(setting.mode, options, known_sha256(setting.options.edge_profile)),
            measured_by=this_simprof(),
        ),
        "output": str(output),
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
    output: Path, setting: Setting, made: Instrumented, width: int = 100, color: bool = False
) -> str:
    """Return the same for people."""
    summary = grid()
    summary.add_row("program", made.program.file)
    summary.add_row("written", f"{output}, mode {setting.name}")
    summary.add_row("instrumented", plural(len(made.placed), "routine"))
    size = plural(len(made.rewritten.code), "byte")
    summary.add_row("new code", f"{size} at {made.rewritten.base:#x}")
    if made.carried:
        names = ", ".join(register.text for register in made.carried)
        summary.add_row("kept free", f"{names}: the program keeps values there across calls")
    title = "Left alone: these count nothing"
    if definition(setting.mode).writes_trace:
        title = "Left alone: a trace cannot be followed into these"
    parts = [summary, *section(title, _left(made))]
    return print_parts(parts, width, color)


def _left(made: Instrumented) -> Table | None:
    table = columns(name("routine"), text("why"))
    for routine, reason in made.left_names:
        table.add_row(routine, reason)
    return table if made.left_names else None
