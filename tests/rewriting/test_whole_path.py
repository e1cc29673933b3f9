"""Whole program paths that instrumented programs write, against the execution."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.rewriting.elsewhere import counter_file
from simprof.profiler.rewriting.elsewhere.whole_path import WholePath, read_whole_path
from simprof.profiler.rewriting.read_reports import subpaths_text
from simprof.profiler.trace.sequitur import grammar_of
from tests.support.regenerate import record
from tests.support.turns import turns

Find = Callable[..., Path]
PROGRAMS = ("calls", "loops", "pointers", "switches", "tailcalls", "words")
WIDTHS = ("v9", "v8plus", "v8")


def written(program: Path, directory: Path, *options: str) -> Path:
    """Instrument a program and run it; return its counter file."""
    made, counters = directory / "made", directory / "counters"
    assert cli.run(["instrument", *options, "-o", str(made), str(program)]) == 0
    words = ["--quiet", "--writable", str(directory), "--root", str(directory)]
    words += ["--env", f"SIMPROF_OUT={counters.name}", "--mode", "edges", str(made)]
    cli.run(["run", *words])
    assert counters.is_file()
    return counters


def whole_path(counters: Path, program: Path, longest: int = 4) -> WholePath:
    stream = counters.with_name("counters.trace").read_bytes()
    file = counter_file.load(counters)
    return read_whole_path(file, stream, program, longest=longest, threshold=1.0)


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), turns(PROGRAMS, WIDTHS, few=4))
def test_its_paths_are_the_execution_block_by_block(
    name: str, width: str, fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = fixture_elf(name, width)
    whole = whole_path(written(program, tmp_path, "--mode", "wpp"), program)
    blocks, result = record(program, "witness", tmp_path).follow()
    assert result.problem is None
    graphs = record(program, "bits", tmp_path).recovered
    names = [(cfg.name, block.start) for cfg in graphs.routines for block in cfg.blocks]
    executed = [names[block] for block in blocks]
    found = [
        (symbol.cfg.name, symbol.cfg.blocks[block].start)
        for symbol in map(whole.symbols.__getitem__, whole.grammar.expand())
        for block in symbol.path.blocks
    ]
    # What is not finished when the program ends is not written.
    assert found == executed[: len(found)]
    assert len(executed) - len(found) < 10
    assert len(found) > 50
    assert whole.length == whole.grammar.lengths[0] == whole.bytes // 4


@pytest.mark.long
def test_read_gives_the_profile_and_the_hot_subpaths(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = fixture_elf("loops")
    counters = written(program, tmp_path, "--mode", "wpp")
    profile, run, answer = (tmp_path / name for name in ("profile", "run", "answer"))
    common = ["--report", str(tmp_path / "report"), "--json"]
    assert cli.run(["read", str(counters), *common, str(profile)]) == 0
    assert cli.run(["run", "--mode", "wpp", *common, str(run), str(program)]) == 0
    read, ran = (json.loads(each.read_text()) for each in (profile, run))
    for kind in ("trace_tokens", "transfers", "blocks"):
        assert read["counts"][kind] == ran["counts"][kind]
    words = ["--subpaths", "3", "--threshold", "5", "--longest", "6", "--json", str(answer)]
    assert cli.run(["read", str(counters), *words]) == 0
    found = json.loads(answer.read_text())
    assert found["format"] == "simprof/subpaths"
    assert found["symbols"] == ran["counts"]["trace_tokens"]
    assert found["trace_bytes"] == 4 * found["symbols"]
    assert 0 < found["grammar_symbols"] < found["symbols"]
    assert 0 < len(found["subpaths"]) <= 3
    for subpath in found["subpaths"]:
        assert 100 * subpath["instructions"] >= 5 * found["instructions"]
        assert 0 < len(subpath["paths"]) <= 6


@pytest.mark.parametrize(
    ("mode", "words", "message"),
    [
        ("pp", ["--subpaths", "2"], "is of mode pp, which writes no trace of paths"),
        ("bits", ["--subpaths", "2", "-o", "x"], "-o saves a profile"),
        ("witness", ["--subpaths", "2"], "is of mode witness, which writes no trace of paths"),
        ("wpp", ["--subpaths", "2", "-o", "x"], "-o saves a profile"),
    ],
)
def test_what_has_no_subpaths(
    mode: str,
    words: list[str],
    message: str,
    fixture_elf: Find,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    counters = written(fixture_elf("loops"), tmp_path, "--mode", mode)
    capfd.readouterr()
    assert cli.run(["read", str(counters), *words]) == 125
    assert message in capfd.readouterr().err


@pytest.fixture(scope="module")
def traces(fixture_elf: Find, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Mode -> the counter file of a program whose paths are in the trace beside it."""
    found = {}
    for mode in ("wpp", "pap"):
        directory = tmp_path_factory.mktemp(mode)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(directory)
            found[mode] = written(fixture_elf("control"), directory, "--mode", mode)
    return found


def spoilt(trace: bytes) -> dict[str, tuple[bytes, str]]:
    """Traces that are not the one which the program wrote, and what they are refused with."""
    return {
        "no symbol": (trace[:5000] + b"\xff" * 4 + trace[5004:], "paths that no routine has"),
        "cut": (trace[:4000], "4,000 bytes, other than"),
        "cut within a symbol": (trace[:4001], "ends within a symbol, after 4,001 bytes"),
        "empty": (b"", "has 0 bytes, other than"),
        "one more": (trace + trace[-4:], f"{len(trace) + 4:,} bytes, other than"),
        "one byte more": (trace + b"\0", "ends within a symbol"),
    }


@pytest.mark.long
@pytest.mark.parametrize("how", list(spoilt(b"")))
@pytest.mark.parametrize(
    ("mode", "words"), [("wpp", []), ("wpp", ["--subpaths", "3"]), ("pap", [])]
)
def test_a_damaged_trace_is_refused(
    mode: str,
    words: list[str],
    how: str,
    traces: Mapping[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    counters = traces[mode]
    copy = tmp_path / "e.out"
    copy.write_bytes(counters.read_bytes())
    trace, message = spoilt(counters.with_name("counters.trace").read_bytes())[how]
    copy.with_name("e.out.trace").write_bytes(trace)
    capfd.readouterr()
    assert cli.run(["read", str(copy), *words]) == 125
    out, said = capfd.readouterr()
    assert out == ""
    assert said.count("\n") == 1
    assert f"{copy}.trace" in said
    assert message in said


def test_what_is_one_is_said_so(
    fixture_elf: Find,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    program = fixture_elf("loops")
    whole = whole_path(written(program, tmp_path, "--mode", "wpp"), program)
    small = replace(whole, grammar=grammar_of([0]), hot=whole.hot[:1], longest=1)
    said = subpaths_text(small, 0)
    assert "grammar: 1 rule of 1 symbol, 5 bytes\n" in said
    assert "1 minimal hot subpath: of 1 path at most" in said
