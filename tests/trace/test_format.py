"""Trace files byte by byte, as the module's description has them, and what is made of pieces."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.profiler.trace.format import (
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFile,
    TraceHeader,
    check_numbers,
    discovery_fields,
    load,
    parse,
    read_discoveries,
)
from simprof.simulator.binary import elf
from simprof.simulator.errors import UsageError
from tests.conftest import ROOT

HEADER = TraceHeader("prog", "ab", "sparcv9", ("x",), "bits", {})
HEAD = (
    b"simprof-trace 1\n"
    b'{"arguments":["x"],"discoveries":{},"file":"prog","machine":"sparcv9","mode":"bits",'
    b'"sha256":"ab"}\n'
)


def framed(kind: bytes, content: bytes) -> bytes:
    """Kind, length, its check, content, check of kind and content."""
    head = kind + len(content).to_bytes(4, "big")
    check = zlib.crc32(head).to_bytes(4, "big")[2:]
    return head + check + content + zlib.crc32(kind + content).to_bytes(4, "big")


def numbers(*values: int, size: int = 4) -> bytes:
    return b"".join(value.to_bytes(size, "big") for value in values)


ROUTINE = framed(b"R", numbers(3, 5, 1, 8))
CHUNK = framed(b"C", numbers(11, size=8) + b"\x12\x34")
CHECKPOINT = framed(b"K", numbers(12, 99, size=8))
EVENT = framed(
    b"E",
    b'{"at":14,"bits":9,"block":-1,"crossed":[3,4],"depth":2,"after":5,"waiting":-1}',
)
END = framed(b"Z", b'{"crossings":15,"digest":7,"bits":16}')


def test_a_file_is_its_frames_one_after_the_other(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t", HEADER)
    file.routine(3, {5: (1, 8)})
    file.chunk(11, b"\x12\x34")
    file.checkpoint(12, 99)
    file.event(TraceEvent(14, 9, -1, (3, 4), 2, 5, -1))
    file.close(TraceEnd(15, 7, 16))
    written = (tmp_path / "t").read_bytes()
    assert written == HEAD + ROUTINE + CHUNK + CHECKPOINT + EVENT + END


def test_a_digest_is_written_without_its_sign(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "t", HEADER)
    file.checkpoint(1, -1)
    file.close()
    frame = framed(b"K", numbers(1, size=8) + b"\xff" * 8)
    assert (tmp_path / "t").read_bytes() == HEAD + frame


def test_a_trace_is_read_as_far_as_it_goes() -> None:
    """`certain` grows with what is sure to have happened, whole frame by whole frame."""
    pieces = [ROUTINE, CHUNK, CHECKPOINT, EVENT]
    certain = [parse(HEAD + b"".join(pieces[:count]), "t").certain for count in range(5)]
    assert certain == [0, 0, 11, 12, 14]
    trace = parse(HEAD + b"".join(pieces), "t")
    assert trace.header == HEADER
    assert trace.routines == {3: {5: (1, 8)}}
    assert trace.stream == b"\x12\x34"
    assert trace.checkpoints == {12: 99}
    assert trace.events == (TraceEvent(14, 9, -1, (3, 4), 2, 5, -1),)
    assert trace.end is None
    size = len(HEAD) + sum(map(len, pieces))
    assert trace.cut == f"the file ends at byte {size}, before the trace does"


def test_a_whole_trace_is_not_cut() -> None:
    trace = parse(HEAD + CHUNK + END, "t")
    assert (trace.cut, trace.end) == (None, TraceEnd(15, 7, 16))


def test_a_cut_chunk_gives_the_bytes_that_are_there() -> None:
    """But not the crossings that it speaks of: they may be behind the bytes that are lost."""
    cut = HEAD + CHUNK[: 7 + 8 + 1]
    trace = parse(cut, "t")
    assert (trace.stream, trace.certain) == (b"\x12", 0)
    assert trace.cut == f"the file ends within a frame, at byte {len(cut)}"


def test_other_frames_are_read_whole_or_not_at_all() -> None:
    for frame in (ROUTINE, CHECKPOINT, EVENT, END):
        trace = parse(HEAD + frame[:-1], "t")
        assert (trace.routines, trace.checkpoints, trace.events, trace.end) == ({}, {}, (), None)
        assert trace.cut is not None


@pytest.mark.parametrize("at", [0, 4, 6, 10, len(CHECKPOINT) - 1])
def test_damage_stops_at_the_frame_that_has_it(at: int) -> None:
    """Of kind, length, its check, content and check: what comes before is kept."""
    damaged = bytearray(CHECKPOINT)
    damaged[at] ^= 1
    trace = parse(HEAD + CHUNK + bytes(damaged) + END, "t")
    assert trace.cut == f"the file is damaged at byte {len(HEAD) + len(CHUNK)}"
    assert (trace.certain, trace.checkpoints, trace.end) == (11, {}, None)


def test_a_header_needs_all_of_its_fields() -> None:
    fields = json.loads(HEAD.splitlines()[1])
    for name in fields:
        less = {key: value for key, value in fields.items() if key != name}
        data = b"simprof-trace 1\n" + json.dumps(less).encode() + b"\n"
        with pytest.raises(UsageError, match="cut in its header"):
            parse(data, "t")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing cannot be read"):
        load(tmp_path / "missing")
    with pytest.raises(UsageError, match="none cannot be written"):
        TraceFile(tmp_path / "no" / "none", HEADER)


SOME = Discoveries(
    frozenset({(0x1000, 0x2000)}), frozenset({4, 8}), frozenset(), frozenset({(0x3000, 1)})
)


def test_they_are_read_as_they_were_written() -> None:
    assert read_discoveries(json.loads(json.dumps(discovery_fields(SOME)))) == SOME
    assert read_discoveries({}) == Discoveries()


@pytest.mark.parametrize(
    "given",
    [
        {"entries": [[1, 2]]},
        {"entries": ["x"]},
        {"entries": [-4]},
        {"entries": [1 << 64]},
        {"entries": 5},
        {"late_words": [[4]]},
        {"late_words": [[4, 1 << 32]]},
        {"indirect_targets": [[4, 8, 12]]},
        {"nonsense": []},
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read_discoveries(given)


CORPORA = ROOT / "tests" / "corpora"
IMPOSSIBLE_EVENT = TraceEvent(at=3, bits=5, block=0, crossed=(0, 1), depth=1, after=-1, waiting=-1)


@pytest.fixture(scope="module")
def recovered() -> ProgramGraphs:
    return recover(elf.load(CORPORA / "recovery" / "v9.elf"))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(CORPORA / "trace" / "seed-bits")


def test_a_good_trace_passes(trace: Trace, recovered: ProgramGraphs) -> None:
    check_numbers(trace, recovered)
    check_numbers(replace(trace, events=(IMPOSSIBLE_EVENT,)), recovered)


@pytest.mark.parametrize(
    "changes",
    [
        {"routines": {4000: {}}},
        {"routines": {0: {4000: (0, 1)}}},
        {"routines": {0: {0: (2, 1)}}},
        {"routines": {0: {0: (0, 33)}}},
        {"certain": 1 << 63},
        {"end": TraceEnd(1 << 63, 0, 0)},
        {"end": TraceEnd(0, 0, -1)},
        {"events": (replace(IMPOSSIBLE_EVENT, at=-1),)},
        {"events": (replace(IMPOSSIBLE_EVENT, block=4000),)},
        {"events": (replace(IMPOSSIBLE_EVENT, after=-2),)},
        {"events": (replace(IMPOSSIBLE_EVENT, waiting=1 << 70),)},
        {"events": (replace(IMPOSSIBLE_EVENT, crossed=(4000,)),)},
        {"events": (replace(IMPOSSIBLE_EVENT, crossed=(-1,)),)},
        {"events": (replace(IMPOSSIBLE_EVENT, depth=1 << 40),)},
    ],
)
def test_numbers_that_cannot_be_are_refused(
    trace: Trace, recovered: ProgramGraphs, changes: dict[str, object]
) -> None:
    with pytest.raises(ValueError):
        check_numbers(replace(trace, **changes), recovered)
