"""A listing as a table for people."""

from __future__ import annotations

from profiler.reports.display import visible
from profiler.reports.layout import Column, Kind
from profiler.reports.listings import Field, Listing, Value
from profiler.reports.numbers import digits, plural
from profiler.reports.tables import Part, Table, paragraph, print_parts
from profiler.reports.text import program_text

SHOWN = 12
"""Blocks, and lines, of a long path."""


def render(listing: Listing, width: int = 100, color: bool = False) -> str:
    """Return the table, under what it is of."""
    run = listing.measurement
    parts: list[Part] = [paragraph(f"{program_text(run)}, mode {run.mode}", style="bold")]
    if not listing.rows:
        parts.append(paragraph(f"no {listing.subject} to show"))
        return print_parts(parts, width, color)
    fields = [each for each in listing.fields if each.title and _says_something(listing, each)]
    table = Table(tuple(Column(each.title, each.kind) for each in fields))
    places = [listing.fields.index(each) for each in fields]
    for row in listing.rows:
        table.add_row(*(_cell(each, row[at]) for each, at in zip(fields, places, strict=True)))
    parts.append(table)
    if listing.left_out:
        more = plural(listing.left_out, listing.subject.removesuffix("s"))
        parts.append(paragraph(f"and {more} more: --top says how many are shown"))
    return print_parts(parts, width, color)


def _says_something(listing: Listing, field: Field) -> bool:
    at = listing.fields.index(field)
    return any(row[at] not in (None, "") for row in listing.rows)


def _cell(field: Field, value: Value) -> int | str:
    if field.shown is not None:
        return field.shown(value)
    if isinstance(value, int):
        return value if field.name == "potential_paths" else digits(value)
    text = "-" if value is None else visible(str(value))
    return _shortened(text) if field.kind is Kind.TEXT else text


def _shortened(text: str) -> str:
    parts = text.split(" > ")
    if len(parts) <= SHOWN:
        return text
    head = SHOWN - 4
    return " > ".join([*parts[:head], f"({len(parts) - head - 3} more)", *parts[-3:]])
