"""A comparison of schemes for people: what `simprof compare` prints on stderr.

Sections: what ran; one row a mode with all costs; the traces; what modes lose; warnings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from profiler.reports import mode_facts
from profiler.reports.layout import Kind
from profiler.reports.mode_facts import NamedMeasurement
from profiler.reports.mode_text import lost
from profiler.reports.numbers import group_digits, percent, plural
from profiler.reports.tables import (
    Paragraph,
    Table,
    columns,
    grid,
    number,
    paragraph,
    print_parts,
    section,
    text,
)
from profiler.reports.text import REFUSED_TITLE, ending_rows, program_text, refused_calls


def render(
    rows: Sequence[NamedMeasurement],
    emulations: int,
    whole: int,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return the report.

    Parameters
    ----------
    rows
        At least one; all of the same run.
    emulations, whole
        How often the program was emulated, and how many of these runs were whole.
    width
        Columns of the terminal.
    color
        Whether to use terminal colours.
    """
    parts = [
        summary(rows, emulations, whole),
        *section("Costs (sizes in bytes)", costs(rows)),
        *section("Traces", traces(rows)),
        *section("What is lost", losses(rows)),
        *section(REFUSED_TITLE, refused_calls(rows[0][1])),
        *warnings(rows),
    ]
    return print_parts(parts, width, color)


def summary(rows: Sequence[NamedMeasurement], emulations: int, whole: int) -> Table:
    """Say what ran, how it ended, and how often it was emulated."""
    _, first = rows[0]
    table = grid()
    table.add_row("program", program_text(first))
    ending_rows(table, first)
    table.add_row("base", plural(first.base, "instruction"))
    table.add_row("emulated", emulated_text(emulations, whole))
    return table


def emulated_text(emulations: int, whole: int) -> str:
    """Say how often the program was emulated, and why that was not once."""
    times = {1: "once", 2: "twice"}.get(emulations, f"{group_digits(emulations)} times")
    reasons = []
    if whole > 1:
        reasons.append("first for the edge profile that guides tpp")
    if given_up := emulations - whole:
        runs = "run" if given_up == 1 else "runs"
        reasons.append(
            f"{group_digits(given_up)} {runs} given up because the graphs lacked something"
        )
    return ", ".join([times, *reasons])


def costs(rows: Sequence[NamedMeasurement]) -> Table:
    """List what each mode costs, in time and in memory."""
    table = columns(
        text("mode"),
        text("profile"),
        *map(number, ("added", "overhead", "increments", "hashed")),
        *map(number, ("counters", "trace", "snippets", "code")),
        space=1,
    )
    for name, measurement in rows:
        increments = mode_facts.increments(measurement)
        sizes = mode_facts.sizes(measurement)
        hashed = measurement.counts.get("hashed_increments", 0)
        table.add_row(
            name,
            mode_facts.collects(measurement),
            measurement.added,
            percent(measurement.added, measurement.base),
            increments or "-",
            percent(hashed, increments) if measurement.counts.get("path_increments") else "-",
            *(
                sizes.get(size) or "-"
                for size in ("counter_bytes", "trace_bytes", "snippets", "code_bytes")
            ),
        )
    return table


def traces(rows: Sequence[NamedMeasurement]) -> Table:
    """List the sizes of traces: as written, and with tokens of as few bits as possible."""
    table = columns(
        text("mode"),
        *map(number, ("tokens", "bytes", "bytes, fewest bits", "instructions a byte")),
    )
    for name, measurement in rows:
        sizes = mode_facts.sizes(measurement)
        if "trace_bytes" not in sizes:
            continue
        size = sizes["trace_bytes"]
        table.add_row(
            name,
            measurement.counts.get("trace_tokens", 0),
            size,
            sizes["minimal_trace_bytes"],
            f"{measurement.base / size:.1f}" if size else "-",
        )
    return table


def losses(rows: Sequence[NamedMeasurement]) -> Table:
    """Say what modes lose; those that are not named tell their profile exactly."""
    table = grid(Kind.TEXT, Kind.TEXT, Kind.TEXT)
    for name, measurement in rows:
        for about, words in lost(measurement):
            table.add_row(name, about, words)
    return table


def warnings(rows: Sequence[NamedMeasurement]) -> Iterable[Paragraph]:
    """Yield each warning once, with the modes that it is about unless it is about all."""
    modes: dict[str, list[str]] = defaultdict(list)
    for name, measurement in rows:
        for warning in measurement.warnings:
            modes[warning].append(name)
    for warning, names in modes.items():
        about = "" if len(names) == len(rows) else f"{', '.join(names)}: "
        yield paragraph(f"warning: {about}{warning}", style="yellow")
