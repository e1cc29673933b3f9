"""Counts of lines against gcov's of a build without optimisation, and the words for differences.

Without optimisation every line that both know has gcov's count. gcov also has counts of lines that
have no code (the headers of functions, labels of `switch`). With optimisation each line that counts
something else has a word that says why.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simprof.profiler import cli
from simprof.profiler.profiles.lines import LineCounts, Placing, SourceCounts
from simprof.simulator.binary import inlining
from simprof.simulator.binary.elf import load
from simprof.simulator.binary.inlining import read_inlining
from tests.conftest import ROOT
from tests.oracles.exact import simulate

SOURCE = ROOT / "tests" / "programs" / "wordfreq.c"
OPTIMISED = {Placing.INLINED, Placing.SPREAD, Placing.SHARED, Placing.ALONE}
FLAGS = {"v9": "-m64", "v8plus": "-m32"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What gcov says of a native build without optimisation."""
    directory = tmp_path_factory.mktemp("native")
    (directory / "w.c").write_text(SOURCE.read_text())
    for command in (["gcc", "-O0", "--coverage", "w.c", "-o", "w"], ["./w"]):
        subprocess.run(command, cwd=directory, capture_output=True, check=True)
    (data,) = directory.glob("*.gcda")
    command = ["gcov", "--json-format", "--stdout", data.name]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=True)
    (report,) = (file for file in json.loads(done.stdout)["files"] if file["file"].endswith("w.c"))
    return dict(report)


def lines(report: dict[str, Any]) -> dict[int, int]:
    """Line -> gcov's count."""
    return {line["line_number"]: line["count"] for line in report["lines"]}


def counted(program: Path, directory: Path) -> SourceCounts:
    (run,) = simulate(program, directory=directory, modes=("edges",)).measurements.values()
    return SourceCounts(run, load(program))


def own(counts: SourceCounts) -> dict[int, LineCounts]:
    """Line -> its counts, of the program's own source."""
    (file,) = (lines for name, lines in counts.files.items() if name.endswith("source.c"))
    return dict(file)


def own_placings(counts: SourceCounts) -> dict[int, Placing]:
    """Line -> how its code lies."""
    lines = (each.line for each in own(counts).values())
    return {line.line: counts.placings.get(line, Placing.OWN) for line in lines}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize("width", ["v8plus"])
def test_without_optimisation_lines_count_as_for_gcov(
    compile_c: Callable[..., Path], tmp_path: Path, expected: dict[str, Any], width: str
) -> None:
    """Also those of an `if` whose `then` ends in a jump of the same line, from several blocks."""
    counts = counted(compile_c(SOURCE, ("-O0", "-g"), width), tmp_path)
    found, placings = own(counts), own_placings(counts)
    common = found.keys() & lines(expected).keys()
    assert {line: found[line].executions for line in common} == {
        line: count for line, count in lines(expected).items() if line in common
    }
    assert len(common) > 75
    text = SOURCE.read_text().splitlines()
    without_code = [text[line - 1].strip() for line in lines(expected).keys() - common]
    assert all(line.startswith(("static", "int main", "case", "default")) for line in without_code)
    assert set(placings.values()) == {Placing.OWN, Placing.JUMPS}
    jumps = {text[line - 1].strip() for line in found if placings[line] is Placing.JUMPS}
    assert jumps <= {"break;", "continue;"}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize("width", ["v9"])
def test_with_optimisation_each_other_count_has_its_word(
    compile_c: Callable[..., Path], tmp_path: Path, expected: dict[str, Any], width: str
) -> None:
    program = compile_c(SOURCE, ("-O2", "-g"), width)
    counts = counted(program, tmp_path)
    found = own(counts)
    assert set(own_placings(counts).values()) == OPTIMISED
    other = [line for line in found if found[line].executions != lines(expected).get(line)]
    assert other, "nothing differs: the program shows nothing"
    functions = {each["name"]: each for each in expected["functions"]}
    inlined = {each.copy.name: each for each in counts.inlined if each.copy.name in functions}
    assert "hash" in inlined
    assert inlined["hash"].executions == functions["hash"]["execution_count"]
    # The compiler's own listing of what it inlined, read by other code.
    listing = subprocess.run(
        ["sparc64-linux-gnu-readelf", "--debug-dump=info", program],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    copies = read_inlining(load(program)).copies
    empty = len(re.findall(r"entry_pc.*(?:\n.*){2,3}\n.*high_pc +: 0\n", listing))
    assert len(copies) == listing.count("DW_AT_entry_pc") - empty


@pytest.mark.long
@pytest.mark.toolchain
def test_annotate_and_exports_say_so(
    compile_c: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, profile = compile_c(SOURCE, ("-O2", "-g")), tmp_path / "w.prof"
    run = ["run", "--root", str(tmp_path), "--mode", "edges", "-o", str(profile), str(program)]
    assert cli.run(run) == 0
    capsys.readouterr()
    assert cli.run(["show", str(profile), "source"]) == 0
    shown = capsys.readouterr().out
    assert "\nshared: optimised; the count of a block that holds other lines, too\n" in shown
    assert "Inlined routines\n" in shown
    assert cli.run(["show", "--json", str(profile), "source"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert {line["code"] for line in file["lines"]} == OPTIMISED
    hashed = [each for each in file["inlined"] if each["name"] == "hash"]
    assert {(each["line"], each["into"]) for each in hashed} <= {(17, "lookup"), (17, "main")}
    assert hashed
    assert (
        cli.run(["export", "--format", "lcov", str(profile), "-o", str(tmp_path / "w.info")]) == 0
    )
    assert (
        "executed lines are optimised code, whose counts need not be the source's"
        in capsys.readouterr().err
    )
    assert f"FN:{hashed[0]['line']},hash\n" in (tmp_path / "w.info").read_text()


def test_what_is_optimised_is_known_beyond_the_limit_of_entries(
    fixture_elf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load(fixture_elf("bench"))
    whole = read_inlining(program)
    monkeypatch.setattr(inlining, "MOST_ENTRIES", 5)
    cut = read_inlining(program)
    assert cut.optimised == whole.optimised
    assert len(whole.optimised) > 5
    assert len(cut.copies) < len(whole.copies)


@pytest.mark.parametrize("file", sorted((ROOT / "tests" / "corpora" / "dwarf").iterdir()), ids=str)
def test_damaged_debugging_information_ends_the_reading(file: Path) -> None:
    try:
        program = load(file)
    except Exception:  # a file that is no program has its own tests
        pytest.fail(f"{file.name} cannot be loaded")
    found = read_inlining(program)
    assert list(found.copies) == sorted(found.copies, key=lambda copy: copy.entry)
