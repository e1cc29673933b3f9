"""Options that take several values."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from simprof.profiler.commands.list_options import BUILDS, parts, several
from simprof.profiler.commands.modes import mode_option
from simprof.profiler.experiments.suites import suite
from simprof.profiler.schemes.mode_options import read
from tests.commands.test_cli import FakeSession, session, simprof

__all__ = ["session"]


@click.command("one")
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
        ["--mode", "pp, tpp"],
    ],
)
def test_several_modes_are_repeated_or_have_commas(arguments: list[str]) -> None:
    assert chosen(*arguments) == {"files": (), "modes": (read("pp"), read("tpp")), "builds": None}


def test_nothing_is_chosen_twice() -> None:
    with pytest.raises(click.BadParameter, match="pp is named twice"):
        chosen("--mode", "pp", "--mode", "pp")


def test_builds_are_those_of_suites() -> None:
    assert {str(width): name for width, name in suite.BUILDS.items()} == BUILDS


def test_modes_are_repeated_or_have_commas(session: FakeSession) -> None:
    for words in (["--mode", "pp,qpt2"], ["--mode", "pp", "--mode", "qpt2"]):
        assert simprof("compare", "a.elf", *words, "--report", "/dev/null") == 3
        assert [setting.name for setting in session.settings] == ["pp", "qpt2"]


def test_run_takes_one_mode(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("run", "a.elf", "--mode", "pp,qpt2") == 125
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "simprof compare --mode pp,qpt2` takes several" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "a.elf", "--mode"], "one mode; `simprof compare --mode pp,tpp` takes several ("),
        (["instrument", "a.elf", "-o", "b.elf", "--mode"], "takes one mode ("),
        (["cfg", "a.elf", "--code"], "takes one mode ("),
    ],
)
def test_only_what_takes_several_of_the_same_is_named(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert simprof(*words, "pp,tpp") == 125
    assert told in capsys.readouterr().err


def test_a_sweep_names_its_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("sweep", "gone.elf", "--mode", "pp", "-o", tmp_path / "a.db") == 125
    assert "gone.elf cannot be read" in capsys.readouterr().err
    assert simprof("sweep", "a.toml", "b.toml", "-o", tmp_path / "a.db") == 125
    assert "b.toml is a second grid" in capsys.readouterr().err
    assert simprof("sweep", "a.toml", "b.elf", "-o", tmp_path / "a.db") == 125
    assert "a program beside a.toml" in capsys.readouterr().err
