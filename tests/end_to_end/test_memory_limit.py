"""`--memory-limit` bounds what simprof holds, whatever the program calls.

The ways are in `tests/programs/hostile/memory.c`. Memory is what a fresh process has held at most.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.toolchain, pytest.mark.long]
SOURCE = Path(__file__).parents[1] / "programs" / "hostile" / "memory.c"
MEGABYTE = 1 << 20
LIMIT = 32
SLACK = 16
"""Megabytes that simprof may need besides: pieces of data, and parts of the log of answers."""
START = """
import sys
from pathlib import Path
from simprof.profiler.cli import run
status = run()
for line in Path("/proc/self/status").read_text().splitlines():
    if line.startswith("VmHWM:"):
        sys.stderr.write(line + "\\n")
sys.exit(status)
"""


@dataclass(frozen=True)
class Ended:
    """What the program told, and the megabytes that simprof held at most."""

    told: str
    peak: float


class Runs:
    """Runs of the program under the limit."""

    def __init__(self, program: Path, base: Path) -> None:
        self._program = program
        self.root = base / "root"
        (self.root / "out").mkdir(parents=True)
        self.run("none", 0)  # which compiles what is not compiled yet
        self.idle = self.run("none", 0).peak

    def run(self, way: str, count: int, stdin: Path | None = None) -> Ended:
        """Run the program one way."""
        words = ["run", "--mode=edges", f"--memory-limit={LIMIT}M", "--stack-size=1M", "--root"]
        words += [str(self.root), "--writable", str(self.root / "out"), "--report", os.devnull]
        words += [] if stdin is None else ["--stdin", str(stdin)]
        done = subprocess.run(
            [sys.executable, "-c", START, *words, str(self._program), "--", way, str(count)],
            cwd=self.root, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        *told, last = done.stderr.splitlines()
        return Ended("\n".join(told), int(last.split()[1]) / 1024)


@pytest.fixture(scope="module")
def runs(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(compile_c(SOURCE, ("-O1",)), tmp_path_factory.mktemp("memory"))


@pytest.mark.parametrize(
    ("way", "count", "told"),
    [
        ("overlapping", 200, 200 * MEGABYTE),
        ("beyond", 200, MEGABYTE // 2),
        ("windows", 200, 0),
        ("hidden", 200, 1),
        ("made-up", 200, 1),
        ("input", 200, 0),
        ("calls", 150_000, 0),
    ],
)
def test_a_program_makes_simprof_hold_no_more(
    runs: Runs, way: str, count: int, told: int, tmp_path: Path
) -> None:
    stdin = None
    if way == "input":
        stdin = tmp_path / "input"
        with stdin.open("wb") as file:
            file.truncate(count * MEGABYTE)
    ended = runs.run(way, count, stdin)
    assert ended.told == f"{way}: {told}"
    assert ended.peak < runs.idle + LIMIT + SLACK
