"""Runs that start again once control has come where the graphs have no entry."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.engine import products
from simprof.profiler.graphs.cfg import ENTRIES
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.recovery.recovery import Discoveries
from simprof.profiler.request.request import (
    ContextChoice,
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Selection,
    Setting,
    TableChoice,
)
from simprof.profiler.session import passes
from simprof.profiler.session.observation import Observation, SchemeComparison
from simprof.profiler.session.results import measure_all
from simprof.profiler.session.session import observe
from simprof.profiler.session.world import World
from tests.support.random_jumps import JUMPING, program
from tests.support.turns import in_step

Compile = Callable[..., Path]
WIDTHS = ("v9", "v8plus")

SETTINGS = (
    Setting("edges", "edges", SchemeOptions()),
    Setting("qpt2", "qpt2", SchemeOptions()),
    Setting("pp", "pp", SchemeOptions()),
    Setting("hash", "pp", SchemeOptions(table=TableChoice.HASH)),
    Setting("cut", "pp", SchemeOptions(path_limit=10)),
    Setting("bittrace", "bittrace", SchemeOptions()),
    Setting("kiter", "kiter", SchemeOptions.of(k=2)),
    Setting("kiter-hash", "kiter", SchemeOptions.of(k=3, table=TableChoice.HASH)),
    Setting("tpp", "tpp", SchemeOptions.of(cold=5, loop=15)),
    Setting("calls", "calls-optimal", SchemeOptions()),
)
FEW = SETTINGS[3:4]
OWN = Selection(("main", "f[0-9]", "*setjmp"))


@pytest.fixture(params=["v9"])
def jumping(request: pytest.FixtureRequest, compile_c: Compile) -> Path:
    """The program above; a test that has it in other widths says which."""
    return compile_c(JUMPING, ("-O2",), width=request.param)


def observed(
    path: Path, directory: Path, settings: Sequence[Setting], **more: object
) -> tuple[Observation, SchemeComparison]:
    """Run a program; its contexts, its budgets, and what is known of it are among `more`."""
    null = os.open(os.devnull, os.O_RDWR)
    limits: dict[str, Any] = {
        name: more.pop(name, None) for name in ("max_instructions", "timeout")
    }
    seen = more.pop("seen", None)
    assert seen is None or isinstance(seen, Discoveries)
    try:
        guest = GuestOptions(
            root=directory, stdin=Path(os.devnull), stdout=null, stderr=null, **limits
        )
        request = RunRequest(path, guest, **more)  # type: ignore[arg-type]
        observation = observe(request, settings, seen)
        measurements = measure_all(observation)
    finally:
        os.close(null)
    return observation, SchemeComparison(measurements, observation.runs, observation.whole_runs)


def plain(measurement: RunMeasurement) -> RunMeasurement:
    """Return a measurement without how many emulations it took."""
    runs = ("runs", "whole_runs")
    return replace(
        measurement, counts={k: v for k, v in measurement.counts.items() if k not in runs}
    )


def assert_same_at_once(
    path: Path, directory: Path, settings: Sequence[Setting], **more: object
) -> Observation:
    """Run a program, and then on the right graphs from the start: both measure the same."""
    first, measured = observed(path, directory, settings, **more)
    again, wanted = observed(path, directory, settings, seen=first.discoveries, **more)
    assert set(again.reasons) <= set(first.reasons) - {passes.Reason.GRAPHS}
    for one, two in zip(measured.measurements, wanted.measurements, strict=True):
        assert plain(one) == plain(two), one.mode
    assert first.discoveries == again.discoveries
    assert first.recovered.arrays == again.recovered.arrays
    assert first.unattributed == again.unattributed
    return first


def graph_runs(observation: Observation) -> int:
    """How often a program was run because the graphs lacked something."""
    return observation.reasons.count(passes.Reason.GRAPHS)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("jumping", WIDTHS, indirect=True)
def test_entries_are_those_that_control_came_by(jumping: Path, tmp_path: Path) -> None:
    found = assert_same_at_once(jumping, tmp_path, SETTINGS)
    assert graph_runs(found) == 1
    entries = {
        cfg.name: sum(edge.kind in ENTRIES for edge in cfg.edges)
        for events in found.events.values()
        if (cfg := events.cfg)
    }
    assert (entries["many"], entries["main"], entries["unused"]) == (2, 2, 1)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("jumping", "limit"), in_step(WIDTHS, [0, 3_000, 15_000]), indirect=["jumping"]
)
def test_a_budget_may_be_spent_before_anything_lands(
    jumping: Path, tmp_path: Path, limit: int
) -> None:
    assert_same_at_once(jumping, tmp_path, SETTINGS[2:5], max_instructions=limit)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("jumping", "contexts"),
    in_step(
        WIDTHS,
        [
            ContextChoice(tree=True),
            ContextChoice(entry="many", calls=9),
            ContextChoice(tree=True, entry="many"),
        ],
    ),
    indirect=["jumping"],
    ids=["tree", "window", "both"],
)
def test_contexts_are_those_of_a_run_on_the_right_graphs(
    jumping: Path, tmp_path: Path, contexts: ContextChoice
) -> None:
    assert graph_runs(assert_same_at_once(jumping, tmp_path, FEW, contexts=contexts)) == 1


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.seeds(range(1))
def test_random_programs_measure_the_same_on_the_right_graphs(
    compile_c: Compile, tmp_path: Path, seed: int
) -> None:
    width = WIDTHS[seed % 2]
    path = compile_c(program(seed), (("-O0", "-O1", "-O2", "-O3")[seed % 4],), width=width)
    assert graph_runs(assert_same_at_once(path, tmp_path, SETTINGS, selection=OWN)) == 1
    assert_same_at_once(path, tmp_path, FEW, contexts=ContextChoice(tree=True))


ONE_AFTER_THE_OTHER = """
#include <setjmp.h>
static volatile int turns;
static jmp_buf buffer;
static void work(void) { for (int i = 0; i < 2000; i++) turns++; }
#define STEP if (setjmp(buffer) == 0) { work(); longjmp(buffer, 1); }
int main(void) { %s return 0; }
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_what_graphs_lack_may_show_piece_by_piece(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run that is given up lasts longer: there are fewer than steps, and all is explained."""
    monkeypatch.setattr(passes, "GRACE", 2_000)
    path = compile_c(ONE_AFTER_THE_OTHER % (40 * "STEP "), ("-O1",))
    found, _ = observed(path, tmp_path, FEW)
    assert 4 < graph_runs(found) < passes.MAXIMUM_RUNS - 1
    assert (found.unattributed.transfers, found.unattributed.instructions) == (0, 0)
    entries = next(each.cfg for each in found.events.values() if each.cfg.name == "main")
    assert sum(edge.kind in ENTRIES for edge in entries.edges) == 41


@pytest.mark.long
@pytest.mark.toolchain
def test_who_ends_a_run_that_is_about_to_be_given_up_ends_all(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run goes as far, and is not timed again."""
    monkeypatch.setattr(passes, "GRACE", 1 << 40)
    timed = []
    linked = World.linked

    def noting(self: World, discoveries: Discoveries) -> World:
        timed.append(self.guest.timeout)
        return linked(self, discoveries)

    monkeypatch.setattr(World, "linked", noting)
    path = compile_c(ONE_AFTER_THE_OTHER % "STEP for (;;) work();", ("-O1",))
    found, _ = observed(path, tmp_path, FEW, timeout=0.5)
    assert (timed, found.result.reason, graph_runs(found)) == ([0.5, None], "timeout", 1)


def test_what_a_history_is_too_long_for_is_counted_in_a_run_of_its_own(
    fixture_elf: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fifo` acts on each turn of a self-loop; what guides `tpp` is counted beside it."""
    path = fixture_elf("loops")
    both = [Setting("tpp", "tpp", SchemeOptions()), Setting("fifo", "fifo", SchemeOptions())]
    apart = [plain(measure_all(observed(path, tmp_path, [each])[0])[0]) for each in both]
    monkeypatch.setattr(products, "LONGEST_HISTORY", 2)
    observation, compared = observed(path, tmp_path, both)
    assert [plain(each) for each in compared.measurements] == apart
    assert observation.reasons == (passes.Reason.PROFILE,)
