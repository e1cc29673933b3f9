"""The command `simprof export`, and what holds for all formats."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.exports.formats import FORMATS, ExportSource, FormatNeed, export, find
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.profile import ProgramInfo, RunMeasurement
from simprof.simulator.errors import UsageError
from tests.support.hostile_profile import hostile_measurement
from tests.support.samples import measurement

FROM_PROFILE = sorted(name for name, form in FORMATS.items() if not form.needs)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "loop.prof"
    storage.save(measurement(), path)
    return path


def test_an_entry_is_named_as_it_is_found() -> None:
    for name, form in FORMATS.items():
        assert form.name == name == find(name).name
        assert callable(form.writer)


def test_help_lists_all_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["export", "--help"]) == 0
    listed = capsys.readouterr().out.split("Formats:")[1]
    assert re.findall(r"^  (\w+) ", listed, re.MULTILINE) == sorted(FORMATS)


@pytest.mark.parametrize("form", FROM_PROFILE)
def test_a_file_and_stdout_get_the_same(
    form: str, profile: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    target = tmp_path / "out"
    assert cli.run(["export", "--format", form, str(profile), "-o", str(target)]) == 0
    assert cli.run(["export", "--format", form, str(profile), "-o", "-"]) == 0
    content = target.read_bytes()
    assert content
    assert capfdbinary.readouterr().out == content


@pytest.mark.parametrize("form", FROM_PROFILE)
def test_an_empty_profile_is_written_too(form: str) -> None:
    empty = measurement(routines=(), lines={})
    assert isinstance(export(find(form), ExportSource(empty)), bytes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "nothing"], "'nothing' is not one of"),
        (
            ["--format", "csv", "--table", "nothing"],
            "unknown table 'nothing': choose from routines",
        ),
        (["--format", "dot", "--table", "edges"], "--format dot holds no table of its own"),
        ([], "Missing option '--format'"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str],
    said: str,
    profile: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "out"
    assert cli.run(["export", *words, str(profile), "-o", str(target)]) == 125
    error = capsys.readouterr().err
    assert error.startswith("simprof: ")
    assert error.count("\n") == 1
    assert said in error
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", None])
def test_what_is_no_profile_is_one_line_and_leaves_the_target_alone(
    content: bytes | None, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.write_bytes(profile.read_bytes()[:-9] if content is None else content)
    target = tmp_path / "out"
    target.write_bytes(b"before")
    assert cli.run(["export", "--format", "csv", str(profile), "-o", str(target)]) == 125
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(profile) in error
    assert target.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop.prof", "out"]


def test_paths_are_refused_where_the_mode_collects_none() -> None:
    source = ExportSource(measurement(mode="qpt2"), Path("loop.prof"), table="paths")
    with pytest.raises(UsageError, match=r"^loop.prof has no paths: mode qpt2 collects none$"):
        export(find("csv"), source)


@pytest.mark.parametrize(
    "form", sorted(name for name, form in FORMATS.items() if FormatNeed.PROGRAM in form.needs)
)
def test_formats_of_the_program_ask_for_it(
    form: str, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert cli.run(["export", "--format", form, str(profile), "-o", str(target)]) == 125
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "loop.elf is not there: say where it is by --program FILE" in error
    assert not target.exists()


def of_program(path: Path, sha256: str) -> RunMeasurement:
    whole = measurement()
    return replace(whole, program=ProgramInfo(str(path), sha256, whole.program.machine))


def test_a_program_that_is_gone_is_asked_for(tmp_path: Path) -> None:
    source = ExportSource(of_program(tmp_path / "gone.elf", "ab" * 32), Path("loop.prof"))
    with pytest.raises(
        UsageError, match=r"^loop.prof: .*gone.elf is not there: .* by --program FILE$"
    ):
        source.program  # noqa: B018 - reading it is the test


def test_another_program_is_refused(fixture_elf: Callable[..., Path]) -> None:
    source = ExportSource(of_program(fixture_elf("calls"), "ab" * 32), Path("loop.prof"))
    with pytest.raises(UsageError, match=r"^loop.prof: .*calls.elf has changed since it ran"):
        source.program  # noqa: B018 - reading it is the test


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def table_of(whole: RunMeasurement, name: str) -> list[dict[str, str]]:
    return rows_of(export(find("csv"), ExportSource(whole, table=name)))


def test_csv_has_the_counts() -> None:
    (routine,) = table_of(measurement(), "routines")
    assert (routine["routine"], routine["routine_address"]) == ("main", "0x1000")
    assert (routine["entered"], routine["added"], routine["file"]) == ("2", "40", "loop.c")
    edges = {
        (row["source"], row["target"]): (
            int(row["executions"]),
            int(row["added"]),
            row["instrumented"],
        )
        for row in table_of(measurement(), "edges")
    }
    assert edges == {
        ("0x1000", "0x1020"): (2, 0, "false"),
        ("0x1000", "slot 0x100c"): (5, 0, "false"),
        ("slot 0x100c", "0x1010"): (5, 0, "false"),
        ("0x1010", "0x1000"): (5, 0, "true"),
        ("ENTRY", "0x1000"): (2, 0, "true"),
        ("0x1020", "EXIT"): (2, 0, "true"),
    }
    blocks = {
        row["block"]: (int(row["executions"]), row["instructions_per_execution"])
        for row in table_of(measurement(), "blocks")
    }
    assert blocks == {
        "0x1000": (7, "3"),
        "slot 0x100c": (5, "1"),
        "0x1010": (5, "4"),
        "0x1020": (2, "3"),
    }
    numbers = ("path", "executions", "instructions", "instructions_per_execution", "blocks")
    paths = [tuple(map(row.get, numbers)) for row in table_of(measurement(), "paths")]
    assert paths == [
        ("1", "3", "27", "9", "0x1000 > slot 0x100c > 0x1010"),
        ("0", "2", "18", "9", "0x1000 > slot 0x100c > 0x1010"),
        ("2", "2", "14", "7", "0x1000 > 0x1020"),
    ]


def test_csv_keeps_any_name_and_any_number() -> None:
    whole = hostile_measurement()
    long = replace(whole.routines[0], potential_paths=10**5000)
    whole = replace(whole, routines=(long, *whole.routines[1:]))
    rows = table_of(whole, "routines")
    names = [routine.name.encode(errors="backslashreplace").decode() for routine in whole.routines]
    assert "=1+1" in names
    assert [row["routine"] for row in rows] == [name.replace("=1+1", "'=1+1") for name in names]
    assert rows[0]["potential_paths"] == "1" + "0" * 5000
    assert {row["entered"] for row in rows} == {str(10**15)}


def many() -> RunMeasurement:
    names = ("main", "sort", "_ZN3Map4findEi", "by_key", "by_value")
    (first, *_) = measurement().routines
    routines = (replace(first, name=name, address=at) for at, name in enumerate(names))
    return replace(measurement(), routines=tuple(routines))


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--routine", "sort"], ["sort"]),
        (["--routine", "Map::find*", "--routine", "main"], ["main", "_ZN3Map4findEi"]),
        (["--exclude", "by_*"], ["main", "sort", "_ZN3Map4findEi"]),
        (["--routine", "by_*", "--exclude", "*key"], ["by_value"]),
    ],
)
@pytest.mark.parametrize("form", sorted(name for name, each in FORMATS.items() if each.by_routine))
def test_routines_are_chosen(form: str, words: list[str], left: list[str], tmp_path: Path) -> None:
    """A file of some routines is that of a profile that has no others."""
    profile, target = tmp_path / "profile", tmp_path / "out"
    storage.save(many(), profile)
    assert cli.run(["export", "--format", form, *words, str(profile), "-o", str(target)]) == 0
    kept = tuple(each for each in many().routines if each.name in left)
    assert len(kept) == len(left)
    assert target.read_bytes() == export(find(form), ExportSource(replace(many(), routines=kept)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--format=dot", "--routine=nosuch"],
            "--routine and --exclude leave no routine: `simprof",
        ),
        (["--format=csv", "--exclude=*"], "leave no routine"),
        (["--format=tsim", "--routine=main"], "--format tsim is about all routines of a profile:"),
        (["--format=lcov", "--exclude=main"], "choose one of csv, dot, graphml, parquet, or leave"),
    ],
)
def test_routines_that_cannot_be_chosen_are_one_line(
    words: list[str], said: str, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    assert cli.run(["export", *words, str(profile), "-o", str(target)]) == 125
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not target.exists()
