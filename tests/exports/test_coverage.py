"""Coverage as lcov, Cobertura and gcov JSON: read by their consumers, equal to gcov and edges."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.exports import coverage as coverage_module
from simprof.profiler.exports.coverage import coverage
from simprof.profiler.exports.formats import ExportSource, export, find, notes
from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tests.support.coverage import gcovr, lines_of, parsed, written
from tests.support.gcov import gcov_counts
from tests.support.hostile_profile import hostile_measurement

MOVED = SourceFiles(((".", str(FIXTURES)),))
"""Fixtures name their sources as seen from where they were compiled."""


def arms_in(measurement: RunMeasurement) -> Counter[int]:
    """How often each arm of a branch was taken, by the edge profile alone."""
    found: Counter[int] = Counter()
    for routine in measurement.routines:
        ways: dict[object, list[int]] = {}
        for edge in routine.edge_counts:
            if edge.kind not in (EdgeKind.EARLY, EdgeKind.ENTRY):
                ways.setdefault(edge.source, []).append(edge.count)
        found.update(count for counts in ways.values() if len(counts) > 1 for count in counts)
    return found


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize("width", ["v8plus"])
def test_lines_are_those_of_gcov(
    compile_c: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    """The same source, built for this machine with --coverage: every line that both have."""
    expected = gcov_counts(tmp_path)
    elf = compile_c(tmp_path / "counted.c", ("-O0", "-g"), width)
    profile, target = tmp_path / "counted.prof", tmp_path / "counted.info"
    run = ["run", "--root", str(tmp_path), "--mode", "edges", "-o", str(profile), str(elf)]
    assert cli.run(run) == 0
    assert cli.run(["export", "--format", "lcov", str(profile), "-o", str(target)]) == 0
    files = lines_of(target.read_text())
    (own,) = [lines for name, lines in files.items() if name.endswith("source.c")]
    common = own.keys() & expected.keys()
    assert {line: own[line] for line in common} == {line: expected[line] for line in common}
    assert len(common) > 40


def test_branches_are_those_of_the_edge_profile(exported: ExportSource) -> None:
    arms = Counter(arm.count for file in coverage(exported) for arm in file.arms)
    known = arms_in(exported.measurement)
    del arms[0], known[0]  # routines that were never entered have more of these
    assert arms == known
    assert arms.total() > 50


def test_routines_that_never_ran_are_there(exported: ExportSource) -> None:
    entered = {routine.name for routine in exported.measurement.routines}
    found = {each.name: each for file in coverage(exported) for each in file.functions}
    assert found.keys() > entered
    never = {name for name, each in found.items() if each.count == 0 and each.blocks}
    assert never == {name for name, each in found.items() if each.blocks} - entered
    assert not any(found[name].executed_blocks for name in found.keys() - entered)
    routines = {routine.name: routine for routine in exported.measurement.routines}
    assert {name: found[name].count for name in entered} == {
        name: routine.activations for name, routine in routines.items()
    }


def test_a_selection_leaves_out_the_others(exported: ExportSource) -> None:
    whole = exported.measurement
    some = tuple(each for each in whole.routines if each.name in ("strlen", "sort"))
    measurement = replace(
        whole, routines=some, options={**whole.options, "routines": ("str*", "sort")}
    )
    names = {each.name for file in coverage(ExportSource(measurement)) for each in file.functions}
    assert names == {"strlen", "sort"}


def test_a_program_without_lines_is_one_line(
    exported: ExportSource, pointers: Path, tmp_path: Path
) -> None:
    import hashlib
    import shutil

    strip = shutil.which("sparc64-linux-gnu-strip")
    if strip is None:
        content = pointers.read_bytes().replace(b".debug_line", b".debug_none")
    else:
        bare = tmp_path / "strip.elf"
        subprocess.run([strip, "-g", "-o", bare, pointers], check=True)
        content = bare.read_bytes()
    program = tmp_path / "bare.elf"
    program.write_bytes(content)
    info = replace(
        exported.measurement.program,
        file=str(program),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    source = ExportSource(replace(exported.measurement, program=info))
    for form in ("lcov", "cobertura", "gcov"):
        with pytest.raises(UsageError, match=r"has no line information: compile it with -g, or"):
            export(find(form), source)
        assert not notes(find(form), source)
    (note,) = notes(find("callgrind"), source)
    assert note.endswith("has no line information (compile it with -g): counts are by address only")
    assert not notes(find("callgrind"), exported)
    by_address = export(find("callgrind"), source).decode()
    with_lines = export(find("callgrind"), exported).decode()
    assert _costs(by_address) == _costs(with_lines)


def _costs(callgrind: str) -> list[list[str]]:
    """Address, base and added of all rows of costs: all but the line."""
    rows = (line.split() for line in callgrind.splitlines() if line.startswith("0x"))
    return [[row[0], *row[2:]] for row in rows if len(row) == 4]


def hostile_source(monkeypatch: pytest.MonkeyPatch) -> ExportSource:
    """A program whose files and routines all have names of `hostile_profile.NAMES`."""
    measurement = hostile_measurement()
    source = ExportSource(measurement)
    monkeypatch.setattr(coverage_module, "whole", lambda source: source.measurement)

    class Lines:
        def find(self, address: int) -> SourceLine | None:
            starts = (start for start in measurement.lines if start <= address < start + 16)
            return measurement.lines.get(max(starts, default=0))

        def stretches(self) -> tuple[()]:
            return ()

    class Program:
        lines = Lines()
        path = Path("gone")
        parts = segments = symbols = unwinding = ()

    source.__dict__["program"] = Program()
    source.__dict__["recovered"] = None
    return source


# lcov


def shown_by_genhtml(tracefile: bytes, sources: Path, pages: Path) -> str:
    """What genhtml prints in the end: files, lines, functions and branches, counted by it."""
    info = pages.with_suffix(".info")
    info.write_bytes(tracefile)
    done = subprocess.run(
        ["genhtml", "--branch-coverage", "--output-directory", pages, info],
        cwd=sources,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.viewers
def test_genhtml_shows_lines_functions_and_branches(exported: ExportSource, tmp_path: Path) -> None:
    source = ExportSource(exported.measurement, sources=MOVED)
    files = coverage(source)
    lines = [line.count for file in files for line in file.lines.values()]
    arms = [arm.count for file in files for arm in file.arms]
    functions = [function.count for file in files for function in file.functions]
    printed = shown_by_genhtml(written("lcov", source), FIXTURES, tmp_path / "pages")
    for name, counts in (("lines", lines), ("functions", functions), ("branches", arms)):
        covered = sum(count > 0 for count in counts)
        assert re.search(rf"{name}\.+: [\d.]+% \({covered} of {len(counts)} ", printed), printed
    (page,) = (tmp_path / "pages").rglob("pointers.c.gcov.html")
    assert "3911" in page.read_text()  # calls of `ascending`


@pytest.mark.viewers
def test_genhtml_takes_any_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = hostile_source(monkeypatch)
    content = written("lcov", source)
    records = content.decode().split("end_of_record\n")[:-1]
    assert len(records) == len(source.measurement.routines)
    for record in records:
        assert re.fullmatch(
            r"(TN:\n)?SF:[^\n]+\nFN:\d+,[^,\n]+\nFNDA:1000000000000000,[^,\n]+\nFNF:1\nFNH:1\n"
            r"BRDA:4,0,0,\d+\nBRDA:4,0,1,\d+\nBRF:2\nBRH:2\n(DA:\d+,\d+\n)+LF:\d+\nLH:\d+\n",
            record,
        ), record
    info = tmp_path / "any.info"
    info.write_bytes(content)
    command = ["lcov", "--rc", "lcov_branch_coverage=1", "--summary", str(info)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"({len(records)} of {len(records)} functions)" in done.stdout + done.stderr


# Cobertura


def test_cobertura_is_valid_and_has_the_counts(exported: ExportSource) -> None:
    root = parsed(written("cobertura", exported))
    expected = lines_of(written("lcov", exported).decode())
    found = {
        str(entry.get("filename")): {
            int(line.get("number", "")): int(line.get("hits", ""))
            for line in entry.findall("./lines/line")
        }
        for entry in root.iterfind(".//class")
    }
    assert found == expected
    arms = [
        tuple(map(int, re.findall(r"\((\d+)/(\d+)\)$", line.get("condition-coverage", ""))[0]))
        for line in root.iterfind(".//class/lines/line[@branch='true']")
    ]
    assert sum(taken for taken, _ in arms) == int(root.get("branches-covered", ""))
    assert sum(whole for _, whole in arms) == int(root.get("branches-valid", ""))
    assert int(root.get("branches-covered", "")) > 50


def test_cobertura_takes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    source = hostile_source(monkeypatch)
    root = parsed(written("cobertura", source))
    names = [method.get("name") for method in root.iterfind(".//method")]
    assert len(names) == len(source.measurement.routines)
    assert '<b>&amp;"quoted"\'</b>' in names
    assert "two\\nlines\\r\\n\\ttab" in names


# gcov JSON


def test_gcovr_reads_gcov_json(exported: ExportSource, tmp_path: Path) -> None:
    """As gcovr reads the files that gcov has written itself."""
    source = ExportSource(exported.measurement, sources=MOVED)
    (tmp_path / "pointers.gcov.json.gz").write_bytes(written("gcov", source))
    report = gcovr("--gcov-use-existing-files", "--root", str(FIXTURES), ".", directory=tmp_path)
    found = {
        str(FIXTURES / file["file"]): {line["line_number"]: line["count"] for line in file["lines"]}
        for file in report["files"]
    }
    expected = lines_of(written("lcov", source).decode())
    assert found == {name: expected[name] for name in found}
    assert len(found) > 3
    arms = Counter(
        branch["count"]
        for file in report["files"]
        for line in file["lines"]
        for branch in line["branches"]
    )
    assert arms == Counter(arm.count for file in coverage(source) for arm in file.arms)
    functions = {
        function["name"]: function["execution_count"]
        for file in report["files"]
        for function in file["functions"]
    }
    assert functions["ascending"] == 3911
    assert functions["memset"] == 0


def test_a_name_that_gcovr_does_not_find_is_noted(
    pointers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = str(tmp_path / "p")
    assert cli.run(["run", "-q", "--root", str(tmp_path), "-o", profile, str(pointers)]) == 0
    export = ["export", "--format", "gcov", profile, "-o"]
    note = "name it *.gcov.json.gz for its reader to find it"
    for name, is_noted in (("app.gcov", True), ("app.gcov.json.gz", False)):
        capfd.readouterr()
        assert cli.run([*export, str(tmp_path / name)]) == 0
        assert (f"{name}: {note}" in capfd.readouterr().err) == is_noted


def test_gcov_json_has_the_fields_of_gcov(exported: ExportSource, tmp_path: Path) -> None:
    """Every field that gcov of this machine writes, apart from those of newer versions."""
    (tmp_path / "one.c").write_text("int main(int n, char **v) { return n > 1 ? 3 : 0; }\n")
    for command in (["gcc", "--coverage", "one.c", "-o", "one"], ["./one"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    (data,) = tmp_path.glob("*.gcda")
    command = ["gcov", "--json-format", "--stdout", data.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    theirs = json.loads(done.stdout)
    ours = json.loads(gzip.decompress(written("gcov", exported)))
    assert ours.keys() >= theirs.keys()
    for key in ("functions", "lines"):
        (their_file,) = theirs["files"]
        fields = ours["files"][0][key][0].keys()
        assert fields >= their_file[key][0].keys()


def test_gcov_json_takes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    source = hostile_source(monkeypatch)
    report = json.loads(gzip.decompress(written("gcov", source)))
    names = [each["name"] for file in report["files"] for each in file["functions"]]
    assert sorted(names) == sorted(routine.name for routine in source.measurement.routines)
