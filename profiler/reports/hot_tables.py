"""What was executed most: paths, edges and blocks, ranked, and as tables with all that is known.

Counts of paths that an edge profile of another run determines are that run's: these paths are not
ranked among those of this run, but have a table of their own (`path_parts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import (
    LoopIterations,
    block_counts,
    known_line,
    listed_paths,
    loop_marks,
    path_blocks,
    path_lines,
)
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.display import ShortNames, identifier, known_as, percent, shorten_list
from simprof.profiler.request.library_sources import is_library_source

T = TypeVar("T")

# Marks behind a path's blocks or lines
ITERATIONS, UNFINISHED = "(loop iterations)", "(unfinished)"
INFERRED, SHORTENED = "(inferred)", "(shortened)"
AROUND = "(around loops)"


class ExecutedPath(NamedTuple):
    """A path, its routine, and how many instructions its executions executed (`flow`)."""

    flow: int
    routine: RoutineProfile
    path: PathCount

    @property
    def remark(self) -> str:
        """What is to be said behind its blocks or lines."""
        marks = [UNFINISHED] * self.path.partial + path_marks(self.path)
        return "".join(f" {mark}" for mark in marks)


def path_marks(path: PathCount) -> list[str]:
    """Return what is to be said of any path, but that it is unfinished."""
    marks = [ITERATIONS] * isinstance(path, LoopIterations) + [AROUND] * bool(path.collapsed)
    marks += loop_marks(path.start, path.end)
    return [*marks, *[INFERRED] * path.inferred, *[SHORTENED] * path.shortened]


def paths_of_another_run(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the paths whose counts are those of the run that made the edge profile."""
    return [each for each in _ranked_paths(measurement) if measurement.is_of_another_run(each.path)]


def _ranked_paths(measurement: RunMeasurement) -> list[ExecutedPath]:
    ranked = [
        ExecutedPath(path.count * path.instructions, routine, path)
        for routine in measurement.routines
        for path in listed_paths(measurement, routine)
        if path.count
    ]
    return sorted(ranked, key=lambda each: (-each.flow, each.routine.address))


def hot_flow(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the paths that this run executed, hottest first."""
    ranked = _ranked_paths(measurement)
    return [each for each in ranked if not measurement.is_of_another_run(each.path)]


def _most_executed(
    measurement: RunMeasurement,
    top: int,
    counts: Callable[[RoutineProfile], Iterable[tuple[int, T]]],
) -> list[tuple[int, RoutineProfile, T]]:
    ranked = [
        (count, routine, each)
        for routine in measurement.routines
        for count, each in counts(routine)
        if count
    ]
    return sorted(ranked, key=lambda each: (-each[0], each[1].address))[:top]


def hot_parts(measurement: RunMeasurement, top: int, details: bool) -> Iterator[layout.Part]:
    """Yield what was executed most, of what the mode counts; `details`: beside paths, edges."""
    has_paths = mode_facts.collects_paths(measurement)
    if has_paths:
        yield from path_parts(measurement, top, details)
    if has_paths and not details:
        return
    if mode_facts.counts_blocks(measurement):
        yield from layout.section("Hot blocks", _hot_blocks(measurement, top))
    else:
        yield from layout.section("Hot edges", _hot_edges(measurement, top, details))


def path_parts(
    measurement: RunMeasurement, top: int, details: bool, title: str = "Hot paths"
) -> Iterator[layout.Part]:
    """Yield the hottest paths, those that an edge profile of another run determines apart."""
    table = _detailed_paths if details else _paths
    shown, elsewhere = hot_flow(measurement)[:top], paths_of_another_run(measurement)[:top]
    yield from layout.section(title, table(measurement, shown, True))
    if elsewhere:
        about = f"Paths without a counter (counts of {measurement.guide}, not of this run)"
        yield from layout.section(about, table(measurement, elsewhere, False))
    notes = list(_mark_notes(measurement, [each.path for each in (*shown, *elsewhere)]))
    if notes:
        yield from [layout.paragraph(""), *map(layout.paragraph, notes)]


def _mark_notes(measurement: RunMeasurement, paths: Sequence[PathCount]) -> Iterator[str]:
    if any(path.collapsed for path in paths):
        yield f"{AROUND} the iterations of loops inside are on paths of their own"
    if any(path.inferred for path in paths):
        guide = mode_facts.guide_text(measurement.guide)
        yield f"{INFERRED} no counter counts it: {guide} determines its executions"
    if any(path.shortened for path in paths):
        yield (
            f"{SHORTENED} begins or ends where longer paths are cut: executions that are parts of "
            "these count here"
        )


def _paths(
    measurement: RunMeasurement, shown: Sequence[ExecutedPath], is_own: bool
) -> layout.Table:
    """List paths as source lines where these are known, else as blocks.

    `is_own`: whether their counts are this run's.
    """
    known = [path_lines(each.path, measurement) for each in shown]
    files = ShortNames(line.file for route in known for line in route)
    heading = "source lines" if all(known) else "blocks"
    if any(known) and not all(known):
        heading = "source lines, or blocks"
    return layout.columns(
        *_path_columns(is_own),
        layout.name("routine"),
        layout.text(heading),
        rows=[
            (
                *_path_cells(each, measurement, is_own),
                marked(each.routine),
                (files.route(route) if route else blocks_text(each.path)) + each.remark,
            )
            for each, route in zip(shown, known, strict=True)
        ],
    )


def _path_columns(is_own: bool) -> list[layout.Column]:
    titles = ["executions", "instructions per path"]
    return list(map(layout.number, ["share", *titles] if is_own else titles))


def _path_cells(each: ExecutedPath, measurement: RunMeasurement, is_own: bool) -> list[int | str]:
    cells: list[int | str] = [each.path.count, each.path.instructions]
    return [percent(each.flow, measurement.base), *cells] if is_own else cells


def _detailed_paths(
    measurement: RunMeasurement, shown: Sequence[ExecutedPath], is_own: bool
) -> layout.Table:
    """List paths with their numbers, their blocks and, below these, their source lines."""
    files = ShortNames(line.file for each in shown for line in path_lines(each.path, measurement))
    heads = layout.number("path"), layout.name("routine"), layout.text("blocks, source lines")
    table = layout.columns(*_path_columns(is_own), *heads)
    for each in shown:
        path = each.path
        named = "partial" if path.partial else identifier(path.id)
        source = files.route(path_lines(path, measurement))
        table.add_row(
            *_path_cells(each, measurement, is_own),
            "-" if isinstance(path, LoopIterations) else named,
            marked(each.routine),
            blocks_text(path) + (f"\n{source}" if source else "") + each.remark,
        )
    return table


def blocks_text(path: PathCount) -> str:
    """Return "BLOCK > BLOCK > ...", slot blocks and collapsed loops named as such."""
    return " > ".join(shorten_list([*map(str, path_blocks(path))]))


def _hot_edges(measurement: RunMeasurement, top: int, details: bool) -> layout.Table:
    shown = _most_executed(
        measurement, top, lambda routine: ((e.count, e) for e in routine.edge_counts if e.told)
    )
    lines = _line_cells([(edge.target, edge.source) for _, _, edge in shown], measurement)
    table = layout.columns(
        layout.number("executions"),
        layout.name("routine"),
        layout.text("edge"),
        *map(layout.text, ("kind", "counter") if details else ()),
        *_line_columns(measurement),
    )
    for (count, routine, edge), line in zip(shown, lines, strict=True):
        more = (str(edge.kind), "yes" if edge.instrumented else "-") if details else ()
        ends = f"{edge.source} > {edge.target}"
        table.add_row(count, marked(routine), ends, *more, *line)
    return table


def _told_blocks(routine: RoutineProfile) -> Iterator[tuple[int, VertexName]]:
    untold = {block.name for block in routine.block_counts if not block.told}
    counts = block_counts(routine).items()
    return ((count, block) for block, count in counts if block not in untold)


def _hot_blocks(measurement: RunMeasurement, top: int) -> layout.Table:
    shown = _most_executed(measurement, top, _told_blocks)
    lines = _line_cells([(block,) for _, _, block in shown], measurement)
    heads = (
        layout.number("executions"),
        layout.name("routine"),
        layout.text("block"),
        *_line_columns(measurement),
    )
    table = layout.columns(*heads)
    for (count, routine, block), line in zip(shown, lines, strict=True):
        table.add_row(count, marked(routine), str(block), *line)
    return table


def _line_columns(measurement: RunMeasurement) -> list[layout.Column]:
    """Return the column of source lines; none where no line is known of the whole profile."""
    return [layout.text("source line")] if measurement.lines else []


def _line_cells(
    rows: Sequence[Sequence[VertexName]], measurement: RunMeasurement
) -> list[tuple[str, ...]]:
    """Return the cell of that column for each row: the first known line of its vertices."""
    found = [known_line(measurement, *row) for row in rows]
    files = ShortNames(line.file for line in found if line is not None)
    texts = ["" if line is None else files.route([line]) for line in found]
    return [(each,) if measurement.lines else () for each in texts]


HELPER_MARK = "[PIC]"  # Stands behind the name of a helper of position-independent code.
HELPER_NOTE = f"{HELPER_MARK} compiler helper that loads the PC (position-independent code)"
_HELPER = re.compile(r"__sparc_get_pc_thunk(\..+)?")


class CodeKind(Enum):
    """Kinds of code, in the order in which reports list them."""

    OWN = "the program's own"
    LIBRARY = "libraries, compiled with -g"
    UNKNOWN = "code without debug info"
    HELPER = "compiler helpers that load the PC"


def is_helper(name: str) -> bool:
    """Whether a routine is a helper of position-independent code, as "__sparc_get_pc_thunk.l7"."""
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


def kind_totals(measurement: RunMeasurement) -> Iterator[tuple[CodeKind, int, int]]:
    """Yield what was added to the routines of a kind that ran, and what these executed."""
    ran = [routine for routine in measurement.routines if routine.ran]
    kinds = [kind_of(routine, measurement) for routine in ran]
    for kind in CodeKind:
        those = [routine for routine, each in zip(ran, kinds, strict=True) if each is kind]
        if those:
            instructions = sum(routine.instructions for routine in those)
            yield kind, sum(routine.added for routine in those), instructions
