"""Words behind a program: whose they are, in every command that runs one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from simprof.profiler import cli
from simprof.profiler.commands.compare import compare_command
from simprof.profiler.commands.group import simprof
from simprof.profiler.commands.program_words import arguments_of, set_apart
from simprof.profiler.commands.run import record_command, run_command
from simprof.profiler.experiments.commands.regress import record_command as regress_command
from simprof.profiler.rewriting.commands.instrument import instrument_command
from simprof.profiler.rewriting.commands.verify import verify_command
from simprof.profiler.schemes.mode_options import read

RUNNING = (run_command, compare_command, record_command, verify_command)
NEEDED = {"record": ["-o", "x.run"]}


def parsed(command: click.Command, *words: str) -> dict[str, object]:
    """Return what a command takes from its words."""
    needed = NEEDED.get(command.name or "", [])
    return command.make_context(command.name, [*needed, *words]).params


@pytest.mark.parametrize("command", RUNNING, ids=lambda each: each.name)
def test_a_programs_arguments_are_its_own(
    command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the first word that is no option of simprof's, everything is the program's."""
    for given in (
        ["f", "-o", "x", "--timeout", "3"],
        ["f", "--", "g"],
        ["-n", "3"],
        ["-", "--env", "A=B"],
        ["-5"],
        ["--count", "-o", "x"],
        ["--colour=always"],
        ["-nk", "3"],
    ):
        assert parsed(command, "wf", *given)["arguments"] == tuple(given)
        assert parsed(command, "wf", "--timeout=3", *given)["arguments"] == tuple(given)
        assert parsed(command, "wf", "--", *given)["arguments"] == tuple(given)
        assert parsed(command, "--timeout", "3", "wf", "--", *given)["arguments"] == tuple(given)
        assert parsed(command, "--", "wf", *given)["arguments"] == tuple(given)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", RUNNING, ids=lambda each: each.name)
def test_options_directly_behind_the_program_are_simprofs(command: click.Command) -> None:
    found = parsed(
        command, "wf", "--timeout", "3", "--env", "A=B", "--no-progress", "f", "--env", "C=D"
    )
    assert found["timeout"] == 3
    assert found["environment"] == ((b"A", b"B"),)
    assert found["progress"] is False
    assert found["arguments"] == ("f", "--env", "C=D")
    assert parsed(command, "wf", "--timeout", "3", "--", "--env", "C=D")["arguments"] == (
        "--env", "C=D",
    )  # fmt: skip


def test_modes_behind_the_program() -> None:
    assert parsed(run_command, "bench.elf", "--mode=tpp")["mode"] == read("tpp")
    found = parsed(compare_command, "bench.elf", "--mode", "pp,tpp", "f", "--mode", "x")
    assert (found["modes"], found["arguments"]) == ((read("pp"), read("tpp")), ("f", "--mode", "x"))


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["wf", "-q", "f"], "took -q for itself"),
        (["wf", "-qox", "-q", "f"], "took -qox -q for itself"),
        (["-o", "3", "wf", "f"], ""),
        (["wf", "f", "-o", "3"], ""),
        (["wf", "--", "-o", "3"], ""),
        (["wf", "--output=3", "f"], ""),
    ],
)
def test_a_short_option_that_is_taken_from_behind_the_program_is_named(
    words: list[str], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed(run_command, *words)
    told = f"simprof: {note}; put -- before the program's own\n" if note else ""
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("command", RUNNING, ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("word", "meant"),
    [("--timout=3", "--timeout"), ("--progres", "--progress"), ("--evn", "--env")],
)
def test_what_is_nearly_an_option_is_refused_with_both_remedies(
    command: click.Command, word: str, meant: str
) -> None:
    name = word.partition("=")[0]
    with pytest.raises(click.UsageError) as caught:
        parsed(command, "wf", word)
    remedies = f"write '{meant}' if that is meant, or put -- before the program's own"
    assert str(caught.value) == f"No such option '{name}': {remedies}"
    assert parsed(command, "wf", "f", word)["arguments"] == ("f", word)
    assert parsed(command, "wf", "--", word)["arguments"] == (word,)


def test_the_refusal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["run", "bench.elf", "--mdoe=tpp"]) == 125
    assert capsys.readouterr().err == (
        "simprof: No such option '--mdoe': write '--mode' if that is meant, or put -- before the "
        "program's own (see simprof run --help)\n"
    )


def test_letters_of_short_options() -> None:
    known = {"-a": False, "-b": True, "--all": False}
    for words, own, taken in (
        (["e", "-ab", "1", "x"], ["e", "-ab", "1", "--", "x"], ["-ab 1"]),
        (["e", "-ab1", "x"], ["e", "-ab1", "--", "x"], ["-ab1"]),
        (["e", "-a", "-b", "1"], ["e", "-a", "-b", "1"], ["-a", "-b 1"]),
        (["e", "-ac", "x"], ["e", "--", "-ac", "x"], []),
        (["-b", "e", "--", "x"], ["-b", "e", "--", "x"], []),
        (["-c", "e"], ["-c", "e"], []),
        (["--all"], ["--all"], []),
        ([], [], []),
    ):
        assert set_apart(words, known) == (own, taken)


def test_where_several_or_no_programs_are_run_arguments_stand_behind_dashes() -> None:
    context = regress_command.make_context("record", ["-o", "x", "a", "b", "--", "-k", "3"])
    assert context.params["programs"] == (Path("a"), Path("b"))
    assert arguments_of(context) == ("-k", "3")
    words = ["a.elf", "--mode", "pp", "-o", "x"]
    context = instrument_command.make_context("instrument", [*words, "--", "--mode", "pp"])
    assert (context.params["mode"], arguments_of(context)) == (read("pp"), ("--mode", "pp"))
    with pytest.raises(click.UsageError, match="unexpected extra argument"):
        instrument_command.make_context("instrument", [*words, "input"])


def test_completion_behind_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    complete = ShellComplete(simprof, {}, "simprof", "_SIMPROF_COMPLETE")
    for words in (["run", "wf"], ["run", "wf", "--timout=3"], ["run", "wf", "-o", "3"]):
        found = [item.value for item in complete.get_completions(words, "--mod")]
        assert found == ["--mode"]
    assert "qpt2" in [item.value for item in complete.get_completions(["run", "wf", "--mode"], "q")]
    assert capsys.readouterr().err == ""


def test_the_report_shows_the_arguments(
    fixture_elf: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, found = str(fixture_elf("sieve")), tmp_path / "found.json"
    words = ["run", "--json", str(found), "--report", str(tmp_path / "report"), program]
    assert cli.run([*words, "--mode=edges", "10", "--mode", "pp"]) == 0
    (row,) = [each for each in (tmp_path / "report").read_text().splitlines() if "program" in each]
    assert row.split()[1:] == [program, "10", "--mode", "pp", "(sparcv9)"]
    assert json.loads(found.read_text())["program"]["arguments"] == ["10", "--mode", "pp"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o"], "requires an argument; put -- before -o if it is the program's own"),
        (["-o", ""], "is empty; put -- before -o if it is the program's own"),
    ],
)
def test_a_short_option_that_cannot_be_taken_may_be_the_programs(
    words: list[str],
    said: str,
    fixture_elf: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["run", str(fixture_elf("calls")), *words]) == 125
    text = capsys.readouterr().err
    assert said in text
    assert "simprof run --help" in text
