"""Which programs a baseline is about: files or suites when it is recorded, its own when checked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simprof.profiler.experiments.regress.file import BaselineRun, Fact, Facts
from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import (
    BUILDS,
    BuildProgress,
    BuildReport,
    BuiltProgram,
    Input,
    Width,
)
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    DEFAULT_MEMORY_LIMIT,
    DEFAULT_STACK_SIZE,
    Selection,
)
from simprof.simulator.errors import UsageError


@dataclass(frozen=True)
class Target:
    """A program with what it is given."""

    name: str  # What reports call it; unique in a baseline.
    program: Path  # ELF file
    facts: Facts  # Of a suite's program, where it comes from; empty for a file.
    # arguments, environment: As text, undecodable bytes as surrogates; variables as NAME=VALUE.
    arguments: tuple[str, ...] = ()
    # stdin, root: None: an empty file, an empty directory.
    stdin: Path | None = None
    root: Path | None = None
    writable: bool = False  # Whether it may write: into a copy of `root`, which is thrown away.
    environment: tuple[str, ...] = ()
    argv0: str = ""  # Its name for itself
    max_instructions: int | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    stack_size: int = DEFAULT_STACK_SIZE
    selection: Selection = ALL_ROUTINES  # Which routines are profiled
    status: int | None = None  # Exit status that a suite expects; None: any.
    # Files below `root` that a baseline has recorded: looked at whether they are opened or not.
    files: tuple[str, ...] = ()


FILE = "file "
"""Begins the facts of files that a program is given."""

Failures = Mapping[str, str]
"""Name of a run -> one line on why it could not be made."""

Watch = Callable[[BuildProgress], None] | None


def file_targets(programs: Sequence[Path], model: Target) -> tuple[Target, ...]:
    """Return a target for each file, given what `model` is given.

    Files of one name are called by as much of their paths as tells them apart.

    Raises
    ------
    UsageError
        If a file is named twice.
    """
    resolved = Counter(path.resolve() for path in programs)
    for path in programs:
        if resolved[path.resolve()] > 1:
            raise UsageError(f"{path} is named twice: leave out one")
    names = _names([path.absolute() for path in programs])
    return tuple(
        replace(model, name=name, program=path, argv0=model.argv0 or path.name)
        for name, path in zip(names, programs, strict=True)
    )


def _names(paths: Sequence[Path]) -> list[str]:
    for parts in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def suite_targets(
    name: str,
    widths: Sequence[Width],
    inputs: Sequence[str],
    model: Target,
    directory: Path,
    watch: Watch = None,
    *,
    allow_commands: bool = False,
) -> tuple[tuple[Target, ...], Failures]:
    """Build a suite; return its targets, and why others could not be made.

    - `name`: Of the suite, or the path of its file.
    - `model`: Gives budgets and the selection of routines.
    - `directory`: The baseline's; a suite's file is recorded as it is found from there.
    - `watch`: Called as programs are built.
    - `allow_commands`: Whether a suite's file that does not come with simprof may have commands
      executed.

    Raises
    ------
    UsageError
        If there is no such suite, or it needs commands and may have none executed.
    """
    suite = load_suite(name, allow_commands=allow_commands)
    label = relative(suite.path, directory) if name.endswith(".toml") else suite.name
    report = build_suite(suite, widths=widths, progress=watch)
    targets = []
    for benchmark in suite.benchmarks:
        for width in widths:
            built = report.programs.get((benchmark.name, BUILDS[width]))
            if built is None:
                continue
            for input_name in dict.fromkeys(inputs):
                targets.append(_suite_target(label, built, benchmark.inputs[input_name], model))
    return tuple(targets), _failures(report)


def _failures(report: BuildReport) -> Failures:
    return {
        f"{benchmark} {build}": f"it could not be built: {reason}"
        for (benchmark, build), reason in report.failures.items()
    }


def _suite_target(suite: str, built: BuiltProgram, given: Input, model: Target) -> Target:
    facts: dict[str, Fact] = {
        "suite": suite,
        "benchmark": built.benchmark,
        "build": built.build,
        "input": given.name,
        "flags": built.flags,
        "source_hash": built.source_hash,
    }
    return replace(
        model,
        name=f"{built.benchmark} {given.name} {built.build}",
        program=built.path,
        facts=facts,
        arguments=given.arguments,
        stdin=given.stdin,
        root=given.root,
        environment=tuple(f"{name}={value}" for name, value in given.environment),
        argv0=built.benchmark,
        status=given.status,
    )


def recorded_targets(
    runs: Mapping[str, BaselineRun],
    directory: Path,
    watch: Watch = None,
    *,
    allow_commands: bool = False,
) -> tuple[tuple[Target, ...], Failures]:
    """Return the targets of a baseline in `directory`, and why others could not be made.

    Suites are built again where they have to be.
    """
    targets, failures = [], dict[str, str]()
    suites = _Suites(runs, directory, watch, allow_commands)
    for name, run in runs.items():
        try:
            if "suite" in run.program:
                target = suites.target(name, run)
            else:
                target = _recorded_file(name, run, directory)
            targets.append(target)
        except UsageError as error:
            failures[name] = str(error)
    return tuple(targets), failures


def _recorded_file(name: str, run: BaselineRun, directory: Path) -> Target:
    given = run.input
    return replace(
        _shared(name, run),
        program=directory / str(run.program["file"]),
        arguments=_texts(given["arguments"]),
        stdin=_path(directory, given.get("stdin_file")),
        root=_path(directory, given.get("root")),
        writable=given.get("writable") is True,
        environment=_texts(given.get("environment")),
    )


def _shared(name: str, run: BaselineRun) -> Target:
    """Return what is taken from the baseline whatever the program is."""
    given = run.input
    budget = given.get("max_instructions")
    return Target(
        name,
        Path(),
        {},
        argv0=str(given["argv0"]),
        max_instructions=budget if isinstance(budget, int) else None,
        memory_limit=_number(given.get("memory_limit"), DEFAULT_MEMORY_LIMIT),
        stack_size=_number(given.get("stack_size"), DEFAULT_STACK_SIZE),
        selection=Selection(
            _texts(given.get("routines")),
            _texts(given.get("exclude")),
            given.get("user_only") is True,
        ),
        files=tuple(name.removeprefix(FILE) for name in given if name.startswith(FILE)),
    )


def _number(value: Fact, default: int) -> int:
    return value if isinstance(value, int) else default


def _texts(value: Fact) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _path(directory: Path, value: Fact) -> Path | None:
    return directory / value if isinstance(value, str) else None


class _Suites:
    """The suites of a baseline, each built once."""

    def __init__(
        self, runs: Mapping[str, BaselineRun], directory: Path, watch: Watch, allow_commands: bool
    ) -> None:
        self._runs, self._allow_commands = runs, allow_commands
        self._directory = directory
        self._watch = watch
        self._known: dict[str, tuple[dict[str, Target], Failures]] = {}

    def target(self, name: str, run: BaselineRun) -> Target:
        """Return the target of a run.

        Raises
        ------
        UsageError
            If there is none.
        """
        suite = str(run.program["suite"])
        if suite not in self._known:
            self._known[suite] = self._build(suite)
        targets, failures = self._known[suite]
        program = run.program
        if name in targets:
            shared = _shared(name, run)
            built = targets[name]
            return replace(
                built,
                max_instructions=shared.max_instructions,
                memory_limit=shared.memory_limit,
                stack_size=shared.stack_size,
                selection=shared.selection,
                files=shared.files,
            )
        reason = failures.get(f"{program['benchmark']} {program['build']}")
        raise UsageError(reason or f"suite {suite} has it no more: record the baseline again")

    def _build(self, suite: str) -> tuple[dict[str, Target], Failures]:
        runs = [run.program for run in self._runs.values() if run.program.get("suite") == suite]
        builds = {str(program["build"]) for program in runs}
        widths = [width for width, build in BUILDS.items() if build in builds]
        inputs = sorted({str(program["input"]) for program in runs})
        name = str(self._directory / suite) if suite.endswith(".toml") else suite
        model = Target("", Path(), {})
        targets, failures = suite_targets(
            name,
            widths,
            inputs,
            model,
            self._directory,
            self._watch,
            allow_commands=self._allow_commands,
        )
        return {target.name: target for target in targets}, failures


def relative(path: Path, directory: Path) -> str:
    """Return a path as it is found from `directory`."""
    return os.path.relpath(path.resolve(), directory.resolve())
