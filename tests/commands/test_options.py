"""Values of options: what each type takes, what it refuses, and files that would be overwritten."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from simprof.profiler.commands import modes, options
from simprof.profiler.commands.modes import mode_option
from simprof.profiler.commands.options import BUILDS, parts, several
from simprof.profiler.commands.outputs import STANDARD_STREAM, check_outputs
from simprof.profiler.experiments.suites import suite
from simprof.profiler.schemes.mode_options import read
from simprof.simulator.errors import UsageError
from tests.support.cli import FakeSession, simprof


@pytest.mark.parametrize(("text", "number"), [("1", 1.0), ("0.001", 0.001), ("1e8", 1e8)])
def test_times(text: str, number: float) -> None:
    assert options.seconds(text) == number


@pytest.mark.parametrize("text", ["0", "0.0", "-1", "1e9", "inf", "nan", "soon", ""])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a positive number of seconds"):
        options.seconds(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), ("64K", 65536), ("64k", 65536), ("1MiB", 1 << 20), ("2GB", 2 << 30)],
)
def test_sizes(text: str, number: int) -> None:
    assert options.size(text) == number


@pytest.mark.parametrize("text", ["0", "0K", "", "K", "1.5M", "-1", "4096Q", "1" * 16])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a size"):
        options.size(text)


@pytest.mark.parametrize(
    ("text", "fits"), [("64K", True), ("65535", False), ("256M", True), ("257M", False)]
)
def test_stacks_have_their_limits(text: str, fits: bool) -> None:
    if fits:
        assert options.stack_size(text) == options.size(text)
    else:
        with pytest.raises(click.BadParameter, match="is not between 64K and 256M"):
            options.stack_size(text)


def test_a_name_must_be_possible(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="is empty"):
        options.possible_path("")
    with pytest.raises(click.BadParameter, match="cannot be used"):
        options.possible_path("x" * 5000)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(click.BadParameter, match="cannot be used"):
        options.possible_path(str(loop))
    assert options.possible_path(str(tmp_path / "new")) == tmp_path / "new"


def test_outputs_are_neither_inputs_nor_each_other(tmp_path: Path) -> None:
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.write_text("")
    link.symlink_to(one)
    check_outputs(one, two, None, STANDARD_STREAM)
    check_outputs(two, inputs=[one, None])
    for again in (one, link):
        with pytest.raises(UsageError, match="is read as well"):
            check_outputs(again, inputs=[one])
        with pytest.raises(UsageError, match="is named for two outputs"):
            check_outputs(one, again)
    with pytest.raises(UsageError, match="is named for two outputs"):
        check_outputs(STANDARD_STREAM, STANDARD_STREAM)
    with pytest.raises(UsageError, match="is named for two outputs"):
        check_outputs(two, two)


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
    assert simprof("run", "a.elf", "--mode", "pp", "--mode", "qpt2") == 125
    assert "simprof compare --mode pp,qpt2` takes several" in capsys.readouterr().err


def test_bounds_of_numbers_are_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    for value, said in (
        ("0", "0 is too small: it must be at least 1"),
        ("x", "not a whole number"),
    ):
        assert simprof("run", "a.elf", "--path-limit", value) == 125
        assert said in capsys.readouterr().err


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
    assert "a program with a.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "number"),
    [("64", 64), ("1e6", 10**6), ("1M", 10**6), ("2.5k", 2500), ("3G", 3 * 10**9), ("0.5e1", 5)],
)
def test_numbers_have_short_forms(text: str, number: int) -> None:
    assert options.WholeNumber(0).convert(text, None, None) == number


@pytest.mark.parametrize("text", ["1.5", "1e", "M", "1m", "1.2345k", "0x10", "1e6M", "e6", ""])
def test_other_forms_are_no_numbers(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a whole number"):
        options.WholeNumber(0).convert(text, None, None)


def test_all_modes_have_a_word() -> None:
    every = [each.name for each in modes.all_modes()[0]]
    assert [each.name for each in modes.modes("all")] == every
    assert "pp" in every and "edges" not in every
    named = [each.name for each in modes.modes("tpp:cold=1,all,pp,edges")]
    assert sorted(named) == sorted([*every, "tpp:cold=1", "edges"])


def test_run_says_which_command_takes_all_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("run", "--mode", "all", "x.elf") == 125
    assert "`simprof compare --mode all` takes several" in capsys.readouterr().err
