"""Tables `traces` and `net`: what they take from results, and what a cell of `wpp` finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.experiments.cells import executed
from simprof.profiler.experiments.cells.cells import CellDocument
from simprof.profiler.experiments.tables.expressions import Found
from simprof.profiler.experiments.tables.later import NET, TRACES
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.trace.net import DELAYS
from tests.support.report_tables import document_of

Find = Callable[..., Path]
WPP = Setting("wpp", "wpp", SchemeOptions())


def sizes(program: Path, directory: Path) -> dict[str, int]:
    root = directory / "root"
    root.mkdir()
    guest = GuestOptions(root=root)
    return executed.path_trace_sizes(RunRequest(program, guest), WPP)


def test_sizes_of_a_trace_of_paths(fixture_elf: Find, tmp_path: Path) -> None:
    found = sizes(fixture_elf("loops"), tmp_path)
    assert found["path_trace_bytes"] == 4 * found["path_symbols"]
    assert 0 < found["path_zstd_bytes"] < found["grammar_bytes"] < found["path_trace_bytes"]
    assert found["grammar_rules"] < found["grammar_symbols"] < found["path_symbols"]
    hits = [found[f"net_hits_{delay}"] for delay in DELAYS]
    assert hits == sorted(hits, reverse=True)
    assert hits[0] > hits[-1]
    assert found["net_counters_50"] < found["net_paths"]


def test_no_grammar_is_made_of_a_trace_that_is_too_long(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executed, "MOST_BYTES", 100)
    found = sizes(fixture_elf("loops"), tmp_path)
    assert found.keys() == {"path_symbols", "path_trace_bytes", "path_zstd_bytes"}


def column(table: object, key: str, found: Found) -> object:
    (value,) = (each.value for each in table.columns if each.key == key)  # type: ignore[attr-defined]
    return value(found)


def test_columns() -> None:
    def result(**sizes: int) -> CellDocument:
        return document_of(base=2_000_000, added=500_000, sizes=sizes)

    net = {"net_hot_50": 80, "net_hits_50": 60, "net_noise_50": 20}
    found = {
        "wpp": result(trace_bits=8_001),
        "paths": result(grammar_bytes=50, path_symbols=77, **net),
    }
    assert column(TRACES, "wpp", found) == 500.5  # 1,001 bytes for two million instructions
    assert column(TRACES, "grammar", found) == 25
    assert column(TRACES, "zstd", found) is None  # not made
    assert column(TRACES, "symbols", found) == 77
    assert column(TRACES, "wpp_overhead", found) == 25
    assert column(NET, "hits50", found) == 75
    assert column(NET, "noise50", found) == 25
    assert column(NET, "hits1", found) is None
