"""docs/INSTRUMENT.md shows what `simprof instrument` writes, and names every cause of rewriting."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.rewriting.draft import Cause
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "INSTRUMENT.md").read_text()
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(.*?)\s*(?:!.*)?$", re.MULTILINE)


def disassembled(text: str) -> list[tuple[str, str]]:
    """The instructions of a listing, with their addresses, without objdump's comments."""
    return [(address, " ".join(code.split())) for address, code in INSTRUCTION.findall(text)]


def shown() -> Iterator[tuple[list[str], list[tuple[str, str]]]]:
    """Yield each command with objdump on the page, and the listing behind it."""
    for command, listing in re.findall(
        r"^    (sparc64-linux-gnu-objdump .*)\n\n((?:    .*\n)+)", PAGE, re.MULTILINE
    ):
        yield shlex.split(command), disassembled(listing)


@pytest.mark.toolchain
def test_the_routine_before_and_after_is_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (instrument,) = re.findall(r"\n\n    simprof (instrument .* -o sieve.pp fixtures/.*)\n\n", PAGE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    report = ["--report", str(tmp_path / "report")]
    assert cli.run([*shlex.split(instrument), *report]) == 0
    listings = list(shown())
    assert [command[-2].partition("=")[2] for command, _ in listings] == [
        "strlen",
        "strlen.simprof",
    ]
    for command, listing in listings:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert disassembled(printed) == listing


def test_all_causes_are_named() -> None:
    table = PAGE.split("## What rewriting costs")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(map(str, Cause))
