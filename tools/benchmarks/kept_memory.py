"""What simprof holds at most while a program does its worst, beside the memory limit of the run.

The ways are in `tests/programs/hostile/memory.c`; each is a first run of its own process, which
knows nothing of the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simprof.simulator.errors import SimulatorError
from tools.benchmarks.commands import START
from tools.benchmarks.processes import measure
from tools.benchmarks.rows import ROOT

COMPILER = "sparc64-linux-gnu-gcc-12"
SOURCE = ROOT / "tests" / "programs" / "hostile" / "memory.c"
LIMITS = (64, 512)
"""Megabytes of `--memory-limit`."""
IDLE = ("none", 0, "it does nothing")
WAYS = (
    ("overlapping", 1024, "one `writev` of 1 GB: a buffer of 1 MB, 1,024 times"),
    ("beyond", 2000, "a `read` of 2 GB from a sparse file into half a megabyte"),
    ("windows", 2000, "`MAP_SHARED` windows of 8 MB over a sparse file of 2 GB"),
    ("hidden", 2000, "2 GB of private memory, filled, then without rights"),
    ("made-up", 2000, "2,000 open `/proc/self/maps` of 1 MB"),
    ("input", 2000, "2 GB of standard input"),
    ("calls", 1_000_000, "1,000,000 small writes"),
)
"""Ways of the program, the argument of each, and what it does."""


@dataclass(frozen=True)
class Held:
    """The megabytes that simprof held at most under each of the limits."""

    label: str
    peaks: tuple[float, ...]


def compiled(directory: Path) -> Path:
    """Compile the program.

    Raises
    ------
    SimulatorError
        If there is no compiler.
    """
    program = directory / "memory.elf"
    try:
        words = [COMPILER, "-O1", "-static", "-w", "-o", str(program), str(SOURCE)]
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SimulatorError(f"{SOURCE} cannot be compiled: {error}") from None
    return program


def held(program: Path, way: str, count: int, limit: int, timeout: float) -> float:
    """Return the megabytes that a run of the program held at most.

    Raises
    ------
    SimulatorError
        If it fails, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        root, stdin = Path(scratch) / "root", Path(scratch) / "input"
        (root / "out").mkdir(parents=True)
        with stdin.open("wb") as file:
            file.truncate(count << 20 if way == "input" else 0)
        options = [f"--memory-limit={limit}M", "--stack-size=1M", "--root", str(root)]
        options += ["--writable", str(root / "out"), "--stdin", str(stdin), "--report", os.devnull]
        command = [sys.executable, "-c", START, "run", "--mode=edges", "--no-progress", *options]
        cost = measure(
            [*command, str(program), "--", way, str(count)],
            timeout=timeout,
            directory=ROOT,
            environment={**os.environ, "XDG_CACHE_HOME": scratch},
        )
    if cost.outcome != "ok":
        raise SimulatorError(f"{way}: {cost.outcome}: {cost.detail}")
    return cost.peak / 2**20


def measure_memory(timeout: float) -> str:
    """Measure all ways under all limits; return what was found."""
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        program = compiled(Path(scratch))
        found = [
            Held(label, tuple(held(program, way, count, limit, timeout) for limit in LIMITS))
            for way, count, label in (IDLE, *WAYS)
        ]
    return "Resident memory of `run --mode=edges`, first run:\n\n" + table(found)


def table(found: Sequence[Held]) -> str:
    """Return what was found as a table of Markdown."""
    heads = "".join(f" `--memory-limit {limit}M` |" for limit in LIMITS)
    rows = [
        f"| {each.label} | " + " | ".join(f"{peak:,.0f} MB" for peak in each.peaks) + " |"
        for each in found
    ]
    return "\n".join([f"| the program |{heads}", "|---|" + "--:|" * len(LIMITS), *rows]) + "\n"
