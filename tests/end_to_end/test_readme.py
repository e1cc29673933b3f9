"""The figures of the README and the guide."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from simprof.profiler import cli
from tests.support.turns import first

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: str) -> list[str]:
    """Return the indented blocks of a document, in order, blank lines within them kept."""
    found: list[list[str]] = []
    inside = False
    for line in (ROOT / document).read_text().splitlines():
        if line.startswith("    "):
            if not inside:
                found.append([])
            found[-1].append(line.removeprefix("    "))
        elif not line and inside:
            found[-1].append("")
            continue
        inside = line.startswith("    ")
    return ["\n".join(lines).strip("\n") for lines in found]


@pytest.mark.parametrize(
    ("document", "command"),
    first(
        2,
        [
            (
                "README.md",
                "simprof compare --mode qpt2,pp,tpp,witness fixtures/bin/v9/bench.elf",
            ),
            ("docs/GUIDE.md", "simprof run --mode=pp fixtures/bin/v9/bench.elf"),
            (
                "docs/GUIDE.md",
                "simprof verify --on emulator --mode pp,qpt2,tpp fixtures/bin/v9/bench.elf",
            ),
        ],
    ),
)
def test_examples_print_what_the_document_shows(
    document: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is the rest of the command's block, or else the next block."""
    found = blocks(document)
    (place,) = [number for number, block in enumerate(found) if block.split("\n")[0] == command]
    _, _, shown = found[place].partition("\n")
    shown = (shown or found[place + 1]).strip("\n")
    assert shown.split()[:2] == ["program", "fixtures/bin/v9/bench.elf"]
    monkeypatch.chdir(ROOT)
    report = tmp_path / "report"
    program, *arguments = shlex.split(command)
    assert program == "simprof"
    assert cli.run([arguments[0], "--report", str(report), *arguments[1:]]) == 0
    assert report.read_text().rstrip("\n") == shown, f"{document}: put what the command prints"
