"""The report for people: what `simprof run` prints on stderr.

Sections: how the run ended and what profiling it costs; totals; how paths are known; sizes; what
the scheme loses; the routines where it spends most; hot paths; hot edges or blocks; refused system
calls; warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from profiler.graphs.cfg import VertexName
from profiler.profiles.profile import (
    EdgeCount,
    Ending,
    FaultInfo,
    Measurement,
    PathCount,
    RefusalInfo,
    RoutineProfile,
)
from profiler.reports import mode_facts
from profiler.reports.mode_text import losses, path_kinds, sizes
from profiler.reports.numbers import group_digits, percent, plural
from profiler.reports.tables import columns, grid, print_parts, section
from simulator.isa.sparc import SIGNALS

SHOWN_BLOCKS = 12
REFUSED_TITLE = "Refused system calls (simprof lacks the service)"
COUNT_NAMES = {
    "path_increments": "path counter increments",
    "hashed_increments": "of them through a hash table",
    "edge_increments": "edge counter increments",
    "trace_tokens": "tokens written to the trace",
    "inferred_paths": "executions of obvious paths, known from the edge profile",
    "blocks": "blocks executed",
    "transfers": "edges crossed",
    "unattributed_transfers": "transfers not attributed",
    "unattributed_instructions": "instructions not attributed",
    "runs": "emulated runs, with those that completed the graphs",
    "system_calls": "system calls",
    "spills": "register windows spilled",
    "fills": "register windows filled",
}


def render(measurement: Measurement, top: int = 10, width: int = 100, color: bool = False) -> str:
    """Return the report.

    Parameters
    ----------
    top
        Rows per table.
    width
        Columns of the terminal.
    color
        Whether to use terminal colours.
    """
    return print_parts(list(sections(measurement, top)), width, color)


def sections(measurement: Measurement, top: int) -> Iterable[RenderableType]:
    """Yield the parts of the report."""
    yield summary(measurement)
    yield from section("Totals", totals(measurement))
    yield from section("Paths", path_kinds(measurement))
    yield from section("Sizes", sizes(measurement))
    yield from section("What is lost", losses(measurement))
    if top > 0:
        yield from section("Routines by added instructions", routines(measurement, top))
        if mode_facts.collects_paths(measurement):
            yield from section("Hot paths", hot_paths(measurement, top))
        if mode_facts.counts_blocks(measurement):
            yield from section("Hot blocks", hot_blocks(measurement, top))
        else:
            yield from section("Hot edges", hot_edges(measurement, top))
    yield from section(REFUSED_TITLE, refused_calls(measurement))
    for warning in measurement.warnings:
        yield Text(f"warning: {warning}", style="yellow")


def summary(measurement: Measurement) -> Table:
    """Say what ran, how it ended and what profiling it costs."""
    table = grid()
    table.add_row("program", program_text(measurement))
    table.add_row("mode", mode_facts.description(measurement))
    ending_rows(table, measurement)
    if measurement.runs > 1:
        table.add_row("runs", f"{measurement.runs}, added up")
    table.add_row("base", plural(measurement.base, "instruction"))
    table.add_row("added", plural(measurement.added, "instruction"))
    table.add_row("overhead", Text(percent(measurement.added, measurement.base), style="bold"))
    return table


def program_text(measurement: Measurement) -> Text:
    """Say what ran."""
    program = measurement.program
    return Text(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def ending_rows(table: Table, measurement: Measurement) -> None:
    """Say how the run ended."""
    table.add_row("ended", Text(ending_text(measurement.ending)))
    if measurement.partial:
        table.add_row("note", "PARTIAL: the run was cut short; this profiles its beginning")


def ending_text(ending: Ending) -> str:
    """Describe an ending."""
    match ending.reason:
        case "exit":
            return f"exit status {ending.status}"
        case "budget":
            return "its budget was spent"
        case "interrupted":
            return "interrupted (Ctrl-C)"
        case "signal":
            name = SIGNALS.get(ending.signal or 0, "a real-time signal")
            return f"killed by signal {ending.signal} ({name})"
        case "fault":
            detail = "" if ending.fault is None else f": {fault_text(ending.fault)}"
            return f"killed by signal {ending.signal}{detail}"
        case "refused":
            detail = "" if ending.refusal is None else f" {refusal_text(ending.refusal)}"
            return f"stopped at a refused system call (--strict):{detail}"


def fault_text(fault: FaultInfo) -> str:
    """Describe a fault in one line: what, at which instruction, in which routine and line."""
    return f"{fault.name}, {fault.description}, {_place_text(fault)}"


def refusal_text(refusal: RefusalInfo) -> str:
    """Describe in one line the refused system call that ended a run."""
    return f"{refusal.name} {_place_text(refusal)}"


def _place_text(stop: FaultInfo | RefusalInfo) -> str:
    text = f"at {stop.pc:#x}"
    if stop.routine is not None:
        text += f" in {stop.routine}+{stop.offset:#x}"
    if stop.source is not None:
        text += f" ({stop.source.file}:{stop.source.line})"
    return text


def refused_calls(measurement: Measurement) -> Table:
    """List the system calls that were refused, and how they were answered."""
    table = columns(("times", True), ("answer", False), ("system call", False))
    for call in measurement.refused_calls:
        table.add_row(group_digits(call.count), call.error, Text(call.name))
    return table


def totals(measurement: Measurement) -> Table:
    """List the run's counts by their plain names."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, count in measurement.counts.items():
        table.add_row(group_digits(count), COUNT_NAMES.get(name, name.replace("_", " ")))
    executed = sum(routine.activations > 0 for routine in measurement.routines)
    table.add_row(group_digits(executed), f"of {plural(len(measurement.routines), 'routine')} ran")
    return table


def routines(measurement: Measurement, top: int) -> Table:
    """List the routines whose instrumentation costs most (or that execute most)."""
    ran = [routine for routine in measurement.routines if routine.activations]
    shown = sorted(ran, key=lambda each: (-each.added, -each.instructions))[:top]
    with_cuts = any(routine.cut_edges for routine in shown)
    table = columns(
        ("added", True),
        ("instructions", True),
        ("overhead", True),
        ("entered", True),
        ("paths", True),
        *([("cuts", True)] if with_cuts else []),
        ("counters", False),
        ("register", False),
        ("routine", False),
    )
    for routine in shown:
        table.add_row(
            group_digits(routine.added),
            group_digits(routine.instructions),
            percent(routine.added, routine.instructions),
            group_digits(routine.activations),
            group_digits(routine.potential_paths),
            *([str(routine.cut_edges or "-")] if with_cuts else []),
            counters_text(routine),
            routine.path_register or "-",
            Text(routine.name),
        )
    return table


def counters_text(routine: RoutineProfile) -> str:
    """Describe how a routine's paths are counted."""
    if routine.addressing is None:
        return str(routine.table)
    return f"{routine.table}, {routine.addressing}"


def hot_paths(measurement: Measurement, top: int) -> Table:
    """List the paths that executed most instructions."""
    table = columns(
        ("share", True),
        ("count", True),
        ("length", True),
        ("path", True),
        ("routine", False),
        ("blocks, source lines", False),
    )
    ranked = [
        (path.count * path.instructions, routine, path)
        for routine in measurement.routines
        for path in routine.path_counts
        if path.count
    ]
    ranked.sort(key=lambda each: (-each[0], each[1].address))
    for flow, routine, path in ranked[:top]:
        table.add_row(
            percent(flow, measurement.base),
            group_digits(path.count),
            group_digits(path.instructions),
            "partial" if path.partial else str(path.id),
            Text(routine.name),
            Text(path_text(path, measurement)),
        )
    return table


def path_text(path: PathCount, measurement: Measurement) -> str:
    """Return a path's blocks and, below them, its source lines where they are known."""
    slots = set(path.slots)
    names = [
        VertexName(start, position in slots).text("") for position, start in enumerate(path.blocks)
    ]
    text = " > ".join(shorten(names))
    source = lines_text(path, measurement)
    return f"{text}\n{source}" if source else text


def lines_text(path: PathCount, measurement: Measurement) -> str:
    """Return "FILE:LINE > LINE > ...", repeats of a line left out; empty where unknown."""
    places = [
        measurement.lines.get(start) if isinstance(start, int) else None for start in path.blocks
    ]
    distinct = [place for place, _ in groupby(places) if place is not None]
    parts: list[str] = []
    file = None
    for place in distinct:
        parts.append(f"{place.line}" if place.file == file else f"{place.file}:{place.line}")
        file = place.file
    return " > ".join(shorten(parts))


def shorten(names: Sequence[str]) -> list[str]:
    """Leave out the middle of a long list and say how much."""
    if len(names) <= SHOWN_BLOCKS:
        return list(names)
    head = SHOWN_BLOCKS - 4
    return [*names[:head], f"({len(names) - head - 3} more)", *names[-3:]]


def hot_edges(measurement: Measurement, top: int) -> Table:
    """List the edges crossed most often."""
    table = columns(
        ("count", True),
        ("routine", False),
        ("edge", False),
        ("kind", False),
        ("counter", False),
        ("source line", False),
    )
    ranked = [
        (edge.count, routine, edge)
        for routine in measurement.routines
        for edge in routine.edge_counts
        if edge.count
    ]
    ranked.sort(key=lambda each: (-each[0], each[1].address))
    for count, routine, edge in ranked[:top]:
        table.add_row(
            group_digits(count),
            Text(routine.name),
            f"{edge.source.text('')} > {edge.target.text('')}",
            str(edge.kind),
            "yes" if edge.instrumented else "-",
            Text(edge_line(edge, measurement)),
        )
    return table


def hot_blocks(measurement: Measurement, top: int) -> Table:
    """List the blocks executed most often."""
    table = columns(("count", True), ("routine", False), ("block", False), ("source line", False))
    ranked = [
        (count, routine, block)
        for routine in measurement.routines
        for block, count in mode_facts.named_block_counts(routine).items()
        if count
    ]
    ranked.sort(key=lambda each: (-each[0], each[1].address))
    for count, routine, block in ranked[:top]:
        table.add_row(
            group_digits(count),
            Text(routine.name),
            block.text(""),
            Text(source_line((block,), measurement)),
        )
    return table


def edge_line(edge: EdgeCount, measurement: Measurement) -> str:
    """Return the source line of an edge's target, or else of its source."""
    return source_line((edge.target, edge.source), measurement)


def source_line(vertices: Iterable[VertexName], measurement: Measurement) -> str:
    """Return the source line of the first vertex that has one."""
    for vertex in vertices:
        if isinstance(vertex.start, int) and vertex.start in measurement.lines:
            place = measurement.lines[vertex.start]
            return f"{place.file}:{place.line}"
    return ""
