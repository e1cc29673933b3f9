"""The man pages, and the site's page of all commands, are those of the commands as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simprof.profiler.commands.group import SUBCOMMANDS
from tests.support.turns import first
from tools import command_pages


@pytest.mark.parametrize("path", sorted(command_pages.files()), ids=lambda path: path.name)
def test_pages_are_as_the_commands_are(path: Path) -> None:
    wanted = command_pages.files()[path]
    assert path.read_text() == wanted, f"{path.name}: run tools/command_pages.py"


def test_every_command_has_its_page() -> None:
    assert {path.name for path in command_pages.MAN.iterdir()} == set(command_pages.man_pages())
    assert {f"simprof-{name}.1" for name in SUBCOMMANDS} < set(command_pages.man_pages())
    text = command_pages.reference()
    assert all(f"\n## simprof {name}\n" in text for name in SUBCOMMANDS)


def test_man_formats_a_page_without_a_warning() -> None:
    if shutil.which("man") is None:
        pytest.skip("there is no `man`")
    command = ["man", "--warnings", "-l", str(command_pages.MAN / "simprof-run.1")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "MANWIDTH": "80"}
    )
    assert "simprof-run - Run a program under one scheme and report" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "found"),
    first(
        2,
        [
            ("simprof suite b", {"plain,build"}),
            ("simprof run --mode t", {"plain,tpp"}),
            ("simprof ru", {"plain,run"}),
            ("simprof run --stdi", {"plain,--stdin"}),
        ],
    ),
)
def test_bash_is_told_what_words_may_follow(words: str, found: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "simprof"],
        env={
            **os.environ,
            "_SIMPROF_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == found


def script(shell: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "simprof", "completion", shell],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    assert f"_SIMPROF_COMPLETE={shell}_complete" in script(shell)


def test_the_shells_that_are_here_accept_their_scripts() -> None:
    here = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell) is not None]
    assert "bash" in here
    for shell in here:
        subprocess.run([shell, "-n"], input=script(shell), text=True, check=True)
