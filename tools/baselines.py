#!/usr/bin/env python3
"""Record what simprof answers in digests, or compare with what is recorded in fixtures/baselines.

    tools/baselines.py [PATTERN...]          record: all cases, or those that match a pattern
    tools/baselines.py --check [PATTERN...]  compare; the exit status is 1 if anything differs
    tools/baselines.py --list                name the cases ("micro-v9/bench", "graphs/pp", ...)
    --directory DIRECTORY                    in place of fixtures/baselines

A case is the lines of a file that begin with its name. They hold what `simprof regress` does not
compare, or would need 25 MB for: every setting of every program in three builds, V8 among them, all
edges, paths and blocks that `run` lists, plans of graphs. The files `*.baseline` beside them are
`simprof regress`'s own. fixtures/README.md says what is in the files, docs/EXPERIMENTS.md how to
change a count on purpose.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import product
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.regress.measure import Target, suite_targets
from simprof.profiler.experiments.suites.suite import Width
from simprof.profiler.experiments.suites.suite_file import load_suite
from tools import baseline_lines

BASELINES = Path(__file__).resolve().parent.parent / "fixtures" / "baselines"
INPUT = "train"
SUITES = ("micro", "wcet")
BUILDS: Mapping[str, Width] = {"v9": 64, "v8plus": 32, "v8": 32}
FEW = ("loops", "sieve", "switches", "words")  # Programs of options of few, in 64 bits
# Files that are no lines of cases
OTHERS = {"graphs.jsonl", *(f"{suite}.baseline" for suite in SUITES)}

PROGRAMS = "NAME ends BASE REASON STATUS OUTPUT; NAME SETTING ADDED COUNTS PROFILE"
PROFILES = "NAME SETTING PROFILE"
GRAPHS = "SETTING GRAPH BASE ADDED COUNTS PLAN"


@dataclass(frozen=True)
class Case:
    """A part of the baselines that is recorded and checked at once."""

    file: str
    key: str  # How its lines in the file begin
    title: str  # What the lines hold
    make: Callable[[], Iterator[str]]  # Returns the lines

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
        order = [case.key for case in cases() if case.file == self.file]
        lines = sorted([*others, *self.make()], key=lambda line: order.index(_key(line)))
        head = f"# {self.title}. Written by tools/baselines.py; see fixtures/README.md."
        path.write_text("\n".join([head, *lines, ""]))


def _key(line: str) -> str:
    return line.split(" ", 1)[0]


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


@cache
def targets(suite: str, build: str) -> Mapping[str, Target]:
    """Return the programs of a suite as they are run, by name.

    Suites know no V8 builds; these lie beside the others. Raises BaselineError if the suite has not
    all its programs.
    """
    model = Target("", Path(), {})
    found, failures = suite_targets(suite, [BUILDS[build]], [INPUT], model, BASELINES)
    for name, reason in failures.items():
        raise baseline_lines.BaselineError(f"{name}: {reason}")
    named = {each.options.argv0: each for each in found}
    return {name: _v8(each) for name, each in named.items()} if build == "v8" else named


def _v8(target: Target) -> Target:
    file = target.program.parent.with_name("v8") / target.program.name
    return replace(target, name=f"{target.options.argv0} {INPUT} v8", program=file, facts={})


def _program(suite: str, build: str, name: str, settings: Sequence[str]) -> Iterator[str]:
    return baseline_lines.program_lines(name, targets(suite, build)[name], BASELINES, settings)


def _profiles(name: str) -> Iterator[str]:
    return baseline_lines.profile_lines(name, targets("micro", "v9")[name])


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases; nothing is run or built for that."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    names = {suite: [each.name for each in load_suite(suite).benchmarks] for suite in SUITES}
    for suite, build in product(SUITES, BUILDS):
        for name in names[suite]:
            make = partial(_program, suite, build, name, baseline_lines.PROGRAM_SETTINGS)
            yield Case(f"{suite}-{build}.txt", name, PROGRAMS, make)
    for name in names["micro"]:
        yield Case("profiles-v9.txt", name, PROFILES, partial(_profiles, name))
    for name in FEW:
        make = partial(_program, "micro", "v9", name, baseline_lines.FEW_SETTINGS)
        yield Case("few-v9.txt", name, PROGRAMS, make)
    for setting in baseline_lines.GRAPH_SETTINGS:
        make = partial(baseline_lines.graph_lines, setting)
        yield Case("graphs.txt", setting, GRAPHS, make)


def strays(directory: Path = BASELINES) -> list[str]:
    """Return the lines and files that are of no case."""
    keys = {(case.file, case.key) for case in cases()}
    files = sorted({case.file for case in cases()})
    known = OTHERS.union(files)
    found = [path.name for path in directory.iterdir() if path.name not in known]
    for file in files:
        lines = (line for line in _lines(directory / file) if (file, _key(line)) not in keys)
        found += [f"{file}: {line}" for line in lines]
    return found


def _check(selected: Sequence[Case], directory: Path) -> int:
    failed = [line for case in selected for line in case.check(directory)] + strays(directory)
    for line in failed:
        print(line)
    print(f"{len(selected)} cases compared: {'something differs' if failed else 'all the same'}")
    return int(bool(failed))


def _record(selected: Sequence[Case], directory: Path) -> int:
    directory.mkdir(exist_ok=True)
    for number, case in enumerate(selected, start=1):
        print(f"{number}/{len(selected)} {case.name}", flush=True)
        case.write(directory)
    for stray in strays(directory):
        print(f"of no case, remove it: {stray}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--directory", type=Path, default=BASELINES)
    chosen = parser.parse_args(arguments)
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
    except baseline_lines.BaselineError as error:
        sys.exit(f"baselines.py: {error}")
