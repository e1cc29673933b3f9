"""`simprof doctor` on viewers: what is there, and what to do where something is not."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from simprof.profiler.exports.formats import FORMATS
from simprof.profiler.reports.doctor import render_text
from simprof.profiler.session import diagnosis
from simprof.profiler.session.diagnosis import Diagnosis, SystemCheck

NAMES = {
    "callgrind_annotate",
    "genhtml",
    "gcovr",
    "dot",
    "pprof",
    "speedscope",
    "flamegraph.pl",
    "covoar",
    "datasette",
    "jupyter",
    "browser",
    "pandas",
    "matplotlib",
    "pyarrow",
}


def found() -> dict[str, SystemCheck]:
    return {check.name: check for check in diagnosis.check_viewers()}


def test_where_nothing_is_there_each_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(metadata, "version", missing)
    viewers = found()
    assert viewers.keys() == NAMES
    assert not any(check.ok or check.required for check in viewers.values())
    assert viewers["genhtml"].remedy == "apt-get install lcov"
    assert viewers["genhtml"].detail == "genhtml not found; shows `export --format lcov`"
    assert viewers["pandas"].detail == "not installed; frames in notebooks"
    text = render_text(Diagnosis(tuple(viewers.values())))
    for check in viewers.values():
        assert check.remedy is not None
        assert check.remedy in text
    assert "To get pandas, matplotlib:\n    pip install 'simprof[notebook]'" in text
    assert text.endswith("simprof works.\n")


def test_what_is_there_is_named_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("genhtml", "firefox", "go"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    viewers = found()
    assert {name for name, check in viewers.items() if check.ok} >= {"genhtml", "browser"}
    assert viewers["browser"].detail == f"shows pages of `show --html`: {tmp_path / 'firefox'}"
    assert viewers["pprof"].detail.endswith(f"(go: as `go tool pprof`): {tmp_path / 'go'}")
    assert not viewers["dot"].ok
    assert viewers["pandas"].detail == f"frames in notebooks: {metadata.version('pandas')}"


def test_every_format_that_has_a_viewer_of_its_own_is_named() -> None:
    """Others are for programs of which nobody can say how they are called: CI servers, editors."""
    shown = {
        name
        for name in FORMATS
        for each in diagnosis.VIEWERS
        if f"--format {name}`" in each.purpose
    }
    libraries = {name for name in FORMATS for _, use, _ in diagnosis.LIBRARIES if name in use}
    assert set(FORMATS) - shown - libraries == {"cobertura", "collapsed_added", "csv", "graphml"}
