"""A listing as JSON: schema `simprof/routines/1`, `simprof/edges/1` or `simprof/paths/1`."""

from __future__ import annotations

import json

from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.reports.listings import Listing, plain
from simprof.profiler.reports.run_json import program_object


def render(listing: Listing) -> str:
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
