"""Window flushes and contexts in native code leave what the plain Python reading leaves."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import EXECUTED, AddressSpace, GuestFault, Protection
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.cpu_state import REGISTERS_PER_WINDOW, CcOp, CpuState
from simprof.simulator.cpu.traps import TELL_PYTHON, Trap, TrapWord, address_of
from simprof.simulator.linux import native_contexts
from simprof.simulator.linux.contexts import UC_FP_ENABLED, UC_REGISTERS, Contexts
from simprof.simulator.linux.signals import SignalState
from simprof.simulator.machine.hooks import Hooks

_BASE, _PAGES = 0x200000, 6
_TRAPS = (Trap.FLUSH_WINDOWS, Trap.GET_CONTEXT, Trap.SET_CONTEXT)
_MOST_WINDOWS = 8
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class _Snapshot:
    """Everything that a context trap may change."""

    state: bytes
    memory: bytes
    blocked: int


class _Bench:
    """A processor, memory and signals, with both ways to answer a trap."""

    def __init__(self, is64: bool, windows: int) -> None:
        self.cpu = Cpu(is64, windows)
        self.space = AddressSpace(is64, 1 << 30)
        self.space.on_region = lambda region: self.cpu.map(region.base, region.size, region.host)
        self.space.add_region(0, 1 << 32)
        self.signals = SignalState()
        self.contexts = Contexts(self.cpu, self.space, self.signals)
        self.to_python: list[int] = []
        self.clock = np.zeros(32, np.int64)
        on_code: list[tuple[int, int]] = []
        self.hooks = Hooks(
            self.cpu,
            self.space,
            self.clock,
            (),
            on_trap=self.to_python.append,
            on_code=lambda address, size: on_code.append((address, size)),
            on_reserved=self.to_python.append,
        )
        self.hooks.answer_contexts(self.signals.words, None)

    def fill(self, source: random.Random) -> None:
        """Put the processor and memory into a random state that a program could be in."""
        self._fill_memory(source)
        cpu, state, windows = self.cpu, self.cpu.state, self.cpu.windows
        for array in (state.globals, state.registers, state.fp):
            for index in range(len(array)):
                array[index] = _random_word(source)
        state.globals[0] = 0
        state.cwp = source.randrange(windows)
        state.window = cpu.state_address + CpuState.registers.offset
        state.window += 8 * REGISTERS_PER_WINDOW * state.cwp
        state.canrestore = source.randrange(windows - 1)
        state.cansave = windows - 2 - state.canrestore
        state.pc, state.npc = (4 * source.randrange(1 << 30) for _ in range(2))
        state.y, state.asi = source.getrandbits(32), source.getrandbits(8)
        state.fsr, state.gsr, state.fprs = (source.getrandbits(32) for _ in range(3))
        _fill_codes(state, source)
        for window in range(windows):
            place = self._stack_place(source) - cpu.stack_bias
            state.registers[window * REGISTERS_PER_WINDOW + 6] = place & cpu.address_mask
        cpu.sync_wrapped(to_copy=True)
        context = self._stack_place(source) - (UC_REGISTERS if source.random() < 0.1 else 0)
        cpu.window()[0], cpu.window()[1] = context & _WORD, source.choice((0, 1, 1 << 40))
        self.signals.blocked = source.getrandbits(64)
        if source.random() < 0.8:
            self._make_context(context, source)

    def _fill_memory(self, source: random.Random) -> None:
        everything = Protection.READ | Protection.WRITE
        self.space.map(_BASE, _PAGES * PAGE_SIZE, everything)
        self.space.load(_BASE, source.randbytes(_PAGES * PAGE_SIZE))
        for page in range(_PAGES):
            rights = everything
            if source.random() < 0.15:
                rights = Protection(source.choice((0, 1, 2)))
            address = _BASE + page * PAGE_SIZE
            self.space.protect(address, PAGE_SIZE, rights)
            if source.random() < 0.1:
                bits = self.space.page_bits(address)
                self.space.set_page_bits(address, bits | EXECUTED)

    def _stack_place(self, source: random.Random) -> int:
        """An address that is mostly mapped, often near the end of a page."""
        if source.random() < 0.05:
            return source.choice((0, _BASE - 64, _BASE + _PAGES * PAGE_SIZE - 32, (1 << 32) - 8))
        page = _BASE + source.randrange(_PAGES - 1) * PAGE_SIZE
        offset = source.choice((0, 128, 512, PAGE_SIZE - 64, PAGE_SIZE - 200, PAGE_SIZE // 2))
        return page + offset + source.choice((0, 0, 8, 16, 4))

    def _make_context(self, address: int, source: random.Random) -> None:
        """Make what lies at `address` a context whose stack can mostly be used."""
        stack = (self._stack_place(source) - self.cpu.stack_bias) & _WORD
        places = ((UC_REGISTERS + 8 * 17, struct.pack(">Q", stack)), (UC_FP_ENABLED, b"\0\1"))
        for offset, data in places:
            if self.space.is_mapped(address + offset, len(data)):
                where = source.randrange(2) if offset == UC_FP_ENABLED else 0
                self.space.load(address + offset, data[where:] or data)

    def snapshot(self) -> _Snapshot:
        """Return what there is."""
        return _Snapshot(
            ctypes.string_at(self.cpu.state_address, ctypes.sizeof(CpuState)),
            self.space.peek(_BASE, _PAGES * PAGE_SIZE),
            self.signals.blocked,
        )

    def restore(self, snapshot: _Snapshot) -> None:
        """Go back to what there was."""
        ctypes.memmove(self.cpu.state_address, snapshot.state, len(snapshot.state))
        self.space.load(_BASE, snapshot.memory)
        self.signals.blocked = snapshot.blocked

    def in_python(self, number: int) -> int | None:
        """Answer a trap as `Machine` does; return the address of a fault."""
        state = self.cpu.state
        state.npc = (state.pc + 4) & self.cpu.address_mask
        actions = {
            Trap.FLUSH_WINDOWS: self.contexts.flush_windows,
            Trap.GET_CONTEXT: self.contexts.get_context,
            Trap.SET_CONTEXT: self.contexts.set_context,
        }
        try:
            actions[Trap(number)]()
        except GuestFault as error:
            return error.address
        return None

    def natively(self, number: int) -> bool:
        """Let native code answer a trap; False where it leaves that to Python."""
        kind = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)
        self.to_python.clear()
        kind(address_of(native_contexts.handle_context))(self.hooks.trap.ctypes.data, number)
        assert self.to_python in ([], [number])
        return not self.to_python


def _random_word(source: random.Random) -> int:
    small = source.choice((0, 1, 1 << 31, 1 << 63, (1 << 32) - 1, _WORD))
    return source.choice((small, source.getrandbits(32), source.getrandbits(64)))


def _fill_codes(state: CpuState, source: random.Random) -> None:
    state.cc_op = source.choice(list(CcOp))
    state.cc_src, state.cc_src2 = _random_word(source), _random_word(source)
    results = (state.cc_src + state.cc_src2, state.cc_src - state.cc_src2, _random_word(source))
    state.cc_dst = source.choice(results) & _WORD
    state.psr, state.xcc = (source.getrandbits(4) << 20 for _ in range(2))


_WIDTHS = {(is64, windows) for is64 in (True, False) for windows in (3, _MOST_WINDOWS)}


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[tuple[bool, int], _Bench]]:
    """One for each width and number of windows."""
    yield {key: _Bench(*key) for key in sorted(_WIDTHS)}


@given(st.integers(min_value=0), st.sampled_from(_TRAPS), st.sampled_from(sorted(_WIDTHS)))
def test_both_ways_leave_the_same_state(
    benches: dict[tuple[bool, int], _Bench], seed: int, trap: Trap, key: tuple[bool, int]
) -> None:
    """What native code does not do itself, it leaves to Python as it was before the trap."""
    bench = benches[key]
    if not key[0]:
        trap = Trap.FLUSH_WINDOWS
    bench.fill(random.Random(seed))
    before = bench.snapshot()
    fault = bench.in_python(trap)
    expected = bench.snapshot()
    bench.restore(before)
    if bench.natively(trap):
        assert fault is None
    else:
        assert bench.in_python(trap) == fault
    assert bench.snapshot() == expected


@pytest.mark.parametrize("trap", _TRAPS)
def test_ordinary_traps_never_come_to_python(
    benches: dict[tuple[bool, int], _Bench], trap: Trap
) -> None:
    """With memory that may be used, native code does it all: in most of the random states."""
    bench = benches[True, _MOST_WINDOWS]
    done = faults = 0
    for seed in range(200):
        bench.fill(random.Random(seed))
        before = bench.snapshot()
        faults += bench.in_python(trap) is not None
        bench.restore(before)
        done += bench.natively(trap)
    assert done > 40
    assert done + faults <= 200


def test_an_observer_that_only_python_can_tell_is_told(
    benches: dict[tuple[bool, int], _Bench],
) -> None:
    """A set context then goes to Python, with nothing done."""
    bench = benches[True, _MOST_WINDOWS]
    words = bench.hooks.trap
    kept = words[TrapWord.ON_CONTEXT]
    words[TrapWord.ON_CONTEXT] = TELL_PYTHON
    try:
        bench.fill(random.Random(1))
        before = bench.snapshot()
        assert not bench.natively(Trap.SET_CONTEXT)
        bench.cpu.state.npc = CpuState.from_buffer_copy(before.state).npc
        assert bench.snapshot() == before
    finally:
        words[TrapWord.ON_CONTEXT] = kept


@pytest.mark.parametrize("trap", [Trap.FLUSH_WINDOWS, Trap.GET_CONTEXT])
def test_what_was_executed_is_written_by_python_alone(
    benches: dict[tuple[bool, int], _Bench], trap: Trap
) -> None:
    """Python must know that code has changed."""
    bench = benches[True, _MOST_WINDOWS]
    for seed in range(50):
        bench.fill(random.Random(seed))
        for page in range(_PAGES):
            address = _BASE + page * PAGE_SIZE
            bench.space.set_page_bits(address, bench.space.page_bits(address) | EXECUTED)
        assert not bench.natively(trap)


@pytest.mark.parametrize("operation", CcOp)
def test_condition_codes_are_saved_whatever_set_them(
    benches: dict[tuple[bool, int], _Bench], operation: CcOp
) -> None:
    """They are not in a register: they follow from the last operation that set them, by one
    function for both ways; `tests/simulator/cpu/test_cpu.py` compares that with the engine.
    """
    bench = benches[True, _MOST_WINDOWS]
    done = 0
    for seed in range(40):
        bench.fill(random.Random(seed))
        bench.cpu.state.cc_op = operation
        before = bench.snapshot()
        bench.in_python(Trap.GET_CONTEXT)
        expected = bench.snapshot()
        bench.restore(before)
        if bench.natively(Trap.GET_CONTEXT):
            assert bench.snapshot() == expected
            done += 1
    assert done > 10


def test_upper_halves_of_stack_pointers_mean_nothing_to_programs_of_32_bits(
    benches: dict[tuple[bool, int], _Bench],
) -> None:
    bench = benches[False, _MOST_WINDOWS]
    done = 0
    for seed in range(40):
        source = random.Random(seed)
        bench.fill(source)
        for window in range(bench.cpu.windows):
            place = window * REGISTERS_PER_WINDOW + 6
            bench.cpu.state.registers[place] |= source.getrandbits(32) << 32
        bench.cpu.sync_wrapped(to_copy=True)
        before = bench.snapshot()
        fault = bench.in_python(Trap.FLUSH_WINDOWS)
        expected = bench.snapshot()
        bench.restore(before)
        if bench.natively(Trap.FLUSH_WINDOWS):
            assert fault is None
            assert bench.snapshot() == expected
            done += 1
    assert done > 10
