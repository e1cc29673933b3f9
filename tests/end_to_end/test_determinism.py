"""The same answers whatever surrounds simprof: hash seed, locale, directory, processors, ...

Every program is run twice, with its small input, under `run` with a call tree and under `compare`
with all modes: once in plain surroundings, once with another hash seed, locale and encoding, time
zone, umask, environment, allocator of memory, directory and number of processors, and in the
opposite order. JSON, reports and saved profiles have to be the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import DEFAULT_BUILD, parse_build
from simprof.profiler.experiments.suites.suite_file import load_suite
from tests.conftest import ROOT

Find = Callable[..., Path]
Compile = Callable[..., Path]

THREADS = ROOT / "tests" / "programs" / "threads"
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


def cases(suite: str, each: int) -> list[Case]:
    """Return every so-manieth program of a suite, with its small input."""
    width, _ = parse_build(DEFAULT_BUILD)
    whole = load_suite(suite)
    report = build_suite(
        msgspec.structs.replace(whole, benchmarks=whole.benchmarks[::each]), widths=(width,)
    )
    assert not report.failures
    found = []
    for (name, _), built in report.programs.items():
        given = whole.benchmark(name).inputs["train"]
        found.append(Case(name, built.path, given.arguments, given.root, given.stdin, given.status))
    return found


def answers(
    wanted: Sequence[Case],
    surroundings: Surroundings,
    place: Path,
    commands: Mapping[str, Sequence[str]],
) -> dict[tuple[str, str], Path]:
    """Run all commands on all programs in an empty directory; return where each has written."""
    directories = {}
    work = []
    for number, case in enumerate(wanted):
        for command, words in commands.items():
            directory = place / f"{number}-{command}"
            directory.mkdir()
            shutil.copy(case.program, directory / PROGRAM)
            work.append((directory.name, [*words, *_given(case, directory)]))
            directories[case.name, command] = directory
    if surroundings.reverse:
        work.reverse()
    _carry_out(work, surroundings, place)
    for case in wanted:
        for command in commands:
            status = (directories[case.name, command] / "status").read_text()
            assert status == str(case.status), f"{case.name}, {command}"
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
    assert done.returncode == 0, done.stderr.decode(errors="replace")


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


def differing(
    wanted: Sequence[Case],
    directory: Path,
    commands: Mapping[str, Sequence[str]] = COMMANDS,
    other: Surroundings = OTHER,
) -> list[str]:
    """Run everything in both surroundings; return what is not the same, in words."""
    places = [directory / name for name in PLACES]
    for place in places:
        place.mkdir(parents=True)
    plain, changed = (
        answers(wanted, surroundings, place, commands)
        for surroundings, place in zip((PLAIN, other), places, strict=True)
    )
    return [
        f"{name}, {command}: {text}"
        for (name, command), written in plain.items()
        for text in differences(written, changed[name, command])
    ]


@pytest.mark.long
def test_fixtures_give_the_same_answers_twice(fixture_elf: Find, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    wanted = [
        Case("switches", fixture_elf("switches"), root=files),
        Case("nonlocal", fixture_elf("nonlocal", "v8plus"), status=4),
    ]
    assert differing(wanted, tmp_path) == []


@pytest.mark.long
def test_what_differs_is_named(fixture_elf: Find, tmp_path: Path) -> None:
    other = replace(PLAIN, environment={**PLAIN.environment, "COLUMNS": "61"})
    wanted = [Case("loops", fixture_elf("loops"))]
    found = differing(wanted, tmp_path, {"run": ("run", "--mode=pp")}, other)
    assert found == ["loops, run: report: other bytes"]


def test_the_place_in_json_is_named(tmp_path: Path) -> None:
    for name, text in (("one", '{"a": [1, {"b": 2}]}'), ("other", '{"a": [1, {"b": 3}]}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "json").write_text(text)
        (tmp_path / name / "profile").write_bytes(b"same")
    one, other = tmp_path / "one", tmp_path / "other"
    assert list(differences(one, other)) == ["json: .a[1].b: 2 and 3"]
    shutil.copy(one / "json", other / "json")
    assert list(differences(one, other)) == []
    (other / "profile").unlink()
    assert list(differences(one, other)) == ["profile: other bytes"]


@pytest.mark.long
@pytest.mark.toolchain
def test_other_forms_of_programs_give_the_same_answers_twice(
    compile_c: Compile, tmp_path: Path
) -> None:
    """All modes and both commands have the suites' programs: a whole C library takes long.

    Of the programs with threads, one has drawn turns, and one is dynamic.
    """
    root = tmp_path / "root"
    root.mkdir()
    flags = ("-O2", "-g", "-w", "-pthread")
    drawn = compile_c(THREADS / "counter.c", flags)
    dynamic = compile_c(THREADS / "counter.c", flags, static=False)
    run = [Case("dynamic", dynamic, root=root)]
    compare = [
        Case("leon", ROOT / "fixtures" / "leon" / "hello.elf"),
        Case("threads-drawn", drawn, root=root, options=("--thread-seed", "7")),
    ]
    modes = (*COMMANDS["compare"], "--mode", "pp,witness")
    assert differing(run, tmp_path / "run", {"run": COMMANDS["run"]}) == []
    assert differing(compare, tmp_path / "compare", {"compare": modes}) == []


@pytest.mark.long
@pytest.mark.parametrize(("suite", "each"), [("micro", 7), ("wcet", 3)])
def test_suites_give_the_same_answers_twice(suite: str, each: int, tmp_path: Path) -> None:
    wanted = cases(suite, each)
    assert len(wanted) == 3
    assert differing(wanted, tmp_path) == []
