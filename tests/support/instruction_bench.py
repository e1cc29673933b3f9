"""Single instructions executed on the machine, each on many states of its registers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu.address_space import Protection
from simprof.simulator.isa.assembler import Instruction, data_word
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.support.tiny_programs import program_file

# Operands of the instructions: doubles and quads are %f0, %f4 and %f8, integers %g2, %g3 and %g4.
RS1, RS2, RD = 2, 3, 4
FLOATS = 8  # %f0 to %f14
_ROW = struct.Struct(">16Q")
ROWS = 0x20000000
MEMORY = 8 * (FLOATS - 2)  # offset in a row
_STATES = {"y": 0, "ccr": 2, "gsr": 19}
_L0, _L1, _L2 = 16, 17, 18


@dataclass
class State:
    """Registers before or after one instruction."""

    floats: list[int] = field(default_factory=lambda: [0] * FLOATS)
    integers: list[int] = field(default_factory=lambda: [0] * 4)  # %g2 to %g5
    ccr: int = 0
    y: int = 0
    gsr: int = 0
    fsr: int = 0
    memory: bytearray = field(default_factory=lambda: bytearray(16))  # also %f12 and %f14

    def packed(self) -> bytes:
        """Return it as it lies in memory."""
        floats = struct.pack(f">{FLOATS - 2}Q", *self.floats[:-2]) + self.memory
        rest = *self.integers, self.ccr, self.y, self.gsr, self.fsr
        return floats + struct.pack(">8Q", *rest)


def unpacked(data: bytes, memory: bytes) -> State:
    """Return the state that lies in memory, with the memory of that before."""
    words = _ROW.unpack(data)
    floats, integers = list(words[:FLOATS]), list(words[FLOATS : FLOATS + 4])
    ccr, y, gsr, fsr = words[FLOATS + 4 :]
    return State(floats, integers, ccr, y, gsr, fsr, bytearray(memory))


def format3(op: int, op3: int, rd: int, rs1: int, low: int) -> int:
    """Return an instruction of format 3; `low`: its bits 13 to 0."""
    return op << 30 | rd << 25 | op3 << 19 | rs1 << 14 | low


def _memory(op3: int, rd: int, offset: int) -> int:
    return format3(3, op3, rd, _L0, 1 << 13 | offset)


def _or_immediate(rd: int, rs1: int, value: int) -> int:
    return format3(2, 0x02, rd, rs1, 1 << 13 | value)


def _executed(word: int, first: int, rows: int) -> list[int]:
    # For each row: load the state, execute the word, store the state in the row's second half.
    load_all = [_memory(0x23, 2 * n, 8 * n) for n in range(FLOATS)]
    load_all += [_memory(0x0B, RS1 + n, 64 + 8 * n) for n in range(4)]
    store_all = [_memory(0x27, 2 * n, 128 + 8 * n) for n in range(FLOATS)]
    store_all += [_memory(0x0E, RS1 + n, 192 + 8 * n) for n in range(4)]
    for name, at in (("ccr", 96), ("y", 104), ("gsr", 112)):
        number = _STATES[name]
        load_all += [_memory(0x0B, _L2, at), format3(2, 0x30, number, 0, _L2)]
        store_all += [format3(2, 0x28, _L2, number, 0), _memory(0x0E, _L2, 128 + at)]
    load_all.append(_memory(0x21, 1, 120))  # ldx [], %fsr
    store_all.append(_memory(0x25, 1, 248))
    start = [_L0 << 25 | 4 << 22 | first >> 10, _or_immediate(_L0, _L0, first & 0x3FF)]
    start += [_L1 << 25 | 4 << 22 | rows >> 10, _or_immediate(_L1, _L1, rows & 0x3FF)]
    body = [*load_all, word, *store_all, format3(2, 0x00, _L0, _L0, 1 << 13 | 256)]
    body += [format3(2, 0x14, _L1, _L1, 1 << 13 | 1)]  # subcc %l1, 1, %l1
    back = -len(body) & 0x3FFFFF
    return [*start, *body, 9 << 25 | 2 << 22 | back, 0x01000000]  # bne; nop


def run_words(
    words: Sequence[int], rows: Sequence[Sequence[State]], directory: Path, is64: bool = True
) -> list[list[State]]:
    """Execute each of `words` on the states given for it; return the states after it."""
    code: list[int] = []
    at = ROWS
    for word, states in zip(words, rows, strict=True):
        code += _executed(word, at, len(states))
        at += 256 * len(states)
    code += [_or_immediate(1, 0, 1), _or_immediate(8, 0, 0), 0x91D0206D if is64 else 0x91D02010]
    kind = MachineKind.SPARCV9 if is64 else MachineKind.SPARCV8PLUS
    path = directory / "program"
    items: list[Instruction] = [data_word(each) for each in code]
    path.write_bytes(program_file(kind, items))
    host = Host(directory, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    machine = Machine(load(path), host=host)
    size = at - ROWS + 0x1FFF & -0x2000
    machine.memory.map(ROWS, size, Protection.READ | Protection.WRITE)
    data = b"".join(state.packed() + bytes(128) for states in rows for state in states)
    machine.memory.load(ROWS, data)
    result = machine.run()
    assert (result.reason, result.status) == ("exit", 0), result
    data = machine.memory.peek(ROWS, at - ROWS)
    machine.close()
    after = iter(
        [
            unpacked(data[n + 128 : n + 256], data[n + MEMORY : n + MEMORY + 16])
            for n in range(0, len(data), 256)
        ]
    )
    return [[next(after) for _ in states] for states in rows]
