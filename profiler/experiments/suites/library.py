"""The suites by name: those that simprof comes with, and those of users; and their programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from simprof.profiler.experiments.suites import directories as places
from simprof.profiler.experiments.suites.builder import build
from simprof.profiler.experiments.suites.suite import (
    BuildProgress,
    BuildReport,
    CounterBuild,
    Recipe,
    Suite,
    Width,
)
from simprof.profiler.experiments.suites.suite_file import read_suite
from simprof.simulator.errors import UsageError

HARMLESS_FLAG = re.compile(
    r"-[DU]\w.*|-O\w*|-g[\w-]*|-w|-W(no-)?[a-z][\w-]*(=\w+)?|-std=[\w+:]+|-m[\w=.-]+|-l[\w+.-]+"
    r"|-f(?!plugin|dump|profile|auto-profile|use-ld|stack-usage|opt-info)[a-z][\w-]*(=[\w-]+)?"
)
"""Flags of compilers that name no file and no program; others may have one executed, or written."""


def executed_by(recipe: Recipe) -> str | None:
    """Return a command of the user's that building a program executes, None if there is none."""
    for each in (recipe, recipe.counted):
        if each is None:
            continue
        for command in (*each.prepare, *each.commands):
            return command
        for flag in each.flags:
            if not HARMLESS_FLAG.fullmatch(flag):
                return f"compiler {flag}"
    return None


def suite_names() -> tuple[str, ...]:
    """Return the names of the suites that simprof comes with, smallest first."""
    shipped = {path.stem for path in places.suites_directory().glob("*.toml")}
    first = [name for name in ("micro", "wcet", "spec-like", "real") if name in shipped]
    return (*first, *sorted(shipped.difference(first)))


def load_suite(name: str, *, allow_commands: bool = False) -> Suite:
    """Return a suite by its name, or from the file that `name` is the path of (`*.toml`).

    `allow_commands`: Whether a file that does not come with simprof may have commands executed.

    Raises
    ------
    UsageError
        If there is no such suite, or its file is not as it should be.
    """
    if name.endswith(".toml"):
        path = Path(name)
        shipped = places.is_shipped(path)
        return replace(read_suite(path), may_execute=shipped or allow_commands)
    known = suite_names()
    if name not in known:
        raise UsageError(
            f"there is no suite {name!r}: name one of {', '.join(known)}, or a .toml file"
        )
    return replace(read_suite(places.suites_directory() / f"{name}.toml"), may_execute=True)


def build_suite(
    suite: Suite,
    *,
    widths: Sequence[Width] = (64, 32),
    counters: Sequence[CounterBuild] = (CounterBuild.NONE,),
    jobs: int = 2,
    progress: Callable[[BuildProgress], None] | None = None,
) -> BuildReport:
    """Make the suite's inputs, and its programs in each width; what the cache has stays.

    - `counters`: Whose counters the builds of each width have in them.
    - `jobs`: How many programs are built at the same time.
    - `progress`: Called as the builds go on, from one thread at a time.

    Raises
    ------
    UsageError
        If the inputs or the cache cannot be written, or the suite's file names commands and may
        not. A program that cannot be built is a row of `failures`.
    """
    if not suite.may_execute:
        for benchmark in suite.benchmarks:
            if command := executed_by(benchmark.recipe):
                raise UsageError(
                    f"{suite.path}: benchmark {benchmark.name} has this executed on your computer: "
                    f"{command!r}: read the file, then give --allow-commands"
                )
    return build(suite, widths, jobs, progress, counters=counters)
