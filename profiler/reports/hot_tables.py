"""Paths, edges and blocks executed most, ranked, and as tables with all their columns.

Tables name routines as people know them (`names_of`). A path is its source lines, or else its
blocks; beside it stands what counted it, where that is not a counter of its own.

Counts of paths that an edge profile of another run determines are that run's: these paths are not
ranked among those of this run, but have a table of their own (`path_parts`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles import tables
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.reports import display, mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.request.library_sources import is_library_source
from simprof.simulator.binary.demangling import plain_name

T = TypeVar("T")

# Marks behind a path's blocks or lines
ITERATIONS, UNFINISHED = "(loop iterations)", "(unfinished)"
AROUND = "(around loops)"
OF_LONGER = "*"  # Stands behind what counts a path that is a part of longer ones.
# One part in so many of all instructions: what executed less is left out of a short report.
SMALLEST_SHARE = 1000


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
    marks = [ITERATIONS] * isinstance(path, tables.LoopIterations) + [AROUND] * bool(path.collapsed)
    return [*marks, *tables.loop_marks(path.start, path.end)]


def counted_by(path: PathCount, measurement: RunMeasurement) -> str:
    """Return what a path's executions are known by: its counter, or the profile that guided."""
    guide = measurement.guide
    by = "counter" if not path.inferred else "edge profile" if guide is None else guide.kind
    return by + f" {OF_LONGER}" * path.shortened


def paths_of_another_run(measurement: RunMeasurement) -> list[ExecutedPath]:
    """Return the paths whose counts are those of the run that made the edge profile."""
    return [each for each in _ranked_paths(measurement) if measurement.is_of_another_run(each.path)]


def _ranked_paths(measurement: RunMeasurement) -> list[ExecutedPath]:
    ranked = [
        ExecutedPath(path.count * path.instructions, routine, path)
        for routine in measurement.routines
        for path in tables.listed_paths(measurement, routine)
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
    ranked = hot_flow(measurement)
    # Samples are a part of what was executed, of which they have no meaningful share.
    whole = measurement.base
    if mode_facts.estimates(measurement):
        whole = sum(each.flow for each in ranked)
    least = 0 if details else whole
    shown = [each for each in ranked[:top] if each.flow * SMALLEST_SHARE >= least] or ranked[:1]
    elsewhere = paths_of_another_run(measurement)[:top]
    every = [each.path for each in (*shown, *elsewhere)]
    with_counters = any(path.inferred or path.shortened for path in every)

    def table(rows: Sequence[ExecutedPath], whole: int) -> layout.Table:
        return _paths(measurement, rows, whole, with_counters, details)

    yield from layout.section(title, table(shown, whole))
    if elsewhere:
        about = f"Paths without a counter (counts of {measurement.guide}, not of this run)"
        yield from layout.section(about, table(elsewhere, 0))
    if notes := list(_mark_notes(every)):
        yield from [layout.paragraph(""), *map(layout.paragraph, notes)]


def _mark_notes(paths: Sequence[PathCount]) -> Iterator[str]:
    if any(path.collapsed for path in paths):
        yield f"{AROUND} the iterations of loops inside are on paths of their own"
    if any(path.shortened for path in paths):
        yield f"{OF_LONGER} part of longer paths that the scheme splits; its count includes them"


def _paths(
    measurement: RunMeasurement,
    shown: Sequence[ExecutedPath],
    whole: int,
    with_counters: bool,
    details: bool,
) -> layout.Table:
    """List paths as source lines where these are known, else as blocks; with details as both.

    `whole`: the instructions that shares are of; 0: the counts are another run's.
    """
    known = [tables.path_lines(each.path, measurement) for each in shown]
    files = display.ShortNames(line.file for route in known for line in route)
    heading = "source lines" if all(known) else "blocks"
    if any(known) and not all(known):
        heading = "source lines, or blocks"
    titles = ["share"] * bool(whole) + ["executions", "instructions per path"]
    table = layout.columns(
        *map(layout.number, [*titles, "path"] if details else titles),
        *([layout.text("counted by")] if with_counters else []),
        layout.name("routine"),
        layout.text("blocks, source lines" if details else heading),
    )
    names, brief = names_of([each.routine for each in shown]), not details
    for each, name, route in zip(shown, names, known, strict=True):
        path = each.path
        named = "partial" if path.partial else display.identifier(path.id)
        lines, blocks = files.route(route, brief=brief), blocks_text(path, brief=brief)
        both = blocks + (f"\n{lines}" if lines else "")
        table.add_row(
            *([display.percent(each.flow, whole)] if whole else []),
            path.count,
            path.instructions,
            *(["-" if isinstance(path, tables.LoopIterations) else named] if details else []),
            *([counted_by(path, measurement)] if with_counters else []),
            name,
            (both if details else lines or blocks) + each.remark,
        )
    return table


def blocks_text(path: PathCount, *, brief: bool = False) -> str:
    """Return "BLOCK > BLOCK > ...", slot blocks and collapsed loops named as such."""
    return display.route_text([*map(str, tables.path_blocks(path))], brief=brief)


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
    names = names_of([routine for _, routine, _ in shown])
    for (count, _, edge), name, line in zip(shown, names, lines, strict=True):
        more = (str(edge.kind), "yes" if edge.instrumented else "-") if details else ()
        ends = f"{edge.source} > {edge.target}"
        table.add_row(count, name, ends, *more, *line)
    return table


def _told_blocks(routine: RoutineProfile) -> Iterator[tuple[int, VertexName]]:
    untold = {block.name for block in routine.block_counts if not block.told}
    counts = tables.block_counts(routine).items()
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
    names = names_of([routine for _, routine, _ in shown])
    for (count, _, block), name, line in zip(shown, names, lines, strict=True):
        table.add_row(count, name, str(block), *line)
    return table


def _line_columns(measurement: RunMeasurement) -> list[layout.Column]:
    """Return the column of source lines; none where no line is known of the whole profile."""
    return [layout.text("source line")] if measurement.lines else []


def _line_cells(
    rows: Sequence[Sequence[VertexName]], measurement: RunMeasurement
) -> list[tuple[str, ...]]:
    """Return the cell of that column for each row: the first known line of its vertices."""
    found = [tables.known_line(measurement, *row) for row in rows]
    files = display.ShortNames(line.file for line in found if line is not None)
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
    return with_mark(display.known_as(routine.name, routine.alias), routine.name)


def names_of(routines: Sequence[RoutineProfile]) -> list[str]:
    """Return what the rows of a table call their routines, helpers marked.

    C++ functions have their qualified names alone, unless two of them have the same.
    """
    plain = {
        each.address: plain_name(display.readable(each.name))
        for each in routines
        if each.alias is None
    }
    alike = Counter(plain.values())
    return [
        with_mark(name, each.name) if name and alike[name] == 1 else marked(each)
        for each in routines
        for name in [plain.get(each.address, "")]
    ]


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
