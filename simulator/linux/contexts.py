"""Saving and restoring what a program is doing: register windows, signal handlers, contexts."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from simprof.simulator.cpu.address_space import AddressSpace, GuestFault
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.cpu_state import set_condition_codes
from simprof.simulator.cpu.native import read_condition_codes
from simprof.simulator.linux.signals import (
    FRAME_SIZE,
    SA_ONSTACK,
    SS_DISABLE,
    SS_ONSTACK,
    FrameFormat,
    Registers,
    SignalInfo,
    SignalState,
)

# Where handlers without a restorer return to: nothing is mapped there, so the machine notices.
RETURN_ADDRESS_64 = (1 << 43) + 0x100000
RETURN_ADDRESS_32 = 0xFFFFE000
_G7, _SP, _O7 = 7, 6, 7
_FP_OFFSET = 14  # words in a saved window; %i7 follows %fp
_LARGEST_FRAME = 1 << 24  # bytes
_STALE_BYTES = 1 << 16

# ucontext_t of 64-bit programs
UC_MASK = 16
UC_REGISTERS = 32
UC_FP = 208
UC_FP_ENABLED = 498


SavedWindow = tuple[int, bytes]  # a window that could not be written, and its place on the stack


class Interrupted(Struct, frozen=True):
    """What was interrupted by a handler."""

    registers: Registers
    unsaved: tuple[SavedWindow, ...]
    clock: tuple[int, ...] = ()


class InterruptedFrames:
    """What handlers have interrupted, by the addresses of their frames on the stack."""

    def __init__(self) -> None:
        self._found: dict[int, Interrupted] = {}
        # Negative, so that the frames of nested handlers come in ascending order: each is appended.
        self._order: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Whether no handler is under way."""
        return not self._order

    def keep(self, address: int, interrupted: Interrupted) -> None:
        """Keep what the handler with the frame at `address` interrupts."""
        # What is kept of frames that lie shortly below is dropped: longjmp has left these handlers.
        start = bisect_left(self._order, -address)
        end = bisect_right(self._order, _STALE_BYTES - address)
        for stale in self._order[start:end]:
            del self._found[-stale]
        self._order[start:end] = [-address]
        self._found[address] = interrupted

    def take(self, address: int) -> Interrupted | None:
        """Return what the frame's handler has interrupted, and keep it no longer; None: nothing."""
        interrupted = self._found.pop(address, None)
        if interrupted is not None:
            del self._order[bisect_left(self._order, -address)]
        return interrupted


# What Linux/SPARC does in the kernel: flushing the windows to the stack (`ta 3`, and before every
# frame), building signal frames and returning from them, and the get and set context traps that the
# 64-bit C library's setjmp and longjmp are made of.
class Contexts:
    """Window, signal and context operations on one processor."""

    def __init__(self, cpu: Cpu, memory: AddressSpace, signals: SignalState) -> None:
        self._cpu = cpu
        self._memory = memory
        self._signals = signals
        self._format = FrameFormat(cpu.is64)
        self.return_address = RETURN_ADDRESS_64 if cpu.is64 else RETURN_ADDRESS_32
        self.interrupted = InterruptedFrames()  # by handlers, in the current thread
        # The mask that the next frame restores, in place of that at hand (rt_sigsuspend).
        self.saved_mask: int | None = None
        # Writes windows to the stack as far as that is easy; returns whether all are there.
        self.flush_natively: Callable[[], bool] = lambda: False

    # -- windows

    def flush_windows(self) -> None:
        """Write the callers' windows and the current one to the stack; raises `GuestFault`."""
        for address, _ in self._flush():
            raise GuestFault(address)

    def _flush(self) -> tuple[SavedWindow, ...]:
        # Write out all windows; return those whose place on the stack cannot be written.
        if self.flush_natively():
            return ()
        cpu, unsaved = self._cpu, []
        cpu.sync_wrapped(to_copy=False)
        while cpu.state.canrestore:
            unsaved += self._save(cpu.oldest_window())
            cpu.drop_oldest_window()
        unsaved += self._save(cpu.state.cwp)
        return tuple(unsaved)

    def _save(self, window: int) -> list[SavedWindow]:
        address = self._cpu.window_stack_pointer(window)
        data = self._cpu.window_bytes(window)
        try:
            self._memory.write(address, data)
        except GuestFault:
            return [(address, data)]
        return []

    def _load_current(self) -> None:
        cpu = self._cpu
        address = cpu.window_stack_pointer(cpu.state.cwp)
        data = self._memory.read(address, cpu.window_size)
        cpu.sync_wrapped(to_copy=False)
        cpu.set_window_bytes(cpu.state.cwp, data)
        cpu.sync_wrapped(to_copy=True)

    def move_window(self, fill: bool) -> None:
        """Spill the oldest window or fill the caller's; raises `GuestFault`."""
        cpu, state = self._cpu, self._cpu.state
        cpu.sync_wrapped(to_copy=False)
        window = (state.cwp + 1) % cpu.windows if fill else cpu.oldest_window()
        address = cpu.window_stack_pointer(window)
        if address & 7:
            raise GuestFault(address)
        if not fill:
            self._memory.write(address, cpu.window_bytes(window))
            cpu.drop_oldest_window()
            return
        cpu.set_window_bytes(window, self._memory.read(address, cpu.window_size))
        state.canrestore += 1
        state.cansave -= 1
        cpu.sync_wrapped(to_copy=True)

    def enter_stack(self, stack: int) -> None:
        """Go on with a stack that ends at `stack`, as the kernel lets a new thread begin."""
        # It begins with a copy of the current frame; all windows but this one are free. Raises
        # `GuestFault` where that cannot be copied.
        cpu, window = self._cpu, self._cpu.window()
        bias, mask = cpu.stack_bias, cpu.address_mask
        pointer = (window[_SP] + bias) & mask
        size = ((window[16 + _SP] + bias) & mask) - pointer
        if not 0 < size < _LARGEST_FRAME:
            raise GuestFault(pointer)
        top = (stack + bias) & ~15 & mask
        self._memory.write(top - size, self._memory.read(pointer, size))
        window[_SP] = (top - size - bias) & mask
        window[16 + _SP] = (top - bias) & mask
        self._save(cpu.state.cwp)

    # -- registers

    def registers(self) -> Registers:
        """Return the registers that a signal frame saves."""
        state, window = self._cpu.state, self._cpu.window()
        icc, xcc = read_condition_codes(state)
        control = state.pc, state.npc, state.y, xcc << 4 | icc, state.asi & 0xFF
        whole = (0, *state.globals[1:8]), tuple(window[0:8]), tuple(state.fp)
        return Registers(*control, *whole, state.fsr, state.gsr, state.fprs)

    def set_registers(self, registers: Registers) -> None:
        """Set the registers that a signal frame saves."""
        state, window = self._cpu.state, self._cpu.window()
        state.pc, state.npc, state.y = registers.pc, registers.npc, registers.y
        set_condition_codes(state, registers.ccr & 15, registers.ccr >> 4)
        state.asi = registers.asi
        state.globals[1:8] = list(registers.globals[1:8])
        window[0:8] = list(registers.outs)
        state.fp[0:32] = list(registers.fp)
        self._cpu.set_fsr(registers.fsr)
        state.gsr, state.fprs = registers.gsr, registers.fprs

    # -- signals

    def enter_handler(self, info: SignalInfo, clock: tuple[int, ...]) -> None:
        """Build the frame of a handler and go there; raises `GuestFault` where it cannot be."""
        # Nothing has changed then but that windows have been flushed. `clock` comes back from
        # `leave_handler`.
        cpu, signals = self._cpu, self._signals
        unsaved = self._flush()
        registers = self.registers()
        action = signals.action(info.number)
        stack = (registers.outs[_SP] + cpu.stack_bias) & cpu.address_mask
        alternate = signals.alternate
        if signals.on_alternate_stack(stack):
            alternate = replace(alternate, flags=alternate.flags | SS_ONSTACK)
        elif action.flags & SA_ONSTACK and not alternate.flags & SS_DISABLE:
            stack = alternate.address + alternate.size
        address = (stack - FRAME_SIZE) & ~15 & cpu.address_mask
        mask = signals.blocked if self.saved_mask is None else self.saved_mask
        saved = cpu.window_bytes(cpu.state.cwp)
        frame = self._format.pack(address, saved, info, registers, mask, alternate)
        self._memory.write(address, frame)
        self.saved_mask = None
        self.interrupted.keep(address, Interrupted(registers, unsaved, clock))
        signals.enter_handler(info.number)
        window = cpu.window()
        window[0] = info.number
        window[1] = address + self._format.info_offset
        window[2] = address + self._format.context_offset
        window[_SP] = (address - cpu.stack_bias) & cpu.address_mask
        window[_O7] = (action.restorer or self.return_address - 8) & cpu.address_mask
        cpu.state.pc = action.handler
        cpu.state.npc = (action.handler + 4) & cpu.address_mask

    def leave_handler(self) -> Interrupted | None:
        """Restore registers and mask from the frame at %sp; raises `GuestFault`."""
        # Returns what had been interrupted, or None where the frame is not one of ours: programs
        # may move frames. Where no handler is under way there is no frame, whatever is at %sp.
        cpu = self._cpu
        address = (cpu.window()[_SP] + cpu.stack_bias) & cpu.address_mask
        data = self._memory.read(address, FRAME_SIZE)
        if self.interrupted.is_empty:
            raise GuestFault(address)
        interrupted = self.interrupted.take(address)
        delivered = interrupted.registers if interrupted else None
        registers, mask, stack = self._format.unpack(data, delivered)
        self._flush()
        for place, window in interrupted.unsaved if interrupted else ():
            self._memory.write(place, window)
        self.set_registers(registers)
        self._load_current()
        self._signals.blocked = mask
        self._signals.alternate = replace(stack, flags=stack.flags & ~SS_ONSTACK)
        return interrupted

    # -- contexts of 64-bit programs

    def get_context(self) -> None:
        """Store the context at %o0 (`ta 0x6e`); pc is that after the trap."""
        self.flush_windows()
        registers, window, memory = self.registers(), self._cpu.window(), self._memory
        address = window[0]
        tstate = registers.ccr << 32 | registers.asi << 24
        control = tstate, registers.pc, registers.npc, registers.y
        saved = *control, *registers.globals[1:], *registers.outs, *window[22:24]
        memory.write(address + UC_MASK, struct.pack(">Q", self._signals.blocked))
        memory.write(address + UC_REGISTERS, struct.pack(">21Q", *saved))
        memory.write(address + UC_FP_ENABLED, b"\0")

    def set_context(self) -> None:
        """Load the context at %o0 (`ta 0x6f`), with its mask where %o1 says so."""
        self.flush_windows()
        cpu, state, memory = self._cpu, self._cpu.state, self._memory
        address, with_mask = cpu.window()[0], cpu.window()[1]
        values = struct.unpack(">21Q", memory.read(address + UC_REGISTERS, 168))
        if with_mask:
            (mask,) = struct.unpack(">Q", memory.read(address + UC_MASK, 8))
        enabled = memory.read(address + UC_FP_ENABLED, 1)[0]
        fpu = memory.read(address + UC_FP, 280) if enabled else None
        outs = values[11:19]
        stack = (outs[_SP] + cpu.stack_bias) & cpu.address_mask
        memory.write(stack + 8 * _FP_OFFSET, struct.pack(">2Q", *values[19:21]))
        if with_mask:
            self._signals.blocked = mask
        state.pc, state.npc, state.y = values[1:4]
        set_condition_codes(state, values[0] >> 32 & 15, values[0] >> 36 & 15)
        state.asi = values[0] >> 24 & 0xFF
        state.globals[1:_G7] = values[4:10]  # %g7, the thread pointer, stays
        cpu.window()[0:8] = list(outs)
        self._load_current()
        if fpu is not None:
            *registers, fsr, _fprs, gsr = struct.unpack(">35Q", fpu)
            state.fp[0:32] = registers
            cpu.set_fsr(fsr)
            state.gsr = gsr
