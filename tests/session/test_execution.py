"""Runs that expect entries, against runs that start again once control has come by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.engine import products
from simprof.profiler.graphs.cfg import ENTRIES
from simprof.profiler.profiles.profile import RunMeasurement
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
    """Run a program; its contexts and its budget are among `more`."""
    null = os.open(os.devnull, os.O_RDWR)
    limit = more.pop("max_instructions", None)
    assert limit is None or isinstance(limit, int)
    try:
        guest = GuestOptions(
            root=directory, stdin=Path(os.devnull), stdout=null, stderr=null, max_instructions=limit
        )
        request = RunRequest(path, guest, **more)  # type: ignore[arg-type]
        observation = observe(request, settings)
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


def assert_same_both_ways(
    path: Path, directory: Path, settings: Sequence[Setting], **more: object
) -> tuple[Observation, Observation]:
    """Run a program as it is run, and as it was before entries were expected."""
    mine, measured = observed(path, directory, settings, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "expected_entries", lambda _: None)
        theirs, wanted = observed(path, directory, settings, **more)
    for one, two in zip(measured.measurements, wanted.measurements, strict=True):
        assert plain(one) == plain(two), one.mode
    assert mine.discoveries == theirs.discoveries
    assert mine.recovered.arrays == theirs.recovered.arrays
    assert mine.unattributed == theirs.unattributed
    return mine, theirs


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("jumping", WIDTHS, indirect=True)
def test_one_run_measures_what_two_do(jumping: Path, tmp_path: Path) -> None:
    mine, theirs = assert_same_both_ways(jumping, tmp_path, SETTINGS)
    assert theirs.runs > mine.runs
    entries = {
        cfg.name: sum(edge.kind in ENTRIES for edge in cfg.edges)
        for events in mine.events.values()
        if (cfg := events.cfg)
    }
    assert (entries["many"], entries["main"], entries["unused"]) == (2, 2, 1)


@pytest.mark.long
@pytest.mark.toolchain
def test_one_run_is_enough(jumping: Path, tmp_path: Path) -> None:
    mine, theirs = assert_same_both_ways(jumping, tmp_path, FEW)
    assert (mine.runs, theirs.runs) == (1, 2)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("jumping", "limit"), in_step(WIDTHS, [0, 3_000, 15_000]), indirect=["jumping"]
)
def test_a_budget_may_be_spent_before_anything_lands(
    jumping: Path, tmp_path: Path, limit: int
) -> None:
    assert_same_both_ways(jumping, tmp_path, SETTINGS[2:5], max_instructions=limit)


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
    mine, theirs = assert_same_both_ways(jumping, tmp_path, FEW, contexts=contexts)
    assert (mine.runs, theirs.runs) == (1, 2)


@pytest.mark.long
@pytest.mark.toolchain
def test_graphs_that_turn_out_otherwise_are_run_on_again(
    jumping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever recovery makes of the entries is right; a guess that differs counts for nothing."""
    first, _ = observed(jumping, tmp_path, FEW)
    monkeypatch.setattr("simprof.profiler.session.passes.are_same", lambda *_: False)
    again, _ = observed(jumping, tmp_path, FEW)
    assert (first.runs, again.runs, again.whole_runs) == (1, 2, 1)
    assert plain(measure_all(first)[0]) == plain(measure_all(again)[0])


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.seeds(range(1))
def test_random_programs_measure_the_same_both_ways(
    compile_c: Compile, tmp_path: Path, seed: int
) -> None:
    width = WIDTHS[seed % 2]
    path = compile_c(program(seed), (("-O0", "-O1", "-O2", "-O3")[seed % 4],), width=width)
    mine, theirs = assert_same_both_ways(path, tmp_path, SETTINGS, selection=OWN)
    assert mine.runs < theirs.runs
    assert_same_both_ways(path, tmp_path, FEW, contexts=ContextChoice(tree=True))


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
    assert passes.Reason.COUNTERS in observation.reasons
