"""pref on programs: what guides it, from where, and the profile that it gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simprof
from simprof.profiler import cli
from simprof.simulator.errors import SimulatorError
from tests.support.turns import turns

Find = Callable[..., Path]
Paths = dict[tuple[Any, ...], int]


def whole_paths(measured: simprof.Measurement) -> Paths:
    return {
        (routine.name, path.blocks, path.edges): path.count
        for routine in measured.routines
        for path in routine.path_counts
        if not path.partial
    }


@pytest.fixture(scope="module")
def profile(fixture_elf: Find, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved profile of `pp`."""
    saved = tmp_path_factory.mktemp("pref") / "pp.profile"
    simprof.save(simprof.run(fixture_elf("manypaths"), "pp"), saved)
    return saved


@pytest.mark.long
@pytest.mark.parametrize(
    "setting", ["pref", "pref:everywhere", "pref:everywhere:least=2:fall-back", "pref:fall-back"]
)
@pytest.mark.parametrize("name", ["manypaths", "loops"])
def test_nothing_is_lost_where_nothing_is_uninteresting(
    name: str, setting: str, fixture_elf: Find
) -> None:
    found = simprof.compare(fixture_elf(name), ["pp", setting]).measurements
    pp, pref = found.values()
    assert whole_paths(pref) == whole_paths(pp)
    assert not pref.lost.get("uninteresting_paths")
    guide = pref.guide
    assert guide is not None
    assert (guide.kind, guide.mode, guide.same_run) == ("path profile", "pp", True)
    assert guide.added == pp.added


def test_uninteresting_paths_are_counted_together(fixture_elf: Find) -> None:
    modes = ["pp", "pref:least=3:everywhere"]
    pp, pref = simprof.compare(fixture_elf("manypaths"), modes).measurements.values()
    exact, some = whole_paths(pp), whole_paths(pref)
    assert some == {path: count for path, count in exact.items() if count >= 3}
    lost = sum(exact.values()) - sum(some.values())
    assert pref.lost["uninteresting_paths"] == lost > 0
    assert pref.added < pp.added


@pytest.mark.long
def test_a_saved_profile_guides_as_the_run_does(fixture_elf: Find, profile: Path) -> None:
    elf = fixture_elf("manypaths")
    own = simprof.run(elf, "pref", everywhere=True, least=3)
    guided = simprof.run(elf, "pref", everywhere=True, least=3, edge_profile=profile)
    assert whole_paths(guided) == whole_paths(own)
    assert (guided.added, guided.lost) == (own.added, own.lost)
    assert guided.guide is not None
    assert guided.guide.same_run


def test_a_profile_of_another_run_makes_other_paths_interesting(
    fixture_elf: Find, tmp_path: Path
) -> None:
    elf, saved = fixture_elf("switches"), tmp_path / "part"
    simprof.save(simprof.run(elf, "pp", max_instructions=20_000), saved)
    guided = simprof.run(elf, "pref", everywhere=True, edge_profile=saved)
    known = set(whole_paths(simprof.load(saved)))
    exact = whole_paths(simprof.run(elf, "pp"))
    told = whole_paths(guided)
    assert all(exact[path] == count for path, count in told.items())
    assert {path for path in exact if path in known} <= set(told)
    assert guided.lost["uninteresting_paths"] == sum(exact.values()) - sum(told.values()) > 0
    assert guided.guide is not None
    assert not guided.guide.same_run


def test_a_profile_without_paths_does_not_guide(fixture_elf: Find, tmp_path: Path) -> None:
    elf, saved = fixture_elf("loops"), tmp_path / "edges"
    simprof.save(simprof.run(elf, "edges"), saved)
    with pytest.raises(SimulatorError, match="has no paths, which guide pref"):
        simprof.run(elf, "pref", edge_profile=saved)


@pytest.mark.long
def test_a_recording_guides_as_the_run_does(
    fixture_elf: Find, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    elf, recording = str(fixture_elf("manypaths")), str(tmp_path / "recording")
    assert cli.run(["record", elf, "-o", recording]) == 0
    answers = []
    for more in ([], ["--replay", recording]):
        capfd.readouterr()
        words = ["compare", "--mode=pref:everywhere:least=2,tpp,pp", "--json=-", *more, elf]
        assert cli.run(words) == 0
        answers.append(json.loads(capfd.readouterr().out))
    assert answers[0]["modes"] == answers[1]["modes"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "width"),
    turns(["everywhere:least=5", "everywhere:least=5:fall-back"], ["v9", "v8plus", "v8"]),
)
def test_instrumented_programs_count_what_is_predicted(
    options: str, width: str, fixture_elf: Find, capfd: pytest.CaptureFixture[str]
) -> None:
    elf = str(fixture_elf("manypaths", width))
    assert cli.run(["verify", f"--mode=pref:{options}", elf]) == 0
    assert "all as predicted" in capfd.readouterr().err
