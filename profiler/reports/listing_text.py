"""A listing as a table for people."""

from __future__ import annotations

from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.answer_text import helper_note
from simprof.profiler.reports.code_kinds import with_mark
from simprof.profiler.reports.display import visible
from simprof.profiler.reports.layout import Column, Kind
from simprof.profiler.reports.listings import Field, Listing, Route, Value
from simprof.profiler.reports.numbers import digits, plural
from simprof.profiler.reports.routes import ShortNames, shorten
from simprof.profiler.reports.tables import BLANK, Part, Table, paragraph, print_parts
from simprof.profiler.reports.text import program_text

OF_ADDED = ("added", "overhead", "instrumented")
"""Fields that say nothing where the mode adds no code."""


def render(listing: Listing, width: int = 100, color: bool = False) -> str:
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
    return _shortened(text) if field.kind is Kind.TEXT else text


def _shortened(text: str) -> str:
    return " > ".join(shorten(text.split(" > ")))
