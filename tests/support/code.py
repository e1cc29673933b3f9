"""Shared by tests: what `tests/schemes/tracing/test_code.py` and others use."""

from __future__ import annotations

from collections.abc import Sequence

from simprof.profiler.code.layout import RUNTIME_BASE
from simprof.profiler.code.snippet_parts import Body
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import Action
from simprof.profiler.schemes.tracing.code import (
    ADDRESSES_BUFFER,
    POSITION,
    TRACE_BUFFER,
    TRACE_SIZE,
    address_flush_routine,
    flush_routine,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.code_bench import END_TRAP, STACK
from tests.support.snippets import Case, Runner, check_preserved, check_stack

R = Register


def writing_routine(routine: Sequence[Item]) -> list[Item]:
    """A flush routine, its system call replaced: everything is written at once."""
    items: list[Item] = []
    traps = 0
    for item in routine:
        is_trap = getattr(item, "text", "").startswith("ta ")
        traps += is_trap
        items.append(asm.arithmetic("addcc", R.O2, 0, R.O0) if is_trap else item)
    assert traps == 1
    return items


class Tracer:
    """A bench with a trace buffer, and the bits that must be in it."""

    def __init__(
        self, machine: MachineKind, packed: bool, seed: int = 1, *, addresses: bool = False
    ) -> None:
        self.runner = Runner(machine, seed)
        self.bench = self.runner.bench
        self.packed = packed
        self.machine = machine
        self.buffer = ADDRESSES_BUFFER if addresses else TRACE_BUFFER
        self.end = self.buffer + TRACE_SIZE
        flush = address_flush_routine(machine) if addresses else flush_routine(machine, packed)
        routine = writing_routine(flush)
        self.symbols = self.runner.symbols | self.bench.place(routine, RUNTIME_BASE + 0x4000)
        self.bits: list[int] = []
        self.flushed: list[int] = []
        self.set_position(0)

    @property
    def units(self) -> int:
        return TRACE_SIZE * (8 if self.packed else 1)

    def set_position(self, written: int) -> None:
        word = (written - self.units) & 0xFFFFFFFF
        self.bench.write(self.end + POSITION, word.to_bytes(4, "big"))

    def run(self, case: Case, actions: Sequence[Action], bits: Sequence[int]) -> Body:
        """Execute the code of `actions`, which must append `bits`."""
        body = snippet_body(actions, case.access, case.site)
        stack = self.bench.read(STACK, 1 << 16)
        outcome = self.bench.run(body.instructions, case.state, self.symbols)
        assert outcome.trap == 0x100 + END_TRAP, [i.text for i in body.instructions]
        check_preserved(case, outcome.state)
        self.bits += bits
        full = len(self.bits) >= 8 * TRACE_SIZE
        assert outcome.executed == body.cost + (body.taken_cost if full else 0)
        if full:
            self.flush()
        else:
            check_stack(case, stack, self.bench.read(STACK, 1 << 16))
        return body

    def flush(self) -> None:
        """The whole buffer has been written; what came behind it is at its start."""
        expected, self.bits = self.bits[: 8 * TRACE_SIZE], self.bits[8 * TRACE_SIZE :]
        self.flushed += expected
        assert self.bench.read(self.buffer, TRACE_SIZE)[8:] == pack(expected)[8:]
        self.check()

    def check(self) -> None:
        """The buffer holds `bits`, and the position tells how many."""
        unit = 1 if self.packed else 8
        position = self.bench.word(self.end + POSITION) - (1 << 32)
        assert position + self.units == len(self.bits) // unit
        whole = len(self.bits) // 8
        assert self.bench.read(self.buffer, whole) == pack(self.bits[: 8 * whole])
        if left := len(self.bits) % 8:
            last = self.bench.read(self.buffer + whole, 1)[0] & (1 << left) - 1
            assert last == int("".join(map(str, self.bits[-left:])), 2)


def pack(bits: Sequence[int]) -> bytes:
    return int("".join(map(str, bits)) or "0", 2).to_bytes(len(bits) // 8, "big")
