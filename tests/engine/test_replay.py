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
from simprof.profiler.session.scheme_runs import Graphs, Planner, SchemeRun, make_schemes
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


def run_everything_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing replayed, and all schemes take part in the second run."""
    monkeypatch.setattr(Counters, "replay", leave_all)
    monkeypatch.setattr(passes, "_for_counters", with_all_schemes)


def with_all_schemes(study: passes.Study, runs: passes.Runs) -> passes.Runs:
    """Begin a stage of all schemes where one of those that were left out was to begin."""
    return replace(passes._for_edge_profile(study, runs), left_out={})


def leave_all(counters: Counters, schemes: Sequence[SchemeRun]) -> list[frozenset[int]]:
    return [frozenset(counters._events) for _ in schemes]


def assert_equal(found: SchemeComparison, wanted: SchemeComparison) -> None:
    assert wanted.whole_emulations == 2
    for mine, theirs in zip(found.measurements, wanted.measurements, strict=True):
        counts = {name: theirs.counts[name] for name in ("runs", "whole_runs")}
        assert replace(mine, counts={**mine.counts, **counts}) == theirs, mine.options


@pytest.mark.long
@pytest.mark.parametrize("name", first(1, NAMES))
def test_a_replayed_scheme_measures_what_a_run_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = compare(name, SETTINGS, tmp_path)
    run_everything_again(monkeypatch)
    assert_equal(replayed, compare(name, SETTINGS, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", first(2, [*NAMES, "v9/manypaths"]))
def test_a_second_run_for_all_routines_measures_what_a_replay_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (Setting("pp", "pp", SchemeOptions()), *SETTINGS[:2])
    replayed = compare(name, settings, tmp_path)
    monkeypatch.setattr(Counters, "replay", leave_all)
    assert_equal(replayed, compare(name, settings, tmp_path))


@pytest.mark.long
def test_a_second_run_counts_only_what_a_replay_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[tuple[list[str], set[str]]] = []
    recovered: set[int] = set()

    def noted(graphs: Graphs, planners: Sequence[Planner]) -> list[SchemeRun]:
        taken = filter(None, map(graphs, range(len(graphs.recovered.routines))))
        recovered.add(id(graphs.recovered))
        modes = [planner.setting.mode for planner in planners]
        runs.append((modes, {cfg.name for cfg in taken}))
        return make_schemes(graphs, planners)

    monkeypatch.setattr(passes, "make_schemes", noted)
    settings = (*SETTINGS[:1], Setting("pp", "pp", SchemeOptions()))
    found = compare("v9/manypaths", settings, tmp_path)
    assert len(recovered) == 1, "the graphs were recovered again"
    (_, every), (modes, few) = runs
    assert modes == ["tpp", "pp"]
    assert few and few < every
    routines = found.measurements[0].routines
    assert few == {each.name for each in routines if each.table is CounterTable.HASH}

    run_everything_again(monkeypatch)
    assert_equal(found, compare("v9/manypaths", settings, tmp_path))


@pytest.mark.parametrize("name", ["v9/control", "v8/loops"])
def test_one_run_is_enough_where_no_hash_table_is_left(name: str, tmp_path: Path) -> None:
    assert compare(name, SETTINGS[1:2], tmp_path).whole_emulations == 1


def test_hash_tables_need_a_run_of_their_own(tmp_path: Path) -> None:
    hashed = compare("v9/manypaths", SETTINGS[:1], tmp_path)
    assert hashed.whole_emulations == 2
    assert hashed.measurements[0].counts["hashed_increments"] > 0
