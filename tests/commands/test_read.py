"""`simprof read`: counter files in, profiles and traces out, and one line for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles import storage
from simprof.profiler.schemes.tracing.code import STREAM
from simprof.profiler.trace.format import FORMAT, Trace, load
from tests.support.cli_run import simprof
from tests.support.reading import Observed, observe
from tests.support.regenerate import record

Find = Callable[..., Path]


@pytest.fixture(scope="module")
def run(fixture_elf: Find) -> Observed:
    """A simulated run of `words`."""
    return observe(fixture_elf("words"))


def refused(*arguments: str | Path) -> str:
    """The one line that `simprof read` says instead of reading."""
    done = simprof("read", *arguments)
    assert (done.returncode, done.stdout) == (125, b"")
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("simprof: ")


def test_a_profile_is_saved_and_shown(run: Observed, tmp_path: Path) -> None:
    counters, profile = tmp_path / "simprof.out", tmp_path / "profile"
    counters.write_bytes(run.content("pp"))
    done = simprof("read", counters, "-o", profile, "--json", "-", "--top", "3")
    assert done.returncode == 0, done.stderr.decode()
    saved, wanted = storage.load(profile), run.simulated("pp")
    for ours, theirs in zip(saved.routines, wanted.routines, strict=True):
        assert (ours.key, ours.path_counts) == (theirs.key, theirs.path_counts)
    assert saved.edge_profile() == wanted.edge_profile()
    answer = json.loads(done.stdout)
    assert (answer["format"], answer["mode"]) == ("simprof/run", "pp")
    said = " ".join(done.stderr.decode().split())  # wrapped by the width of a path
    assert "read from counters: `base` is of the instrumented routines only, `added` is" in said


@pytest.mark.long
def test_several_files_add_up(run: Observed, tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        file.write_bytes(run.content("naive"))
    assert simprof("read", *files, "-o", tmp_path / "profile").returncode == 0
    saved = storage.load(tmp_path / "profile")
    assert (saved.runs, saved.base) == (2, 2 * run.simulated("naive").base)
    files[1].write_bytes(run.content("calls"))
    line = refused(*files, "-o", tmp_path / "none")
    assert line.endswith("/one: the mode is calls, not naive")
    assert not (tmp_path / "none").exists()


@pytest.mark.long
def test_the_instrumented_program_is_that_of_the_files(run: Observed, tmp_path: Path) -> None:
    """Its file holds the header that it writes."""
    counters, out = tmp_path / "simprof.out", tmp_path / "program"
    counters.write_bytes(run.content("naive"))
    header = b"".join(counters.read_bytes().splitlines(keepends=True)[:2])
    out.write_bytes(b"\x7fELF and code" + header + b"and more")
    assert simprof("read", out, counters).returncode == 0
    assert refused(out).endswith("is a program: name the counter files that it has written, too")
    counters.write_bytes(run.content("qpt2"))
    line = refused(out, counters)
    assert line == f"{counters} was not written by {out}: it is of another program, or mode"


def test_what_is_wrong_with_files_is_said(run: Observed, tmp_path: Path) -> None:
    counters, content = tmp_path / "simprof.out", run.content("naive")
    assert refused(counters) == f"{counters} cannot be read: No such file or directory"
    counters.write_bytes(content[:-9])
    assert refused(counters).startswith(f"{counters} is cut at byte ")
    counters.write_bytes(b"no counters")
    assert "is not a counter file" in refused(counters)
    counters.write_bytes(content)
    assert "is read as well" in refused(counters, "-o", counters)
    line = refused(counters, "--program", counters)
    assert str(counters) in line


def test_options_are_of_counters_or_of_traces(run: Observed, tmp_path: Path) -> None:
    counters, trace = tmp_path / "simprof.out", tmp_path / "trace"
    counters.write_bytes(run.content("naive"))
    trace.write_bytes(FORMAT.first_line)
    for words in (["--check"], ["--call-paths", "3"]):
        line = refused(counters, *words)
        assert line == f"{words[0]} has no effect on counters: leave it out"
    for option, *value in (["--details"], ["--top", "3"], ["--report", str(tmp_path / "report")]):
        assert refused(trace, option, *value) == f"{option} has no effect on a trace: leave it out"
    line = refused(trace, counters)
    assert line == f"{trace} is a trace, which is read alone: leave out {counters}"


def raw_of(trace: Trace) -> bytes:
    """What the program would have written: the last byte's bits are its low ones."""
    assert trace.end is not None
    used = trace.end.bits % 8
    return trace.stream if not used else trace.stream[:-1] + bytes([trace.stream[-1] >> 8 - used])


@pytest.mark.long
@pytest.mark.parametrize("name", ["witness", "bits", "bytes", "block-trace"])
def test_a_trace_is_made(name: str, run: Observed, tmp_path: Path) -> None:
    traced = load(record(run.observation.program.path, name, tmp_path).path)
    assert traced.end is not None
    counters, made = tmp_path / "out", tmp_path / "made"
    words = {STREAM.end + STREAM.position: traced.end.bits - 65536 & 0xFFFFFFFF}
    counters.write_bytes(run.content(name, words=words, frames=run.stack()))
    line = refused(counters)
    assert line == f"{counters} is of a program that writes a trace: name that to make with -o"
    assert refused(counters, "-o", made).startswith(f"{counters}.trace cannot be read: ")
    (tmp_path / "out.trace").write_bytes(raw_of(traced))
    done = simprof("read", counters, "-o", made)
    assert (done.returncode, done.stderr) == (0, b"")
    known = replace(load(made), header=traced.header, routines=traced.routines)
    assert known == replace(traced, checkpoints={}, certain=known.certain)
    assert simprof("read", "--check", made).returncode == 0
    other = tmp_path / "other"
    other.write_bytes(counters.read_bytes())
    (tmp_path / "other.trace").write_bytes(b"")
    assert "traces cannot be merged" in refused(counters, other, "-o", tmp_path / "both")
