"""`simprof doctor` says where what is learnt of programs is kept; shells complete words."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from simprof.profiler.commands.group import simprof
from simprof.profiler.profiles.cache_files import binaries
from simprof.profiler.session.diagnosis import check_cache


def test_doctor_names_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "simprof" / "binaries"
    what = "bytes of what earlier runs have shown of programs"
    assert check_cache().detail == f"{place}: 0 {what}"
    binaries().write("bench.0123456789abcdef.01234567.graphs-00", bytes(12_345_678))
    found = check_cache()
    assert (found.ok, found.detail) == (True, f"{place}: 12,345,694 {what}")


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        ("run", "fixtures", ["file"]),
        ("run --mode", "tp", ["tpp"]),
        ("run --mode", "tpp:cold=1:l", ["tpp:cold=1:literal-cold", "tpp:cold=1:loop="]),
        ("compare", "--mode=pp,tp", ["pp,tpp"]),
        ("table", "epp", ["epp1", "epp2", "epp3"]),
        ("table --suite", "mi", ["file", "micro"]),
        ("suite list", "mi", ["file", "micro"]),
        ("show a.profile", "ro", ["file", "routines"]),
    ],
)
def test_words_are_completed(words: str, begun: str, found: list[str]) -> None:
    completion = ShellComplete(simprof, {}, "simprof", "_SIMPROF_COMPLETE")
    items = completion.get_completions(words.split(), begun)
    assert sorted(item.type if item.type == "file" else item.value for item in items) == found
