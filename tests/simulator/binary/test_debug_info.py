"""Debugging information within limits: what inflates, has no content, or is read repeatedly."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import debug_info, elf
from simprof.simulator.binary.debug_info import (
    check_sections,
    compiler_note,
    opened,
    read_debug_info,
    top_attributes,
)
from tests.conftest import ROOT

DWARF = ROOT / "tests" / "corpora" / "dwarf"


def section_place(data: bytes, name: str) -> tuple[int, int]:
    """Offsets of a section's header and of its content."""
    file = opened(data)
    number = file.get_section_index(name)
    assert number is not None
    return file["e_shoff"] + number * file["e_shentsize"], file.get_section(number)["sh_offset"]


def lines(data: bytes) -> int:
    return len(list(elf.parse(data, Path("x")).lines.stretches()))


def test_compressed_sections_are_read() -> None:
    data = (DWARF / "packed.elf").read_bytes()
    check_sections(opened(data))
    assert lines(data) == lines((DWARF / "dwarf5.elf").read_bytes()) > 20


def test_sections_that_say_to_inflate_without_end(tmp_path: Path) -> None:
    data = bytearray((DWARF / "packed.elf").read_bytes())
    _, content = section_place(bytes(data), ".debug_info")
    data[content + 8 : content + 16] = (1 << 40).to_bytes(8, "big")
    with pytest.raises(ValueError, match=r"\.debug_info inflates"):
        check_sections(opened(bytes(data)))
    assert lines(bytes(data)) == 0
    path = tmp_path / "x"
    path.write_bytes(data)
    assert compiler_note(path) == ""


def test_sections_without_content() -> None:
    data = bytearray((DWARF / "dwarf5.elf").read_bytes())
    header, _ = section_place(bytes(data), ".debug_str")
    data[header + 4 : header + 8] = (8).to_bytes(4, "big")  # SHT_NOBITS
    data[header + 32 : header + 40] = (1 << 50).to_bytes(8, "big")
    with pytest.raises(ValueError, match=r"\.debug_str has no content"):
        check_sections(opened(bytes(data)))
    assert lines(bytes(data)) == 0


def test_the_old_form_of_compression_is_measured_before_it_is_read() -> None:
    bomb = zlib.compress(bytes(1 << 26))
    size = debug_info._inflated_size(bomb, 1 << 22)
    assert 1 << 22 < size <= (1 << 22) + (1 << 20)
    assert debug_info._inflated_size(bomb, 1 << 30) == 1 << 26


@pytest.mark.toolchain
def test_the_old_form_of_compression_is_read(compile_c: Callable[..., Path]) -> None:
    routine = "struct s%d { int a; long b; char *c; } v%d;\nint f%d(int x)\n{ return x + v%d.a; }\n"
    source = "#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\n"
    source += "".join(routine % ((n,) * 4) for n in range(40))
    source += 'int main(void) { puts(getenv("X")); return f1(2) + f2(3); }\n'
    flags = ("-g", "-gdwarf-4")
    plain = compile_c(source, flags=flags).read_bytes()
    packed = compile_c(source, flags=(*flags, "-Wl,--compress-debug-sections=zlib-gnu"))
    assert b".zdebug_line" in packed.read_bytes()
    assert lines(packed.read_bytes()) == lines(plain) > 4


def test_tables_that_every_unit_reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two units whose entry has more attributes than the sections have room for."""
    dwarf = read_debug_info(opened((DWARF / "dwarf5.elf").read_bytes()))
    assert len(list(top_attributes(dwarf))) == 1
    monkeypatch.setattr(debug_info, "section_data", lambda dwarf, name: b"")
    with pytest.raises(ValueError, match="overlap"):
        list(top_attributes(dwarf))
