"""Line programs, opcode by opcode, and a compiler's against pyelftools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from simprof.simulator.binary.line_program import Encoding, Row, rows

ENCODING = Encoding(
    line_base=-5, line_range=14, instruction=4, operands=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
)
SET_ADDRESS = b"\0\x05\x02\0\x01\0\0"
END = b"\0\x01\x01"


def special(advance: int, line: int) -> bytes:
    return bytes([ENCODING.opcode_base + advance * ENCODING.line_range + line - ENCODING.line_base])


def decode(code: bytes) -> list[tuple[int, int, int, bool]]:
    return [(row.address, row.file, row.line, row.ends) for row in rows(code, ENCODING)]


def test_special_opcodes_advance_address_and_line() -> None:
    code = SET_ADDRESS + special(0, 4) + special(3, -2) + END
    assert decode(code) == [(0x10000, 1, 5, False), (0x1000C, 1, 3, False), (0x1000C, 1, 3, True)]


@pytest.mark.parametrize(
    ("opcodes", "row"),
    [
        (b"\x02\x81\x01", (0x10000 + 4 * 129, 1, 1)),  # advance the address, two bytes of LEB128
        (b"\x03\x7f", (0x10000, 1, 0)),  # advance the line by -1
        (b"\x03\xc0\x00", (0x10000, 1, 65)),
        (b"\x04\x03", (0x10000, 3, 1)),  # another file
        (b"\x05\x07\x06\x07\x0a\x0b\x0c\x01", (0x10000, 1, 1)),  # column, statement, block, ...
        (b"\x08", (0x10000 + 4 * (242 // 14), 1, 1)),  # as special opcode 255, without a row
        (b"\x09\x01\x02", (0x10102, 1, 1)),  # fixed advance, two bytes
        (b"\0\x02\x04\x05", (0x10000, 1, 1)),  # discriminator
        (b"\0\x04\x80abc", (0x10000, 1, 1)),  # a vendor's: skipped by its length
    ],
)
def test_opcodes(opcodes: bytes, row: tuple[int, int, int]) -> None:
    assert decode(SET_ADDRESS + opcodes + b"\x01" + END)[0] == (*row, False)


def test_sequences_begin_afresh() -> None:
    code = SET_ADDRESS + b"\x04\x02" + special(1, 3) + END + special(0, 1) + END
    assert decode(code)[2:] == [(0, 1, 2, False), (0, 1, 2, True)]


@pytest.mark.parametrize("tail", [b"\x02", b"\x03" + b"\x80" * 1000, b"\0", b"\x09"])
def test_rows_before_damage_are_kept(tail: bytes) -> None:
    found: list[Row] = []
    try:
        for row in rows(SET_ADDRESS + special(0, 1) + tail, ENCODING):
            found.append(row)
    except (IndexError, ValueError):
        pass
    assert found == [Row(0x10000, 1, 2, False)]


@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_a_compilers_programs_decode_as_pyelftools_decodes_them(
    compile_c: Callable[..., Path], width: str
) -> None:
    source = '#include <stdio.h>\nint f(int x)\n{ for (int i = 0; i < x; i++) puts("x");\n' + (
        "  return x;\n}\n\n\nint main(void) { return f(3) + f(4); }\n"
    )
    program = compile_c(source, flags=("-O2", "-g"), width=width)
    with program.open("rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info()
        compared = 0
        for unit in dwarf.iter_CUs():
            line = dwarf.line_program_for_CU(unit)
            assert line is not None
            header = line.header
            encoding = Encoding(
                header.line_base,
                header.line_range,
                header.minimum_instruction_length,
                header.standard_opcode_lengths,
            )
            start, end = line.program_start_offset, line.program_end_offset
            line.stream.seek(start)
            found = [
                (row.address, row.file, row.line, row.ends)
                for row in rows(line.stream.read(end - start), encoding)
            ]
            states = [entry.state for entry in line.get_entries() if entry.state is not None]
            assert found == [(s.address, s.file, s.line, bool(s.end_sequence)) for s in states]
            compared += len(found)
    assert compared > 10
