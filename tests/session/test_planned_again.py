"""The instrumentation of saved profiles, made again: it is what the run had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.profiles.combine import merge, merge_discoveries
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import from_bytes, to_bytes
from simprof.profiler.reports.html.report import shown_runs
from simprof.profiler.request.request import GuestOptions, Phase, RunRequest
from simprof.profiler.schemes import registry
from simprof.profiler.session import memory, session
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.planned_again import PlannedProgram, PlannedRoutine, plan_again
from simprof.profiler.session.session import run_program
from simprof.simulator.binary.dynamic import load_linked
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError
from tests.support.profiled import measure, measure_all

MODES = [scheme.mode for scheme in registry.OWN if scheme.instruments]


def added_by_edges(again: PlannedProgram, position: int, measured: RunMeasurement) -> Sequence[int]:
    """What the code of a routine's edges executes, by edge."""
    planned, routine = again.routines[position], measured.routines[position]
    assert planned.code is not None
    snippets = planned.code.snippets
    return [
        snippets[at].cost * edge.count if at in snippets else 0
        for at, edge in enumerate(routine.edge_counts)
    ]


@pytest.fixture(scope="module")
def program(fixture_elf: Callable[..., Path]) -> Program:
    return load(fixture_elf("switches"))


@pytest.mark.long
def test_code_is_that_of_the_run(program: Program) -> None:
    for measured in measure_all(program.path, MODES):
        again = plan_again(measured, program)
        assert again.reason is None and again.without_code == 0
        assert len(again.routines) == len(measured.routines) > 5
        if measured.mode in ("pp", "qpt2", "naive"):  # others have conditional parts
            for position, routine in enumerate(measured.routines):
                expected = [edge.added for edge in routine.edge_counts]
                assert added_by_edges(again, position, measured) == expected


def test_what_a_run_discovered_is_recovered_again(fixture_elf: Callable[..., Path]) -> None:
    measured = measure(fixture_elf("nonlocal"), "pp")
    again = plan_again(measured, load(fixture_elf("nonlocal")))
    assert len(again.routines) == len(measured.routines)
    assert again.without_code == 0


def shown(routine: PlannedRoutine) -> tuple[object, ...]:
    """Return all of a routine's plan and code that can be compared."""
    assert routine.code is not None
    code = replace(routine.code, snippets={}, block_snippets={}, block_end_snippets={})
    snippets = [(each.place, each.actions, each.text) for each in routine.code.all_snippets]
    return routine.cfg, routine.plan, code, snippets


def test_graphs_of_a_run_are_not_recovered_again(
    fixture_elf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path))
    path = fixture_elf("nonlocal")
    request = RunRequest(path, GuestOptions(Path()), mode="pp", remember=True)
    measured = run_program(request)
    program = load(path)
    fresh = plan_again(measured, program)
    with monkeypatch.context() as patched:
        patched.setattr(memory, "recover", None)
        kept = plan_again(measured, program, BinaryMemory(program, CacheFiles(tmp_path)))
    assert kept.reason is None and kept.without_code == 0
    assert {at: shown(each) for at, each in kept.routines.items()} == {
        at: shown(each) for at, each in fresh.routines.items()
    }


SORTING = """
#include <stdio.h>
#include <stdlib.h>

static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv)
{
    int numbers[64];
    for (int i = 0; i < 64; i++)
        numbers[i] = i * 37 % 64;
    qsort(numbers, 64, sizeof *numbers, order);
    printf("%d %d\\n", numbers[0], numbers[argc]);
    if (argc > 1)
        puts(getenv("HOME") ? "home" : argv[1]);
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_graphs_of_linked_programs_are_those_of_the_run(compile_c: Callable[..., Path]) -> None:
    # what is behind calls of libraries is known after the run only, `main` itself included
    path = compile_c(SORTING, static=False)
    measured = measure(path, "pp")
    assert {"main", "order"} <= {each.name for each in measured.routines}
    program = load_linked(path, measured.program.modules)
    saved = from_bytes(to_bytes(measured), "it")
    assert saved == measured
    again = plan_again(merge([measured, saved]), program)
    assert len(again.routines) == len(measured.routines)
    assert again.reason is None and again.without_code == 0


def test_runs_that_showed_different_things_have_their_graphs_merged(
    fixture_elf: Callable[..., Path],
) -> None:
    measured = measure(fixture_elf("nonlocal"), "pp")
    assert measured.discoveries is not None and measured.discoveries["entries"]
    nothing: dict[str, list[Any]] = {name: [] for name in measured.discoveries}
    assert merge_discoveries([nothing, measured.discoveries]) == measured.discoveries
    assert merge_discoveries([measured.discoveries, None]) is None


def test_a_profile_that_tells_no_discoveries_is_said_to_be_old(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    measured = measure(fixture_elf("nonlocal"), "pp")
    old = replace(measured, discoveries=None)
    (shown,) = shown_runs([tmp_path / "old.prof"], [old], fixture_elf("nonlocal"), None)
    assert "routine" in shown.notes[0] and "an earlier simprof" in shown.notes[0]
    (shown,) = shown_runs([tmp_path / "new.prof"], [measured], fixture_elf("nonlocal"), None)
    assert not shown.notes


def test_discoveries_that_cannot_be_are_refused(program: Program) -> None:
    measured = replace(measure(program.path, "pp"), discoveries={"entries": [-1]})
    with pytest.raises(UsageError, match="the profile is damaged in its discoveries"):
        plan_again(measured, program)


def test_it_is_told_how_far_it_is(program: Program) -> None:
    measured = measure(program.path, "pp")
    recovering: list[tuple[int, int]] = []
    generating: list[tuple[int, int]] = []
    found = {Phase.RECOVERING: recovering, Phase.GENERATING: generating}
    plan_again(
        measured, program, progress=lambda each: found[each.phase].append((each.done, each.total))
    )
    assert recovering and all(0 < done <= total for done, total in recovering)
    count = len(measured.routines)
    assert generating == [(done, count) for done in range(count)]


def test_code_that_differs_is_not_given(program: Program) -> None:
    measured = measure(program.path, "pp")
    first, *others = measured.routines
    edges = tuple(replace(edge, instrumented=not edge.instrumented) for edge in first.edge_counts)
    changed = replace(measured, routines=(replace(first, edge_counts=edges), *others))
    again = plan_again(changed, program)
    assert again.routines[0].code is None and again.without_code == 1


def test_other_edges_give_no_graph(program: Program) -> None:
    measured = measure(program.path, "pp")
    first, *others = measured.routines
    changed = replace(
        measured, routines=(replace(first, edge_counts=first.edge_counts[:-1]), *others)
    )
    assert 0 not in plan_again(changed, program).routines


@pytest.mark.parametrize("mode", ["edges", "no-such-mode"])
def test_modes_without_code(mode: str, program: Program) -> None:
    again = plan_again(replace(measure(program.path, "pp"), mode=mode), program)
    assert all(routine.code is None for routine in again.routines.values())
    assert (again.reason is None) == (mode == "edges")


def test_added_up_runs_of_a_guided_mode_are_not_planned(program: Program) -> None:
    again = plan_again(replace(measure(program.path, "tpp"), runs=2), program)
    assert again.reason is not None and "several runs" in again.reason
