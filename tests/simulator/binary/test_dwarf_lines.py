"""Line tables: headers made by hand and damaged; programs, opcode by opcode and by pyelftools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from simprof.simulator.binary import dwarf_lines

LINE_STRINGS = b"/src\0a.c\0"
NAMES = {0x1F: LINE_STRINGS}
PROGRAM = b"\x01\x01"


def header(version: int, tables: bytes, *, wide: bool = False, length: int | None = None) -> bytes:
    """A header with line base -5, line range 14, and three standard opcodes; then `PROGRAM`."""
    size = 8 if wide else 4
    sizes = b"\x08\0" if version == 5 else b""
    operations = b"\x01" if version >= 4 else b""
    rest = b"\x04" + operations + b"\x01\xfb\x0e\x04" + b"\x00\x01\x01" + tables
    body = version.to_bytes(2, "big") + sizes + len(rest).to_bytes(size, "big") + rest + PROGRAM
    given = len(body) if length is None else length
    return (b"\xff" * 4 if wide else b"") + given.to_bytes(size, "big") + body


OLD = b"/src\0/usr\0\0" + b"a.c\0\x01\x00\x00" + b"b.h\0\x02\x07\x7f" + b"\0"
NEW = b"\x01\x01\x1f\x02" + b"\0\0\0\0" + b"\0\0\0\5" + b"\x02\x01\x08\x02\x0b\x01" + b"b.h\0\x01"


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
def test_tables_of_old_versions(version: int, wide: bool) -> None:
    lines = b"junk" + header(version, OLD, wide=wide) + b"junk"
    found = dwarf_lines.read_header(lines, 4, dwarf_lines.Names(NAMES))
    assert found.version == version
    assert found.directories == (b"/src", b"/usr")
    assert found.files == (dwarf_lines.FileEntry(b"a.c", 1), dwarf_lines.FileEntry(b"b.h", 2))
    assert found.encoding == dwarf_lines.Encoding(-5, 14, 4, (0, 1, 1))
    assert lines[found.start : found.end] == PROGRAM


@pytest.mark.parametrize("wide", [False, True])
def test_tables_of_version_5(wide: bool) -> None:
    tables = NEW
    if wide:
        tables = NEW[:4] + bytes(8) + bytes(7) + b"\5" + NEW[12:]
    lines = header(5, tables, wide=wide)
    found = dwarf_lines.read_header(lines, 0, dwarf_lines.Names(NAMES))
    assert found.directories == (b"/src", b"a.c")
    assert found.files == (dwarf_lines.FileEntry(b"b.h", 1),)
    assert lines[found.start : found.end] == PROGRAM


def test_a_program_ends_where_the_section_does() -> None:
    lines = header(4, OLD, length=1 << 31)
    assert dwarf_lines.read_header(lines, 0, dwarf_lines.Names(NAMES)).end == len(lines)


MANY = b"\x80\x80\x80\x80\x80\x80\x80\x80\x10"  # 2^60
DAMAGED = {
    "version": header(6, OLD),
    "entries of no bytes": header(5, b"\0" + MANY + b"\0\0"),
    "more entries than bytes": header(5, b"\x01\x01\x0b" + MANY),
    "unknown form": header(5, b"\x01\x01\x19\x01"),
    "string elsewhere": header(5, b"\x01\x01\x1f\x01" + b"\0\1\0\0"),
    "no form of strings at all": header(5, b"\x01\x01\x0e\x01" + b"\0\0\0\0"),
    "name without end": header(4, b"a" * (dwarf_lines.LONGEST_NAME + 10) + b"\0\0\0"),
    "cut": header(4, OLD)[:9],
}


@pytest.mark.parametrize("why", DAMAGED)
def test_damage_is_an_error_at_once(why: str) -> None:
    with pytest.raises((ValueError, IndexError, KeyError)):
        dwarf_lines.read_header(DAMAGED[why], 0, dwarf_lines.Names(NAMES))


def test_names_that_are_ends_of_one_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simprof.simulator.binary.dwarf_lines.MOST_NAME_BYTES", 5000)
    names = dwarf_lines.Names({0x1F: b"n" * 4000 + b"\0"})
    assert len(names.at(0x1F, 0)) == 4000
    assert names.at(0x1F, 0) is names.at(0x1F, 0)
    assert len(names.at(0x1F, 3000)) == 1000
    with pytest.raises(ValueError, match="too many names"):
        names.at(0x1F, 1)


ENCODING = dwarf_lines.Encoding(
    line_base=-5, line_range=14, instruction=4, operands=(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
)
SET_ADDRESS = b"\0\x05\x02\0\x01\0\0"
END = b"\0\x01\x01"


def special(advance: int, line: int) -> bytes:
    return bytes([ENCODING.opcode_base + advance * ENCODING.line_range + line - ENCODING.line_base])


def decode(code: bytes) -> list[tuple[int, int, int, bool]]:
    return [
        (row.address, row.file, row.line, row.ends) for row in dwarf_lines.line_rows(code, ENCODING)
    ]


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
    found: list[dwarf_lines.LineRow] = []
    try:
        for row in dwarf_lines.line_rows(SET_ADDRESS + special(0, 1) + tail, ENCODING):
            found.append(row)
    except (IndexError, ValueError):
        pass
    assert found == [dwarf_lines.LineRow(0x10000, 1, 2, False)]


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
            encoding = dwarf_lines.Encoding(
                header.line_base,
                header.line_range,
                header.minimum_instruction_length,
                header.standard_opcode_lengths,
            )
            start, end = line.program_start_offset, line.program_end_offset
            line.stream.seek(start)
            found = [
                (row.address, row.file, row.line, row.ends)
                for row in dwarf_lines.line_rows(line.stream.read(end - start), encoding)
            ]
            states = [entry.state for entry in line.get_entries() if entry.state is not None]
            assert found == [(s.address, s.file, s.line, bool(s.end_sequence)) for s in states]
            compared += len(found)
    assert compared > 10
