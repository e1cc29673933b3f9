"""An independent profiler: gcov's line counts of the same source, compiled for this machine.

A line whose code lies in one block of the SPARC program executes as often as that block; gcov
counts it in a native build. Lines spread over several blocks (loop headers, conditions with side
effects) have no one count and are left out; enough lines must remain.

The SPARC program can have gcc's counters in it as well. It then writes them while it is emulated,
and gcov, for SPARC, tells how often routines and lines were executed. simprof counts the program
without these counters.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.experiments.cells.executed import arc_counts
from tests.conftest import WIDTH_FLAGS
from tests.oracles.exact import Simulated, simulate
from tests.support.turns import first

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>

static unsigned seed = 1;

static unsigned draw(unsigned limit)
{
    seed = seed * 1103515245u + 12345u;
    return seed / 65536u % limit;
}

static int classify(int n)
{
    int result = 0;
    switch (n % 7) {
    case 0:
        result = 3;
        break;
    case 1:
    case 2:
        result = n / 2;
        break;
    case 3:
        result = -n;
        /* falls through */
    case 4:
        result += 9;
        break;
    default:
        result = 1;
    }
    return result;
}

static int walk(int depth)
{
    int sum = depth;
    if (depth > 0) {
        sum += walk(depth - 1);
        if (depth % 3 == 0)
            sum += walk(depth - 2);
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    int left = *(const int *)a;
    int right = *(const int *)b;
    if (left < right)
        return -1;
    if (left > right)
        return 1;
    return 0;
}

int main(void)
{
    int values[200];
    int total = 0;
    for (int i = 0; i < 200; i++) {
        values[i] = (int)draw(1000);
        total += classify(values[i]);
    }
    qsort(values, 200, sizeof values[0], compare);
    for (int i = 1; i < 200; i++) {
        if (values[i] == values[i - 1]) {
            total++;
            continue;
        }
        while (total > 5000) {
            total -= 77;
            if (total % 5 == 0)
                break;
        }
    }
    total += walk(14);
again:
    total -= 3;
    if (total % 11 != 0)
        goto again;
    printf("%d\n", total);
    return 0;
}
"""


CROSS = "sparc64-linux-gnu-gcc-12"
CROSS_GCOV = ("sparc64-linux-gnu-gcov-12", "sparc64-linux-gnu-gcov-dump-12")


def gcov_counts(directory: Path) -> dict[int, int]:
    """Line -> executions of a native build."""
    source = directory / "counted.c"
    source.write_text(SOURCE)
    build = ["gcc", "-O0", "--coverage", "counted.c", "-o", "counted"]
    for command in (build, ["./counted"]):
        subprocess.run(command, cwd=directory, capture_output=True, check=True)
    (data,) = directory.glob("*.gcda")
    return line_counts(gcov_report("gcov", data))


def gcov_report(gcov: str, data: Path) -> dict[str, Any]:
    """What gcov says of the source, as it writes it."""
    command = [gcov, "--json-format", "--stdout", data.name]
    done = subprocess.run(command, cwd=data.parent, capture_output=True, check=True)
    (report,) = [
        each for each in json.loads(done.stdout)["files"] if each["file"].endswith("counted.c")
    ]
    return dict(report)


def line_counts(report: dict[str, Any]) -> dict[int, int]:
    return {line["line_number"]: line["count"] for line in report["lines"]}


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


@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
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
@pytest.mark.parametrize("width", ["v9", "v8plus"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fno-inline", "-fno-partial-inlining")])
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
