"""How good profiles of programs are: measured with the run, and again of saved profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simprof
from simprof.profiler import cli
from simprof.profiler.profiles.combine import merge
from simprof.profiler.profiles.measures import MEASURES, PathFlow, Quality
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import load, save
from simprof.profiler.reports.quality import cells, is_truth, judge, judge_pair, known, tells_paths
from simprof.simulator.errors import UsageError
from tests.support.turns import first

FindElf = Callable[..., Path]
LOSSY = "tpp:cold=30:loop=40:cold-always"


def kept(measurement: RunMeasurement, tmp_path: Path) -> RunMeasurement:
    """What a file says of a measurement."""
    save(measurement, tmp_path / "profile")
    return load(tmp_path / "profile")


@pytest.mark.long
@pytest.mark.parametrize("name", first(2, ["control", "loops", "switches", "manypaths", "signals"]))
def test_saved_profiles_are_judged_as_the_run_judges_them(
    fixture_elf: FindElf, tmp_path: Path, name: str
) -> None:
    elf = fixture_elf(name)
    compared = simprof.compare(elf, ["pp", "qpt2"]).measurements
    truth, edges = (kept(compared[mode], tmp_path) for mode in ("pp", "qpt2"))
    guided = kept(simprof.run(elf, "tpp", cold=30, loop=40, cold_always=True), tmp_path)
    assert simprof.run(elf, "pp").edge_quality is None  # which nobody has asked for
    assert guided.quality is not None
    assert judge(guided, truth) == guided.quality
    assert judge(edges, truth) == truth.edge_quality
    verdict = judge_pair(guided, truth, ("", truth))
    assert verdict is not None
    assert (verdict.before, verdict.after) == (guided.quality, judge(truth, truth))
    assert {getattr(judge(truth, truth), measure) for measure in MEASURES} == {1.0}
    assert (truth.quality, edges.quality, guided.edge_quality) == (None, None, None)


def test_a_lossy_profile_is_worse_by_every_measure(fixture_elf: FindElf) -> None:
    found = simprof.compare(fixture_elf("control"), ["pp", "qpt2", "tpp:cold=0:loop=0", LOSSY])
    exact, worse = (each.quality for each in list(found.measurements.values())[2:])
    assert exact is not None
    assert worse is not None
    assert {getattr(exact, measure) for measure in MEASURES} == {1.0}
    assert all(getattr(worse, measure) < 1 for measure in MEASURES)
    every = list(found.measurements.values())
    edges = found.measurements["qpt2"]
    of_edges = found.measurements["pp"].edge_quality
    assert of_edges is not None
    assert known(edges, every) == (of_edges.accuracy, of_edges.coverage)
    assert known(edges) == (None, None)
    assert cells(found.measurements["pp"]) == ("exact", "exact")


def test_which_profiles_tell_the_truth(fixture_elf: FindElf) -> None:
    modes = ["pp", "qpt2", "witness", "kiter", "tpp", "bittrace"]
    found = simprof.compare(fixture_elf("loops"), modes).measurements
    assert [name for name in modes if is_truth(found[name])] == ["pp", "bittrace"]
    assert [name for name in modes if not tells_paths(found[name])] == ["qpt2", "tpp"]


@pytest.mark.parametrize("name", first(1, ["loops", "control", "switches"]))
def test_a_trace_of_paths_is_a_truth_too(fixture_elf: FindElf, name: str) -> None:
    """`wpp` ends paths at calls and at self-loops, too, and has executed what `pp` has."""
    counted, traced = (simprof.run(fixture_elf(name), mode) for mode in ("pp", "wpp"))
    for judged, truth in ((counted, traced), (traced, counted)):
        assert is_truth(truth)
        assert {getattr(judge(judged, truth), measure) for measure in MEASURES} == {1.0}


def test_of_paths_over_iterations_and_traces_edges_are_compared(fixture_elf: FindElf) -> None:
    elf = fixture_elf("loops")
    truth = simprof.run(elf, "pp")
    for mode in ("kiter", "witness"):
        assert judge(simprof.run(elf, mode), truth) == Quality("pp", edge_overlap=1.0)


def test_an_estimate_is_judged_by_its_shares(fixture_elf: FindElf) -> None:
    """Samples are a part of what was executed; what `pp` counted is the truth for them."""
    elf = fixture_elf("loops")
    modes = ["pp", *(f"sampled:interval={n}" for n in (1, 7, 1000000)), "pep:tick=1:samples=1"]
    _, every, some, one, ends = simprof.compare(elf, modes).measurements.values()
    for whole in (every, ends):
        assert whole.quality is not None
        assert {getattr(whole.quality, measure) for measure in MEASURES} == {1.0}
    assert some.quality is not None
    assert one.quality is not None
    assert {(getattr(one.quality, measure) or 0) < 0.01 for measure in MEASURES} == {True}
    assert 0.5 < (some.quality.coverage or 0) < 1
    assert 0.5 < (some.quality.overlap or 0) < 1
    assert all(each.attributed is None for each in (every, some, one))
    alone = simprof.run(elf, "sampled:interval=7")
    assert alone.quality == some.quality
    assert judge(alone, simprof.run(elf, "pp")) == some.quality


def test_twice_the_run_is_as_good(fixture_elf: FindElf) -> None:
    """Two runs added up have the proportions of one, and nothing is counted too rarely."""
    run = simprof.run(fixture_elf("control"), "tpp", cold=30, loop=40, cold_always=True)
    truth = simprof.run(fixture_elf("control"), "pp")
    both = merge([run, run])
    assert both.quality is None
    assert run.quality is not None
    assert judge(both, merge([truth, truth])) == run.quality
    assert judge(both, truth).overlap == run.quality.overlap


@pytest.mark.long
def test_diff_judges_by_the_profile_that_is_exact(
    fixture_elf: FindElf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elf, files = str(fixture_elf("control")), dict[str, str]()
    for mode in ("pp", LOSSY, "qpt2"):
        files[mode] = str(tmp_path / f"{len(files)}.profile")
        assert cli.run(["run", "--mode", mode, "-q", "-o", files[mode], elf]) == 0
    capsys.readouterr()

    def diff(*words: str) -> Any:
        assert cli.run(["diff", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["quality"]

    lossy = load(Path(files[LOSSY]))
    assert lossy.quality is not None
    quality = lossy.quality.as_json()
    assert diff(files["pp"], files[LOSSY]) == {"truth": "before", "after": quality}
    assert diff(files[LOSSY], files["pp"]) == {"truth": "after", "before": quality}
    third = diff(files["qpt2"], files[LOSSY], "--truth", files["pp"])
    assert third["truth"] == files["pp"]
    assert third["after"] == quality
    blocks = diff(files["pp"], files[LOSSY], "--flow", "block", "--hot", "5")["after"]
    expected = judge(lossy, load(Path(files["pp"])), hot=5, flow=PathFlow.BLOCK)
    assert blocks == expected.as_json()
    missing = lossy.lost["undercounted_blocks"] / lossy.lost["flow_blocks"]
    assert blocks["coverage"] == pytest.approx(1 - missing)
    assert cli.run(["diff", files["pp"], files[LOSSY]]) == 0
    text = capsys.readouterr().out
    assert "How good the profiles are (truth: before)" in text
    assert (
        f"accuracy (weight matching of hot paths)  {100 * (lossy.quality.accuracy or 0):.2f} %"
        in text
    )


def test_other_programs_judge_nothing(fixture_elf: FindElf) -> None:
    one, other = (simprof.run(fixture_elf(name), "pp") for name in ("loops", "control"))
    assert judge_pair(one, other) is None
    with pytest.raises(UsageError, match="another program"):
        judge(one, other)


@pytest.mark.parametrize("hot", ["-1", "101", "much"])
def test_a_percentage_that_is_none_is_refused(
    hot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "file")
    assert cli.run(["diff", "--hot", hot, file, file]) == 125
    assert "is no" in capsys.readouterr().err
