"""`show` with all its views, `diff`, `merge` on saved profiles."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.profiles.lines import NO_LINES, NO_PROGRAM
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import FORMAT, load, save
from simprof.profiler.reports.annotation import AS_CODE
from tests.support import samples
from tests.support.gcov import SOURCE, gcov_counts
from tests.support.hostile import hostile_run
from tests.support.turns import first

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LISTINGS = ("routines", "edges", "paths")
VIEWS = (*LISTINGS, "source")
Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles of `signals` (two builds, two runs, two modes), and the report of one of them."""
    place = tmp_path_factory.mktemp("profiles")
    for name, width, mode in (("pp", "v9", "pp"), ("edges", "v9", "edges"), ("v8", "v8", "pp")):
        elf = FIXTURES / "bin" / width / "signals.elf"
        words = ["--mode", mode, "--no-progress", "-o", str(place / name)]
        report = ["--report", str(place / f"{name}.txt")]
        assert cli.run(["run", *words, *report, str(elf)]) == 0
    return place


def shown(capsys: Output, *arguments: str | Path) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert cli.run(list(map(str, arguments))) == 0
    return capsys.readouterr().out


def told(capsys: Output, *arguments: str | Path) -> tuple[str, list[str]]:
    """What a command prints, and the notes that it gives on stderr."""
    capsys.readouterr()
    assert cli.run(list(map(str, arguments))) == 0
    output = capsys.readouterr()
    return output.out, [
        line.removeprefix("simprof: note: ")
        for line in output.err.splitlines()
        if line.startswith("simprof: note: ")
    ]


def refused(capsys: Output, *arguments: str | Path) -> str:
    """The line with which a command refuses."""
    capsys.readouterr()
    assert cli.run(list(map(str, arguments))) == 125
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("simprof: ")
    return line


@pytest.mark.parametrize("name", ["pp", "edges"])
def test_the_report_is_that_of_the_run(directory: Path, capsys: Output, name: str) -> None:
    text = (directory / f"{name}.txt").read_text()
    assert shown(capsys, "show", directory / name) == text
    twice = shown(capsys, "show", directory / name, directory / name)
    assert twice == f"{text}\n{text}"


def test_the_report_as_json_is_that_of_the_run(directory: Path, capsys: Output) -> None:
    answer = json.loads(shown(capsys, "show", directory / "pp", "--json"))
    assert answer["instructions"]["base"] == load(directory / "pp").base
    assert answer["paths"]


def rows(capsys: Output, *arguments: str | Path) -> list[dict[str, str]]:
    """The rows that a command writes as CSV."""
    return list(csv.DictReader(StringIO(shown(capsys, *arguments, "--csv"))))


def test_csv_and_json_have_everything(directory: Path, capsys: Output) -> None:
    run = load(directory / "pp")
    edges = rows(capsys, "show", directory / "pp", "edges")
    assert sum(int(row["executions"]) for row in edges) == sum(
        edge.count for routine in run.routines for edge in routine.edge_counts
    )
    for table in ("routines", "edges", "paths"):
        exported = shown(capsys, "export", directory / "pp", "--format", "csv", "--table", table)
        assert exported == shown(capsys, "show", directory / "pp", table, "--csv")
    answer = json.loads(shown(capsys, "show", directory / "pp", "edges", "--json"))
    assert [str(row["executions"]) for row in answer["edges"]] == [
        row["executions"] for row in edges
    ]
    paths = rows(capsys, "show", directory / "pp", "paths")
    executed = sum(routine.instructions for routine in run.routines)
    assert sum(int(row["instructions"]) for row in paths) <= executed
    routines = rows(capsys, "show", directory / "pp", "routines")
    assert sum(int(row["added"]) for row in routines) == run.added
    assert len(routines) == sum(routine.activations > 0 for routine in run.routines)


def test_tables_name_source_files_shortly_and_other_forms_wholly(
    directory: Path, capsys: Output
) -> None:
    for view in LISTINGS:
        text = shown(capsys, "show", directory / "pp", view, "--routine", "busy")
        assert " signals.c:29" in text and "./src" not in text
        for form in ("--csv", "--json"):
            assert "./src/signals.c" in shown(capsys, "show", directory / "pp", view, form)
    assert "./src/signals.c" in shown(capsys, "show", directory / "pp", "source", "busy", "--json")


def test_annotations_as_csv_say_what_json_says(directory: Path, capsys: Output) -> None:
    pp = directory / "pp"
    answer = json.loads(shown(capsys, "show", pp, "source", "*", "--code", "--json", *MOVED))
    code = [row for routine in answer["routines"] for row in routine["code"]]
    found = rows(capsys, "show", pp, "source", "*", "--code", *MOVED)
    assert {row["kind"] for row in found} == {"instruction"}
    instructions = found
    assert [row["address"] for row in instructions] == [row["address"] for row in code]
    assert sum(int(row["instructions"]) for row in instructions) == load(pp).base
    for name in ("executions", "added", "taken", "not_taken", "instruction", "line"):
        told = ["" if row.get(name) is None else str(row[name]) for row in code]
        assert [row[name] for row in instructions] == told, name
    names = [routine["symbol"] for routine in answer["routines"] for _ in routine["code"]]
    assert [row["symbol"] for row in instructions] == names
    answer = json.loads(shown(capsys, "show", pp, "source", "--json", *MOVED))
    found = rows(capsys, "show", pp, "source", *MOVED)
    assert {row["kind"] for row in found} == {"line", "branch"}
    lines = [row for row in found if row["kind"] == "line"]
    expected = [line for file in answer["files"] for line in file["lines"]]
    for name in ("line", "executions", "instructions", "added", "source"):
        values = ["" if line[name] is None else str(line[name]) for line in expected]
        assert [row[name] for row in lines] == values, name
    branches = [branch for line in expected for branch in line["branches"]]
    assert [
        (row["address"], int(row["taken"]), int(row["not_taken"]))
        for row in found
        if row["kind"] == "branch"
    ] == [(each["address"], each["taken"], each["not_taken"]) for each in branches]


def test_differences_as_csv_say_what_json_says(directory: Path, capsys: Output) -> None:
    for pair in (("pp", "edges"), ("pp", "v8")):
        before, after = (directory / name for name in pair)
        answer = json.loads(shown(capsys, "diff", before, after, "--json"))
        found = rows(capsys, "diff", before, after, "--top", "1")
        for subject in ("edge", "path"):
            assert [
                (row["symbol"], row["kind"], row["steps"], [int(row["before"]), int(row["after"])])
                for row in found
                if row["subject"] == subject
            ] == [
                (each["symbol"], each["kind"], " > ".join(each["steps"]), each["executions"])
                for each in answer[f"{subject}s"]
            ]
        assert [
            (row["symbol"], row["side"], row["number"], int(row["before"]), int(row["after"]))
            for row in found
            if row["subject"] == "routine"
        ] == [
            (each["symbol"], each["side"], number, *each[number])
            for each in answer["routines"]
            for number in ("instructions", "added", "entered")
            if each[number][0] != each[number][1]
        ]
        totals = answer["instructions"].items()
        assert [
            [row["number"], int(row["before"]), int(row["after"])]
            for row in found
            if row["subject"] == "program"
        ] == [[name, *both] for name, both in totals if both[0] != both[1]]
        judged = [row for row in found if row["subject"] == "quality"]
        quality = answer.get("quality", {})
        for row in judged:  # of the side that is not the truth
            sides = {side: float(row[side]) for side in ("before", "after") if row[side]}
            assert sides == {side: quality[side][row["number"]] for side in sides}
        assert bool(judged) == answer["same_program"]
        counted = [row for row in found if row not in judged]
        assert all(int(row["change"]) == int(row["after"]) - int(row["before"]) for row in counted)


@pytest.mark.parametrize(
    ("command", "words"),
    [("show", ["pp", "source"]), ("diff", ["pp", "v8"]), ("show", ["pp", "paths"])],
)
def test_one_form_at_a_time(
    directory: Path, capsys: Output, command: str, words: list[str]
) -> None:
    given = [word if word in VIEWS else directory / word for word in words]
    assert "--csv and --json: give one" in refused(capsys, command, *given, "--csv", "--json")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("-added", "--sort -added: name the column alone, and --ascending or --descending"),
        ("size", "unknown column 'size': choose from routine, symbol, module, "),
    ],
)
def test_columns_that_are_none(directory: Path, capsys: Output, column: str, said: str) -> None:
    assert said in refused(capsys, "show", directory / "pp", "routines", "--sort", column)


def test_filters_and_order(directory: Path, capsys: Output) -> None:
    pp = directory / "pp"
    named = rows(capsys, "show", pp, "edges", "--routine", "b*", "--exclude", "bad*")
    assert {row["routine"] for row in named} == {"busy"}
    often = rows(capsys, "show", pp, "edges", "--min-count", "4000")
    assert often
    assert min(int(row["executions"]) for row in often) >= 4000
    of_file = rows(capsys, "show", pp, "edges", "--file", "signals.c")
    assert {row["file"] for row in of_file} == {"./src/signals.c"}
    by_name = [row["routine"] for row in rows(capsys, "show", pp, "routines", "--sort", "routine")]
    assert by_name == sorted(by_name)
    counts = [
        int(row["executions"]) for row in rows(capsys, "show", pp, "paths", "--sort", "executions")
    ]
    assert counts == sorted(counts, reverse=True)
    assert len(rows(capsys, "show", pp, "paths", "--top", "3")) == 3
    rare = [
        int(row["executions"])
        for row in rows(capsys, "show", pp, "paths", "--sort", "executions", "--ascending")
    ]
    assert rare == counts[::-1] and rare[0] < rare[-1]
    down = [
        row["routine"]
        for row in rows(capsys, "show", pp, "routines", "--sort=routine", "--descending")
    ]
    assert down == by_name[::-1]
    for view, key in (
        ("edges", "executions"),
        ("paths", "instructions"),
        ("routines", "added"),
    ):
        least = rows(capsys, "show", pp, view, "--ascending", "--top", "1")
        assert int(least[0][key]) == min(int(row[key]) for row in rows(capsys, "show", pp, view))
    files = [
        row["file"]
        for row in rows(capsys, "show", pp, "routines", "--sort", "file", "--descending")
    ]
    assert files == sorted(filter(None, files), reverse=True) + [""] * files.count("")
    assert "40 edges more" not in shown(
        capsys, "show", pp, "edges", "--top", "3", "--routine", "busy"
    )
    assert "edges more: --top" in shown(
        capsys, "show", pp, "edges", "--top", "3", "--routine", "busy"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--routine", "buzy"], "--routine buzy: no routine of the profile matches: did you mean"),
        (["--routine", "Q*"], "--routine Q*: no routine of the profile matches: `simprof"),
        (["--routine", "busy", "--routine", "Q*"], "--routine Q*: no routine of the profile"),
        (["--file", "signal.c"], "--file signal.c: no source file of the profile matches: did you"),
    ],
)
def test_names_that_nothing_has(
    directory: Path, capsys: Output, words: list[str], said: str
) -> None:
    for view in LISTINGS:
        assert said in refused(capsys, "show", directory / "pp", view, *words)


@pytest.mark.parametrize(
    ("view", "heading", "name"),
    [
        ("routines", "entered", "entered"),
        ("routines", "source line", "line"),
        ("edges", "source line", "line"),
        ("edges", "counter", "instrumented"),
        ("paths", "instructions per path", "instructions_per_execution"),
        ("paths", "source lines", "lines"),
    ],
)
def test_columns_are_sorted_by_as_their_headings_name_them(
    directory: Path, capsys: Output, view: str, heading: str, name: str
) -> None:
    pp = directory / "pp"
    found = rows(capsys, "show", pp, view, "--sort", heading)
    assert found == rows(capsys, "show", pp, view, "--sort", name)
    if heading == "source line":
        known = [(row["file"], int(row["line"])) for row in found if row["line"]]
        assert known == sorted(known)
        assert len({len(str(line)) for _, line in known}) > 1  # 9 comes before 10


def test_branches_are_those_of_the_edge_profile(directory: Path, capsys: Output) -> None:
    """By address: the sums of what was taken, and of what was not."""
    run = load(directory / "pp")
    answer = json.loads(shown(capsys, "show", directory / "pp", "source", "*", "--code", "--json"))
    for shown_routine, routine in zip(answer["routines"], run.routines, strict=True):
        assert shown_routine["symbol"] == routine.name
        code = {int(row["address"], 16): row for row in shown_routine["code"]}
        blocks = {block.name: block for block in routine.block_counts}
        for edge in routine.edge_counts:
            if edge.kind not in (EdgeKind.TAKEN, EdgeKind.SLOT, EdgeKind.FALL_THROUGH):
                continue
            row = code[blocks[edge.source].transfer]
            side = "not_taken" if edge.kind is EdgeKind.FALL_THROUGH else "taken"
            if side in row:
                assert row[side] == edge.count
        placed = sum(row["added"] for row in shown_routine["code"])
        assert placed + shown_routine["unplaced"] == routine.added
    executed = sum(row["executions"] for each in answer["routines"] for row in each["code"])
    assert executed == run.base


MOVED = ("--source-dir", f"./src={FIXTURES / 'src'}")
GOLDEN = """\
busy at 0x100210: entered 4,270 times, 67,641 instructions, 25,438 added instructions
executions   added  address  instruction
                             signals.c:29: {
     4,270           0x100210    save %sp, -176, %sp
                             signals.c:30: return n < 2 ? n : busy(n - 1) + busy(n - 2);
     4,270           0x100214    cmp %i0, 1
     4,270   8,155   0x100218    bleu,pn %icc, 0x10026c
                                   taken 1,631, not taken 2,639
     4,270           0x10021c    mov %i0, %i4
"""
GOLDEN_SOURCE = """\
executions  instructions   added  code    line  source
     4,270         4,270          shared    29  {
     4,886        54,831  25,438  spread    30      return n < 2 ? n : busy(n - 1) + busy(n - 2);
                                                  0x100218: taken 1,631, not taken 2,639
                                                  0x10023c: taken 1,631, not taken 1,008
                                                  0x10025c: taken 616, not taken 1,008
     4,270         8,540          alone     31  }
spread: optimised, in several blocks; some may be moved or copied
"""


def test_annotated_code(directory: Path, capsys: Output) -> None:
    text = shown(capsys, "show", directory / "pp", "source", "busy", "--code", *MOVED)
    words = [line.split() for line in text.splitlines()]
    assert words[:9] == [line.split() for line in GOLDEN.splitlines()]


def test_annotated_source(directory: Path, capsys: Output) -> None:
    text = shown(capsys, "show", directory / "pp", "source", "busy", *MOVED)
    assert GOLDEN_SOURCE in text
    assert (
        shown(capsys, "show", directory / "pp", "source", "signals.c", *MOVED).count("busy(14)")
        == 1
    )


@pytest.mark.long
def test_directories_of_sources_that_none_is_below(
    directory: Path, tmp_path: Path, capfd: Output
) -> None:
    """The note names a path as the program has it; not where another routine is shown."""
    pp = directory / "pp"
    said = "--source-dir src=x: no source path of the program begins with src; one is ./src/"
    wrong = ("--source-dir", "src=x")
    for target in ("busy", "signals.c"):
        _, notes = told(capfd, "show", pp, "source", target, *wrong, *MOVED)
        assert [note.startswith(said) for note in notes] == [True]
        assert told(capfd, "show", pp, "source", target, *MOVED)[1] == []
    _, half = told(capfd, "show", pp, "source", "busy", "--source-dir", "./sr=x")
    assert "no source path of the program begins with ./sr; one is ./src/" in half[0]
    lost = tmp_path / "lost"
    run = load(pp)
    save(replace(run, program=replace(run.program, file="nowhere/signals.elf")), lost)
    _, notes = told(capfd, "show", lost, "source", "busy", *wrong)
    assert any(note.startswith(said) for note in notes)
    for command in (
        ["export", "--format", "lcov", "-o", str(tmp_path / "out"), str(pp)],
        ["show", "--html", str(tmp_path / "out"), str(pp)],
    ):
        assert cli.run([*command, *wrong, *MOVED]) == 0
        assert capfd.readouterr().err.count(f"simprof: note: {said}") == 1
        assert cli.run([*command, *MOVED]) == 0
        assert "no source path" not in capfd.readouterr().err
    answer = json.loads(shown(capfd, "show", pp, "source", "busy", *wrong, "--json"))
    assert any(note.startswith(said) for note in answer["notes"])


def test_what_is_missing_is_said(directory: Path, tmp_path: Path, capsys: Output) -> None:
    """Sources that are not there, a program that has moved, one that is another."""
    text, notes = told(capsys, "show", directory / "pp", "source", "signals.c")
    assert notes == ["./src/signals.c cannot be read: say where it is by --source-dir FROM=TO"]
    assert "     4,886        54,831  25,438  spread    30" in text
    run = load(directory / "pp")
    lost = tmp_path / "lost"
    save(replace(run, program=replace(run.program, file="nowhere/signals.elf")), lost)
    text, notes = told(capsys, "show", lost, "source", "busy", "--code", *MOVED)
    assert notes == [
        "nowhere/signals.elf is not there: say where it is by --program FILE",
        NO_PROGRAM,
    ]
    assert [line.split() for line in text.splitlines()[1:5]] == [
        ["executions", "added", "address", "source", "line"],
        ["4,270", "0x100210", "signals.c:29:", "{"],  # its save; the rest of the block is line 30
        ["4,270", "0x100214"],
        ["4,270", "8,155", "0x100218"],
    ]
    assert "taken 1,631, not taken 2,639" in text
    shutil.copy(FIXTURES / "bin" / "v9" / "calls.elf", tmp_path / "signals.elf")
    assert (
        "signals.elf has changed since it ran" in told(capsys, "show", lost, "source", "busy")[1][0]
    )
    shutil.copy(FIXTURES / "bin" / "v9" / "signals.elf", tmp_path / "signals.elf")
    assert "cmp %i0, 1" in shown(capsys, "show", lost, "source", "busy", "--code")
    other = FIXTURES / "bin" / "v9" / "calls.elf"
    assert "is another program" in refused(capsys, "show", lost, "source", "--program", other)
    assert "neither a routine" in refused(capsys, "show", lost, "source", "nothing")
    assert "not of the form FROM=TO" in refused(capsys, "show", lost, "source", "--source-dir", "x")


@pytest.mark.parametrize("shorter", ["a\nb\n", "a\nb", ""])
def test_a_source_that_has_become_shorter(
    directory: Path, tmp_path: Path, capsys: Output, shorter: str
) -> None:
    """Lines behind its end are shown with their counts, the first of them, too."""
    run = load(directory / "edges")
    places = {at: replace(line, line=3) for at, line in run.lines.items()}
    run = replace(run, lines=places, program=replace(run.program, file="nowhere/signals.elf"))
    profile = tmp_path / "profile"
    save(run, profile)
    (tmp_path / "signals.c").write_text(shorter)
    moved = ("--source-dir", f"./src={tmp_path}")
    for target in ((), ("signals.c",), ("busy",)):
        found = json.loads(shown(capsys, "show", profile, "source", *target, *moved, "--json"))
        assert [line["line"] for line in found["files"][0]["lines"]] == [3]
        assert any("signals.c has no line 3: it is not" in note for note in found["notes"])


def test_source_of_routines_without_lines_is_their_code(
    directory: Path, tmp_path: Path, capsys: Output
) -> None:
    run = load(directory / "edges")
    profile = tmp_path / "profile"
    save(replace(run, lines={}, program=replace(run.program, file="gone")), profile)
    text, notes = told(capsys, "show", profile, "source", "busy")
    assert "busy at 0x100210: entered 4,270 times" in text
    assert notes[1:] == [NO_LINES, AS_CODE]
    assert "busy at 0x100210: entered 4,270 times" in shown(capsys, "show", profile, "source")


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", first(1, ["v9", "v8plus", "v8"]))
def test_line_counts_are_those_of_gcov(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, capsys: Output
) -> None:
    """All lines that both know, those of several blocks included."""
    absent = [tool for tool in ("gcc", "gcov") if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"no {' and '.join(absent)}: install gcc for this machine")
    expected = gcov_counts(tmp_path)
    program = compile_c(tmp_path / "counted.c", ("-O0", "-g"), width)
    profile = tmp_path / "profile"
    assert cli.run(["run", "--mode", "edges", "-o", str(profile), str(program)]) == 0
    answer = json.loads(shown(capsys, "show", profile, "source", "source.c", "--json"))
    (file,) = answer["files"]
    counted = {line["line"]: line["executions"] for line in file["lines"]}
    common = counted.keys() & expected.keys()
    assert {line: counted[line] for line in common} == {line: expected[line] for line in common}
    text = SOURCE.split("\n")
    assert len(common) > 40
    for line in expected.keys() - counted.keys():  # gcov counts labels, too, and says `int f()`
        if not text[line - 1].endswith(":"):
            assert text[line] == "{"
            assert counted[line + 1] == expected[line]
    assert all(text[line - 1] in "{}" for line in counted.keys() - expected.keys())


def test_diff_of_one_program(directory: Path, tmp_path: Path, capsys: Output) -> None:
    pp = directory / "pp"
    assert "nothing differs" in shown(capsys, "diff", pp, pp)
    double = tmp_path / "double"
    assert cli.run(["merge", str(pp), str(pp), "-o", str(double)]) == 0
    answer = json.loads(shown(capsys, "diff", pp, double, "--json"))
    run = load(pp)
    assert answer["instructions"]["base"] == [run.base, 2 * run.base]
    edges = sum(edge.count > 0 for routine in run.routines for edge in routine.edge_counts)
    assert len(answer["edges"]) == edges
    assert all(
        2 * before == after for each in answer["edges"] for before, after in [each["executions"]]
    )
    assert len(answer["paths"]) == sum(len(routine.path_counts) for routine in run.routines)
    text = shown(capsys, "diff", pp, double)
    assert "+100.00 %" in text
    left = len(answer["routines"]) - 3  # each is several rows
    assert f"\n{left} routines more: --top" in shown(capsys, "diff", pp, double, "--top", "3")


def test_diff_with_a_profile_that_has_no_paths(directory: Path, capsys: Output) -> None:
    for profiles, side in ((("pp", "edges"), "after"), (("edges", "pp"), "before")):
        paths = [directory / name for name in profiles]
        text = shown(capsys, "diff", *paths)
        assert text.rstrip().endswith(f"Paths are not compared: {side} has none.")
        assert "Paths that differ" not in text
        assert json.loads(shown(capsys, "diff", *paths, "--json"))["paths"] == []
    assert "not compared" not in shown(capsys, "diff", directory / "pp", directory / "v8")


def test_diff_of_two_builds(directory: Path, capsys: Output) -> None:
    """Addresses have moved; a source line has the same count in both."""
    answer = json.loads(shown(capsys, "diff", directory / "pp", directory / "v8", "--json"))
    assert not answer["same_program"]
    entries = [each for each in answer["edges"] if each["kind"] == "entry"]
    assert entries == []  # every routine that both have is entered as often
    assert "busy" in {each["symbol"] for each in answer["routines"]}
    assert {each["side"] for each in answer["routines"] if each["symbol"] == "busy"} == {"both"}


@pytest.mark.long
@pytest.mark.toolchain
def test_lines_that_moved_with_their_routine_are_the_same(
    compile_c: Callable[..., Path], tmp_path: Path, capsys: Output
) -> None:
    """A comment above, and another constant: only what this changes is listed."""
    code = "int f(int n) {{ int s = 0;\nfor (int i = 0; i < n; i++)\n s += i;\nreturn s; }}\n"
    code += "int main(void) {{ return f({0}) & 1; }}\n"
    profiles = []
    for name, text in (("a", code.format(9)), ("b", "/* new */\n\n" + code.format(11))):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        profiles.append(tmp_path / f"{name}.profile")
        program = compile_c(source, ("-O0", "-g"), "v9")
        words = ["run", "--mode", "edges", "--user-only", "-o", str(profiles[-1]), str(program)]
        assert cli.run(words) in (0, 1)
    answer = json.loads(shown(capsys, "diff", *profiles, "--json"))
    changed = {(each["symbol"], *each["executions"]) for each in answer["edges"]}
    assert changed == {("f", 9, 11)}


def test_merge_adds_up(directory: Path, tmp_path: Path, capsys: Output) -> None:
    pp, out = directory / "pp", tmp_path / "sum"
    assert cli.run(["merge", str(pp), str(pp), str(pp), "-o", str(out)]) == 0
    assert "3 runs" in capsys.readouterr().err
    assert load(out).base == 3 * load(pp).base
    text = shown(capsys, "show", out, "source", "busy", *MOVED)
    assert f"{3 * 4886:,}" in text


def test_merge_refuses_strangers(directory: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "sum"
    for other, reason in (("edges", "different modes"), ("v8", "different programs")):
        assert reason in refused(capsys, "merge", directory / "pp", directory / other, "-o", out)
        assert not out.exists()


def damaged(content: Any) -> bytes:
    return FORMAT.first_line + gzip.compress(json.dumps(content).encode())


def content_of(measurement: RunMeasurement, path: Path) -> Any:
    save(measurement, path)
    return json.loads(gzip.decompress(path.read_bytes().split(b"\n", 1)[1]))


@pytest.mark.parametrize("command", ["show", *VIEWS, "diff", "merge"])
def test_bad_profiles_are_refused(
    directory: Path, tmp_path: Path, capsys: Output, command: str
) -> None:
    """One line, 125: no profile, another version, cut short, and positions that are not there."""
    bad, good = tmp_path / "bad", directory / "pp"
    out: tuple[str | Path, ...] = ("-o", tmp_path / "out") if command == "merge" else ()
    more = (good, *out) if command in ("diff", "merge") else (command,) * (command in VIEWS)
    command = "show" if command in VIEWS else command
    whole = good.read_bytes()
    wrong = content_of(samples.measurement(), bad)
    wrong["routines"][0]["path_counts"][0]["edges"] = [99]
    cut = content_of(samples.measurement(), bad)
    cut["routines"][0]["cut_blocks"] = [{"block": 7, "executed": 1, "count": 1}]
    contents = {
        b"": "is not a simprof profile",
        b"\x7fELF\x02\x02": "is not a simprof profile",
        b"simprof-profile 1\n" + whole.split(b"\n", 1)[1]: "is a profile of version 1",
        b"simprof-profile 99\n" + whole.split(b"\n", 1)[1]: "is a profile of version 99",
        whole[:-40]: "damaged profile",
        whole[: len(whole) // 2]: "damaged profile",
        damaged(wrong): "has an edge that it lacks",
        damaged(cut): "lacks a block that was cut short",
        damaged({"mode": "pp"}): "damaged profile",
    }
    for content, reason in contents.items():
        bad.write_bytes(content)
        assert reason in refused(capsys, command, bad, *more)
    assert "cannot be read" in refused(capsys, command, tmp_path / "absent", *more)
    assert "cannot be read" in refused(capsys, command, tmp_path, *more)


@pytest.mark.parametrize("words", [(), *((view,) for view in VIEWS)], ids=str)
def test_empty_profiles_and_hostile_names_are_shown(
    tmp_path: Path, capsys: Output, words: tuple[str, ...]
) -> None:
    profile = tmp_path / "profile"
    save(replace(samples.measurement(), base=0, added=0, routines=(), lines={}), profile)
    assert shown(capsys, "show", profile, *words)
    save(hostile_run(), profile)
    text = shown(capsys, "show", profile, *words)
    assert all(line.isprintable() for line in text.split("\n"))
    assert ("a\\x1b[2J\\n.c" if words == ("source",) else "\\x1b[31mred") in text


def test_mistakes_are_named(directory: Path, capsys: Output) -> None:
    pp = directory / "pp"
    assert "choose from routine, symbol, module" in refused(
        capsys, "show", pp, "routines", "--sort", "nothing"
    )
    assert "give one of them" in refused(capsys, "show", pp, "edges", "--csv", "--json")
    assert "collects no paths" in refused(capsys, "show", directory / "edges", "paths")
    assert "is read as well" in refused(capsys, "show", pp, "edges", "-o", pp)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["PP", "pathz"], "pathz is neither a profile nor a view: did you mean 'paths'?"),
        (["PP", "edges", "--ascending", "--descending"], "leave out one of them"),
        (["PP", "edges", "--details"], "--details has no effect on edges: leave it out, it is for"),
        (["PP", "--csv"], "--csv has no effect on the report: leave it out, it is for routines, "),
        (["PP", "source", "--descending"], "--descending has no effect on source: leave it out"),
        (
            ["PP", "paths", "--code"],
            "--code has no effect on paths: leave it out, it is for source",
        ),
        (["PP", "--json", "--top", "3"], "--top has no effect on --json, which has everything"),
        (["PP", "--html", "page", "--json"], "--json has no effect on the page of --html"),
        (["PP", "edges", "--html", "page"], "--html with edges: the page has all of them"),
        (["PP", "--progress"], "it is for the page of --html"),
        (["edges", "PP"], "edges: name the PROFILE before it (a file of this name: ./edges)"),
        (["PP", "PP", "tree"], "tree is of one profile: `simprof diff` compares two"),
        (["PP", "paths", "busy"], "paths busy: nothing follows it; --routine chooses routines"),
        (["PP", "source", "a", "b"], "source a b: name one of them"),
        (["PP", "source", ""], "the name of a routine or file is empty"),
        (["PP", "tree"], "has no call tree: record it by `simprof run --call-tree -o PROFILE`"),
    ],
)
def test_words_and_options_that_do_not_fit(
    directory: Path, capsys: Output, words: list[str], said: str
) -> None:
    pp = str(directory / "pp")
    assert said in refused(capsys, "show", *(pp if word == "PP" else word for word in words))
