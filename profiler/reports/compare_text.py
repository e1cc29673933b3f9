"""A comparison of schemes for people: what `simprof compare` prints on stderr.

Sections: what ran; one row a mode with all costs; the traces; what modes lose; warnings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from profiler.reports import mode_facts
from profiler.reports.mode_facts import NamedMeasurement
from profiler.reports.mode_text import lost
from profiler.reports.numbers import group_digits, percent, plural
from profiler.reports.tables import columns, grid, natural_width, print_parts, section
from profiler.reports.text import REFUSED_TITLE, ending_rows, program_text, refused_calls


def render(
    rows: Sequence[NamedMeasurement], emulations: int, width: int = 100, color: bool = False
) -> str:
    """Return the report.

    Parameters
    ----------
    rows
        At least one; all of the same run.
    emulations
        Whole runs of the program that this took.
    width
        Columns of the terminal. Rows that need more take more.
    color
        Whether to use terminal colours.
    """
    table = costs(rows)
    parts = [
        summary(rows, emulations),
        *section("Costs (sizes in bytes)", table),
        *section("Traces", traces(rows)),
        *section("What is lost", losses(rows)),
        *section(REFUSED_TITLE, refused_calls(rows[0][1])),
        *warnings(rows),
    ]
    return print_parts(parts, max(width, natural_width(table)), color)


def summary(rows: Sequence[NamedMeasurement], emulations: int) -> Table:
    """Say what ran, how it ended, and how often it was emulated."""
    _, first = rows[0]
    table = grid()
    table.add_row("program", program_text(first))
    ending_rows(table, first)
    table.add_row("base", plural(first.base, "instruction"))
    guided = emulations > 1
    times = "twice, first for the edge profile that guides tpp" if guided else "once"
    table.add_row("emulated", times)
    return table


def costs(rows: Sequence[NamedMeasurement]) -> Table:
    """List what each mode costs, in time and in memory."""
    table = columns(
        ("mode", False),
        ("profile", False),
        ("added", True),
        ("overhead", True),
        ("increments", True),
        ("hashed", True),
        ("counters", True),
        ("trace", True),
        ("snippets", True),
        ("code", True),
        space=1,
    )
    for name, measurement in rows:
        increments = mode_facts.increments(measurement)
        sizes = mode_facts.sizes(measurement)
        hashed = measurement.counts.get("hashed_increments", 0)
        table.add_row(
            name,
            mode_facts.collects(measurement),
            group_digits(measurement.added),
            percent(measurement.added, measurement.base),
            group_digits(increments) if increments else "-",
            percent(hashed, increments) if measurement.counts.get("path_increments") else "-",
            *(
                group_digits(sizes[size]) if sizes.get(size) else "-"
                for size in ("counter_bytes", "trace_bytes", "snippets", "code_bytes")
            ),
        )
    return table


def traces(rows: Sequence[NamedMeasurement]) -> Table:
    """List the sizes of traces: as written, and with tokens of as few bits as possible."""
    table = columns(
        ("mode", False),
        ("tokens", True),
        ("bytes", True),
        ("bytes, fewest bits", True),
        ("instructions a byte", True),
    )
    for name, measurement in rows:
        sizes = mode_facts.sizes(measurement)
        if "trace_bytes" not in sizes:
            continue
        size = sizes["trace_bytes"]
        table.add_row(
            name,
            group_digits(measurement.counts.get("trace_tokens", 0)),
            group_digits(size),
            group_digits(sizes["minimal_trace_bytes"]),
            f"{measurement.base / size:.1f}" if size else "-",
        )
    return table


def losses(rows: Sequence[NamedMeasurement]) -> Table:
    """Say what modes lose; those that are not named tell their profile exactly."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column()
    for name, measurement in rows:
        for about, text in lost(measurement):
            table.add_row(name, about, text)
    return table


def warnings(rows: Sequence[NamedMeasurement]) -> Iterable[Text]:
    """Yield each warning once, with the modes that it is about unless it is about all."""
    modes: dict[str, list[str]] = defaultdict(list)
    for name, measurement in rows:
        for warning in measurement.warnings:
            modes[warning].append(name)
    for warning, names in modes.items():
        about = "" if len(names) == len(rows) else f"{', '.join(names)}: "
        yield Text(f"warning: {about}{warning}", style="yellow")
