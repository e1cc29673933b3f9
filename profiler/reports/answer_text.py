"""The first screen of `simprof run`: where the program spends, what profiling adds, what is hot.

All else that is known of a run is in the report with details (`text`).

Steps -> functions
------------------
1. The routines that executed most instructions          `routine_work`
2. The routines that instructions were added to          `routine_costs`
3. The kinds of code that these are                      `kind_costs`
4. The hottest paths as source lines, or else blocks     `hot_paths`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simprof.profiler.profiles.profile import Measurement
from simprof.profiler.reports import hot_tables, mode_facts
from simprof.profiler.reports.code_kinds import HELPER_MARK, HELPER_NOTE, kind_totals, marked
from simprof.profiler.reports.hot_tables import (
    block_text,
    executed_blocks,
    executed_edges,
)
from simprof.profiler.reports.numbers import group_digits, percent, plural
from simprof.profiler.reports.routes import ShortNames
from simprof.profiler.reports.tables import (
    Part,
    Table,
    columns,
    name,
    number,
    paragraph,
    section,
    text,
)
from simprof.simulator.binary.program import SourceLine

TOP = 5
"""Rows of each table, where the user has not said how many."""

NO_LINES = "No source line of this code is known: compile the program with -g to see them."

MORE = "--details shows counters, sizes, blocks and edges; --top N shows N rows of each table"


def answer(measurement: Measurement, top: int) -> Iterator[Part]:
    """Yield where the program spends, where added instructions come from, and what is hot.

    Parameters
    ----------
    top
        Rows of each table; 0: no tables.
    """
    if not top:
        return
    parts = list(_tables(measurement, top))
    yield from parts
    yield from helper_note(parts)


def helper_note(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield what the mark of helpers means, if it stands in a table of these parts."""
    if any(isinstance(part, Table) and _marks_helpers(part) for part in parts):
        yield from [paragraph(""), paragraph(HELPER_NOTE)]


def _tables(measurement: Measurement, top: int) -> Iterator[Part]:
    yield from section("Where instructions were executed", routine_work(measurement, top))
    if measurement.added:
        yield from section(
            "Where the added instructions come from", routine_costs(measurement, top)
        )
    yield from section("By kind of code", kind_costs(measurement))
    yield from hot(measurement, top)
    yield from lines_note(measurement)


def lines_note(measurement: Measurement) -> Iterator[Part]:
    """Yield why hot code has no source lines, where no line is known."""
    if not measurement.lines and any(routine.instructions for routine in measurement.routines):
        yield from [paragraph(""), paragraph(NO_LINES)]


def _marks_helpers(table: Table) -> bool:
    return any(str(entry).endswith(f" {HELPER_MARK}") for row in table.rows for entry in row)


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
        yield from hot_tables.path_parts(measurement, top, hot_paths)
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
    """List what was added to each kind of code; None where there is but one, or nothing added."""
    if not measurement.added:
        return None
    table = columns(*map(number, ("added", "of added", "overhead")), text("code"))
    for total in kind_totals(measurement):
        table.add_row(
            total.added,
            percent(total.added, measurement.added),
            percent(total.added, total.instructions),
            total.kind.value,
        )
    return table if table.row_count > 1 else None


def hot_paths(
    measurement: Measurement, shown: Sequence[hot_tables.ExecutedPath], is_own: bool
) -> Table:
    """List the paths that executed most instructions, as source lines where these are known.

    `is_own`: see `hot_tables.PathTable`.
    """
    routes = [
        [place(start, measurement) for start in each.path.blocks if isinstance(start, int)]
        for each in shown
    ]
    known = [[line for line in route if line is not None] for route in routes]
    files = ShortNames(line.file for route in known for line in route)
    table = columns(
        *map(number, (*(["of base"] if is_own else []), "executions", "length")),
        name("routine"),
        text(_heading("source lines", "blocks", known)),
    )
    for each, route in zip(shown, known, strict=True):
        path = each.path
        blocks = hot_tables.blocks_text(path) if not route else files.route(route)
        table.add_row(
            *([percent(each.flow, measurement.base)] if is_own else []),
            path.count,
            path.instructions,
            marked(each.routine),
            blocks + each.remark,
        )
    return table


def hot_edges(measurement: Measurement, top: int) -> Table:
    """List the edges crossed most often, and the source line that each leads to."""
    shown = executed_edges(measurement)[:top]
    lines = [
        hot_tables.known_line((each.edge.target, each.edge.source), measurement) for each in shown
    ]
    known = hot_tables.line_columns(measurement)
    table = columns(number("crossings"), name("routine"), text("edge"), *known)
    for each, line in zip(shown, hot_tables.lines_texts(lines), strict=True):
        table.add_row(
            each.edge.count,
            marked(each.routine),
            hot_tables.edge_text(each.edge),
            *([line] if known else []),
        )
    return table


def hot_blocks(measurement: Measurement, top: int) -> Table:
    """List the blocks executed most often, and their source lines."""
    shown = executed_blocks(measurement)[:top]
    lines = [hot_tables.known_line((each.block,), measurement) for each in shown]
    known = hot_tables.line_columns(measurement)
    table = columns(number("executions"), name("routine"), text("block"), *known)
    for each, line in zip(shown, hot_tables.lines_texts(lines), strict=True):
        block = block_text(each.block)
        table.add_row(each.executions, marked(each.routine), block, *([line] if known else []))
    return table


def place(start: int, measurement: Measurement) -> SourceLine | None:
    """Return the source line of a block; None where it is not known."""
    return measurement.lines.get(start)


def _heading(lines: str, blocks: str, known: list[list[SourceLine]]) -> str:
    if all(known):
        return lines
    return f"{lines}, or {blocks}" if any(known) else blocks
