"""Pages about suites; those of tables are tested with tables."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.reports.pages import render_suite_page
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.reports.html.summary import longest
from tests.support.report_tables import document_of


def body(page: str) -> ET.Element:
    return ET.fromstring(page[page.index("<body>") : page.index("</body>") + len("</body>")])


def test_the_longest_bar_is_the_highest_overhead() -> None:
    suite = load_suite("micro")
    first, second = suite.benchmarks[:2]
    bad = document_of(error="it <died>")
    good = document_of(added=10, base=100), document_of(added=5, base=100)
    rows = [(first, good), (replace(second, name="<b>x</b>"), (good[1], bad))]
    page = render_suite_page(suite, rows, ["pp", "qpt2"], "Input ref")
    assert "<b>" not in page and "&lt;b&gt;x&lt;/b&gt;" in page and "it &lt;died&gt;" in page
    fills = [float(each.attrib["width"]) for each in body(page).iter("rect")][1::2]
    assert fills[0] == max(fills) and fills[1] == fills[2] == fills[0] / 2


def test_a_suite_is_run_into_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    page = tmp_path / "page.html"
    words = ["suite", "run", "micro", "--benchmark", "faults", "--html", str(page), "--jobs", "1"]
    assert run(words) == 0
    texts = set(body(page.read_text()).itertext())
    assert {"faults", "qpt2", "pp", "3,449"} <= texts
    assert "3,449" in capfd.readouterr().out


def test_a_page_that_cannot_be_written_is_found_out_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["suite", "run", "micro", "--html", str(tmp_path / "no" / "page.html")]) == 125
    assert capfd.readouterr().err.count("\n") == 1


def test_the_bar_of_one_profile_is_a_share_of_base() -> None:
    """Among several, the largest overhead has the longest bar."""
    assert longest([0.25]) == 1.0
    assert longest([2.5]) == 2.5
    assert longest([0.25, 0.5]) == 0.5
    assert longest([]) == 1.0
