"""Exports of call trees: what their readers say equals what simprof counted."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from simprof.profiler import cli
from simprof.profiler.exports import stacks
from simprof.profiler.exports.formats import ExportSource, export, find
from simprof.profiler.profiles import storage
from simprof.profiler.profiles.calls import CalledRoutine, CallTree, RoutineCalls, call_graph
from simprof.profiler.profiles.code_counts import code_counts
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.program_files import find_program
from tests.support.samples import measurement

PROGRAMS = {"calls": ["9"], "nonlocal": [], "signals": [], "tailcalls": []}


@pytest.fixture(scope="module", params=PROGRAMS)
def profile(
    request: pytest.FixtureRequest,
    fixture_elf: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A saved profile with a call tree."""
    tmp_path = tmp_path_factory.mktemp("calls")
    path = tmp_path / "calls.profile"
    program = str(fixture_elf(request.param, "v9"))
    output = ["--report", str(tmp_path / "report"), "-o", str(path)]
    words = ["run", program, "--call-tree", *output, "--", *PROGRAMS[request.param]]
    assert cli.run(words) < 125
    return path


TYPES = {
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}


def exported(profile: Path, form: str) -> tuple[RunMeasurement, bytes]:
    """Return a profile and its export."""
    loaded = storage.load(profile)
    return loaded, export(find(form), ExportSource(loaded, profile))


def routines_of(measured: RunMeasurement) -> tuple[RoutineCalls, ...]:
    assert measured.call_tree is not None
    return call_graph(measured.call_tree).routines


def inclusive(stacks: Iterable[tuple[Sequence[str], int]]) -> Counter[str]:
    """Return weights by name, each once a stack."""
    found: Counter[str] = Counter()
    for names, weight in stacks:
        for name in set(names):
            found[name] += weight
    return found


def annotated(content: bytes, directory: Path, *options: str) -> str:
    """Return what callgrind_annotate says of a file; it must not complain."""
    path = directory / "callgrind.out"
    path.write_bytes(content)
    command = ["callgrind_annotate", "--threshold=100", "--auto=no", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


def table(text: str, join: Callable[[Iterable[int]], int] = sum) -> dict[str, tuple[int, int]]:
    """Return base and added by the function that a line of callgrind_annotate's is of.

    Lines that come from other source files have rows of their own, which `join` adds up.
    """
    number = r"([\d,]+) +(?:\([ \d.]+%\))? +"
    found: dict[str, tuple[int, int]] = {}
    for base, added, name in re.findall(rf"^ *{number}{number}(\S.*)$", text, re.MULTILINE):
        what = re.sub(r" \[.*\]$", "", name).split(":")[-1].strip()
        row = int(base.replace(",", "")), int(added.replace(",", ""))
        before, after = zip(found.get(what, (0, 0)), row, strict=True)
        found[what] = join(before), join(after)
    return found


@pytest.mark.viewers
def test_callgrind_annotate_has_the_same_totals(profile: Path, tmp_path: Path) -> None:
    measured, content = exported(profile, "callgrind")
    own = table(annotated(content, tmp_path))
    assert own.pop("PROGRAM TOTALS") == (measured.base, measured.added)
    expected = {
        routine.name: (routine.base, routine.added)
        for routine in routines_of(measured)
        if routine.base
    }
    assert {name: own[name] for name in expected} == expected


@pytest.mark.viewers
def test_callgrind_annotate_has_the_same_inclusive_numbers(profile: Path, tmp_path: Path) -> None:
    measured, content = exported(profile, "callgrind")
    found = table(annotated(content, tmp_path, "--inclusive=yes"), max)
    for routine in routines_of(measured):
        if routine.base:
            wanted = routine.inclusive_base, routine.inclusive_added
            assert found[routine.name] == wanted, routine.name


def test_callgrind_has_branches_and_instructions(profile: Path) -> None:
    measured, content = exported(profile, "callgrind")
    text = content.decode()
    jumps = re.findall(r"^jcnd=(\d+)/(\d+) (0x\w+) \d+\n(0x\w+) \d+$", text, re.MULTILINE)
    found = {int(source, 16): (int(t), int(n), int(to, 16)) for t, n, to, source in jumps}
    expected = {
        branch.address: (branch.taken, branch.taken + branch.not_taken, branch.target.start)
        for routine in measured.routines
        for branch in code_counts(routine).branches.values()
        if branch.taken and isinstance(branch.target.start, int)
    }
    assert found == expected
    calls = sum(map(int, re.findall(r"^calls=(\d+) ", text, re.MULTILINE)))
    assert calls == sum(routine.calls for routine in routines_of(measured)) - 1  # but for the first


@pytest.mark.parametrize("form", ["collapsed", "collapsed_added"])
def test_collapsed_stacks_include_what_routines_include(profile: Path, form: str) -> None:
    measured, content = exported(profile, form)
    lines = [line.rsplit(" ", 1) for line in content.decode().splitlines()]
    stacks = [(stack.split(";"), int(weight)) for stack, weight in lines]
    assert len({stack for stack, _ in lines}) == len(lines)
    which = "inclusive_base" if form == "collapsed" else "inclusive_added"
    expected = Counter({each.name: getattr(each, which) for each in routines_of(measured)})
    assert inclusive(stacks) == +expected


def check_speedscope(content: dict[str, Any]) -> None:
    """Check what speedscope's file-format schema demands of a file with sampled profiles."""
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert content.keys() <= {
        *("$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter")
    }
    frames = content["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str)
        assert frame.keys() <= {"name", "file", "line", "col"}
    for profile in content["profiles"]:
        assert profile.keys() == {
            *("type", "name", "unit", "startValue", "endValue", "samples", "weights")
        }
        assert profile["type"] == "sampled"
        assert profile["unit"] in {
            *("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
        }
        assert isinstance(profile["startValue"], int) and isinstance(profile["endValue"], int)
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= each < len(frames) for stack in profile["samples"] for each in stack)
    assert 0 <= content["activeProfileIndex"] < len(content["profiles"])


def test_speedscope_has_what_its_schema_demands(profile: Path) -> None:
    measured, exported_content = exported(profile, "speedscope")
    content = json.loads(exported_content)
    check_speedscope(content)
    names = [frame["name"] for frame in content["shared"]["frames"]]
    for shown, which in zip(content["profiles"], ("base", "added"), strict=True):
        assert shown["endValue"] == sum(shown["weights"])
        samples = zip(shown["samples"], shown["weights"], strict=True)
        found = inclusive(([names[each] for each in stack], weight) for stack, weight in samples)
        routines = routines_of(measured)
        assert found == +Counter({r.name: getattr(r, f"inclusive_{which}") for r in routines})


def pprof_message() -> Any:
    """Return an empty `Profile`, as pprof's profile.proto has it."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles")
    file.syntax = "proto3"
    for name, fields in PPROF.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in fields.items():
            repeated = kind.startswith("*")
            made = message.field.add(name=field, number=number, label=3 if repeated else 1)
            kind = kind.removeprefix("*")
            if kind in PPROF:
                made.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                made.type_name = f".perftools.profiles.{kind}"
            else:
                made.type = TYPES[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("perftools.profiles.Profile")
    return message_factory.GetMessageClass(found)()


PPROF: dict[str, dict[int, tuple[str, str]]] = {
    "Profile": {
        1: ("sample_type", "*ValueType"),
        2: ("sample", "*Sample"),
        3: ("mapping", "*Mapping"),
        4: ("location", "*Location"),
        5: ("function", "*Function"),
        6: ("string_table", "*string"),
        14: ("default_sample_type", "int64"),
    },
    "ValueType": {1: ("type", "int64"), 2: ("unit", "int64")},
    "Sample": {1: ("location_id", "*uint64"), 2: ("value", "*int64")},
    "Mapping": {
        1: ("id", "uint64"),
        2: ("memory_start", "uint64"),
        3: ("memory_limit", "uint64"),
        5: ("filename", "int64"),
        7: ("has_functions", "bool"),
        8: ("has_filenames", "bool"),
        9: ("has_line_numbers", "bool"),
    },
    "Location": {
        1: ("id", "uint64"),
        2: ("mapping_id", "uint64"),
        3: ("address", "uint64"),
        4: ("line", "*Line"),
    },
    "Line": {1: ("function_id", "uint64"), 2: ("line", "int64")},
    "Function": {
        1: ("id", "uint64"),
        2: ("name", "int64"),
        3: ("system_name", "int64"),
        4: ("filename", "int64"),
        5: ("start_line", "int64"),
    },
}
"""The messages of profile.proto, with the fields that are written."""


def test_pprof_reads_back_through_protobuf(profile: Path) -> None:
    measured, content = exported(profile, "pprof")
    read = pprof_message()
    read.ParseFromString(gzip.decompress(content))
    assert read.SerializeToString() == gzip.decompress(content)
    text = list(read.string_table)
    assert text[0] == ""
    assert [text[each.type] for each in read.sample_type] == ["base", "added"]
    assert text[read.default_sample_type] == "base"
    assert text[read.mapping[0].filename] == measured.program.file
    functions = {each.id: text[each.name] for each in read.function}
    names = {each.id: functions[each.line[0].function_id] for each in read.location}
    addresses = {routine.address for routine in routines_of(measured)}
    assert {each.address for each in read.location if each.id == read.location[0].id} <= addresses
    for which, kind in enumerate(("inclusive_base", "inclusive_added")):
        stacks = [([names[i] for i in each.location_id], each.value[which]) for each in read.sample]
        expected = Counter({r.name: getattr(r, kind) for r in routines_of(measured)})
        assert +inclusive(stacks) == +expected
    assert [text[each.unit] for each in read.sample_type] == ["instructions", "instructions"]
    # Line by line: the innermost location of all stacks, beside what `show PROFILE source` shows.
    files = {each.id: text[each.filename] for each in read.function}
    places = {
        each.id: (files[each.line[0].function_id], each.line[0].line) for each in read.location
    }
    own: Counter[tuple[str, int]] = Counter()
    for sample in read.sample:
        own[places[sample.location_id[0]]] += sample.value[0]
    found = find_program(measured)
    lines = SourceCounts(measured, found.program).lines.values()
    known = Counter({(each.line.file, each.line.line): each.base for each in lines})
    same = [place for place in +known if own[place] == known[place]]
    assert own.total() == measured.base
    assert len(same) > 40, "lines of inlined routines have the file of the routine around"
    assert len(same) >= 0.9 * len(+known)


def test_shares_of_lines_are_exact_sums() -> None:
    left = {4: 5, 8: 3, 12: 1}
    first = stacks._take(left, 4)
    assert sum(first.values()) == 4
    assert first == {4: 2, 8: 1, 12: 1}
    assert left == {4: 3, 8: 2, 12: 0}
    assert stacks._take(left, 5) == {4: 3, 8: 2}
    assert stacks._take(left, 0) == {}


@pytest.mark.parametrize("form", ["collapsed", "collapsed_added", "speedscope"])
def test_profile_without_a_call_tree_is_refused(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plain.profile"
    storage.save(measurement(), path)
    assert cli.run(["export", "--format", form, str(path), "-o", str(tmp_path / "out")]) == 125
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "has no call tree: record it with `simprof run --call-tree -o`" in said


def test_names_do_not_break_stacks() -> None:
    """A semicolon would be another routine, a line end another stack."""
    tree = CallTree(
        (CalledRoutine("a;b", 8), CalledRoutine("c\nd", 16)),
        parents=(-1, 0),
        sites=(0, 8),
        callees=(0, 1),
        callers=(-1, 0),
        calls=(1, 10**15),
        landings=(0, 0),
        base=(1, 10**15),
        added=(0, 7),
        limit=9,
    )
    source = ExportSource(measurement(call_tree=tree))
    lines = export(find("collapsed"), source).decode().splitlines()
    assert lines == ["a:b 1", "a:b;c\\nd 1000000000000000"]
