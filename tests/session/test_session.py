"""Whole runs: several schemes at once, reruns on recorded input, budgets, selections, tables."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

import simprof
from simprof.profiler.engine.automaton import Automaton
from simprof.profiler.engine.lowering import Lowering
from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import save
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs
from simprof.profiler.reports import run_json
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session import execution, session, shared
from simprof.profiler.session.observation import (
    Observation,
    chosen_options,
    scheme_options,
    warnings,
)
from simprof.profiler.session.session import compare_program
from tests.oracles.exact import Simulated, simulate
from tests.oracles.qemu import trace

Run = Callable[..., Simulated]


@pytest.fixture
def run(fixture_elf: Callable[..., Path], tmp_path: Path) -> Run:
    """`run(name, arguments=(), **options)`: simulate a committed program (V9)."""

    def start(
        name: str, arguments: Sequence[str] = (), width: str = "v9", **more: object
    ) -> Simulated:
        return simulate(fixture_elf(name, width), arguments, directory=tmp_path, **more)  # type: ignore[arg-type]

    return start


def increments(measurement: RunMeasurement) -> int:
    return measurement.counts["edge_increments"]


def test_schemes_in_one_emulation_are_those_of_separate_ones(run: Run) -> None:
    together = run("loops").measurements
    for mode in ("pp", "qpt2"):
        alone = run("loops", modes=(mode,)).measurements[mode]
        assert run_json.render(alone) == run_json.render(together[mode])


@pytest.mark.long
def test_a_run_is_forgotten_without_a_search_for_cycles(fixture_elf: Callable[..., Path]) -> None:
    """Python looks for unused cycles rarely: a run that is one stays beside all later ones."""

    def parts() -> list[Automaton | Lowering]:
        return [each for each in gc.get_objects() if isinstance(each, Automaton | Lowering)]

    gc.disable()
    try:
        before = parts()  # kept: none of those that earlier tests have left goes meanwhile
        simprof.compare(fixture_elf("loops"), modes=("pp", "tpp"))
        assert len(parts()) == len(before)
    finally:
        gc.enable()


def test_a_run_can_be_repeated_to_the_last_byte(run: Run) -> None:
    assert run_json.render(run("bench", ["1"]).measurements["pp"]) == run_json.render(
        run("bench", ["1"]).measurements["pp"]
    )


def test_edge_counts_of_all_modes_are_equal(run: Run) -> None:
    found = run("control", modes=("pp", "qpt2", "edges")).measurements
    counts = [
        {routine.key: [edge.count for edge in routine.edge_counts] for routine in m.routines}
        for m in found.values()
    ]
    assert counts[0] == counts[1] == counts[2]
    assert found["edges"].added == 0


def test_edges_are_charged_to_the_same_instructions_as_in_a_saved_profile(run: Run) -> None:
    """A run finds them by the graph, a profile that was loaded by the names of its blocks."""
    kinds = set[EdgeKind]()
    for width in ("v9", "v8plus"):
        for measured in run("nonlocal", width=width).measurements.values():
            for routine in measured.routines:
                kinds.update(edge.kind for edge in routine.edge_counts)
                assert replace(routine).edge_addresses == routine.edge_addresses
    assert {EdgeKind.SLOT, EdgeKind.EARLY} <= kinds


@pytest.mark.long
def test_hash_tables_and_arrays_hold_the_same_paths(run: Run) -> None:
    paths, added = {}, {}
    for table in (TableChoice.ARRAY, TableChoice.HASH):
        measured = run("switches", modes=("pp",), options=SchemeOptions(table=table))
        measurement = measured.measurements["pp"]
        paths[table] = {routine.key: routine.path_counts for routine in measurement.routines}
        added[table] = measurement.added
        kinds = {routine.table for routine in measurement.routines}
        assert kinds == {CounterTable(table.value)}
    assert paths[TableChoice.ARRAY] == paths[TableChoice.HASH]
    assert added[TableChoice.ARRAY] < added[TableChoice.HASH]


def test_measured_weights_never_cost_more_increments(run: Run, tmp_path: Path) -> None:
    """The chords of a maximum spanning tree for the true counts are the cheapest."""
    first = run("bench", ["1"], modes=("qpt2",)).measurements["qpt2"]
    saved = tmp_path / "bench.profile"
    save(first, saved)
    known = run("bench", ["1"], modes=("qpt2",), options=SchemeOptions(weights=saved))
    even = run("bench", ["1"], modes=("qpt2",), options=SchemeOptions(weights=Weights.UNIFORM))
    best = increments(known.measurements["qpt2"])
    assert best < increments(first)
    assert best < increments(even.measurements["qpt2"])
    naive = sum(
        edge.count
        for routine in first.routines
        for edge in routine.edge_counts
        if edge.kind not in (*ENTRIES, EdgeKind.EARLY)
    )
    assert increments(first) < naive


@pytest.mark.long
def test_truncation_keeps_every_count(run: Run) -> None:
    """Cut or not, the same edges are crossed; the paths are more and shorter."""
    whole = run("manypaths", modes=("pp", "qpt2")).measurements
    cut = run("manypaths", options=SchemeOptions(path_limit=10)).measurements
    assert sum(routine.cut_edges for routine in cut["pp"].routines) > 0
    assert cut["pp"].edge_profile().routines.keys() == whole["qpt2"].edge_profile().routines.keys()
    for one, two in zip(cut["pp"].routines, whole["qpt2"].routines, strict=True):
        assert [e.count for e in one.edge_counts] == [e.count for e in two.edge_counts]
    assert cut["pp"].counts["path_increments"] > whole["pp"].counts["path_increments"]


@pytest.mark.parametrize("limit", [0, 1, 137, 5_000, 40_001])
def test_a_spent_budget_leaves_a_valid_profile(run: Run, limit: int) -> None:
    measured = run("calls", max_instructions=limit)
    measurement = measured.measurements["pp"]
    assert measurement.base <= limit
    assert measurement.partial == (measurement.ending.reason == "budget")
    assert measurement.counts["unattributed_instructions"] == 0
    early = sum(
        edge.count
        for routine in measurement.routines
        for edge in routine.edge_counts
        if edge.kind is EdgeKind.EARLY
    )
    partial = sum(
        path.count
        for routine in measurement.routines
        for path in routine.path_counts
        if path.partial
    )
    assert early == partial
    assert measurement.partial
    assert (early > 0) == (measurement.base > 0)


def test_budgets_are_prefixes_of_the_run(run: Run) -> None:
    """A longer budget never counts less on any edge."""
    before: dict[tuple[tuple[int, str], int], int] = {}
    for limit in (1_000, 3_000, 9_000):
        found = run("words", max_instructions=limit, modes=("edges",)).measurements["edges"]
        now = {
            (routine.key, number): edge.count
            for routine in found.routines
            for number, edge in enumerate(routine.edge_counts)
            if edge.kind is not EdgeKind.EARLY
        }
        assert all(now[key] >= count for key, count in before.items())
        before = now


@pytest.mark.long
def test_a_rerun_repeats_neither_output_nor_input(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path, fixture_elf: Callable[..., Path]
) -> None:
    """Hide what is found at run time twice, so that two more runs are needed."""
    text = b"one two three\ntwo three\nthree\n" * 50
    path = fixture_elf("nonlocal")
    once = simulate(path, [], text, directory=tmp_path)
    assert once.observation.runs > 1
    assert once.output.count(b"loop 4") == 1
    words = simulate(fixture_elf("words"), [], text, directory=tmp_path)
    hidden = iter([True, True])
    honest = execution.discoveries_of

    def pretend(recovered: ProgramGraphs, *facts: Any) -> Discoveries:
        more = honest(recovered, *facts)
        if next(hidden, False):  # something new each time, of no consequence
            start = recovered.code.base
            known = frozenset({start - 64 + 4 * len(tuple(hidden_starts))})
            hidden_starts.append(start)
            return replace(more, entries=known)
        return more

    hidden_starts: list[int] = []
    monkeypatch.setattr(execution, "discoveries_of", pretend)
    again = simulate(fixture_elf("words"), [], text, directory=tmp_path)
    assert again.observation.runs == words.observation.runs + 2
    assert again.output == words.output
    first, second = words.measurements["pp"], again.measurements["pp"]
    assert replace(second, counts=first.counts, discoveries=first.discoveries) == first


def test_selected_routines_only(run: Run, fixture_elf: Callable[..., Path], tmp_path: Path) -> None:
    from simprof.profiler.request.request import GuestOptions, RunRequest, Selection

    every = run("switches").measurements["pp"]
    guest = GuestOptions(root=tmp_path, stdin=tmp_path / "stdin")
    request = RunRequest(fixture_elf("switches"), guest, selection=Selection(("exec*", "days")))
    for mode in ("qpt2", "edges"):
        selected = session.run_program(replace(request, mode=mode)).routines
        assert {routine.name for routine in selected} == {"execute", "days"}
    some = session.run_program(request)
    assert {routine.name for routine in some.routines} == {"execute", "days"}
    assert some.base == every.base
    kept = {routine.key: routine for routine in every.routines}
    for routine in some.routines:
        assert routine.path_counts == kept[routine.key].path_counts
        assert routine.edge_counts == kept[routine.key].edge_counts


PIE = """
static long call(long number, long a, long b, long c)
{
    register long g1 __asm__("g1") = number;
    register long o0 __asm__("o0") = a;
    register long o1 __asm__("o1") = b;
    register long o2 __asm__("o2") = c;
    __asm__ volatile("ta %4" : "+r"(o0) : "r"(g1), "r"(o1), "r"(o2), "i"(TRAP) : "memory", "cc");
    return o0;
}

static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

void _start(void)
{
    int value = fibonacci(9);
    char text[3] = {'0' + value / 10, '0' + value % 10, 10};
    call(4, 1, (long)text, 3);
    call(188, value, 0, 0);
    for (;;)
        ;
}
"""


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width, trap", [("v9", "0x6d"), ("v8plus", "0x10")])
def test_position_independent_programs(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, trap: str
) -> None:
    """Static-pie programs are loaded away from address 0, and run as under qemu."""
    flags = ("-O1", "-fpie", "-nostdlib", "-static-pie", "-Wl,--no-dynamic-linker")
    path = compile_c(PIE, (*flags, f"-DTRAP={trap}"), width, static=False)
    simulated = simulate(path, directory=tmp_path)
    reference = trace(path, directory=tmp_path)
    assert simulated.output == reference.run.output == b"34\n"
    assert simulated.observation.result.status == reference.run.status == 34
    assert simulated.observation.result.instructions == reference.instructions
    assert simulated.observation.program.load_bias > 0
    (routine,) = [r for r in simulated.measurements["pp"].routines if r.name == "fibonacci"]
    assert routine.activations == 109


@pytest.mark.parametrize(
    ("mode", "threads", "expected"), [("pp", 2, 1), ("edges", 2, 0), ("pp", 0, 0), ("tpp", 3, 1)]
)
def test_priced_counters_of_threads_are_not_locked(mode: str, threads: int, expected: int) -> None:
    """Reports of programs with threads say so, unless the mode adds no code."""
    observation = SimpleNamespace(
        result=SimpleNamespace(
            threads=(None,) * threads, read_only=0, not_found=frozenset(), not_writable=frozenset()
        ),
        invocation=SimpleNamespace(arguments=(), argument_texts=()),
        judges={"pp": None},
        irregular=(),
        recovered=SimpleNamespace(routines=()),
    )
    counts = {"unattributed_transfers": 0, "unattributed_instructions": 0}
    told = list(warnings(cast(Observation, observation), definition(mode), (), counts, ()))
    assert [each.partition(":")[0] for each in told] == ["counters are not locked"] * expected


def test_processes_that_share_the_work_name_the_same_lines(
    fixture_elf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "LARGE_PROGRAM", 0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(Path(), stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("bench", "v9"), guest, (b"1",))
    settings = [Setting(mode, mode, SchemeOptions()) for mode in ("pp", "qpt", "qpt2", "naive")]
    alone = compare_program(request, settings).measurements
    together = compare_program(request, settings, jobs=2).measurements
    os.close(nowhere)
    assert [each.lines for each in together] == [each.lines for each in alone]
    assert all(each.lines for each in alone)
    assert together == alone


@pytest.mark.parametrize("weights", [{}, None, 3])
def test_saved_weights_that_are_no_text_are_refused(weights: object) -> None:
    saved = {**scheme_options(SchemeOptions()), "weights": weights}
    with pytest.raises(ValueError, match="weights"):
        chosen_options(saved)
