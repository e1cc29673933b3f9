"""How two profiles differ, as JSON: schema `simprof/diff/1`."""

from __future__ import annotations

import json

from simprof.profiler.profiles.codec import big_integers, encode
from simprof.profiler.profiles.differences import Difference
from simprof.profiler.profiles.profile import Measurement
from simprof.profiler.reports.run_json import program_object


def render(difference: Difference) -> str:
    """Return one line of JSON; numbers are pairs, before and after."""
    before, after = difference.before, difference.after
    answer = {
        "schema": "simprof/diff/1",
        "before": _run(before),
        "after": _run(after),
        "same_program": difference.same_program,
        "instructions": {
            "base": [before.base, after.base],
            "added": [before.added, after.added],
        },
        "routines": encode(difference.routines),
        "edges": encode(difference.edges),
        "paths": encode(difference.paths),
    }
    with big_integers():
        return json.dumps(answer) + "\n"


def _run(measurement: Measurement) -> dict[str, object]:
    return {"program": program_object(measurement.program), "mode": measurement.mode}
