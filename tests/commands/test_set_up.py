"""`simprof cache`: what is kept is listed, and removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.profiles.cache_files import VARIABLE, binaries
from simprof.profiler.session.memory import BinaryMemory
from simprof.simulator.binary.elf import load
from tests.support.cli import simprof


def test_what_is_kept_is_listed_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "simprof" / "binaries"
    assert simprof("cache", "list") == 0
    assert capsys.readouterr().out == f"{place}: nothing is kept\n"
    binaries().write("bench.0123456789abcdef.01234567.graphs-00", bytes(12_345_678))
    for what in ("run-00", "lines", "facts-00", "ways-00", "expected-ways-00"):
        binaries().write(f"bench.0123456789abcdef.01234567.{what}", bytes(84))
    (place / "other").write_text("?")
    assert simprof("cache", "list") == 0
    title, *rows, total = capsys.readouterr().out.splitlines()
    assert title.split() == ["used", "program", "sha256", "what", "bytes"]
    found = sorted(" ".join(row.split()[2:]) for row in rows)
    assert found == [
        "bench 0123456789abcdef facts about its graphs 100",
        "bench 0123456789abcdef graphs of its routines 12,345,694",
        "bench 0123456789abcdef its source lines 100",
        "bench 0123456789abcdef paths that runs took 100",
        "bench 0123456789abcdef paths that runs took 100",
        "bench 0123456789abcdef what a run has shown 100",
        "other not simprof's 1",
    ]
    assert total == f"{place}: 7 files, 12,346,195 bytes"
    assert simprof("cache", "clear") == 0
    assert capsys.readouterr().out == f"removed from {place}: 7 files, 12,346,195 bytes\n"
    assert list(place.iterdir()) == []


def test_every_file_that_runs_keep_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fixture_elf: Callable[..., Path],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    for mode in ("pp", "tpp"):
        assert simprof("run", "-q", "--mode", mode, str(fixture_elf("sieve"))) == 0
    assert simprof("cache", "list") == 0
    listed = capsys.readouterr().out
    assert "what schemes count along paths" in listed and "not simprof's" not in listed
    with pytest.raises(AssertionError, match="no name for files of colours-0"):
        BinaryMemory(load(fixture_elf("sieve")), binaries())._load("colours-0", dict)
