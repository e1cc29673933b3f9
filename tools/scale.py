#!/usr/bin/env python3
"""How simprof grows: large programs, long runs, a large sweep, memory. For docs/reliability.md.

    python tools/scale.py [--part PART]... [--programs N] [--timeout SECONDS]

Parts are `synthetic` (programs of 1, 10 and 100 MB of text, written by `benchmarks.synthetic`),
`real` (cppcheck as debuggers get it, without optimisation: more than 36,000 routines), `coverage`
(cppcheck at five levels of optimisation, static and dynamic, its coverage exported and read back:
`benchmarks.coverage`), `long` (runs of 10^8, 10^9 and 10^10 instructions), `memory` (programs that
would have simprof hold more than their memory limit: `benchmarks.kept_memory`), and `sweep` (10,000
cells on a Dask cluster of three workers, one of which is killed while it works; every row is
compared with those of a sweep without a cluster). All of them by default: more than an hour. Each
keeps its figure in docs/reliability.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.simulator.binary.elf import load
from simprof.simulator.errors import SimulatorError
from tools import reliability_figures
from tools.benchmarks import synthetic
from tools.benchmarks.commands import run_facts, simprof_command
from tools.benchmarks.coverage import measure_coverage
from tools.benchmarks.kept_memory import measure_memory
from tools.benchmarks.processes import measure
from tools.benchmarks.programs import Program
from tools.benchmarks.rows import ROOT

SUITE = Path(__file__).with_name("benchmarks") / "scale.toml"
REAL = "cppcheck-unoptimised"
SIZES = (1_000, 10_000, 100_000)
"""Routines of the synthetic programs, one kilobyte each."""
LONG = ROOT / "fixtures" / "bin" / "v9" / "bench.elf"
ROUNDS = (45, 450, 4_500)
"""Its argument: 2.26 million instructions a round."""
WORKERS = 3
PROGRAMS = 148
"""Programs of the sweep, each of another size, with 68 cells each."""
GRID = """\
modes = ["pp", "tpp", "bittrace", "kiter", "qpt2", "qpt", "naive", "calls"]
settings = [%s]
"""
LIMITS = range(10, 90, 10)
"""Limits of paths, and with each, counters as arrays and in hash tables."""
COMMAND = "make scale"
PARTS = ("synthetic", "real", "coverage", "long", "memory", "sweep")


@dataclass(frozen=True)
class Taken:
    """What a command took: seconds of processor time, bytes of memory, instructions it ran."""

    label: str
    cpu: float
    peak: int
    instructions: int


def run_edges(program: Program, label: str, timeout: float) -> Taken:
    """Measure `simprof run --mode=edges` of a program that simprof knows nothing of.

    Raises
    ------
    SimulatorError
        If the command fails, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        report = Path(scratch) / "report.json"
        cost = measure(
            simprof_command(program, "run-edges", report),
            timeout=timeout,
            directory=ROOT,
            environment={**os.environ, "XDG_CACHE_HOME": scratch},
            status=program.status,
        )
        if cost.outcome != "ok":
            raise SimulatorError(f"{label}: {cost.outcome}: {cost.detail or f'{cost.cpu:.0f} s'}")
        return Taken(label, cost.cpu, cost.peak, run_facts(report)["instructions"])


def table(heading: str, taken: Sequence[Taken]) -> str:
    """Return what was taken as a table of Markdown."""
    rows = [
        f"| {each.label} | {each.instructions:,} | {each.cpu:,.1f} s "
        f"| {each.peak / 2**20:,.0f} MB |"
        for each in taken
    ]
    head = [f"| {heading} | instructions | processor time | memory |", "|---|--:|--:|--:|"]
    return "\n".join([*head, *rows]) + "\n"


def measure_synthetic(sizes: Sequence[int], timeout: float) -> str:
    """Measure synthetic programs; return what was found."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        for size in sizes:
            path = Path(scratch) / f"synthetic{size}.elf"
            synthetic.write(path, size)
            label = f"{size:,} routines, {size * synthetic.SIZE / 1e6:,.1f} MB"
            taken.append(run_edges(Program(path.stem, path, 64, (), Path(scratch)), label, timeout))
            path.unlink()
    return "`run --mode=edges` of synthetic programs, first run:\n\n" + table("program", taken)


def measure_real(timeout: float) -> str:
    """Measure the real program; return what was found."""
    suite = load_suite(str(SUITE))
    report = build_suite(suite, widths=(64,))
    for (name, _), why in report.failures.items():
        raise SimulatorError(f"{name} cannot be built: {why}")
    (built,) = report.programs.values()
    given = suite.benchmark(REAL).inputs["train"]
    root = given.root or built.path.parent
    program = Program(REAL, built.path, 64, given.arguments, root, given.stdin, given.status)
    count = routines(built.path)
    taken = run_edges(program, f"{REAL}, {count:,} routines", timeout)
    return "`run --mode=edges` of a real program, first run:\n\n" + table("program", [taken])


def routines(path: Path) -> int:
    """Return how many routines the symbols of a program name."""
    symbols = load(path).symbols
    return len({each.address for each in symbols if each.is_function and each.size})


def measure_long(rounds: Sequence[int], timeout: float) -> str:
    """Measure runs of several lengths; return what was found."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        for count in rounds:
            program = Program(LONG.stem, LONG, 64, (str(count),), Path(scratch))
            taken.append(run_edges(program, f"bench.elf {count}", timeout))
    longest = taken[-1]
    return (
        f"`run --mode=edges`, first run; {longest.instructions / longest.cpu / 1e6:,.0f} million "
        "instructions a second in the longest:\n\n" + table("run", taken)
    )


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """A Dask cluster of worker processes: its address, and what kills one of them by SIGKILL."""
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", processes=True
    ) as made:

        def kill() -> None:
            nanny = next(iter(made.workers.values()))
            os.kill(nanny.pid, signal.SIGKILL)

        yield made.scheduler_address, kill


def measure_sweep(programs: int, timeout: float) -> str:
    """Sweep on a cluster of which a worker is killed; return what was found.

    Raises
    ------
    SimulatorError
        If a cell is missing or failed, or a row is not that of a sweep without a cluster.
    """
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        directory = Path(scratch)
        grid = write_grid(directory, programs)
        began = time.monotonic()
        with cluster(WORKERS) as (address, kill):
            found = directory / "cluster.db"
            words = ["sweep", str(grid), "-o", str(found), "--scheduler", address]
            killed = _sweep(words, found, timeout, kill)
        seconds = time.monotonic() - began
        alone = directory / "alone.db"
        _sweep(["sweep", str(grid), "-o", str(alone), "--jobs", "2"], alone, timeout)
        rows, expected = rows_of(found), rows_of(alone)
    failed = sum(error is not None for *_, error in rows)
    if rows != expected or failed:
        raise SimulatorError(f"{len(rows)} of {len(expected)} rows, {failed} failed, or others")
    return (
        f"{len(rows):,} cells of {programs} programs on a Dask cluster of {WORKERS} workers, one "
        f"of which was killed after {killed:,} cells: {seconds:,.0f} s. All rows are there, none "
        "failed, and they are those of a sweep without a cluster.\n"
    )


def write_grid(directory: Path, programs: int) -> Path:
    """Write the grid of the sweep, and its programs."""
    settings = ", ".join(
        f'{{ path_limit = {limit}, table = "{kept}" }}'
        for limit in LIMITS
        for kept in ("array", "hash")
    )
    lines = [GRID % settings]
    for number in range(programs):
        path = directory / f"p{number}.elf"
        synthetic.write(path, 1 + number % 50)
        with path.open("ab") as file:
            file.write(number.to_bytes(4, "big"))  # another program, by its digest
        lines.append(f'[[program]]\nfile = "{path.name}"\n')
    grid = directory / "grid.toml"
    grid.write_text("\n".join(lines))
    return grid


def _sweep(
    words: Sequence[str], file: Path, timeout: float, kill: Callable[[], None] | None = None
) -> int:
    """Run a sweep; kill a worker when the first rows are there. Return how many rows.

    The rows are those that were there when the worker was killed.
    """
    command = [sys.executable, "-m", "simprof", *words, "--no-progress"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + timeout
    there = 0
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise SimulatorError(f"the sweep has not ended after {timeout:.0f} s")
            time.sleep(0.5)
            if kill is not None and not there and (count := _count(file)):
                there = count
                kill()
        _, said = process.communicate()
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise SimulatorError(f"the sweep failed: {said.decode(errors='replace').strip()}")
    if kill is not None and not there:
        raise SimulatorError("the sweep ended before a worker could be killed")
    return there


def _count(file: Path) -> int:
    """Return how many rows a results file has, 0 while there is none."""
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
            (count,) = connection.execute("SELECT count(*) FROM cells").fetchone()
    except sqlite3.Error:
        return 0
    return int(count)


def rows_of(file: Path) -> list[tuple[object, ...]]:
    """Return all that a sweep found, but for times; errors come last."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        cursor = connection.execute(
            "SELECT benchmark, setting, program, key, base, added, result, error FROM cells "
            "ORDER BY benchmark, setting, key"
        )
        return cursor.fetchall()


def compile_kernels(timeout: float) -> None:
    """Let a fresh copy of simprof compile its kernels, which takes longer than what is measured."""
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        run_edges(Program(LONG.stem, LONG, 64, ("1",), Path(scratch)), "", timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--timeout", type=float, default=3600.0, metavar="SECONDS", help="of one command")
    add("--programs", type=int, default=PROGRAMS, metavar="N", help="programs of the sweep")
    add("--part", action="append", default=[], choices=PARTS)
    given = parser.parse_args(arguments)
    parts: Mapping[str, Callable[[], str]] = {
        "synthetic": lambda: measure_synthetic(SIZES, given.timeout),
        "real": lambda: measure_real(given.timeout),
        "coverage": lambda: measure_coverage(load_suite(str(SUITE)).benchmark(REAL), given.timeout),
        "long": lambda: measure_long(ROUNDS, given.timeout),
        "memory": lambda: measure_memory(given.timeout),
        "sweep": lambda: measure_sweep(given.programs, given.timeout),
    }
    compile_kernels(given.timeout)
    for name, part in parts.items():
        if given.part and name not in given.part:
            continue
        try:
            says = part()
        except SimulatorError as error:
            print(f"scale: {name}: {error}", file=sys.stderr)
            return 1
        print(says)
        reliability_figures.keep(f"scale-{name}", says, COMMAND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
