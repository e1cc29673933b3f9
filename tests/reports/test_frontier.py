"""Overhead against accuracy as a picture: which schemes are on the line, and where names stand."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import simprof
from simprof.profiler import cli
from simprof.profiler.reports.html import page
from simprof.profiler.reports.html.frontier import (
    LETTER,
    SchemePoint,
    best_of,
    frontier,
    points,
)
from tests.support.turns import first

FindElf = Callable[..., Path]


def schemes(rng: random.Random, count: int) -> list[SchemePoint]:
    names = rng.sample(["pp", "tpp", "calls-optimal", "block-trace", "fifo"] * 6, count)
    return [
        SchemePoint(f"{name}{number}", rng.choice((rng.random(), 7 * rng.random(), 0.0)), good)
        for number, name in enumerate(names)
        for good in (rng.choice((1.0, 1.0, rng.random(), 0.0)),)
    ]


@pytest.mark.seeds(range(100))
def test_no_scheme_beats_one_on_the_line(seed: int) -> None:
    every = schemes(random.Random(seed), 12)
    best = best_of(every)
    for one in every:
        better = [
            other
            for other in every
            if other.overhead <= one.overhead
            and other.accuracy >= one.accuracy
            and (other.overhead, other.accuracy) != (one.overhead, one.accuracy)
        ]
        alike = [other for other in best if other[1:] == one[1:]]
        assert bool(alike) == (not better), one
    assert [each.overhead for each in best] == sorted(each.overhead for each in best)


@pytest.mark.seeds(range(40))
def test_names_are_in_the_picture_and_cover_nothing(seed: int) -> None:
    every = schemes(random.Random(seed), 20)
    drawn = frontier(every)
    assert drawn is not None
    boxes = []
    for label in drawn.labels:
        left, base = label.at
        assert left >= 0
        assert 0 <= base <= drawn.height
        boxes.append((left, base - 9, left + LETTER * len(label.name), base + 2))
        assert drawn.left <= label.x <= drawn.width
        assert drawn.top <= label.y <= drawn.bottom
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            apart = one[2] <= other[0] or other[2] <= one[0]
            assert apart or one[3] <= other[1] or other[3] <= one[1]


def test_the_axis_begins_at_nothing() -> None:
    drawn = frontier([SchemePoint("a", 0.0, 0.5), SchemePoint("b", 6.4, 1.0)])
    assert drawn is not None
    assert drawn.labels[0].x == drawn.left
    # a quarter of the overhead is at half the way
    places = {text: x - drawn.left for x, text in drawn.across}
    assert places["0 %"] == 0
    assert places["160 %"] == pytest.approx(2 * places["40 %"])
    assert drawn.line.startswith(f"M{drawn.left}.0 ")
    assert frontier([SchemePoint("a", 0.0, 0.5)]) is None
    assert frontier([SchemePoint("a", 0.0, 0.5), SchemePoint("b", 0.0, 0.5)]) is not None


def test_points_are_schemes_whose_accuracy_is_known(fixture_elf: FindElf) -> None:
    found = simprof.compare(fixture_elf("control"), ["pp", "qpt2", "qpt", "tpp", "bits"])
    drawn = points(tuple(found.measurements.items()))
    assert [each.name for each in drawn] == ["pp", "qpt2", "tpp", "bits"]
    assert [each.accuracy == 1 for each in drawn] == [True, False, True, True]
    alone = points([("qpt2", found.measurements["qpt2"])])
    assert alone == []


@pytest.mark.long
def test_pages_have_the_picture(
    fixture_elf: FindElf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elf, html = str(fixture_elf("loops")), tmp_path / "page.html"
    assert cli.run(["compare", "-q", "--mode", "pp,tpp,qpt2", "--html", str(html), elf]) == 0
    text = html.read_text()
    picture = text[text.index("<svg xmlns") : text.index("</svg>", text.index("<svg xmlns")) + 6]
    names = [each.text for each in ElementTree.fromstring(picture) if each.tag.endswith("text")]
    assert names[-3:] == ["pp", "tpp", "qpt2"]
    assert text.count("exact") >= 2
    files = []
    for mode in ("pp", "qpt2"):
        files.append(str(tmp_path / mode))
        assert cli.run(["run", "-q", "--mode", mode, "-o", files[-1], elf]) == 0
    assert cli.run(["show", *files, "--html", str(html)]) == 0
    assert 'class="plot frontier"' in html.read_text()
    assert cli.run(["show", files[0], "--html", str(html)]) == 0
    assert 'class="plot frontier"' not in html.read_text()
    assert cli.run(["compare", "--html", "-", elf]) == 125
    assert "name a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", first(1, ['<b>&"', "pp"]))
def test_names_are_no_markup(name: str) -> None:
    drawn = frontier([SchemePoint(name, 0.1, 1.0), SchemePoint("pp", 0.2, 1.0)])
    text = page.environment().get_template("frontier.svg").render(frontier=drawn)
    assert "<b>" not in text
    assert ElementTree.fromstring(text) is not None


def test_comparisons_are_drawn_in_notebooks(fixture_elf: FindElf) -> None:
    pytest.importorskip("matplotlib").use("agg")
    found = simprof.compare(
        fixture_elf("loops"), ["pp", "tpp", "qpt2", "qpt", "ppp", "bits", "naive"]
    )
    axes = found.frontier()
    assert {"tpp", "qpt2", "pp"} < {each.get_text() for each in axes.texts}
    assert axes.get_xlim()[0] == 0
    # Names stand beside each other, and cover no point, however many there are.
    canvas: Any = axes.figure.canvas
    drawn = canvas.get_renderer()
    places = [each.get_window_extent(drawn) for each in axes.texts]
    assert not any(a.overlaps(b) for a, b in combinations(places, 2))
    assert found.to_frame()[["mode", "accuracy"]].values.tolist()[0] == ["pp", 1.0]
