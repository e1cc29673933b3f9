"""Landing pads as the unwinding tables of compiled and of made-up programs tell them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.binary.landing_pads import landing_pads
from simprof.simulator.binary.program import Range, Segment
from tests.support.turns import turns

Compile = Callable[..., Path]

THROWING = """
#include <cstdio>
#include <string>
struct Guard { int *at; ~Guard() { ++*at; } };
static volatile int sink;
__attribute__((noinline)) int thrower(int x) { if (x > 2) throw x; return x; }
__attribute__((noinline)) int catcher(int x) {
    int count = 0;
    try { Guard guard{&count}; sink += thrower(x); } catch (int) { return -count; }
    return count;
}
int main() { return catcher(1) + catcher(3); }
"""

CODE, TABLE, AREA = 0x100000, 0x200000, 0x200400


def pads_of(program: Path) -> frozenset[int]:
    loaded = elf.load(program)
    (table,) = loaded.unwinding or (None,)
    return frozenset(landing_pads(table, loaded.segments, loaded.is64))


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("flags", "width"), turns([("-O2",), ("-O2", "-s"), ("-O0", "-fPIC")], ["v9", "v8plus"])
)
def test_pads_of_a_compiled_program(compile_c: Compile, width: str, flags: tuple[str, ...]) -> None:
    """The catcher has one, for its guard and its handler, and others are the library's."""
    program = compile_c(THROWING, flags, width=width, language="c++")
    loaded = elf.load(program)
    pads = pads_of(program)
    assert len(pads) > 10, "the library's own, too"
    assert all(any(pad in span for span in loaded.code) and pad % 4 == 0 for pad in pads)
    if "-s" not in flags:
        (catcher,) = [s for s in loaded.symbols if re.fullmatch("_Z7catcheri", s.name)]
        own = [p for p in pads if catcher.address <= p < catcher.address + catcher.size]
        parts = [s for s in loaded.symbols if s.name == "_Z7catcheri.cold"]
        own += [p for s in parts for p in pads if s.address <= p < s.address + s.size]
        assert len(own) == 1 if "-O0" not in flags else len(own) >= 1


@pytest.mark.toolchain
def test_a_program_without_sections_has_no_table(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(THROWING, ("-O2", "-s"), language="c++")
    bare = tmp_path / "bare.elf"
    data = bytearray(program.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    bare.write_bytes(data)
    assert elf.load(bare).unwinding == ()
    assert not pads_of(bare)


def number(value: int, size: int) -> bytes:
    return (value & (1 << 8 * size) - 1).to_bytes(size, "big")


def entry(body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return number(len(body), 4) + body


def common(area_encoding: int = 0x1B, letters: bytes = b"zLR") -> bytes:
    head = number(0, 4) + b"\1" + letters + b"\0" + b"\4\x7c\x0f"
    return entry(head + b"\2" + bytes([area_encoding]) + b"\x1b")


def described(before: bytes, area: int = AREA) -> bytes:
    """A routine at CODE, whose common entry is the first of the table."""
    place = TABLE + len(before) + 4
    pointers = number(CODE - place - 4, 4) + number(0x80, 4)
    return entry(number(place - TABLE, 4) + pointers + b"\4" + number(area - place - 13, 4))


def area(*pads: int) -> bytes:
    """Call sites with landing pads at these distances; 0: none."""
    sites = b"".join(bytes([4 * n, 4, pad, 0]) for n, pad in enumerate(pads))
    return b"\xff\xff\1" + bytes([len(sites)]) + sites


def found(table: bytes, areas: bytes, *, size: int | None = None) -> frozenset[int]:
    data = table.ljust(AREA - TABLE, b"\0") + areas
    segment = Segment(TABLE, data, len(data), True, False, False)
    end = TABLE + (len(table) if size is None else size)
    return frozenset(landing_pads(Range(TABLE, end), [segment], True))


def test_call_sites_have_pads_or_none() -> None:
    table = common()
    table += described(table)
    assert found(table, area(0x20, 0, 0x40)) == {CODE + 0x20, CODE + 0x40}
    assert not found(table, area())


def test_a_terminator_does_not_end_the_table() -> None:
    """Each part that is linked ends with one."""
    table = common() + number(0, 4)
    table += described(table)
    assert found(table, area(0x20)) == {CODE + 0x20}


def test_routines_without_an_area_have_no_pads() -> None:
    table = common(area_encoding=0xFF)
    table += described(table)
    assert not found(table, area(0x20))


def test_what_precedes_damage_counts() -> None:
    table = common()
    table += described(table)
    sound = {CODE + 0x20}
    assert found(table + number(0x7FFFFFFF, 4) + b"\1", area(0x20)) == sound
    stranger = entry(number(0x12345, 4) + bytes(16))
    assert found(table + stranger, area(0x20)) == sound
    assert found(table + described(table, area=0x900000), area(0x20)) == sound
    assert found(table, area(0x20, 0x40)[:-1]) == sound, "the last call site is cut off"
    assert not found(table, area(0x20), size=10)
    assert not landing_pads(None, [], True)


@pytest.mark.toolchain
def test_pads_are_those_that_readelf_shows_code_for(compile_c: Compile) -> None:
    """Every routine with pads is one that the unwinding table describes."""
    program = compile_c(THROWING, ("-O2",), language="c++")
    shown = subprocess.run(
        ["readelf", "--debug-dump=frames", program], capture_output=True, text=True, check=True
    ).stdout
    spans = [
        (int(low, 16), int(high, 16))
        for low, high in re.findall(r"pc=([0-9a-f]+)\.\.([0-9a-f]+)", shown)
    ]
    assert all(any(low <= pad < high for low, high in spans) for pad in pads_of(program))
