"""Shared by tests: what `tests/end_to_end/test_replay.py` and others use."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.schemes import registry
from simprof.profiler.session.session import compare_program

PROGRAMS = {
    "calls": ("7",),
    "control": (),
    "deep": ("200",),
    "faults": (),
    "floats": (),
    "manypaths": (),
    "nonlocal": (),
    "pointers": (),
    "records": (),
    "sieve": ("1",),
    "signals": (),
    "switches": (),
    "tailcalls": (),
    "words": (),
}

TABLES = (TableChoice.AUTO, TableChoice.HASH)

HOW_MADE = ("runs", "whole_runs")


def settings() -> list[Setting]:
    """Every mode, with arrays and hash tables of paths."""
    return [
        Setting(f"{mode} {table}", mode, SchemeOptions(table=table))
        for mode in registry.modes()
        for table in TABLES
        if table is TableChoice.AUTO or registry.definition(mode).counts_paths
    ]


def measured(
    request: RunRequest, settings: Sequence[Setting], jobs: int = 1
) -> list[RunMeasurement]:
    """What the settings measure, without how many emulations that took."""
    return [
        replace(each, counts={k: v for k, v in each.counts.items() if k not in HOW_MADE})
        for each in compare_program(request, settings, jobs=jobs).measurements
    ]
