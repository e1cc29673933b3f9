"""A listing as CSV."""

from __future__ import annotations

from simprof.profiler.reports import csv_text
from simprof.profiler.reports.listings import Listing, plain


def render(listing: Listing) -> str:
    """Return the CSV: a row of names, then the listing's rows."""
    return csv_text.render(
        [field.name for field in listing.fields], (map(plain, row) for row in listing.rows)
    )
