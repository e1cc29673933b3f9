"""Native hooks: what the engine calls while it runs, compiled by numba."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu import cpu_state, crash
from simprof.simulator.cpu.address_space import CHANGED, EXECUTED, SHADOWED, Protection
from simprof.simulator.cpu.compiled import c_function, types
from simprof.simulator.cpu.native import (
    CAN_RESTORE,
    CAN_SAVE,
    CWP,
    READ,
    REGISTERS,
    WRITE,
    call1,
    call2,
    call_control,
    copy_wrapped,
    get_word,
    host_range,
    kept_word,
    load8,
    load32,
    load64,
    move_window,
    native,
    pointer_value,
    region_of,
    set_word,
    store8,
    store32,
    store64,
    swap32,
)
from simprof.simulator.isa.sparc import STACK_BIAS_64


class ClockWord(IntEnum):
    """Words of the clock, int64[32]: shared by block hook, traps and machine."""

    INSTRUCTIONS = 0  # executed so far, the current block counted whole
    LIMIT = 1  # stop before a block that would pass it; -1: stop now
    BLOCK_ADDRESS = 2
    BLOCK_SIZE = 3  # bytes
    STOPPED = 4  # the hook called the stop function
    STOP_FUNCTION = 5  # C address of uc_emu_stop
    ENGINE = 6  # its argument
    NPC_POINTER = 7  # host address of npc
    RESUME_PC = 8  # where execution resumes inside a block
    RESUME_END = 9  # end of that block
    STATE = 10  # the observer's state; RESUME_STATE: the next event is a continuation
    RESUMED_STATE = 11  # STATE before that
    WINDOW_POINTER = 12  # host address of the pointer to the current window's %o0
    INTERRUPTED = 13  # one of Interruption
    REDIRECTED = 16  # INSTRUCTIONS when the program was last sent elsewhere without a jump
    CAN_SAVE = 17  # host address of how many windows `save` can still take
    CAN_RESTORE = 18  # and `restore`; both of 32 bits
    WINDOW_MOVER = 29  # C address of `move_window_ahead`
    TRAP_WORDS = 30  # its argument
    ENDINGS = 31  # address of the words of `crash.EndingWord`; 0: there are none


RESUME_STATE: Final = 1
CLOCK_WORDS: Final = 32


class Interruption(IntEnum):
    """Why LIMIT was set to -1 from outside."""

    TIMEOUT = 2
    ERROR = 3  # a Python callback failed; the exception is kept
    SIGNAL = 256  # and the number of the signal: Ctrl-C, or another one


class TrapWord(IntEnum):
    """Words of the trap hook's state, int64[16]."""

    CLOCK = 0  # address of the clock
    CPU = 1  # address of the CpuState
    REGIONS = 2  # address of the region table
    PYTHON = 3  # void(uint32): traps that are not handled natively
    SPILLS = 4  # counts
    FILLS = 5
    IS64 = 6
    WINDOWS = 7
    CONTEXTS = 8  # void(uint64 these words, uint64 number): of contexts; 0: to Python
    SIGNALS = 9  # address of the mask of blocked signals
    ON_CONTEXT = 10  # void(uint64 OBSERVER): a context was set; TELL_NOBODY, TELL_PYTHON
    OBSERVER = 11
    OPERATIONS = 12  # void(uint64 these words, uint64 number): of instructions; 0: to Python
    HELPERS = 13  # address of the addresses of `quads.HELPERS` of the engine


TELL_NOBODY: Final = 0
TELL_PYTHON: Final = 1


class Trap(IntEnum):
    """Trap numbers that the engine reports (SPARC V9 7.5, JPS1 7.5)."""

    ILLEGAL_INSTRUCTION = 0x10
    PRIVILEGED_OPCODE = 0x11
    FPU_DISABLED = 0x20
    FP_EXCEPTION = 0x21
    FP_OTHER = 0x22
    TAG_OVERFLOW = 0x23
    DIVISION_BY_ZERO = 0x28
    DATA_ACCESS = 0x30
    DATA_ACCESS_MMU = 0x31
    UNALIGNED = 0x34
    UNALIGNED_LDDF = 0x35
    UNALIGNED_STDF = 0x36
    PRIVILEGED_ACTION = 0x37
    DATA_MISS = 0x68
    SPILL = 0x80
    FILL = 0xC0
    WINDOWS_END = 0x100
    SOFTWARE = 0x100
    BREAKPOINT = 0x101
    SOFTWARE_DIVISION = 0x102
    FLUSH_WINDOWS = 0x103
    SYSTEM_CALL_32 = 0x110
    SYSTEM_CALL_64 = 0x16D
    OPERATION = 0x17D  # in place of an instruction that the engine computes wrongly
    GET_CONTEXT = 0x16E
    SET_CONTEXT = 0x16F


class FillWord(IntEnum):
    """Words of the translation hook's state, int64[16]."""

    REGIONS = 0
    FAULT_ACCESS = 1  # Access of the last refused request, or 0
    FAULT_RIGHTS = 2  # page byte of the page then
    FILLS = 3  # count
    NEXT_FLUSH = 4  # count at which the engine's cache is next flushed, so that it grows
    STEP = 5  # fills between flushes: doubles up to MOST_FILLS
    FLUSH_FUNCTION = 6  # C address of uc_ctl
    FLUSH_ENGINE = 7  # its arguments
    FLUSH_CODE = 8
    PYTHON = 9  # void(uint64 page): a page that needs a shadow is about to be executed


class CodeWord(IntEnum):
    """Words of the code hook's state, int64[8 + 2 * ranges]: then (start, end) of each range."""

    REGIONS = 0
    PYTHON = 1  # void(uint64 address, uint32 bytes): code that must be looked at
    COUNT = 2
    FIRST = 8


MAX_CODE_RANGES: Final = 4096
FIRST_FLUSH: Final = 1000
MOST_FILLS: Final = 1 << 20
_PC: Final = cpu_state.CpuState.pc.offset
_TRAP_PC: Final = cpu_state.CpuState.trap_states.offset  # tpc of the first
_NPC: Final = cpu_state.CpuState.npc.offset
_TRAPS: Final = 0x10000  # numbers from here on are the engine's own reasons to leave its code
_REMEMBER: Final = -2  # a number that nothing has
_RIGHT_EXECUTE: Final = int(Protection.EXECUTE)
_ACCESS_READ: Final = 16
_ACCESS_WRITE: Final = 17
_ACCESS_FETCH: Final = 18


# -- blocks


# Each is a C function pointer (`address`) with the state it works on behind `user_data`: blocks are
# counted (`count_block`), pages granted (`fill_translation`), code looked at (`check_code`), traps
# noted and answered (`note_trap`, `handle_trap`), signals that stop a run taken (`stopped_by`). The
# compiled code is cached on disk, so it holds no addresses: it finds everything through the arrays
# below, Python callbacks included. Indices and addresses are unsigned throughout.
#
# The block hook that is used where no observer is given.
@c_function(types.void(types.voidptr, types.uint64, types.uint32, types.voidptr))
def count_block(engine: Any, address: Any, size: Any, user_data: Any) -> None:
    """Count a block's instructions; stop before it where the limit would be passed."""
    clock = pointer_value(user_data)
    total = np.int64(get_word(clock, ClockWord.INSTRUCTIONS)) + np.int64(size >> 2)
    if total > np.int64(get_word(clock, ClockWord.LIMIT)):
        npc = load64(get_word(clock, ClockWord.NPC_POINTER))
        if npc == address + np.uint64(4):
            set_word(clock, ClockWord.STOPPED, np.uint64(1))
            call1(get_word(clock, ClockWord.STOP_FUNCTION), get_word(clock, ClockWord.ENGINE))
            return
    set_word(clock, ClockWord.INSTRUCTIONS, np.uint64(total))
    set_word(clock, ClockWord.BLOCK_ADDRESS, address)
    set_word(clock, ClockWord.BLOCK_SIZE, np.uint64(size))


# -- memory


@native(types.void(types.uint64))
def _count_fill(state: Any) -> None:
    # Where fills are frequent, flush the engine's cache: it starts with 256 entries and grows only
    # then. Flushing in the middle of a fill is allowed: the engine looks its entry up again
    # afterwards.
    fills = get_word(state, FillWord.FILLS) + np.uint64(1)
    set_word(state, FillWord.FILLS, fills)
    if fills == get_word(state, FillWord.NEXT_FLUSH):
        step = get_word(state, FillWord.STEP)
        if step < np.uint64(MOST_FILLS):
            step *= np.uint64(2)
        set_word(state, FillWord.STEP, step)
        set_word(state, FillWord.NEXT_FLUSH, fills + step)
        call_control(
            get_word(state, FillWord.FLUSH_FUNCTION),
            get_word(state, FillWord.FLUSH_ENGINE),
            get_word(state, FillWord.FLUSH_CODE),
        )


@native(types.boolean(types.uint32))
def is_reserved(word: Any) -> Any:
    """Whether a word is BPr, MOVr or FMOVr with a condition that is reserved (SPARC V9 A.3)."""
    # The engine has no such condition, and dies of translating it. It takes a compare-and-branch
    # (CBcond) for the BPr that it would be without bit 28, which V9 reserves, too.
    if word & np.uint32(0xD1C00000) == np.uint32(0x10C00000):
        return True
    if word & np.uint32(0xC7C00000) == np.uint32(0x00C00000):
        return True
    if word & np.uint32(0xC1F80C00) == np.uint32(0x81780000):
        return True
    size = (word >> np.uint32(5)) & np.uint32(31)
    of_floats = word & np.uint32(0xC1F82C00) == np.uint32(0x81A80000)
    return of_floats and size >= np.uint32(5) and size <= np.uint32(7)


# (mask, value) of words that `operations` may do: VIS, stq, fcmpq and fcmpeq, fsmuld, fdmulq,
# fstoq, fdtoq, sums, products and quotients of quads.
_OPERATIONS: Final = (
    *((0xC1F80000, 0x81B00000), (0xC1F80000, 0xC1300000), (0xC1F83F60, 0x81A80A60)),
    *((0xC1F83FE0, 0x81A00D20), (0xC1F83FE0, 0x81A00DC0), (0xC1F83FE0, 0x81A019A0)),
    *((0xC1F83FE0, 0x81A019C0), (0xC1F83E60, 0x81A00860)),
)


@native(types.boolean(types.uint64))
def _needs_shadow(host: Any) -> Any:
    # Whether a page holds reserved words, or those that `operations` may do.
    for offset in range(0, PAGE_SIZE, 4):
        word = swap32(load32(host + np.uint64(offset)))
        if is_reserved(word):
            return True
        for mask, value in _OPERATIONS:
            if word & np.uint32(mask) == np.uint32(value):
                return True
    return False


@c_function(types.boolean(types.voidptr, types.uint64, types.int32, types.voidptr, types.voidptr))
def fill_translation(engine: Any, address: Any, kind: Any, result: Any, user_data: Any) -> Any:
    """Grant a page's rights, or refuse."""
    # Reading and writing are granted together (the engine's translation cache has one entry for
    # both).
    # Execution is granted only on a fetch: a page that can be executed is slow to write to. From a
    # page's first fetch on it is granted always, so that the engine sees writes to code that it has
    # translated. Our own page can be executed and nothing else.
    # What is fetched from a page that `_needs_shadow` is fetched from its shadow.
    state = pointer_value(user_data)
    _count_fill(state)
    if kind == _ACCESS_READ:
        need = np.uint8(READ)
    elif kind == _ACCESS_WRITE:
        need = np.uint8(WRITE)
    else:
        need = np.uint8(_RIGHT_EXECUTE)
    row = region_of(get_word(state, FillWord.REGIONS), address)
    rights = np.uint8(0)
    if row != np.uint64(0):
        offset = address - load64(row)
        page = load64(row + np.uint64(24)) + (offset >> np.uint64(13))
        rights = load8(page)
        if rights & need != np.uint8(0):
            if kind == _ACCESS_FETCH:
                if rights & np.uint8(EXECUTED | CHANGED) == np.uint8(0):
                    start = offset & np.uint64(0xFFFFFFFFFFFFE000)
                    if _needs_shadow(load64(row + np.uint64(16)) + start):
                        call1(get_word(state, FillWord.PYTHON), load64(row) + start)
                        rights = load8(page)
                rights |= np.uint8(EXECUTED)
                store8(page, rights)
            granted = rights & np.uint8(READ | WRITE)
            place = address
            if rights & np.uint8(SHADOWED) != np.uint8(0):
                if kind == _ACCESS_FETCH:
                    granted = np.uint8(_RIGHT_EXECUTE)
                    place += np.uint64(cpu_state.SHADOWS)
            elif rights & np.uint8(EXECUTED) != np.uint8(0):
                granted |= rights & np.uint8(_RIGHT_EXECUTE)
            store64(pointer_value(result), place)
            store32(pointer_value(result) + np.uint64(8), np.uint32(granted))
            return True
    if address == np.uint64(cpu_state.SYSTEM_PAGE) and kind == _ACCESS_FETCH:
        store64(pointer_value(result), address)
        store32(pointer_value(result) + np.uint64(8), np.uint32(_RIGHT_EXECUTE))
        return True
    set_word(state, FillWord.FAULT_ACCESS, np.uint64(kind))
    set_word(state, FillWord.FAULT_RIGHTS, np.uint64(rights))
    return False


@c_function(types.void(types.voidptr, types.voidptr, types.voidptr, types.voidptr))
def check_code(engine: Any, block: Any, previous: Any, user_data: Any) -> None:
    """Pass code of the program that cannot have changed; give the rest to Python."""
    state = pointer_value(user_data)
    address = load64(pointer_value(block))
    size = np.uint64(load32(pointer_value(block) + np.uint64(8)) >> np.uint32(16))
    row = state + np.uint64(8 * CodeWord.FIRST)
    for _ in range(get_word(state, CodeWord.COUNT)):
        if load64(row) <= address and address + size <= load64(row + np.uint64(8)):
            region = region_of(get_word(state, CodeWord.REGIONS), address)
            if region != np.uint64(0):
                page = (address - load64(region)) >> np.uint64(13)
                bits = load8(load64(region + np.uint64(24)) + page)
                if bits & np.uint8(CHANGED) == np.uint8(0):
                    return
            break
        row += np.uint64(16)
    call2(get_word(state, CodeWord.PYTHON), address, size)


# -- window traps


# Called by the engine at each trap before the interrupt hook, and before it sets pc = npc.
@c_function(types.boolean(types.uint64, types.int32))
def note_trap(engine: Any, number: Any) -> Any:
    """Keep where a trap happened; say whether it ends the run, as an illegal instruction does."""
    # Called with number -2 by us: remember `Cpu.state_offset`.
    offset = kept_word(number == np.int32(_REMEMBER), engine)
    if number == np.int32(_REMEMBER):
        return False
    if number >= np.int32(0) and number < np.int32(_TRAPS):
        cpu = load64(engine + np.uint64(cpu_state.PROCESSOR_WORD)) + offset
        store64(cpu + np.uint64(_TRAP_PC), load64(cpu + np.uint64(_PC)))
    return number == np.int32(Trap.ILLEGAL_INSTRUCTION)


def remember_state(offset: int) -> None:
    """Tell `note_trap` what `Cpu.state_offset` is, which is the same for all engines."""
    kind = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint64, ctypes.c_int32)
    kind(address_of(note_trap))(offset, _REMEMBER)


@native(types.uint64(types.uint64, types.uint64))
def saved_at(state: Any, window: Any) -> Any:
    """Address in the program at which `window` is saved: its %sp without the bias."""
    position = window * np.uint64(cpu_state.REGISTERS_PER_WINDOW) + np.uint64(6)
    cpu = get_word(state, TrapWord.CPU)
    stack = load64(cpu + np.uint64(REGISTERS) + position * np.uint64(8))
    if get_word(state, TrapWord.IS64) != np.uint64(0):
        return stack + np.uint64(STACK_BIAS_64)
    return stack & np.uint64(0xFFFFFFFF)


@native(types.boolean(types.uint64, types.boolean))
def _spill_or_fill(state: Any, fill: Any) -> Any:
    # Move one window and count it; False where its place on the stack cannot be used.
    cpu = get_word(state, TrapWord.CPU)
    windows = get_word(state, TrapWord.WINDOWS)
    is64 = get_word(state, TrapWord.IS64)
    can_restore, can_save = cpu + np.uint64(CAN_RESTORE), cpu + np.uint64(CAN_SAVE)
    copy_wrapped(cpu, windows, False)
    distance = np.uint64(1) if fill else np.uint64(load32(can_restore))
    window = (np.uint64(load32(cpu + np.uint64(CWP))) + distance) % windows
    stack, size = saved_at(state, window), np.uint64(64) + np.uint64(64) * is64
    right = np.uint64(READ if fill else WRITE)
    host = host_range(get_word(state, TrapWord.REGIONS), stack, size, right)
    in_one_page = (stack & np.uint64(PAGE_SIZE - 1)) + size <= np.uint64(PAGE_SIZE)
    if host == np.uint64(0) or stack & np.uint64(7) != np.uint64(0) or not in_one_page:
        return False
    move_window(cpu, windows, window, host, np.int64(fill) + 2 * np.int64(is64))
    change = np.uint32(1) if fill else np.uint32(0xFFFFFFFF)
    store32(can_restore, np.uint32(load32(can_restore) + change))
    store32(can_save, np.uint32(load32(can_save) - change))
    if fill:
        copy_wrapped(cpu, windows, True)
    count = np.uint64(TrapWord.FILLS if fill else TrapWord.SPILLS)
    set_word(state, count, get_word(state, count) + np.uint64(1))
    return True


@native(types.void(types.uint64, types.uint64))
def _resume_in_block(clock: Any, pc: Any) -> None:
    start = get_word(clock, ClockWord.BLOCK_ADDRESS)
    end = start + get_word(clock, ClockWord.BLOCK_SIZE)
    count = get_word(clock, ClockWord.INSTRUCTIONS) - ((end - pc) >> np.uint64(2))
    set_word(clock, ClockWord.INSTRUCTIONS, count)
    set_word(clock, ClockWord.RESUME_PC, pc)
    set_word(clock, ClockWord.RESUME_END, end)
    if get_word(clock, ClockWord.STATE) != np.uint64(RESUME_STATE):
        set_word(clock, ClockWord.RESUMED_STATE, get_word(clock, ClockWord.STATE))
        set_word(clock, ClockWord.STATE, np.uint64(RESUME_STATE))


# What is neither spilled nor filled here goes on to Python, or to what Python has put into
# `TrapWord.CONTEXTS` and `TrapWord.OPERATIONS`.
@c_function(types.void(types.voidptr, types.uint32, types.voidptr))
def handle_trap(engine: Any, number: Any, user_data: Any) -> None:
    """Answer window traps; give every other trap, and what fails, to Python."""
    state = pointer_value(user_data)
    if number >= np.uint32(Trap.SPILL) and number < np.uint32(Trap.WINDOWS_END):
        fill = number >= np.uint32(Trap.FILL)
        cpu = get_word(state, TrapWord.CPU)
        clock = get_word(state, TrapWord.CLOCK)
        npc = load64(cpu + np.uint64(_PC))  # the engine has moved it there
        pc = load64(cpu + np.uint64(_TRAP_PC))
        into_block = pc - get_word(clock, ClockWord.BLOCK_ADDRESS)
        if into_block < get_word(clock, ClockWord.BLOCK_SIZE) and _spill_or_fill(state, fill):
            _resume_in_block(clock, pc)
            store64(cpu + np.uint64(_PC), pc)
            store64(cpu + np.uint64(_NPC), npc)
            return
    answer = get_word(state, TrapWord.CONTEXTS)
    is_special = number == np.uint32(Trap.FLUSH_WINDOWS)
    if get_word(state, TrapWord.IS64) != np.uint64(0):
        is_special |= number == np.uint32(Trap.GET_CONTEXT) or number == np.uint32(Trap.SET_CONTEXT)
    if number == np.uint32(Trap.OPERATION):
        answer, is_special = get_word(state, TrapWord.OPERATIONS), True
    if answer != np.uint64(0) and is_special:
        call2(answer, state, np.uint64(number))
    else:
        call1(get_word(state, TrapWord.PYTHON), np.uint64(number))


@c_function(types.void(types.uint64, types.uint64, types.uint64))
def move_window_ahead(state: Any, fill: Any, unused: Any) -> None:
    """Spill or fill a window before the instruction executes that would trap for it."""
    # A trap takes the engine out of its code and back, which costs ten times what moving a window
    # does. Where the move is not possible nothing happens: the trap then says why.
    _spill_or_fill(state, fill != np.uint64(0))


# -- Ctrl-C and other signals


@c_function(types.void(types.int32, types.uint64))
def _on_signal(number: Any, argument: Any) -> None:
    # A C signal handler. Called with number -1 by us: remember the clock at `argument`.
    clock = kept_word(number == np.int32(-1), argument)
    if number == np.int32(-1) or clock == np.uint64(0):
        return
    if get_word(clock, ClockWord.INTERRUPTED) == np.uint64(0):
        set_word(clock, ClockWord.INTERRUPTED, np.uint64(Interruption.SIGNAL) + np.uint64(number))
    set_word(clock, ClockWord.LIMIT, np.uint64(0xFFFFFFFFFFFFFFFF))
    endings = get_word(clock, ClockWord.ENDINGS)
    if endings != np.uint64(0):
        again = get_word(endings, crash.EndingWord.INTERRUPTS) + np.uint64(1)
        set_word(endings, crash.EndingWord.INTERRUPTS, again)
        if again >= np.uint64(crash.LAST_INTERRUPT):
            crash.end_process(endings, np.uint64(number))


@contextmanager
def stopped_by(numbers: Sequence[int], clock: NDArray[np.int64]) -> Iterator[None]:
    """Have signals stop the run whose clock is given, for the time of a `with` block."""
    libc = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(crash.ACTION_BYTES) for number in numbers}
    crash.remember(_on_signal, clock.ctypes.data)
    action = ctypes.create_string_buffer(crash.ACTION_BYTES)  # no flags, empty mask
    ctypes.c_uint64.from_buffer(action).value = address_of(_on_signal)
    for number, previous in kept.items():
        libc.sigaction(number, action, previous)
    try:
        yield
    finally:
        for number, previous in kept.items():
            libc.sigaction(number, previous, None)
        crash.remember(_on_signal, 0)


def address_of(function: Any) -> int:
    """Return the C address of one of the hooks above."""
    return int(function.address)
