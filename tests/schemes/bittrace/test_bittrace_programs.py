"""Bit tracing and block profiling on whole programs, beside `pp`, `qpt2` and the emulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.qpt import VertexPlacement
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.session import observe
from tests.oracles.exact import simulate
from tests.support.turns import first

PROGRAMS = ["manypaths", "control", "switches", "nonlocal", "calls", "signals"]
CASES = [(name, "v9") for name in PROGRAMS] + [
    (name, width) for name in ("manypaths", "nonlocal") for width in ("v8plus", "v8")
]
ElfFinder = Callable[..., Path]


def edges_of(measurement: RunMeasurement) -> dict[object, list[int]]:
    return {r.key: [edge.count for edge in r.edge_counts] for r in measurement.routines}


def paths_of(measurement: RunMeasurement) -> dict[object, set[tuple[object, ...]]]:
    return {
        r.key: {(p.blocks, p.slots, p.edges, p.partial, p.count) for p in r.path_counts}
        for r in measurement.routines
    }


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), first(1, CASES))
def test_paths_and_edges_are_those_of_pp(
    fixture_elf: ElfFinder, tmp_path: Path, name: str, width: str
) -> None:
    modes = ("pp", "bittrace", "edges")
    found = simulate(fixture_elf(name, width), directory=tmp_path, modes=modes).measurements
    pp, bits, edges = (found[mode] for mode in modes)
    assert paths_of(bits) == paths_of(pp)
    assert edges_of(bits) == edges_of(pp) == edges_of(edges)
    # Nothing is counted ahead of a path's end, as `pp` does where an activation then ends early.
    whole = sum(p.count for r in bits.routines for p in r.path_counts if not p.partial)
    assert 0 < bits.counts["path_increments"] == whole <= pp.counts["path_increments"]


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


@pytest.mark.parametrize("name", first(1, PROGRAMS))
def test_increments_of_block_profiling_are_ordered(
    fixture_elf: ElfFinder, tmp_path: Path, name: str
) -> None:
    """Edge heuristic <= qpt2 <= naive, vertex-optimal <= redundant; `measure` checks the counts."""
    settings = [
        Setting(str(placement), "qpt", SchemeOptions.of(placement=placement))
        for placement in VertexPlacement
    ]
    settings += [Setting(str(mode), mode, SchemeOptions()) for mode in ("qpt2", "naive")]
    stdin = tmp_path / "stdin"
    stdin.write_bytes(b"")
    output = os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT)
    guest = GuestOptions(root=tmp_path, stdin=stdin, stdout=output, stderr=output)
    request = RunRequest(program=fixture_elf(name), guest=guest, self_check=True)
    try:
        found = measure_all(observe(request, settings), self_check=request.self_check)
    finally:
        os.close(output)
    counts = {s.name: m.counts for s, m in zip(settings, found, strict=True)}
    spent = {setting: each["edge_increments"] for setting, each in counts.items()}
    assert spent["edge-heuristic"] <= spent["edge"] == spent["qpt2"] <= spent["naive"]
    assert 0 < spent["vertex-optimal"] <= spent["redundant"] == counts["redundant"]["blocks"]
    added = {setting.name: each.added for setting, each in zip(settings, found, strict=True)}
    assert added["edge-heuristic"] <= added["edge"] == added["qpt2"]


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
