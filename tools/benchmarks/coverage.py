"""Coverage of a large program, exported and read back, for `tools/scale.py`.

The program is built at each level of optimisation, and linked statically and dynamically. For each
a process runs it, exports the lines that were executed in every format of coverage, and has the
consumer of each format read them (`tests.support.coverage.read_back`).

    python -m tools.benchmarks.coverage RESULT ROOT PROGRAM [ARG...]

is such a process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simprof.profiler.experiments.suites import toolchain
from simprof.profiler.experiments.suites.sources import (
    fetched_archive,
    prepare,
    suite_cache,
    unpack,
)
from simprof.profiler.experiments.suites.suite import Benchmark, Input
from simprof.simulator.errors import SimulatorError
from tests.support.coverage import exported, read_back
from tools.benchmarks.processes import Cost, measure
from tools.benchmarks.rows import ROOT

LEVELS = ("-O0", "-Og", "-O1", "-O2", "-Os")
LINKAGES = {"static": "-static", "dynamic": ""}
"""How it is linked, and the linker's flag for that."""
SETTINGS = ("RDYNAMIC=", "CPPCHK_GLIBCXX_DEBUG=")
"""What the Makefile would give the compiler beside the flags."""
HEAD = ("| built with | lines executed | processor time | memory |", "|---|--:|--:|--:|")


@dataclass(frozen=True)
class ReadBack:
    """What it took to run, to export and to read; lines that were executed, and all lines."""

    cost: Cost
    executed: int
    lines: int

    def row(self, label: str) -> str:
        """Return a row of the table."""
        return (
            f"| {label} | {self.executed:,} of {self.lines:,} | {self.cost.cpu:,.0f} s "
            f"| {self.cost.peak / 2**20:,.0f} MB |"
        )


def measure_coverage(benchmark: Benchmark, timeout: float, levels: Sequence[str] = LEVELS) -> str:
    """Build a program at several levels, and read its coverage back; return what was found.

    Raises
    ------
    SimulatorError
        If it cannot be built, or not be read back.
    """
    package = benchmark.recipe.package
    assert package is not None
    rows = []
    for level in levels:
        with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
            tree = Path(scratch) / package.directory
            unpack(fetched_archive(package, suite_cache()), tree, package.directory)
            for label, program in linked(benchmark, tree, level):
                rows.append(measured(program, benchmark.inputs["train"], timeout).row(label))
    return (
        f"Coverage of {package.name}, exported as `lcov`, `cobertura` and `gcov`, and read back by "
        "lcov, with the DTD, and by gcovr; all find the same lines and counts. Each row is one "
        "process that runs the program, exports, and reads:\n\n" + "\n".join([*HEAD, *rows]) + "\n"
    )


def linked(benchmark: Benchmark, tree: Path, level: str) -> Iterator[tuple[str, Path]]:
    """Build the program in `tree` and yield it, with what to call it, once in each way of linking.

    Raises
    ------
    BuildError
        If it cannot be built.
    """
    prepare(benchmark, lambda: tree)
    product = benchmark.recipe.product
    assert product is not None
    flags = f"CXXFLAGS={level} -g -w"
    words = ["make", "-j2", f"CXX={toolchain.COMPILERS['c++']}", flags, *SETTINGS]
    for linkage, flag in LINKAGES.items():
        (tree / product).unlink(missing_ok=True)
        toolchain.run([*words, f"LDFLAGS={flag}", product], tree)
        yield f"`{level}`, {linkage}", tree / product


def measured(program: Path, given: Input, timeout: float) -> ReadBack:
    """Read back the coverage of a program, in a process of its own.

    Raises
    ------
    SimulatorError
        If that fails, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        result = Path(scratch) / "result.json"
        own = [sys.executable, "-m", "tools.benchmarks.coverage", str(result)]
        cost = measure(
            [*own, str(given.root or scratch), str(program), *given.arguments],
            timeout=timeout,
            directory=ROOT,
            environment={**os.environ, "XDG_CACHE_HOME": scratch},
            status=given.status,
        )
        if cost.outcome != "ok":
            raise SimulatorError(f"{program}: {cost.outcome}: {cost.detail}")
        return ReadBack(cost, *json.loads(result.read_text()))


def main(words: Sequence[str]) -> int:
    """Read back the coverage of one program; write how many lines it has; return its status."""
    result, root, program, *arguments = words
    with tempfile.TemporaryDirectory(prefix="simprof-scale-") as scratch:
        source = exported(Path(program), Path(scratch), Path(root), arguments)
        Path(result).write_text(json.dumps(read_back(source, Path(scratch))))
    return source.measurement.ending.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
