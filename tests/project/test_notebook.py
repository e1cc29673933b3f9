"""What notebooks show of results: frames, plots, HTML; and the notebook in docs/, executed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pandas as pd
import pytest
from matplotlib import pyplot

import simprof
from simprof._results import shown
from tests.support.hostile_profile import NAMES, hostile_measurement
from tests.support.samples import measurement
from tools.notebook_outputs import NOTEBOOKS, executed
from tools.notebook_outputs import shown as shown_by

SIEVE = "fixtures/bin/v9/sieve.elf"
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


@pytest.fixture(autouse=True)
def drawn_nowhere() -> Iterator[None]:
    mpl.use("Agg")
    yield
    pyplot.close("all")


class Reader(HTMLParser):
    """The tags and the cells of some HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("td", "th", "caption"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def comparison() -> simprof.Comparison:
    return simprof.compare(SIEVE, ["pp", "qpt2"])


def test_a_frame_has_the_counts(comparison: simprof.Comparison) -> None:
    one = comparison.measurements["pp"]
    for table in ("routines", "edges", "paths", "blocks"):
        frame = one.to_frame(table)
        assert len(frame) > 0
        assert frame["routine"].isin([routine.name for routine in one.routines]).all()
    routines = one.to_frame()
    assert routines["added"].sum() == one.added
    assert routines["added"].dtype == "int64"
    edges = one.to_frame("edges")
    counted = [edge.count for routine in one.routines for edge in routine.edge_counts]
    assert edges["executions"].tolist() == counted
    with pytest.raises(simprof.SimprofError, match="unknown table 'lanes': choose from routines"):
        one.to_frame("lanes")


def test_a_comparison_is_a_frame_too(comparison: simprof.Comparison) -> None:
    frame = comparison.to_frame().set_index("mode")
    assert frame["added"].to_dict() == {
        name: one.added for name, one in comparison.measurements.items()
    }
    assert frame.loc["pp", "overhead"] == comparison.measurements["pp"].overhead


def test_how_much_is_attributed_is_a_property_and_a_column() -> None:
    control = SIEVE.replace("sieve", "control")
    compared = simprof.compare(control, ["pp", "tpp:cold=20:loop=2"])
    judged = compared.measurements["tpp:cold=20:loop=2"]
    lost = {"flow_blocks": 16505, "overcounted_blocks": 0, "undercounted_blocks": 195}
    assert {name: judged.lost[name] for name in lost} == lost
    assert judged.attributed == 1 - 195 / 16505
    column = compared.to_frame().set_index("mode")["attributed"]
    assert column["tpp:cold=20:loop=2"] == judged.attributed
    assert pd.isna(column["pp"])
    assert "98.8%" in compared._repr_html_()
    assert compared.measurements["pp"].attributed is None


def test_unknown_and_long_numbers_keep_their_values() -> None:
    frame = shown(measurement(lines={})).to_frame()
    assert frame["line"].isna().all()
    frame = shown(hostile_measurement()).to_frame("paths")
    assert frame["path"].tolist()[:3] == [0, 1, 2]
    assert frame["routine"].unique().tolist() == list(NAMES)


def bars(axes: Any) -> list[Any]:
    return list(axes.patches)


def test_plots_have_a_bar_each(comparison: simprof.Comparison) -> None:
    axes = comparison.plot()
    widths = [bar.get_width() for bar in bars(axes)]
    assert widths == [100 * one.overhead for one in comparison.measurements.values()][::-1]
    one = comparison.measurements["pp"]
    axes = one.plot(top=3)
    assert len(axes.patches) == 6
    most = max(routine.added for routine in one.routines)
    assert most in {bar.get_width() for bar in bars(axes)}
    axes.figure.canvas.draw()


def test_the_page_says_what_the_report_says(comparison: simprof.Comparison) -> None:
    one = comparison.measurements["pp"]
    page = Reader(one._repr_html_())
    assert page.tags <= TAGS
    assert {SIEVE, "3,723,625 instructions", "3,293,685 instructions", "88.45%"} <= {*page.cells}
    page = Reader(comparison._repr_html_())
    assert {"pp", "qpt2", "3,293,685", "3,043,168"} <= {*page.cells}


def test_graphs_are_tables() -> None:
    edges = [["A<b>", "B"], ["A<b>", "C"], ["B", "D"], ["C", "D"]]
    figure = {"entry": "A<b>", "exit": "D", "edges": edges, "runs": [["A<b> B D", 7]]}
    planned = simprof.plan(figure, mode="pp")
    page = Reader(planned._repr_html_())
    assert page.tags <= TAGS
    assert "A<b> > B" in page.cells
    assert {action for edge in planned.edges for action in edge.actions} <= {*page.cells}
    recovered = simprof.recover(SIEVE)
    page = Reader(recovered._repr_html_())
    assert page.tags <= TAGS
    largest = max(recovered.routines, key=lambda cfg: len(cfg.blocks))
    at = page.cells.index(largest.name)
    assert page.cells[at + 2 : at + 4] == [f"{len(largest.blocks)}", f"{len(largest.edges)}"]
    assert f"{sum(len(cfg.edges) for cfg in recovered.routines):,}" in page.cells


def test_names_are_no_markup() -> None:
    for text in (
        shown(hostile_measurement())._repr_html_(),
        simprof.Comparison({NAMES[0]: shown(hostile_measurement())}, 1, 1)._repr_html_(),
    ):
        assert Reader(text).tags <= TAGS
        assert text.isprintable()


def test_missing_libraries_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    one: Any = shown(measurement())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(simprof.SimprofError, match=r"^to_frame needs pandas: `pip install"):
        one.to_frame()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(simprof.SimprofError, match=r"^plot needs matplotlib: `pip install"):
        one.plot()


def test_a_saved_measurement_comes_back_as_it_was(tmp_path: Path) -> None:
    one = shown(measurement())
    simprof.save(one, tmp_path / "profile")
    assert simprof.load(tmp_path / "profile") == one
    assert isinstance(one.to_frame(), pd.DataFrame)


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_committed_notebooks_show_what_they_show_when_executed(path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    expected = shown_by(committed)
    assert any("text/html" in output for cell in expected for output in cell)
    assert any("image/png" in output for cell in expected for output in cell)
    assert shown_by(executed(path)) == expected, "run tools/notebook_outputs.py --write"
