"""Shared by tests: what `tests/end_to_end/test_gcov.py` and others use."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

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
