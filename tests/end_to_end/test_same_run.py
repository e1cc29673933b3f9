"""A run is the same cold, warm and without a cache: its counts, and how often it was emulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session import session
from simprof.profiler.session.session import run_program

pytestmark = pytest.mark.toolchain

SOURCE = r"""
/* As compilers do: removes its output, writes it and looks at it. The second run finds one there.
   On the way doubles are stored at multiples of 4, at first stores to pages among others. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((noinline)) static void put(char *place, double value) { *(double *)place = value; }
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void)
{
    int values[50];
    struct stat status;
    char *place = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 50; i++) {
        put(place + 8192 * i + 4 + 8 * (i % 1024), i);
        values[i] = i * 7919 % 101;
    }
    qsort(values, 50, sizeof *values, compare);
    unlink("output");
    FILE *file = fopen("output", "w");
    fwrite(values, sizeof values, 1, file);
    fclose(file);
    chmod("output", 0755);
    stat("output", &status);
    return status.st_size == 200 ? 0 : 1;
}
"""


@pytest.mark.long
@pytest.mark.parametrize("width", ["v9"])
def test_cold_warm_and_without_a_cache(
    compile_c: Callable[..., Path], width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    path = compile_c(SOURCE, ("-O1",), width)
    root = tmp_path / "root"
    root.mkdir()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=root, writable=root, stdout=nowhere, stderr=nowhere)
    found: list[tuple[int, int]] = []
    for remember in (False, True, True, True, False):
        if len(found) == 1:
            (root / "output").unlink()
        measurement = run_program(RunRequest(path, guest, remember=remember))
        assert measurement.ending.status == 0
        found.append((measurement.base, measurement.counts["runs"]))
    os.close(nowhere)
    first, later = found[0], found[2]
    assert found == [first, first, later, later, later]  # there is an output to be removed
    assert (first[1], later[1]) == (1, 1)
