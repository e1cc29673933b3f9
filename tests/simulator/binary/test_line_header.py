"""Headers of line programs: made by hand, of all versions, and damaged."""

from __future__ import annotations

import pytest

from simprof.simulator.binary.line_header import LONGEST_NAME, FileEntry, Names, read_header
from simprof.simulator.binary.line_program import Encoding

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
    found = read_header(lines, 4, Names(NAMES))
    assert found.version == version
    assert found.directories == (b"/src", b"/usr")
    assert found.files == (FileEntry(b"a.c", 1), FileEntry(b"b.h", 2))
    assert found.encoding == Encoding(-5, 14, 4, (0, 1, 1))
    assert lines[found.start : found.end] == PROGRAM


@pytest.mark.parametrize("wide", [False, True])
def test_tables_of_version_5(wide: bool) -> None:
    tables = NEW
    if wide:
        tables = NEW[:4] + bytes(8) + bytes(7) + b"\5" + NEW[12:]
    lines = header(5, tables, wide=wide)
    found = read_header(lines, 0, Names(NAMES))
    assert found.directories == (b"/src", b"a.c")
    assert found.files == (FileEntry(b"b.h", 1),)
    assert lines[found.start : found.end] == PROGRAM


def test_a_program_ends_where_the_section_does() -> None:
    lines = header(4, OLD, length=1 << 31)
    assert read_header(lines, 0, Names(NAMES)).end == len(lines)


MANY = b"\x80\x80\x80\x80\x80\x80\x80\x80\x10"  # 2^60
DAMAGED = {
    "version": header(6, OLD),
    "entries of no bytes": header(5, b"\0" + MANY + b"\0\0"),
    "more entries than bytes": header(5, b"\x01\x01\x0b" + MANY),
    "unknown form": header(5, b"\x01\x01\x19\x01"),
    "string elsewhere": header(5, b"\x01\x01\x1f\x01" + b"\0\1\0\0"),
    "no form of strings at all": header(5, b"\x01\x01\x0e\x01" + b"\0\0\0\0"),
    "name without end": header(4, b"a" * (LONGEST_NAME + 10) + b"\0\0\0"),
    "cut": header(4, OLD)[:9],
}


@pytest.mark.parametrize("why", DAMAGED)
def test_damage_is_an_error_at_once(why: str) -> None:
    with pytest.raises((ValueError, IndexError, KeyError)):
        read_header(DAMAGED[why], 0, Names(NAMES))


def test_names_that_are_ends_of_one_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simprof.simulator.binary.line_header.MOST_NAMES", 5000)
    names = Names({0x1F: b"n" * 4000 + b"\0"})
    assert len(names.at(0x1F, 0)) == 4000
    assert names.at(0x1F, 0) is names.at(0x1F, 0)
    assert len(names.at(0x1F, 3000)) == 1000
    with pytest.raises(ValueError, match="too many names"):
        names.at(0x1F, 1)
