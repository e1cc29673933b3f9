"""Why a program is run: each reason on a program that gives it, and in what was found so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler.engine.silence import EventsLostError
from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from simprof.profiler.graphs.paths import PathStart
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import (
    ContextChoice,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.session import execution, passes
from simprof.profiler.session.execution import ProgramExecution
from simprof.profiler.session.passes import Reason
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import observe, run_program
from simprof.simulator.machine.machine import Machine

Find = Callable[..., Path]
PP = Setting("pp", "pp", SchemeOptions())
TPP = Setting("tpp", "tpp", SchemeOptions())
BITS = Setting("bits", "bits", SchemeOptions())
HASHED = Setting("hashed", "tpp", SchemeOptions(table=TableChoice.HASH))


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[GuestOptions]:
    """A world without input, whose output goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    yield GuestOptions(tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    os.close(nowhere)


def reasons(program: Path, guest: GuestOptions, *settings: Setting, **more: object) -> list[str]:
    """Return why a program was run more than once, and check how many runs were whole."""
    observation = observe(RunRequest(program, guest, **more), settings)  # type: ignore[arg-type]
    assert observation.whole_runs == 1 + observation.reasons.count(Reason.PROFILE)
    assert observation.runs == 1 + len(observation.reasons)
    return list(observation.reasons)


def test_one_run_is_enough(fixture_elf: Find, guest: GuestOptions) -> None:
    assert reasons(fixture_elf("loops"), guest, PP, TPP) == []


def test_graphs_that_lack_something(fixture_elf: Find, guest: GuestOptions) -> None:
    assert reasons(fixture_elf("nonlocal"), guest, PP) == [Reason.GRAPHS]


@pytest.mark.long
@pytest.mark.toolchain
def test_modules_that_only_a_run_shows(compile_c: Callable[..., Path], guest: GuestOptions) -> None:
    source = '#include <stdio.h>\nint main(void) { return puts("modules") < 0; }\n'
    assert reasons(compile_c(source, static=False), guest, PP)[0] == Reason.GRAPHS


def test_events_that_are_too_sparse(
    fixture_elf: Find, guest: GuestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is made again, with events of all blocks; nothing else is different."""
    execute = execution.execute
    dense = []

    def lost_once(
        start: Callable[..., Machine],
        recovered: ProgramGraphs,
        schemes: Sequence[SchemeRun],
        *,
        is_dense: bool = False,
        **more: Any,
    ) -> ProgramExecution:
        dense.append(is_dense)
        if not is_dense:
            raise EventsLostError("by an unknown way")
        return execute(start, recovered, schemes, is_dense=is_dense, **more)

    expected = observe(RunRequest(fixture_elf("loops"), guest), [PP])
    monkeypatch.setattr(passes, "execute", lost_once)
    found = observe(RunRequest(fixture_elf("loops"), guest), [PP])
    assert (found.reasons, found.runs, dense) == ((), 1, [False, True])
    assert found.events == expected.events


def test_counters_that_do_not_follow_from_the_run_that_guides(
    fixture_elf: Find, guest: GuestOptions
) -> None:
    assert reasons(fixture_elf("loops"), guest, PP, HASHED) == [Reason.PROFILE]


def test_counts_by_context_of_schemes_that_are_guided(
    fixture_elf: Find, guest: GuestOptions
) -> None:
    """What is counted by context is that of schemes which take part in the run."""
    tree = ContextChoice(tree=True)
    assert reasons(fixture_elf("loops"), guest, TPP, contexts=tree) == [Reason.PROFILE]


def test_traces_for_the_self_check_are_no_reason(fixture_elf: Find, guest: GuestOptions) -> None:
    assert reasons(fixture_elf("loops"), guest, PP, BITS, self_check=True) == []


def test_reasons_come_in_order(fixture_elf: Find, guest: GuestOptions) -> None:
    found = reasons(fixture_elf("nonlocal"), guest, HASHED, BITS, self_check=True)
    assert found == [Reason.GRAPHS, Reason.PROFILE]


@pytest.mark.parametrize("mode", ["pp", "kiter"])
def test_paths_where_control_came_back_start_at_a_re_entry(
    fixture_elf: Find, guest: GuestOptions, mode: str
) -> None:
    measured = run_program(RunRequest(fixture_elf("nonlocal"), guest, mode=mode))
    found = set()
    for routine in measured.routines:
        for path in routine.path_counts:
            kind = routine.edge_counts[path.edges[0]].kind if path.edges else None
            if kind in ENTRIES:
                again = kind is EdgeKind.REENTRY
                assert path.start is (PathStart.REENTRY if again else PathStart.ENTRY)
                found.add(path.start)
    assert found == {PathStart.ENTRY, PathStart.REENTRY}
