"""An independent profiler: gcov's line counts of the same source, compiled for this machine.

A line whose code lies in one block of the SPARC program executes as often as that block; gcov
counts it in a native build. Lines spread over several blocks (loop headers, conditions with side
effects) have no one count and are left out; enough lines must remain.

The SPARC program can have gcc's counters in it as well. It then writes them while it is emulated,
and gcov, for SPARC, tells how often routines and lines were executed. simprof counts the program
without these counters.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.experiments.cells.executed import arc_counts
from tests.conftest import WIDTH_FLAGS
from tests.oracles.exact import Simulated, simulate
from tests.support.gcov import SOURCE, gcov_counts, gcov_report, line_counts

CROSS = "sparc64-linux-gnu-gcc-12"
CROSS_GCOV = ("sparc64-linux-gnu-gcov-12", "sparc64-linux-gnu-gcov-dump-12")


def emulated_counters(directory: Path, width: str, flags: Sequence[str]) -> Path:
    """The file of counters that a SPARC program wrote while simprof emulated it."""
    (directory / "counted.c").write_text(SOURCE)
    counting = ["--coverage", "-fprofile-dir=.", f"-fprofile-prefix-path={directory}"]
    command = [CROSS, *WIDTH_FLAGS[width], *flags, "-static", *counting, "-o", "counted"]
    command.append("counted.c")
    subprocess.run(command, cwd=directory, capture_output=True, check=True)
    words = ["--root", str(directory), "--writable", str(directory), "--mode", "edges"]
    assert cli.run(["run", *words, str(directory / "counted")]) == 0
    (notes,), (data,) = directory.glob("*.gcno"), directory.glob("*.gcda")
    return data.rename(notes.with_suffix(".gcda"))


def simprof_counts(simulated: Simulated) -> dict[int, set[int]]:
    """Line -> executions of the blocks that hold its code."""
    found: dict[int, set[int]] = defaultdict(set)
    blocks: dict[int, set[tuple[int, bool]]] = defaultdict(set)
    lines = simulated.observation.program.lines
    for events in simulated.observation.events.values():
        for block, count in zip(events.cfg.blocks, events.block_counts, strict=True):
            for address in range(block.start, block.end, 4):
                line = lines.find(address)
                if line is not None and line.file.endswith("source.c"):
                    found[line.line].add(count)
                    blocks[line.line].add((block.start, block.is_slot))
    return {line: counts for line, counts in found.items() if len(blocks[line]) == 1}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9"])
def test_line_counts_are_those_of_gcov(
    compile_c: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    absent = [tool for tool in ("gcc", "gcov") if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"no {' and '.join(absent)}: install gcc for this machine")
    expected = gcov_counts(tmp_path)
    source = tmp_path / "counted.c"
    program = compile_c(source, ("-O0", "-g"), width)
    counted = simprof_counts(simulate(program, directory=tmp_path, modes=("edges",)))
    common = counted.keys() & expected.keys()
    assert {line: counted[line] for line in common} == {line: {expected[line]} for line in common}
    assert len(common) > 25


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("width", "flags"),
    [("v9", ("-O0",)), ("v8plus", ("-O2", "-fno-inline", "-fno-partial-inlining"))],
)
def test_counts_are_those_of_the_counters_in_the_program(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, flags: tuple[str, ...]
) -> None:
    """Counters read by gcov and by simprof, against simprof's counts of the plain program.

    With -O2 lines are spread over blocks; how often a routine was called remains, where none is
    part of another.
    """
    data = emulated_counters(tmp_path, width, flags)
    report = gcov_report(CROSS_GCOV[0], data)
    program = compile_c(tmp_path / "counted.c", (*flags, "-g"), width)
    simulated = simulate(program, directory=tmp_path, modes=("edges",))
    entered = {
        routine.name: routine.activations for routine in simulated.measurements["edges"].routines
    }
    called = {each["name"]: each["execution_count"] for each in report["functions"]}
    common = called.keys() & entered.keys()
    assert {name: entered[name] for name in common} == {name: called[name] for name in common}
    assert {"main", "walk", "compare", "classify"} <= common
    assert sorted(dumped_counters(data)) == sorted(
        count for counts in arc_counts(data).values() for count in counts
    )
    if "-O0" in flags:
        expected, counted = line_counts(report), simprof_counts(simulated)
        lines = counted.keys() & expected.keys()
        assert {line: counted[line] for line in lines} == {line: {expected[line]} for line in lines}
        assert len(lines) > 25


def dumped_counters(data: Path) -> list[int]:
    """All counters of a file, as gcov-dump lists them."""
    command = [CROSS_GCOV[1], "-l", data.name]
    done = subprocess.run(command, cwd=data.parent, capture_output=True, check=True, text=True)
    rows = re.findall(r"^\S+:\s+\d+: ([\d ]+)$", done.stdout, re.MULTILINE)
    counters = [int(word) for row in rows for word in row.split()]
    assert sum(counters) > 1000
    return counters
