"""The whole machine: a program, a processor, memory and an operating system, wired and run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from simprof.simulator.binary.dynamic import module_at
from simprof.simulator.binary.program import PAGE_SIZE, MachineKind, Program, Range
from simprof.simulator.cpu.address_space import MAPPED, STACK_SIZE, GuestFault
from simprof.simulator.cpu.cpu import MemoryAccess, Stop
from simprof.simulator.cpu.cpu_state import FPRS_FEF, set_condition_codes
from simprof.simulator.cpu.operations import is_done_here, is_quad_store
from simprof.simulator.cpu.traps import ClockWord, FillWord, Trap, TrapWord
from simprof.simulator.errors import SimulatorError
from simprof.simulator.isa.sparc import ERRNO, SIGNAL_ACTION_CALLS, SIGNALS
from simprof.simulator.linux import guest
from simprof.simulator.linux.contexts import Contexts
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.linux.process import StackPlace, start_process
from simprof.simulator.linux.signals import SignalInfo, SignalState
from simprof.simulator.linux.syscalls import SystemCalls
from simprof.simulator.linux.task import Task
from simprof.simulator.machine import faults, running
from simprof.simulator.machine.base import BaseMachine, Position
from simprof.simulator.machine.codewatch import CodeWatch, Shadows
from simprof.simulator.machine.hooks import NO_LIMIT, SpanCount
from simprof.simulator.machine.threads import Call, Threads

STATUS_REFUSED: Final = SimulatorError.exit_status
_SIGNAL_STATUS: Final = 128
# Instructions after which blocks are chosen that raise no events. Each time that ten times as many
# have been executed they are chosen again.
FIRST_LOOK: Final = 8_000_000
# Instructions after such a choice until the observer arranges what it has learnt since.
NEXT_LOOK: Final = 4_000_000
# Instructions before the end of a budget for which all blocks raise events.
DENSE_END: Final = 1_000_000
# Traps and signals that Python answers before native code is loaded, as long as 500 of them.
PYTHON_CONTEXT_TRAPS = 64
_CONTEXT_TRAPS: Final = (Trap.GET_CONTEXT, Trap.SET_CONTEXT)


# How a run goes: `Machine.run` starts the processor and gets control back when the block hook has
# stopped at a limit, when an access or an instruction has faulted, or when a trap handler has
# decided that the run is over. Window traps never come to Python; system calls and all other traps
# come to `_on_trap`, code that is translated and not plainly the program's own to `CodeWatch`.
class Machine(BaseMachine):
    """Runs one program once; implements `guest.Guest`."""

    def __init__(
        self,
        program: Program,  # what to run
        *,
        arguments: Sequence[bytes] = (),  # the program's arguments, without its name
        environment: Sequence[bytes] = (),  # `NAME=value` strings
        host: HostCalls,  # the outside world as the program may see it
        limits: running.Limits | None = None,  # budgets
        observer: running.Observer
        | None = None,  # sees the blocks; without one they are only counted
        argv0: bytes | None = None,  # the program's name as it sees it; `file_name` by default
        # Its file's name as the auxiliary vector has it (AT_EXECFN); its path by default.
        file_name: bytes | None = None,
        # Where its heap begins, if that is behind its last segment; behind that segment by default.
        heap_start: int | None = None,
        seed: int = 0,  # of the program's randomness
        windows: int = 32,  # register windows of the processor (3..32)
        # Whether a system call for a service that simprof lacks ends the run; it fails otherwise.
        strict: bool = False,
        thread_seed: int = 0,  # decides how the program's threads take turns (`threads.Turns`)
    ) -> None:
        super().__init__(program, limits, observer, program.is64, windows)
        self.is64 = program.is64
        self.memory = self._space
        self.signals = SignalState()
        self._contexts = Contexts(self.cpu, self._space, self.signals)
        self._shadows = Shadows(self.cpu, self._space)
        parts = program, self.cpu, self._space, self._shadows
        self._thinning = None
        if observer is None:
            self._code = CodeWatch(*parts)
        else:
            self._code = CodeWatch(*parts, observer.hook.on_late_block)
            self._thinning = observer.hook.thinning
        self._silent: Mapping[running.BlockPlace, int] = {}
        self._is_settling = False
        self._look_at = FIRST_LOOK if self._thinning is not None else NO_LIMIT
        self._system_calls = 0
        self._contexts_noted = 0  # those that Python has saved or set
        self._signal_actions: Counter[int] = Counter()
        self._is_bare = False
        self._span_counts: list[SpanCount] = []
        self._position = Position(self.cpu, self._space, self._clock)
        state = self.cpu, self._contexts, self.signals, self._clock
        self.threads = Threads(*state, observer, thread_seed)
        self._hooks = self._connect()
        if file_name is None:
            file_name = os.fsencode(program.path) if argv0 is None else argv0
        command = (file_name if argv0 is None else argv0, *arguments)
        start = start_process(
            program,
            self._space,
            self._stack_place(),
            arguments=command,
            environment=environment,
            seed=seed,
            file_name=file_name,
            heap_start=heap_start,
        )
        task = Task(
            self,
            host,
            file_name,
            arguments=command,
            stack_size=start.stack.size,
            stack_top=start.stack.top,
            memory_limit=self.limits.memory,
            seed=seed,
        )
        self.calls = SystemCalls(task, strict=strict, on_code_file=self._on_code_file)
        self.threads.calls = self.calls
        if start.interpreter is not None:
            self._code.add_module(start.interpreter)
        self.cpu.window()[6] = start.stack_pointer
        self.cpu.state.pc, self.cpu.state.npc = start.entry, start.entry + 4
        host.interrupted = lambda: bool(self._clock[ClockWord.INTERRUPTED])

    def _on_code_file(self, path: bytes, address: int) -> None:
        # A library that the program's interpreter has mapped.
        module = module_at(Path(os.fsdecode(path)), address) if self.program.parts else None
        if module is not None:
            self._code.add_module(module)

    def _stack_place(self) -> StackPlace:
        layout = self._space.layout
        size = min(self.limits.stack, STACK_SIZE, self._space.limit // 4)
        return StackPlace(layout.stack_top, max(size // PAGE_SIZE * PAGE_SIZE, PAGE_SIZE))

    # -- running

    def run(self, bare: bool = False) -> running.RunResult:
        """Run the program to its end.

        Raises `UnsupportedError` where the program waits for ever, or runs code that is not in its
        file; `EngineError` where the emulator failed.
        """
        # `bare`: Without any block hook: nothing is counted or observed and instruction budgets do
        # not hold, for measuring the engine's own speed only.
        hook = None if bare or self._observer is None else self._observer.hook
        self._hooks.install(hook, count=not bare)
        for count in self._span_counts:
            count.install()
        self._is_bare = bare
        stop = self.cpu.stop if bare else None
        return self._result(
            *self._execute(self._loop, self.calls.finish, stop),
            system_calls=self._system_calls,
            spills=int(self._hooks.trap[TrapWord.SPILLS]),
            fills=int(self._hooks.trap[TrapWord.FILLS]),
            refused_calls=dict(self.calls.refused),
            read_only=self.calls.read_only,
            not_found=frozenset(self.calls.task.not_found),
            not_writable=frozenset(self.calls.task.not_writable),
            signal_actions=dict(self._signal_actions),
            threads=self.threads.counts(),
        )

    def count_in(self, span: Range) -> SpanCount:
        """Return what will hold how many instructions the run executes in a span of addresses."""
        count = SpanCount(self.cpu, self._clock, span)
        self._span_counts.append(count)
        return count

    def _limit(self) -> int:
        limit = self._budget()
        if not self.threads.is_alone:
            self._look_at = NO_LIMIT
            if self._silent:
                return -1  # turns are measured in events of all blocks
            return min(limit, self.threads.deadline) if self.threads.is_threaded else limit
        if self._silent:
            return min(self._look_at, limit - DENSE_END)
        return self._look_at if self._look_at < limit - DENSE_END else limit

    def _after(self, stop: Stop) -> None:
        if self._silent:
            self._follow(stop)
        if stop is Stop.FAULT:
            self._on_memory_fault()
        elif stop is Stop.ILLEGAL:
            pc = int(self.cpu.state.pc)
            self._position.interrupt(pc)
            self._on_fault(faults.illegal_instruction(pc, self._position.instruction(pc)))
        elif self._clock[ClockWord.STOPPED] or self._is_bare:
            self._clock[ClockWord.STOPPED] = 0
            self._on_limit()
            if not self._is_over():
                self._at_stop()
        else:
            raise self._stopped_without_reason()

    def _at_stop(self) -> None:
        # Do what the processor has been stopped for: the next thread's turn, or silent blocks.
        if self._thinning is not None and self.threads.is_alone:
            self._thin_out(self._thinning)
        elif self._thinning is not None and self._silent:
            self._hooks.silence({}, self._silent)
            self._thinning.begin_silence({})
            self._silent = {}
        elif self.threads.is_threaded:
            self.threads.give_way()
            self._go_on()

    def _on_limit(self) -> None:
        self._ends_from_outside()

    # -- fewer events than blocks

    def _thin_out(self, thinning: running.Thinning) -> None:
        # Near the end of a budget all blocks raise events: the run then stops where it should.
        budget = self.limits.max_instructions
        if budget is not None and self.instructions >= budget - 2 * DENSE_END:
            self._look_at = NO_LIMIT
            self._hooks.silence({}, self._silent)
            self._silent = {}
            return
        if not thinning.is_worth_it(self.instructions):
            self._look_at = 2 * self.instructions
            return
        if self._is_settling:
            self._is_settling, self._look_at = False, 10 * self.instructions
            thinning.begin_silence(self._silent)
            return
        chosen = thinning.choose_silent()
        self._look_at = 10 * self.instructions
        if chosen != self._silent:
            self._hooks.silence(chosen, self._silent)
            thinning.begin_silence(chosen)
            self._silent = chosen
            self._is_settling, self._look_at = True, self.instructions + NEXT_LOOK

    def _follow(self, stop: Stop) -> None:
        assert self._thinning is not None
        pc = int(self.cpu.state.pc)
        refused = self.cpu.refused or int(self._hooks.fill[FillWord.FAULT_ACCESS])
        if stop is Stop.REQUESTED or (stop is Stop.FAULT and refused == MemoryAccess.FETCH):
            self._thinning.stopped(pc)
        else:
            self._thinning.faulted(pc)

    # -- memory faults

    def _on_memory_fault(self) -> None:
        if self.cpu.refused is None:
            access = MemoryAccess(int(self._hooks.fill[FillWord.FAULT_ACCESS]))
            mapped = bool(self._hooks.fill[FillWord.FAULT_RIGHTS] & MAPPED)
        else:
            access, mapped = self.cpu.refused, False
        pc, address = int(self.cpu.state.pc), self.cpu.fault_address & self.cpu.address_mask
        origin = None
        if access is MemoryAccess.FETCH:
            if pc == self._contexts.return_address:
                self.return_from_signal()
                self._deliver_pending()
                return
            origin = self._position.last_jump()
        elif access is MemoryAccess.READ and pc in self._code.patched:
            faults.finish_load(self.cpu, self._position.instruction(pc), None)
            self._position.go_past(pc)
            return
        else:
            self._position.interrupt(pc)
            unaligned = faults.unaligned_access(self.cpu, self._position.instruction(pc))
            if unaligned is not None:
                self._on_fault(unaligned)
                return
        self._on_fault(faults.memory_fault(access, address, mapped), origin)

    # -- traps

    def _on_trap(self, number: int) -> None:
        state = self.cpu.state
        npc = int(state.pc)  # the engine has moved it there
        if self._resumes(number, npc):
            return
        state.npc = (npc + 4) & self.cpu.address_mask
        try:
            if number == (Trap.SYSTEM_CALL_64 if self.is64 else Trap.SYSTEM_CALL_32):
                self._on_system_call()
            elif number == Trap.OPERATION and self._is_native():
                self._hooks.do_operation()
            elif number == Trap.FLUSH_WINDOWS or (self.is64 and number in _CONTEXT_TRAPS):
                self._on_context_trap(number)
            else:
                self._on_exception(number)
        except GuestFault as error:
            self._on_fault(faults.stack_fault(error.address, self._is_mapped(error)))

    def _on_context_trap(self, number: int) -> None:
        # Answer a trap of contexts: the first few, and those that native code cannot.
        self._note_context()
        if number == Trap.FLUSH_WINDOWS:
            self._contexts.flush_windows()
        elif number == Trap.GET_CONTEXT:
            self._contexts.get_context()
        else:
            self._contexts.set_context()
            self._position.note_redirection()
            if self._observer is not None:
                self._observer.context_replaced()

    def _is_native(self) -> bool:
        word = self._position.instruction(self.cpu.trap_pc)
        return is_done_here(word) and not is_quad_store(word)

    def _note_context(self) -> None:
        # Native code is loaded when there are many contexts that are saved or set.
        self._contexts_noted += 1
        answered = bool(self._hooks.trap[TrapWord.CONTEXTS])
        if self._contexts_noted > PYTHON_CONTEXT_TRAPS and not answered:
            hook = None if self._observer is None else self._observer.hook
            words = self.signals.words
            self._contexts.flush_natively = self._hooks.answer_contexts(words, hook)

    def _on_exception(self, number: int) -> None:
        state = self.cpu.state
        of_windows = Trap.SPILL <= number < Trap.WINDOWS_END
        if self._silent and self._thinning is not None and not of_windows:
            self._thinning.trapped()
        pc = self.cpu.trap_pc
        state.pc, state.npc = pc, state.pc  # the engine has set pc = npc
        word = self._position.instruction(pc)
        if Trap.SPILL <= number < Trap.WINDOWS_END:
            self._position.interrupt(pc)
            self._contexts.move_window(number >= Trap.FILL)
            return
        if number == Trap.FPU_DISABLED:
            self._position.interrupt(pc)
            state.fprs |= FPRS_FEF
            return
        if number == Trap.OPERATION and is_quad_store(word):
            number = Trap.UNALIGNED  # if not done here, that is the reason
        if number == Trap.UNALIGNED and (data := faults.fp_store(self.cpu, word)) is not None:
            self._store(pc, faults.effective_address(self.cpu, word), data)
        elif number == Trap.DATA_MISS and (asi := faults.no_fault_load(self.cpu, word)):
            self._on_no_fault_load(pc, word, asi)
        elif number == Trap.PRIVILEGED_ACTION and (plain := self._of_user_space(word)):
            self._code.patch(pc, plain)
            self._position.interrupt(pc)
        else:
            self._position.interrupt(pc)
            self._on_fault(faults.trap_fault(number, self.cpu, pc, word))

    def _of_user_space(self, word: int) -> int | None:
        # LEON3's Linux has users' atomic instructions in a space that is privileged to V9.
        is_v8 = self.program.machine is MachineKind.SPARCV8
        return faults.of_user_space(word) if is_v8 else None

    def _store(self, pc: int, address: int, data: Sequence[bytes]) -> None:
        try:
            for word in data:
                self._space.write(address, word)
                address += len(word)
        except GuestFault as error:
            self._position.interrupt(pc)
            mapped = self._is_mapped(error)
            self._on_fault(faults.memory_fault(MemoryAccess.WRITE, error.address, mapped))
            return
        self._position.go_past(pc)

    def _on_no_fault_load(self, pc: int, word: int, asi: int) -> None:
        # A load that must not fault, which the engine cannot do. Where the instruction names its
        # space it becomes the ordinary load, and `_on_memory_fault` knows it; where %asi does, the
        # load is done here, each time.
        plain = faults.without_no_fault(word)
        if plain is not None:
            self._code.patch(pc, plain)
            self._position.interrupt(pc)
            return
        address = faults.effective_address(self.cpu, word)
        try:
            data: bytes | None = self._space.read(address, faults.load_size(word))
        except GuestFault:
            data = None
        faults.finish_load(self.cpu, word, data, little_endian=asi >= 0x88)
        self._position.go_past(pc)

    # -- faults and signals

    def _is_mapped(self, fault: GuestFault) -> bool:
        return self._space.is_mapped(fault.address, 1)

    def _on_fault(self, kind: faults.FaultKind, origin: int | None = None) -> None:
        info = faults.signal_info(kind)
        blocked = self.signals.blocked >> (info.number - 1) & 1
        if not blocked and self.signals.has_handler(info.number):
            self._deliver(info, kind)
        else:
            self._end_by_fault(kind, origin)

    def _end_by_fault(self, kind: faults.FaultKind, origin: int | None = None) -> None:
        number, pc = int(kind.signal), int(self.cpu.state.pc)
        fault = running.Fault(number, SIGNALS[number], pc, kind.address, kind.text, origin)
        self._ending = running.MachineEnding(_SIGNAL_STATUS + number, "fault", number, fault)

    def _deliver(
        self, info: SignalInfo, kind: faults.FaultKind | None = None, *, between: bool = False
    ) -> None:
        # `between`: from between two blocks, not from a call.
        self._note_context()
        pc, npc = int(self.cpu.state.pc), int(self.cpu.state.npc)
        stack_pointer = int(self.cpu.window()[6])
        try:
            self._contexts.enter_handler(info, self._position.saved())
        except GuestFault as error:
            self._end_by_fault(kind or faults.stack_fault(error.address, self._is_mapped(error)))
            return
        self._position.note_redirection()
        if self._observer is not None:
            self._observer.signal_delivered(pc, npc, stack_pointer, between)

    def _deliver_pending(self, *, between: bool = False) -> None:
        while not self._is_over():
            info = self.signals.take()
            if info is None:
                return
            if self.signals.has_handler(info.number):
                self._deliver(info, between=between)
            else:
                number = info.number
                self._ending = running.MachineEnding(_SIGNAL_STATUS + number, "signal", number)

    # -- system calls

    def _on_system_call(self) -> None:
        cpu = self.cpu
        self.threads.trap_pc = cpu.trap_pc
        window = cpu.window()
        arguments = tuple(window[number] & cpu.address_mask for number in range(6))
        self._system_calls += 1
        number = int(cpu.state.globals[1]) & 0xFFFFFFFF
        if number in SIGNAL_ACTION_CALLS:
            self._signal_actions[self.threads.trap_pc] += 1
        self._after_call(self.calls.call(number, arguments), (number, arguments))

    def _after_call(self, outcome: guest.Outcome, call: Call) -> None:
        if self._finish_call(outcome, call):
            self._deliver_pending()
        else:
            self._go_on()

    def _go_on(self) -> None:
        # Where no thread can ever go on, the run ends.
        while self.threads.go_on():
            call, outcome = self.threads.take_call()
            if call is None or self._finish_call(outcome or self.calls.call(*call), call):
                self._set_limit()
                if self.threads.instructions:
                    self._deliver_pending(between=call is None and not self._position.is_inside)
                return
        self._ending = running.MachineEnding(STATUS_REFUSED, "deadlock", waits=self.threads.waits())

    def _finish_call(self, outcome: guest.Outcome, call: Call) -> bool:
        threads = self.threads
        if isinstance(outcome, guest.Waits):
            threads.block(outcome, call)
            return False
        threads.finish_call()
        self._finish_system_call(outcome)
        if isinstance(outcome, guest.ThreadExited):
            threads.end()
        elif isinstance(outcome, guest.Yields):
            threads.give_way()
        elif not threads.is_alone:
            self._set_limit()
        return not isinstance(outcome, guest.ThreadExited | guest.Yields)

    def _finish_system_call(self, outcome: guest.Outcome) -> None:
        window, mask = self.cpu.window(), self.cpu.address_mask
        if isinstance(outcome, guest.Exited):
            self._ending = running.MachineEnding(outcome.status & 0xFF, "exit")
        elif isinstance(outcome, guest.Refused):
            refusal = running.Refusal(outcome.call, self.pc)
            self._ending = running.MachineEnding(STATUS_REFUSED, "refused", refusal=refusal)
        elif isinstance(outcome, guest.Yields):
            self._finish_system_call(guest.Returned(0))
        elif isinstance(outcome, guest.Returned):
            window[0] = outcome.value & mask
            if outcome.second is not None:
                window[1] = outcome.second & mask
            set_condition_codes(self.cpu.state, 0, 0)
        elif isinstance(outcome, guest.Failed):
            window[0] = outcome.errno
            set_condition_codes(self.cpu.state, 1, 1)
        elif isinstance(outcome, guest.CallInterrupted):
            if outcome.restarts and self.signals.restarts_call:
                self._system_calls -= 1  # it counts once
                state, trap_pc = self.cpu.state, self.threads.trap_pc
                self._position.interrupt(trap_pc)
                state.pc, state.npc = trap_pc, state.pc
            else:
                self._finish_system_call(guest.Failed(ERRNO["EINTR"]))

    # -- guest.Guest

    @property
    def pc(self) -> int:
        """Address of the trap instruction of the system call at hand."""
        return self.threads.trap_pc

    def stack_pointer(self) -> int:
        """%sp with the 64-bit stack bias removed."""
        return int(self.cpu.window()[6] + self.cpu.stack_bias) & self.cpu.address_mask

    def lower_stack(self, size: int, words: int) -> None:
        """Begin the stack lower by `size` bytes, with the words that the program finds there."""
        start = self.cpu.window()[6] + self.cpu.stack_bias
        self._space.write(start - size, self.read(start, words * self.cpu.window_size // 16))
        self.cpu.window()[6] -= size

    def raise_signal(self, info: SignalInfo) -> None:
        """Make a signal pending, sent by the program itself."""
        self.threads.send_to_any(info)

    def suspend(self, mask: int) -> None:
        """Block `mask` until the pending signal has been handled."""
        self._contexts.saved_mask = self.signals.blocked
        self.signals.blocked = mask

    def return_from_signal(self) -> None:
        """Restore what a handler interrupted; a frame that cannot be read ends the run."""
        try:
            interrupted = self._contexts.leave_handler()
        except GuestFault as error:
            self._end_by_fault(faults.frame_fault(error.address, self._is_mapped(error)))
            return
        pc = int(self.cpu.state.pc)
        self._position.note_redirection()
        if self._observer is not None:
            self._observer.signal_returned(pc)  # it keeps its own state, and sets STATE
        elif interrupted is not None:
            self._position.restore(interrupted, pc)
