"""The user is told how many routines are measured, of how many."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from simprof.profiler.request.request import (
    GuestOptions,
    Phase,
    Progress,
    RunRequest,
    SchemeOptions,
    Setting,
)
from simprof.profiler.session.results import BETWEEN_TELLINGS
from simprof.profiler.session.session import compare_program


def test_measuring_is_told_of_routine_by_routine(fixture_elf: Callable[..., Path]) -> None:
    told: list[Progress] = []
    null = os.open(os.devnull, os.O_RDWR)
    try:
        guest = GuestOptions(root=Path("/"), stdin=Path(os.devnull), stdout=null, stderr=null)
        request = RunRequest(fixture_elf("bench"), guest, progress=told.append)
        (measurement,) = compare_program(
            request, [Setting("pp", "pp", SchemeOptions())]
        ).measurements
    finally:
        os.close(null)
    measuring = [each for each in told if each.phase is Phase.EXPANDING and each.total]
    count = len(measurement.routines)
    assert [each.total for each in measuring] == [count] * len(measuring)
    assert [each.done for each in measuring] == list(range(0, count, BETWEEN_TELLINGS))
    assert {each.instructions for each in measuring} == {measurement.base}
