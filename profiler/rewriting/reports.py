"""Results of `instrument` and `verify`: JSON (`simprof/instrument`, `simprof/verify`), text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from simprof.profiler.profiles.documents import result_head
from simprof.profiler.profiles.fingerprint import known_sha256
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports import tables
from simprof.profiler.reports.display import percent, plural, readable, visible
from simprof.profiler.reports.run_json import ending_object, program_object
from simprof.profiler.reports.run_text import ending_text
from simprof.profiler.request.request import Selection, Setting
from simprof.profiler.rewriting.instrument import Instrumented
from simprof.profiler.rewriting.verification import WAYS, ModeResult, Verification
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.mode_options import setting_object
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.observation import planning_options

FEW_MODES = 8  # Modes of which a table has room for two spaces between columns


def instrument_json(
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
        "counter_bytes": sum(each.size for each in made.memory.dumped if not each.grows),
        "tables": sum(each.is_table for each in made.memory.dumped),
        "application_registers": [register.text for register in made.carried],
    }
    return json.dumps(facts) + "\n"


def instrument_text(
    output: Path, setting: Setting, made: Instrumented, width: int = 100, color: bool = False
) -> str:
    """Return the same for people."""
    summary = tables.grid()
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
    parts = [summary, *tables.section(title, _left_alone(made))]
    return tables.print_parts(parts, width, color)


def _left_alone(made: Instrumented) -> tables.Table | None:
    table = tables.columns(tables.name("routine"), tables.text("why"))
    for routine, reason in made.left_names:
        table.add_row(readable(routine), reason)
    return table if made.left_names else None


# -- verify


def verify_json(result: Verification) -> str:
    """Return the verification as one line of JSON."""
    answer = {
        **result_head(
            "verify",
            program_object(result.program),
            result.input_sha256,
            measured_by=this_simprof(),
        ),
        "exit": ending_object(result.ending),
        "passed": result.passed,
        "not_run": dict(result.skipped),
        "modes": {mode.setting.name: _mode(mode, result.selection) for mode in result.modes},
    }
    return json.dumps(answer) + "\n"


def _mode(mode: ModeResult, selection: Selection) -> dict[str, object]:
    setting = mode.setting
    options = planning_options(setting.options, selection)
    return {
        **setting_object(setting.mode, options, known_sha256(setting.options.edge_profile)),
        "base": mode.base,
        "added": mode.added,
        "rewriting": {str(cause): count for cause, count in mode.rewriting.items()},
        "predicted": mode.predicted,
        "executed": {way: mode.executed.get(way) for way in WAYS},
        "output_equal": mode.output_equal,
        "counters_equal": mode.counters_equal,
        "routines_left": [
            {"routine": left.routine, "reason": left.reason, "instructions": left.instructions}
            for left in mode.left
        ],
        "differences": list(mode.differences),
        "not_compared": list(mode.not_compared),
    }


def verify_text(result: Verification, width: int = 100, color: bool = False) -> str:
    """Return the report for people."""
    # color: Whether to use terminal colours.
    parts = [
        _summary(result),
        *tables.section("Instructions", _instructions(result)),
        *tables.section("Rewriting by cause (instructions)", _causes(result)),
        *tables.section("Left alone: these count nothing", _left(result)),
        *_differences(result),
    ]
    return tables.print_parts(parts, width, color)


def _summary(result: Verification) -> tables.Table:
    table = tables.grid(tables.CellAlignment.TEXT, tables.CellAlignment.TEXT)
    table.add_row("program", " ".join([result.program.file, *result.program.arguments]))
    table.add_row("ended", visible(ending_text(result.ending)))
    table.add_row("base", plural(result.modes[0].base, "instruction"))
    for what, why in result.skipped.items():
        table.add_row(f"not on {what}" if what in WAYS else f"no {what}", why)
    failed = sum(bool(mode.differences) for mode in result.modes)
    verdict = f"{plural(failed, 'mode')} not as predicted" if failed else "all as predicted"
    if not failed and not result.is_complete:
        verdict = "as predicted, as far as it was compared"
    table.add_row("result", verdict)
    return table


def _instructions(result: Verification) -> tables.Table:
    ways = [way for way in WAYS if any(way in mode.executed for mode in result.modes)]
    table = tables.columns(
        tables.text("mode"),
        *map(tables.number, ("added", "rewriting", "of base", "predicted", *ways)),
        tables.text("output"),
        tables.text("counters"),
    )
    for mode in result.modes:
        rewriting = sum(mode.rewriting.values())
        executed = [mode.executed.get(way) for way in ways]
        table.add_row(
            mode.setting.name,
            mode.added,
            rewriting,
            percent(rewriting, mode.base),
            *("-" if count is None else count for count in (mode.predicted, *executed)),
            "equal" if mode.output_equal else "differs",
            {None: "none", True: "equal", False: "differ"}[mode.counters_equal],
        )
    return table


def _causes(result: Verification) -> tables.Table | None:
    causes = sorted({str(cause) for mode in result.modes for cause in mode.rewriting})
    modes = [tables.number(mode.setting.name) for mode in result.modes]
    table = tables.columns(tables.text("cause"), *modes, space=2 if len(modes) <= FEW_MODES else 1)
    for cause in causes:
        counts = [
            {str(c): n for c, n in mode.rewriting.items()}.get(cause, 0) for mode in result.modes
        ]
        table.add_row(cause, *(count or "-" for count in counts))
    return table if causes else None


def _left(result: Verification) -> tables.Table | None:
    table = tables.columns(
        tables.name("routine"), tables.number("instructions"), tables.text("why")
    )
    known = {left for mode in result.modes for left in mode.left}
    for left in sorted(known, key=lambda left: (-left.instructions, left.routine, left.reason)):
        table.add_row(readable(left.routine), left.instructions or "-", left.reason)
    return table if known else None


def _differences(result: Verification) -> Iterator[tables.Paragraph]:
    for mode in result.modes:
        missing = [f"not compared: {line}" for line in mode.not_compared]
        for index, line in enumerate([*mode.differences, *missing]):
            if index == 0:
                yield tables.BLANK
            yield tables.paragraph(f"{mode.setting.name}: {line}")
