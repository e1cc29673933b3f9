"""Rows of a profile's tables (`profiles.tables`): chosen, sorted, and shown in three forms.

The table for people has some of the columns, under titles of their own; CSV and JSON (formats
`simprof/routines`, `simprof/edges`, `simprof/paths`) have them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from simprof.profiler.profiles import csv_text, tables
from simprof.profiler.profiles.codec import json_line
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement
from simprof.profiler.reports import display, mode_facts
from simprof.profiler.reports import tables as layout
from simprof.profiler.reports.hot_tables import with_mark
from simprof.profiler.reports.run_json import measurement_head
from simprof.profiler.reports.run_text import helper_note, program_text
from simprof.simulator.binary.demangling import MANGLED, base_names, spellings
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError


class Field(NamedTuple):
    """A column of the table for people: its name in files and for `--sort`, and its title.

    `shown` makes what people read of a value; None: the value itself.
    """

    name: str
    title: str
    kind: layout.CellAlignment
    shown: Callable[[tables.Value], int | str] | None = None


class Listing(Struct, frozen=True):
    """Rows of one of a profile's tables; `left_out`: how many rows `--top` has cut off."""

    measurement: RunMeasurement
    table: tables.ProfileTable
    left_out: int = 0

    @property
    def subject(self) -> str:
        """The name of the table."""
        return self.table.name


class RowChoice(Struct, frozen=True):
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
        wanted = not self.routines or is_called(routine, self.routines)
        return wanted and not is_called(routine, self.exclude)

    def takes_lines(self, lines: Iterable[SourceLine]) -> bool:
        """Whether code of these lines is wanted."""
        names = ({line.file, PurePath(line.file).name} for line in lines)
        return not self.files or any(matches(each, self.files) for each in names)


def names_of(routine: RoutineProfile) -> set[str]:
    """Return the names by which a routine is asked for: of a module's also those without it."""
    return {*spellings(routine.name), *spellings(routine.alias or routine.name)}


def is_called(routine: RoutineProfile, globs: Collection[str]) -> bool:
    """Whether a pattern matches a name of a routine, or is one without the scopes of C++."""
    return matches(names_of(routine), globs) or not base_names(routine.name).isdisjoint(globs)


def matches(names: Iterable[str], globs: Iterable[str]) -> bool:
    """Whether any of the names matches any of the patterns."""
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def _percent(value: tables.Value) -> str:
    return f"{100 * value:.2f} %" if isinstance(value, float) else "-"


def _yes(value: tables.Value) -> str:
    return "yes" if value else "-"


def _path(value: tables.Value) -> str:
    return display.identifier(value) if isinstance(value, int) else "-"


NUMBER, NAME, TEXT = (
    layout.CellAlignment.NUMBER,
    layout.CellAlignment.NAME,
    layout.CellAlignment.TEXT,
)

# The heading of the listing says that added and executed are instructions: in a line of 96 there is
# no room for more.
ROUTINES = (
    Field("added", "added", NUMBER),
    Field("instructions", "instructions", NUMBER),
    Field("overhead", "overhead", NUMBER, _percent),
    Field("entered", "times entered", NUMBER),
    Field("executed_paths", "paths", NUMBER),
    # Paths of k iterations are more than the graph has
    Field("numbered_paths", "numbered paths", NUMBER),
    Field("routine_address", "address", NUMBER),
    Field("routine", "routine", NAME),
    Field("line", "source line", TEXT),
)
EDGES = (
    Field("executions", "executions", NUMBER),
    Field("added", "added instructions", NUMBER),
    Field("routine", "routine", NAME),
    Field("source", "from", TEXT),
    Field("target", "to", TEXT),
    Field("kind", "kind", TEXT),
    Field("instrumented", "counter", TEXT, _yes),
    Field("line", "source line", TEXT),
)
PATHS = (
    Field("instructions", "instructions", NUMBER),
    Field("share", "share", NUMBER, _percent),
    Field("executions", "executions", NUMBER),
    Field("instructions_per_execution", "instructions per path", NUMBER),
    Field("path", "path", NUMBER, _path),
    Field("routine", "routine", NAME),
    Field("partial", "partial", TEXT, _yes),
    Field("blocks", "blocks", TEXT),
    Field("lines", "source lines", TEXT),
    Field("inferred_from", "inferred from", TEXT),
)
FIELDS = MappingProxyType({"routines": ROUTINES, "edges": EDGES, "paths": PATHS})


def field_name(subject: str, column: str) -> str | None:
    """Return the name of the column that a name or title means, None without one."""
    names = {field.title: field.name for field in FIELDS[subject]}
    names |= {each.name: each.name for each in tables.COLUMNS[subject]}
    return names.get(column)


def check_matches(measurement: RunMeasurement, choice: RowChoice) -> None:
    """Check that every pattern for routines and files matches one; UsageError if one does not."""
    names = {name for routine in measurement.routines for name in names_of(routine)}
    bases = {base for routine in measurement.routines for base in base_names(routine.name)}
    for pattern in choice.routines:
        if not matches(names, (pattern,)) and pattern not in bases:
            shown = {name for name in names if not name.startswith(MANGLED)}
            raise _no_match(f"--routine {pattern}", "routine", shown, pattern)
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


# Table -> the column that `RowChoice.least` is about, and those that it is sorted by
LEAST_AND_ORDER: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "routines": ("entered", ("added", "instructions")),
        "edges": ("executions", ("executions",)),
        # What an edge profile of another run determines executes nothing in this run, as far as is
        # known: it comes last.
        "paths": ("executions", ("instructions",)),
        "blocks": ("executions", ("executions",)),
    }
)


def listing(subject: str, measurement: RunMeasurement, choice: RowChoice) -> Listing:
    """List the rows of a table that are wanted, the largest numbers first."""
    count, default = LEAST_AND_ORDER[subject]
    at = places(subject)

    def is_wanted(row: tables.Row) -> bool:
        executions: Any = row[at[count]]
        return executions >= choice.least and choice.takes_lines(_lines(row, at))

    rows = [
        row
        for routine in measurement.routines
        if choice.takes_routine(routine)
        for row in tables.routine_rows(measurement, routine, subject)
        if is_wanted(row)
    ]
    for name in reversed([choice.sort] if choice.sort else default):
        rows = _sorted(rows, tables.COLUMNS[subject][at[name]], at, choice.ascending)
    shown = rows[: choice.top]
    table = tables.ProfileTable(subject, tables.COLUMNS[subject], tuple(shown))
    return Listing(measurement, table, len(rows) - len(shown))


@cache
def places(subject: str) -> Mapping[str, int]:
    """Return where the columns of a table are in its rows, by name."""
    return MappingProxyType({each.name: at for at, each in enumerate(tables.COLUMNS[subject])})


def _lines(row: tables.Row, at: Mapping[str, int]) -> tuple[SourceLine, ...]:
    """Return the source lines of a row, as far as they are known."""
    if "lines" in at:
        lines: Any = row[at["lines"]]
        return lines or ()
    file, line = row[at["file"]], row[at["line"]]
    return (SourceLine(file, line),) if isinstance(file, str) and isinstance(line, int) else ()


def _sorted(
    rows: Sequence[tables.Row],
    column: tables.DataColumn,
    at: Mapping[str, int],
    ascending: bool | None,
) -> list[tables.Row]:
    """Sort by one column, rows that are alike in it as they stand; what is unknown comes last."""
    place = at[column.name]
    known = [row for row in rows if row[place] is not None]
    unknown = [row for row in rows if row[place] is None]
    # The number of a line means nothing without its file.
    by_line = column.name in ("line", "lines")
    if ascending is None:
        ascending = by_line or any(
            isinstance(tables.cell(column, row[place]), str) for row in known
        )

    def key(row: tables.Row) -> Any:
        if by_line:
            return [(line.file, line.line) for line in _lines(row, at)]
        return tables.cell(column, row[place])

    return sorted(known, key=key, reverse=not ascending) + unknown


def render_csv(listing: Listing) -> str:
    """Return the CSV: a row of names, then the listing's rows."""
    return csv_text.render([column.name for column in listing.table.columns], listing.table.cells())


def render_json(listing: Listing) -> str:
    """Return one line of JSON: what the rows are of, and an object for each."""
    answer = {
        **measurement_head(listing.subject, listing.measurement),
        "left_out": listing.left_out,
        listing.subject: list(listing.table.objects()),
    }
    return json_line(answer)


OF_ADDED = ("added", "overhead", "instrumented")  # Fields that need a mode which adds code


def render_text(listing: Listing, width: int = 100, color: bool = False) -> str:
    """Return the table, under what it is of."""
    run = listing.measurement
    unit = ": instructions by routine" if listing.subject == "routines" else ""
    about = f"{program_text(run)}, mode {mode_facts.setting_name(run)}{unit}"
    parts: list[layout.Part] = [layout.paragraph(about, style="bold")]
    rows = listing.table.rows
    if not rows:
        parts.append(layout.paragraph(f"no {listing.subject} to show"))
        return layout.print_parts(parts, width, color)
    at = places(listing.subject)
    fields = [
        each
        for each in FIELDS[listing.subject]
        if any(row[at[each.name]] is not None for row in rows)
        and (each.name not in OF_ADDED or mode_facts.instruments(run))
    ]
    table = layout.Table(tuple(layout.Column(each.title, each.kind) for each in fields))
    files = display.ShortNames(line.file for row in rows for line in _lines(row, at))
    for row in rows:
        table.add_row(*(_shown(each, listing, row, files) for each in fields))
    parts.append(table)
    if listing.left_out:
        more = display.plural(listing.left_out, listing.subject.removesuffix("s"))
        parts.append(layout.paragraph(f"and {more} more: --top says how many are shown"))
    parts += helper_note(parts)
    if "inferred_from" in [each.name for each in fields] and run.guide and not run.guide.same_run:
        whose = "are those of the run that made it, not of this one."
        parts += [layout.BLANK, layout.paragraph(f"Counts inferred from {run.guide} {whose}")]
    return layout.print_parts(parts, width, color)


def _shown(field: Field, listing: Listing, row: tables.Row, files: display.ShortNames) -> int | str:
    at = places(listing.subject)
    value = row[at[field.name]]
    if field.name in ("line", "lines"):
        return files.route(_lines(row, at))
    if field.name == "routine":
        return display.visible(with_mark(str(value), str(row[at["symbol"]])))
    if field.shown is not None:
        return field.shown(value)
    plain = tables.cell(listing.table.columns[at[field.name]], value)
    if isinstance(plain, int):
        return plain if field.name == "numbered_paths" else display.digits(plain)
    text = "-" if plain is None else display.visible(str(plain))
    if field.name == "blocks":
        text = " ".join([text, *tables.loop_marks(row[at["start"]], row[at["end"]])])
    return (
        tables.SEPARATOR.join(display.shorten_list(text.split(tables.SEPARATOR)))
        if field.kind is TEXT
        else text
    )
