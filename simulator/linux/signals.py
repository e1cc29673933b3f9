"""Signals: what is installed, blocked and pending, and the frames that handlers run on."""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from simprof.simulator.isa.sparc import IGNORED_SIGNALS, STOP_SIGNALS


class SignalAction(Struct, frozen=True):
    """What rt_sigaction installs. `restorer` is the libc's address (the call's %o3)."""

    handler: int = 0  # 0 SIG_DFL, 1 SIG_IGN
    flags: int = 0
    mask: int = 0  # bit n - 1 blocks signal n
    restorer: int = 0


def parse_sigaction(data: bytes, restorer: int, is64: bool) -> SignalAction:
    """Decode rt_sigaction's structure (32 or 20 bytes)."""
    layout = _ACTION[is64]
    handler, flags, _ = layout.unpack_from(data)
    return SignalAction(handler, flags, parse_sigset(data[layout.size :], is64), restorer)


def sigaction(action: SignalAction, is64: bool) -> bytes:
    """Encode rt_sigaction's structure."""
    head = _ACTION[is64].pack(action.handler, action.flags, action.restorer)
    return head + sigset(action.mask, is64)


def sigset(mask: int, is64: bool) -> bytes:
    """Encode a signal set of 8 bytes; 32-bit programs have the low word first."""
    return struct.pack(">Q", mask) if is64 else struct.pack(">II", mask & 0xFFFFFFFF, mask >> 32)


def parse_sigset(data: bytes, is64: bool) -> int:
    """Decode a signal set of 8 bytes."""
    if is64:
        return int.from_bytes(data, "big")
    low, high = struct.unpack(">II", data)
    return int(low | high << 32)


class AlternateStack(Struct, frozen=True):
    """What sigaltstack sets. `flags` 2 (SS_DISABLE) where there is none."""

    address: int = 0
    flags: int = 2
    size: int = 0


# By width: handler, flags and restorer of rt_sigaction's structure, which its mask follows;
# address, flags and size of stack_t.
_ACTION = {True: struct.Struct(">QQQ"), False: struct.Struct(">III")}
STACK_LAYOUT = {True: struct.Struct(">Qi4xQ"), False: struct.Struct(">IiI")}


class Signal(IntEnum):
    """Signals that faults raise, as Linux/SPARC numbers them."""

    ILL = 4
    TRAP = 5
    EMT = 7
    FPE = 8
    KILL = 9
    BUS = 10
    SEGV = 11
    STOP = 17


SI_USER, SI_TKILL = 0, -6
_DEFAULT, _IGNORE = 0, 1

SA_ONSTACK = 0x1
SA_RESTART = 0x2
SA_RESETHAND = 0x4
SA_NODEFER = 0x20
SS_ONSTACK, SS_DISABLE = 1, 2
UNBLOCKABLE = 1 << (Signal.KILL - 1) | 1 << (Signal.STOP - 1)
_WORD = (1 << 64) - 1
SIGINFO_SIZE = 128
_FIRST_REAL_TIME = 32
MOST_QUEUED = 1024  # signals that may wait


class SignalInfo(Struct, frozen=True):
    """What siginfo says: `address` for faults, sender otherwise."""

    number: int
    code: int
    address: int | None = None
    process: int = 0
    user: int = 0
    queued: bytes | None = None  # What follows in siginfo, as sigqueue gives it, in place of these


def siginfo(info: SignalInfo, is64: bool) -> bytes:
    """Encode siginfo_t (128 bytes)."""
    word, place = ("Q", 16) if is64 else ("I", 12)
    data = struct.pack(">iii", info.number, 0, info.code).ljust(place, b"\0")
    if info.queued is not None:
        data += info.queued
    elif info.address is not None:
        data += struct.pack(f">{word}", info.address & (1 << (64 if is64 else 32)) - 1)
    else:
        data += struct.pack(">II", info.process, info.user)
    return data.ljust(SIGINFO_SIZE, b"\0")


def parse_siginfo(number: int, data: bytes, is64: bool) -> SignalInfo:
    """Decode siginfo_t, of which the number counts that is given beside it."""
    _, _, code = struct.unpack_from(">iii", data)
    return SignalInfo(number, code, queued=data[16 if is64 else 12 :])


def _added(queue: tuple[SignalInfo, ...], info: SignalInfo) -> tuple[SignalInfo, ...]:
    """Return pending signals with another one."""
    # Real-time signals wait each, up to a limit; of others the first alone.
    is_first = all(each.number != info.number for each in queue)
    several = info.number >= _FIRST_REAL_TIME and len(queue) < MOST_QUEUED
    return (*queue, info) if is_first or several else queue


def _mask(queue: tuple[SignalInfo, ...]) -> int:
    return sum({1 << (info.number - 1) for info in queue})


class ThreadSignals(Struct, frozen=True):
    """What each thread has for itself: its mask, what is pending for it alone, its other stack."""

    blocked: int = 0
    pending: tuple[SignalInfo, ...] = ()
    alternate: AlternateStack = field(default_factory=AlternateStack)

    def with_signal(self, info: SignalInfo) -> ThreadSignals:
        """Return the same with one more signal pending."""
        return replace(self, pending=_added(self.pending, info))


class SignalState:
    """Signal state of the current thread, and what all threads share."""

    def __init__(self) -> None:
        # The mask of blocked signals, where native code finds it.
        self.words = np.zeros(1, np.uint64)
        self.alternate = AlternateStack()
        # What is pending for the thread, and for whichever takes it, in the order of arrival
        self._own: tuple[SignalInfo, ...] = ()
        self._shared: tuple[SignalInfo, ...] = ()
        self._actions: dict[int, SignalAction] = {}

    @property
    def own_pending(self) -> int:
        """Mask of the signals that are pending for the thread."""
        return _mask(self._own)

    @property
    def shared_pending(self) -> int:
        """Mask of the signals that are pending for any thread."""
        return _mask(self._shared)

    @property
    def pending(self) -> int:
        """Mask of both."""
        return self.own_pending | self.shared_pending

    @property
    def queued(self) -> int:
        """How many signals are pending."""
        return len(self._own) + len(self._shared)

    def save(self) -> ThreadSignals:
        """Return what the current thread has for itself."""
        return ThreadSignals(self.blocked, self._own, self.alternate)

    def load(self, saved: ThreadSignals) -> None:
        """Let a thread be the current one that has this for itself."""
        self.blocked, self.alternate, self._own = saved.blocked, saved.alternate, saved.pending

    @property
    def blocked(self) -> int:
        """Mask of blocked signals: bit n - 1 for signal n. SIGKILL and SIGSTOP never block."""
        return int(self.words[0])

    @blocked.setter
    def blocked(self, mask: int) -> None:
        self.words[0] = mask & ~UNBLOCKABLE & _WORD

    def action(self, number: int) -> SignalAction:
        """Return what is installed for signal `number` (1..64)."""
        return self._actions.get(number, SignalAction())

    def set_action(self, number: int, action: SignalAction) -> None:
        """Install an action."""
        self._actions[number] = replace(action, mask=action.mask & ~UNBLOCKABLE)

    def on_alternate_stack(self, stack_pointer: int) -> bool:
        """Whether `stack_pointer` (bias removed) lies on the alternate stack in use."""
        stack = self.alternate
        if stack.flags & SS_DISABLE or not stack.size:
            return False
        return stack.address < stack_pointer <= stack.address + stack.size

    def post(self, info: SignalInfo, *, shared: bool = False) -> None:
        """Make a signal pending, for the current thread or, `shared`, for whichever takes it."""
        if shared:
            self._shared = _added(self._shared, info)
        else:
            self._own = _added(self._own, info)

    def take(self) -> SignalInfo | None:
        """Take the first pending signal that is neither blocked nor ignored; None without."""
        while True:
            info = self.take_of(~self.blocked)
            if info is None or not self.is_ignored(info.number):
                return info

    def take_of(self, mask: int) -> SignalInfo | None:
        """Take the first pending signal of a mask, whether or not it is blocked; None without."""
        # Lower numbers are first; of the same, the thread's own, and those that came earlier.
        number = self._first(mask)
        for queue in (self._own, self._shared):
            for info in queue:
                if info.number == number:
                    rest = tuple(each for each in queue if each is not info)
                    if queue is self._own:
                        self._own = rest
                    else:
                        self._shared = rest
                    return info
        return None

    def _first(self, mask: int) -> int | None:
        ready = self.pending & mask
        return (ready & -ready).bit_length() if ready else None

    @property
    def restarts_call(self) -> bool:
        """Whether a call that a signal has interrupted begins again, if it is one that may."""
        number = self._first(~self.blocked)
        return number is None or bool(self.action(number).flags & SA_RESTART)

    def is_ignored(self, number: int) -> bool:
        """Whether the signal's arrival does nothing."""
        handler = self.action(number).handler
        if handler == _IGNORE:
            return number not in (Signal.KILL, Signal.STOP)
        quiet = number in IGNORED_SIGNALS or number in STOP_SIGNALS
        return handler == _DEFAULT and quiet and number != Signal.STOP

    def has_handler(self, number: int) -> bool:
        """Whether the program handles the signal itself."""
        return self.action(number).handler not in (_DEFAULT, _IGNORE)

    def enter_handler(self, number: int) -> SignalAction:
        """Account for a handler's start: mask and one-shot actions. Return its action."""
        action = self.action(number)
        mask = self.blocked | action.mask
        if not action.flags & SA_NODEFER:
            mask |= 1 << (number - 1)
        self.blocked = mask
        if action.flags & SA_RESETHAND:
            self._actions[number] = replace(action, handler=_DEFAULT)
        return action


class Registers(Struct, frozen=True):
    """The registers that a frame holds. `globals` and `outs` have eight each."""

    pc: int
    npc: int
    y: int
    ccr: int  # xcc in bits 4..7, icc in bits 0..3
    asi: int
    globals: tuple[int, ...]
    outs: tuple[int, ...]
    fp: tuple[int, ...]  # 32 double registers
    fsr: int
    gsr: int
    fprs: int


class _Shape(Struct, frozen=True):
    """Offsets in bytes from the frame's start."""

    info: int
    registers: int
    context: int  # what the handler's third argument points to
    overlay: int  # tstate or psr, pc, npc, y, %g1.. as in ucontext_t
    fpu_pointer: int
    fpu: int
    upper: int  # upper halves of %g and %o, and ASI (32-bit programs)
    mask: int
    stack: int


_SHAPE_64 = _Shape(192, 320, 192, 224, 480, 528, 0, 512, 488)
_SHAPE_32 = _Shape(96, 224, 224, 376, 312, 456, 736, 304, 324)

FRAME_SIZE = 816  # bytes of a frame in either width
_FPU = ">32QQQQ"
_PSR_ICC_SHIFT = 20


# Frames are those of Linux/SPARC (arch/sparc/kernel/signal_64.c and signal32.c): a register save
# area, siginfo, the interrupted registers, the floating-point registers, the mask.
#
# The third argument of a handler is what Linux passes, the address of the siginfo (64-bit programs)
# or of the registers (32-bit programs). Programs that read it as a `ucontext_t`, as on other
# systems, find pc, npc, y and the global registers where `ucontext_t` has them, in bytes that Linux
# leaves unused; either copy of pc and npc may be changed by the handler.
class FrameFormat:
    """Writes and reads frames of programs of one width."""

    def __init__(self, is64: bool) -> None:
        self._is64 = is64
        self._shape = _SHAPE_64 if is64 else _SHAPE_32
        # Where the handler's second and third argument are in the frame.
        self.info_offset, self.context_offset = self._shape.info, self._shape.context
        self._word = "Q" if is64 else "I"
        self._mask = (1 << (64 if is64 else 32)) - 1

    def pack(
        self,
        address: int,  # of the frame
        window: bytes,  # its save area
        info: SignalInfo,
        registers: Registers,
        mask: int,
        alternate: AlternateStack,
    ) -> bytes:
        """Return a frame's bytes."""
        shape, data = self._shape, bytearray(FRAME_SIZE)
        data[: len(window)] = window
        data[shape.info : shape.info + SIGINFO_SIZE] = siginfo(info, self._is64)
        self._pack_registers(data, registers)
        struct.pack_into(f">{self._word}", data, shape.fpu_pointer, address + shape.fpu)
        values = (*registers.fp, registers.fsr, registers.gsr, registers.fprs)
        struct.pack_into(_FPU, data, shape.fpu, *values)
        data[shape.mask : shape.mask + 8] = sigset(mask, self._is64)
        stack = alternate.address, alternate.flags, alternate.size
        STACK_LAYOUT[self._is64].pack_into(data, shape.stack, *stack)
        return bytes(data)

    def _pack_registers(self, data: bytearray, registers: Registers) -> None:
        shape, mask = self._shape, self._mask
        saved = [value & mask for value in (*registers.globals, *registers.outs)]
        control = [value & mask for value in (registers.pc, registers.npc, registers.y)]
        if self._is64:
            state = registers.ccr << 32 | registers.asi << 24
            struct.pack_into(">16Q", data, shape.registers, *saved)
            struct.pack_into(">3Q", data, shape.registers + 128, state, *control[:2])
            struct.pack_into(">II", data, shape.registers + 152, control[2] & 0xFFFFFFFF, 0)
            overlay = [state, *control, *saved[1:9]]
        else:
            state = (registers.ccr & 15) << _PSR_ICC_SHIFT
            struct.pack_into(">20I", data, shape.registers, state, *control, *saved)
            upper = [value >> 32 for value in (*registers.globals, *registers.outs)]
            both = registers.ccr << 8 | registers.asi
            struct.pack_into(">17I", data, shape.upper, *upper, both)
            overlay = [state, *control, *saved[1:16]]
        struct.pack_into(f">{len(overlay)}{self._word}", data, shape.overlay, *overlay)

    def unpack(
        self, data: bytes, delivered: Registers | None
    ) -> tuple[Registers, int, AlternateStack]:
        """Return registers, mask and other stack; `delivered`: the registers that were packed."""
        # Of the two copies of pc and npc, the one that differs from `delivered` counts.
        shape = self._shape
        registers = self._unpack_registers(data)
        if delivered is not None:
            place = shape.overlay + (8 if self._is64 else 4)
            pc, npc = struct.unpack_from(f">2{self._word}", data, place)
            original = delivered.pc & self._mask, delivered.npc & self._mask
            if (registers.pc, registers.npc) == original and (pc, npc) != original:
                if npc == original[1]:  # a handler that moves pc alone
                    npc = (pc + 4) & self._mask
                registers = replace(registers, pc=pc, npc=npc)
        mask = parse_sigset(data[shape.mask : shape.mask + 8], self._is64)
        stack = AlternateStack(*STACK_LAYOUT[self._is64].unpack_from(data, shape.stack))
        return registers, mask, stack

    def _unpack_registers(self, data: bytes) -> Registers:
        shape = self._shape
        fpu = struct.unpack_from(_FPU, data, shape.fpu)
        if self._is64:
            saved = struct.unpack_from(">16Q", data, shape.registers)
            state, pc, npc = struct.unpack_from(">3Q", data, shape.registers + 128)
            (y,) = struct.unpack_from(">I", data, shape.registers + 152)
            ccr, asi = state >> 32 & 0xFF, state >> 24 & 0xFF
        else:
            state, pc, npc, y, *low = struct.unpack_from(">20I", data, shape.registers)
            *upper, both = struct.unpack_from(">17I", data, shape.upper)
            saved = tuple(h << 32 | value for h, value in zip(upper, low, strict=True))
            ccr = both >> 8 & 0xF0 | state >> _PSR_ICC_SHIFT & 15
            asi = both & 0xFF
        whole = tuple(saved[:8]), tuple(saved[8:]), fpu[:32]
        return Registers(pc, npc, y, ccr, asi, *whole, *fpu[32:])
