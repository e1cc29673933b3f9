"""Modules of dynamically linked programs as one program."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from simprof.simulator.binary import dynamic, elf
from simprof.simulator.binary.program import LineRows, LineTable, Module, Program, Range, SourceLine
from simprof.simulator.errors import ProgramFileError, UnsupportedError
from tests.conftest import COMPILERS

BASE = 0x40_1000_0000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return a program that calls a routine of the C library."""
    directory = tmp_path_factory.mktemp("dynamic")
    source = directory / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    path = directory / "hello"
    subprocess.run([COMPILERS["c"], "-m64", "-pie", str(source), "-o", str(path)], check=True)
    return dynamic.load_program(path)


@pytest.mark.toolchain
def test_stubs_have_symbols(program: Program) -> None:
    (stub,) = [symbol for symbol in program.symbols if symbol.name == "puts@plt"]
    assert stub.is_function and stub.size == 32
    assert any(stub.address in span for span in program.late_code)


@pytest.mark.toolchain
def test_a_linked_program_begins_with_its_interpreter(program: Program) -> None:
    own, interpreter = program.parts
    module = dynamic.module_at(interpreter.path, BASE)
    assert module is not None
    linked = dynamic.link(program, [module], [(own.late_code[0].start, (1, 2))])
    assert linked.entry == elf.load_part(interpreter.path, BASE).entry
    place = dynamic.module_of(linked, linked.entry)
    assert place is not None and place.name == "ld-linux.so.2"
    assert place.offset + linked.modules[0].bias == linked.entry
    assert dynamic.module_of(linked, own.entry) is None
    names = {symbol.name for symbol in linked.symbols}
    assert "main" in names and "ld-linux.so.2:plt0" in names and "plt0.unbound" in names
    assert linked.lines.find(linked.entry) is None
    with pytest.raises(UnsupportedError, match="is loaded where"):
        dynamic.link(program, [module, Module(BASE + 8192, module.file, module.sha256)])


@pytest.mark.toolchain
def test_a_changed_module_is_refused(program: Program) -> None:
    _, interpreter = program.parts
    other = Module(BASE, str(interpreter.path), hashlib.sha256(b"other").hexdigest())
    with pytest.raises(ProgramFileError, match="has changed"):
        dynamic.link(program, [other])
    assert dynamic.module_at(Path(__file__), BASE) is None


def test_modules_of_one_name_are_numbered() -> None:
    modules = [Module(1, "/a/x.so", ""), Module(2, "/b/y.so", ""), Module(3, "/c/x.so", "")]
    assert dynamic.module_names(modules) == ["x.so", "y.so", "x.so#2"]


def test_earlier_code_lies_behind_its_place() -> None:
    segments = dynamic.earlier_code([(0x1000, (1, 2)), (0x1000, (3,)), (0x2000, (4,))])
    assert [segment.address for segment in segments] == [
        0x1000 + dynamic.EARLIER, 0x2000 + dynamic.EARLIER, 0x1000 + 2 * dynamic.EARLIER,
    ]  # fmt: skip
    assert {dynamic.real_address(segment.address) for segment in segments} == {0x1000, 0x2000}
    assert segments[2].data == b"\0\0\0\3"


def test_lines_of_modules_are_found_in_the_table_of_each() -> None:
    asked: list[str] = []

    def rows(name: str, start: int) -> LineTable:
        def read() -> LineRows:
            asked.append(name)
            return LineRows((start,), (start + 8,), (0,), (7,), (name,))

        return LineTable(read)

    tables = [(Range(at, at + 64), rows(name, at)) for name, at in (("a.c", 256), ("b.c", 512))]
    lines = dynamic.ModuleLines(tables)
    assert not lines.is_empty and not asked  # no table is read for that
    assert lines.find(516) == SourceLine("b.c", 7)
    assert lines.find(600) is None and lines.find(300) is None
    assert asked == ["b.c", "a.c"]
    assert [line for _, line in lines.stretches()] == [SourceLine("a.c", 7), SourceLine("b.c", 7)]
    assert LineTable().is_empty and not tables[0][1].is_empty
