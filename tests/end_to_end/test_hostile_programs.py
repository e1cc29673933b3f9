"""Programs that try to get out, or to end whoever runs them: contained, and the result says so.

The sources are in `tests/programs/hostile`. Each runs in a directory of its own beside a file that
it must neither see nor change, and what lies there afterwards is compared, name by name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.experiments.cells.run import peak_memory
from tests.conftest import FIXTURES, ROOT

HOSTILE = Path(__file__).parents[1] / "programs" / "hostile"
START = "from simprof.profiler.cli import main; main()"
Compile = Callable[..., Path]
pytestmark = pytest.mark.toolchain
WIDTHS = pytest.mark.parametrize("width", ["v9", pytest.param("v8plus", marks=pytest.mark.long)])


@dataclass(frozen=True)
class Ended:
    """How a run of simprof ended: its status, the program's output, its own messages, its JSON."""

    status: int
    output: str
    errors: str
    answer: dict[str, Any] | None

    @property
    def end(self) -> str:
        """Why the program ended."""
        assert self.answer is not None, self.errors
        return str(self.answer["exit"]["reason"])


class Place:
    """A directory for one program: `root`, which it may read, and `secret` beside it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "root"
        self.secret = base / "secret"
        (self.root / "out").mkdir(parents=True)
        self.secret.write_text("secret")
        (self.root / "input").write_text("input")
        (self.root / "out" / "twin").hardlink_to(self.secret)
        (self.root / "out" / "soft").symlink_to(self.secret)

    def run(self, program: Path, *arguments: str, options: tuple[str, ...] = ()) -> Ended:
        """Run a program there; the host must be as it was."""
        before = self.outside()
        command = [sys.executable, "-c", START, "run", "--mode", "edges", "--writable"]
        command += [str(self.root / "out"), "--root", str(self.root), *options]
        command += ["--json", str(self.base / "json"), "--report", os.devnull]
        done = subprocess.run(
            [*command, str(program), "--", *arguments],
            cwd=self.root, env={**os.environ, "PYTHONPATH": str(ROOT), "HOSTS": "own"},
            capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        path = self.base / "json"
        answer = json.loads(path.read_text()) if path.exists() else None
        path.unlink(missing_ok=True)
        assert "Traceback" not in done.stderr
        assert self.outside() == before
        return Ended(done.returncode, done.stdout, done.stderr, answer)

    def outside(self) -> dict[str, bytes]:
        """Return everything outside of `out`, with its contents."""
        names = [
            path for path in self.base.rglob("*") if "out" not in path.relative_to(self.base).parts
        ]
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in names}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def build(compile_c: Compile, name: str, width: str = "v9") -> Path:
    """Compile a hostile program."""
    return compile_c(HOSTILE / f"{name}.c", ("-O1", f"-I{HOSTILE}"), width)


def answers(ended: Ended) -> dict[str, str]:
    """Return what a program told of what it tried."""
    return dict(line.split(": ", 1) for line in ended.output.splitlines() if ": " in line)


@pytest.mark.long
def test_special_files(compile_c: Compile, place: Place) -> None:
    ended = place.run(build(compile_c, "special"))
    assert (ended.status, ended.end) == (0, "exit")
    told = answers(ended)
    assert len(told) == 16 + 8
    done = {what for what, answer in told.items() if answer == "DONE"}
    assert done == {"make a set-user program", "chmod", "host's name of the output"}
    assert ended.output.endswith("\npipe\n")
    assert (place.root / "out" / "suid").stat().st_mode & 0o7000 == 0
    assert {path.name for path in (place.root / "out").iterdir()} == {"suid", "soft", "twin"}


@pytest.mark.long
def test_links(compile_c: Compile, place: Place) -> None:
    ended = place.run(build(compile_c, "links"), str(place.secret))
    assert (ended.status, ended.end) == (0, "exit")
    told = answers(ended)
    done = {what for what, answer in told.items() if answer == "DONE"}
    assert done == {"move an open directory", "a link in its place"}
    assert told["bytes of outside"] == "0"


@pytest.mark.long
@WIDTHS
def test_mappings(compile_c: Compile, place: Place, width: str) -> None:
    ended = place.run(build(compile_c, "mappings", width))
    told = answers(ended)
    assert "DONE" not in told.values()
    assert told["overlapping"] == "2000" and told["room for"] == "1"
    assert (ended.status, ended.end) == (139, "fault")


@pytest.mark.parametrize(
    ("way", "status", "end"),
    [
        ("recursion", 139, "fault"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("descriptors", 0, "exit"),
                ("stack-code", 139, "fault"),
                ("fault-loop", 124, "budget"),
                ("signal-loop", 139, "fault"),
                ("handler-on-no-stack", 139, "fault"),
                ("flood", 124, "budget"),
                ("sparse", 0, "exit"),
                ("wild-stack", 138, "fault"),
                ("loop-in-itself", 124, "budget"),
                ("no-memory", 3, "exit"),
            )
        ),
    ],
)
def test_endings(compile_c: Compile, place: Place, way: str, status: int, end: str) -> None:
    budget = "5000000" if way == "descriptors" else "200000"
    options = ("--max-instructions", budget, "--memory-limit", "128M", "--stack-size", "1M")
    ended = place.run(build(compile_c, "endings"), way, options=options)
    assert (ended.status, ended.end) == (status, end), ended.errors
    if way == "descriptors":
        assert ended.output == "1021 -1\n"
    if way == "sparse":
        made = place.root / "out" / "sparse"
        assert (ended.output, made.stat().st_size) == ("1\n0\n", 1 << 30)
        assert made.stat().st_blocks * 512 < 1 << 20


# The data segment of a static program has its PLT, and may be executed.
@pytest.mark.parametrize("way", ["generated", pytest.param("data", marks=pytest.mark.long)])
def test_code_that_is_not_the_files(compile_c: Compile, place: Place, way: str) -> None:
    ended = place.run(build(compile_c, "endings"), way)
    assert (ended.status, ended.end) == (0, "exit"), ended.errors
    assert ended.answer is not None
    assert "(generated code)" in [routine["routine"] for routine in ended.answer["routines"]]


@pytest.mark.long
def test_code_that_is_not_the_files_any_more(compile_c: Compile, place: Place) -> None:
    ended = place.run(build(compile_c, "endings"), "changed")
    assert (ended.status, ended.answer) == (125, None)
    assert "the program changes its own code at 0x" in ended.errors
    assert ended.errors.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("width", ["v8plus"])
def test_what_can_be_learnt_is_the_same_elsewhere(
    compile_c: Compile, tmp_path: Path, width: str
) -> None:
    """Another directory, with a name as long, and other times of files: same output, same counts.

    Its length is what the C library copies when it starts, under any Linux.
    """
    program = build(compile_c, "learn", width)
    first, second = (elsewhere(tmp_path / name, program) for name in ("here", "otto"))
    assert first.status == 0
    assert second.output == first.output
    assert second.answer == first.answer
    learnt = first.output.splitlines()
    assert learnt[0].split()[1] != os.uname().nodename
    assert "HOSTS=own" not in first.output


@pytest.mark.long
def test_a_program_without_a_library_counts_the_same_anywhere(tmp_path: Path) -> None:
    program = FIXTURES / "bin" / "v9" / "signals.elf"
    names = ("here", "some/other/place/with/a/longer/name")
    first, second = (elsewhere(tmp_path / name, program) for name in names)
    assert (first.status, second.answer) == (0, first.answer)


def elsewhere(base: Path, program: Path) -> Ended:
    """Run a copy of a program below `base`."""
    where = Place(base)
    copy = where.root / "program"
    copy.write_bytes(program.read_bytes())
    copy.chmod(0o755)
    os.utime(where.root / "input", (len(base.name), len(base.name)))
    ended = where.run(Path("./program"))
    assert ended.answer is not None, ended.errors
    ended.answer["program"].pop("file")
    return ended


@pytest.mark.long
def test_a_flood_into_a_closed_pipe_ends(compile_c: Compile, tmp_path: Path) -> None:
    program = build(compile_c, "endings")
    with (tmp_path / "errors").open("wb") as errors:
        simprof = subprocess.Popen(
            [sys.executable, "-c", START, "run", str(program), "--", "flood"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    assert simprof.stdout is not None
    assert simprof.stdout.read(100) == b"x" * 100
    simprof.stdout.close()
    peak = 0
    deadline = time.monotonic() + 60
    while simprof.poll() is None and time.monotonic() < deadline:
        peak = max(peak, peak_memory(simprof.pid))
        time.sleep(0.005)
    # Of SIGPIPE, as the program would have died of it on Linux.
    assert simprof.poll() == 128 + 13, (tmp_path / "errors").read_text()
    assert 0 < peak < 1 << 30
