"""The first screen of `run` and `compare`: what it costs, where that comes from, what is hot."""

from __future__ import annotations

import pytest

from profiler.commands import streams
from profiler.profiles.profile import Measurement
from profiler.reports import compare_text, text
from profiler.reports.answer_text import ShortNames
from profiler.reports.code_kinds import CodeKind, kind_of, kind_totals
from simulator.binary.program import SourceLine
from tests.support.samples import measurement, routine

HELPER = "__sparc_get_pc_thunk.l7"


def mixed() -> Measurement:
    """Return a run of own code, a library's, code that nothing is known of, and a helper."""
    routines = (
        routine(added=40),
        routine(name="memcpy", address=0x2000, added=30, path_counts=()),
        routine(name="strlen", address=0x3000, added=20, path_counts=()),
        routine(name=HELPER, address=0x4000, added=10, path_counts=()),
        routine(name="never", address=0x5000, added=0, activations=0, path_counts=()),
    )
    lines = {
        0x1000: SourceLine("src/loop.c", 4),
        0x1010: SourceLine("src/loop.c", 5),
        0x1020: SourceLine("src/loop.c", 8),
        0x2000: SourceLine("/build/glibc-2.36/string/memcpy.c", 30),
    }
    return measurement(routines=routines, lines=lines, base=236, added=103)


def rows(report: str, title: str) -> list[str]:
    """Return a section's rows, runs of blanks made one."""
    section = report.split(f"{title}\n")[1].split("\n\n")[0]
    return [" ".join(line.split()) for line in section.splitlines()[1:]]


def test_the_screen_says_where_added_instructions_come_from() -> None:
    report = text.render(mixed(), top=2)
    assert rows(report, "Where the added instructions come from") == [
        "40 38.83 % 67.80 % main",
        "30 29.13 % 50.85 % memcpy",
        "30 29.13 % 25.42 % (2 other routines)",
        "3 2.91 % - (in no routine)",
    ]
    assert "overhead  43.64 %" in report
    assert "counting  7 counter increments, 14.7 added instructions each" in report


def test_the_screen_names_kinds_of_code_and_marks_helpers() -> None:
    run = mixed()
    kinds = [kind_of(routine, run) for routine in run.routines[:4]]
    assert kinds == [CodeKind.OWN, CodeKind.LIBRARY, CodeKind.UNKNOWN, CodeKind.HELPER]
    assert [(each.routines, each.added) for each in kind_totals(run)] == [
        (1, 40), (1, 30), (1, 20), (1, 10),
    ]  # fmt: skip
    report = text.render(run)
    assert rows(report, "By kind of code")[3] == (
        "10 9.71 % 16.95 % helpers of position-independent code"
    )
    assert f"{HELPER} [PIC]\n" in report
    assert "[PIC] a helper of position-independent code" in report
    assert f"{HELPER} [PIC] " in text.render(run, details=True)
    plain = text.render(measurement())
    assert "[PIC]" not in plain
    assert "By kind of code" not in plain  # there is one kind


def test_hot_paths_are_source_lines_where_these_are_known() -> None:
    known = rows(text.render(mixed()), "Hot paths")
    assert known[0] == "11.44 % 3 9 main loop.c:4 > 5"
    unknown = text.render(measurement(lines={}))
    assert rows(unknown, "Hot paths")[0] == "45.76 % 3 9 main 1000 > slot 100c > 1010"
    assert "source line" not in unknown.split("Hot paths")[1]


def test_files_of_the_same_name_are_told_apart() -> None:
    names = ShortNames(["a/one.c", "b/one.c", "a/two.c"])
    lines = [SourceLine("a/one.c", 1), SourceLine("b/one.c", 2), SourceLine("a/two.c", 3)]
    assert names.route(lines) == "a/one.c:1 > b/one.c:2 > two.c:3"
    assert names.route([lines[2], lines[2]]) == "two.c:3"


@pytest.mark.parametrize("mode", ["pp", "qpt2", "qpt", "bits", "edges"])
def test_details_are_on_demand(mode: str) -> None:
    run = measurement(mode=mode, options={"placement": "redundant"})
    first = text.render(run)
    assert "Totals" not in first
    assert "--details" in first.splitlines()[-1]
    details = text.render(run, details=True)
    assert "Totals" in details
    assert "--details" not in details
    assert "Hot" not in text.render(run, top=0)


def test_a_mode_that_adds_nothing_shows_where_instructions_were_executed() -> None:
    still = measurement(mode="edges", added=0, counts={}, routines=(routine(added=0),))
    report = text.render(still)
    assert rows(report, "Where instructions were executed") == ["59 100.00 % 2 main"]
    assert "counting" not in report


def test_a_comparison_names_the_costliest_routines() -> None:
    run = mixed()
    report = compare_text.render((("pp", run), ("tpp(1,1)", run)), 1, 1)
    assert rows(report, "Overhead of each mode") == [
        "pp paths 103 43.64 % 38.83 % main",
        "tpp(1,1) paths 103 43.64 % 38.83 % main",
    ]
    assert "Costs" not in report
    two = compare_text.render((("pp", run),), 1, 1, top=2, details=True)
    assert rows(two, "Overhead of each mode")[1] == "29.13 % memcpy"
    assert "Costs (sizes in bytes)" in two
    assert "most of it in" not in compare_text.render((("pp", run),), 1, 1, top=0)


class Terminal:
    """A stream that is a terminal, or not."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("variables", "terminal", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR": "0"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_and_as_the_user_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool, colored: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr", Terminal(terminal))
    assert streams.colored(streams.STDERR) is colored
