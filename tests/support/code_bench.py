"""Executes pieces of SPARC code on the emulator from given register states.

A `CodeBench` has memory for code, run-time routines, counters, hash tables and a stack. `run` puts
code somewhere fresh, executes it up to its end and says how many instructions that took.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_BASE, TABLES_BASE
from simprof.profiler.code.runtime_code import Routines, runtime_code
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.cpu.cpu import Cpu, HookKind, Stop
from simprof.simulator.cpu.cpu_state import set_condition_codes
from simprof.simulator.cpu.native import read_condition_codes
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, assemble

CODE = 0x100000
STACK = 0x70000000
SPANS = {
    CODE: 1 << 22,
    RUNTIME_BASE: 1 << 18,
    ARRAYS_BASE: 1 << 20,
    TABLES_BASE: 1 << 20,
    STACK: 1 << 16,
}
END_TRAP = 0x7F

_Hook = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)
_BlockHook = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
)


@dataclass
class State:
    """Integer registers 0..31, icc and xcc as NZVC, and %y."""

    registers: list[int]
    icc: int = 0
    xcc: int = 0
    y: int = 0


@dataclass(frozen=True)
class Outcome:
    """State at the end, instructions executed, and the trap that ended the run."""

    state: State
    executed: int
    trap: int


def runtime_symbols(machine: MachineKind, more: Sequence[Routines] = ()) -> Mapping[str, int]:
    """Return the addresses of the run-time routines."""
    return {
        name: address
        for assembly in runtime_code(machine, more)
        for name, address in assembly.labels.items()
    }


class CodeBench:
    """One processor with memory (module docstring)."""

    def __init__(self, is64: bool) -> None:
        self.cpu = Cpu(is64)
        self._memory = {address: mmap.mmap(-1, size) for address, size in SPANS.items()}
        for address, memory in self._memory.items():
            host = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            self.cpu.map(address, len(memory), host)
        self._next = CODE
        self._executed = self._trap = 0
        self._keep = (_Hook(self._on_trap), _BlockHook(self._on_block))
        for kind, hook in zip((HookKind.INTERRUPT, HookKind.BLOCK), self._keep, strict=True):
            function = ctypes.cast(hook, ctypes.c_void_p).value
            assert function is not None
            self.cpu.add_hook(kind, function, 0)

    def _on_trap(self, _engine: int, number: int, _data: int) -> None:
        self._trap = number
        self.cpu.stop()

    def _on_block(self, _engine: int, _address: int, size: int, _data: int) -> None:
        self._executed += size >> 2

    def write(self, address: int, data: bytes) -> None:
        """Write memory."""
        base = max(b for b in SPANS if b <= address)
        self._memory[base][address - base : address - base + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        """Read memory."""
        base = max(b for b in SPANS if b <= address)
        return self._memory[base][address - base : address - base + size]

    def word(self, address: int) -> int:
        """Read a 32-bit word."""
        return int(struct.unpack(">I", self.read(address, 4))[0])

    def place(self, items: Sequence[Item], address: int) -> dict[str, int]:
        """Put code at a fixed address; return its labels."""
        assembly = assemble(items, address)
        self.write(address, assembly.code)
        return dict(assembly.labels)

    def run(
        self, items: Sequence[Item], state: State, symbols: Mapping[str, int] | None = None
    ) -> Outcome:
        """Execute `items` from `state` until control reaches their end."""
        assembly = assemble([*items, asm.trap_always(END_TRAP)], self._next, symbols)
        if self._next + len(assembly.code) + 64 > CODE + SPANS[CODE]:
            raise RuntimeError("the bench's code memory is full")
        self.write(assembly.base, assembly.code)
        self._next += len(assembly.code) + 8 & -8
        self._load(state)
        self._executed = self._trap = 0
        stop = self.cpu.run(assembly.base, assembly.base + 4)
        if stop is not Stop.REQUESTED:
            self._trap = -1
        return Outcome(self._store(), self._executed - 1, self._trap)

    def _load(self, state: State) -> None:
        for number in range(1, 32):
            self.cpu.set_register(number, state.registers[number])
        self.cpu.sync_wrapped(to_copy=False)
        set_condition_codes(self.cpu.state, state.icc, state.xcc)
        self.cpu.state.y = state.y

    def _store(self) -> State:
        registers = [self.cpu.register(number) for number in range(32)]
        icc, xcc = read_condition_codes(self.cpu.state)
        return State(registers, icc, xcc, int(self.cpu.state.y))
