"""The processor: Unicorn's SPARC64 engine, made fit to run user programs.

This file and `engine` are the only ones that know Unicorn. What its public interface cannot do
(register windows, PSTATE, the FPU, condition codes) is done on the engine's own state structure
(`cpu_state`). Its address is derived, not assumed:

A build for which any of this fails is refused with `EngineError` before a program runs.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu import engine as uc
from simprof.simulator.cpu import nans
from simprof.simulator.cpu.cpu_state import (
    ASI_PRIMARY_NO_FAULT,
    FEATURE_QUAD_FLOAT,
    FPRS_FEF,
    MAX_WINDOWS,
    PROCESSOR_WORD,
    REGISTERS_PER_WINDOW,
    SYSTEM_PAGE,
    CpuState,
    Pstate,
)
from simprof.simulator.cpu.native import read_condition_codes
from simprof.simulator.errors import EngineError
from simprof.simulator.isa.sparc import STACK_BIAS_64

_KNOWN_CPUS: Final = (b"Sun", b"TI", b"Fujitsu", b"NEC")
_MAGIC: Final = tuple(0x1122334455667700 + number for number in range(1, 8))
_HANDLE_SEARCH: Final = 0x1000  # bytes of the engine's handle searched for the fault address

_RESUME = SYSTEM_PAGE
_UNTIL: Final = SYSTEM_PAGE + 0x101  # odd: never reached
_TEST_CODE: Final = SYSTEM_PAGE + 0x200
_TEST_DATA: Final = SYSTEM_PAGE + 0x1000

# Offset in the engine's handle of the C address of `bool(handle, int number)`, which the engine
# calls at each trap to ask whether it is to stop.
_STOP_WORD: Final = 0xE0
RESUME_TRAP: Final = 0x17E
_TEST_TRAP: Final = 0x17C


class HookKind(IntEnum):
    """Events that native hooks can be given."""

    INTERRUPT = uc.UC_HOOK_INTR
    BLOCK = uc.UC_HOOK_BLOCK
    TRANSLATION = uc.UC_HOOK_TLB_FILL
    NEW_CODE = uc.UC_HOOK_EDGE_GENERATED


class MemoryAccess(IntEnum):
    """What a translation hook is asked for."""

    READ = uc.UC_MEM_READ
    WRITE = uc.UC_MEM_WRITE
    FETCH = uc.UC_MEM_FETCH


class Stop(Enum):
    """Why `Cpu.run` came back."""

    REQUESTED = "requested"
    FAULT = "fault"  # the translation hook refused an access; `fault_address` says which
    ILLEGAL = "illegal"  # illegal instruction at pc


def _trap_always(number: int) -> int:
    return 0x91D02000 | (number & 0x7F)


# (offset, bytes) of what the state structure has of a user program.
_USER_STATE: Final = (
    (0, CpuState.version.offset),  # all integer and double registers, pc, npc, condition codes
    (CpuState.fp_status.offset, CpuState.fp_status.size),
    (CpuState.xcc.offset, CpuState.agregs.offset - CpuState.xcc.offset),  # %asi, windows in use
    (CpuState.fprs.offset, CpuState.fprs.size),
    (CpuState.gsr.offset, CpuState.gsr.size),
)

_REFUSALS = {
    uc.UC_ERR_READ_UNMAPPED: MemoryAccess.READ,
    uc.UC_ERR_WRITE_UNMAPPED: MemoryAccess.WRITE,
    uc.UC_ERR_FETCH_UNMAPPED: MemoryAccess.FETCH,
}


class Cpu:
    """One SPARC64 processor in user mode; raises `EngineError` for a build that is unknown."""

    # `is64`: False for programs with 32-bit addresses (PSTATE.AM set). `windows`: Register windows,
    # 3..32. More windows trap less, but a program that reads stack memory which it never set can
    # tell: what was spilled there stays there.

    # Where every engine of this build keeps the last faulting address, from its handle on.
    _fault_offset: ClassVar[int | None] = None

    def __init__(self, is64: bool, windows: int = MAX_WINDOWS) -> None:
        if not 3 <= windows <= MAX_WINDOWS:
            raise ValueError(f"{windows} register windows")
        self.is64 = is64
        self.windows = windows
        self.address_mask = 0xFFFFFFFFFFFFFFFF if is64 else 0xFFFFFFFF
        self.stack_bias = STACK_BIAS_64 if is64 else 0  # what %sp and %fp are off by
        self._window_layout = struct.Struct(">16Q" if is64 else ">16I")  # of a saved window
        self.window_size = self._window_layout.size
        _correct_nans()
        self._engine = _open_engine()
        self.handle = self._engine.handle
        self.state = _locate(self._engine)
        self.state_address = ctypes.addressof(self.state)
        _check_registers(self._engine, self.state)
        _prepare(self.state, is64, windows)
        self._page = mmap.mmap(-1, PAGE_SIZE)
        self._page_host = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self.map(SYSTEM_PAGE, PAGE_SIZE, self._page_host)
        self.poke(_RESUME, _trap_always(RESUME_TRAP), 0x01000000)
        self.stop_function = ctypes.cast(uc.library.uc_emu_stop, ctypes.c_void_p).value or 0
        self.control_function = ctypes.cast(uc.library.uc_ctl, ctypes.c_void_p).value or 0
        self.flush_code = uc.UC_CTL_TLB_FLUSH | uc.UC_CTL_IO_WRITE << 30
        _self_test(self)
        # Kind of the last faulting access if the engine itself refused it: the translation hook is
        # not asked about addresses beyond those that the engine can translate (2^44).
        self.refused: MemoryAccess | None = None
        if Cpu._fault_offset is None:
            Cpu._fault_offset = _find_fault_address(self) - self.handle
        self._fault_word = self.handle + Cpu._fault_offset
        _prepare(self.state, is64, windows)

    # -- memory and hooks

    def poke(self, address: int, *words: int) -> None:
        """Write instruction words into the system page."""
        data = struct.pack(f">{len(words)}I", *words)
        ctypes.memmove(self._page_host + address - SYSTEM_PAGE, data, len(data))

    def map(self, address: int, size: int, host: int) -> None:
        """Let the engine reach `size` bytes of host memory at guest `address`."""
        try:
            self._engine.map(address, size, host)
        except uc.UnicornError as error:
            raise EngineError(f"the emulator cannot map memory at {address:#x}: {error}") from error

    def flush_translations(self) -> None:
        """Forget all page rights; to be called whenever rights shrink."""
        self._engine.flush()

    def forget_code(self, start: int, end: int) -> None:
        """Drop code translated from [start, end)."""
        self._engine.forget(start, end)

    def add_hook(
        self, kind: HookKind, function: int, user_data: int, bounds: tuple[int, int] = (1, 0)
    ) -> ctypes.c_size_t:
        """Have native code called on events at addresses in [first, last]; (1, 0) means all."""
        hook = ctypes.c_size_t(0)
        status = uc.library.uc_hook_add(self.handle, hook, kind, function, user_data, *bounds)
        if status != 0:
            raise EngineError(f"the emulator refuses a {kind.name} hook (error {status})")
        return hook

    def remove_hook(self, hook: ctypes.c_size_t) -> None:
        """Remove a hook; code that was translated with it is dropped."""
        status = uc.library.uc_hook_del(self.handle, hook)
        if status != 0:
            raise EngineError(f"the emulator does not remove a hook (error {status})")

    def translate(self, pc: int, npc: int) -> int:
        """Translate the block at (pc, npc) with the hooks that there are; return its bytes."""
        # 0 where the engine cannot. What has been translated already stays as it is.
        state = self.state
        before = int(state.pc), int(state.npc)
        state.pc, state.npc = pc, npc
        try:
            return int(self._engine.translated(pc).size)
        except uc.UnicornError:
            return 0
        finally:
            state.pc, state.npc = before

    # -- running

    def run(self, pc: int, npc: int) -> Stop:
        """Execute from (pc, npc) until something stops it."""
        # Where npc is not pc + 4, the start is a trap in the system page that the interrupt hook
        # answers by setting (pc, npc): hooks see `RESUME_TRAP`.
        start = pc if npc == pc + 4 else _RESUME
        try:
            self._engine.start(start, _UNTIL)
        except uc.UnicornError as error:
            if error.number == uc.UC_ERR_INSN_INVALID:
                return Stop.ILLEGAL
            if error.number == uc.UC_ERR_EXCEPTION:
                self.refused = None
                return Stop.FAULT
            if error.number in _REFUSALS:
                self.refused = _REFUSALS[error.number]
                return Stop.FAULT
            raise EngineError(f"the emulator stopped at {self.state.pc:#x}: {error}") from error
        return Stop.REQUESTED

    @property
    def state_offset(self) -> int:
        """Bytes from where the handle's `PROCESSOR_WORD` leads to the state structure."""
        word = ctypes.c_uint64.from_address(self.handle + PROCESSOR_WORD).value
        return self.state_address - word

    def note_traps(self, function: int) -> None:
        """Have a native function note each trap's pc for `trap_pc`; raises `EngineError`."""
        # `function`: C address of `bool(handle, int number)`, which copies pc to
        # `trap_states[0].tpc`, and says whether the trap is to end the run with `Stop.ILLEGAL`. The
        # error is raised where the engine does not call it.
        ctypes.c_uint64.from_address(self.handle + _STOP_WORD).value = function
        _check_trap_pc(self)

    @property
    def trap_pc(self) -> int:
        """Address of the instruction that made the last trap."""
        return int(self.state.trap_states[0].tpc)

    def stop(self) -> None:
        """Stop a run from within a hook (takes effect at the next block)."""
        self._engine.stop()

    @property
    def fault_address(self) -> int:
        """Exact address of the access that the last `Stop.FAULT` refused."""
        return ctypes.c_uint64.from_address(self._fault_word).value

    # -- registers

    def window(self) -> ctypes.Array[ctypes.c_uint64]:
        """Return the current window: %o0-7, %l0-7, %i0-7 at 0, 8, 16; live."""
        return (ctypes.c_uint64 * 24).from_address(self.state.window)

    def register(self, number: int) -> int:
        """Return integer register 0..31 (%g, %o, %l, %i), full width."""
        if number < 8:
            return int(self.state.globals[number]) if number else 0
        return int(self.window()[number - 8])

    def set_register(self, number: int, value: int) -> None:
        """Set integer register 0..31; %g0 stays zero."""
        if number >= 8:
            self.window()[number - 8] = value
        elif number:
            self.state.globals[number] = value

    def set_fp_word(self, number: int, value: int) -> None:
        """Set single-precision register %f0..%f31."""
        shift = 0 if number & 1 else 32
        old = self.state.fp[number >> 1] & ~(0xFFFFFFFF << shift)
        self.state.fp[number >> 1] = old | (value & 0xFFFFFFFF) << shift

    def set_fsr(self, value: int) -> None:
        """Set the floating-point state register, rounding direction included."""
        self.state.fsr = value
        self.state.fp_status[1] = (0, 3, 2, 1)[value >> 30 & 3]

    # -- threads

    def save(self) -> tuple[bytes, ...]:
        """Return all that a user program has in the processor, for `load`."""
        return tuple(ctypes.string_at(self.state_address + at, size) for at, size in _USER_STATE)

    def load(self, saved: tuple[bytes, ...]) -> None:
        """Put what `save` returned into the processor; not while a block executes."""
        for (at, size), data in zip(_USER_STATE, saved, strict=True):
            ctypes.memmove(self.state_address + at, data, size)

    # -- windows

    def sync_wrapped(self, *, to_copy: bool) -> None:
        """Copy the outs of the last window, which live twice: file -> engine's copy, or back."""
        state, top = self.state, self.windows * REGISTERS_PER_WINDOW
        if state.cwp == self.windows - 1:
            source, target = (0, top) if to_copy else (top, 0)
            state.registers[target : target + 8] = state.registers[source : source + 8]

    def window_stack_pointer(self, window: int) -> int:
        """Return window's %sp with the bias added, masked: where its registers are saved."""
        value = self.state.registers[window * REGISTERS_PER_WINDOW + 6]
        return int(value + self.stack_bias) & self.address_mask

    def window_bytes(self, window: int) -> bytes:
        """Return %l0-7, %i0-7 of a window as they are saved on the stack."""
        values = [self.state.registers[place] & self.address_mask for place in self._places(window)]
        return self._window_layout.pack(*values)

    def set_window_bytes(self, window: int, data: bytes) -> None:
        """Set %l0-7, %i0-7 of a window from their saved form."""
        values = self._window_layout.unpack(data)
        for place, value in zip(self._places(window), values, strict=True):
            self.state.registers[place] = value

    def _places(self, window: int) -> list[int]:
        first, total = window * REGISTERS_PER_WINDOW + 8, self.windows * REGISTERS_PER_WINDOW
        return [place % total for place in range(first, first + 16)]

    def drop_oldest_window(self) -> None:
        """Take the oldest caller's window out of the register file (it has been saved)."""
        self.state.canrestore -= 1
        self.state.cansave += 1

    def oldest_window(self) -> int:
        """Return the number of the oldest caller's window (canrestore > 0)."""
        return int(self.state.cwp + self.state.canrestore) % self.windows


def is_in_engine(frame: FrameType | None) -> bool:
    """Whether the innermost frame of a thread is that in which the engine's native code runs."""
    return frame is not None and frame.f_code is uc.Engine.start.__code__


# -- making an engine


@cache
def _correct_nans() -> None:
    # Once for the process: the engine's arithmetic is shared by all engines.
    for name, function in nans.STANDS_FOR.items():
        own = ctypes.cast(getattr(uc.library, f"{name}_sparc64"), ctypes.c_void_p).value or 0
        function(*(own, 0, 0)[: function.arguments - 1], 0)
    uc.redirect({f"{name}_sparc64": each.address for name, each in nans.STANDS_FOR.items()})


def _open_engine() -> uc.Engine:
    try:
        return uc.Engine()
    except uc.UnicornError as error:
        raise EngineError(f"this unicorn has no usable SPARC64 engine: {error}") from error


def _refuse(what: str) -> EngineError:
    from importlib.metadata import version

    return EngineError(
        f"unicorn {version('unicorn')} is not a build that simprof knows ({what}): "
        "install unicorn 2.1.4"
    )


def _require(test: str, results: Mapping[str, bool]) -> None:
    for what, holds in results.items():
        if not holds:
            raise _refuse(f"{test}: {what}")


# The engine's context is saved into a buffer of our own. (On SPARC64 Unicorn declares that context
# as empty; a copy of its header with the size filled in makes the same call save everything.)
def _read_context(engine: uc.Engine) -> bytes:
    original = engine.context()
    if original is None:
        raise _refuse("context_save gives no context")
    (declared,) = struct.unpack_from("<Q", original)
    header = len(original) - declared
    if not 8 <= header <= 4096:
        raise _refuse("the context's header has changed")
    size = max(declared, CpuState.irq_manager.offset)
    buffer = ctypes.create_string_buffer(header + size)
    ctypes.memmove(buffer, original, header)
    struct.pack_into("<Q", buffer, 0, size)
    status = uc.library.uc_context_save(engine.handle, buffer)
    if status != 0:
        raise _refuse("context_save fails")
    return bytes(buffer)


# Finds magic values just written to %g1..%g7 in the context, and from the window pointer saved
# beside them computes where the live structure is.
def _locate(engine: uc.Engine) -> CpuState:
    for number, value in enumerate(_MAGIC, start=1):
        engine.set_register(uc.UC_SPARC_REG_G0 + number, value)
    saved = _read_context(engine)
    pattern = struct.pack("<7Q", *_MAGIC)
    place = saved.find(pattern)
    if place < 8 or saved.find(pattern, place + 1) >= 0:
        raise _refuse("the global registers are not in the context")
    image = saved[place - 8 :]
    if len(image) < CpuState.xcc.offset:
        raise _refuse("the context is too small")
    snapshot = CpuState.from_buffer_copy(image.ljust(ctypes.sizeof(CpuState), b"\0"))
    if snapshot.cwp >= MAX_WINDOWS:
        raise _refuse("the window number is out of range")
    window = snapshot.cwp * REGISTERS_PER_WINDOW * 8
    address = snapshot.window - CpuState.registers.offset - window
    if address <= 0 or address % 8 or _readable_from(address) < ctypes.sizeof(CpuState):
        raise _refuse("the window pointer does not lead to the registers")
    state = CpuState.from_address(address)
    _check_identity(engine, state, snapshot)
    return state


def _readable_from(address: int) -> int:
    # Return how many bytes from `address` on the process may read and write.
    end = address
    with Path("/proc/self/maps").open("rb") as maps:
        for line in maps:
            extent, rights = line.split(maxsplit=2)[:2]
            start, stop = (int(part, 16) for part in extent.split(b"-"))
            if start > end:
                break
            if end < stop and rights.startswith(b"rw"):
                end = stop
    return end - address


# Compares what the structure says with what is known otherwise: the engine's handle, version words,
# and (`_check_registers`) registers written on one side and read on the other.
def _check_identity(engine: uc.Engine, state: CpuState, snapshot: CpuState) -> None:
    version = state.definition.iu_version | state.maxtl << 8 | (state.nwindows - 1)
    checks = {
        "engine handle": state.engine == engine.handle,
        "globals": tuple(state.globals[1:8]) == _MAGIC,
        "window pointer": state.window == snapshot.window,
        "number of windows": state.nwindows == state.definition.nwindows == 8,
        "trap levels": state.maxtl == state.definition.maxtl and state.tl == 0,
        "PSTATE": state.pstate == 0,
        "version register": state.version == version,
    }
    _require("state check failed", checks)
    name = state.definition.name  # safe to follow: the checks above hold
    if not name or not name.startswith(_KNOWN_CPUS):
        raise _refuse("state check failed: CPU name")


def _check_registers(engine: uc.Engine, state: CpuState) -> None:
    state.globals[3] = 0xABCDEF
    engine.set_register(uc.UC_SPARC_REG_O5, 0x777)
    engine.set_register(uc.UC_SPARC_REG_PC, 0x12344)
    output = state.registers[state.cwp * REGISTERS_PER_WINDOW + 5]
    both = engine.register(uc.UC_SPARC_REG_G0 + 3) == 0xABCDEF and output == 0x777
    both = both and (state.pc, state.npc) == (0x12344, 0x12348)
    _require("state check failed", {"registers do not agree": both})


# Sets user mode with FPU, windows and address width.
def _prepare(state: CpuState, is64: bool, windows: int) -> None:
    for array in (state.globals, state.registers, state.fp):
        ctypes.memset(ctypes.addressof(array), 0, ctypes.sizeof(array))
    state.pstate = Pstate.PEF | (0 if is64 else Pstate.AM)
    state.fprs = FPRS_FEF
    state.definition.features |= FEATURE_QUAD_FLOAT
    state.nwindows = windows
    state.cwp = 0
    state.window = ctypes.addressof(state) + CpuState.registers.offset
    state.cansave = windows - 2
    state.cleanwin = windows
    state.canrestore = state.otherwin = state.wstate = 0
    state.asi = ASI_PRIMARY_NO_FAULT
    state.y = state.fsr = state.gsr = 0
    state.psr = state.xcc = 0
    state.cc_op = 1
    state.fp_status[1] = 0


_TRANSLATE = ctypes.CFUNCTYPE(
    ctypes.c_bool,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_void_p,
)
_INTERRUPT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)

_SAVE = 0x81E00000  # save %g0, %g0, %g0
_RESTORE = 0x81E80000
_NOP = 0x01000000


def _alu(op3: int, rd: int, rs1: int, rs2: int) -> int:
    return 2 << 30 | rd << 25 | op3 << 19 | rs1 << 14 | rs2


def _load(op3: int, rd: int, offset: int) -> int:
    return 3 << 30 | rd << 25 | op3 << 19 | 1 << 14 | 1 << 13 | offset


# The self-test executes a nest of saves and restores, floating point, and a carry chain.
def _self_test_program(windows: int) -> tuple[int, ...]:
    move_down = _alu(0x02, 11, 0, 27)  # mov %i3, %o3
    nest = [word for _ in range(windows - 2) for word in (_SAVE, move_down)]
    return (
        _load(0x23, 0, 0),  # ldd [%g1], %f0
        _load(0x23, 2, 8),  # ldd [%g1 + 8], %f2
        _alu(0x34, 4, 0, 0x42 << 5 | 2),  # faddd %f0, %f2, %f4
        _alu(0x34, 8, 8, 0x43 << 5 | 8),  # faddq %f8, %f8, %f8
        _load(0x21, 0, 16),  # ld [%g1 + 16], %fsr
        _alu(0x02, 11, 0, 1 << 13 | 5),  # mov 5, %o3
        *nest,
        _alu(0x02, 3, 0, 11),  # mov %o3, %g3
        *(_RESTORE,) * (windows - 2),
        _alu(0x10, 8, 2, 2),  # addcc %g2, %g2, %o0
        _alu(0x08, 9, 0, 0),  # addc %g0, %g0, %o1
        _trap_always(_TEST_TRAP),
        _NOP,
    )


def _self_test(cpu: Cpu) -> None:
    state = cpu.state
    program = _self_test_program(cpu.windows)
    cpu.poke(_TEST_CODE, *program)
    cpu.poke(_TEST_DATA, 0x3FF80000, 0, 0x40040000, 0, 0xC0000000)  # 1.5, 2.5, round down
    state.pstate = Pstate.PEF
    state.globals[1], state.globals[2] = _TEST_DATA, 0xFFFFFFFF
    traps: list[tuple[int, int]] = []

    def interrupt(handle: int, number: int, user_data: int) -> None:
        traps.append((number, state.pc))
        cpu.stop()

    callback = _INTERRUPT(interrupt)
    with _temporary_hook(cpu, HookKind.INTERRUPT, callback):
        cpu.run(_TEST_CODE, _TEST_CODE + 4)
    results = {
        "traps": traps == [(_TEST_TRAP, _TEST_CODE + 4 * len(program) - 4)],
        "floating point": state.fp[2] == 0x4010000000000000,  # 4.0
        "rounding direction": state.fp_status[1] == 1,
        "windows": (state.cwp, state.canrestore, state.globals[3]) == (0, 0, 5),
        "carry": (cpu.register(8), cpu.register(9)) == (0x1FFFFFFFE, 1),
        "condition codes": read_condition_codes(state) == (0b1001, 0),
    }
    _require("self-test failed", results)


@contextmanager
def _temporary_hook(cpu: Cpu, kind: HookKind, callback: Any) -> Iterator[None]:
    hook = cpu.add_hook(kind, ctypes.cast(callback, ctypes.c_void_p).value or 0, 0)
    try:
        yield
    finally:
        uc.library.uc_hook_del(cpu.handle, hook)


# A trap is made to see that the engine asks a function of ours whether a trap stops it
# (`Cpu.note_traps`), instead of its own: it asks before it forgets where the trap happened.
def _check_trap_pc(cpu: Cpu) -> None:
    callback = _INTERRUPT(lambda handle, number, user_data: cpu.stop())
    cpu.poke(_TEST_CODE, _trap_always(_TEST_TRAP), _NOP)
    cpu.forget_code(SYSTEM_PAGE, SYSTEM_PAGE + PAGE_SIZE)
    with _temporary_hook(cpu, HookKind.INTERRUPT, callback):
        cpu.run(_TEST_CODE, _TEST_CODE + 4)
    if cpu.trap_pc != _TEST_CODE:
        raise _refuse("a trap does not give its pc")
    cpu.flush_translations()


# Finds the engine's record of the last faulting address by making a fault.
def _find_fault_address(cpu: Cpu) -> int:
    def translate(handle: int, address: int, kind: int, result: Any, user_data: int) -> bool:
        result[0], result[1] = address, uc.UC_PROT_READ | uc.UC_PROT_EXEC
        return bool(address == SYSTEM_PAGE)

    cpu.poke(_TEST_CODE, _load(0x0B, 0, 0) & ~(1 << 13), _NOP)  # ldx [%g1], %g0
    cpu.forget_code(SYSTEM_PAGE, SYSTEM_PAGE + PAGE_SIZE)
    cpu.flush_translations()
    size = min(_HANDLE_SEARCH, _readable_from(cpu.handle))
    candidates = set(range(cpu.handle, cpu.handle + size - 7, 8))
    callback = _TRANSLATE(translate)
    with _temporary_hook(cpu, HookKind.TRANSLATION, callback):
        for address in (0x5A5A5A5A5A58, 0x123456789AB8):
            cpu.state.globals[1] = address
            if cpu.run(_TEST_CODE, _TEST_CODE + 4) is not Stop.FAULT:
                raise _refuse("a bad access makes no fault")
            candidates = {
                candidate
                for candidate in candidates
                if ctypes.c_uint64.from_address(candidate).value == address
            }
    if len(candidates) != 1:
        raise _refuse("the faulting address is not kept")
    if cpu.state.pc != _TEST_CODE:
        raise _refuse("a fault does not give its pc")
    cpu.flush_translations()
    return candidates.pop()
