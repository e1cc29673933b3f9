"""What reports say about modes, made of a measurement's numbers."""

from __future__ import annotations

from msgspec.structs import replace

from simprof.profiler.profiles.profile import RoutineProfile
from simprof.profiler.reports.mode_facts import path_coverage
from tests.support.samples import measurement, routine


def with_paths(paths: int, executed: int) -> RoutineProfile:
    first = routine().path_counts[0]
    counts = tuple(replace(first, id=number) for number in range(executed))
    return routine(numbered_paths=paths, path_counts=counts)


def test_path_coverage_by_how_many_paths_routines_have() -> None:
    numbers = (1, 1), (1, 1), (2, 1), (10, 10), (11, 5), (100, 0), (101, 7), (10**12, 3)
    never = replace(with_paths(3, 0), activations=0, instructions=0)
    run = measurement(routines=(never, *(with_paths(*each) for each in numbers)))
    found = path_coverage(run)
    assert found is not None
    assert [tuple(row) for row in found.rows] == [
        ("1", 2, 2, 2, 2, "100.00 %"),
        ("2 to 10", 2, 1, 12, 11, "91.67 %"),
        ("11 to 100", 2, 0, 111, 5, "4.50 %"),
        ("101 to 1,000", 1, 0, 101, 7, "6.93 %"),
        ("up to 10^12", 1, 0, 10**12, 3, "0.00 %"),
        ("all", 8, 3, 10**12 + 226, 28, "0.00 %"),
    ]


def test_a_mode_without_paths_covers_none() -> None:
    assert path_coverage(measurement(mode="qpt2", routines=(routine(path_counts=()),))) is None
