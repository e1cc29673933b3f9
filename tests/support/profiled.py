"""Committed programs run once, as values: for tests of what is made of profiles."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.session import compare_program


def measure(path: Path, mode: str) -> RunMeasurement:
    """Return what one mode measures of a program that reads nothing."""
    return measure_all(path, (mode,))[0]


def measure_all(path: Path, modes: Sequence[str]) -> tuple[RunMeasurement, ...]:
    """Return what several modes measure."""
    return _measured(path, tuple(modes))


@cache
def _measured(path: Path, modes: tuple[str, ...]) -> tuple[RunMeasurement, ...]:
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        guest = GuestOptions(Path(), stdin=Path(os.devnull), stdout=nothing, stderr=nothing)
        settings = [Setting(mode, mode, SchemeOptions()) for mode in modes]
        return compare_program(RunRequest(path, guest), settings).measurements
    finally:
        os.close(nothing)
