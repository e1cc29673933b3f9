"""ELF files: what is read from good ones, and the one line that bad ones get."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Binding, MachineKind, Program, Range
from simprof.simulator.errors import ProgramFileError
from tests.conftest import ROOT
from tests.support.elf import BASE, program_header, tiny_elf
from tools.fuzzing.elf_mutation import crowd


def load(tmp_path: Path, data: bytes) -> Program:
    path = tmp_path / "program"
    path.write_bytes(data)
    return elf.load(path)


@pytest.mark.parametrize(
    ("machine", "kind"),
    [(43, MachineKind.SPARCV9), (18, MachineKind.SPARCV8PLUS), (2, MachineKind.SPARCV8)],
)
def test_a_program_without_sections(tmp_path: Path, machine: int, kind: MachineKind) -> None:
    program = load(tmp_path, tiny_elf(machine))
    assert program.machine is kind
    assert program.is64 == (machine == 43)
    assert program.entry == BASE + 0x200
    (segment,) = program.segments
    assert (segment.address, len(segment.data), segment.memory_size) == (BASE, 0x210, 0x1000)
    assert (segment.readable, segment.writable, segment.executable) == (True, False, True)
    head = 64 + 56 if machine == 43 else 52 + 32
    assert program.code == (Range(BASE + head, BASE + 0x210),)
    assert program.late_code == ()
    assert program.symbols == ()
    assert program.program_headers_address == BASE + (64 if machine == 43 else 52)
    assert program.stack_executable  # no PT_GNU_STACK
    assert program.lines.find(program.entry) is None


def test_writable_code_is_late_code(tmp_path: Path) -> None:
    program = load(tmp_path, tiny_elf(flags=7))
    assert program.code == ()
    assert [(span.start, span.end) for span in program.late_code] == [(BASE + 120, BASE + 0x210)]


def test_gnu_stack_decides_whether_the_stack_is_executable(tmp_path: Path) -> None:
    stack = program_header(True, 0x6474E551, 6, 0, 0, 0, 0)
    assert not load(tmp_path, tiny_elf(extra=(stack,))).stack_executable


def test_static_pie_is_moved(tmp_path: Path) -> None:
    dynamic = program_header(True, 2, 6, 0x1F0, BASE + 0x1F0, 16, 16)
    data = bytearray(tiny_elf(kind=3, extra=(dynamic,)))
    data[0x1F0:0x200] = struct.pack(">qQ", 0x6FFFFFFB, 0x08000000)
    program = load(tmp_path, bytes(data))
    assert program.load_bias == elf.PIE_BASE_64
    assert program.entry == elf.PIE_BASE_64 + BASE + 0x200
    assert program.segments[0].address == elf.PIE_BASE_64 + BASE


BAD = {
    "not an ELF": (b"#!/bin/sh\n", "not an ELF"),
    "empty": (b"", "not an ELF"),
    "x86-64": (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0" + bytes(60), "x86-64"),
    "big-endian other": (tiny_elf(21), "PowerPC 64"),
    "little-endian": (
        tiny_elf(order=1)[:18] + b"\x2b\0" + tiny_elf(order=1)[20:],
        "little-endian",
    ),
    "class": (tiny_elf(18)[:4] + b"\2" + tiny_elf(18)[5:], "contradicts"),
    "solaris": (tiny_elf()[:7] + b"\6" + tiny_elf()[8:], "Solaris"),
    "object": (tiny_elf(kind=1), "relocatable object"),
    "core": (tiny_elf(kind=4), "core dump"),
    "interpreter": (tiny_elf(extra=(program_header(True, 3, 4, 0, 0, 0, 0),)), '"-static"'),
    "shared": (tiny_elf(kind=3), "shared library"),
    "not executable": (tiny_elf(flags=6), "no executable segment"),
    "entry outside": (tiny_elf(entry=BASE + 0x4000), "outside its code"),
    "entry in zeros": (tiny_elf(entry=BASE + 0x800), "outside its code"),
    "entry behind": (tiny_elf(entry=BASE + len(tiny_elf())), "outside its code"),
    "entry misaligned": (tiny_elf(entry=BASE + 0x202), "misaligned"),
    "cut header": (tiny_elf()[:40], "truncated"),
    "cut program headers": (tiny_elf()[:80], "truncated"),
    "cut segment": (tiny_elf()[:0x208], "truncated"),
    "overlap": (
        tiny_elf(extra=(program_header(True, 1, 4, 0, BASE + 0x100, 8, 8),)),
        "overlap",
    ),
    "shrinks": (
        tiny_elf(extra=(program_header(True, 1, 4, 0, 0x900000, 8, 4),)),
        "larger in the file",
    ),
    "misplaced": (
        tiny_elf(extra=(program_header(True, 1, 4, 0, 0x900001, 8, 8),)),
        "misplaced segment",
    ),
    "far away": (
        tiny_elf(extra=(program_header(True, 1, 4, 0, 1 << 60, 8, 8),)),
        "impossible address",
    ),
    "spread": (
        tiny_elf(extra=(program_header(True, 1, 4, 0, 1 << 42, 8, 8),)),
        "spreads",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_line(tmp_path: Path, name: str) -> None:
    data, expected = BAD[name]
    with pytest.raises(ProgramFileError) as caught:
        load(tmp_path, data)
    message = str(caught.value)
    assert expected in message
    assert message.startswith(f"{tmp_path / 'program'}: ")
    assert "\n" not in message


def test_directories_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ProgramFileError, match="is a directory"):
        elf.load(tmp_path)
    with pytest.raises(ProgramFileError, match="no such file"):
        elf.load(tmp_path / "nowhere")
    with pytest.raises(ProgramFileError, match="not a regular file"):
        elf.load("/dev/null")
    with pytest.raises(ProgramFileError, match="cannot be read"):
        elf.load("a\0b")


def test_an_empty_segment_may_lie_beyond_the_end(tmp_path: Path) -> None:
    """As in a stripped program whose last segment is .bss alone."""
    empty = struct.pack(">IIQQQQQQ", 1, 6, 0x4000, 0x900000, 0, 0, 0x100, 8)
    program = load(tmp_path, tiny_elf(extra=(empty,)))
    assert [len(segment.data) for segment in program.segments] == [0x210, 0]
    assert program.segments[1].memory_size == 0x100


def try_load(path: Path, data: bytes) -> bool:
    """Whether the program loads; anything but ProgramFileError fails the test."""
    path.write_bytes(data)
    try:
        program = elf.load(path)
    except ProgramFileError:
        return False
    program.lines.find(program.entry)
    last = program.segments[-1]
    assert last.address + last.memory_size - program.segments[0].address <= 1 << 34
    return True


@pytest.mark.long
@pytest.mark.parametrize("machine", [43, 18])
def test_every_header_byte_flipped(tmp_path: Path, machine: int) -> None:
    """All bytes of the ELF and program headers, several values each."""
    data = tiny_elf(machine, extra=(program_header(machine == 43, 0x6474E551, 6, 0, 0, 0, 0),))
    head = (64 + 2 * 56) if machine == 43 else (52 + 2 * 32)
    outcomes = set()
    for position in range(head):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= change
            outcomes.add(try_load(tmp_path / "program", bytes(damaged)))
    assert outcomes == {True, False}


@pytest.mark.long
def test_flipped_bytes_in_a_linked_program(
    tmp_path: Path, fixture_elf: Callable[..., Path]
) -> None:
    """Section headers, symbols, strings and DWARF of a real program, sampled."""
    names = sorted(path.stem for path in fixture_elf("sieve").parent.glob("*.elf"))
    data = fixture_elf(names[0]).read_bytes()
    table = int.from_bytes(data[40:48], "big")
    chance = random.Random(1)
    positions = [chance.randrange(len(data)) for _ in range(60)]
    positions += [chance.randrange(table, len(data)) for _ in range(120)]
    start = time.monotonic()
    loaded = 0
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= chance.choice((0x01, 0x40, 0x80, 0xFF))
        loaded += try_load(tmp_path / "program", bytes(damaged))
    assert loaded > 0
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9, 0.999])
def test_truncated_programs(tmp_path: Path, fixture_elf: Callable[..., Path], part: float) -> None:
    data = fixture_elf("sieve").read_bytes()
    with pytest.raises(ProgramFileError, match="truncated"):
        load(tmp_path, data[: int(len(data) * part)])


SOURCE = """
#include <stdio.h>
static int helper(int n) { return n * 3; }
int main(int argc, char **argv) { (void)argv; printf("%d\\n", helper(argc)); return 0; }
"""


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_symbols_code_and_lines(compile_c: Callable[..., Path], width: str) -> None:
    program = elf.load(compile_c(SOURCE, flags=("-O0", "-g"), width=width))
    functions = {symbol.name: symbol for symbol in program.symbols if symbol.is_function}
    main = functions["main"]
    assert (main.binding, functions["helper"].binding) == (Binding.GLOBAL, Binding.LOCAL)
    assert main.size > 0
    assert any(main.address in span for span in program.code)
    assert any(program.entry in span for span in program.code)
    assert program.late_code  # .iplt
    line = program.lines.find(main.address)
    assert line is not None
    assert line.line == 4
    assert line.file.endswith(".c")
    assert "memcpy" in functions  # STT_GNU_IFUNC
    if width == "v8plus":
        thunks = [name for name in functions if "get_pc_thunk" in name]
        assert [functions[name].size for name in thunks] == [0] * len(thunks) != []


@pytest.mark.toolchain
def test_dynamic_programs_are_refused(compile_c: Callable[..., Path]) -> None:
    path = compile_c(SOURCE, static=False)
    with pytest.raises(ProgramFileError, match='dynamically linked; link with "-static"'):
        elf.load(path)


def overlapping(what: str) -> bytes:
    """Two hundred tables that are all the same bytes of a file."""
    count, size = 200, 0x1000
    head = struct.pack(
        ">16sHHIQQQIHHHHHH", b"\x7fELF\2\2\1", 2, 43, 1, BASE, 64, 64 + 56 * count, 0,
        64, 56, count, 64, count, 0,
    )  # fmt: skip
    start = 64 + 120 * count
    kind = 2 if what == "symbol tables" else 3
    kinds = {"segments": 1, "dynamic sections": 2}.get(what, 6)
    segments = [
        program_header(
            True, 1 if number == 0 else kinds, 5, start, BASE + number * size, size, size
        )
        for number in range(count)
    ]
    section = struct.pack(">IIQQQQIIQQ", 0, kind, 0, 0, start, size, 0, 0, 8, 24)
    return head + b"".join(segments) + section * count + bytes(size)


@pytest.mark.parametrize("what", ["segments", "dynamic sections", "symbol tables"])
def test_parts_that_overlap_without_end_are_refused(tmp_path: Path, what: str) -> None:
    with pytest.raises(ProgramFileError, match=f"has {what} larger than the file"):
        load(tmp_path, overlapping(what))


def test_names_that_are_ends_of_one_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (ROOT / "tests/corpora/elf/v9.elf").read_bytes()
    assert len(load(tmp_path, data).symbols) > 5
    monkeypatch.setattr(elf, "_MOST_NAMES", 20)
    with pytest.raises(ProgramFileError, match="strip it"):
        load(tmp_path, data)


@pytest.mark.long
def test_crowds_of_parts_take_no_more_time_than_their_number(tmp_path: Path) -> None:
    """Tens of thousands of segments, sections and symbols: nothing is quadratic."""
    refused = 0
    for seed in range(6):
        data = crowd(random.Random(seed))
        began = time.process_time()
        try:
            elf.parse(data, Path("crowd"))
        except ProgramFileError:
            refused += 1
        assert time.process_time() - began < 10
    assert refused < 6
