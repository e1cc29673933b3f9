#!/usr/bin/env python3
"""Show that simprof's answers depend on the program and its input alone.

    python tools/determinism.py [--suite NAME]... [PROGRAM]...

Every program of the suites (by default micro, wcet, the smaller ones of spec-like, and forms;
PROGRAM: names, or patterns of names) is run twice, with its small input, under `run` with a call
tree and under `compare` with all modes: once in plain surroundings, once with another hash seed,
locale and encoding, time zone, umask, environment, allocator of memory, directory and number of
processors, and in the opposite order. `forms` are programs that no suite has: with threads,
dynamically linked, for a bare LEON. JSON, reports and saved profiles have to be the same bytes.
Says which are not, and where; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import DEFAULT_BUILD, InputName, parse_build
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.simulator.errors import SimulatorError
from tools.generated_files import ROOT

FORMS = "forms"
SUITES = ("micro", "wcet", "spec-like", FORMS)
SMALLER: Mapping[str, tuple[str, ...]] = {
    "spec-like": (
        "compress",
        "simulator",
        "stones",
        "turbulence",
        "pollutant",
        "integrals",
        "particles",
    )
}
"""Those programs of a suite that are run where no suite is named; all, if the suite is not here."""
THREADS = ROOT / "tests" / "programs" / "threads"
COMPILER = "sparc64-linux-gnu-gcc-12"
PROGRAM = "program.elf"
PLACES = ("here-and-now", "Elsewhere ü")
"""Directories. Their names take as many bytes: the C library copies the program's path, which takes
longer where it is longer (docs/SEMANTICS.md)."""
FILES = "files"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "--mode=tpp", "--call-tree", "-o", "profile"),
    "compare": ("compare",),
}
CHILD = """
import json, os, sys
given = json.loads(sys.argv[1])
os.umask(given["umask"])
if given["cores"]:
    os.sched_setaffinity(0, given["cores"])
sys.set_int_max_str_digits(0)
from simprof.profiler.cli import run
start = os.open(".", os.O_RDONLY)
for directory, words in given["work"]:
    os.fchdir(start)
    os.chdir(directory)
    with open("status", "w") as status:
        status.write(str(run(words)))
"""
"""What runs all commands in one set of surroundings: one process, so that it takes less long."""


@dataclass(frozen=True)
class Case:
    """A program with one input.

    Attributes
    ----------
    root
        The directory that it reads.
    status
        As it ends.
    options
        Of simprof, for this program.
    """

    name: str
    program: Path
    arguments: tuple[str, ...] = ()
    root: Path | None = None
    stdin: Path | None = None
    status: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What should not matter.

    Attributes
    ----------
    environment
        All of the environment but for what Python needs to start.
    umask
        The process's.
    cores
        How many processors it may use; 0: all.
    reverse
        Whether the programs run in reverse order.
    """

    environment: Mapping[str, str]
    umask: int
    cores: int = 0
    reverse: bool = False


PLAIN = Surroundings(
    {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "PATH": os.defpath}, 0o022
)
OTHER = Surroundings(
    {
        "LC_ALL": "POSIX",
        "LANG": "tr_TR.ISO-8859-9",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONMALLOC": "malloc",
        "PYTHONHASHSEED": "20011",
        "TZ": "Pacific/Chatham",
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TERM": "dumb",
        "USER": "nobody",
        "PATH": os.defpath + ":/nowhere",
        **{f"OF_NO_CONCERN_{number}": "x" * number for number in range(40)},
    },
    0o077,
    cores=1,
    reverse=True,
)


def cases(
    suite: str, which: InputName = "train", patterns: Sequence[str] = ("*",)
) -> Iterator[Case]:
    """Yield the programs of a suite, built where the cache lacks them.

    Parameters
    ----------
    suite
        The suite.
    which
        Their input.
    patterns
        Of the names of those that are wanted.

    Raises
    ------
    SimulatorError
        If one cannot be built.
    """
    width, _ = parse_build(DEFAULT_BUILD)
    whole = load_suite(suite)
    named = (each for each in whole.benchmarks if _is_named(each.name, patterns))
    found = replace(whole, benchmarks=tuple(named))
    report = build_suite(found, widths=(width,))
    for (name, build), why in report.failures.items():
        raise SimulatorError(f"{name} ({build}) cannot be built: {why}")
    for (name, _), built in report.programs.items():
        given = found.benchmark(name).inputs[which]
        yield Case(
            f"{suite}/{name}", built.path, given.arguments, given.root, given.stdin, given.status
        )


def forms(place: Path) -> Iterator[Case]:
    """Yield programs of other forms than those of suites, built in an empty directory.

    Raises
    ------
    SimulatorError
        If one cannot be built.
    """
    yield Case("forms/leon", ROOT / "fixtures" / "leon" / "hello.elf")
    root = place / "root"
    root.mkdir()
    for name, source, flags, options in (
        ("threads", "queue.c", ("-m32", "-mcpu=v9", "-static"), ()),
        ("threads-drawn", "counter.c", ("-m64", "-static"), ("--thread-seed", "7")),
        ("dynamic", "counter.c", ("-m64",), ()),
    ):
        target = _compile(source, place / name, "-O2", "-g", "-w", "-pthread", *flags)
        yield Case(f"{FORMS}/{name}", target, root=root, options=options)


def _compile(source: str, target: Path, *flags: str) -> Path:
    command = [COMPILER, *flags, str(THREADS / source), "-o", str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SimulatorError(f"{COMPILER}: {error.strerror}") from None
    if done.returncode:
        raise SimulatorError(f"{source} cannot be built: {done.stderr.strip()}")
    return target


def answers(
    wanted: Sequence[Case], surroundings: Surroundings, place: Path
) -> dict[tuple[str, str], Path]:
    """Run all commands on all programs; return the directories with what each has written.

    Parameters
    ----------
    wanted
        The programs.
    surroundings
        Where.
    place
        An empty directory for all that is read and written.

    Returns
    -------
    dict
        By program and command.

    Raises
    ------
    SimulatorError
        If the process that runs the commands fails.
    """
    directories = {}
    work = []
    for number, case in enumerate(wanted):
        for command, words in COMMANDS.items():
            directory = place / f"{number}-{command}"
            directory.mkdir()
            shutil.copy(case.program, directory / PROGRAM)
            work.append((directory.name, [*words, *_given(case, directory)]))
            directories[case.name, command] = directory
    if surroundings.reverse:
        work.reverse()
    _carry_out(work, surroundings, place)
    for case in wanted:
        for command in COMMANDS:
            status = (directories[case.name, command] / "status").read_text()
            if status != str(case.status):
                raise SimulatorError(f"{case.name}, {command}: exit status {status}")
    return directories


def _given(case: Case, directory: Path) -> Iterator[str]:
    """Yield the words that the commands share, with copies of what the program reads."""
    yield from ("--json", "json", "--report", "report", "--no-progress")
    if case.root is not None:
        shutil.copytree(case.root, directory / FILES, symlinks=True)
        yield from ("--root", FILES)
    if case.stdin is not None:
        shutil.copy(case.stdin, directory / "stdin")
        yield from ("--stdin", "stdin")
    yield from (*case.options, PROGRAM, "--", *case.arguments)


def _carry_out(
    work: Sequence[tuple[str, Sequence[str]]], surroundings: Surroundings, place: Path
) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    cores = allowed[-surroundings.cores :] if surroundings.cores else []
    given = {"umask": surroundings.umask, "cores": cores, "work": work}
    own = {"HOME": str(place), "XDG_CACHE_HOME": str(place), "SIMPROF_NO_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(given)],
        cwd=place,
        env={**surroundings.environment, **own, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "nothing is said of why"
        raise SimulatorError(f"a process failed (status {done.returncode}): {said}")


def differences(left: Path, right: Path) -> Iterator[str]:
    """Yield what is not the same in two directories of outputs, in words."""
    for name in sorted({path.name for each in (left, right) for path in each.iterdir()}):
        if name in (FILES, PROGRAM, "stdin"):
            continue
        one, other = (_content(each / name) for each in (left, right))
        if one != other:
            yield f"{name}: {_first_difference(one, other) if name == 'json' else 'other bytes'}"


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _first_difference(one: bytes | None, other: bytes | None) -> str:
    """Return where two texts of JSON differ first."""
    if one is None or other is None:
        return "missing in one of them"
    return next(_unlike(json.loads(one), json.loads(other), ""), "in its spelling only")


def _unlike(one: Any, other: Any, place: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        for key in one:
            yield from _unlike(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from _unlike(*pair, f"{place}[{number}]")
    elif one != other:
        yield f"{place}: {str(one)[:60]} and {str(other)[:60]}"


def compared(wanted: Sequence[Case], tell: Callable[[str], None]) -> int:
    """Run everything in both surroundings; return how many answers differ, after telling which."""
    with tempfile.TemporaryDirectory(prefix="simprof-determinism-") as scratch:
        places = [Path(scratch) / name for name in PLACES]
        for place in places:
            place.mkdir()
        plain, other = (
            answers(wanted, surroundings, place)
            for surroundings, place in zip((PLAIN, OTHER), places, strict=True)
        )
        wrong = 0
        for key, directory in plain.items():
            found = list(differences(directory, other[key]))
            wrong += bool(found)
            for text in found:
                tell(f"{key[0]}, {key[1]}: {text}")
    return wrong


def _is_named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _cases(suite: str, place: Path, names: Sequence[str], is_asked_for: bool) -> Iterator[Case]:
    """Yield what is to be run of a suite; `is_asked_for`: the user has named the suite."""
    patterns = names or (("*",) if is_asked_for else SMALLER.get(suite, ("*",)))
    if suite != FORMS:
        return cases(suite, patterns=patterns)
    return (each for each in forms(place) if _is_named(each.name.partition("/")[2], patterns))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", action="append", default=[], metavar="NAME")
    parser.add_argument("program", nargs="*", metavar="PROGRAM")
    given = parser.parse_args(arguments)
    suites = given.suite or SUITES
    try:
        with tempfile.TemporaryDirectory(prefix="simprof-forms-") as place:
            wanted = [
                case
                for suite in suites
                for case in _cases(suite, Path(place), given.program, bool(given.suite))
            ]
            wrong = compared(wanted, print)
    except SimulatorError as error:
        print(f"determinism: {error}", file=sys.stderr)
        return 1
    count = len(wanted) * len(COMMANDS)
    of = Counter(case.name.partition("/")[0] for case in wanted)
    numbers = ", ".join(f"{number} of {suite}" for suite, number in of.items())
    print(
        f"{count} answers ({len(wanted)} programs, {numbers}, under "
        f"{' and '.join(COMMANDS)}), of which {wrong or 'none'} differed."
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
