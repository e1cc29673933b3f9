"""The first screen of `simprof run`: what profiling costs, where that comes from, what is hot.

All else that is known of a run is in the report with details (`text`).

Steps -> functions
------------------
1. The routines that instructions were added to          `routine_costs`
2. The kinds of code that these are                      `kind_costs`
3. The hottest paths as source lines, or else blocks     `hot_paths`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from profiler.profiles.profile import Measurement
from profiler.reports import hot_tables, mode_facts
from profiler.reports.code_kinds import HELPER_NOTE, is_helper, kind_totals, marked
from profiler.reports.display import visible
from profiler.reports.hot_tables import (
    block_text,
    executed_blocks,
    executed_edges,
    executed_paths,
    shorten,
)
from profiler.reports.numbers import group_digits, percent, plural
from profiler.reports.tables import Part, Table, columns, name, number, paragraph, section, text
from simulator.binary.program import SourceLine

TOP = 5
"""Rows of each table, where the user has not said how many."""

MORE = "--details shows counters, sizes, blocks and edges; --top N shows N rows of each table"


def answer(measurement: Measurement, top: int) -> Iterator[Part]:
    """Yield where added instructions come from, and what was executed most.

    Parameters
    ----------
    top
        Rows of each table; 0: no tables.
    """
    if not top:
        return
    if measurement.added:
        yield from section(
            "Where the added instructions come from", routine_costs(measurement, top)
        )
    else:
        yield from section("Where instructions were executed", routine_work(measurement, top))
    yield from section("By kind of code", kind_costs(measurement))
    yield from hot(measurement, top)
    if any(is_helper(routine.name) and routine.activations for routine in measurement.routines):
        yield from [paragraph(""), paragraph(HELPER_NOTE)]


def counting(measurement: Measurement) -> str:
    """Say what the added instructions do: how often counters are incremented, tokens written."""
    counts = measurement.counts
    events = mode_facts.increments(measurement)
    if tokens := counts.get("trace_tokens"):
        told, events = plural(tokens, "trace token"), tokens
    elif events:
        told = plural(events, "counter increment")
        if hashed := counts.get("hashed_increments"):
            told += f" ({group_digits(hashed)} through a hash table)"
    else:
        return ""
    return f"{told}, {measurement.added / events:.1f} added instructions each"


def hot(measurement: Measurement, top: int) -> Iterator[Part]:
    """Yield what was executed most, of what the mode counts."""
    if mode_facts.collects_paths(measurement):
        yield from section("Hot paths", hot_paths(measurement, top))
    elif mode_facts.counts_blocks(measurement):
        yield from section("Hot blocks", hot_blocks(measurement, top))
    else:
        yield from section("Hot edges", hot_edges(measurement, top))


def routine_costs(measurement: Measurement, top: int) -> Table:
    """List the routines that most instructions were added to, and the rest in one row."""
    costly = [routine for routine in measurement.routines if routine.added]
    costly.sort(key=lambda each: (-each.added, -each.instructions, each.address))
    shown, rest = costly[:top], costly[top:]
    table = columns(*map(number, ("added", "of added", "overhead")), name("routine"))

    def add(added: int, instructions: int, what: str) -> None:
        share = percent(added, measurement.added)
        table.add_row(added, share, percent(added, instructions), what)

    for routine in shown:
        add(routine.added, routine.instructions, marked(routine))
    if rest:
        added, executed = (
            sum(routine.added for routine in rest),
            sum(routine.instructions for routine in rest),
        )
        add(added, executed, f"({plural(len(rest), 'other routine')})")
    outside = measurement.added - sum(routine.added for routine in costly)
    if outside:
        add(outside, 0, "(in no routine)")
    return table


def routine_work(measurement: Measurement, top: int) -> Table:
    """List the routines that executed most instructions, and the rest in one row."""
    ran = [routine for routine in measurement.routines if routine.instructions]
    ran.sort(key=lambda each: (-each.instructions, each.address))
    table = columns(*map(number, ("instructions", "of base", "entered")), name("routine"))
    for routine in ran[:top]:
        share = percent(routine.instructions, measurement.base)
        table.add_row(routine.instructions, share, routine.activations, marked(routine))
    if rest := ran[top:]:
        executed = sum(routine.instructions for routine in rest)
        entered = sum(routine.activations for routine in rest)
        others = f"({plural(len(rest), 'other routine')})"
        table.add_row(executed, percent(executed, measurement.base), entered, others)
    return table


def kind_costs(measurement: Measurement) -> Table | None:
    """List what was added to each kind of code; None where there is but one."""
    table = columns(*map(number, ("added", "of added", "overhead")), text("code"))
    for total in kind_totals(measurement):
        table.add_row(
            total.added,
            percent(total.added, measurement.added),
            percent(total.added, total.instructions),
            total.kind.value,
        )
    return table if table.row_count > 1 else None


def hot_paths(measurement: Measurement, top: int) -> Table:
    """List the paths that executed most instructions, as source lines where these are known."""
    shown = executed_paths(measurement)[:top]
    routes = [
        [place(start, measurement) for start in each.path.blocks if isinstance(start, int)]
        for each in shown
    ]
    known = [[line for line in route if line is not None] for route in routes]
    files = ShortNames(line.file for route in known for line in route)
    table = columns(
        *map(number, ("of base", "executions", "length")),
        name("routine"),
        text(_heading("source lines", "blocks", known)),
    )
    for each, route in zip(shown, known, strict=True):
        path = each.path
        blocks = hot_tables.blocks_text(path) if not route else files.route(route)
        table.add_row(
            percent(each.flow, measurement.base),
            path.count,
            path.instructions,
            marked(each.routine),
            f"{blocks} (unfinished)" if path.partial else blocks,
        )
    return table


def hot_edges(measurement: Measurement, top: int) -> Table:
    """List the edges crossed most often, and the source line that each leads to."""
    shown = executed_edges(measurement)[:top]
    lines = [
        hot_tables.known_line((each.edge.target, each.edge.source), measurement) for each in shown
    ]
    files = ShortNames(line.file for line in lines if line is not None)
    table = columns(number("crossings"), name("routine"), text("edge"), text("source line"))
    for each, line in zip(shown, lines, strict=True):
        table.add_row(
            each.edge.count,
            marked(each.routine),
            hot_tables.edge_text(each.edge),
            "" if line is None else files.route([line]),
        )
    return table


def hot_blocks(measurement: Measurement, top: int) -> Table:
    """List the blocks executed most often, and their source lines."""
    shown = executed_blocks(measurement)[:top]
    lines = [hot_tables.known_line((each.block,), measurement) for each in shown]
    files = ShortNames(line.file for line in lines if line is not None)
    table = columns(number("executions"), name("routine"), text("block"), text("source line"))
    for each, line in zip(shown, lines, strict=True):
        source = "" if line is None else files.route([line])
        table.add_row(each.executions, marked(each.routine), block_text(each.block), source)
    return table


def place(start: int, measurement: Measurement) -> SourceLine | None:
    """Return the source line of a block; None where it is not known."""
    return measurement.lines.get(start)


class ShortNames:
    """Source files by their last component, where no two of those shown have the same.

    Parameters
    ----------
    files
        All that are shown.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._files = set(files)
        ends = [_last(file) for file in self._files]
        self._ambiguous = {end for end in ends if ends.count(end) > 1}

    def short(self, file: str) -> str:
        """Return how a file is shown."""
        end = _last(file)
        return visible(file if not end or end in self._ambiguous else end)

    def route(self, lines: Iterable[SourceLine]) -> str:
        """Return "FILE:LINE > LINE > ...", repeats left out, and files that stay the same."""
        parts: list[str] = []
        file = None
        for line, _ in groupby(lines):
            shown = f"{line.line}" if line.file == file else f"{self.short(line.file)}:{line.line}"
            parts.append(shown)
            file = line.file
        return " > ".join(shorten(parts))


def _last(file: str) -> str:
    return file.rpartition("/")[2]


def _heading(lines: str, blocks: str, known: list[list[SourceLine]]) -> str:
    if all(known):
        return lines
    return f"{lines}, or {blocks}" if any(known) else blocks
