"""What was executed most: paths, edges and blocks, ranked, and as tables with all that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from profiler.graphs.cfg import VertexName
from profiler.profiles.profile import EdgeCount, Measurement, PathCount, RoutineProfile
from profiler.profiles.tables import block_counts
from profiler.reports.code_kinds import marked
from profiler.reports.display import visible
from profiler.reports.numbers import identifier, percent
from profiler.reports.tables import Table, columns, name, number, text
from simulator.binary.program import SourceLine

SHOWN_BLOCKS = 12
"""Blocks or lines of a path that are shown; of longer ones the middle is left out."""


class ExecutedPath(NamedTuple):
    """A path, its routine, and how many instructions its executions executed (`flow`)."""

    flow: int
    routine: RoutineProfile
    path: PathCount


class ExecutedEdge(NamedTuple):
    """An edge and its routine."""

    routine: RoutineProfile
    edge: EdgeCount


class ExecutedBlock(NamedTuple):
    """A block, its routine, and how often it was executed."""

    executions: int
    routine: RoutineProfile
    block: VertexName


def executed_paths(measurement: Measurement) -> list[ExecutedPath]:
    """Return the paths that were executed; those whose executions took most instructions first."""
    ranked = [
        ExecutedPath(path.count * path.instructions, routine, path)
        for routine in measurement.routines
        for path in routine.path_counts
        if path.count
    ]
    return sorted(ranked, key=lambda each: (-each.flow, each.routine.address))


def executed_edges(measurement: Measurement) -> list[ExecutedEdge]:
    """Return the edges that were crossed; those crossed most often first."""
    ranked = [
        ExecutedEdge(routine, edge)
        for routine in measurement.routines
        for edge in routine.edge_counts
        if edge.count
    ]
    return sorted(ranked, key=lambda each: (-each.edge.count, each.routine.address))


def executed_blocks(measurement: Measurement) -> list[ExecutedBlock]:
    """Return the blocks that were executed; those executed most often first."""
    ranked = [
        ExecutedBlock(count, routine, block)
        for routine in measurement.routines
        for block, count in block_counts(routine).items()
        if count
    ]
    return sorted(ranked, key=lambda each: (-each.executions, each.routine.address))


def hot_paths(measurement: Measurement, top: int) -> Table:
    """List the paths that executed most instructions."""
    table = columns(
        *map(number, ("share", "count", "length", "path")),
        name("routine"),
        text("blocks, source lines"),
    )
    for flow, routine, path in executed_paths(measurement)[:top]:
        table.add_row(
            percent(flow, measurement.base),
            path.count,
            path.instructions,
            "partial" if path.partial else identifier(path.id),
            marked(routine),
            path_text(path, measurement),
        )
    return table


def path_text(path: PathCount, measurement: Measurement) -> str:
    """Return a path's blocks and, below them, its source lines where they are known."""
    source = visible(lines_text(path, measurement))
    return f"{blocks_text(path)}\n{source}" if source else blocks_text(path)


def blocks_text(path: PathCount) -> str:
    """Return "BLOCK > BLOCK > ...", slot blocks named as such."""
    slots = set(path.slots)
    return " > ".join(
        shorten(
            [block_text(VertexName(start, at in slots)) for at, start in enumerate(path.blocks)]
        )
    )


def block_text(block: VertexName) -> str:
    """Return the name of a block."""
    return block.text("")


def edge_text(edge: EdgeCount) -> str:
    """Return the names of an edge's ends."""
    return f"{block_text(edge.source)} > {block_text(edge.target)}"


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
    for routine, edge in executed_edges(measurement)[:top]:
        table.add_row(
            edge.count,
            marked(routine),
            edge_text(edge),
            str(edge.kind),
            "yes" if edge.instrumented else "-",
            line_text((edge.target, edge.source), measurement),
        )
    return table


def hot_blocks(measurement: Measurement, top: int) -> Table:
    """List the blocks executed most often."""
    table = columns(number("count"), name("routine"), text("block"), text("source line"))
    for count, routine, block in executed_blocks(measurement)[:top]:
        source = line_text((block,), measurement)
        table.add_row(count, marked(routine), block_text(block), source)
    return table


def known_line(vertices: Iterable[VertexName], measurement: Measurement) -> SourceLine | None:
    """Return the source line of the first vertex that has one; of an edge name the target first."""
    for vertex in vertices:
        if isinstance(vertex.start, int) and vertex.start in measurement.lines:
            return measurement.lines[vertex.start]
    return None


def line_text(vertices: Iterable[VertexName], measurement: Measurement) -> str:
    """Return that line as "FILE:LINE"; empty where there is none."""
    line = known_line(vertices, measurement)
    return "" if line is None else visible(f"{line.file}:{line.line}")
