"""The report for people: what `simprof run` prints on stderr.

Sections: how the run ended and what profiling it costs; totals; how paths are known; sizes; what
the scheme loses; the routines where it spends most; hot paths; hot edges or blocks; refused system
calls; warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

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
from profiler.profiles.tables import block_counts
from profiler.reports import call_tree_text, mode_facts
from profiler.reports.display import visible
from profiler.reports.layout import Kind, Styled
from profiler.reports.mode_text import losses, path_kinds, sizes
from profiler.reports.names import brief, known_as
from profiler.reports.numbers import identifier, percent, plural
from profiler.reports.tables import (
    Part,
    Table,
    columns,
    grid,
    name,
    number,
    paragraph,
    print_parts,
    section,
    text,
)
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
    "runs": "emulated runs",
    "whole_runs": "of them whole; others were given up because the graphs lacked something",
    "system_calls": "system calls",
    "window_calls": "calls counted, and nothing outside them",
    "spills": "register windows spilled",
    "fills": "register windows filled",
}


def render(
    measurement: Measurement,
    top: int = 10,
    width: int = 100,
    color: bool = False,
    follow: str | None = None,
) -> str:
    """Return the report.

    Parameters
    ----------
    top
        Rows per table.
    width
        Columns of the terminal.
    color
        Whether to use terminal colours.
    follow
        Routine whose calls to show as a tree.
    """
    return print_parts(list(sections(measurement, top, follow)), width, color)


def sections(measurement: Measurement, top: int, follow: str | None = None) -> Iterable[Part]:
    """Yield the parts of the report."""
    yield summary(measurement)
    yield from call_tree_text.sections(measurement, top, follow)
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
        yield paragraph(f"warning: {warning}", style="yellow")


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
    table.add_row("overhead", Styled(percent(measurement.added, measurement.base), "bold"))
    return table


def program_text(measurement: Measurement) -> str:
    """Say what ran."""
    program = measurement.program
    return visible(f"{' '.join([program.file, *program.arguments])} ({program.machine})")


def ending_rows(table: Table, measurement: Measurement) -> None:
    """Say how the run ended."""
    table.add_row("ended", visible(ending_text(measurement.ending)))
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
            signal = SIGNALS.get(ending.signal or 0, "a real-time signal")
            return f"killed by signal {ending.signal} ({signal})"
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
    found = f"at {stop.pc:#x}"
    if stop.routine is not None:
        found += f" in {brief(stop.routine)}+{stop.offset:#x}"
    if stop.source is not None:
        found += f" ({stop.source.file}:{stop.source.line})"
    return found


def refused_calls(measurement: Measurement) -> Table:
    """List the system calls that were refused, and how they were answered."""
    table = columns(number("times"), text("answer"), text("system call"))
    for call in measurement.refused_calls:
        table.add_row(call.count, call.error, call.name)
    return table


def totals(measurement: Measurement) -> Table:
    """List the run's counts by their plain names."""
    table = grid(Kind.NUMBER, Kind.TEXT)
    for key, count in measurement.counts.items():
        if key == "whole_runs" and count == measurement.counts["runs"]:
            continue
        meaning = COUNT_NAMES.get(key, key.replace("_", " "))
        table.add_row(count, meaning.removesuffix("s") if key == "runs" and count == 1 else meaning)
    executed = sum(routine.activations > 0 for routine in measurement.routines)
    table.add_row(executed, ran_text(measurement))
    return table


def ran_text(measurement: Measurement) -> str:
    """Say of how many routines those are that ran."""
    of_all = plural(measurement.program.routines, "routine")
    if measurement.options.get("routines"):
        return f"of the routines selected ran; the program has {of_all}"
    return f"of the program's {of_all} ran"


def routines(measurement: Measurement, top: int) -> Table:
    """List the routines whose instrumentation costs most (or that execute most)."""
    ran = [routine for routine in measurement.routines if routine.activations]
    shown = sorted(ran, key=lambda each: (-each.added, -each.instructions))[:top]
    with_cuts = any(routine.cut_edges for routine in shown)
    table = columns(
        *map(number, ("added", "instructions", "overhead", "entered", "paths")),
        *([number("cuts")] if with_cuts else []),
        text("counters"),
        text("register"),
        name("routine"),
    )
    for routine in shown:
        table.add_row(
            routine.added,
            routine.instructions,
            percent(routine.added, routine.instructions),
            routine.activations,
            routine.potential_paths,
            *([routine.cut_edges or "-"] if with_cuts else []),
            counters_text(routine),
            routine.path_register or "-",
            known_as(routine.name, routine.alias),
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
        *map(number, ("share", "count", "length", "path")),
        name("routine"),
        text("blocks, source lines"),
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
            path.count,
            path.instructions,
            "partial" if path.partial else identifier(path.id),
            known_as(routine.name, routine.alias),
            path_text(path, measurement),
        )
    return table


def path_text(path: PathCount, measurement: Measurement) -> str:
    """Return a path's blocks and, below them, its source lines where they are known."""
    slots = set(path.slots)
    names = [
        VertexName(start, position in slots).text("") for position, start in enumerate(path.blocks)
    ]
    blocks = " > ".join(shorten(names))
    source = visible(lines_text(path, measurement))
    return f"{blocks}\n{source}" if source else blocks


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
        number("count"),
        name("routine"),
        *map(text, ("edge", "kind", "counter", "source line")),
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
            count,
            known_as(routine.name, routine.alias),
            f"{edge.source.text('')} > {edge.target.text('')}",
            str(edge.kind),
            "yes" if edge.instrumented else "-",
            edge_line(edge, measurement),
        )
    return table


def hot_blocks(measurement: Measurement, top: int) -> Table:
    """List the blocks executed most often."""
    table = columns(number("count"), name("routine"), text("block"), text("source line"))
    ranked = [
        (count, routine, block)
        for routine in measurement.routines
        for block, count in block_counts(routine).items()
        if count
    ]
    ranked.sort(key=lambda each: (-each[0], each[1].address))
    for count, routine, block in ranked[:top]:
        table.add_row(
            count,
            known_as(routine.name, routine.alias),
            block.text(""),
            source_line((block,), measurement),
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
            return visible(f"{place.file}:{place.line}")
    return ""
