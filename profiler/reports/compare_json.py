"""A comparison of schemes as JSON: schema `simprof/compare/2` (docs/SEMANTICS.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from simprof.profiler.profiles.codec import big_integers
from simprof.profiler.reports.mode_facts import NamedMeasurement
from simprof.profiler.reports.run_json import (
    ending_object,
    program_object,
    refused_call_objects,
    summary_object,
)

SCHEMA = "simprof/compare/2"


def render(rows: Sequence[NamedMeasurement], emulations: int, whole: int) -> str:
    """Return the comparison as one line of JSON; parameters as those of `to_compare_object`."""
    with big_integers():
        return json.dumps(to_compare_object(rows, emulations, whole)) + "\n"


def to_compare_object(
    rows: Sequence[NamedMeasurement], emulations: int, whole: int
) -> dict[str, object]:
    """Return the comparison as Python values.

    Parameters
    ----------
    rows
        At least one; all of the same run.
    emulations, whole
        How often the program was emulated, and how many of these runs were whole.
    """
    _, first = rows[0]
    return {
        "schema": SCHEMA,
        "program": program_object(first.program),
        "exit": ending_object(first.ending),
        "partial": first.partial,
        "instructions": {"base": first.base},
        "emulations": emulations,
        "whole_emulations": whole,
        "refused_calls": refused_call_objects(first),
        "modes": {name: summary_object(measurement) for name, measurement in rows},
    }
