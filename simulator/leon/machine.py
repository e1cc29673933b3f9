"""A bare LEON3: a program in supervisor mode, the processor, memory and devices, wired and run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.binary.program import PAGE_SIZE, Program, page_up
from simprof.simulator.cpu.address_space import Protection
from simprof.simulator.cpu.cpu import MemoryAccess, Stop
from simprof.simulator.cpu.traps import RESUME_STATE, ClockWord, FillWord, Trap
from simprof.simulator.errors import ProgramFileError, UnsupportedError, UsageError
from simprof.simulator.leon.devices import Bus, BusError, access_size, do_access
from simprof.simulator.leon.instructions import Answer, answer, answers, refusal
from simprof.simulator.leon.supervisor import Supervisor, TrapType
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.machine.base import BaseMachine, Position
from simprof.simulator.machine.codewatch import CodeWatch, Shadows
from simprof.simulator.machine.faults import effective_address
from simprof.simulator.machine.running import Fault, Limits, MachineEnding, Observer, RunResult

WINDOWS: Final = 8
MEMORY: Final = 0x4000_0000
# Bytes of memory, as qemu's machine has it; less where --memory-limit says so.
MEMORY_SIZE: Final = 128 << 20
_STATUS_ERROR_MODE: Final = 134
_SIGABRT: Final = 6
_LONGEST_BLOCK: Final = 512
_CODE_ACCESS: Final = Protection.READ | Protection.EXECUTE
_DATA_ACCESS: Final = Protection.READ | Protection.WRITE

_TYPES: Final = {  # V9's trap -> V8's
    Trap.PRIVILEGED_OPCODE: TrapType.PRIVILEGED_INSTRUCTION,
    Trap.FPU_DISABLED: TrapType.FP_DISABLED,
    Trap.FP_EXCEPTION: TrapType.FP_EXCEPTION,
    Trap.FP_OTHER: TrapType.FP_EXCEPTION,
    Trap.TAG_OVERFLOW: TrapType.TAG_OVERFLOW,
    Trap.DIVISION_BY_ZERO: TrapType.DIVISION_BY_ZERO,
    Trap.UNALIGNED: TrapType.NOT_ALIGNED,
    Trap.UNALIGNED_LDDF: TrapType.NOT_ALIGNED,
    Trap.UNALIGNED_STDF: TrapType.NOT_ALIGNED,
}
_RDASR, _RDPSR, _RDWIM, _RDTBR = 0x28, 0x29, 0x2A, 0x2B
_WRASR, _WRPSR, _WRWIM, _WRTBR, _RETT = 0x30, 0x31, 0x32, 0x33, 0x39
_FLOATING_POINT: Final = 1 << 12  # PSR's EF
_FP_TRAP_TYPE, _UNIMPLEMENTED = 7 << 14, 3 << 14  # %fsr's ftt
_CONFIGURATION, _POWER_DOWN = 17, 19  # ancillary registers
_SYSTEM_SPACE: Final = 0x02
_MEMORY_SPACES: Final = (0x01, 0x08, 0x09, 0x0A, 0x0B, 0x1C)
_ALTERNATES: Final = (*range(0x10, 0x18), 0x19, 0x1A, 0x1D, 0x1F, 0x3C)


# The engine's processor is a V9 in user mode, as for Linux programs. What V8's supervisor mode has
# beyond that is done here: words that the engine would take for something else, or for nothing, are
# executed from shadows that have `illtrap` in their place (`is_supervisors`), so that each stops
# the engine with an exact pc. Traps go to the program's trap table, and their handlers are told to
# the observer as handlers of signals are.
def are_supervisors(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Say of each of `words` whether it is an instruction that the engine leaves to us."""
    op, op3 = words >> 30, words >> 19 & 63
    states = np.isin(op3, (_RDPSR, _RDWIM, _RDTBR, _WRPSR, _WRWIM, _WRTBR, _RETT))
    ancillary = (op3 == _RDASR) & (words >> 14 & 31 >= 16)
    ancillary |= (op3 == _WRASR) & (words >> 25 & 31 >= 16)
    result: NDArray[np.bool_] = (op == 2) & (states | ancillary)
    result |= (op == 3) & np.isin(op3, _ALTERNATES)
    result |= answers(words) != Answer.EXECUTES
    return result


@lru_cache(maxsize=4096)
def is_supervisors(word: int) -> bool:
    """Say whether the engine leaves one instruction to us."""
    return bool(are_supervisors(np.array([word], np.uint32))[0])


class LeonMachine(BaseMachine):
    """Runs one bare LEON3 program once."""

    def __init__(
        self,
        program: Program,  # what to run, linked for `MEMORY`
        *,
        host: HostCalls,  # its UART's ends
        limits: Limits | None = None,  # budgets
        # Sees the blocks, and handlers of traps as those of signals; without one they are counted.
        observer: Observer | None = None,
    ) -> None:
        super().__init__(program, limits, observer, False, WINDOWS)
        self._shadows = Shadows(self.cpu, self._space, are_supervisors)
        watched = program, self.cpu, self._space, self._shadows
        if observer is None:
            self._code = CodeWatch(*watched)
        else:
            self._code = CodeWatch(*watched, observer.hook.on_late_block)
        self._position = Position(self.cpu, self._space, self._clock)
        self._supervisor = Supervisor(self.cpu)
        self._bus = Bus(program, self._space, host, lambda: self._now)
        self._idle = 0  # cycles in which nothing was executed
        self._shifted = self._overlong = -1  # instructions executed: when time moved on; see below
        self._now = 0
        self._cache_control = 0
        self._traps = self._overflows = self._underflows = 0
        self._interrupted: list[int] = []  # where the handlers that are under way should return to
        self._landed = -1  # instructions executed when one last returned elsewhere
        self._hooks = self._connect(moves_windows=False)
        self._load()
        self._host = host

    def _load(self) -> None:
        # As a boot loader leaves memory and processor.
        size = min(MEMORY_SIZE, self.limits.memory) // PAGE_SIZE * PAGE_SIZE
        self._space.map(MEMORY, size, _DATA_ACCESS)
        for segment in self.program.segments:
            end = segment.address + max(len(segment.data), segment.memory_size)
            if not MEMORY <= segment.address <= end <= MEMORY + size:
                raise ProgramFileError(
                    f"{self.program.path}: has a segment at {segment.address:#x}, where this "
                    f"machine has no memory: link it for {MEMORY:#x} to {MEMORY + size:#x}"
                )
            self._space.load(segment.address, segment.data)
        for span in self.program.code:
            start = span.start & -PAGE_SIZE
            self._space.protect(start, page_up(span.end) - start, _CODE_ACCESS)
            for page in range(start, span.end, PAGE_SIZE):
                self._shadows.make(page)
        self.cpu.window()[6] = MEMORY + size
        self.cpu.state.pc, self.cpu.state.npc = self.program.entry, self.program.entry + 4

    # -- running

    def run(self) -> RunResult:
        """Run the program to its end; raises `UnsupportedError` and `EngineError`."""
        # Unsupported is that the program waits for ever, changes its code, or wants what this
        # machine lacks.
        self._hooks.install(None if self._observer is None else self._observer.hook, count=True)
        times = self._execute(self._loop, lambda: self._send(self._bus.uart.flush))
        spills, fills = self._overflows, self._underflows
        return self._result(*times, system_calls=self._traps, spills=spills, fills=fills)

    def _limit(self) -> int:
        # The engine stops for the next timer, a pending interrupt, or the budget's end.
        limit = self._budget()
        if (due := self._bus.timers.next_interrupt()) is not None:
            stop = due - self._idle
            if self._overlong == self.instructions:
                stop = max(stop, self.instructions + _LONGEST_BLOCK)
            limit = min(limit, stop)
        return min(limit, self._earliest_stop()) if self._interrupt() else limit

    def _earliest_stop(self) -> int:
        # The limit at which the engine stops as soon as an interrupt may be delivered. Where a
        # handler has returned to another place than it came from, an observer must see that first.
        lands = self._landed == self.instructions
        return self.instructions + (_LONGEST_BLOCK if lands else 0)

    def _interrupt(self) -> int:
        number, supervisor = self._bus.controller.highest(), self._supervisor
        taken = supervisor.enabled and (number == 15 or number > supervisor.level)
        return number if taken else 0

    def _after(self, stop: Stop) -> None:
        if stop is Stop.FAULT:
            self._guard(self._on_memory_fault)
        elif stop is Stop.ILLEGAL:
            self._guard(self._on_illegal)
        elif self._clock[ClockWord.STOPPED]:
            self._clock[ClockWord.STOPPED] = 0
            self._guard(self._on_limit)
        else:
            raise self._stopped_without_reason()

    def _on_limit(self) -> None:
        if not self._ends_from_outside():
            self._between_blocks()

    # Time is counted in instructions, one a cycle. Where no interrupt can come before the next
    # timer's, `wr %asr19` moves the time on to it; so does a block that would execute beyond it.
    def _between_blocks(self) -> None:
        due = self._bus.timers.next_interrupt()
        if due is not None and self._clock[ClockWord.LIMIT] == due - self._idle:
            # The next block would execute beyond it: time moves on; but once only, as a block may
            # be longer than the timer's period.
            if self._shifted == self.instructions:
                self._overlong = self.instructions
            else:
                self._idle, self._shifted = due - self.instructions, self.instructions
        self._bus.timers.update(self.instructions + self._idle)
        number = self._interrupt()
        if not number or self._earliest_stop() > self.instructions:
            return
        self._bus.controller.acknowledge(number)
        state = self.cpu.state
        pc = int(state.pc)
        between = self._clock[ClockWord.STATE] != RESUME_STATE
        self._enter_trap(TrapType.INTERRUPT + number, pc, int(state.npc), pc, between)

    # -- traps

    def _on_trap(self, number: int) -> None:
        state = self.cpu.state
        npc = int(state.pc)
        if self._resumes(number, npc):
            return
        pc = self.cpu.trap_pc
        state.pc, state.npc = pc, npc
        if number >= Trap.SOFTWARE:
            self._on_software_trap(number - Trap.SOFTWARE, pc, npc)
        elif number >= Trap.SPILL:
            self._on_window_trap(pc, fill=number >= Trap.FILL)
        else:
            self._trap(_TYPES.get(Trap(number), TrapType.DATA_ACCESS))

    def _on_software_trap(self, number: int, pc: int, npc: int) -> None:
        if self._supervisor.enabled:
            if pc + 4 != self._position.block_end:
                self._position.interrupt(pc + 4)
            self._enter_trap(TrapType.SOFTWARE + number, pc, npc, npc, npc != pc + 4)
        elif number == 0:  # it stops the processor
            self._ending = MachineEnding(int(self.cpu.window()[0]) & 0xFF, "exit")
        else:
            self._trap(TrapType.SOFTWARE + number)

    def _on_window_trap(self, pc: int, *, fill: bool) -> None:
        kind = self._supervisor.move_window(self._position.instruction(pc), fill=fill)
        if kind is None:
            self._position.go_past(pc)
            return
        self._underflows += fill
        self._overflows += not fill
        self._trap(kind)

    def _trap(self, kind: int, origin: int | None = None) -> None:
        # Enter a trap of the instruction at pc, which does not complete; see `Fault.origin`.
        state = self.cpu.state
        pc, npc = int(state.pc), int(state.npc)
        self._position.interrupt(pc)
        if self._supervisor.enabled:
            self._enter_trap(kind, pc, npc, pc, False)
            return
        text = f"trap {kind:#04x} while traps are disabled"
        fault = Fault(_SIGABRT, "error mode", pc, None, text, origin)
        self._ending = MachineEnding(_STATUS_ERROR_MODE, "fault", _SIGABRT, fault)

    def _enter_trap(self, kind: int, pc: int, npc: int, resumes_at: int, between: bool) -> None:
        # Go to the handler of a trap; see `Observer.signal_delivered` for the last two.
        state = self.cpu.state
        stack_pointer = int(self.cpu.window()[6])
        self._traps += 1
        handler = self._supervisor.enter(kind, pc, npc)
        state.pc, state.npc = handler, handler + 4
        self._position.note_redirection()
        self._interrupted.append(resumes_at)
        if self._observer is not None:
            behind = npc if resumes_at == pc else npc + 4
            self._observer.signal_delivered(resumes_at, behind, stack_pointer, between)

    # -- memory

    def _on_memory_fault(self) -> None:
        access = self.cpu.refused or MemoryAccess(int(self._hooks.fill[FillWord.FAULT_ACCESS]))
        pc = int(self.cpu.state.pc)
        if access is not MemoryAccess.FETCH:
            self._do_access(pc)
            return
        if self._space.is_mapped(pc, 4):
            self._code.check(pc, 4)
        self._trap(TrapType.INSTRUCTION_ACCESS, self._position.last_jump())

    def _do_access(self, pc: int) -> None:
        position = self._position
        word = position.instruction(pc)
        if not access_size(word):
            raise UnsupportedError(
                f"{self.program.path}: the instruction {word:#010x} at {pc:#x} refers to a device: "
                "use loads and stores of the integer unit"
            )
        if effective_address(self.cpu, word) % access_size(word):
            self._trap(TrapType.NOT_ALIGNED)
            return
        self._now = self.instructions - ((position.block_end - pc) >> 2) + self._idle
        try:
            self._send(lambda: do_access(self.cpu, word, self._bus))
        except BusError:
            self._trap(TrapType.DATA_ACCESS)
            return
        position.go_past(pc)

    def _send(self, action: Callable[[], None]) -> None:
        # Where nobody reads the output, the run ends as a Linux program does. Any other error is
        # the user's: the program would never know that its output cannot be written.
        try:
            action()
        except BrokenPipeError:
            self._ending = MachineEnding(128 + signal.SIGPIPE, "signal", signal.SIGPIPE)
        except OSError as error:
            raise UsageError(
                f"{self.program.path}: what the program sends cannot be written to standard output "
                f"({error.strerror}): redirect it elsewhere"
            ) from None

    # -- instructions of supervisor mode

    def _on_illegal(self) -> None:
        pc = int(self.cpu.state.pc)
        word = self._position.instruction(pc)
        op3 = word >> 19 & 63
        if (given := answer(word)) is not Answer.EXECUTES:
            self._on_missing(given, word, pc)
        elif not is_supervisors(word):
            self._trap(TrapType.ILLEGAL_INSTRUCTION)
        elif word >> 30 == 3:
            self._do_alternate(pc, word)
        elif op3 == _RETT:
            self._return_from_trap(pc, word)
        else:
            self._do_register(pc, word)

    def _on_missing(self, given: Answer, word: int, pc: int) -> None:
        state = self.cpu.state
        if given is Answer.READS_OTHERWISE:
            raise UnsupportedError(f"{self.program.path}: {refusal(word, pc)}")
        if given is Answer.COPROCESSOR:
            self._trap(TrapType.COPROCESSOR_DISABLED)
        elif given is Answer.ILLEGAL:
            self._trap(TrapType.ILLEGAL_INSTRUCTION)
        elif not self._supervisor.psr & _FLOATING_POINT:
            self._trap(TrapType.FP_DISABLED)
        else:
            state.fsr = int(state.fsr) & ~_FP_TRAP_TYPE | _UNIMPLEMENTED
            self._trap(TrapType.FP_EXCEPTION)

    def _do_alternate(self, pc: int, word: int) -> None:
        space, is_immediate = word >> 5 & 0xFF, word >> 13 & 1
        address = effective_address(self.cpu, word)
        if not self._supervisor.supervisor:
            self._trap(TrapType.PRIVILEGED_INSTRUCTION)
        elif is_immediate:
            self._trap(TrapType.ILLEGAL_INSTRUCTION)
        elif address % access_size(word):
            self._trap(TrapType.NOT_ALIGNED)
        elif space in _MEMORY_SPACES:
            self._do_access(pc)
        else:
            self._do_system_access(word, address if space == _SYSTEM_SPACE else -1)
            self._position.go_past(pc)

    def _do_system_access(self, word: int, address: int) -> None:
        # Registers of the caches; others read as zero.
        number = word >> 25 & 31
        if word >> 21 & 1:
            if address == 0:
                self._cache_control = self.cpu.register(number) & 0xFFFF_FFFF
            return
        values = {0x00: self._cache_control, 0x08: 0x1022_0000, 0x0C: 0x1822_0000}
        self.cpu.set_register(number, values.get(address, 0))

    def _do_register(self, pc: int, word: int) -> None:
        op3 = word >> 19 & 63
        if not self._supervisor.supervisor:
            self._trap(TrapType.PRIVILEGED_INSTRUCTION)
        elif op3 < _WRASR:
            supervisor, number = self._supervisor, word >> 14 & 31
            configuration = 1 << 8 | WINDOWS - 1 if number == _CONFIGURATION else 0
            values = {_RDPSR: supervisor.psr, _RDWIM: supervisor.wim, _RDTBR: supervisor.tbr}
            self.cpu.set_register(word >> 25 & 31, values.get(op3, configuration))
            self._position.go_past(pc)
        else:
            value = self.cpu.register(word >> 14 & 31) ^ self._supervisor.operand(word)
            self._set_register(pc, op3, word >> 25 & 31, value & 0xFFFF_FFFF)

    def _set_register(self, pc: int, op3: int, number: int, value: int) -> None:
        supervisor = self._supervisor
        if op3 == _WRPSR and value & 31 >= WINDOWS:
            self._trap(TrapType.ILLEGAL_INSTRUCTION)
            return
        self._position.go_past(pc)
        if op3 == _WRPSR:
            supervisor.psr = value
        elif op3 == _WRWIM:
            supervisor.wim = value
        elif op3 == _WRTBR:
            supervisor.tbr = value & 0xFFFF_F000 | supervisor.tbr & 0xFF0
        elif number == _POWER_DOWN:
            self._power_down()

    def _power_down(self) -> None:
        while not self._bus.controller.highest():
            due = self._bus.timers.next_interrupt()
            if due is None:
                raise UnsupportedError(
                    f"{self.program.path}: the program waits for an interrupt that never comes "
                    "(wr %asr19): enable a timer, or end with `ta 0` and traps disabled"
                )
            self._idle = max(self._idle, due - self.instructions)
            self._bus.timers.update(self.instructions + self._idle)

    def _return_from_trap(self, pc: int, word: int) -> None:
        state = self.cpu.state
        following = int(state.npc)
        base = self.cpu.register(word >> 14 & 31)
        target = (base + self._supervisor.operand(word)) & 0xFFFF_FFFF
        kind = self._supervisor.leave(target)
        if kind is not None:
            self._trap(kind)
            return
        if pc + 4 != self._position.block_end:
            self._position.interrupt(pc + 4)
        state.pc, state.npc = following, target
        self._position.note_redirection()
        if not self._interrupted or self._interrupted.pop() != following:
            self._landed = self.instructions
        if self._observer is not None:
            self._observer.signal_returned(following)
