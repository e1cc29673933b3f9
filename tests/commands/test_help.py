"""What is suggested where an option or a command does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from simprof.profiler.commands.group import simprof as main
from simprof.profiler.commands.help import meant
from simprof.profiler.request.likeness import alike
from tests.support.cli import simprof


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["run", "--save", "x", "a.elf"],
            "No such option '--save'. Did you mean '--output'? (see simprof run --help)",
        ),
        (
            ["show", "a.profile", "paths", "--format", "csv"],
            "No such option '--format'. Did you mean '--csv' or '--json'? "
            "(see simprof show --help)",
        ),
        (["graph"], "No such command 'graph'. Did you mean 'explain'? (see simprof --help)"),
        (["regenerate"], "No such command 'regenerate'. Did you mean 'read'? (see simprof --help)"),
        (
            ["annotate"],
            "No such command 'annotate'. Did you mean 'show PROFILE source'? (see simprof --help)",
        ),
        (
            ["edges", "p"],
            "No such command 'edges'. Did you mean 'show PROFILE edges'? (see simprof --help)",
        ),
        (
            ["run", "--detials", "a.elf"],
            "No such option '--detials'. Did you mean '--details'? (see simprof run --help)",
        ),
        (["run", "--zzz", "a.elf"], "No such option '--zzz'. (see simprof run --help)"),
        (["run", "-z", "a.elf"], "No such option '-z'. (see simprof run --help)"),
        (["compair"], "No such command 'compair'. Did you mean 'compare'? (see simprof --help)"),
        (
            ["regress", "chek"],
            "No such command 'chek'. Did you mean 'check'? (see simprof regress --help)",
        ),
        (["zzz"], "No such command 'zzz'. (see simprof --help)"),
        (["rnu"], "No such command 'rnu'. Did you mean 'run'? (see simprof --help)"),
        (
            ["run", "--mode", "edgs", "a.elf"],
            "Invalid value for '--mode': unknown mode 'edgs': did you mean 'edges'? "
            "(see simprof run --help)",
        ),
        (
            ["compare", "--sort", "overhed", "a.elf"],
            "Invalid value for '--sort': 'overhed' is not one of overhead, accuracy, coverage, "
            "mode, given: did you mean overhead? (see simprof compare --help)",
        ),
        (
            ["table", "eep1"],
            "unknown table 'eep1': did you mean 'epp1'?",
        ),
        (
            ["suite", "list", "micr"],
            "unknown suite 'micr': did you mean 'micro'? (or name a .toml file)",
        ),
        (
            ["compare", "--mode", "pp,tp", "a.elf"],
            "Invalid value for '--mode': unknown mode 'tp': did you mean 'tpp'? "
            "(see simprof compare --help)",
        ),
    ],
)
def test_the_line_says_what_was_meant(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simprof(*arguments) == 125
    assert capsys.readouterr().err == f"simprof: {line}\n"


def test_names_that_only_share_letters_are_not_meant() -> None:
    known = ["--argv0", "--table", "--trace"]  # what difflib finds like --save, dashes included
    assert meant("--save", known) == []
    assert meant("--save", [*known, "--output"]) == ["--output"]


def test_a_beginning_means_all_that_begin_so() -> None:
    known = ["--source-dir", "--source", "--sort"]
    assert meant("--sour", known) == ["--source", "--source-dir"]
    assert meant("--so", ["--sort-by"]) == []


def test_help_names_options_that_a_command_has() -> None:
    """Texts that commands share name no option that one of them lacks."""
    for name in ("run", "compare"):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
        quiet = next(each for each in command.params if "--quiet" in each.opts)
        assert isinstance(quiet, click.Option)
        assert set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", quiet.help or "")) <= known


def test_the_command_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof() == 0
    alone = capsys.readouterr().out
    assert simprof("--help") == 0
    assert alone == capsys.readouterr().out != ""


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of all commands that have options."""
    if not isinstance(context.command, click.Group):
        yield context
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        assert command is not None
        own = {**command.context_settings, "terminal_width": 80}
        yield from _commands(click.Context(command, context, name, **own))


def test_help_of_more_than_50_lines_has_two_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    longest = {}
    for context in _commands(click.Context(main, info_name="simprof", terminal_width=80)):
        words = context.command_path.split()[1:]
        assert simprof(*words, "--help") == 0
        short = capsys.readouterr().out.count("\n")
        assert short <= 50, context.command_path
        longest[context.command_path] = context.get_help().count("\n")
    assert longest["simprof run"] > 100


@pytest.mark.parametrize(
    ("word", "names", "found"),
    [
        ("ttp", ("tpp", "ppp", "pp"), ["tpp"]),
        ("pq", ("pp",), []),
        ("fast", ("bits", "fifo"), []),
    ],
)
def test_one_letter_of_a_short_name_may_be_wrong(
    word: str, names: tuple[str, ...], found: list[str]
) -> None:
    assert alike(word, names, loosely=True) == found


def test_a_letter_of_the_programs_own_options_may_not() -> None:
    assert alike("end", ("env",)) == []
