"""Synthetic programs of any size: ELF files of many routines, written without a compiler.

A program is a chain: its entry calls the first routine, each routine calls the next one as long as
its argument, one less each time, is above 0. Routines are `SIZE` bytes each; the bodies, a loop
over branches, are a few in turn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from simprof.profiler.profiles.output import write_atomically
from simprof.simulator.isa.assembler import (
    Item,
    Label,
    Register,
    arithmetic,
    assemble,
    branch,
    call,
    mov,
    nop,
    restore,
    ret,
    retl,
    trap_always,
)

SIZE = 1024
"""Bytes of a routine: the rest is padding."""
DIAMONDS = (2, 5, 9, 14, 20, 26)
"""How many branches the bodies have, in turn."""
ROUNDS = 3
"""Turns of a routine's loop."""
EXECUTED = 1000
"""Routines that a run enters, at most."""

_BASE, _HEADERS = 0x100000, 0x1000
_MACHINE, _EXIT, _SYSTEM_CALL = 43, 1, 0x6D  # EM_SPARCV9; Linux's exit, and its trap
_L0, _L1, _G0 = Register.L0, Register.L1, Register.G0


def write(path: Path, routines: int) -> None:
    """Write a program of so many routines."""
    text = _entry(min(routines, EXECUTED)) + _bodies(routines)
    write_atomically(path, _elf(text, routines))
    path.chmod(0o755)


def _padded(items: list[Item], base: int, following: int) -> bytes:
    code = assemble(items, base, {"next": following}).code
    filler = assemble([nop()], base).code * (SIZE // 4)
    assert len(code) <= SIZE
    return code + filler[: SIZE - len(code)]


def _entry(depth: int) -> bytes:
    """Return the code that the program starts with."""
    items: list[Item] = [
        mov(depth, Register.O0),
        call("next"),
        nop(),
        mov(0, Register.O0),
        mov(_EXIT, Register.G1),
        trap_always(_SYSTEM_CALL),
        nop(),
    ]
    return _padded(items, 0, SIZE)


def _body(diamonds: int) -> Iterator[Item]:
    """Yield a routine; it and the next one are anywhere, `SIZE` bytes apart."""
    yield arithmetic("save", Register.SP, -176, Register.SP)
    yield mov(ROUNDS, _L0)
    yield mov(Register.I0, _L1)
    yield Label("loop")
    for number in range(diamonds):
        yield arithmetic("andcc", _L1, 1 << number % 8, _G0)
        yield branch("e", f"else{number}")
        yield arithmetic("add", _L1, 3, _L1)
        yield branch("a", f"end{number}")
        yield arithmetic("add", _L1, 7, _L1)
        yield Label(f"else{number}")
        yield arithmetic("xor", _L1, 5, _L1)
        yield Label(f"end{number}")
    yield arithmetic("subcc", _L0, 1, _L0)
    yield branch("g", "loop")
    yield nop()
    yield arithmetic("subcc", Register.I0, 1, Register.O0)
    yield branch("le", "out")
    yield nop()
    yield call("next")
    yield nop()
    yield Label("out")
    yield ret()
    yield restore()


def _bodies(routines: int) -> bytes:
    """Return all routines; the last one calls none, for nobody asks it to, but has the call."""
    cycle = b"".join(_padded(list(_body(each)), 0, SIZE) for each in DIAMONDS)
    repeated = cycle * -(-routines // len(DIAMONDS))
    last = _padded([retl(), nop()], 0, SIZE)
    return repeated[: (routines - 1) * SIZE] + last


def _elf(text: bytes, routines: int) -> bytes:
    """Return an ELF file (System V ABI, chapter 4) with a symbol a routine."""
    count = routines + 1
    names = b"\0_start\0" + b"".join(b"f%07d\0" % number for number in range(routines))
    places = np.arange(count, dtype=np.uint64) * SIZE + (_BASE + _HEADERS)
    symbols = np.zeros(
        count + 1,
        dtype=[
            ("name", ">u4"), ("info", "u1"), ("other", "u1"), ("section", ">u2"),
            ("value", ">u8"), ("size", ">u8"),
        ],
    )  # fmt: skip
    symbols["name"][1] = 1
    symbols["name"][2:] = 8 + 9 * np.arange(routines)
    symbols["info"][1:], symbols["section"][1:] = 0x12, 1  # global functions of section 1
    symbols["value"][1:], symbols["size"][1:] = places, SIZE
    sections = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    at = _HEADERS + len(text)
    starts = [at, at + symbols.nbytes, at + symbols.nbytes + len(names)]
    table = starts[2] + len(sections) + -(starts[2] + len(sections)) % 8
    header = struct.pack(
        ">16sHHIQQQIHHHHHH",
        b"\x7fELF\2\2\1", 2, _MACHINE, 1, _BASE + _HEADERS, 64, table, 0, 64, 56, 1, 64, 5, 4,
    )  # fmt: skip
    whole = _HEADERS + len(text)
    load = struct.pack(">IIQQQQQQ", 1, 5, 0, _BASE, _BASE, whole, whole, 0x100000)
    head = header + load
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 6, _BASE + _HEADERS, _HEADERS, len(text), 0, 0, 4, 0),
        (7, 2, 0, 0, starts[0], symbols.nbytes, 3, 1, 8, 24),
        (15, 3, 0, 0, starts[1], len(names), 0, 0, 1, 0),
        (23, 3, 0, 0, starts[2], len(sections), 0, 0, 1, 0),
    ]
    body = head + bytes(_HEADERS - len(head)) + text + symbols.tobytes() + names + sections
    return body + bytes(table - len(body)) + b"".join(struct.pack(">IIQQQQIIQQ", *r) for r in rows)
