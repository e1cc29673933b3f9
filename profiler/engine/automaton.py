"""The successor-cache automaton: drives the kernel and turns transition counts into edge counts.

A state is a translation block in one context; a transition is one state following another. The
first time that a transition is taken, `walk.Walker` turns it into the steps that the program took,
and from then on the kernel only counts it. The edges that a block crosses inside are counted when
the program leaves the block: if a fault stops it in the middle, or the budget ends before it, there
is nothing to take back.

Modules: `memory` holds the arrays, `states` the blocks with what happens inside them,
`activations` the stack of frames, `landings` what native code does of its work; `states.RunCounts`
expands the counts after the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simprof.profiler.engine import block_kernel, kernels
from simprof.profiler.engine.activations import (
    Activations,
    Landings,
    SignalRecord,
    Tally,
    too_deep,
)
from simprof.profiler.engine.lowering import Lowering, StepOperations, TraceSink
from simprof.profiler.engine.native_walk import BlockState, NativeWalk
from simprof.profiler.engine.silence import EventsLostError, RunThinning, reported
from simprof.profiler.engine.stacks import Arrival, ThreadStacks
from simprof.profiler.engine.states import (
    RunCounts,
    States,
    Transition,
)
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    GraphIndex,
    Land,
    Missing,
    Step,
    Stray,
    WalkContext,
    Walker,
    only_crosses,
)
from simprof.simulator.binary.dynamic import real_address
from simprof.simulator.errors import SimulatorError, UnsupportedError
from simprof.simulator.isa.decode import TransferKind
from simprof.simulator.machine.running import CodeBlock, NativeHook

Array = npt.NDArray[np.int64]
_ADDRESS = (1 << 48) - 1
_LEAVES_TRAP = (TransferKind.RETURN_FROM_TRAP,)


def _context_hook() -> int:
    from simprof.profiler.engine import landing_kernel  # most programs never need it

    return landing_kernel.context_part()


class Automaton:
    """One run's automaton: the observer of its machine."""

    # `index`: Graphs under program-wide numbers.
    # `lowering`: What the kernel does on each edge, counters and tables.
    # `on_missing`: Told of everything that the graphs lack, when it is first met.
    # `is_dense`: Whether every block raises events throughout the run.
    # `trace`: Writes a trace of the run; None where no trace is wanted. Set before the run begins.
    # Raises `UnsupportedError` through `error` after the run: the program did what cannot be
    # profiled exactly.

    def __init__(
        self,
        index: GraphIndex,
        lowering: Lowering,
        on_missing: Callable[[Missing], None] = lambda _: None,
        *,
        is_dense: bool = True,
    ) -> None:
        self.is_dense = is_dense
        self.tally = Tally()
        self.error: BaseException | None = None
        self.memory = lowering.memory
        self._on_missing = on_missing
        self.trace: TraceSink | None = None
        self._index = index
        self._lowering = lowering
        self._walker = Walker(index)
        self._native = NativeWalk(self.memory, index, lowering)
        self._states = States(self._walker, self.memory, self._native)
        self._thinning = RunThinning(
            index,
            self._walker,
            self._states,
            self._native,
            self.memory,
            lambda: self.counts,
            self.decide,
            self.guard,
        )
        self._transitions: list[Transition] = []  # those that Python has found
        self._operations = StepOperations(lowering, self._native.steps_of)
        self._clock = self.memory.clock.data
        self._arrival: Arrival | None = None
        self._natives: Landings | None = None
        self._threads: ThreadStacks | None = None
        self._places: dict[int, int] = {}  # key of an event in late code -> where its code is
        self._to_late: defaultdict[int, list[int]] = defaultdict(list)  # -> transitions to it
        self._retired = 0
        self._activations = Activations(
            self.memory,
            index,
            self.tally,
            lowering.stack_mask,
            self._cross,
            self._states.until,
            self._note_missing,
            lowering.contexts,
        )
        self._callback: Any = kernels.Callback(self._guarded)
        self.clock[kernels.SLOW_CALLBACK] = kernels.address_of(self._callback)

    @property
    def counts(self) -> RunCounts:
        """What the run has counted, once it is over."""
        found = self._transitions, self._native
        return RunCounts(self._index, self.memory, self._states, *found, self.tally)

    @property
    def hook(self) -> NativeHook:
        """The native observer of every block."""
        return NativeHook(
            address=block_kernel.block_hook_address(),
            user_data=self.memory.address,
            clock=self.clock,
            keepalive=self,
            on_context=_context_hook,
            thinning=None if self.is_dense else self._thinning,
            on_late_block=self.late_block,
        )

    @property
    def clock(self) -> Array:
        """The words shared with the machine and its traps."""
        return self.memory.clock

    def retire(self) -> None:
        """Let go of what only a run needs, when it is over; `counts` and `lost` remain."""
        # The callback and the activations refer back to the automaton: it would otherwise stay in
        # memory, with all that it knows, until Python looks for such cycles.
        self.clock[kernels.SLOW_CALLBACK] = 0
        self._callback = None
        self._activations.retire()
        self._natives = self._arrival = None
        del self._thinning
        self._on_missing = lambda _: None

    def write_trace(self, trace: TraceSink) -> None:
        """Have a trace of the run written, which has not begun yet."""
        self.trace = trace
        self._native.stop()

    # Transitions

    def _resolve(self, source: int, address: int, size: int) -> None:
        key = address | size << 48
        if self._native.learn(source, address, size):
            self._take(source, key)
            return
        address = self._places.get(key, address)
        boundary, first, passed = self._boundary(source, address)
        inside = () if source == kernels.START else self._states.inside(source)[0]
        target = self._states.number(BlockState(address, size, first))
        steps = (*inside, *boundary)
        if not only_crosses(steps):
            for step in steps:
                if isinstance(step, Missing):
                    self._note_missing(step)
        self._take_new(source, target, steps, boundary, key, passed)

    def _take(self, source: int, key: int) -> bool:
        """Take a transition that is known; False where it is not."""
        known = self.memory.take(source, key)
        if known is None:
            return False
        follows, operation = known
        self._clock[kernels.INSTRUCTIONS] += follows >> kernels.PASSED_SHIFT
        self._clock[kernels.STATE] = follows & (1 << kernels.PASSED_SHIFT) - 1
        self._execute(operation, key & _ADDRESS)
        return True

    def _boundary(self, source: int, address: int) -> tuple[list[Step], WalkContext, int]:
        """Steps from state `source` to the instruction at `address`, and the context after it."""
        # Also the number of instructions of the silent blocks on the way.
        silence = self._thinning.silence
        if silence is None or source == kernels.START:
            return *self._states.boundary(source, address), 0
        context = self._states.inside(source)[1]
        path = silence.way(context, real_address(address))
        steps, context, passed = silence.walk(context, path)
        more, first = self._walker.step(context, address)
        return [*steps, *more], first, passed

    def _take_new(
        self,
        source: int,
        target: int,
        steps: tuple[Step, ...],
        boundary: Sequence[Step],
        key: int,
        passed: int = 0,
    ) -> None:
        move = () if self._states[target].size == 0 else self._native.move(target)
        operation = self._operations.number(steps, move, self.trace)
        self._native.follow()
        follows = target | passed << kernels.PASSED_SHIFT
        self.memory.insert(source, (key, 1, follows, operation))
        self._clock[kernels.INSTRUCTIONS] += passed
        if key in self._places:
            self._to_late[key].append(len(self._transitions))
        self._transitions.append(Transition(source, target, tuple(boundary), key))
        self._clock[kernels.STATE] = target
        self._execute(operation, key & _ADDRESS)

    def _execute(self, operation: int, address: int) -> None:
        if operation:
            self._settle(self.memory.execute(operation, address), address)

    def _cross(self, steps: Sequence[Step]) -> None:
        """Cross the edges among `steps` now, for the current activation."""
        # No transition counts these edges: they belong to an event that Python handles.
        for step in steps:
            if isinstance(step, Cross):
                self.tally.crossed[step.edge] += 1
                if self.trace is not None:
                    self.trace.crossed(step.edge)
                self._execute(self._operations.number((step,), (), self.trace), 0)

    # Python's part of an event

    def guard(self, action: Callable[[], None]) -> None:
        """Do `action`; keep what it raises in `error`, stop the engine, and do nothing then."""
        try:
            if self.error is None:
                action()
        except BaseException as error:
            self.error = error
            self.clock[kernels.LIMIT] = -1
            self.clock[kernels.INTERRUPTED] = kernels.FAILED

    def _guarded(self, status: int, address: int, size: int) -> None:
        self.guard(lambda: self.decide(status, address, size))

    def decide(self, status: int, address: int, size: int) -> None:
        """Handle an event for which the kernel asked Python."""
        # `status`: Why it asked: the result of `block_kernel.advance`.
        # `address`, `size`: The translation block that the program has come to, and its size in
        # bytes.
        if self.error is not None:
            return
        if status != kernels.MISS:
            self._settle(status, address)
            return
        state = self._clock[kernels.STATE]
        if (address, size) == (kernels.LEFT, 0):
            self._leave(state)
        elif state == kernels.ABNORMAL:
            self._arrive_abnormally(address, size)
        elif state == kernels.RESUME:
            self._resume(address, size)
        else:
            self._resolve(state, address, size)

    def _settle(self, status: int, address: int) -> None:
        """Do what the kernel stopped for in a list of operations, and let it finish the list."""
        while status != kernels.OK:
            failed = int(self.clock[kernels.FAILED_OPERATION])
            match status:
                case kernels.MISMATCH if not self._activations.accept_return(address):
                    self.tally.crossed.subtract(self._operations.after_pop(failed))
                    self._land(failed, Land(address, UNKNOWN, returned=True))
                    return
                case kernels.DECIDE:
                    self._land(failed, self._operations.landing(failed))
                    return
                case kernels.TOO_DEEP:
                    raise too_deep(address)
                case kernels.NO_NODES:
                    self.memory.grow_nodes()
                case kernels.NEW_SEGMENT if not self._lowering.products.resolve_at(failed):
                    failed += 1
                    if self.memory.is_last(failed - 1):
                        return
                case kernels.TRACE_STOP if self.trace is not None:
                    self.trace.drain()
                case kernels.MARKED if self.trace is not None:
                    self.trace.mark(
                        self._operations.marks[failed], self._activations.current, self._position()
                    )
                    failed += 1
                    if self.memory.is_last(failed - 1):
                        return
            status = self.memory.execute(failed, address)

    def _land(self, operation: int, landing: Land) -> None:
        """Land as operation number `operation` demands; the kernel does the next one like it."""
        left = UNKNOWN if landing.returned else landing.block
        self._begin_event(left)
        if isinstance(landing, Stray):
            self._activations.stray(landing.address, landing.block)
            self._end_event()
            return
        native = self._native_landings()
        self._activations.land(landing.address, landing.block, returned=landing.returned)
        self._check_stacks()
        self._end_event()
        if native is not None and not self._activations.stacks.has_any:
            uncrossed = self._operations.after_pop(operation) if landing.returned else None
            native.add(operation, landing.address, left, uncrossed)

    def _native_landings(self) -> Landings | None:
        """Return what native code knows of landings; None where Python handles all of them."""
        # Where a trace is written, it lists all landings; counts by context have all early ends.
        watched = self.trace is not None or self._lowering.contexts is not None
        watched = watched or not self._index.recovered.code.place.is_single
        if self._activations.stacks.has_any:
            return None
        if self._natives is None and not watched:
            mask, number = self._lowering.stack_mask, self._operations.number
            self._natives = Landings(self.memory, self._index, self.tally, mask, number)
            self._activations.on_end = self._natives.add_end
        return self._natives

    def _check_stacks(self) -> None:
        """Raise `UnsupportedError` if the run changes between stacks, and is traced."""
        if self._activations.stacks.has_any:  # native code knows one stack only
            self._clock[kernels.LAND_PART] = 0
        if self._activations.stacks.has_switched and self.trace:
            raise UnsupportedError(
                "a trace follows one stack, and the program changes between stacks: "
                "run it without a trace"
            )

    def _resume(self, address: int, size: int) -> None:
        """Go on with a block that a signal interrupted, and that now ends at another address."""
        # The emulator may cut the rest of the block into other translation blocks than before. The
        # part that executed before the signal then becomes a state of its own.
        state = self._states[int(self.clock[kernels.RESUMED_STATE])]
        done = int(self.clock[kernels.RESUME_PC]) - state.address
        if address != state.address + done and self._thinning.silence is not None:
            raise EventsLostError(f"a block was to be resumed at {state.address + done:#x}")
        if address != state.address + done:
            raise SimulatorError(
                f"the emulator resumed at {address:#x} instead of {state.address + done:#x}: "
                "please report this program"
            )
        if done == 0:
            self.clock[kernels.STATE] = self._states.number(BlockState(address, size, state.first))
            return
        part = self._states.number(BlockState(state.address, done, state.first))
        if not self._take(part, address | size << 48):
            self._resolve(part, address, size)

    def _leave(self, state: int) -> None:
        """Add the transition of a program that has set a context, and take it."""
        if self.trace is not None or state < kernels.FIRST_STATE:
            self.context_replaced()
            return
        inside, context = self._states.inside(state)
        edge = self._exit_by_trap(context)
        boundary = () if edge == UNKNOWN else (Cross(edge),)
        target = self._states.left(context.block if edge == UNKNOWN else UNKNOWN)
        self._take_new(state, target, (*inside, *boundary), boundary, kernels.LEFT)

    def _arrive_abnormally(self, address: int, size: int) -> None:
        place = self._places.get(address | size << 48, address)
        silence = self._thinning.silence
        if silence is not None and address in silence.behind:
            raise EventsLostError(f"control came to {address:#x} by an unknown path")
        arrival, self._arrival = self._arrival, None
        self.clock[kernels.STATE] = self._states.landing(place, size)
        if arrival is not None:
            arrival.begin(place)
            self._check_stacks()
        self._end_event()

    def _note_missing(self, step: Missing) -> None:
        self.tally.missing[step] += 1
        self._on_missing(step)

    def check_transitions(self) -> str | None:
        """Compare what native code has learnt with the walker; say where they first differ."""
        return self._native.check(self._walker)

    @property
    def lost(self) -> int:
        """How many path counts could not be attributed to a counter."""
        # 0 where the graphs lacked something in the run: counts may then be lost without a defect.
        return 0 if self.tally.missing else self._lowering.products.lost

    def reached(self, addresses: Iterable[int]) -> set[int]:
        """Return those of some instructions that were part of a block that ran."""
        return self._states.covered(addresses)

    # What the machine reports

    def _current(self) -> tuple[int, int]:
        """Return the current state's number, and how far the program has come in it."""
        # The second number is the address of the first instruction that has not executed yet.
        number = int(self.clock[kernels.STATE])
        if number == kernels.RESUME:
            return int(self.clock[kernels.RESUMED_STATE]), int(self.clock[kernels.RESUME_PC])
        return number, self._states[number].end

    def _position(self) -> int:
        """Return the block that contains the current state's first instruction."""
        # Edges that the state crosses behind this instruction have not been counted yet.
        return self._states.entered_block(self._current()[0])

    def _begin_event(self, block: int) -> None:
        """Tell the trace that Python takes over while the program is in `block`."""
        # A reader of the trace cannot derive what happens from here to `_end_event`, so the trace
        # lists it.
        if self.trace is not None:
            self.trace.begin_event(block)

    def _end_event(self) -> None:
        if self.trace is not None:
            self.trace.end_event(self._activations.current, self._position())

    def _await(self, begin: Callable[[int], None], abandon: Callable[[], int]) -> None:
        """See `Arrival`."""
        self._arrival = Arrival(begin, abandon)
        self.clock[kernels.STATE] = kernels.ABNORMAL

    @reported
    def signal_delivered(
        self, pc: int, npc: int, stack_pointer: int, between: bool = False
    ) -> None:
        """Prepare for the entry of a signal handler, which is what executes next."""
        # `pc`: The first instruction that the signal kept from executing; `npc`: the one behind it.
        # `stack_pointer`: The interrupted %sp, bias included.
        # `between`: Whether it came between two blocks: `pc` then begins the second one.
        activations = self._activations
        if self._arrival is None:
            self._begin_event(self._position())
            number, end = self._current()
            reached = end if between else pc
        else:  # where control was to arrive there is no code
            self._begin_event(UNKNOWN)
            activations.end_early(activations.current, self._arrival.abandon())
            number, reached = kernels.ABNORMAL, pc
        record = activations.interrupt(SignalRecord(number, reached, pc, npc))
        self._await(
            lambda address: activations.enter_handler(record, stack_pointer, address),
            lambda: activations.abandon(record, activations.current),
        )

    @reported
    def signal_returned(self, resumed_pc: int) -> None:
        """End the innermost signal handler, which has called `sigreturn`."""
        # What the signal interrupted is continued next, at `resumed_pc`. That is another address
        # than the interrupted one if the handler changed its saved context.
        self._begin_event(self._position())
        frame = self._activations.current
        steps, context = self._states.inside(self._current()[0])
        self._activations.apply(steps, frame)
        self._activations.end_early(frame, self._leave_by_trap(context))
        record = self._activations.leave_handler(resumed_pc)
        if record is None or record.state == kernels.ABNORMAL:
            self._await_landing(UNKNOWN)
            return
        state, pc, frame = self._states[record.state], record.pc, self._activations.current
        is_inside = pc < state.end and self._walker.kind(pc) == TransferKind.NONE
        if is_inside and resumed_pc == record.npc:
            # The handler has stepped over the instruction, and the program goes on behind it.
            _, context = self._states.until(record.state, pc, executed=True)
            self._activations.step_over(frame, context.block, pc)
            pc += 4
        elif resumed_pc != record.resumes_at:
            if self._activations.begins_task(resumed_pc):
                self._activations.current += kernels.STRIDE  # the handler's frame, complete
                self._await(self._activations.begin_task, lambda: UNKNOWN)
                return
            block = self._activations.stop_at(record.state, pc, frame)
            resume = self._activations.resume_elsewhere
            self._await(lambda address: resume(address, block), lambda: block)
            return
        if pc < state.end:
            self.clock[kernels.RESUME_PC] = pc
            self.clock[kernels.RESUME_END] = state.end
            self.clock[kernels.RESUMED_STATE] = record.state
            self.clock[kernels.STATE] = kernels.RESUME
            self._end_event()
        else:
            self.clock[kernels.STATE] = record.state
            self._end_event()

    @reported
    def context_replaced(self) -> None:
        """Follow `setcontext`: the program goes on anywhere, in any activation that is alive."""
        # Where the context was set natively, `kernels.LEFT` says so: the same, as a transition.
        self._begin_event(self._position())
        number, end = self._current()
        steps, context = self._states.until(number, end - 4)
        self._activations.apply(steps, self._activations.current)
        self._await_landing(self._leave_by_trap(context))

    def _await_landing(self, block: int) -> None:
        land = self._activations.land
        self._await(lambda address: land(address, block, returned=False), lambda: block)

    def _leave_by_trap(self, context: WalkContext) -> int:
        """Return the block in which a trap that does not return leaves its activation."""
        # If the graph has an EXIT edge behind the trap, the edge is crossed and the activation is
        # complete: then the result is UNKNOWN.
        edge = self._exit_by_trap(context)
        if edge == UNKNOWN:
            return context.block
        self._cross((Cross(edge),))
        return UNKNOWN

    def _exit_by_trap(self, context: WalkContext) -> int:
        """Return the EXIT edge behind a trap that does not return, UNKNOWN if there is none."""
        ends = context.pending < 0 or self._walker.kind(context.pending) in _LEAVES_TRAP
        behind = self._index.exit_behind_slot(context)
        return self._index.exit_edge[context.block] if ends else behind

    # Threads

    @reported
    def thread_started(self, number: int, current: int) -> None:
        """Note that thread `current` has started another one, which begins where it arrives."""
        # Raises `UnsupportedError` if the run is traced: a trace follows one stack of activations.
        if self.trace is not None:
            raise UnsupportedError(
                "a trace follows one thread, and the program starts a second one: "
                "run it without a trace"
            )
        if self._threads is None:
            self._threads = ThreadStacks(self.memory, self._lowering.contexts)
        self._threads.start(number, current, self._activations.enter)

    @reported
    def thread_switched(self, number: int) -> None:
        """Note that another thread goes on where it was."""
        assert self._threads is not None
        self._arrival = self._threads.switch(number, self._arrival)

    @reported
    def thread_ended(self) -> None:
        """End the activations of the current thread, which has ended itself."""
        self._end_stack(exited=True, fault_pc=None)
        self._arrival = None
        if self._threads is not None:
            self._threads.end()

    # Late code

    @reported
    def late_block(self, block: CodeBlock) -> None:
        """Note that a block of stubs, or of generated code, has these words from now on."""
        # Where it had others, the kernel forgets the transitions to it, whose counts remain.
        key = block.address | len(block.words) << 50
        if block.is_generated:
            if self.trace is not None:
                raise UnsupportedError(
                    "a trace follows the code of the program's file, and the program runs code "
                    f"that it has made, at {block.address:#x}: run it without a trace"
                )
            if self._thinning.silence is not None:
                raise EventsLostError(f"code was generated at {block.address:#x}")
            place = self._index.generated.add(block.address, block.words)
        else:
            place = self._index.recovered.code.version(block.address, block.words)
        self._native.late_block(block.address)
        if block.is_generated and self._places.get(key) == place:
            return
        for number in self._to_late.pop(key, ()):
            known = self._transitions[number]
            self._retired -= 1
            self.memory.rename(known.source, key, self._retired)
            self._transitions[number] = known._replace(key=self._retired)
        self._places[key] = place

    # The end

    def finish(self, *, exited: bool, fault_pc: int | None) -> None:
        """Count what the last block executed, and end all activations that are still alive."""
        # `exited`: Whether the program ended itself.
        # `fault_pc`: The instruction of the last block that faulted; None if none did.
        if self._arrival is None:
            self._begin_event(self._position())
        self._end_stack(exited=exited, fault_pc=fault_pc)
        for number in [] if self._threads is None else sorted(self._threads.stacks):
            self.thread_switched(number)
            self._end_stack(exited=False, fault_pc=None)
        self._activations.end_left()
        if self.trace is not None:
            self.trace.end()
        if self._natives is not None:
            self._natives.collect()

    def _end_stack(self, *, exited: bool, fault_pc: int | None) -> None:
        """Count what the current thread's last block executed, and end all its activations."""
        if self._arrival is None:
            block = self._finish_block(exited, fault_pc)
        else:
            block = self._arrival.abandon()
        self._activations.end_early(self._activations.current, block)
        self._activations.end_callers_early()

    def _finish_block(self, exited: bool, fault_pc: int | None) -> int:
        """Count what the last block executed; return the block in which the activation ends."""
        # UNKNOWN if the activation is complete.
        number, end = self._current()
        if number < kernels.FIRST_STATE:
            return UNKNOWN
        if self._states[number].size == 0:  # a context was set, and nothing has executed there
            return self._states.inside(number)[1].block
        frame = self._activations.current
        if not exited:
            return self._activations.stop_at(number, end if fault_pc is None else fault_pc, frame)
        steps, context = self._states.until(number, end - 4, executed=True)
        self._activations.apply(steps, frame)
        return self._leave_by_trap(context)
