"""Connecting the native hooks: their state arrays, their way back to Python, their installation."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary.program import Range
from simprof.simulator.cpu import engine, operations, quads, traps
from simprof.simulator.cpu.address_space import AddressSpace
from simprof.simulator.cpu.cpu import Cpu, HookKind
from simprof.simulator.cpu.cpu_state import SYSTEM_PAGE, CpuState
from simprof.simulator.machine.running import BlockPlace, NativeHook

NO_LIMIT = 1 << 62
_TRAP_CALLBACK = _PAGE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_CODE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)
_BLOCK_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
)


class SpanCount:
    """Counts the instructions that are executed at the addresses of a span."""

    # For spans that blocks begin and end in and no fault leaves. The hook is Python's: it is for
    # code that is seldom executed.

    def __init__(self, cpu: Cpu, clock: NDArray[np.int64], span: Range) -> None:
        self.instructions = 0
        self._cpu, self._clock, self._span = cpu, clock, span
        self._total = 0
        self._callback = _BLOCK_CALLBACK(self._on_block)

    def install(self) -> None:
        """Begin to count; the hook that counts all blocks must have been installed before."""
        function = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self._cpu.add_hook(HookKind.BLOCK, function, 0, (self._span.start, self._span.end - 1))

    def _on_block(self, _: int, address: int, size: int, __: int) -> None:
        total, count = int(self._clock[traps.ClockWord.INSTRUCTIONS]), size >> 2
        # Where a window trap has interrupted the block before, the rest of that, which begins
        # anew here, has been taken back from the total.
        self.instructions += min(count, total - self._total)
        self._total = total


class Hooks:
    """The native hooks of one machine."""

    def __init__(
        self,
        # cpu, memory, clock: what they work on.
        cpu: Cpu,
        memory: AddressSpace,
        clock: NDArray[np.int64],
        code: Sequence[Range],  # ranges whose code passes without a look (`traps.check_code`)
        # on_trap, on_code, on_reserved: called with the trap number, with (address, size in bytes)
        # of code to look at, and with the address of a page that is about to be executed and needs
        # a shadow.
        on_trap: Callable[[int], None],
        on_code: Callable[[int, int], None],
        on_reserved: Callable[[int], None],
        *,
        # Whether native code answers traps of register windows; all go to `on_trap` otherwise.
        moves_windows: bool = True,
    ) -> None:
        self._cpu = cpu
        self._clock = clock
        self._callbacks = (
            _TRAP_CALLBACK(on_trap),
            _CODE_CALLBACK(on_code),
            _PAGE_CALLBACK(on_reserved),
        )
        self.trap = np.zeros(16, np.int64)
        self.fill = np.zeros(16, np.int64)
        self._observer: NativeHook | None = None
        self._block_hook = ctypes.c_size_t(0)
        self._code = np.zeros(traps.CodeWord.FIRST + 2 * len(code), np.int64)
        table = memory.table.ctypes.data
        on_trap_address, on_code_address, on_reserved_address = (
            ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in self._callbacks
        )
        traps.remember_state(cpu.state_offset)
        cpu.note_traps(traps.address_of(traps.note_trap))
        clock[traps.ClockWord.STOP_FUNCTION] = cpu.stop_function
        clock[traps.ClockWord.ENGINE] = cpu.handle
        clock[traps.ClockWord.NPC_POINTER] = cpu.state_address + CpuState.npc.offset
        clock[traps.ClockWord.WINDOW_POINTER] = cpu.state_address + CpuState.window.offset
        clock[traps.ClockWord.CAN_SAVE] = cpu.state_address + CpuState.cansave.offset
        clock[traps.ClockWord.CAN_RESTORE] = cpu.state_address + CpuState.canrestore.offset
        clock[traps.ClockWord.LIMIT] = NO_LIMIT
        clock[traps.ClockWord.WINDOW_MOVER] = traps.address_of(traps.move_window_ahead)
        clock[traps.ClockWord.TRAP_WORDS] = self.trap.ctypes.data
        self._no_regions = np.zeros(1, np.int64)  # native code finds no stack in them
        words = self.trap
        words[traps.TrapWord.CLOCK] = clock.ctypes.data
        words[traps.TrapWord.CPU] = cpu.state_address
        words[traps.TrapWord.REGIONS] = table if moves_windows else self._no_regions.ctypes.data
        words[traps.TrapWord.PYTHON] = on_trap_address
        words[traps.TrapWord.IS64] = cpu.is64
        words[traps.TrapWord.WINDOWS] = cpu.windows
        words = self.fill
        words[traps.FillWord.REGIONS] = table
        words[traps.FillWord.NEXT_FLUSH] = words[traps.FillWord.STEP] = traps.FIRST_FLUSH
        words[traps.FillWord.FLUSH_FUNCTION] = cpu.control_function
        words[traps.FillWord.FLUSH_ENGINE] = cpu.handle
        words[traps.FillWord.FLUSH_CODE] = cpu.flush_code
        words[traps.FillWord.PYTHON] = on_reserved_address
        words = self._code
        words[traps.CodeWord.REGIONS] = table
        words[traps.CodeWord.PYTHON] = on_code_address
        words[traps.CodeWord.COUNT] = len(code)
        words[traps.CodeWord.FIRST :] = [place for each in code for place in (each.start, each.end)]

    def answer_contexts(
        self, signals: NDArray[np.uint64], observer: NativeHook | None
    ) -> Callable[[], bool]:
        """Have window flushes and contexts done natively; return what flushes the windows."""
        # `signals`: The program's mask of blocked signals (`SignalState.words`). `observer`: Who is
        # to be told of contexts that are set. The returned function says whether all windows could
        # be written.
        from simprof.simulator.linux import native_contexts  # most programs never need it

        self.trap[traps.TrapWord.SIGNALS] = signals.ctypes.data
        if observer is None:
            self.trap[traps.TrapWord.ON_CONTEXT] = traps.TELL_NOBODY
        elif observer.on_context is None:
            self.trap[traps.TrapWord.ON_CONTEXT] = traps.TELL_PYTHON
        else:
            self.trap[traps.TrapWord.ON_CONTEXT] = observer.on_context()
            self.trap[traps.TrapWord.OBSERVER] = observer.user_data
        self.trap[traps.TrapWord.CONTEXTS] = traps.address_of(native_contexts.handle_context)

        state = self.trap.ctypes.data
        return lambda: bool(native_contexts.flush_windows(state))

    def do_operation(self) -> None:
        """Do the instruction that a trap stands for; from now on native code does it."""
        execute = operations.execute  # most programs never need its native code
        self._helpers = np.array(engine.addresses(quads.HELPERS), np.int64)
        self.trap[traps.TrapWord.HELPERS] = self._helpers.ctypes.data
        self.trap[traps.TrapWord.OPERATIONS] = traps.address_of(execute)
        execute(self.trap.ctypes.data, traps.Trap.OPERATION)

    def silence(self, sizes: Mapping[BlockPlace, int], before: Mapping[BlockPlace, int]) -> None:
        """Have no events for blocks, by their sizes in bytes; `before`: those silent so far."""
        # As long as their translations live. A block that the engine translates otherwise than
        # thought raises events all the same.
        cpu, observer = self._cpu, self._observer
        assert observer is not None
        cpu.remove_hook(self._block_hook)  # what was translated with it is dropped
        for place, size in before.items():
            cpu.forget_code(place.pc, place.pc + size)
        for place, size in sizes.items():
            if cpu.translate(*place) != size:
                cpu.forget_code(place.pc, place.pc + size)
        below = (0, SYSTEM_PAGE - 1)
        self._block_hook = cpu.add_hook(HookKind.BLOCK, observer.address, observer.user_data, below)

    def install(self, block: NativeHook | None, count: bool) -> None:
        """Install everything; `block` observes blocks, else they are counted if `count`."""
        cpu, below = self._cpu, (0, SYSTEM_PAGE - 1)
        fill, trap, code = (words.ctypes.data for words in (self.fill, self.trap, self._code))
        cpu.add_hook(HookKind.TRANSLATION, traps.address_of(traps.fill_translation), fill)
        cpu.add_hook(HookKind.INTERRUPT, traps.address_of(traps.handle_trap), trap)
        cpu.add_hook(HookKind.NEW_CODE, traps.address_of(traps.check_code), code, below)
        if block is not None:
            self._observer = block
            self._block_hook = cpu.add_hook(HookKind.BLOCK, block.address, block.user_data, below)
        elif count:
            clock = self._clock.ctypes.data
            cpu.add_hook(HookKind.BLOCK, traps.address_of(traps.count_block), clock, below)
