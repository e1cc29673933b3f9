"""Schemes replayed on the segments of a run, against runs of their own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from profiler.session.counters import Counters
from profiler.session.observation import Comparison
from profiler.session.session import compare_program

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bin"
THRESHOLDS = ((0, 0), (5, 15), (20, 40))
SETTINGS = (
    *(
        Setting(f"tpp({cold},{loop})", "tpp", SchemeOptions(cold=cold, loop=loop))
        for cold, loop in THRESHOLDS
    ),
    Setting("always", "tpp", SchemeOptions(cold=20, loop=40, cold_always=True)),
    Setting("obvious", "tpp", SchemeOptions(count_obvious=True)),
)
NAMES = ("v9/control", "v9/nonlocal", "v8/loops", "v8plus/signals")


def compare(name: str, settings: Sequence[Setting], tmp_path: Path) -> Comparison:
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


@pytest.mark.parametrize("name", NAMES)
def test_a_replayed_scheme_measures_what_a_run_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = compare(name, SETTINGS, tmp_path)
    monkeypatch.setattr(Counters, "replay", lambda *_: False)
    run = compare(name, SETTINGS, tmp_path)
    assert run.whole_emulations == 2
    for mine, theirs in zip(replayed.measurements, run.measurements, strict=True):
        counts = {**mine.counts, "runs": theirs.counts["runs"]}
        assert replace(mine, counts=counts) == theirs, mine.options


@pytest.mark.parametrize("name", ["v9/control", "v8/loops"])
def test_one_run_is_enough_where_no_hash_table_is_left(name: str, tmp_path: Path) -> None:
    assert compare(name, SETTINGS[1:2], tmp_path).whole_emulations == 1


def test_hash_tables_need_a_run_of_their_own(tmp_path: Path) -> None:
    hashed = compare("v9/manypaths", SETTINGS[:1], tmp_path)
    assert hashed.whole_emulations == 2
    assert hashed.measurements[0].counts["hashed_increments"] > 0
