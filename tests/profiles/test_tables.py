"""Rows of profiles: what is not known is None, which is not a count of 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simprof.profiler.profiles.profile import RoutineProfile
from simprof.profiler.profiles.tables import table
from tests.support.samples import measurement, routine


def executed_paths(profile: RoutineProfile) -> object:
    found = table(measurement(routines=(profile,)), "routines")
    names = [column.name for column in found.columns]
    return found.rows[0][names.index("executed_paths")]


@pytest.mark.parametrize(("numbered", "executed"), [(None, None), (4, 0)])
def test_executed_paths_are_unknown_where_the_scheme_counts_none(
    numbered: int | None, executed: int | None
) -> None:
    assert executed_paths(routine(numbered_paths=numbered, path_counts=())) == executed


def test_path_coverage_is_what_was_executed_of_the_paths_told_apart() -> None:
    whole = routine().path_counts
    counts = (*whole[:2], replace(whole[2], count=0), replace(whole[0], id=None, partial=True))
    for numbered, covered in ((8, 0.25), (2, 1.0), (None, None)):
        profile = routine(numbered_paths=numbered, path_counts=counts)
        found = table(measurement(routines=(profile,)), "routines")
        names = [column.name for column in found.columns]
        assert found.rows[0][names.index("path_coverage")] == covered
