"""Lessons show the numbers of the answer, for every mode, and their text and page hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser

from simprof.profiler import cli
from simprof.profiler.graphfiles.analyse import AnalysisOptions, analyse_file
from simprof.profiler.graphfiles.lesson import Lesson, Line, Step, lesson
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.pp import RootEdge
from tests.support.browser import chromium, contrasts, covered, cut_off, opened, self_loop
from tests.support.turns import first

GRAPH: dict[str, Any] = {
    "name": "figure",
    "entry": "A",
    "exit": "F",
    "edges": [["A", "B"], ["A", "C"], ["B", "C"], ["B", "D"], ["C", "D"], ["D", "E"], ["D", "F"],
              ["E", "F"], ["E", "A"]],
    "runs": [["A B D E F", 30], ["A C D E A B C D F", 10]],
}  # fmt: skip
ENOUGH = 4.5  # Contrast of text (WCAG 1.4.3, level AA)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "figure.json"
    path.write_text(json.dumps(GRAPH))
    return path


def of(file: Path, mode: str, enumerate_paths: bool = False) -> tuple[dict[str, Any], Lesson]:
    answer = analyse_file(file, AnalysisOptions(mode=mode, enumerate=enumerate_paths))
    return answer, lesson(answer)


def step(made: Lesson, title: str) -> Step:
    (found,) = [each for each in made.steps if each.title == title]
    return found


@pytest.mark.parametrize("place", ["tree", "chord"])
def test_exit_to_entry_is_shown_where_it_is(file: Path, place: str) -> None:
    options = AnalysisOptions(scheme=SchemeOptions.of(exit_entry=RootEdge(place)))
    answer = analyse_file(file, options)
    shown = step(lesson(answer), "Spanning tree")
    added = answer["static"].get("root_increment")
    assert (added is None) == (place == "tree")
    label = "no code" if added is None else f"{added:+d} in each count"
    assert shown.lines[-1] == Line("EXIT", "ENTRY", label, place)
    assert ("It holds the edge from EXIT" in shown.text) == (place == "tree")


@pytest.mark.parametrize("mode", registry.planned_modes())
def test_every_mode_has_its_lesson(file: Path, mode: str) -> None:
    answer, made = of(file, mode)
    assert (made.title, made.mode, made.blocks) == ("figure", mode, tuple("ABCDEF"))
    titles = [each.title for each in made.steps]
    assert titles[:2] == ["The graph", "Weights"]
    assert titles[-1] == "Cost"
    assert f"{answer['instructions']['added']:,} of the scheme" in made.steps[-1].text
    assert ("Paths" in titles) == registry.definition(mode).counts_paths
    code = step(made, "Code")
    on_edges = [line.label for line in code.lines]
    assert on_edges == ["; ".join(each) for each in answer["static"]["code"]]
    assert all(len(each.rows) == len(each.marks) for each in made.steps)
    assert any(on_edges) or code.notes


def test_loops_say_what_they_got(tmp_path: Path) -> None:
    """An irreducible loop has k = 1 though the mode asks for 4, and the lesson says why."""
    ends = "A>B A>C B>C C>B B>D D>D D>E E>F F>E F>G"
    edges = [each.split(">") for each in ends.split()]
    path = tmp_path / "loops.json"
    path.write_text(json.dumps({"entry": "A", "exit": "G", "edges": edges}))
    options = AnalysisOptions(mode="kiter", scheme=SchemeOptions.of(iterations=4))
    answer = analyse_file(path, options)
    acyclic = step(lesson(answer), "Paths without cycles")
    assert "spans several iterations: 4 at E." in acyclic.text
    assert "The loop at B (B, C) has k = 1, not 4: it is irreducible" in acyclic.text
    assert "The loop at D (D) has k = 1, not 4: a loop of one block" in acyclic.text
    kinds = {(line.source, line.target): line.kind for line in acyclic.lines}
    assert (kinds["C", "B"], kinds["D", "D"], kinds["F", "E"]) == ("out", "out", "back")
    assert answer["routines"][0]["limited_loops"] == "B: 1 of 4 (irreducible)"
    assert "setf(itr) is" in step(lesson(answer), "Code").text
    once = analyse_file(path, AnalysisOptions(mode="kiter", scheme=SchemeOptions.of(iterations=1)))
    text = step(lesson(once), "Paths without cycles").text
    assert "has k" not in text and "several iterations" not in text
    assert "setf" not in step(lesson(once), "Code").text


def test_graph_that_was_given_up(file: Path) -> None:
    options = AnalysisOptions(mode="kiter", scheme=SchemeOptions.of(give_up=59))
    answer = analyse_file(file, options)
    assert answer["static"]["given_up"] == 60
    assert answer["lost"] == {"given_up_routines": 1}
    assert (answer["paths"], answer["instructions"]["added"]) == ([], 0)
    assert "There would be 60 paths" in step(lesson(answer), "Paths").text


@pytest.mark.parametrize("mode", ["pp", "tpp"])
@pytest.mark.parametrize("title", ["Numbering", "Increments"])
def test_what_is_on_the_edges_sums_up_to_the_number(file: Path, mode: str, title: str) -> None:
    """A path begins at ENTRY and ends at EXIT, by an edge of the graph or by a dummy."""
    answer, made = of(file, mode, enumerate_paths=True)
    lines, paths = step(made, title).lines, step(made, "Paths")
    numbers: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for (number, blocks, _), marks in zip(paths.rows, paths.marks, strict=True):
        numbers.setdefault((blocks, marks), set()).add(int(number))
    assert sum(map(len, numbers.values())) == answer["static"]["valid_paths"]

    def between(source: str, target: str) -> list[int]:
        return [
            int(line.label)
            for line in lines
            if (line.source, line.target) == (source, target) and line.kind in ("plain", "dummy")
        ]

    for (blocks, marks), found in numbers.items():
        first, *_, last = blocks.split()
        inner = sum(int(lines[mark].label) for mark in marks)
        assert found == {
            inner + begin + end
            for begin in between("ENTRY", first)
            for end in between(last, "EXIT")
        }


def test_one_path_is_not_many(file: Path) -> None:
    notes = step(of(file, "pp")[1], "Paths without cycles").notes
    assert {name: notes[name] for name in "EF"} == {"E": "2 paths", "F": "1 path"}


@pytest.mark.parametrize("mode", ["pp", "tpp", "qpt2", "calls-optimal"])
def test_the_tree_of_the_picture_spans_the_graph(mode: str, file: Path) -> None:
    """As drawn: the edge from EXIT to ENTRY, which carries no code, is one of its edges."""
    lines = step(of(file, mode)[1], "Spanning tree").lines
    graph = nx.MultiGraph()
    for line in lines:
        if line.kind == "tree":
            graph.add_edge(line.source, line.target)
    assert nx.is_tree(graph)
    assert set(graph) == {*"ABCDEF", "ENTRY", "EXIT"}
    assert lines[-1] == Line("EXIT", "ENTRY", "no code", "tree")


@pytest.mark.parametrize("mode", registry.planned_modes())
def test_a_graph_without_runs_has_no_counts(
    mode: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(json.dumps({key: each for key, each in GRAPH.items() if key != "runs"}))
    counts_paths = registry.definition(mode).counts_paths
    answer, made = of(file, mode, enumerate_paths=counts_paths)
    first = step(made, "The graph")
    assert "The file has no runs." in first.text
    assert {line.label for line in first.lines} == {""}
    cost = step(made, "Cost")
    assert "The runs execute" not in cost.text
    assert [line.label for line in cost.lines] == [
        f"{each:,}" for each in answer["static"]["costs"]
    ]
    if counts_paths:
        assert step(made, "Paths").head == ("number", "blocks")
        assert {line.label for line in step(made, "Paths").lines} == {""}
    assert not any("runs crossed" in each.text or "runs took" in each.text for each in made.steps)
    assert cli.run(["explain", "--summary", str(file), "--mode", mode]) == 0
    assert "attributed" not in capsys.readouterr().out


def test_the_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("figure, step by step: pp\n\n1. The graph\n6 blocks and 11 edges")
    for line in ("  E > A  10, back edge\n", "  A: 9 paths\n", "ENTRY > A  9, dummy\n",
                 "  D > F  0.5, chord\n", "  D > F  count[r-2]++\n"):  # fmt: skip
        assert "".join(line.split()) in "".join(text.split()), line
    assert cli.run(["explain", str(file), "--mode", "nosuch"]) == 125


@pytest.mark.long
@pytest.mark.browser
def test_the_page_in_chromium(browser: Browser, tmp_path: Path) -> None:
    path, page_file = tmp_path / "g.json", tmp_path / "page.html"
    graph = GRAPH | {"name": HOSTILE, "entry": HOSTILE}
    graph["edges"] = [[HOSTILE if end == "A" else end for end in edge] for edge in GRAPH["edges"]]
    graph["runs"] = [[f"{HOSTILE} B D E F", 7]]
    path.write_text(json.dumps(graph))
    assert cli.run(["explain", str(path), "--html", str(page_file)]) == 0
    modes = list(registry.planned_modes())
    with opened(browser, page_file) as page:
        assert page.locator("nav a").all_inner_texts() == modes
        for number in range(len(modes)):
            page.locator(f"#tab-{number}").click()
            section = page.locator(f"#lesson-{number}")
            section.wait_for()
            assert section.locator("svg").count() == section.locator(".step").count() >= 4
        page.goto(f"{page_file.as_uri()}#lesson-0")
        section = page.locator("#lesson-0")
        rules = "each => getComputedStyle(each).borderTopWidth"
        assert section.locator(".step").nth(0).evaluate(rules) == "0px"  # the header has one
        assert section.locator(".step").nth(1).evaluate(rules) == "1px"
        assert section.locator("svg").first.locator("text", has_text=HOSTILE).count() == 1
        row = section.locator(".step", has_text="The counters, read back").locator("tr[data-row]")
        row.first.click()
        assert section.locator(".way.on").count() == len("B D E F".split())
        page.keyboard.press("j")


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("dark", first(1, [False, True]))
def test_what_pictures_say_can_be_read(
    dark: bool, browser: Browser, file: Path, tmp_path: Path
) -> None:
    """No label is on a line, a block or another label, and all of them are bright enough."""
    page_file = tmp_path / "page.html"
    modes = "pp,tpp:cold-always:cold=30,kiter:k=3,qpt,bittrace,calls-optimal,witness"
    assert cli.run(["explain", str(file), "--mode", modes, "--html", str(page_file)]) == 0
    with opened(browser, page_file, dark=dark) as page:
        for number in range(len(modes.split(","))):
            page.locator(f"#tab-{number}").click()
            pictures = page.locator(f"#lesson-{number} svg")
            pictures.first.wait_for()
            for picture in pictures.all():
                assert covered(picture) == []
                assert cut_off(picture) == []
                assert min(contrasts(picture)) >= ENOUGH


@pytest.mark.long
@pytest.mark.browser
def test_pictures_hold_their_edges_and_self_loops_begin_and_end_at_their_block(
    browser: Browser, tmp_path: Path
) -> None:
    edges = ["A B", "B B", "A C", "C D", "D A", "B E", "D E"]
    path, page_file = tmp_path / "g.json", tmp_path / "page.html"
    path.write_text(
        json.dumps(
            {"name": "loops", "entry": "A", "exit": "E", "edges": [each.split() for each in edges]}
        )
    )
    assert cli.run(["explain", str(path), "--html", str(page_file)]) == 0
    with opened(browser, page_file) as page:
        for number in range(len(registry.planned_modes())):
            page.locator(f"#tab-{number}").click()
            pictures = page.locator(f"#lesson-{number} svg")
            pictures.first.wait_for()
            for picture in pictures.all():
                assert cut_off(picture) == []
                block = picture.locator(".stop").filter(has_text=re.compile("^B")).first
                loop = self_loop(picture.locator("[data-line='1']"), block)
                ends_at_its_block(loop)


def ends_at_its_block(loop: dict[str, list[float]]) -> None:
    """Check a self-loop: from the right side, out far enough for its arrow, and back."""
    height = loop["size"][1]
    for end in ("begin", "end", "tip"):
        assert abs(loop[end][0]) < 0.2 and abs(loop[end][1]) < height / 2, loop
    assert loop["begin"][1] < loop["end"][1]
    assert loop["far"][0] > 10


def test_page_text_and_json_of_one_call_are_those_of_three(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(file), "--mode=kiter,qpt2", "--enumerate"]
    names = {"--html": "page.html", "--json": "answers", "--report": "text"}
    assert cli.run([*command, *(f"{o}={tmp_path / name}" for o, name in names.items())]) == 0
    assert capsys.readouterr().out == ""
    for option, name in names.items():
        assert cli.run([*command, option, "-"]) == 0
        assert capsys.readouterr().out == (tmp_path / name).read_text()
    assert cli.run(command) == 0
    assert capsys.readouterr().out == (tmp_path / "text").read_text()
    answers = [json.loads(line) for line in (tmp_path / "answers").read_text().splitlines()]
    assert [(each["mode"], "all_paths" in each) for each in answers] == [
        ("kiter", True),
        ("qpt2", False),
    ]
    assert "<svg" not in (tmp_path / "page.html").read_text().split("<script>")[0]
    assert cli.run([*command, "--json", "-", "--summary"]) == 125
    assert "--summary is about the text" in capsys.readouterr().err


def test_pictures_are_files(file: Path, tmp_path: Path) -> None:
    """A picture a step; the text names no looks, which it has not."""
    place, text = tmp_path / "made" / "here", tmp_path / "text"
    command = ["explain", "--mode", "pp,bits", str(file), f"--svg={place}", f"--report={text}"]
    assert cli.run(command) == 0
    steps = [line for line in text.read_text().splitlines() if re.match(r"\d+\. ", line)]
    assert len(list(place.glob("*.svg"))) == len(steps) > 10
    assert not re.search(r"\((?:bold|dashed|coloured)\)", text.read_text())
    (tmp_path / "full").write_text("")
    assert cli.run([*command[:-2], f"--svg={tmp_path / 'full'}"]) == 125


def test_collapsed_loops_have_a_step(tmp_path: Path) -> None:
    """`kiter:outer`: what is collapsed, k, and which numbers the paths of each graph have."""
    file = tmp_path / "nest.json"
    edges = [["A", "B"], ["B", "C"], ["C", "D"], ["D", "C"], ["D", "B"], ["D", "E"]]
    graph = {"name": "nest", "entry": "A", "exit": "E", "edges": edges}
    file.write_text(json.dumps(graph | {"runs": [["A B C D C D C D B C D E", 10]]}))
    options = AnalysisOptions(mode="kiter", scheme=SchemeOptions().having(outer=True, iterations=3))
    answer = analyse_file(file, options)
    shown = step(lesson(answer), "Collapsed loops")
    assert shown.head == ("graph", "k of its loops", "collapsed in it", "paths")
    outer, inner = answer["static"]["regions"]
    first = outer["valid_paths"]
    assert shown.rows == (
        ("the routine", "3 at B", "C: C D", f"0 to {first - 1}"),
        ("C", "3 at C", "-", f"{first} to {first + inner['valid_paths'] - 1}"),
    )
    # The inner loop's mark is its own edges: C to D, and D to C.
    assert shown.marks[1] == (2, 3)
    assert "save keeps c and itr" in step(lesson(answer), "Code").text
    found = [
        (path["start"], path["end"], *path["blocks"], *path["edges"]) for path in answer["paths"]
    ]
    assert len(set(found)) == len(found)
    texts = [row[1] for row in step(lesson(answer), "Paths").rows]
    assert texts == [
        "A B loop C B loop C E", "C D C D C D (loop entry) (loop exit)",
        "C D (loop entry) (loop exit)",
    ]  # fmt: skip
    every = analyse_file(file, replace(options, enumerate=True))["all_paths"]
    kinds = {(path["start"], path["end"]) for path in every}
    assert {("entry", "exit"), ("loop-entry", "loop-exit"), ("back-edge", "loop-exit")} <= kinds
    assert any("loop C" in path["blocks"] for path in every)
    assert {"Numbering", "Spanning tree"}.isdisjoint(each.title for each in lesson(answer).steps)
