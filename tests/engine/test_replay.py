"""Schemes replayed on the segments of a run, against runs of their own."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session import passes
from simprof.profiler.session.counters import Counters
from simprof.profiler.session.observation import SchemeComparison
from simprof.profiler.session.scheme_runs import SchemeRun
from simprof.profiler.session.session import compare_program
from tests.support.turns import first

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bin"
THRESHOLDS = ((0, 0), (5, 15), (20, 40))
SETTINGS = (
    *(
        Setting(f"tpp({cold},{loop})", "tpp", SchemeOptions.of(cold=cold, loop=loop))
        for cold, loop in THRESHOLDS
    ),
    Setting("always", "tpp", SchemeOptions.of(cold=20, loop=40, cold_always=True)),
    Setting("obvious", "tpp", SchemeOptions.of(count_obvious=True)),
)
NAMES = ("v9/control", "v9/nonlocal", "v8/loops", "v8plus/signals")


def compare(name: str, settings: Sequence[Setting], tmp_path: Path) -> SchemeComparison:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "in").open("w+b"):
        guest = GuestOptions(
            root=tmp_path,
            stdin=tmp_path / "in",
            stdout=out.fileno(),
            stderr=out.fileno(),
            max_instructions=200_000,
        )
        request = RunRequest(FIXTURES / f"{name}.elf", guest, self_check=True)
        return compare_program(request, settings)


def derive_nothing(counters: Counters, schemes: Sequence[SchemeRun]) -> dict[Setting, set[int]]:
    """Have all schemes that are guided take part in a second run, with all routines."""
    return {scheme.setting: set(counters._events) for scheme in schemes}


def assert_equal(found: SchemeComparison, wanted: SchemeComparison) -> None:
    assert wanted.whole_emulations == 2
    for mine, theirs in zip(found.measurements, wanted.measurements, strict=True):
        counts = {name: theirs.counts[name] for name in ("runs", "whole_runs")}
        assert replace(mine, counts={**mine.counts, **counts}) == theirs, mine.options


@pytest.mark.long
@pytest.mark.parametrize("name", first(2, [*NAMES, "v9/manypaths"]))
def test_what_follows_from_one_run_is_what_a_second_one_measures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = compare(name, SETTINGS, tmp_path)
    monkeypatch.setattr(Counters, "replay", derive_nothing)
    assert_equal(replayed, compare(name, SETTINGS, tmp_path))


@pytest.mark.long
def test_hash_tables_take_a_second_run(tmp_path: Path) -> None:
    """What hashing costs depends on the order of all paths."""
    settings = (*SETTINGS[:1], Setting("pp", "pp", SchemeOptions()))
    found = compare("v9/manypaths", settings, tmp_path)
    assert (found.whole_emulations, found.reasons) == (2, (passes.Reason.PROFILE,))
    assert CounterTable.HASH in {each.table for each in found.measurements[0].routines}
