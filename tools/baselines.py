#!/usr/bin/env python3
"""Record what simprof answers, or compare with what is recorded in fixtures/baselines.

    tools/baselines.py [PATTERN...]          record: all cases, or those that match a pattern
    tools/baselines.py --check [PATTERN...]  compare; the exit status is 1 if anything differs
    tools/baselines.py --list                name the cases ("micro-v9/bench", "graphs/pp", ...)
    tools/baselines.py --full DIRECTORY      write whole baselines of all programs and settings for
                                             `simprof regress check`, which explains differences
    --directory DIRECTORY                    in place of fixtures/baselines

A case is a part of a file: the lines that begin with its name, or all of a `.baseline` file.
fixtures/README.md says what is in the files, docs/EXPERIMENTS.md how to change a count on purpose.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import product
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.experiments.regress.file import save
from simprof.profiler.experiments.regress.measure import Target, suite_targets
from simprof.profiler.experiments.suites.suite import Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from tools.baseline_fields import FEW_SETTINGS, GRAPH_SETTINGS, PROGRAM_SETTINGS
from tools.baseline_lines import (
    BaselineError,
    graph_file_lines,
    graph_lines,
    profile_lines,
    program_lines,
    recorded,
)

BASELINES = Path(__file__).resolve().parent.parent / "fixtures" / "baselines"
INPUT = "train"
SUITES = ("micro", "wcet")
BUILDS: Mapping[str, Width] = {"v9": 64, "v8plus": 32, "v8": 32}
FEW = ("loops", "sieve", "switches", "words")  # Programs of options of few, in 64 bits
REGRESS_MODES = {"micro": "pp,qpt2,tpp", "wcet": "pp,qpt2,tpp,kiter"}

PROGRAMS = "NAME ends BASE REASON STATUS OUTPUT; NAME SETTING ADDED COUNTS PROFILE"
PROFILES = "NAME SETTING PROFILE"
GRAPHS = "SETTING GRAPH BASE ADDED COUNTS PLAN; files GRAPH CONTENT"

_MODEL = Target("", Path(), {})


@dataclass(frozen=True)
class Case:
    """A part of the baselines that is recorded and checked at once.

    Attributes
    ----------
    file, key
        The file, and how the case's lines in it begin.
    title
        What the lines hold.
    make
        Returns the lines.
    """

    file: str
    key: str
    title: str
    make: Callable[[], Iterator[str]]

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.file.removesuffix('.txt')}/{self.key}"

    def check(self, directory: Path = BASELINES) -> list[str]:
        """Return how the lines recorded in a directory differ from those found now."""
        old = [line for line in _lines(directory / self.file) if _key(line) == self.key]
        new = list(self.make())
        gone = [f"{self.file}: recorded: {line}" for line in old if line not in new]
        return gone + [f"{self.file}: now:      {line}" for line in new if line not in old]

    def write(self, directory: Path = BASELINES) -> None:
        """Put the lines found now into the file, in place of those recorded."""
        path = directory / self.file
        others = [line for line in _lines(path) if _key(line) != self.key]
        order = [case.key for case in line_cases() if case.file == self.file]
        lines = sorted([*others, *self.make()], key=lambda line: order.index(_key(line)))
        head = f"# {self.title}. Written by tools/baselines.py; see fixtures/README.md."
        path.write_text("\n".join([head, *lines, ""]))


@dataclass(frozen=True)
class RegressCase:
    """A suite's file of `simprof regress`, which shows routine by routine what differs."""

    suite: str
    modes: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.suite}.baseline"

    def check(self, directory: Path = BASELINES) -> list[str]:
        """Return the report of `simprof regress check` where anything differs."""
        said = io.StringIO()
        with redirect_stdout(said):
            status = cli.run(["regress", "check", "--no-progress", str(directory / self.name)])
        report = said.getvalue().splitlines()
        return [f"{self.name}: simprof regress check: status {status}", *report] if status else []

    def write(self, directory: Path = BASELINES) -> None:
        """Record the file again."""
        what = ["--suite", self.suite, "--input", INPUT, "--mode", self.modes, "--no-progress"]
        status = cli.run(["regress", "record", *what, "-o", str(directory / self.name)])
        if status:
            raise BaselineError(f"{self.name}: simprof regress record ended with {status}")


def _key(line: str) -> str:
    return line.split(" ", 1)[0]


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


@cache
def targets(suite: str, build: str) -> Mapping[str, Target]:
    """Return the programs of a suite as they are run, by name.

    Suites know no V8 builds; these lie beside the others.

    Raises
    ------
    BaselineError
        If the suite has not all its programs.
    """
    found, failures = suite_targets(suite, [BUILDS[build]], [INPUT], _MODEL, BASELINES)
    for name, reason in failures.items():
        raise BaselineError(f"{name}: {reason}")
    return {each.options.argv0: _v8(each) if build == "v8" else each for each in found}


def _v8(target: Target) -> Target:
    program = target.program
    file = program.parent.with_name("v8") / program.name
    return replace(target, name=f"{target.options.argv0} {INPUT} v8", program=file, facts={})


def _program(
    suite: str, build: str, name: str, settings: Sequence[str] = PROGRAM_SETTINGS
) -> Iterator[str]:
    return program_lines(name, targets(suite, build)[name], BASELINES, settings)


def _profiles(name: str) -> Iterator[str]:
    return profile_lines(name, targets("micro", "v9")[name])


@cache
def line_cases() -> tuple[Case, ...]:
    """Return the cases whose files have lines of ours; nothing is run or built for that."""
    return tuple(_line_cases())


def _line_cases() -> Iterator[Case]:
    names = {suite: [each.name for each in load_suite(suite).benchmarks] for suite in SUITES}
    for suite, build in product(SUITES, BUILDS):
        for name in names[suite]:
            yield Case(
                f"{suite}-{build}.txt", name, PROGRAMS, partial(_program, suite, build, name)
            )
    for name in names["micro"]:
        yield Case("profiles-v9.txt", name, PROFILES, partial(_profiles, name))
    for name in FEW:
        make = partial(_program, "micro", "v9", name, FEW_SETTINGS)
        yield Case("few-v9.txt", name, PROGRAMS, make)
    yield Case("graphs.txt", "files", GRAPHS, partial(graph_file_lines, "files"))
    for setting in GRAPH_SETTINGS:
        yield Case("graphs.txt", setting, GRAPHS, partial(graph_lines, setting))


def cases() -> tuple[Case | RegressCase, ...]:
    """Return all cases."""
    return (*(RegressCase(suite, modes) for suite, modes in REGRESS_MODES.items()), *line_cases())


def strays(directory: Path = BASELINES) -> list[str]:
    """Return the lines and files that are of no case."""
    files = {case.name if isinstance(case, RegressCase) else case.file for case in cases()}
    keys = {(case.file, case.key) for case in line_cases()}
    found = [path.name for path in directory.iterdir() if path.name not in files]
    for file in sorted({case.file for case in line_cases()}):
        known = (line for line in _lines(directory / file) if (file, _key(line)) not in keys)
        found += [f"{file}: {line}" for line in known]
    return found


def _check(selected: Sequence[Case | RegressCase], directory: Path) -> int:
    failed = [line for case in selected for line in case.check(directory)] + strays(directory)
    for line in failed:
        print(line)
    print(f"{len(selected)} cases compared: {'something differs' if failed else 'all the same'}")
    return int(bool(failed))


def _record(selected: Sequence[Case | RegressCase], directory: Path) -> int:
    directory.mkdir(exist_ok=True)
    for number, case in enumerate(selected, start=1):
        print(f"{number}/{len(selected)} {case.name}", flush=True)
        case.write(directory)
    for stray in strays(directory):
        print(f"of no case, remove it: {stray}")
    return 0


def _full(directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    for suite, build in product(SUITES, BUILDS):
        path = directory / f"{suite}-{build}.baseline"
        save(recorded(tuple(targets(suite, build).values()), directory), path)
        print(path, flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--full", type=Path)
    parser.add_argument("--directory", type=Path, default=BASELINES)
    chosen = parser.parse_args(arguments)
    if chosen.full is not None:
        return _full(chosen.full)
    patterns = chosen.patterns or ["*"]
    selected = [
        case
        for case in cases()
        if case.name in patterns or any(fnmatchcase(case.name, pattern) for pattern in patterns)
    ]
    if not selected:
        parser.error(f"no case matches {' '.join(patterns)}: --list names them")
    if chosen.list:
        print("\n".join(case.name for case in selected))
        return 0
    return (_check if chosen.check else _record)(selected, chosen.directory)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BaselineError as error:
        sys.exit(f"baselines.py: {error}")
