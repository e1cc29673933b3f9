"""The suites by name: those that simprof comes with, and those of users; and their programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from profiler.experiments.suites import directories as places
from profiler.experiments.suites.builder import build
from profiler.experiments.suites.suite import (
    BuildProgress,
    BuildReport,
    Counters,
    Suite,
    Width,
)
from profiler.experiments.suites.suite_file import read_suite
from simulator.errors import UsageError


def suite_names() -> tuple[str, ...]:
    """Return the names of the suites that simprof comes with, smallest first."""
    shipped = {path.stem for path in places.suites_directory().glob("*.toml")}
    first = [name for name in ("micro", "wcet", "spec-like", "real") if name in shipped]
    return (*first, *sorted(shipped.difference(first)))


def load_suite(name: str) -> Suite:
    """Return a suite by its name, or from the file that `name` is the path of (`*.toml`).

    Raises
    ------
    UsageError
        If there is no such suite, or its file is not as it should be.
    """
    if name.endswith(".toml"):
        return read_suite(Path(name))
    known = suite_names()
    if name not in known:
        raise UsageError(
            f"there is no suite {name!r}: name one of {', '.join(known)}, or a .toml file"
        )
    return read_suite(places.suites_directory() / f"{name}.toml")


def build_suite(
    suite: Suite,
    *,
    widths: Sequence[Width] = (64, 32),
    counters: Sequence[Counters] = (Counters.NONE,),
    jobs: int = 2,
    progress: Callable[[BuildProgress], None] | None = None,
) -> BuildReport:
    """Make the suite's inputs, and its programs in each width; what the cache has stays.

    Parameters
    ----------
    counters
        Whose counters the builds of each width have in them.
    jobs
        How many programs are built at the same time.
    progress
        Called as the builds go on, from one thread at a time.

    Raises
    ------
    UsageError
        If the inputs or the cache cannot be written. A program that cannot be built is a row of
        `failures`.
    """
    return build(suite, widths, jobs, progress, counters=counters)
