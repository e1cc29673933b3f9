"""`simprof doctor` says where what is learnt of programs is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

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
