"""Pages about profiles as files: what is in them, and that nothing in them is markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import save, to_bytes
from simprof.profiler.reports.html import report
from simprof.profiler.reports.html.page import packed
from simprof.profiler.reports.html.report import ReportRun
from tests.support.hostile_profile import HUGE, NAMES, hostile_measurement
from tests.support.profiled import measure
from tests.support.samples import measurement, routine

SAVED = to_bytes(measurement())


def page_of(*measurements: RunMeasurement) -> str:
    """The page about profiles of a program that is not found."""
    runs = [ReportRun(f"run {n}", SourceCounts(each, None)) for n, each in enumerate(measurements)]
    return report.render(runs)


class Elements(HTMLParser):
    """Tags of a page in order, and the content of its scripts by id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: dict[str | None, str] = {}
        self.text: list[str] = []
        self._inside: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        if tag == "script":
            self.scripts[dict(attrs).get("id")] = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            last = next(reversed(self.scripts))
            self.scripts[last] += data
        else:
            self.text.append(data)


def unpacked(page: str, name: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(Elements(page).scripts[name])))


def test_names_are_text_whatever_they_are() -> None:
    harmless, hostile = page_of(measurement()), page_of(hostile_measurement())
    assert Elements(hostile).tags == Elements(harmless).tags
    found = [row[0] for row in unpacked(hostile, "index")["routines"]]
    assert len(found) == len(NAMES)
    assert {'<b>&amp;"quoted"\'</b>', "</script><!--", "lone \\ud800 surrogate"} <= set(found)
    hostile.encode()


def test_programs_and_arguments_are_text() -> None:
    said = replace(
        measurement().program, file="<script>alert(1)</script>\udcff", arguments=("<img src=x>",)
    )
    page = page_of(replace(measurement(), program=said, warnings=("<b>bold</b>",)))
    elements = Elements(page)
    assert elements.tags == Elements(page_of(replace(measurement(), warnings=("w",)))).tags
    assert "<b>bold</b>" in elements.text
    assert any("<script>alert(1)</script>\\xff <img src=x>" in text for text in elements.text)


def test_the_policy_allows_what_is_in_the_page_and_nothing_else() -> None:
    page = page_of(measurement())
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    policy = found[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"""(src|href)=["'](?!#)""", page.split("<body>")[1].split("<script>")[0])


def test_large_counts_are_shown_and_not_rounded() -> None:
    index = unpacked(page_of(hostile_measurement()), "index")
    assert index["routines"][0][2][0][0] == HUGE
    assert json.loads(gzip.decompress(base64.b64decode(packed([2**53, 10**400])))) == [
        "9,007,199,254,740,992",
        "1.00e400",
    ]


def test_profiles_are_compared_in_one_notation() -> None:
    bases = 8_660_000_000_000_000, 418_000_000_000_000
    said = Elements(page_of(*(measurement(base=base) for base in bases))).text
    assert {"8,660,000,000,000,000", "418,000,000,000,000"} <= set(said)
    said = Elements(page_of(*(measurement(base=base) for base in (10**20, *bases)))).text
    assert {"1.00e20", "8.66e15", "4.18e14"} <= set(said)


def test_kinds_of_code_and_helpers_are_told() -> None:
    thunk = routine(name="__sparc_get_pc_thunk.l7", address=0x4000, added=10)
    both = page_of(measurement(routines=(routine(added=30), thunk)))
    said = Elements(both).text
    at = said.index("Added instructions by kind of code")
    assert [each for each in said[at:] if each.strip()][1:13] == [
        *("added", "of added", "overhead", "code"),
        *("30", "75.00 %", "50.85 %", "the program's own"),
        *("10", "25.00 %", "16.95 %", "compiler helpers that load the PC"),
    ]
    names = [row[0] for row in unpacked(both, "index")["routines"]]
    assert names == ["main", "__sparc_get_pc_thunk.l7 [PIC]"]
    assert any(each.startswith("[PIC] compiler helper that loads the PC") for each in said)
    alone = Elements(page_of(measurement())).text  # one kind, no helper
    assert not any("By kind" in each or "[PIC]" in each for each in alone)


def test_details_are_those_of_the_profile() -> None:
    sample = measurement()
    page = page_of(sample)
    (details,) = unpacked(page, "group-0")
    (graph,) = details["graphs"]
    ((number, scheme),) = details["runs"]
    (routine,) = sample.routines
    assert number == 0
    assert [edge[3] for edge in graph["edges"]] == [edge.count for edge in routine.edge_counts]
    assert scheme["carry"] == [3, 4, 5]
    assert [path[0] for path in scheme["paths"]] == ["1", "0", "2"]  # by instructions
    assert scheme["snippets"] is None


def test_a_profile_without_routines_has_a_page() -> None:
    index = unpacked(page_of(replace(measurement(), routines=())), "index")
    assert index["routines"] == []


def test_routines_of_two_builds_are_matched_by_name() -> None:
    one = measurement()
    (routine,) = one.routines
    moved = replace(routine, address=0x9000)
    other = replace(one, program=replace(one.program, sha256="b" * 64), routines=(moved,))
    (row,) = unpacked(page_of(one, other), "index")["routines"]
    assert [cells[9] for cells in row[2]] == [
        f"{each.routines[0].address:#x}" for each in (one, other)
    ]  # each at its own address
    assert row[2][0][:9] == row[2][1][:9]
    here = replace(one, routines=(moved,))
    assert len(unpacked(page_of(one, here), "index")["routines"]) == 2


@pytest.fixture
def saved(fixture_elf: Callable[..., Path], tmp_path: Path) -> Path:
    path = tmp_path / "profile"
    save(measure(fixture_elf("switches"), "pp"), path)
    return path


def written(tmp_path: Path, *profiles: Path, options: Sequence[str] = ()) -> str:
    output = tmp_path / "page.html"
    assert run(["show", *map(str, profiles), "--html", str(output), *options]) == 0
    return output.read_text()


def test_the_command_shows_instructions_and_what_is_added(saved: Path, tmp_path: Path) -> None:
    page = written(tmp_path, saved)
    index, details = unpacked(page, "index"), unpacked(page, "group-0")
    place = next(n for n, row in enumerate(index["routines"]) if row[0] == "main")
    graph, scheme = details[place]["graphs"][0], details[place]["runs"][0][1]
    first = graph["code"][0][0]
    assert first[1].startswith("save %sp")
    on_edges = {edge for edge in scheme["snippets"] if edge.startswith("e")}
    carry = {f"e{edge}" for edge in scheme["carry"]}
    assert carry < on_edges
    for over in on_edges - carry:  # over the code of another edge, before the same target
        (jump,) = scheme["snippets"][over]["code"]
        assert jump in {f"ba,a {block[0][0]}" for block in graph["code"] if block}
    snippet = scheme["snippets"][f"e{scheme['carry'][0]}"]
    assert snippet["cost"] == len(snippet["code"]) > 0


def test_without_the_program_the_page_says_so(saved: Path, tmp_path: Path) -> None:
    gone = measure(Path("fixtures/bin/v9/switches.elf").resolve(), "pp")
    save(replace(gone, program=replace(gone.program, file="/nowhere/x.elf")), saved)
    page = written(tmp_path, saved)
    assert "instructions and added code are not shown: /nowhere/x.elf is not there" in page


def test_source_files_that_have_moved(saved: Path, tmp_path: Path) -> None:
    page = written(tmp_path, saved, options=["--source-dir", "./src=fixtures/src"])
    graphs = [row["graphs"][0] for row in unpacked(page, "group-0")]
    texts = {line[2] for graph in graphs for line in graph["lines"] if line[0].endswith(".c")}
    assert any(text and "switch (" in text for text in texts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a simprof profile"),
        (b"<!DOCTYPE html>", "is not a simprof profile"),
        (SAVED[:-9], "damaged profile"),
        (re.sub(rb"^simprof-profile \d+", b"simprof-profile 1", SAVED), "version"),
    ],
)
def test_what_is_no_profile_gets_one_line(
    content: bytes, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad, output = tmp_path / "bad", tmp_path / "page.html"
    bad.write_bytes(content)
    assert run(["show", str(bad), "--html", str(output)]) == 125
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and message in error, error
    assert not output.exists()


@pytest.mark.parametrize("output", ["missing/page.html", "."])
def test_places_that_cannot_be_written_get_one_line(
    output: str, saved: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", str(saved), "--html", str(tmp_path / output)]) == 125
    assert capfd.readouterr().err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"profile"}


def test_one_output_at_a_time(saved: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    assert run(["show", str(saved), "--html", page, "-o", str(tmp_path / "text")]) == 125
