"""`--call-tree`, `--follow`, `--entry`, `--calls`: what is said, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler import cli


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--calls", "2"], "--calls without --entry: name the routine whose calls these are"),
        (["--entry", "nothing"], "--entry nothing: the program has no such routine"),
        (["--calls", "0", "--entry", "main"], "Invalid value for '--calls'"),
        (["--entry", "main", "--mode", "bits", "--trace", "t"], "--trace beside --entry"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str],
    said: str,
    fixture_elf: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["run", str(fixture_elf("calls", "v9")), *words]) == 125
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--call-tree"], ["--entry", "main"], ["--follow", "main"]])
def test_recording_does_not_tell_contexts(
    words: list[str],
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run, program = tmp_path / "run", str(fixture_elf("calls", "v9"))
    assert cli.run(["record", program, "-o", str(run), "--", "3"]) == 0
    capfd.readouterr()
    assert cli.run(["run", "--replay", str(run), *words]) == 125
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert f"{words[0]} beside --replay: a recording does not tell who calls whom" in said


def test_follow_shows_calls_as_a_tree(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    assert cli.run(["run", program, "--follow", "main", "--top", "0"]) == 0
    report = capfd.readouterr().err
    tree = report.split("Calls of main, with all that they execute\n")[1].split("\n\n")[0]
    assert tree.splitlines() == [
        "   share     base   added  calls  routine",
        "100.00 %  127,925  52,008      1  main",
        " 71.89 %   91,967  37,625      1    fibonacci",
        " 71.88 %   91,952  37,621  8,360      fibonacci",
        " 20.00 %   25,580   9,212      1    hanoi",
        " 19.98 %   25,560   9,208  2,046      hanoi",
        "  6.40 %    8,185   3,496      1    ackermann",
        "  6.39 %    8,170   3,492    778      ackermann",
        "  1.69 %    2,159   1,671      3    print",
        "  0.95 %    1,217     348     52      (less than 1 % each)",
    ]


def test_follow_of_what_was_not_called_says_so(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["run", str(fixture_elf("calls", "v9")), "--follow", "nothing"]) == 0
    assert "The run never called nothing.\n" in capfd.readouterr().err


def test_json_has_contexts_calls_and_routines(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    assert cli.run(["run", program, "--call-tree", "--json", "-", "--report", "/dev/null"]) == 0
    answer = json.loads(capfd.readouterr().out)
    tree = answer["call_tree"]
    names = [routine["name"] for routine in tree["routines"]]
    first, *others = tree["contexts"]
    assert (first["parent"], first["site"], names[first["routine"]]) == (None, "start", "_start")
    assert first["inclusive"] == answer["instructions"]
    assert all(isinstance(context["site"], int) for context in others)
    assert tree["beyond"] == 0
    (call,) = [
        each
        for each in tree["calls"]
        if (names[each["caller"] or 0], names[each["callee"]]) == ("main", "fibonacci")
    ]
    assert call["calls"] == 1
    assert call["inclusive"] == tree["routines"][call["callee"]]["inclusive"]


def test_window_is_told(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    words = ["--entry", "print", "--calls", "2", "--json", "-", "--report", "/dev/null"]
    assert cli.run(["run", program, *words]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["options"]["entry"], answer["options"]["calls"]) == ("print", 2)
    assert answer["counts"]["window_calls"] == 2
    (routine,) = [each for each in answer["routines"] if each["name"] == "print"]
    assert routine["activations"] == 2
