"""Traces of real programs: written while they run, regenerated, cut, damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.graphs.cfg import EXIT, VertexName
from simprof.profiler.trace import regeneration_kernel
from simprof.profiler.trace.calls import Exit
from simprof.profiler.trace.format import (
    CHECKPOINT_SPAN,
    HEAD,
    TAIL,
    frame,
    parse,
)
from simprof.profiler.trace.regeneration import regenerate
from simprof.simulator.binary import elf
from simprof.simulator.errors import SimulatorError, UsageError
from tests.oracles.qemu import trace as qemu_trace
from tests.support.cli_run import simprof
from tests.support.regenerate import Traced, record
from tests.support.turns import first, turns

Find = Callable[..., Path]
MODES = ("witness", "bits", "bytes", "block-trace")


def check_whole(traced: Traced) -> list[int]:
    """The trace gives the whole execution; return its blocks."""
    measurement = traced.measurement
    blocks, result = traced.follow()
    assert result.problem is None
    assert result.crossings == measurement.counts["transfers"]
    assert result.blocks == len(blocks) == measurement.counts["blocks"]
    assert result.bits == measurement.sizes.get("trace_bits", 0)
    counted = np.bincount(blocks, minlength=traced.recovered.block_count)
    expected = executions(traced)
    assert counted.tolist() == expected
    return blocks


def executions(traced: Traced) -> list[int]:
    """Executions by global block number, from the measurement's edge counts."""
    places: dict[tuple[int, VertexName], int] = {}
    for number, cfg in enumerate(traced.recovered.routines):
        first = int(traced.recovered.first_block[number])
        for block in range(len(cfg.blocks)):
            places[cfg.address, cfg.name_of(block)] = first + block
    counts = [0] * traced.recovered.block_count
    for routine in traced.measurement.routines:
        for edge in routine.edge_counts:
            if edge.target != EXIT:
                counts[places[routine.address, edge.target]] += edge.count
    return counts


PROGRAMS = [
    ("calls", "v9"),
    ("pointers", "v8"),
    ("tailcalls", "v9"),
    ("tailcalls", "v8plus"),
    ("switches", "v8"),
    ("nonlocal", "v9"),
    ("nonlocal", "v8"),
    ("signals", "v9"),
    ("signals", "v8plus"),
    ("faults", "v9"),
    ("control", "v8plus"),
    ("records", "v8"),
]


@pytest.mark.long
@pytest.mark.parametrize(("program", "mode"), turns(PROGRAMS, MODES, few=4))
def test_traces_give_the_whole_execution(
    fixture_elf: Find, tmp_path: Path, program: tuple[str, str], mode: str
) -> None:
    check_whole(record(fixture_elf(*program), mode, tmp_path))


@pytest.mark.long
def test_all_modes_give_the_same_blocks(fixture_elf: Find, tmp_path: Path) -> None:
    """Recursion (calls.c), longjmp, signal handlers on top of recursion."""
    for name in ("calls", "nonlocal", "signals"):
        first, *others = (check_whole(record(fixture_elf(name), m, tmp_path)) for m in MODES)
        assert all(other == first for other in others)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_runs_cut_by_a_budget(fixture_elf: Find, tmp_path: Path, mode: str) -> None:
    rng = random.Random(5)
    for name, length in (("signals", 50_000), ("calls", 100_000), ("nonlocal", 2_000)):
        for most in (1, rng.randrange(10, length)):
            traced = record(fixture_elf(name), mode, tmp_path, most)
            assert traced.measurement.ending.reason == "budget"
            check_whole(traced)


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize("mode", first(1, MODES))
def test_blocks_are_those_that_qemu_executes(fixture_elf: Find, tmp_path: Path, mode: str) -> None:
    """The instructions of the regenerated blocks, in order, are qemu's single steps."""
    for name, width in (("switches", "v9"), ("records", "v8"), ("words", "v9")):
        program = fixture_elf(name, width)
        traced = record(program, mode, tmp_path)
        blocks = check_whole(traced)
        sizes = {
            int(traced.recovered.first_block[number]) + block.id: block
            for number, cfg in enumerate(traced.recovered.routines)
            for block in cfg.blocks
        }
        words = [range(sizes[b].start, sizes[b].end, 4) for b in blocks]
        found = np.array([address for block in words for address in block])
        expected = qemu_trace(program).pc
        # The run may end within its last block.
        assert len(found) - len(expected) < sizes[blocks[-1]].instructions
        assert np.array_equal(found[: len(expected)], expected)


@pytest.mark.long
@pytest.mark.toolchain
def test_library_code(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    """C++ exceptions; the start of the C library, and stubs that it patches."""
    source = Path(__file__).parents[1] / "programs" / "exact" / "exceptions.cc"
    program = compile_c(source, width="v9", language="c++")
    check_whole(record(program, "witness", tmp_path))


# Cut and damaged traces


def positions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of every frame."""
    at = data.index(b"\n", data.index(b"\n") + 1) + 1
    while at < len(data):
        end = at + HEAD + TAIL + int.from_bytes(data[at + 1 : at + 5], "big")
        yield data[at : at + 1].decode(), at, end
        at = end


@pytest.mark.parametrize(("name", "mode"), turns(["calls", "nonlocal", "signals"], MODES, few=1))
def test_a_cut_trace_gives_a_beginning(
    fixture_elf: Find, tmp_path: Path, name: str, mode: str
) -> None:
    traced = record(fixture_elf(name), mode, tmp_path)
    whole = check_whole(traced)
    data = traced.path.read_bytes()
    rng = random.Random(1)
    cuts: set[int] = set()
    frames = list(positions(data))
    for kind, start, end in rng.sample(frames, min(25, len(frames))) + frames[-3:]:
        cuts |= {start, start + 1, start + 5, end - 1, end} if kind != "R" else {start, end}
    cuts |= {rng.randrange(frames[0][1], len(data)) for _ in range(20)}
    lengths = set()
    for cut in sorted(cuts - {len(data)}):
        blocks, result = traced.follow(data[:cut])
        assert result.problem is not None
        assert str(cut) in result.problem
        assert blocks == whole[: len(blocks)], f"cut at {cut}"
        lengths.add(len(blocks))
    assert len(lengths) > 3 or name == "calls"


@pytest.mark.long
def test_every_cut_of_a_short_trace(fixture_elf: Find, tmp_path: Path) -> None:
    traced = record(fixture_elf("words", "v8"), "witness", tmp_path)
    whole = check_whole(traced)
    data = traced.path.read_bytes()
    header = next(positions(data))[1]
    for cut in range(0, header, 7):
        with pytest.raises(UsageError):
            parse(data[:cut], "trace")
    longest = 0
    for cut in range(header, len(data), 11):
        blocks, result = traced.follow(data[:cut])
        assert result.problem is not None
        assert blocks == whole[: len(blocks)]
        assert len(blocks) >= longest
        longest = len(blocks)
    assert longest > 0.5 * len(whole)


def changed_stream(data: bytes, rng: random.Random) -> bytes:
    """One bit of the token stream is another, and the checksums do not tell."""
    chunks = [(start, end) for kind, start, end in positions(data) if kind == "C"]
    start, end = max(chunks, key=lambda span: span[1] - span[0])
    changed = bytearray(data)
    at = rng.randrange(start + HEAD + 8, end - TAIL - 1)
    changed[at] ^= 1 << rng.randrange(8)
    changed[start:end] = frame(b"C", bytes(changed[start + HEAD : end - TAIL]))
    return bytes(changed)


@pytest.mark.parametrize("mode", first(1, MODES, at=2))
def test_a_changed_token_is_found(fixture_elf: Find, tmp_path: Path, mode: str) -> None:
    traced = record(fixture_elf("control"), mode, tmp_path)
    data = traced.path.read_bytes()
    whole = check_whole(traced)
    rng = random.Random(2)
    for _ in range(20):
        blocks, result = traced.follow(changed_stream(data, rng))
        assert result.problem is not None
        assert blocks != whole


def test_the_digest_tells_other_executions(fixture_elf: Find, tmp_path: Path) -> None:
    """Whether a digest is compared is `check`'s to say; where they differ is told."""
    traced = record(fixture_elf("deep"), "bits", tmp_path)
    data = traced.path.read_bytes()
    assert traced.measurement.counts["transfers"] > 3 * CHECKPOINT_SPAN
    _, start, end = [frame for frame in positions(data) if frame[0] == "K"][1]
    content = data[start + HEAD : start + HEAD + 8] + bytes(8)
    other = data[:start] + frame(b"K", content) + data[end:]
    _, result = traced.follow(other)
    first, second = CHECKPOINT_SPAN, 2 * CHECKPOINT_SPAN
    assert result.problem == f"differs from the execution between edge {first} and edge {second}"
    assert traced.follow(other, check=False)[1].problem is None


# The file


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a simprof trace"),
        (b"\x7fELF\n", "not a simprof trace"),
        (b"simprof-trace 99\n{}\n", "version 99"),
        (b"simprof-trace 1\n{", "cut in its header"),
        (b"simprof-trace 1\n[]\n", "cut in its header"),
        (b"simprof-trace 1\n{}\n", "cut in its header"),
    ],
)
def test_what_is_no_trace(data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(data, "file")


def test_bits_are_appended_and_read_back() -> None:
    memory = EngineMemory(np.zeros(kernels.COST_WORDS, np.int64), 4)
    memory.start_trace(64, CHECKPOINT_SPAN)
    rng = random.Random(3)
    pairs = []
    total = 0
    while total < 64 * 60:
        width = rng.choice([1, 2, 3, 8, 13, 16, 32])
        pairs.append((rng.choice([0, (1 << width) - 1, rng.getrandbits(width)]), width))
        total += width
        kernels.append_bits(memory.trace.ctypes.data, *pairs[-1])
    words = memory.trace[kernels.TRACE_HEADER :]
    stream = np.frombuffer(words.astype(">i8").tobytes(), np.uint8)
    at = 0
    for value, width in pairs:
        assert regeneration_kernel.read_bits(stream, at, width) == value
        at += width
    assert at == memory.trace[kernels.TRACE_BITS]


def test_no_two_pointers_share_a_clock_word() -> None:
    kinds = ("_POINTER", "_PART", "_CALLBACK")
    found = [word for name, word in vars(kernels).items() if name.endswith(kinds)]
    words = [word for word in found if isinstance(word, int)]
    assert len(set(words)) == len(words)
    assert max(words) < kernels.CLOCK_WORDS
    assert kernels.ROWS_POINTER + len(kernels.KernelState._fields) - 1 <= kernels.TRACE_POINTER


def test_the_kernels_agree() -> None:
    assert regeneration_kernel.DIGEST_FACTOR == kernels.DIGEST_FACTOR
    assert regeneration_kernel.CHECKPOINT_SPAN == CHECKPOINT_SPAN
    ways = (Exit.RETURN, Exit.ENTER, Exit.CALL, Exit.WRITTEN)
    same = regeneration_kernel
    assert list(map(int, ways)) == [same.RETURN, same.ENTER, same.CALL, same.TARGET]


# The command


def recorded(program: Path, path: Path, mode: str, *more: str) -> None:
    done = simprof("run", "--mode", mode, "--trace", path, *more, program)
    assert done.returncode == 0, done.stderr.decode()


def test_the_command(fixture_elf: Find, tmp_path: Path) -> None:
    program, trace, lines = fixture_elf("calls"), tmp_path / "t", tmp_path / "blocks"
    recorded(program, trace, "witness")
    done = simprof("read", trace, "--check", "-o", lines, "--json", tmp_path / "json")
    assert done.returncode == 0, done.stderr.decode()
    assert b"as executed" in done.stdout
    answer = json.loads((tmp_path / "json").read_text())
    assert answer["format"] == "simprof/read"
    assert answer["complete"] and answer["checked"] and answer["problem"] is None
    text = lines.read_text().splitlines()
    assert len(text) == answer["blocks"]
    assert text[0] == hex(elf.load(program).entry)


def test_a_cut_trace_exits_125(fixture_elf: Find, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    recorded(fixture_elf("calls"), trace, "bits")
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) - 100])
    done = simprof("read", trace, "--json", tmp_path / "json")
    assert done.returncode == 125
    line = done.stderr.decode()
    assert line.count("\n") == 1
    assert f"byte {len(whole) - 100}" in line
    assert "regenerated" in line
    assert json.loads((tmp_path / "json").read_text())["complete"] is False


@pytest.mark.long
def test_another_program_exits_125(fixture_elf: Find, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    recorded(fixture_elf("calls"), trace, "bits")
    done = simprof("read", trace, "--program", fixture_elf("loops"))
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    with pytest.raises(SimulatorError, match="not there"):
        regenerate(trace, tmp_path / "gone", check=False)


@pytest.mark.parametrize(
    "arguments", [("--mode", "pp"), ("--mode", "bits", "--routine", "main")], ids=str
)
def test_a_trace_that_cannot_be_written(
    fixture_elf: Find, tmp_path: Path, arguments: Sequence[str]
) -> None:
    done = simprof("run", *arguments, "--trace", tmp_path / "t", fixture_elf("calls"))
    assert done.returncode == 125
    assert b"--trace" in done.stderr
