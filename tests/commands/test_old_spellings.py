"""Options that take several values, and the old spellings of options, which still work."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from simprof.profiler.commands.list_options import BUILDS, WIDTH, mode_option, parts, several
from simprof.profiler.commands.old_spellings import MODES, Renamed, keeping, renew
from simprof.profiler.commands.sweep import OLD
from simprof.profiler.experiments.suites import suite
from tests.commands.test_cli import FakeSession, session, simprof

__all__ = ["session"]


@click.command("one", cls=keeping({**MODES, **WIDTH}))
@click.argument("files", nargs=-1)
@mode_option("Schemes")
@several("--build", "builds", parts, "NAME", "Builds.")
def one(**chosen: object) -> dict[str, object]:
    """Return what was chosen."""
    return chosen


def chosen(*arguments: str) -> object:
    return one.main(arguments, standalone_mode=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "pp,tpp"],
        ["--mode", "pp", "--mode=tpp"],
        ["--modes", "pp, tpp"],
        ["--modes=pp", "--mode", "tpp"],
    ],
)
def test_several_modes_are_repeated_or_have_commas(arguments: list[str]) -> None:
    assert chosen(*arguments) == {"files": (), "modes": ("pp", "tpp"), "builds": None}


def test_nothing_is_chosen_twice() -> None:
    with pytest.raises(click.BadParameter, match="pp is named twice"):
        chosen("--mode", "pp", "--mode", "pp")


def test_an_old_spelling_is_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen("--width", "32", "--width=64", "--", "--modes") == {
        "files": ("--modes",),  # an argument: it is behind --
        "modes": None,
        "builds": ("v8plus-O2", "v9-O2"),
    }
    assert capsys.readouterr().err == "simprof: note: --width is now called --build\n"
    chosen("--mode", "pp", "--build", "v9-O2")
    assert capsys.readouterr().err == ""


def test_programs_were_given_with_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--program", "a.elf", "--program=b.elf", "--workers", "1", "--kinds=run"]
    assert list(renew(words, OLD)) == ["a.elf", "b.elf", "--jobs", "1", "--kind", "run"]
    notes = capsys.readouterr().err.splitlines()
    assert notes == [
        "simprof: note: --program is now given without an option",
        "simprof: note: --workers is now called --jobs",
        "simprof: note: --kinds is now called --kind",
    ]


def test_an_option_at_the_end_lacks_its_value_under_its_new_name() -> None:
    assert list(renew(["--modes"], {"--modes": Renamed("--mode")})) == ["--mode"]


def test_builds_are_those_of_suites() -> None:
    assert {str(width): name for width, name in suite.BUILDS.items()} == BUILDS


def test_compare_takes_both(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--modes", "pp,qpt2"], ["--mode", "pp", "--mode", "qpt2"]):
        assert simprof("compare", "a.elf", *words, "--report", "/dev/null") == 3
        assert [setting.name for setting in session.settings] == ["pp", "qpt2"]
    assert capsys.readouterr().err == "simprof: note: --modes is now called --mode\n"


@pytest.mark.parametrize("option", ["--mode", "--modes"])
def test_run_takes_one_mode(
    session: FakeSession, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert simprof("run", "a.elf", option, "pp,qpt2") == 125
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "simprof compare --mode pp,qpt2` takes several" in text or option == "--modes"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["graph", "a.json", "--mode"],
            "one mode; `simprof explain --mode pp,tpp` takes several (",
        ),
        (["instrument", "a.elf", "-o", "b.elf", "--mode"], "takes one mode ("),
        (["cfg", "a.elf", "--code"], "takes one mode ("),
    ],
)
def test_only_what_takes_several_of_the_same_is_named(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert simprof(*words, "pp,tpp") == 125
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("words", [["table", "epp1"], ["suite", "run", "micro"]])
def test_programs_of_suites_were_named_by_an_option(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert simprof(*words, "--program", "nothing") == 125
    note, error = capsys.readouterr().err.splitlines()
    assert note == "simprof: note: --program is now called --benchmark"
    assert "nothing" in error


def test_a_sweep_names_its_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["gone.elf"], ["--program", "gone.elf"]):
        assert simprof("sweep", *words, "--mode", "pp", "-o", tmp_path / "a.db") == 125
        assert "gone.elf cannot be read" in capsys.readouterr().err
    assert simprof("sweep", "a.toml", "b.toml", "-o", tmp_path / "a.db") == 125
    assert "b.toml is a second grid" in capsys.readouterr().err
    assert simprof("sweep", "a.toml", "b.elf", "-o", tmp_path / "a.db") == 125
    assert "a program beside a.toml" in capsys.readouterr().err
