"""Raw traces: their last byte, compared with simprof's own, and made into trace files.

There is no instrumented program here: the tokens are those of a simulated run, without anything
else that its trace file has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.engine.walk import UNKNOWN, GraphIndex
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.request import SchemeOptions
from simprof.profiler.rewriting.elsewhere.reading import (
    TokenStream,
    stream_difference,
    token_stream,
    write_trace,
)
from simprof.profiler.schemes.registry import definition, make_plan
from simprof.profiler.trace.format import Tokens, Trace, TraceEnd, TraceHeader, load
from simprof.profiler.trace.regeneration import Regenerator, regenerate
from simprof.simulator.errors import UsageError
from tests.support.regenerate import Traced, record
from tests.support.turns import first

Find = Callable[..., Path]
MODES = ("witness", "bits", "bytes", "block-trace")
WIDTHS = ("v9", "v8plus", "v8")
PROGRAMS = ("calls", "control", "pointers", "switches", "tailcalls", "words")


@pytest.mark.parametrize(
    ("raw", "position", "stream", "bits"),
    [
        (b"", 0, b"", 0),
        (b"\xa5\x0f", 0, b"\xa5\x0f", 16),
        (b"\xa5\x05", -65536 + 11, b"\xa5\xa0", 11),  # 101 are the low bits of the last byte
        (b"\xa5\xf5", 3, b"\xa5\xa0", 11),  # above them is what has been shifted out
        (b"\x01", 2**32 - 65536 + 1, b"\x80", 1),
        (b"\x7f", 7, b"\xfe", 7),
    ],
)
def test_bits_of_the_last_byte_go_to_their_places(
    raw: bytes, position: int, stream: bytes, bits: int
) -> None:
    assert token_stream(raw, position, packed=True) == TokenStream(stream, bits)


def test_bytes_are_whole_wherever_the_buffer_is() -> None:
    assert token_stream(b"\xa5\x05", 3, packed=False) == TokenStream(b"\xa5\x05", 16)


def test_a_trace_without_its_last_byte() -> None:
    with pytest.raises(UsageError, match=r"^the trace lacks its last byte"):
        token_stream(b"", 3, packed=True)


def trace_of(stream: bytes, bits: int) -> Trace:
    header = TraceHeader("program", "", "sparcv9", (), "bits", {})
    return Trace(header, {}, stream, 0, {}, (), TraceEnd(0, 0, bits), None)


@pytest.mark.parametrize(
    ("stream", "bits", "line"),
    [
        (b"\xa5\xa0", 11, None),
        (b"\xa4\xa0", 11, "the trace differs at bit 7 of 11"),
        (b"\xa5\x80", 11, "the trace differs at bit 10 of 11"),
        (b"\xa5\xa0", 12, "the trace has 12 bits, not 11"),
        (b"\xa5", 8, "the trace has 8 bits, not 11"),
        (b"", 0, "the trace has 0 bits, not 11"),
        (b"\xa5\xa0\xff", 24, "the trace has 24 bits, not 11"),
    ],
)
def test_the_first_difference_is_named(stream: bytes, bits: int, line: str | None) -> None:
    assert stream_difference(trace_of(b"\xa5\xa0", 11), TokenStream(stream, bits)) == line


# Trace files


def tokens_of(recovered: ProgramGraphs, mode: str) -> dict[int, Tokens]:
    """What the edges of all routines write."""
    tokens: dict[int, Tokens] = {}
    for number, cfg in enumerate(recovered.routines):
        writer = definition(mode).trace_writer(make_plan(cfg, mode, SchemeOptions()))
        assert writer is not None
        tokens[number] = {edge: (t.value, t.width) for edge, t in writer.tokens.items()}
    return tokens


def raw_of(trace: Trace, mode: str) -> TokenStream:
    """What an instrumented program would have written, read."""
    assert trace.end is not None
    used = trace.end.bits % 8
    raw = trace.stream
    if used:
        raw = raw[:-1] + bytes([0x100 - (1 << used) & 0xFF | raw[-1] >> 8 - used])
    return token_stream(raw, trace.end.bits, packed=mode == "bits")


def end_block(trace: Trace) -> int:
    """The block that the program ended in."""
    (event,) = trace.events
    return event.block


def made(run: Traced, mode: str, path: Path, **changed: object) -> tuple[str | None, Trace, Trace]:
    """Make a trace file of the tokens of a run; return the problem, and both traces."""
    ours = load(run.path)
    known: dict[str, object] = {"stream": raw_of(ours, mode), "end_block": end_block(ours)}
    known |= changed
    tokens = tokens_of(run.recovered, mode)
    problem = write_trace(
        path,
        ours.header,
        tokens,
        known["stream"],  # type: ignore[arg-type]
        run.recovered,
        known["end_block"],  # type: ignore[arg-type]
    )
    return problem, ours, load(path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "mode", "width"),
    first(3, [(*pair, width) for pair, width in zip(product(PROGRAMS, MODES), cycle(WIDTHS))]),
)
def test_a_trace_file_of_tokens_leads_to_the_whole_execution(
    name: str, mode: str, width: str, fixture_elf: Find, tmp_path: Path
) -> None:
    run = record(fixture_elf(name, width), mode, tmp_path)
    problem, ours, theirs = made(run, mode, tmp_path / "made")
    assert problem is None
    assert stream_difference(ours, raw_of(ours, mode)) is None
    assert (theirs.events, theirs.end, theirs.stream) == (ours.events, ours.end, ours.stream)
    done = regenerate(tmp_path / "made", None, check=True)
    blocks: list[int] = []
    again = Regenerator(
        theirs, run.recovered, check=True, sink=lambda more: blocks.extend(more.tolist())
    )
    again.run()
    assert done.complete and blocks == run.follow()[0]


@pytest.mark.parametrize("mode", first(2, MODES, at=2))
def test_without_the_last_block_the_tokens_lead_as_far_as_they_do(
    mode: str, fixture_elf: Find, tmp_path: Path
) -> None:
    run = record(fixture_elf("words"), mode, tmp_path)
    problem, ours, theirs = made(run, mode, tmp_path / "made", end_block=None)
    assert problem == "the block is not known that the program ended in"
    assert theirs.end is None and theirs.cut is not None
    done = regenerate(tmp_path / "made", None, check=False)
    assert not done.complete
    assert ours.end is not None
    assert done.result.bits == ours.end.bits
    assert 0 < done.result.crossings <= ours.end.crossings


@pytest.mark.parametrize("mode", first(2, MODES))
def test_tokens_that_do_not_lead_to_the_end(mode: str, fixture_elf: Find, tmp_path: Path) -> None:
    run = record(fixture_elf("words"), mode, tmp_path)
    ours = load(run.path)
    first = GraphIndex(run.recovered).block_at(run.recovered.program.entry)
    assert first != UNKNOWN
    problem, _, theirs = made(run, mode, tmp_path / "made", end_block=first)
    assert problem is not None and theirs.end is None
    half = TokenStream(ours.stream[: len(ours.stream) // 2], 8 * (len(ours.stream) // 2))
    problem, _, theirs = made(run, mode, tmp_path / "made", stream=half)
    assert problem is not None and theirs.end is None
    spoiled = replace(raw_of(ours, mode), stream=bytes(len(ours.stream)))
    problem, _, theirs = made(run, mode, tmp_path / "made", stream=spoiled)
    assert problem is not None and theirs.end is None
