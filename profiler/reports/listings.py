"""Routines, edges and paths of a profile as rows: chosen, sorted, and shown in three forms.

A *listing* has columns with plain names and rows of plain values, so that the table for people,
CSV and JSON (schemas `simprof/routines/1`, `simprof/edges/1`, `simprof/paths/1`) say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.code_counts import edge_address
from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.profiles.profile import PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import executed_paths
from simprof.profiler.reports import csv_text, mode_facts
from simprof.profiler.reports.display import (
    ShortNames,
    digits,
    identifier,
    plural,
    shorten_list,
    visible,
)
from simprof.profiler.reports.hot_tables import with_mark
from simprof.profiler.reports.run_json import program_object
from simprof.profiler.reports.run_text import helper_note, program_text
from simprof.profiler.reports.tables import (
    BLANK,
    CellAlignment,
    Column,
    Part,
    Table,
    paragraph,
    print_parts,
)
from simprof.simulator.binary.demangling import demangle
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError


class Route(NamedTuple):
    """Source lines one after the other; as a text: with the whole paths of their files."""

    lines: tuple[SourceLine, ...]

    def __str__(self) -> str:
        return lines_text(self.lines)


Value = int | str | float | bool | Route | None


class Field(NamedTuple):
    """A column: its name in CSV, JSON and `--sort`, its title for people, and how it is shown.

    `shown` makes what people read of a value; None: the value itself. A field without a title is
    not in the table for people.
    """

    name: str
    title: str
    kind: CellAlignment
    shown: Callable[[Value], int | str] | None = None


@dataclass(frozen=True)
class Listing:
    """Rows of values by field; `left_out`: how many rows `--top` has cut off."""

    subject: str
    measurement: RunMeasurement
    fields: tuple[Field, ...]
    rows: tuple[tuple[Value, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class RowChoice:
    """Which rows are wanted, and in which order."""

    # routines, exclude: Globs for names of routines: only such, none such.
    routines: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # Globs for source files: their path, or its last component.
    least: int = 0  # The smallest count
    sort: str | None = None  # Name of a field; None: as the listing says.
    # Whether the smallest comes first; None: texts ascending, numbers descending.
    ascending: bool | None = None
    top: int | None = None  # How many rows; None: all.

    def takes_routine(self, routine: RoutineProfile) -> bool:
        """Whether a routine is wanted."""
        names = names_of(routine)
        wanted = not self.routines or matches(names, self.routines)
        return wanted and not matches(names, self.exclude)

    def takes_lines(self, lines: Iterable[SourceLine]) -> bool:
        """Whether code of these lines is wanted."""
        if not self.files:
            return True
        return any(matches({line.file, PurePath(line.file).name}, self.files) for line in lines)


def names_of(routine: RoutineProfile) -> set[str]:
    """Return the names by which a routine is asked for: of a module's also those without it."""
    symbols = {routine.name, routine.name.rpartition(":")[2], routine.alias or routine.name}
    return symbols | {demangle(name) for name in symbols}


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Whether any of the names matches any of the patterns."""
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def _address(value: Value) -> str:
    return f"{value:x}" if isinstance(value, int) else ""


def _percent(value: Value) -> str:
    return f"{100 * value:.2f} %" if isinstance(value, float) else "-"


def _yes(value: Value) -> str:
    return "yes" if value else "-"


def _path(value: Value) -> str:
    return identifier(value) if isinstance(value, int) else "-"


NUMBER, NAME, TEXT = CellAlignment.NUMBER, CellAlignment.NAME, CellAlignment.TEXT

ROUTINES = (
    Field("added", "added", NUMBER),
    Field("instructions", "instructions", NUMBER),
    Field("overhead", "overhead", NUMBER, _percent),
    Field("activations", "entered", NUMBER),
    Field("executed_paths", "paths", NUMBER),
    Field("potential_paths", "of", NUMBER),
    Field("blocks", "", NUMBER),
    Field("edges", "", NUMBER),
    Field("address", "address", NUMBER, _address),
    Field("routine", "routine", NAME),
    Field("symbol", "", NAME),
    Field("file", "", TEXT),
    Field("line", "", NUMBER),
    Field("place", "source line", TEXT),
)
EDGES = (
    Field("count", "count", NUMBER),
    Field("added", "added", NUMBER),
    Field("routine", "routine", NAME),
    Field("symbol", "", NAME),
    Field("source", "from", TEXT),
    Field("target", "to", TEXT),
    Field("kind", "kind", TEXT),
    Field("instrumented", "counter", TEXT, _yes),
    Field("address", "", NUMBER, _address),
    Field("file", "", TEXT),
    Field("line", "", NUMBER),
    Field("place", "source line", TEXT),
)
PATHS = (
    Field("flow", "instructions", NUMBER),
    Field("share", "share", NUMBER, _percent),
    Field("count", "count", NUMBER),
    Field("length", "length", NUMBER),
    Field("path", "path", NUMBER, _path),
    Field("routine", "routine", NAME),
    Field("symbol", "", NAME),
    Field("partial", "partial", TEXT, _yes),
    Field("blocks", "blocks", TEXT),
    Field("lines", "source lines", TEXT),
    Field("inferred", "", TEXT),
    Field("inferred_from", "inferred from", TEXT),
    Field("shortened", "", TEXT),
)
FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {"routines": ROUTINES, "edges": EDGES, "paths": PATHS}
)


def field_name(subject: str, column: str) -> str | None:
    """Return the name of the field that a column's name or title means, None without one."""
    fields = FIELDS[subject]
    names = [field.name for field in fields]
    return column if column in names else {f.title: f.name for f in fields if f.title}.get(column)


def check_matches(measurement: RunMeasurement, choice: RowChoice) -> None:
    """Check that every pattern for routines and files matches one of the profile.

    Raises
    ------
    UsageError
        If one matches none.
    """
    names = {name for routine in measurement.routines for name in names_of(routine)}
    for pattern in choice.routines:
        if not matches(names, (pattern,)):
            raise _no_match(f"--routine {pattern}", "routine", names, pattern)
    files = {line.file for line in measurement.lines.values()}
    lasts = {PurePath(file).name for file in files}
    for pattern in choice.files:
        if not matches(files | lasts, (pattern,)):
            raise _no_match(f"--file {pattern}", "source file", lasts, pattern)


def _no_match(option: str, what: str, names: Iterable[str], pattern: str) -> UsageError:
    from simprof.profiler.recovery.selection import (
        did_you_mean,
        likely_names,  # which only refusals need
    )

    meant = did_you_mean(likely_names(sorted(names), pattern))
    return UsageError(
        f"{option}: no {what} of the profile matches:{meant} `simprof show PROFILE routines` lists "
        "them all"
    )


def routines(measurement: RunMeasurement, choice: RowChoice) -> Listing:
    """List routines, those where the scheme's code executes most first.

    `least` is about activations.
    """
    rows = []
    for routine in _chosen(measurement, choice):
        line = measurement.lines.get(routine.address)
        if routine.activations < choice.least or not choice.takes_lines(filter(None, (line,))):
            continue
        overhead = routine.added / routine.instructions if routine.instructions else None
        executed = executed_paths(measurement, routine)
        rows.append(
            (
                routine.added,
                routine.instructions,
                overhead,
                routine.activations,
                executed,
                routine.potential_paths,
                routine.blocks,
                routine.edges,
                routine.address,
                *_names(routine),
                *_place(line),
            )
        )
    return _listing("routines", measurement, rows, choice, ("added", "instructions"))


def edges(measurement: RunMeasurement, choice: RowChoice) -> Listing:
    """List edges, those crossed most often first; their line is that of their last instruction."""
    rows: list[tuple[Value, ...]] = []
    for routine in _chosen(measurement, choice):
        blocks = {block.name: block for block in routine.block_counts}
        for edge in routine.edge_counts:
            line = _edge_line(measurement, edge.target, edge.source)
            if edge.count < choice.least or not choice.takes_lines(filter(None, (line,))):
                continue
            rows.append(
                (
                    edge.count,
                    edge.added,
                    *_names(routine),
                    edge.source.text(""),
                    edge.target.text(""),
                    str(edge.kind),
                    edge.instrumented,
                    edge_address(routine, edge, blocks),
                    *_place(line),
                )
            )
    return _listing("edges", measurement, rows, choice, ("count",))


def paths(measurement: RunMeasurement, choice: RowChoice) -> Listing:
    """List executed paths, those that execute most instructions first.

    What an edge profile of another run determines executes nothing in this run, as far as is known:
    it comes last.
    """
    rows: list[tuple[Value, ...]] = []
    for routine in _chosen(measurement, choice):
        for path in routine.path_counts:
            lines = path_lines(path, measurement)
            if path.count < choice.least or not choice.takes_lines(lines):
                continue
            of_another_run = measurement.is_of_another_run(path)
            flow = None if of_another_run else path.count * path.instructions
            rows.append(
                (
                    flow,
                    flow / measurement.base if measurement.base and flow is not None else None,
                    path.count,
                    path.instructions,
                    path.id,
                    *_names(routine),
                    path.partial,
                    " > ".join(path_blocks(path)),
                    Route(tuple(lines)) if lines else "",
                    path.inferred,
                    str(measurement.guide) if path.inferred else None,
                    path.shortened,
                )
            )
    return _listing("paths", measurement, rows, choice, ("flow",))


def path_blocks(path: PathCount) -> list[str]:
    """Return the names of a path's blocks."""
    slots = set(path.slots)
    return [VertexName(start, at in slots).text("") for at, start in enumerate(path.blocks)]


def path_lines(path: PathCount, measurement: RunMeasurement) -> list[SourceLine]:
    """Return the source lines of a path's blocks, as far as they are known, repeats left out."""
    places = (
        measurement.lines.get(start) if isinstance(start, int) else None for start in path.blocks
    )
    return [place for place, _ in groupby(places) if place is not None]


def lines_text(lines: Iterable[SourceLine]) -> str:
    """Return "FILE:LINE > LINE > ..."; a file is named where it is another than before."""
    parts, file = [], None
    for line in lines:
        parts.append(f"{line.line}" if line.file == file else f"{line.file}:{line.line}")
        file = line.file
    return " > ".join(parts)


def plain(value: Value) -> Any:
    """Return a value as CSV and JSON have it."""
    return str(value) if isinstance(value, Route) else value


def _chosen(measurement: RunMeasurement, choice: RowChoice) -> Iterator[RoutineProfile]:
    return (each for each in measurement.routines if choice.takes_routine(each))


def _names(routine: RoutineProfile) -> tuple[str, str]:
    """Return a routine's readable name and its symbol."""
    return demangle(routine.name), routine.name


def _place(line: SourceLine | None) -> tuple[str | None, int | None, Route | str]:
    return (None, None, "") if line is None else (line.file, line.line, Route((line,)))


def _edge_line(measurement: RunMeasurement, *vertices: VertexName) -> SourceLine | None:
    starts = (vertex.start for vertex in vertices if isinstance(vertex.start, int))
    return next(filter(None, map(measurement.lines.get, starts)), None)


def _listing(
    subject: str,
    measurement: RunMeasurement,
    rows: Sequence[tuple[Value, ...]],
    choice: RowChoice,
    default: tuple[str, ...],
) -> Listing:
    fields = FIELDS[subject]
    names = [field.name for field in fields]
    keys = [names.index(name) for name in ([choice.sort] if choice.sort else default)]
    ordered = list(rows)
    for key in reversed(keys):
        ordered = _sorted(ordered, key, choice.ascending)
    shown = ordered if choice.top is None else ordered[: choice.top]
    return Listing(subject, measurement, fields, tuple(shown), len(rows) - len(shown))


def _sorted(
    rows: Sequence[tuple[Value, ...]], key: int, ascending: bool | None
) -> list[tuple[Value, ...]]:
    """Sort by one field, rows that are alike in it as they stand; what is unknown comes last."""
    known = [row for row in rows if row[key] not in (None, "")]
    unknown = [row for row in rows if row[key] in (None, "")]
    if ascending is None:
        ascending = any(isinstance(plain(row[key]), str) for row in known)
    return sorted(known, key=lambda row: _order(row[key]), reverse=not ascending) + unknown


def _order(value: Value) -> Any:
    """Return what a value is sorted by: source lines by file and number."""
    if isinstance(value, Route):
        return [(line.file, line.line) for line in value.lines]
    return value


def render_csv(listing: Listing) -> str:
    """Return the CSV: a row of names, then the listing's rows."""
    return csv_text.render(
        [field.name for field in listing.fields], (map(plain, row) for row in listing.rows)
    )


def render_json(listing: Listing) -> str:
    """Return one line of JSON: what the rows are of, and an object for each."""
    names = [field.name for field in listing.fields]
    answer = {
        "schema": f"simprof/{listing.subject}/1",
        "program": program_object(listing.measurement.program),
        "mode": listing.measurement.mode,
        "left_out": listing.left_out,
        listing.subject: [dict(zip(names, map(plain, row), strict=True)) for row in listing.rows],
    }
    with big_integers():
        return json.dumps(answer) + "\n"


OF_ADDED = ("added", "overhead", "instrumented")
"""Fields that say nothing where the mode adds no code."""


def render_text(listing: Listing, width: int = 100, color: bool = False) -> str:
    """Return the table, under what it is of."""
    run = listing.measurement
    parts: list[Part] = [paragraph(f"{program_text(run)}, mode {run.mode}", style="bold")]
    if not listing.rows:
        parts.append(paragraph(f"no {listing.subject} to show"))
        return print_parts(parts, width, color)
    fields = [each for each in listing.fields if each.title and _says_something(listing, each)]
    if not mode_facts.instruments(run):
        fields = [each for each in fields if each.name not in OF_ADDED]
    table = Table(tuple(Column(each.title, each.kind) for each in fields))
    places = [listing.fields.index(each) for each in fields]
    routes = [value for row in listing.rows for value in row if isinstance(value, Route)]
    files = ShortNames(line.file for route in routes for line in route.lines)
    for row in listing.rows:
        marked = _helper_marked(listing, row)
        cells = (_cell(each, marked[at], files) for each, at in zip(fields, places, strict=True))
        table.add_row(*cells)
    parts.append(table)
    if listing.left_out:
        more = plural(listing.left_out, listing.subject.removesuffix("s"))
        parts.append(paragraph(f"and {more} more: --top says how many are shown"))
    parts += helper_note(parts)
    if "inferred_from" in [each.name for each in fields] and run.guide and not run.guide.same_run:
        note = (
            f"Counts inferred from {run.guide} are those of the run that made it, not of this one."
        )
        parts += [BLANK, paragraph(note)]
    return print_parts(parts, width, color)


def _helper_marked(listing: Listing, row: tuple[Value, ...]) -> list[Value]:
    """Return a row whose routine has its mark if it is a helper."""
    names = [each.name for each in listing.fields]
    at, symbol = names.index("routine"), names.index("symbol")
    name = with_mark(str(row[at]), str(row[symbol]))
    return [*row[:at], name, *row[at + 1 :]]


def _says_something(listing: Listing, field: Field) -> bool:
    at = listing.fields.index(field)
    return any(row[at] not in (None, "") for row in listing.rows)


def _cell(field: Field, value: Value, files: ShortNames) -> int | str:
    if isinstance(value, Route):
        return files.route(value.lines)
    if field.shown is not None:
        return field.shown(value)
    if isinstance(value, int):
        return value if field.name == "potential_paths" else digits(value)
    text = "-" if value is None else visible(str(value))
    return _shortened(text) if field.kind is CellAlignment.TEXT else text


def _shortened(text: str) -> str:
    return " > ".join(shorten_list(text.split(" > ")))
