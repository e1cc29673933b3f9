"""`simprof regress`: equal counts pass, every change is caught and told by its cause."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from simprof import schemes
from simprof.profiler import cli
from simprof.profiler.experiments.regress import file as regress_file
from simprof.profiler.experiments.regress import regress
from simprof.profiler.experiments.regress.causes import (
    PlanChange,
    place_text,
    plan_text,
)
from simprof.profiler.experiments.regress.file import (
    Baseline,
    BaselineRoutine,
    BaselineRun,
    SettingResult,
)
from simprof.profiler.experiments.regress.measure import Target, file_targets, suite_targets
from simprof.profiler.experiments.regress.regress import (
    Ceiling,
    Check,
    CheckLimits,
    Limit,
    RunCheck,
    SettingCheck,
    check,
    compare_runs,
    record,
)
from simprof.profiler.experiments.reports import regress as reports
from simprof.profiler.experiments.suites.suite import NO_INPUT
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import uniform
from simprof.profiler.request.request import (
    CodeLayout,
    Phase,
    Progress,
    RegisterUse,
    SchemeOptions,
    Setting,
)
from simprof.profiler.request.weights import Weights
from simprof.simulator.binary.program import LineTable, Range, SourceLine
from simprof.simulator.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "fixtures/bin"
QPT2 = Setting("qpt2", "qpt2", SchemeOptions())
PP = Setting("pp", "pp", SchemeOptions())
EXACT = CheckLimits()
MODEL = Target("", Path(), {})


# --- values, made up


def routine(name: str = "main", address: int = 0x1000, **changes: Any) -> BaselineRoutine:
    """A routine with two instrumented edges."""
    numbers = {"activations": 1, "added": 8, "instructions": 50, "paths": 0, "cut_edges": 0}
    plain = BaselineRoutine(
        name, address, **numbers, graph="g1", plan="p1", places="0>8=aaaa 8>=bbbb", profile="c1",
        table="none", register="",
    )  # fmt: skip
    return replace(plain, **changes)


def baseline(**metrics: int) -> Baseline:
    """A baseline of one run under one setting."""
    counts = {"base": 1000, "added": 100, "counts.edge_increments": 25, **metrics}
    result = SettingResult(counts, (routine(), routine("leaf", 0x2000)))
    run = BaselineRun(
        {"file": "a.elf", "sha256": "0" * 64, "compiler": "GCC 12", "machine": "sparcv9"},
        {"arguments": ("x", "\udcff"), "argv0": "a.elf", "stdin": "", "max_instructions": None},
        {"reason": "exit", "status": 0, "output": "1" * 64},
        {"qpt2": result},
    )
    settings = {"qpt2": {"mode": "qpt2", "weights": "heuristic"}}
    tool = {"simprof": "1", "unicorn": "2"}
    return Baseline(tool, {"code of mode qpt2": "2-d1"}, settings, {"a.elf": run})


def with_run(old: Baseline, **changes: Any) -> Baseline:
    """The baseline with its run changed."""
    return replace(old, runs={"a.elf": replace(old.runs["a.elf"], **changes)})


def with_result(old: Baseline, **changes: Any) -> Baseline:
    """The baseline with its result changed."""
    result = replace(old.runs["a.elf"].results["qpt2"], **changes)
    return with_run(old, results={"qpt2": result})


def compared(old: Baseline, new: Baseline, **limits: Any) -> Check:
    """Compare all runs."""
    return Check("b", tuple(compare_runs(old, new, CheckLimits(**limits))), new)


def only(found: Check) -> SettingCheck:
    """The only result of a check."""
    (run,) = found.runs
    (setting,) = run.settings
    return setting


def kinds(found: SettingCheck) -> list[str]:
    """Kinds of the causes."""
    return [cause.kind for cause in found.causes]


# --- files


def test_a_file_holds_a_baseline() -> None:
    text = regress_file.to_text(baseline())
    assert regress_file.from_text(text, "b") == baseline()
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("simprof-baseline 2", "end")
    assert '["cost", "code of mode qpt2", "2-d1"]' in lines
    assert '["run", "a.elf", "count", "qpt2", "added", 100]' in lines
    facts = [json.loads(line) for line in lines[1:-1]]
    assert len({json.dumps(fact[:-1]) for fact in facts}) == len(facts)


def test_one_changed_count_is_one_changed_line() -> None:
    old = regress_file.to_text(baseline()).splitlines()
    new = regress_file.to_text(baseline(added=101)).splitlines()
    assert len(old) == len(new)
    assert sum(one != two for one, two in zip(old, new, strict=True)) == 1


def test_lines_may_come_in_any_order() -> None:
    first, *facts, last = regress_file.to_text(baseline()).splitlines()
    text = "\n".join([first, *reversed(facts), last, ""])
    found = regress_file.from_text(text, "b")
    assert compared(baseline(), found).status == 0
    assert found.runs["a.elf"].results["qpt2"].routines == (routine(), routine("leaf", 0x2000))


def test_numbers_may_be_of_any_size() -> None:
    huge = baseline(**{"counts.paths": 10**6000})
    assert regress_file.from_text(regress_file.to_text(huge), "b") == huge


def damages() -> Iterator[tuple[str, str]]:
    """Texts that are no baseline."""
    text = regress_file.to_text(baseline())
    lines = text.splitlines()
    line = next(x for x in lines if '"added", 100' in x)
    place = next(x for x in lines if '"routine"' in x)
    cost = next(x for x in lines if '"cost"' in x)
    replaced = {
        "a word for a number": (line, line.replace("100", '"100"')),
        "true for a number": (line, line.replace("100", "true")),
        "a fraction for a number": (line, line.replace("100", "1.5")),
        "no JSON": (line, line[:-1]),
        "an object": (line, "{}"),
        "an empty list": (line, "[]"),
        "another subject": (line, '["cake", "a", 1]'),
        "a number as subject": (line, line.replace('"qpt2"', "7")),
        "twice": (line, f"{line}\n{line}"),
        "no added": (line, ""),
        "deep": (line, "[" * 100_000),
        "another setting": (line, line.replace("qpt2", "pp")),
        "an address": (place, place.replace("0x1000", "main")),
        "a place": (place, place.replace("0>8=aaaa", "0>8")),
        "the offset of a place": (place, place.replace("0>8=aaaa", "1c'30>8=aaaa")),
        "an edge from nowhere to nowhere": (place, place.replace("0>8=aaaa", ">=aaaa")),
        "the cost of a mode without a setting": (cost, cost.replace("qpt2", "pp")),
        "the cost of something else": (cost, cost.replace("code of mode", "snippet")),
        "no cost": (f"{cost}\n", ""),
        "no graph": (place, place.replace('"graph": "g1", ', "")),
    }
    yield from ((name, text.replace(*change)) for name, change in replaced.items())
    yield "cut short", "\n".join(lines[:-1]) + "\n"
    yield "cut in a line", text[: len(text) // 2]
    yield "something behind", f"{text}more\n"
    yield "nothing", "simprof-baseline 2\nend\n"
    yield "header alone", "simprof-baseline 2"
    yield "another version", text.replace("baseline 2", "baseline 9")
    yield "empty", ""
    yield "another file", "\x7fELF\n"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in damages()])
def test_a_damaged_file_is_refused_and_left_alone(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text != regress_file.to_text(baseline())
    path = tmp_path / "b"
    path.write_text(text)
    assert cli.run(["regress", "check", str(path)]) == 125
    error = capsys.readouterr().err
    assert error.startswith(f"simprof: {path} is ")
    assert error.count("\n") == 1
    assert path.read_text() == text


def test_every_lost_line_is_noticed() -> None:
    lines = regress_file.to_text(baseline()).splitlines(keepends=True)
    for number in range(len(lines)):
        text = "".join(lines[:number] + lines[number + 1 :])
        if '"max_instructions", null' in lines[number]:
            continue  # what is not there is none
        try:
            found = regress_file.from_text(text, "b")
        except UsageError:
            continue
        assert compared(found, baseline(), strict=True).status == 1, lines[number]


# --- comparing


def test_equal_counts_are_the_same() -> None:
    found = only(compared(baseline(), baseline()))
    assert (found.state, found.differences, found.causes) == ("same", (), ())


@pytest.mark.parametrize(
    ("limits", "added", "state"),
    [
        ({}, 101, "changed"),
        ({}, 99, "changed"),
        ({"tolerance": Limit("*", Fraction(1))}, 101, "within limits"),
        ({"tolerance": Limit("*", Fraction(1))}, 102, "changed"),
        ({"tolerance": Limit("*", Fraction(1))}, 98, "changed"),
        ({"tolerance": Limit("*", Fraction(1), growth=True)}, 2, "within limits"),
        ({"tolerance": Limit("*", Fraction(1), growth=True)}, 102, "changed"),
        ({"tolerance": None, "limits": (Limit("base", Fraction(0)),)}, 300, "within limits"),
        ({"tolerance": None, "limits": (Limit("a*", Fraction(2), True),)}, 50, "within limits"),
        ({"tolerance": None, "limits": (Limit("a*", Fraction(2), True),)}, 103, "changed"),
        ({"limits": (Limit("added", Fraction(5)),)}, 105, "within limits"),
        ({"limits": (Limit("added", Fraction(5)),)}, 106, "changed"),
        ({"limits": (Limit("added", Fraction(5), growth=True),)}, 1, "within limits"),
        ({"limits": (Limit("added", Fraction(0), growth=True),)}, 101, "changed"),
        ({"limits": (Limit("qpt2/added", Fraction(5)),)}, 105, "within limits"),
        ({"limits": (Limit("*/pp/added", Fraction(5)),)}, 105, "changed"),
        ({"limits": (Limit("*", Fraction(9)), Limit("added", Fraction(1)))}, 105, "changed"),
        ({"limits": (Limit("added", Fraction(1)), Limit("*", Fraction(9)))}, 105, "within limits"),
        ({"ceilings": (Ceiling("added", Fraction(100)),)}, 100, "same"),
        ({"ceilings": (Ceiling("overhead", Fraction(1, 10)),)}, 100, "same"),
        ({"ceilings": (Ceiling("overhead", Fraction(99, 1000)),)}, 100, "above maximum"),
        ({"ceilings": (Ceiling("added", Fraction(90)),)}, 101, "changed"),
        ({"tolerance": None, "ceilings": (Ceiling("added", Fraction(200)),)}, 110, "within limits"),
        (
            {
                "tolerance": Limit("*", Fraction(50)),
                "ceilings": (Ceiling("added", Fraction(120)), Ceiling("a*", Fraction(110))),
            },
            111,
            "changed",
        ),
        ({"limits": (Limit("overhead", Fraction(1)), Limit("added", Fraction(9)))}, 105, "changed"),
    ],
)
def test_limits(limits: dict[str, Any], added: int, state: str) -> None:
    assert only(compared(baseline(), baseline(added=added), **limits)).state == state


def test_a_metric_that_comes_or_goes_is_a_change() -> None:
    more = baseline(**{"lost.cold_paths": 0})
    for old, new in ((baseline(), more), (more, baseline())):
        (difference,) = only(compared(old, new)).differences
        assert difference.metric == "lost.cold_paths"
        assert difference.exceeded


def test_routines_are_compared_where_everything_is_exact() -> None:
    moved = with_result(baseline(), routines=(routine(added=9), routine("leaf", 0x2000)))
    found = only(compared(baseline(), moved))
    assert found.state == "changed"
    assert [each.name for each in found.routines] == ["main"]
    assert kinds(found) == ["code"]  # the same plan, executed as often, costs otherwise
    assert (
        only(compared(baseline(), moved, tolerance=Limit("*", Fraction(1)))).state
        == "within limits"
    )


def test_what_is_recorded_explains() -> None:
    old = baseline()
    new = baseline(added=120)
    assert kinds(only(compared(old, new))) == ["unexplained"]
    program = dict(old.runs["a.elf"].program) | {"sha256": "2" * 64, "compiler": "GCC 13"}
    found = only(compared(old, with_run(new, program=program)))
    assert kinds(found) == ["binary"]
    assert found.causes[0].details == ("compiler GCC 12 -> GCC 13",)
    given = dict(old.runs["a.elf"].input) | {"arguments": ("y",), "file data": "3", "stdin": "4"}
    found = only(compared(old, with_run(new, input=given)))
    assert kinds(found) == ["input"]
    assert found.causes[0].details == (
        "arguments x \udcff -> y",
        "file data is new",
        "stdin none -> 4",
    )
    found = only(compared(old, replace(new, tool={"simprof": "2", "unicorn": "3"})))
    assert kinds(found) == ["simprof", "emulator"]
    found = only(compared(old, replace(new, costs={"code of mode qpt2": "2-d2"})))
    assert kinds(found) == ["cost model"]
    assert found.causes[0].text == "code of mode qpt2: its source files changed"
    assert found.causes[0].details == ("version 2-d1 -> 2-d2",)
    settings = {"qpt2": {"mode": "qpt2", "weights": "uniform"}}
    found = only(compared(old, replace(new, settings=settings)))
    assert kinds(found) == ["setting"]


def test_another_plan_is_told_edge_by_edge() -> None:
    other = routine(plan="p2", places="0>8=cccc 10>8=dddd")
    new = with_result(baseline(added=90), routines=(other, routine("leaf", 0x2000)))
    found = only(compared(baseline(), new))
    assert kinds(found) == ["algorithm"]
    assert found.causes[0].details == (
        "main: now on +0x10->+0x8; no longer on +0x8->EXIT; other actions on +0x0->+0x8",
    )
    settings = {"qpt2": {"mode": "qpt2", "weights": "uniform"}}
    assert kinds(only(compared(baseline(), replace(new, settings=settings)))) == [
        "setting",
        "plans",
    ]


def test_another_graph_of_the_same_program_is_told() -> None:
    new = with_result(baseline(added=90), routines=(routine(graph="g2", plan="p2"),))
    found = only(compared(baseline(), new))
    assert kinds(found) == ["graphs"]
    assert {each.name: each.presence for each in found.routines} == {"main": "both", "leaf": "gone"}


def test_routines_of_another_program_are_matched_by_name() -> None:
    program = dict(baseline().runs["a.elf"].program) | {"sha256": "2" * 64}
    moved = with_result(baseline(), routines=(routine("leaf", 0x1800), routine("main", 0x4000)))
    found = only(compared(baseline(), with_run(moved, program=program)))
    assert (found.state, found.routines, kinds(found)) == ("same", (), ["binary"])
    assert only(compared(baseline(), with_run(moved, program=program), strict=True)).failed


def test_how_a_program_ends_is_compared() -> None:
    ending = {"reason": "signal", "status": 139, "output": "5" * 64}
    found = compared(baseline(), with_run(baseline(), ending=ending))
    assert found.status == 1
    assert [each.metric for each in found.runs[0].ending] == ["reason", "status", "output"]
    assert found.runs[0].causes[0].kind == "unexplained"
    found = compared(baseline(), with_run(baseline(), ending=ending), ignore_output=True)
    assert [each.metric for each in found.runs[0].ending] == ["reason", "status"]


def test_places_in_words() -> None:
    assert place_text(">0") == "ENTRY->+0x0"
    assert place_text("1c>") == "+0x1c->EXIT"
    assert place_text("1cs>-8:taken.2") == "+0x1c(slot)->-0x8(taken.2)"
    assert place_text("1c^") == "+0x1c(top)"
    assert place_text("1c$") == "+0x1c(end)"
    assert plan_text(PlanChange((), (), ())) == "other tables of counters"


def test_a_baseline_of_an_older_simprof_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b"
    path.write_text('simprof-baseline 1\n["cost", "snippet CountEdge", "c8e8c06a1013"]\nend\n')
    assert cli.run(["regress", "check", str(path)]) == 125
    assert capsys.readouterr().err == (
        f"simprof: {path} is a baseline of version 1, this simprof reads version 2: record it "
        "again\n"
    )


# --- programs


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a program, `loops.elf`."""
    shutil.copy(BIN / "v9/loops.elf", tmp_path / "loops.elf")
    return tmp_path


def recorded(place: Path, *settings: Setting, **given: Any) -> Baseline:
    """Record the program in `place` to `b`, and read that."""
    model = replace(MODEL, given=replace(NO_INPUT, **given))
    targets = file_targets([place / "loops.elf"], model)
    made, failures = record(targets, settings or (QPT2,), place)
    assert not failures
    regress_file.save(made, place / "b")
    loaded = regress_file.load(place / "b")
    assert loaded == made
    return loaded


def again(
    old: Baseline, place: Path, limits: CheckLimits = EXACT, weights: Weights | None = None
) -> Check:
    """Check the baseline in `place`."""
    return check(old, place / "b", limits, weights=weights)


def test_an_unchanged_program_is_the_same(place: Path) -> None:
    old = recorded(place, PP, QPT2)
    before = (place / "b").read_bytes()
    found = again(old, place)
    assert found.status == 0
    assert [each.state for run in found.runs for each in run.settings] == ["same", "same"]
    assert not any(each.causes for run in found.runs for each in run.settings)
    recorded(place, PP, QPT2)
    assert (place / "b").read_bytes() == before


def test_a_baseline_moves_with_its_programs(place: Path, tmp_path_factory: Any) -> None:
    old = recorded(place)
    other = tmp_path_factory.mktemp("elsewhere") / "deep"
    shutil.copytree(place, other)
    assert again(old, other).status == 0


def test_a_changed_binary_is_caught(place: Path) -> None:
    old = recorded(place)
    shutil.copy(BIN / "v9/loops_plain.elf", place / "loops.elf")
    found = again(old, place)
    assert found.status == 1
    setting = only(found)
    assert setting.causes[0].kind == "binary"
    assert "base" in {each.metric for each in setting.differences if each.exceeded}


def test_a_changed_compiler_note_is_told_though_no_count_is(place: Path) -> None:
    old = recorded(place)
    program = place / "loops.elf"
    data = program.read_bytes()
    assert b"GNU C11 " in data
    program.write_bytes(data.replace(b"GNU C11 ", b"GNU C17 "))
    found = again(old, place)
    assert found.status == 0
    (cause,) = only(found).causes
    assert cause.kind == "binary"
    assert cause.details[0].startswith("compiler GNU C11 ")
    assert " -> GNU C17 " in cause.details[0]
    assert again(old, place, CheckLimits(strict=True)).status == 1


def test_another_weighting_is_caught(place: Path) -> None:
    old = recorded(place)
    found = again(old, place, weights=Weights.UNIFORM)
    assert found.status == 1
    assert kinds(only(found)) == ["setting", "plans", "code"]
    assert only(found).causes[0].details == ("weights heuristic -> uniform",)


def test_a_changed_algorithm_is_caught(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = recorded(place)
    monkeypatch.setattr(schemes, "given_weights", lambda cfg, _: uniform(cfg, depth_first(cfg)))
    found = again(old, place)
    assert found.status == 1
    assert kinds(only(found)) == ["algorithm", "code"]
    cause = only(found).causes[0]
    line = next(detail for detail in cause.details if detail.startswith("nest (loops.c:"))
    assert "now on +0x" in line
    assert "no longer on +0x" in line


@pytest.mark.long
def test_one_instruction_of_a_scheme_is_caught(place: Path) -> None:
    """`check` names the mode whose files changed, and no other."""
    source = (ROOT / "fixtures/example_scheme/heads_scheme.py").read_text()
    info = place / "simprof_heads-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simprof-heads\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[simprof.schemes]\nheads = heads_scheme:HEADS\n")
    module = place / "heads_scheme.py"
    module.write_text(source)

    def simprof(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "simprof", "regress", *words],
            env={**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "COLUMNS": "200"},
            capture_output=True, text=True, check=False, cwd=place,
        )  # fmt: skip

    recorded = simprof("record", "--mode=pp,heads", "-o", "b", "loops.elf")
    assert recorded.returncode == 0, recorded.stderr
    same = simprof("check", "b")
    assert (same.returncode, "code of mode" in same.stdout) == (0, False)
    # A byte that changes no count, which is said and is no change; then an instruction
    module.write_text(f"{source}\n")
    note = simprof("check", "b")
    assert note.returncode == 0
    assert "note: cost model: code of mode heads: its source files changed" in note.stdout
    last = '        asm.load("ld", base, address & 0x3FF, value),\n'
    assert source.count(last) == 1
    module.write_text(source.replace(last, f"{last}        asm.nop(),\n"))
    found = simprof("check", "b", "--json", "-")
    assert found.returncode == 1
    (run,) = json.loads(found.stdout)["runs"]
    states = {each["name"]: each for each in run["settings"]}
    assert (states["pp"]["state"], states["pp"]["causes"]) == ("same", [])
    (cause,) = states["heads"]["causes"]
    assert (cause["kind"], cause["text"]) == (
        "cost model", "code of mode heads: its source files changed",
    )  # fmt: skip
    moved = {each["metric"]: each for each in states["heads"]["differences"]}
    old = regress_file.load(place / "b").runs["loops.elf"].results["heads"].metrics
    assert moved["added"]["now"] - moved["added"]["baseline"] == old["counts.edge_increments"] > 0
    assert set(moved) == {"added", "sizes.code_bytes"}


def test_changed_input_is_caught(place: Path) -> None:
    shutil.copy(BIN / "v9/words.elf", place / "loops.elf")
    text, root = place / "text", place / "root"
    text.write_text("one two three\n")
    root.mkdir()
    old = recorded(place, stdin=text, root=root, environment=(("A", "1"),), arguments=("x",))
    assert again(old, place).status == 0
    text.write_text("one two three four\n")
    (root / "data").write_text("2")  # nobody reads it
    found = again(old, place)
    assert found.status == 1
    (cause,) = only(found).causes
    assert cause.kind == "input"
    (detail,) = cause.details
    assert detail.startswith("stdin ")
    shutil.rmtree(root)
    assert again(old, place).status == 125


def test_changed_weights_in_a_file_are_a_changed_setting(place: Path) -> None:
    profile = place / "edges.profile"
    program = str(place / "loops.elf")
    for mode in ("edges", "pp"):
        command = ["run", "--mode", mode, "--report", str(place / "r"), "-o", str(profile), program]
        assert cli.run(command) == 0
        if mode == "edges":
            weighted = replace(QPT2, options=SchemeOptions(weights=profile))
            old = recorded(place, weighted)
            assert again(old, place).status == 0
    found = again(old, place)
    (cause,) = only(found).causes
    assert cause.kind == "setting"
    assert cause.details[0].startswith("weights_sha256 ")


def test_programs_that_cannot_run_are_errors_of_their_own(place: Path) -> None:
    shutil.copy(BIN / "v9/switches.elf", place / "switches.elf")
    targets = file_targets([place / "loops.elf", place / "switches.elf"], MODEL)
    regress_file.save(record(targets, (QPT2,), place)[0], place / "b")
    (place / "loops.elf").unlink()
    found = again(regress_file.load(place / "b"), place)
    assert found.status == 125
    assert [run.state for run in found.runs] == ["error", "same"]


def test_names_of_programs_tell_them_apart() -> None:
    paths = [BIN / "v9/loops.elf", BIN / "v8/loops.elf", BIN / "v8/calls.elf"]
    names = [target.name for target in file_targets(paths, MODEL)]
    assert names == ["v9/loops.elf", "v8/loops.elf", "v8/calls.elf"]
    assert {target.options.argv0 for target in file_targets(paths, MODEL)} == {
        "loops.elf",
        "calls.elf",
    }
    with pytest.raises(UsageError, match="named twice"):
        file_targets([paths[0], paths[0]], MODEL)


def test_a_setting_survives_being_recorded(tmp_path: Path) -> None:
    profile = tmp_path / "p"
    profile.write_bytes(b"x")
    options = SchemeOptions.of(
        cold=2.5,
        loop=0.0,
        cold_always=True,
        count_obvious=True,
        no_cold_counter=True,
        branching=True,
        literal_cold=True,
        obvious_first=True,
        first=3,
        layout=CodeLayout.STUBS,
        registers=RegisterUse.SPILLED,
        path_limit=9,
        weights=profile,
    )
    setting = Setting("tpp(2.5,0)", "tpp", options)
    facts = regress.describe(setting, tmp_path)
    restored = regress.restore(setting.name, facts, tmp_path)
    assert restored == setting
    for wrong in ({"mode": "cake"}, {"cold": "much"}, {"cake": 1}, {"path_limit": True}):
        with pytest.raises(UsageError, match="cannot be restored"):
            regress.restore("s", {**facts, **wrong}, tmp_path)


# --- suites

SUITE = """
title = "One program"
[[benchmark]]
name = "loops"
group = "INT"
stands_for = "none"
why = "a test"
committed = "loops.{width}.elf"
[benchmark.inputs.train]
arguments = ["1"]
[benchmark.inputs.ref]
arguments = ["2"]
"""


def test_a_suite_is_recorded_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for width in ("v9", "v8plus"):
        shutil.copy(BIN / width / "loops.elf", tmp_path / f"loops.{width}.elf")
    suite, path = tmp_path / "one.toml", tmp_path / "b"
    suite.write_text(SUITE)
    command = ["regress", "record", "-o", str(path), "--suite", str(suite), "--mode", "qpt2"]
    assert cli.run([*command, "--input", "train", "--input", "ref"]) == 0
    told: list[Progress] = []
    suite_targets(str(suite), [64], ["ref"], MODEL, tmp_path, told.append)
    assert {each.phase for each in told} == {Phase.BUILDING}
    old = regress_file.load(path)
    assert list(old.runs) == ["loops ref v9-O2", "loops train v9-O2"]
    assert old.runs["loops ref v9-O2"].input["arguments"] == ("2",)
    assert cli.run(["regress", "check", str(path)]) == 0
    suite.write_text(SUITE.replace('["2"]', '["3"]'))
    assert cli.run(["regress", "check", str(path)]) == 1
    assert "arguments 2 -> 3" in capsys.readouterr().out
    suite.write_text(SUITE.replace('"loops"', '"other"'))
    assert cli.run(["regress", "check", str(path)]) == 125


# --- the command line


@pytest.mark.long
def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, program = str(place / "b"), str(place / "loops.elf")
    assert cli.run(["regress", "record", "-o", path, program, "--mode=qpt2", "--", "-o", "1"]) == 0
    assert capsys.readouterr() == (f"loops.elf  exit status 0\n{path}: 1 run under qpt2\n", "")
    assert regress_file.load(place / "b").runs["loops.elf"].input["arguments"] == ("-o", "1")
    assert cli.run(["regress", "check", path]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told == f"{path}: 1 result of 1 run compared: 1 the same"
    files = {name: place / name for name in ("junit", "markdown", "json")}
    outputs = [f"--{name}={file}" for name, file in files.items()]
    assert cli.run(["regress", "check", path, "--weights=uniform", *outputs]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "1 changed" in text
    assert "why: setting: options changed" in text
    assert json.loads(files["json"].read_text())["status"] == 1
    assert ElementTree.parse(files["junit"]).getroot().get("failures") == "1"
    assert files["markdown"].read_text().startswith("## simprof regress")
    loose = ["--tolerance", "90", "--limit", "sizes.*=90", "--weights=uniform"]
    assert cli.run(["regress", "check", path, *loose]) == 0
    capsys.readouterr()
    for most in ("qpt2/overhead=0.001", "qpt2/overhead=0.1%"):
        assert cli.run(["regress", "check", path, "--max", most]) == 1
        text = " ".join(capsys.readouterr().out.split())
        assert "1 above their maximum" in text
        assert re.search(r"overhead +of base +(\d+\.\d\d %) +\1 +\+0.00 % +at most 0.1 %", text)
        assert "unexplained" not in text
    assert cli.run(["regress", "check", path, "--max", "qpt2/overhead=500%"]) == 0
    freed = ["--weights=uniform", "--max", "qpt2/overhead=500%"]
    assert cli.run(["regress", "check", path, *freed]) == 0
    assert cli.run(["regress", "check", path, *freed, "--tolerance", "0"]) == 1
    capsys.readouterr()
    assert cli.run(["regress", "check", path, "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["status"] == 0
    assert "1 the same" in " ".join(captured.err.split())


READS = r"""
#include <stdio.h>
int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "r");
    if (!file) return 3;
    int count = 0;
    while (fgetc(file) != EOF) count++;
    printf("%d\n", count);
    return 0;
}
"""


@pytest.mark.long
@pytest.mark.toolchain
def test_programs_find_their_files_where_run_finds_them(
    place: Path,
    compile_c: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the current directory, where the baseline may lie, too; only what is read is recorded."""
    monkeypatch.chdir(place)
    shutil.copy(compile_c(READS), "reads")
    Path("data").write_text("12345")
    Path("other").write_text("nobody reads it")
    record_it = ["regress", "record", "reads", "--mode=qpt2", "-o"]
    assert cli.run([*record_it, "b", "--", "data"]) == 0
    assert capsys.readouterr() == ("reads  exit status 0\nb: 1 run under qpt2\n", "")
    names = {name for name in regress_file.load(Path("b")).runs["reads"].input if "file" in name}
    assert names == {"file data"}
    assert cli.run(["regress", "check", "b"]) == 0
    Path("data").write_text("123456")
    assert cli.run(["regress", "check", "b"]) == 1
    assert "file data is other" in capsys.readouterr().out
    # a program that does not find its input
    (place / "empty").mkdir()
    assert cli.run([*record_it, "b", "--root", "empty", "--", "data"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("reads  exit status 3\n")
    assert captured.err == (
        "warning: reads failed (exit status 3): its counts are those of a failed run; "
        "--root DIR says where a program finds its files\n"
    )


@pytest.mark.long
def test_a_gate_on_the_growth_of_one_metric(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compiled without optimisation a program executes twice as much: pp's overhead falls."""
    path, program = place / "b", place / "loops.elf"
    shutil.copy(BIN / "v9/loops_plain.elf", program)
    assert cli.run(["regress", "record", "-o", str(path), str(program), "--mode=pp,qpt2"]) == 0
    shutil.copy(BIN / "v9/loops.elf", program)
    capsys.readouterr()
    check_it = ["regress", "check", str(path)]
    assert cli.run(check_it) == 1
    capsys.readouterr()
    assert cli.run([*check_it, "--limit", "pp/base=+2"]) == 0
    text = capsys.readouterr().out
    assert "2 moved within limits" in " ".join(text.split())
    assert re.search(r"base +instructions +82,913 +37,370 +-54.93 % +\+2 %", text)
    assert re.search(r"added +instructions +\S+ +\S+ +\S+ % +any", text)
    assert cli.run([*check_it, "--limit", "pp/overhead=+2"]) == 1
    assert cli.run([*check_it, "--limit", "pp/base=+2", "--tolerance", "0"]) == 1
    assert cli.run([*check_it, "--limit", "pp/base=2"]) == 1


def test_a_check_that_fails_leaves_no_files_of_an_earlier_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "b"
    written = {name: place / f"out.{name}" for name in ("junit", "markdown", "json")}
    outputs = [f"--{name}={file}" for name, file in written.items()]
    record_it = ["regress", "record", "-o", str(path), str(place / "loops.elf"), "--mode=qpt2"]
    assert cli.run(record_it) == 0
    assert cli.run(["regress", "check", str(path), *outputs]) == 0
    assert all(file.exists() for file in written.values())
    path.write_text("no baseline")
    assert cli.run(["regress", "check", str(path), *outputs]) == 125
    assert not any(file.exists() for file in written.values())
    assert path.read_text() == "no baseline"


def test_a_baseline_is_updated(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is then what `record` would write of the program as it is now."""
    path, program = place / "b", place / "loops.elf"
    record_it = ["regress", "record", str(program), "--mode=qpt2", "-o"]
    shutil.copy(BIN / "v9/loops_plain.elf", program)
    assert cli.run([*record_it, str(path)]) == 0
    shutil.copy(BIN / "v9/loops.elf", program)
    assert cli.run([*record_it, str(place / "fresh")]) == 0
    assert path.read_text() != (place / "fresh").read_text()
    capsys.readouterr()
    assert cli.run(["regress", "check", "--github", str(path)]) == 1
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("::"))
    subject, _, said = line.removeprefix("::error title=").partition("::")
    assert subject == "simprof%3A loops.elf qpt2"
    assert said.startswith("base 82,913 -> 37,370 (-54.93 %25")
    assert cli.run(["regress", "update", str(path)]) == 0
    assert "binary: the program file changed" in " ".join(capsys.readouterr().out.split())
    assert path.read_text() == (place / "fresh").read_text()
    program.unlink()
    assert cli.run(["regress", "update", str(path)]) == 125
    assert path.read_text() == (place / "fresh").read_text()


class Lines(LineTable):
    """A line table with a line for every instruction."""

    def find(self, address: int) -> SourceLine | None:
        return (
            SourceLine("/src/main.c", 10 + (address - 0x1000) // 4) if address >= 0x1000 else None
        )

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        yield from ()


def test_explanations_name_source_lines() -> None:
    moved = with_result(
        baseline(added=110), routines=(routine(plan="p2", places="0>8=cccc >0=dddd"),)
    )
    found = compared(baseline(), with_run(moved, lines=Lines()))
    cause = next(each for each in only(found).causes if each.kind == "algorithm")
    assert cause.details == (
        "main (main.c:10): now on ENTRY->+0x0 (main.c:10); no longer on +0x8->EXIT (main.c:12); "
        "other actions on +0x0->+0x8 (main.c:10)",
    )
    document = json.loads(reports.render_json(found))
    (main,) = (r for r in document["runs"][0]["settings"][0]["routines"] if r["name"] == "main")
    assert main["source"] == "main.c:10"
    assert main["plan"]["lines"] == {">0": "main.c:10", "8>": "main.c:12", "0>8": "main.c:10"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "-o", "new"], "name programs or a --suite"),
        (["record", "-o", "new", "loops.elf", "--suite", "micro"], "and not both"),
        (["record", "-o", "new", "--suite", "micro", "--root", "."], "suites bring their inputs"),
        (["record", "-o", "new", "--suite", "cake"], "unknown suite 'cake': choose from micro"),
        (["record", "-o", "new", "loops.elf", "--build", "v8plus-O2"], "add --suite"),
        (["record", "-o", "new", "loops.elf", "loops.elf"], "named twice"),
        (["record", "-o", "new", "missing.elf"], "missing.elf"),
        (["record", "-o", "loops.elf", "loops.elf"], "is read as well"),
        (["record", "-o", "no/new", "loops.elf"], "there is no directory"),
        (["record", "-o", "new", "loops.elf", "--writable"], "needs --root"),
        (["record", "-o", "new", "loops.elf", "--stdin", "none"], "is not a file"),
        (["record", "-o", "new", "loops.elf", "--mode", "cake"], "unknown mode"),
        (["check", "missing"], "cannot be read"),
        (["check", "b", "--limit", "cake=5"], "matches no metric"),
        (["check", "b", "--limit", "added"], "METRIC=PCT"),
        (["check", "b", "--limit", "added=-5"], "METRIC=PCT"),
        (["check", "b", "--max", "added=lots"], "METRIC=VALUE"),
        (["check", "b", "--max", "added=-1e400"], "METRIC=VALUE"),
        (["check", "b", "--max", "added=5%"], "only overhead has a maximum in percent"),
        (["check", "b", "--tolerance", "-1"], "is not a percentage"),
        (["check", "b", "--json", "b"], "is read as well"),
        (["check", "b", "--junit", "-"], "name a file"),
        (["check", "b", "--weights", "cake"], "neither heuristic"),
    ],
)
def test_bad_use_is_one_line_and_125(
    arguments: list[str],
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    regress_file.save(baseline(), place / "b")
    before = (place / "b").read_bytes()
    assert cli.run(["regress", *arguments]) == 125
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]
    assert not (place / "new").exists()
    assert (place / "b").read_bytes() == before


def test_what_can_be_recorded_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, program = place / "b", str(place / "loops.elf")
    (place / "text.elf").write_text("no program")
    command = ["regress", "record", "-o", str(path), "--mode", "qpt2"]
    assert cli.run([*command, program, str(place / "text.elf")]) == 1
    assert "text.elf: not recorded: " in capsys.readouterr().err
    assert list(regress_file.load(path).runs) == ["loops.elf"]


def test_a_program_that_takes_too_long_is_124(place: Path) -> None:
    path = place / "b"
    shutil.copy(BIN / "v9/sieve.elf", place / "loops.elf")
    command = ["regress", "record", "-o", str(path), "--mode", "qpt2", str(place / "loops.elf")]
    assert cli.run([*command, "--timeout", "0.2", "--", "4000"]) == 124
    assert not path.exists()
    assert cli.run([*command, "--max-instructions", "100000", "--", "4000"]) == 0
    assert regress_file.load(path).runs["loops.elf"].ending["reason"] == "budget"
    assert cli.run(["regress", "check", str(path)]) == 0


# --- reports


def changed_check() -> Check:
    """A check with a change, a note and an error."""
    other = routine(name="f<g>|h", plan="p2", places="0>8=cccc")
    new = with_result(baseline(added=90), routines=(other,))
    found = compared(baseline(), new)
    (run,) = found.runs
    failed = replace(run, name="b\x01.elf", error="it is\x02 gone", settings=())
    return replace(found, runs=(run, failed))


@pytest.mark.parametrize("width", [60, 100])
def test_the_report_for_people(width: int) -> None:
    text = reports.render_text(changed_check(), width, False)
    assert "1 result of 2 runs compared: 1 changed, 1 program could not be run" in " ".join(
        text.split()
    )
    assert "-10.00 %" in text
    assert "f<g>|h: is entered now" in text
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" in reports.render_text(changed_check(), width, True)


def test_what_changed_for_a_whole_run_is_told_once() -> None:
    program = dict(baseline().runs["a.elf"].program) | {"sha256": "2" * 64}
    old = baseline()
    results = dict.fromkeys(("qpt2", "pp"), old.runs["a.elf"].results["qpt2"])
    settings = dict.fromkeys(results, old.settings["qpt2"])
    old = replace(with_run(old, results=results), settings=settings)
    found = compared(old, with_run(old, program=program))
    for text in (reports.render_text(found, 100, False), reports.render_markdown(found)):
        assert text.count("the program file changed") == 1
        assert "note: " in text
        assert "why: " not in text
    junit = reports.render_junit(found)
    assert junit.count("note: binary: the program file changed") == 2


@pytest.mark.parametrize(
    ("runs", "status"),
    [
        ((RunCheck("a"), RunCheck("b")), 0),
        ((RunCheck("a", error="late", budget=True), RunCheck("b")), 124),
        ((RunCheck("a", error="late", budget=True), RunCheck("b", error="gone")), 125),
        ((RunCheck("a", settings=(SettingCheck("pp", (), (), (), True),)), RunCheck("b")), 1),
    ],
)
def test_exit_statuses(runs: tuple[RunCheck, ...], status: int) -> None:
    assert Check("b", runs, baseline()).status == status


def test_the_junit_report_is_well_formed() -> None:
    root = ElementTree.fromstring(reports.render_junit(changed_check()))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert len(root.findall("testsuite/testcase/failure")) == 1
    (error,) = root.findall("testsuite/testcase/error")
    assert error.get("message") == "it is\ufffd gone"
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "added 100 -> 90" in (failure.get("message") or "")


def test_annotations_for_github_are_a_line_each() -> None:
    first, second = reports.render_github(changed_check()).splitlines()
    said = "added 100 -> 90 (-10.00 %25; must be equal) (why: unexplained)"
    assert first == f"::error title=simprof%3A a.elf qpt2::{said}"
    assert second.startswith("::error title=simprof%3A b")


def test_the_markdown_report_has_whole_rows() -> None:
    lines = reports.render_markdown(changed_check()).splitlines()
    assert "| a.elf | changed |" in lines
    row = next(line for line in lines if "is entered now" in line)
    assert row.replace("\\|", "").count("|") == 3
    assert "f\\<g\\>\\|h" in row


def test_reports_take_numbers_of_any_size() -> None:
    found = compared(baseline(), baseline(added=10**400), tolerance=None)
    assert "1.00e398 x" in reports.render_text(found, 120, False)
    (run,) = json.loads(reports.render_json(found))["runs"]
    added, overhead = run["settings"][0]["differences"]
    assert (added["metric"], added["now"], added["percent"]) == ("added", 10**400, None)
    assert (overhead["metric"], overhead["now"]) == ("overhead", None)


def test_the_json_report_has_everything() -> None:
    found = json.loads(reports.render_json(changed_check()))
    assert found["status"] == 125
    (difference,) = found["runs"][0]["settings"][0]["differences"]
    assert difference["baseline"] == 100
    assert difference["now"] == 90
    assert difference["percent"] == -10.0
