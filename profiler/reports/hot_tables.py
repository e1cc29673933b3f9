"""What was executed most: paths, edges and blocks, ranked, and as tables with all that is known.

Counts of paths that an edge profile of another run determines are that run's: these paths are not
ranked among those of this run, but have a table of their own (`path_parts`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import NamedTuple

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.profile import EdgeCount, PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import block_counts
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.display import ShortNames, identifier, known_as, percent, shorten_list
from simprof.profiler.reports.tables import (
    Column,
    Part,
    Table,
    columns,
    name,
    number,
    paragraph,
    section,
    text,
)
from simprof.profiler.request.library_sources import is_library_source
from simprof.simulator.binary.program import SourceLine

ITERATIONS, UNFINISHED = "(loop iterations)", "(unfinished)"
INFERRED, SHORTENED = "(inferred)", "(shortened)"
"""Marks behind a path's blocks or lines."""


class ExecutedPath(NamedTuple):
    """A path, its routine, and how many instructions its executions executed (`flow`).

    `is_turn`: it is an iteration of a loop of one block, which the mode counts as an edge.
    """

    flow: int
    routine: RoutineProfile
    path: PathCount
    is_turn: bool = False

    @property
    def remark(self) -> str:
        """What is to be said behind its blocks or lines."""
        marks = {
            ITERATIONS: self.is_turn,
            UNFINISHED: self.path.partial,
            INFERRED: self.path.inferred,
            SHORTENED: self.path.shortened,
        }
        return "".join(f" {mark}" for mark, holds in marks.items() if holds)


class ExecutedEdge(NamedTuple):
    """An edge and its routine."""

    routine: RoutineProfile
    edge: EdgeCount


class ExecutedBlock(NamedTuple):
    """A block, its routine, and how often it was executed."""

    executions: int
    routine: RoutineProfile
    block: VertexName


def executed_paths(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the paths that were executed; those whose executions took most instructions first."""
    return [
        each for each in _ranked_paths(measurement) if not measurement.is_of_another_run(each.path)
    ]


def paths_of_another_run(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the paths whose counts are those of the run that made the edge profile."""
    return [each for each in _ranked_paths(measurement) if measurement.is_of_another_run(each.path)]


def _ranked_paths(measurement: RunMeasurement) -> list[ExecutedPath]:
    ranked = [
        ExecutedPath(path.count * path.instructions, routine, path)
        for routine in measurement.routines
        for path in routine.path_counts
        if path.count
    ]
    return sorted(ranked, key=lambda each: (-each.flow, each.routine.address))


def hot_flow(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the executed paths, and iterations of loops of one block where these are on no path.

    `pp` counts such an iteration as an edge (EPP 4.1). What is on no path tells: iterations are
    left out of all paths of a routine, or of none.
    """
    paths = executed_paths(measurement)
    on_paths: Counter[int] = Counter()
    for each in paths:
        on_paths[each.routine.address] += each.flow
    turns = []
    for routine in measurement.routines:
        loops = _loops_of_one_block(routine)
        flow = sum(each.flow for each in loops)
        if flow and flow == routine.instructions - on_paths[routine.address]:
            turns += loops
    return sorted([*paths, *turns], key=lambda each: (-each.flow, each.routine.address))


def _loops_of_one_block(routine: RoutineProfile) -> list[ExecutedPath]:
    sizes: dict[tuple[int | str, bool], int] = {
        (each.start, each.is_slot): each.instructions for each in routine.block_counts
    }
    found = []
    for index, edge in enumerate(routine.edge_counts):
        size = sizes.get((edge.source.start, edge.source.is_slot))
        if edge.source == edge.target and edge.count and size is not None:
            blocks = (edge.source.start,)
            path = PathCount(None, edge.count, size, blocks, (), False, (index,))
            found.append(ExecutedPath(edge.count * size, routine, path, is_turn=True))
    return found


def executed_edges(measurement: RunMeasurement) -> list[ExecutedEdge]:
    """Return the edges that were crossed; those crossed most often first."""
    ranked = [
        ExecutedEdge(routine, edge)
        for routine in measurement.routines
        for edge in routine.edge_counts
        if edge.count
    ]
    return sorted(ranked, key=lambda each: (-each.edge.count, each.routine.address))


def executed_blocks(measurement: RunMeasurement) -> list[ExecutedBlock]:
    """Return the blocks that were executed; those executed most often first."""
    ranked = [
        ExecutedBlock(count, routine, block)
        for routine in measurement.routines
        for block, count in block_counts(routine).items()
        if count
    ]
    return sorted(ranked, key=lambda each: (-each.executions, each.routine.address))


PathTable = Callable[[RunMeasurement, Sequence[ExecutedPath], bool], Table]
"""Makes a table of paths; the last argument says whether their counts are this run's."""


def path_parts(
    measurement: RunMeasurement, top: int, table: PathTable, title: str = "Hot paths"
) -> Iterator[Part]:
    """Yield the hottest paths, those that an edge profile of another run determines apart."""
    shown, elsewhere = hot_flow(measurement)[:top], paths_of_another_run(measurement)[:top]
    yield from section(title, table(measurement, shown, True))
    if elsewhere:
        about = f"Paths without a counter (counts of {measurement.guide}, not of this run)"
        yield from section(about, table(measurement, elsewhere, False))
    notes = list(_mark_notes(measurement, [each.path for each in (*shown, *elsewhere)]))
    if notes:
        yield from [paragraph(""), *map(paragraph, notes)]


def _mark_notes(measurement: RunMeasurement, paths: Sequence[PathCount]) -> Iterator[str]:
    """Yield what the marks behind some paths mean, where that must be said."""
    if any(path.inferred for path in paths):
        guide = mode_facts.guide_text(measurement.guide)
        yield f"{INFERRED} no counter counts it: {guide} determines its executions"
    if any(path.shortened for path in paths):
        yield (
            f"{SHORTENED} begins or ends where longer paths are cut: executions that are parts of "
            "these count here"
        )


def hot_paths(measurement: RunMeasurement, shown: Sequence[ExecutedPath], is_own: bool) -> Table:
    """List the paths that executed most instructions."""
    files = ShortNames(line.file for each in shown for line in known_lines(each.path, measurement))
    table = columns(
        *map(
            number, (*(["share"] if is_own else []), "executions", "instructions per path", "path")
        ),
        name("routine"),
        text("blocks, source lines"),
    )
    for each in shown:
        path = each.path
        kind = "-" if each.is_turn else "partial" if path.partial else identifier(path.id)
        table.add_row(
            *([percent(each.flow, measurement.base)] if is_own else []),
            path.count,
            path.instructions,
            kind,
            marked(each.routine),
            path_text(path, measurement, files) + each.remark,
        )
    return table


def path_text(path: PathCount, measurement: RunMeasurement, files: ShortNames) -> str:
    """Return a path's blocks and, below them, its source lines where they are known."""
    source = files.route(known_lines(path, measurement))
    return f"{blocks_text(path)}\n{source}" if source else blocks_text(path)


def blocks_text(path: PathCount) -> str:
    """Return "BLOCK > BLOCK > ...", slot blocks named as such."""
    slots = set(path.slots)
    return " > ".join(
        shorten_list(
            [block_text(VertexName(start, at in slots)) for at, start in enumerate(path.blocks)]
        )
    )


def block_text(block: VertexName) -> str:
    """Return the name of a block."""
    return str(block)


def edge_text(edge: EdgeCount) -> str:
    """Return the names of an edge's ends."""
    return f"{block_text(edge.source)} > {block_text(edge.target)}"


def known_lines(path: PathCount, measurement: RunMeasurement) -> list[SourceLine]:
    """Return the source lines of a path's blocks, as far as they are known."""
    starts = (start for start in path.blocks if isinstance(start, int))
    return [measurement.lines[start] for start in starts if start in measurement.lines]


def lines_text(path: PathCount, measurement: RunMeasurement) -> str:
    """Return "FILE:LINE > LINE > ...", repeats of a line left out; empty where unknown."""
    parts: list[str] = []
    file = None
    for place, _ in groupby(known_lines(path, measurement)):
        parts.append(f"{place.line}" if place.file == file else f"{place.file}:{place.line}")
        file = place.file
    return " > ".join(shorten_list(parts))


def hot_edges(measurement: RunMeasurement, top: int) -> Table:
    """List the edges crossed most often."""
    shown = executed_edges(measurement)[:top]
    lines = [known_line((each.edge.target, each.edge.source), measurement) for each in shown]
    table = columns(
        number("executions"),
        name("routine"),
        *map(text, ("edge", "kind", "counter")),
        *line_columns(measurement),
    )
    for (routine, edge), line in zip(shown, lines_texts(lines), strict=True):
        table.add_row(
            edge.count,
            marked(routine),
            edge_text(edge),
            str(edge.kind),
            "yes" if edge.instrumented else "-",
            *([line] if measurement.lines else []),
        )
    return table


def hot_blocks(measurement: RunMeasurement, top: int) -> Table:
    """List the blocks executed most often."""
    shown = executed_blocks(measurement)[:top]
    lines = [known_line((each.block,), measurement) for each in shown]
    table = columns(
        number("executions"), name("routine"), text("block"), *line_columns(measurement)
    )
    for (count, routine, block), line in zip(shown, lines_texts(lines), strict=True):
        known = [line] if measurement.lines else []
        table.add_row(count, marked(routine), block_text(block), *known)
    return table


def line_columns(measurement: RunMeasurement) -> list[Column]:
    """Return the column of source lines; none where no line is known of the whole profile."""
    return [text("source line")] if measurement.lines else []


def known_line(vertices: Iterable[VertexName], measurement: RunMeasurement) -> SourceLine | None:
    """Return the source line of the first vertex that has one; of an edge name the target first."""
    for vertex in vertices:
        if isinstance(vertex.start, int) and vertex.start in measurement.lines:
            return measurement.lines[vertex.start]
    return None


def lines_texts(lines: Sequence[SourceLine | None]) -> list[str]:
    """Return each of the lines in a table as "FILE:LINE"; empty where there is none."""
    files = ShortNames(line.file for line in lines if line is not None)
    return ["" if line is None else files.route([line]) for line in lines]


HELPER_MARK = "[PIC]"
"""Stands behind the name of a helper of position-independent code."""

HELPER_NOTE = f"{HELPER_MARK} a PC thunk (get_pc_thunk)"

_HELPER = re.compile(r"__sparc_get_pc_thunk(\..+)?")


class CodeKind(Enum):
    """Kinds of code, in the order in which reports list them."""

    OWN = "the program's own"
    LIBRARY = "libraries, compiled with -g"
    UNKNOWN = "no debug information (mostly libraries)"
    HELPER = "PC thunks (get_pc_thunk)"


@dataclass(frozen=True)
class KindTotal:
    """The routines of one kind that ran: how many, what they executed, what was added to them."""

    kind: CodeKind
    routines: int
    instructions: int
    added: int


def is_helper(name: str) -> bool:
    """Whether a routine is a helper of position-independent code.

    Examples
    --------
    >>> is_helper("__sparc_get_pc_thunk.l7")
    True
    >>> is_helper("get_pc")
    False
    """
    return _HELPER.fullmatch(name) is not None


def marked(routine: RoutineProfile) -> str:
    """Return the name that people know a routine by, helpers marked."""
    return with_mark(known_as(routine.name, routine.alias), routine.name)


def with_mark(shown: str, name: str) -> str:
    """Return what a report calls the routine of a symbol, helpers marked."""
    return f"{shown} {HELPER_MARK}" if is_helper(name) else shown


def kind_of(routine: RoutineProfile, measurement: RunMeasurement) -> CodeKind:
    """Return the kind of a routine; by the source file of its first instruction, where known."""
    if is_helper(routine.name):
        return CodeKind.HELPER
    line = measurement.lines.get(routine.address)
    if line is None:
        return CodeKind.UNKNOWN
    return CodeKind.LIBRARY if is_library_source(line.file) else CodeKind.OWN


def kind_totals(measurement: RunMeasurement) -> Iterator[KindTotal]:
    """Yield a total for each kind of which a routine ran, in the order of `CodeKind`."""
    ran = [routine for routine in measurement.routines if routine.activations]
    kinds = [kind_of(routine, measurement) for routine in ran]
    for kind in CodeKind:
        those = [routine for routine, each in zip(ran, kinds, strict=True) if each is kind]
        if those:
            yield KindTotal(
                kind,
                len(those),
                sum(routine.instructions for routine in those),
                sum(routine.added for routine in those),
            )
