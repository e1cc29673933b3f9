"""Memory that is mapped and filled, and the counting of what code executes."""

from __future__ import annotations

import pytest

from simprof.profiler.code.counting import executed
from simprof.profiler.code.hash_routine import BUCKETS, TableLayout
from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_DATA, TABLES_BASE
from simprof.profiler.rewriting.elsewhere.parts import (
    BASE,
    Reference,
    StartMemory,
    Stream,
    WordRun,
    filled,
    mapped,
    resolve,
    text,
)
from simprof.profiler.schemes.cs6120.code import PAIR_TABLE
from simprof.profiler.schemes.tracing.flush import STREAM
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register

R = Register


def test_pages_are_mapped_once() -> None:
    memory = StartMemory(((ARRAYS_BASE + 8, 8), (PAIR_TABLE, 8), (ARRAYS_BASE + 8000, 300)))
    assert mapped(memory) == [
        (RUNTIME_DATA, 0x4000),
        (PAIR_TABLE, 0x2000),
        (ARRAYS_BASE, 0x4000),
    ]
    traced = StartMemory(memory.regions, trace=Stream(STREAM, packed=True))
    assert mapped(traced) == [(RUNTIME_DATA, 0xA000), (ARRAYS_BASE, 0x4000)]
    assert mapped(StartMemory(((TABLES_BASE, 0),))) == [(RUNTIME_DATA, 0x4000)]


def test_fills_are_runs_of_words() -> None:
    table = TableLayout(1).initial(TABLES_BASE)
    runs = filled(StartMemory((), ((TABLES_BASE, table), (ARRAYS_BASE, b"\0\0\0\1" * 3))))
    assert WordRun(TABLES_BASE + TableLayout().heads, TABLES_BASE, BUCKETS) in runs
    assert runs[-1] == WordRun(ARRAYS_BASE, 1, 3)
    assert len(runs) == 5
    memory = bytearray(len(table))
    for run in runs[:-1]:
        start = run.address - TABLES_BASE
        memory[start : start + 4 * run.count] = run.word.to_bytes(4, "big") * run.count
    assert memory == table


@pytest.mark.parametrize("fill", [(ARRAYS_BASE + 2, b"1234"), (ARRAYS_BASE, b"123")])
def test_a_fill_has_whole_words(fill: tuple[int, bytes]) -> None:
    with pytest.raises(ValueError, match="not made of words"):
        filled(StartMemory((), (fill,)))


def test_references_become_distances() -> None:
    parts = [Label("base"), Reference("far", R.O1), asm.nop(), *text("far", b"abcde")]
    items = resolve(parts, "base")
    assert [i.text for i in items if not isinstance(i, Label)][:3] == [
        "sethi %hi(0x0), %o1",
        "or %o1, 16, %o1",
        f"add {BASE.text}, %o1, %o1",
    ]
    assert [i.word for i in items if not isinstance(i, Label)][-2:] == [0x61626364, 0x65000000]


CODE: list[Item] = [
    Label("start"),
    asm.call("known"),
    asm.nop(),
    Label("known"),
    asm.call("leaf"),
    asm.nop(),
    Label("again"),
    asm.branch("ne", "again", annul=True),
    asm.nop(),
    asm.trap_always(0x6D),
    asm.branch("a", "elsewhere", annul=True),
    Label("leaf"),
    asm.branch("e", "out"),
    asm.nop(),
    asm.nop(),
    Label("out"),
    asm.retl(),
    asm.nop(),
]


def test_steps() -> None:
    assert executed(CODE, (True, False), "start") == 2 + 2 + 4 + 1 + 2
    assert executed(CODE, (False, True, True, False), "start") == 2 + 2 + 5 + 5 + 2
    assert executed(CODE, (True,), "leaf") == 4
    assert executed(CODE, (True,), "start", "again") == 8
    for outcomes in ((True,), (True, False, False)):
        with pytest.raises(ValueError, match="branches than outcomes"):
            executed(CODE, outcomes, "start")
