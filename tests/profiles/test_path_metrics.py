"""The metric of a path beside its frequency (EPP 1.2): the instructions executed along it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.profiles.tables import routine_rows, table
from tests.support.profiled import measure


@pytest.mark.parametrize("name", ["loops", "nonlocal", "control", "signals"])
def test_instructions_of_paths_add_up_to_those_of_their_routine(
    fixture_elf: Callable[[str], Path], name: str
) -> None:
    run = measure(fixture_elf(name), "pp")
    at = [column.name for column in table(run, "paths").columns].index("instructions")
    entered = [routine for routine in run.routines if routine.activations]
    assert entered
    for routine in entered:
        along: list[int] = [row[at] for row in routine_rows(run, routine, "paths")]  # type: ignore[misc]
        assert sum(along) == routine.instructions, routine.name
