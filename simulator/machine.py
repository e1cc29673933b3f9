"""The whole machine: a program, a processor, memory and an operating system, wired and run.

How a run goes: `Machine.run` starts the processor and gets control back when the block hook has
stopped at a limit, when an access or an instruction has faulted, or when a trap handler has
decided that the run is over. Window traps never come to Python; system calls and all other traps
come to `_on_trap`, code that the engine translates for the first time and that is not plainly the
program's own to `_on_code`. Exceptions do not cross the engine: callbacks keep them, stop it, and
`run` raises them.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator import traps
from simulator.address_space import EXECUTED, MAPPED, AddressSpace, Region
from simulator.contexts import Contexts, Interrupted
from simulator.cpu import RESUME_TRAP, SYSTEM_PAGE, Access, Cpu, HookKind, Stop
from simulator.cpu_state import FPRS_FEF, CpuState, set_condition_codes
from simulator.errors import EngineError, UnsupportedError
from simulator.faults import (
    FaultKind,
    Trap,
    can_trap,
    finish_load,
    illegal_instruction,
    load_size,
    memory_fault,
    no_fault_load,
    signal_info,
    stack_fault,
    trap_fault,
    without_no_fault,
)
from simulator.guest import (
    PAGE_SIZE,
    Exited,
    Failed,
    GuestFault,
    Protection,
    Replaced,
    Returned,
    SystemCallHandler,
)
from simulator.interruption import Interrupt, Interruptions
from simulator.outside import HostCalls
from simulator.process import StackPlace, start_process
from simulator.program import Program, Range
from simulator.signals import SI_USER, Signal, SignalInfo, SignalState
from simulator.sparc import SIGNALS
from simulator.syscalls import SystemCalls
from simulator.traps import (
    CLOCK_WORDS,
    FIRST_FLUSH,
    MAX_CODE_RANGES,
    RESUME_STATE,
    ClockWord,
    CodeWord,
    FillWord,
    Interruption,
    TrapWord,
)

_NO_LIMIT: Final = 1 << 62

STATUS_BUDGET: Final = 124
STATUS_INTERRUPTED: Final = 130
_SIGNAL_STATUS: Final = 128


@dataclass(frozen=True)
class NativeHook:
    """A block observer compiled to native code.

    Attributes
    ----------
    address
        Function pointer: `void(engine, uint64 address, uint32 size in bytes, void *user_data)`.
    user_data
        Pointer passed through.
    clock
        int64[32], C-contiguous, laid out as `traps.ClockWord`; shared by hook, traps, machine.
    keepalive
        Whatever must not be garbage-collected while the hook is installed.
    """

    address: int
    user_data: int
    clock: NDArray[np.int64]
    keepalive: object


class Observer(Protocol):
    """Sees every block through `hook`, and the rare events that break the flow of blocks."""

    hook: NativeHook

    def attach(self, machine: Machine) -> None:
        """Be told of the machine before the first instruction; the engine exists."""
        ...

    def signal_delivered(self, interrupted_pc: int, handler: int) -> None:
        """The next block event is the handler's entry."""
        ...

    def signal_returned(self, resumed_pc: int) -> None:
        """A handler has returned; the next event is at `resumed_pc`."""
        ...

    def context_replaced(self, pc: int) -> None:
        """A context was set (64-bit longjmp); the next event is at `pc`."""
        ...


@dataclass(frozen=True)
class Limits:
    """Budgets: instructions, wall-clock seconds, bytes of accessible guest memory."""

    max_instructions: int | None = None
    timeout: float | None = None
    memory: int = 4 << 30


Reason = Literal["exit", "signal", "fault", "budget", "interrupted"]


@dataclass(frozen=True)
class Fault:
    """The fault that ended a run. `address` is what was accessed, where that is the cause."""

    signal: int
    name: str
    pc: int
    address: int | None
    description: str


@dataclass(frozen=True)
class RunResult:
    """How a run ended and what it took.

    `status` is a shell's: the program's own, 128 + signal, 124 for a spent budget, 130 for
    Ctrl-C. `spills` and `fills` are register windows moved by traps. `last_pc` is the faulting
    instruction, or the next one that would have been executed.
    """

    status: int
    reason: Reason
    signal: int | None
    fault: Fault | None
    instructions: int
    system_calls: int
    spills: int
    fills: int
    seconds: float
    last_pc: int


@dataclass(frozen=True)
class _Ending:
    status: int
    reason: Reason
    signal: int | None = None
    fault: Fault | None = None


_TRAP_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_CODE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)


class Machine:
    """Runs one program once; implements `guest.Guest`.

    Parameters
    ----------
    program
        What to run.
    arguments
        The program's arguments, without its name.
    environment
        `NAME=value` strings.
    host
        The outside world as the program may see it.
    limits
        Budgets.
    observer
        Sees the blocks; without one they are only counted.
    argv0
        The program's name as it sees it; its path by default.
    seed
        Of the program's randomness.
    windows
        Register windows of the processor (3..32).
    """

    def __init__(
        self,
        program: Program,
        *,
        arguments: Sequence[bytes] = (),
        environment: Sequence[bytes] = (),
        host: HostCalls,
        limits: Limits | None = None,
        observer: Observer | None = None,
        argv0: bytes | None = None,
        seed: int = 0,
        windows: int = 32,
    ) -> None:
        self.program = program
        self.is64 = program.is64
        self.limits = limits or Limits()
        self.memory = AddressSpace(self.is64, self.limits.memory)
        self.signals = SignalState()
        self.cpu = Cpu(self.is64, windows)
        self._contexts = Contexts(self.cpu, self.memory, self.signals)
        self._observer = observer
        self._clock = np.zeros(CLOCK_WORDS, np.int64) if observer is None else observer.hook.clock
        self._system_calls = 0
        self._trap_pc = 0
        self._resume_at = 0, 0
        self._ending: _Ending | None = None
        self._error: BaseException | None = None
        self._patched: set[int] = set()
        self._late_code: dict[int, bytes] = {}
        self._interruptions = Interruptions(self._clock)
        self._wire()
        self._start(arguments, environment, argv0, seed)
        self.calls: SystemCallHandler = SystemCalls(self, host, program, seed=seed)

    # -- wiring

    def _wire(self) -> None:
        """Connect processor, memory and clock; prepare what the native hooks work on."""
        cpu, memory, clock = self.cpu, self.memory, self._clock
        memory.on_region = self._map_region
        memory.on_change = cpu.flush_translations
        memory.on_code_change = self._forget_code
        memory.add_region(0, 1 << 32)
        clock[ClockWord.STOP_FUNCTION] = cpu.stop_function
        clock[ClockWord.ENGINE] = cpu.handle
        clock[ClockWord.NPC_POINTER] = cpu.state_address + CpuState.npc.offset
        clock[ClockWord.WINDOW_POINTER] = cpu.state_address + CpuState.window.offset
        clock[ClockWord.LIMIT] = _NO_LIMIT
        self._trap_words = np.zeros(16, np.int64)
        self._fill_words = np.zeros(16, np.int64)
        ranges = self._code_ranges()
        self._code_words = np.zeros(CodeWord.FIRST + 2 * len(ranges), np.int64)
        self._trap_callback = _TRAP_CALLBACK(self._guard_trap)
        self._code_callback = _CODE_CALLBACK(self._guard_code)
        table = memory.table.ctypes.data
        words = self._trap_words
        words[TrapWord.CLOCK] = clock.ctypes.data
        words[TrapWord.CPU] = cpu.state_address
        words[TrapWord.REGIONS] = table
        words[TrapWord.PYTHON] = ctypes.cast(self._trap_callback, ctypes.c_void_p).value
        words[TrapWord.IS64] = self.is64
        words[TrapWord.WINDOWS] = cpu.windows
        fill = self._fill_words
        fill[FillWord.REGIONS] = table
        fill[FillWord.NEXT_FLUSH] = fill[FillWord.STEP] = FIRST_FLUSH
        fill[FillWord.FLUSH_FUNCTION] = cpu.control_function
        fill[FillWord.FLUSH_ENGINE] = cpu.handle
        fill[FillWord.FLUSH_CODE] = cpu.flush_code
        self._code_words[CodeWord.REGIONS] = table
        self._code_words[CodeWord.COUNT] = len(ranges)
        code = ctypes.cast(self._code_callback, ctypes.c_void_p).value
        self._code_words[CodeWord.PYTHON] = code
        for number, each in enumerate(ranges):
            row = CodeWord.FIRST + 2 * number
            self._code_words[row : row + 2] = each.start, each.end

    def _code_ranges(self) -> list[Range]:
        """Ranges whose code is known from the file: those that the code hook may pass."""
        late = self.program.late_code
        return [
            each
            for each in self.program.code
            if not any(each.start < other.end and other.start < each.end for other in late)
        ][:MAX_CODE_RANGES]

    def _map_region(self, region: Region) -> None:
        self.cpu.map(region.base, region.size, region.host)

    def _start(
        self,
        arguments: Sequence[bytes],
        environment: Sequence[bytes],
        argv0: bytes | None,
        seed: int,
    ) -> None:
        name = os.fsencode(self.program.path) if argv0 is None else argv0
        layout = self.memory.layout
        size = min(layout.stack_size, max(self.memory.limit // 4, PAGE_SIZE))
        state = start_process(
            self.program,
            self.memory,
            StackPlace(layout.stack_top, size // PAGE_SIZE * PAGE_SIZE),
            arguments=(name, *arguments),
            environment=environment,
            seed=seed,
        )
        self.cpu.window()[6] = state.stack_pointer
        self.cpu.state.pc = state.entry
        self.cpu.state.npc = state.entry + 4

    def _install_hooks(self, bare: bool) -> None:
        cpu = self.cpu
        below = 0, SYSTEM_PAGE - 1
        cpu.add_hook(
            HookKind.TRANSLATION,
            traps.fill_translation.address,
            self._fill_words.ctypes.data,
            below,
        )
        cpu.add_hook(
            HookKind.INTERRUPT, traps.handle_trap.address, self._trap_words.ctypes.data
        )
        cpu.add_hook(
            HookKind.NEW_CODE, traps.check_code.address, self._code_words.ctypes.data, below
        )
        if bare:
            return
        if self._observer is None:
            cpu.add_hook(
                HookKind.BLOCK, traps.count_block.address, self._clock.ctypes.data, below
            )
        else:
            hook = self._observer.hook
            cpu.add_hook(HookKind.BLOCK, hook.address, hook.user_data, below)

    # -- running

    def run(self, bare: bool = False) -> RunResult:
        """Run the program to its end.

        Parameters
        ----------
        bare
            Without any block hook: nothing is counted or observed and instruction budgets do
            not hold. For measuring the engine's own speed only.

        Raises
        ------
        UnsupportedError
            The program asks for what is not emulated, or runs code that is not in its file.
        EngineError
            The emulator failed.
        """
        self._install_hooks(bare)
        if self._observer is not None:
            self._observer.attach(self)
        started = time.perf_counter()
        with ExitStack() as stack:
            stack.enter_context(self._interruptions)
            stack.enter_context(
                self._interruptions.watchdog(self.limits.timeout, self.cpu.stop if bare else None)
            )
            self._loop(bare)
        seconds = time.perf_counter() - started
        if self._error is not None:
            raise self._error
        assert self._ending is not None
        return RunResult(
            status=self._ending.status,
            reason=self._ending.reason,
            signal=self._ending.signal,
            fault=self._ending.fault,
            instructions=self.instructions,
            system_calls=self._system_calls,
            spills=int(self._trap_words[TrapWord.SPILLS]),
            fills=int(self._trap_words[TrapWord.FILLS]),
            seconds=seconds,
            last_pc=int(self.cpu.state.pc),
        )

    def _loop(self, bare: bool) -> None:
        state = self.cpu.state
        while not self._is_over():
            self._set_limit()
            self._resume_at = state.pc, state.npc
            try:
                stop = self.cpu.run(state.pc, state.npc)
                if not self._is_over():
                    self._after(stop, bare)
            except GuestFault as error:
                self._end_by_signal(SignalInfo(Signal.SEGV, 0, error.address))

    def _is_over(self) -> bool:
        return self._ending is not None or self._error is not None

    def _set_limit(self) -> None:
        clock = self._clock
        budget = self.limits.max_instructions
        clock[ClockWord.LIMIT] = _NO_LIMIT if budget is None else min(budget, _NO_LIMIT)
        if clock[ClockWord.INTERRUPTED]:  # set meanwhile
            clock[ClockWord.LIMIT] = -1

    def _after(self, stop: Stop, bare: bool) -> None:
        """Act on the processor's having stopped."""
        if stop is Stop.FAULT:
            self._on_memory_fault()
        elif stop is Stop.ILLEGAL:
            pc = int(self.cpu.state.pc)
            self._interrupt_block(pc)
            self._on_fault(illegal_instruction(pc, self._instruction(pc)))
        elif self._clock[ClockWord.STOPPED] or bare:
            self._clock[ClockWord.STOPPED] = 0
            self._on_limit()
        else:
            raise EngineError(f"the emulator stopped at {self.cpu.state.pc:#x} without a reason")

    def _on_limit(self) -> None:
        clock = self._clock
        interruption = Interruption(int(clock[ClockWord.INTERRUPTED]))
        if interruption is Interruption.USER:
            self._ending = _Ending(STATUS_INTERRUPTED, "interrupted")
        elif interruption is Interruption.TIMEOUT:
            self._ending = _Ending(STATUS_BUDGET, "budget")
        elif self.limits.max_instructions == clock[ClockWord.LIMIT]:
            self._ending = _Ending(STATUS_BUDGET, "budget")

    # -- the clock

    def _interrupt_block(self, pc: int, at_block: bool = False) -> None:
        """Take back the count of what follows `pc` in the current block."""
        clock = self._clock
        start = int(clock[ClockWord.BLOCK_ADDRESS])
        end = start + int(clock[ClockWord.BLOCK_SIZE])
        if not start <= pc < end or at_block:
            return
        clock[ClockWord.INSTRUCTIONS] -= (end - pc) >> 2
        clock[ClockWord.RESUME_PC] = pc
        clock[ClockWord.RESUME_END] = end
        if clock[ClockWord.STATE] != RESUME_STATE:
            clock[ClockWord.RESUMED_STATE] = clock[ClockWord.STATE]
            clock[ClockWord.STATE] = RESUME_STATE

    # -- memory faults

    def _on_memory_fault(self) -> None:
        access = Access(int(self._fill_words[FillWord.FAULT_ACCESS]))
        mapped = bool(self._fill_words[FillWord.FAULT_RIGHTS] & MAPPED)
        pc, address = int(self.cpu.state.pc), self.cpu.fault_address & self.cpu.address_mask
        if access is Access.FETCH:
            if pc == self._contexts.return_address:
                self.return_from_signal()
                return
        elif access is Access.READ and pc in self._patched:
            self._skip_load(pc)
            return
        else:
            self._interrupt_block(pc)
        self._on_fault(memory_fault(access, address, mapped))

    def _skip_load(self, pc: int) -> None:
        """Complete the no-fault load at `pc` with zero and go on after it."""
        finish_load(self.cpu, self._instruction(pc), None)
        self._go_past(pc)

    def _go_past(self, pc: int) -> None:
        """Go on after the instruction at `pc`, which has been completed here."""
        state, clock = self.cpu.state, self._clock
        end = int(clock[ClockWord.BLOCK_ADDRESS] + clock[ClockWord.BLOCK_SIZE])
        following = int(state.npc)
        if pc + 4 != end:
            self._interrupt_block(pc + 4)
        state.pc, state.npc = following, (following + 4) & self.cpu.address_mask

    # -- traps

    def _guard_trap(self, number: int) -> None:
        self._guarded(lambda: self._on_trap(number))

    def _guard_code(self, address: int, size: int) -> None:
        self._guarded(lambda: self._on_code(address, size))

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run a callback's work; keep exceptions for `run`, stop the engine when it is over."""
        try:
            action()
        except Interrupt:
            self._on_limit()
        except BaseException as error:
            self._error = error
        if self._is_over():
            self._clock[ClockWord.LIMIT] = -1
            self.cpu.stop()

    def _on_trap(self, number: int) -> None:
        state = self.cpu.state
        npc = int(state.pc)  # the engine has moved it there
        if number == RESUME_TRAP and npc == SYSTEM_PAGE + 4:
            state.pc, state.npc = self._resume_at
            return
        state.npc = (npc + 4) & self.cpu.address_mask
        try:
            if number == (Trap.SYSTEM_CALL_64 if self.is64 else Trap.SYSTEM_CALL_32):
                self._on_system_call()
            elif number == Trap.FLUSH_WINDOWS:
                self._contexts.flush_windows()
            elif number == Trap.GET_CONTEXT and self.is64:
                self._contexts.get_context()
            elif number == Trap.SET_CONTEXT and self.is64:
                self._on_set_context()
            else:
                self._on_exception(number, npc)
        except GuestFault as error:
            mapped = bool(self.memory.page_bits(error.address) & MAPPED)
            self._on_fault(stack_fault(error.address, mapped))

    def _on_set_context(self) -> None:
        pc = self._contexts.set_context()
        if self._observer is not None:
            self._observer.context_replaced(pc)

    def _on_exception(self, number: int, npc: int) -> None:
        """Answer a trap that an instruction made; `npc` is what npc was."""
        state = self.cpu.state
        pc = self._locate(number, npc)
        state.pc, state.npc = pc, npc
        word = self._instruction(pc)
        if Trap.SPILL <= number < Trap.WINDOWS_END:
            self._interrupt_block(pc)
            self._contexts.move_window(number >= Trap.FILL)
            return
        if number == Trap.FPU_DISABLED:
            self._interrupt_block(pc)
            state.fprs |= FPRS_FEF
            return
        asi = no_fault_load(self.cpu, word) if number == Trap.DATA_MISS else None
        if asi is not None:
            self._on_no_fault_load(pc, word, asi)
            return
        self._interrupt_block(pc)
        self._on_fault(trap_fault(number, self.cpu, pc, word))

    def _locate(self, number: int, npc: int) -> int:
        """Return the address of the instruction that trapped."""
        start = int(self._clock[ClockWord.BLOCK_ADDRESS])
        end = start + int(self._clock[ClockWord.BLOCK_SIZE])
        inside, slot = (npc - 4) & self.cpu.address_mask, end - 4
        if end == start:  # a bare run knows no blocks
            start, end, slot = inside, npc, inside
        may = [
            pc
            for pc in dict.fromkeys((inside, slot))
            if start <= pc < end and can_trap(number, self.cpu, self._instruction(pc))
        ]
        if len(may) == 2 and not self._may_lead_to(slot - 4, npc):
            may = [inside]
        if len(may) != 1:
            raise EngineError(
                f"cannot tell which instruction made trap {number:#x} in the block at {start:#x}"
            )
        return may[0]

    def _may_lead_to(self, pc: int, target: int) -> bool:
        return bool(
            traps.jumps_to(
                np.uint64(self.memory.table.ctypes.data), np.uint64(pc), np.uint64(target)
            )
        )

    def _instruction(self, pc: int) -> int:
        return int.from_bytes(self.memory.peek(pc, 4), "big")

    def _on_no_fault_load(self, pc: int, word: int, asi: int) -> None:
        """Do a load that must not fault.

        The engine cannot. Where the instruction names its space it becomes the ordinary load, and
        `_on_memory_fault` knows it; where %asi does, the load is done here, each time.
        """
        plain = without_no_fault(word)
        if plain is not None:
            self._patch(pc, plain)
            self._interrupt_block(pc)
            return
        address = trap_fault(Trap.DATA_MISS, self.cpu, pc, word).address or 0
        try:
            data: bytes | None = self.memory.read(address, load_size(word))
        except GuestFault:
            data = None
        finish_load(self.cpu, word, data, little_endian=asi >= 0x88)
        self._go_past(pc)

    def _patch(self, pc: int, word: int) -> None:
        self._patched.add(pc)
        self.memory.load(pc, word.to_bytes(4, "big"))

    # -- faults and signals

    def _on_fault(self, kind: FaultKind) -> None:
        """Give a fault at the current pc to its handler, or end the run."""
        info = signal_info(kind)
        number = info.number
        blocked = self.signals.blocked >> (number - 1) & 1
        if not blocked and self.signals.has_handler(number):
            self._deliver(info, kind)
            return
        self._end_by_fault(kind)

    def _end_by_fault(self, kind: FaultKind) -> None:
        number = int(kind.signal)
        fault = Fault(number, SIGNALS[number], int(self.cpu.state.pc), kind.address, kind.text)
        self._ending = _Ending(_SIGNAL_STATUS + number, "fault", number, fault)

    def _end_by_signal(self, info: SignalInfo) -> None:
        self._ending = _Ending(_SIGNAL_STATUS + info.number, "signal", info.number)

    def _deliver(self, info: SignalInfo, kind: FaultKind | None = None) -> None:
        """Enter the program's handler."""
        clock, pc = self._clock, int(self.cpu.state.pc)
        saved = tuple(int(value) for value in clock[ClockWord.RESUME_PC : ClockWord.STATE + 2])
        try:
            handler = self._contexts.enter_handler(info, saved)
        except GuestFault as error:
            mapped = bool(self.memory.page_bits(error.address) & MAPPED)
            self._end_by_fault(kind or stack_fault(error.address, mapped))
            return
        if self._observer is not None:
            self._observer.signal_delivered(pc, handler)

    def _deliver_pending(self) -> None:
        """Deliver what is pending and not blocked (after a system call)."""
        while not self._is_over():
            info = self.signals.take()
            if info is None:
                return
            if self.signals.has_handler(info.number):
                self._deliver(info)
            else:
                self._end_by_signal(info)

    # -- system calls

    def _on_system_call(self) -> None:
        cpu = self.cpu
        self._trap_pc = int(self._clock[ClockWord.BLOCK_ADDRESS] + self._clock[ClockWord.BLOCK_SIZE])
        self._trap_pc -= 4
        window = cpu.window()
        arguments = tuple(window[number] & cpu.address_mask for number in range(6))
        self._system_calls += 1
        with self._interruptions.blocking():
            outcome = self.calls.call(int(cpu.state.globals[1]) & 0xFFFFFFFF, arguments)
        if isinstance(outcome, Exited):
            self._ending = _Ending(outcome.status & 0xFF, "exit")
            return
        if isinstance(outcome, Returned):
            window[0] = self._result(outcome.value)
            if outcome.second is not None:
                window[1] = self._result(outcome.second)
            set_condition_codes(cpu.state, 0, 0)
        elif isinstance(outcome, Failed):
            window[0] = outcome.errno
            set_condition_codes(cpu.state, 1, 1)
        else:
            assert isinstance(outcome, Replaced)
        self._deliver_pending()

    def _result(self, value: int) -> int:
        return value & self.cpu.address_mask

    # -- what the program runs

    def _forget_code(self, start: int, end: int) -> None:
        """Drop translations of pages [start, end) that may have changed behind the engine."""
        for page in range(start // PAGE_SIZE * PAGE_SIZE, end, PAGE_SIZE):
            bits = self.memory.page_bits(page)
            if not bits & EXECUTED:
                continue
            self.memory.set_page_bits(page, bits | Protection.EXECUTE)
            self.cpu.flush_translations()
            self.cpu.forget_code(page, page + PAGE_SIZE)
            self.memory.set_page_bits(page, bits)
            self.cpu.flush_translations()

    def _on_code(self, address: int, size: int) -> None:
        """Look at code that is about to be executed for the first time, or again after a change.

        Code that the program made itself cannot be profiled, so it is refused.
        """
        code = self.memory.peek(address, size)
        if any(address in each for each in self.program.late_code):
            if self._late_code.setdefault(address, code)[:size] != code[: len(code)]:
                raise self._refusal("changes the code at", address)
            return
        if any(address in each and address + size <= each.end for each in self.program.code):
            if self._differs(address, code):
                raise self._refusal("changes its own code at", address)
            return
        if int.from_bytes(code[:4], "big") >> 22 & 0x307 == 0:
            return  # unimp: an illegal instruction, not code
        raise self._refusal("runs code that is not in its file's code sections, at", address)

    def _refusal(self, what: str, address: int) -> UnsupportedError:
        return UnsupportedError(
            f"{self.program.path}: the program {what} {address:#x}; "
            "simprof cannot profile generated or self-modified code"
        )

    def _differs(self, address: int, code: bytes) -> bool:
        """Whether code differs from the file's (our own patches aside)."""
        original = bytearray(len(code))
        for segment in self.program.segments:
            low = max(address, segment.address)
            high = min(address + len(code), segment.address + len(segment.data))
            if low < high:
                part = segment.data[low - segment.address : high - segment.address]
                original[low - address : high - address] = part
        for pc in range(address, address + len(code), 4):
            if pc in self._patched:
                offset = pc - address
                original[offset : offset + 4] = code[offset : offset + 4]
        return bytes(original) != code

    # -- guest.Guest

    @property
    def instructions(self) -> int:
        """Instructions executed so far; exact at system calls and at the end."""
        return int(self._clock[ClockWord.INSTRUCTIONS])

    @property
    def pc(self) -> int:
        """Address of the trap instruction of the system call at hand."""
        return self._trap_pc

    def stack_pointer(self) -> int:
        """%sp with the 64-bit stack bias removed."""
        return int(self.cpu.window()[6] + self.cpu.stack_bias) & self.cpu.address_mask

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes out; raises `GuestFault`."""
        return self.memory.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes in; raises `GuestFault`."""
        self.memory.write(address, data)

    def read_string(self, address: int) -> bytes:
        """Bytes up to the NUL; raises `GuestFault`."""
        return self.memory.read(address, self.memory.find_zero(address))

    def raise_signal(self, number: int) -> None:
        """Make a signal pending, sent by the program itself."""
        self.signals.post(SignalInfo(number, SI_USER, None, self.calls.process_id))

    def suspend(self, mask: int) -> None:
        """Block `mask` until the pending signal has been handled."""
        self._contexts.use_mask_once(self.signals.blocked)
        self.signals.blocked = mask

    def return_from_signal(self) -> None:
        """Restore what a handler interrupted."""
        interrupted: Interrupted | None = self._contexts.leave_handler()
        pc = int(self.cpu.state.pc)
        if interrupted is not None:
            self._restore_clock(interrupted, pc)
        if self._observer is not None:
            self._observer.signal_returned(pc)

    def _restore_clock(self, interrupted: Interrupted, pc: int) -> None:
        clock = self._clock
        clock[ClockWord.RESUME_PC : ClockWord.STATE + 2] = interrupted.clock
        inside = clock[ClockWord.STATE] == RESUME_STATE
        if inside and pc != interrupted.registers.pc:
            if interrupted.registers.pc < pc < clock[ClockWord.RESUME_END]:
                clock[ClockWord.RESUME_PC] = pc
            else:
                clock[ClockWord.STATE] = clock[ClockWord.RESUMED_STATE]
