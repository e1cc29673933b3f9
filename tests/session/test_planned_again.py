"""The instrumentation of saved profiles, made again: it is what the run had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.profiles.profile import Measurement
from profiler.schemes import registry
from profiler.session.planned_again import PlannedProgram, plan_again
from simulator.binary.elf import load
from simulator.binary.program import Program
from tests.support.profiled import measure, measure_all

MODES = [scheme.mode for scheme in registry.OWN if scheme.instruments]


def added_by_edges(again: PlannedProgram, position: int, measured: Measurement) -> Sequence[int]:
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
