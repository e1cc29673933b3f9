"""Bit tracing on whole programs: codes of several words, tables, a program of the C library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    SchemeOptions,
    TableChoice,
)
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.profiler.schemes.pp import plan_pp
from tests.oracles.exact import simulate

ElfFinder = Callable[..., Path]


def edges_of(measurement: RunMeasurement) -> dict[object, list[int]]:
    return {r.key: [edge.count for edge in r.edge_counts] for r in measurement.routines}


def paths_of(measurement: RunMeasurement) -> dict[object, set[tuple[object, ...]]]:
    return {
        r.key: {(p.blocks, p.slots, p.edges, p.partial, p.count) for p in r.path_counts}
        for r in measurement.routines
    }


@pytest.mark.long
def test_codes_of_two_words_are_counted_in_a_program(
    fixture_elf: ElfFinder, tmp_path: Path
) -> None:
    program = fixture_elf("manypaths")
    run = simulate(program, directory=tmp_path, modes=("pp", "bittrace"))
    (cfg,) = [c for c in run.observation.recovered.routines if c.name == "twenty_forks"]
    plan, reference = plan_bittrace(cfg), plan_pp(cfg)
    assert plan.plan.registers == plan.plan.key_words == 2
    assert plan.plan.table is CounterTable.HASH
    assert plan.cut_edges == reference.cut_edges
    (routine,) = [r for r in run.measurements["bittrace"].routines if r.name == cfg.name]
    assert max(p.id for p in routine.path_counts if p.id is not None) >= 1 << 32
    for path in routine.path_counts:
        if path.id is not None:
            record = plan.decode(path.id)
            assert tuple(cfg.blocks[b].start for b in record.blocks) == path.blocks


def test_a_hash_table_costs_more_than_an_array(fixture_elf: ElfFinder, tmp_path: Path) -> None:
    added = {}
    for table in (TableChoice.AUTO, TableChoice.HASH):
        options = SchemeOptions(table=table)
        program = fixture_elf("control")
        run = simulate(program, directory=tmp_path, modes=("bittrace",), options=options)
        added[table] = run.measurements["bittrace"].added
    assert added[TableChoice.AUTO] < added[TableChoice.HASH]


GLIBC = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(void)
{
    char *lines[50];
    for (int i = 0; i < 50; i++) {
        lines[i] = malloc(16 + i);
        snprintf(lines[i], 16, "%x %5.2f", i * 7919 % 257, i / 3.0);
    }
    qsort(lines, 50, sizeof *lines, compare);
    for (int i = 0; i < 50; i += 9)
        puts(lines[i]);
    for (int i = 0; i < 50; i++)
        free(lines[i]);
    return 0;
}
"""


@pytest.mark.toolchain
@pytest.mark.long
def test_a_program_of_the_c_library_has_the_paths_of_pp(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """Routines whose codes take three words among them (`_int_malloc`), and no path is lost."""
    program = compile_c(GLIBC)
    run = simulate(program, directory=tmp_path, modes=("pp", "bittrace"))
    pp, bits = run.measurements["pp"], run.measurements["bittrace"]
    assert paths_of(bits) == paths_of(pp)
    assert edges_of(bits) == edges_of(pp)
    ran = {r.name for r in bits.routines if r.activations}
    words = {
        plan_bittrace(cfg).codes.word_count
        for cfg in run.observation.recovered.routines
        if cfg.name in ran
    }
    assert words == {1, 2, 3}
