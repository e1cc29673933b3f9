"""An independent profiler: gcov's line counts of the same source, compiled for this machine.

A line whose code lies in one block of the SPARC program executes as often as that block; gcov
counts it in a native build. Lines spread over several blocks (loop headers, conditions with side
effects) have no one count and are left out; enough lines must remain.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles.exact import Simulated, simulate

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


def gcov_counts(directory: Path) -> dict[int, int]:
    """Line -> executions of a native build."""
    source = directory / "counted.c"
    source.write_text(SOURCE)
    build = ["gcc", "-O0", "--coverage", "counted.c", "-o", "counted"]
    for command in (build, ["./counted"]):
        subprocess.run(command, cwd=directory, capture_output=True, check=True)
    (data,) = directory.glob("*.gcda")
    command = ["gcov", "--json-format", "--stdout", data.name]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=True)
    (report,) = [
        each for each in json.loads(done.stdout)["files"] if each["file"].endswith("counted.c")
    ]
    return {line["line_number"]: line["count"] for line in report["lines"]}


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
@pytest.mark.parametrize("width", ["v9", "v8plus"])
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
