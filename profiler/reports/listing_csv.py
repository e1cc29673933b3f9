"""A listing as CSV: one line of names, one line a row. Addresses are hexadecimal."""

from __future__ import annotations

import csv
from io import StringIO

from profiler.profiles.codec import big_integers
from profiler.reports.listings import Listing, Value


def render(listing: Listing) -> str:
    """Return the CSV."""
    target = StringIO()
    writer = csv.writer(target, lineterminator="\n")
    names = [field.name for field in listing.fields]
    with big_integers():
        writer.writerow(names)
        for row in listing.rows:
            writer.writerow(_cell(name, value) for name, value in zip(names, row, strict=True))
    return target.getvalue()


def _cell(name: str, value: Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case int() if name == "address":
            return f"{value:#x}"
    return str(value)
