"""The successor-cache automaton: drives the kernel and turns transition counts into edge counts.

A state is a translation block in one context; a transition is one state following another. Each
transition is resolved once, by `walk.Walker`, into steps, and from then on counted natively. What
a block does inside is accounted for when it is left, so that a fault in its middle, or a budget
that ends before it, leaves nothing to undo.

Terms
-----
inside
    The steps between a block's first instruction and its last.
boundary
    The steps from a block's last instruction to the first of the next.
ended early
    An activation that a longjmp, an exception, a signal or the end of the run cut off
    (BL94 3.2, EPP 3.6).
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from profiler import kernels
from profiler.lowering import Lowering, Operation
from profiler.walk import (
    BEGINNING,
    UNKNOWN,
    Context,
    Cross,
    GraphIndex,
    Land,
    Missing,
    MissingEntry,
    MissingReturn,
    MissingTarget,
    Pop,
    Push,
    Step,
    Walker,
)
from simulator.errors import SimulatorError, UnsupportedError

Array = npt.NDArray[np.int64]

SIGNAL_BIT = 2  # of a frame's return address: the rest is an index into the signal records
ENDED_BIT = 1
MAXIMUM_DEPTH = 1 << 22
INITIAL_STATES = 1 << 14
INITIAL_SPILL = 1 << 15
INITIAL_NODES = 1 << 16


@dataclass(frozen=True)
class State:
    """A translation block in one context. `first` is the context after its first instruction."""

    address: int
    size: int
    first: Context


@dataclass(frozen=True)
class Transition:
    """`source` was followed by `target`; `slot` says where the kernel counts it."""

    source: int
    target: int
    boundary: tuple[Step, ...]
    spilled: bool
    slot: int


@dataclass(frozen=True)
class EarlyEnd:
    """An activation ended in `block` with these (r, last) pairs, one a path register."""

    block: int
    registers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SignalRecord:
    """What a signal interrupted."""

    state: int
    pc: int
    frame: int


@dataclass
class Tally:
    """What Python counted itself, beside the kernel's transitions."""

    crossed: Counter[int] = field(default_factory=Counter)
    early: Counter[EarlyEnd] = field(default_factory=Counter)
    missing: Counter[Missing] = field(default_factory=Counter)
    unexecuted: int = 0  # instructions of entered blocks that were never reached


class Automaton:
    """One run's automaton.

    Parameters
    ----------
    index
        Graphs under program-wide numbers.
    lowering
        What the kernel does on each edge, counters and tables.
    on_missing
        Told of everything that the graphs lack, when it is first met.

    Raises
    ------
    UnsupportedError
        Through `error` after the run: the program did what cannot be profiled exactly.
    """

    def __init__(
        self,
        index: GraphIndex,
        lowering: Lowering,
        on_missing: Callable[[Missing], None] = lambda _: None,
    ) -> None:
        self._on_missing = on_missing
        self._index = index
        self._walker = Walker(index)
        self._lowering = lowering
        self.tally = Tally()
        self.error: BaseException | None = None
        self._states: dict[int, State] = {kernels.START: State(0, 0, BEGINNING)}
        self._numbers: dict[State, int] = {}
        self._insides: dict[int, tuple[tuple[Step, ...], Context]] = {}
        self._transitions: list[Transition] = []
        self._operations: list[int] = [0] * kernels.OPERATION
        self._blocks_of: dict[tuple[Step, ...], int] = {(): 0}
        self._landings: dict[int, Land] = {}
        self._after_pop: dict[int, tuple[int, ...]] = {}
        self._signals: list[SignalRecord] = []
        self._arrival: Callable[[int], None] | None = None
        self.kernel = self._allocate()
        callback_type = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self._callback = callback_type(self._guarded)
        self._publish()

    # Arrays

    def _allocate(self) -> kernels.KernelState:
        lowering = self._lowering
        clock = np.zeros(kernels.CLOCK_WORDS, np.int64)
        stride = kernels.FRAME_REGISTERS + 2 * lowering.registers
        clock[kernels.STRIDE] = stride
        clock[kernels.FRAME_LIMIT] = stride * MAXIMUM_DEPTH
        clock[kernels.SPILL_MASK] = INITIAL_SPILL - 1
        clock[kernels.WEIGHT] = 1
        clock[kernels.STATE] = kernels.START
        return kernels.KernelState(
            clock=clock,
            rows=np.zeros(INITIAL_STATES * kernels.ROW, np.int64),
            spill=np.zeros(INITIAL_SPILL * kernels.SPILL, np.int64),
            operations=np.zeros(1 << 12, np.int64),
            frames=np.zeros(stride * (MAXIMUM_DEPTH + 1), np.int64),
            counters=np.zeros(1, np.int64),
            tables=np.zeros(1, np.int64),
            heads=np.zeros(1, np.int64),
            nodes=np.zeros(1, np.int64),
            costs=lowering.costs(),
        )

    def _publish(self) -> None:
        self.kernel.publish()
        callback = ctypes.cast(self._callback, ctypes.c_void_p).value
        self.clock[kernels.SLOW_CALLBACK] = callback or 0

    def _fit(self) -> None:
        """Make room for the counters and tables of routines planned since."""
        lowering, kernel = self._lowering, self.kernel
        if lowering.counters > len(kernel.counters):
            self._replace(counters=_grown(kernel.counters, 2 * lowering.counters))
        self.clock[kernels.COUNTERS] = lowering.counters
        known = int(self.clock[kernels.TABLES])
        if lowering.tables > known:
            self.clock[kernels.TABLES] = lowering.tables
            tables = _grown(kernel.tables, lowering.tables * kernels.TABLE_WORDS)
            headers = [lowering.table_header(table) for table in range(known, lowering.tables)]
            tables[known * kernels.TABLE_WORDS :] = np.array(headers).ravel()
            self._replace(tables=tables, heads=_grown(kernel.heads, lowering.heads))

    def _replace(self, **arrays: Array) -> None:
        self.kernel = self.kernel._replace(**arrays)
        self._publish()

    @property
    def clock(self) -> Array:
        """The words shared with the machine and its traps."""
        return self.kernel.clock

    # States and transitions

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = kernels.START * (len(self._states) + 1)
            self._numbers[state], self._states[number] = number, state
            if number + kernels.START > self.kernel.rows.nbytes:
                self._replace(rows=_grown(self.kernel.rows, 2 * len(self.kernel.rows)))
        return number

    def _inside(self, number: int) -> tuple[tuple[Step, ...], Context]:
        """Steps within state `number`, and the context after its last instruction."""
        known = self._insides.get(number)
        if known is None:
            state = self._states[number]
            known = self._insides[number] = self._walk_inside(state, state.address + state.size)
        return known

    def _walk_inside(self, state: State, end: int) -> tuple[tuple[Step, ...], Context]:
        context = state.first
        steps: list[Step] = []
        for address in range(state.address + 4, end, 4):
            more, context = self._walker.step(context, address)
            steps += more
        return tuple(steps), context

    def _first_event(self, number: int, address: int) -> tuple[list[Step], Context]:
        if number == kernels.START:
            return self._walker.begin(address)
        return self._walker.step(self._inside(number)[1], address)

    def _resolve(self, source: int, address: int, size: int) -> None:
        """Add the transition from `source` to the block at `address` and take it."""
        boundary, first = self._first_event(source, address)
        inside = () if source == kernels.START else self._inside(source)[0]
        target = self._number(State(address, size, first))
        steps = (*inside, *boundary)
        for step in steps:
            if isinstance(step, MissingTarget | MissingEntry | MissingReturn):
                self._note_missing(step)
        operation = self._operation(steps)
        key = address | size << 48
        slot = self._insert(source, (key, 1, target, operation))
        self._transitions.append(Transition(source, target, tuple(boundary), *slot))
        self.clock[kernels.STATE] = target
        if operation:
            self._settle(kernels.execute(self.kernel.address, operation, address), address)

    def _insert(self, source: int, successor: tuple[int, int, int, int]) -> tuple[bool, int]:
        """Store a new successor of `source`; return whether it spilled, and its count's place."""
        rows = self.kernel.rows
        first = source // 8
        for at in (first, first + kernels.SUCCESSOR):
            if rows[at] == 0:
                rows[at : at + kernels.SUCCESSOR] = successor
                return False, at + kernels.COUNT_OF
        if 2 * (len(self._transitions) + 1) > int(self.clock[kernels.SPILL_MASK]):
            self._grow_spill()
        self._spill(source, successor)
        return True, 0

    def _spill(self, source: int, successor: Sequence[int]) -> None:
        kernels.spilled(self.kernel.address, source, successor[kernels.KEY])  # finds the place
        at = int(self.clock[kernels.MISS_SLOT]) * kernels.SPILL
        self.kernel.spill[at : at + kernels.SPILL] = *successor, source

    def _grow_spill(self) -> None:
        old = self.kernel.spill.reshape(-1, kernels.SPILL)
        size = 4 * len(old)
        self.clock[kernels.SPILL_MASK] = size - 1
        self._replace(spill=np.zeros(size * kernels.SPILL, np.int64))
        for *successor, owner in old[old[:, kernels.OWNER] != 0].tolist():
            self._spill(owner, successor)

    def _operation(self, steps: tuple[Step, ...]) -> int:
        """Number of the first operation for `steps`; 0 where there is nothing to do."""
        known = self._blocks_of.get(steps)
        if known is not None:
            return known
        first = len(self._operations) // kernels.OPERATION
        operations = self._lowering.fuse(self._lower(steps))
        self._fit()
        for place, (code, a, b) in enumerate(operations):
            last = kernels.LAST if place == len(operations) - 1 else 0
            self._operations += [code | last, a, b]
            if code == kernels.SLOW:
                landing = steps[a]
                assert isinstance(landing, Land)
                self._landings[first + place] = landing
            elif code == kernels.RETURN:
                self._after_pop[first + place] = _edges_after_pop(steps)
        if not operations:
            first = 0
        self._blocks_of[steps] = first
        if len(self._operations) > len(self.kernel.operations):
            self._replace(operations=_grown(self.kernel.operations, 2 * len(self._operations)))
        start = first * kernels.OPERATION
        self.kernel.operations[start : len(self._operations)] = self._operations[start:]
        return first

    def _lower(self, steps: Sequence[Step]) -> list[Operation]:
        operations: list[Operation] = []
        for place, step in enumerate(steps):
            match step:
                case Cross(edge):
                    operations += self._lowering.operations(edge)
                case Push(return_address):
                    operations.append((kernels.CALL, return_address, 0))
                case Pop():
                    operations.append((kernels.RETURN, 0, 0))
                case Land():
                    operations.append((kernels.SLOW, place, 0))
        return operations

    # Python's part of an event

    def _guarded(self, status: int, address: int, size: int) -> None:
        self.guard(lambda: self.decide(status, address, size))

    def guard(self, action: Callable[[], None]) -> None:
        """Do `action`; keep what it raises in `error` and stop the engine."""
        try:
            action()
        except BaseException as error:
            self.error = self.error or error
            self.clock[kernels.LIMIT] = -1
            self.clock[kernels.INTERRUPTED] = kernels.FAILED

    def decide(self, status: int, address: int, size: int) -> None:
        """Handle an event that the kernel could not (`status` of `kernels.advance`)."""
        if self.error is not None:
            return
        if status != kernels.MISS:
            self._settle(status, address)
            return
        state = int(self.clock[kernels.STATE])
        if state == kernels.ABNORMAL:
            self._arrive_abnormally(address, size)
        elif state == kernels.RESUME:
            self._resume(address, size)
        else:
            self._resolve(state, address, size)

    def _settle(self, status: int, address: int) -> None:
        """Finish an operation list that stopped with `status`."""
        while status != kernels.OK:
            failed = int(self.clock[kernels.FAILED_OPERATION])
            if status == kernels.MISMATCH:
                self.tally.crossed.subtract(self._after_pop[failed])
                self._land(address, UNKNOWN, returned=True)
                return
            if status == kernels.DECIDE:
                landing = self._landings[failed]
                self._land(address, landing.block, returned=landing.returned)
                return
            if status == kernels.TOO_DEEP:
                raise UnsupportedError(
                    f"more than {MAXIMUM_DEPTH} nested calls at {address:#x}: "
                    "the program recurses without end, or calls without returning"
                )
            self._grow_nodes()
            status = kernels.execute(self.kernel.address, failed, address)

    def _grow_nodes(self) -> None:
        limit = max(INITIAL_NODES, 2 * int(self.clock[kernels.NODE_LIMIT]))
        self._replace(nodes=_grown(self.kernel.nodes, limit * kernels.NODE))
        self.clock[kernels.NODE_LIMIT] = limit

    def _resume(self, address: int, size: int) -> None:
        """An interrupted block goes on, but ends elsewhere than it did before."""
        state = self._states[int(self.clock[kernels.RESUMED_STATE])]
        done = int(self.clock[kernels.RESUME_PC]) - state.address
        if address != state.address + done:
            raise SimulatorError(
                f"the emulator resumed at {address:#x} instead of {state.address + done:#x}: "
                "please report this program"
            )
        if done == 0:
            self.clock[kernels.STATE] = self._number(State(address, size, state.first))
            return
        self._resolve(self._number(State(state.address, done, state.first)), address, size)

    def _note_missing(self, step: Missing) -> None:
        self.tally.missing[step] += 1
        self._on_missing(step)

    @property
    def lost(self) -> int:
        """Counts that fell outside the counters."""
        return 0 if self.tally.missing else int(self.clock[kernels.LOST])

    # Frames

    @property
    def _frame(self) -> int:
        return int(self.clock[kernels.FRAME])

    @property
    def _stride(self) -> int:
        return int(self.clock[kernels.STRIDE])

    def _return_address(self, frame: int) -> int:
        return int(self.kernel.frames[frame + kernels.FRAME_RETURN])

    def _is_handler(self, frame: int) -> bool:
        """Whether a signal put the activation at `frame` on top of one that still waits."""
        return self._return_address(frame) & (SIGNAL_BIT | ENDED_BIT) == SIGNAL_BIT

    def _stack(self, frame: int) -> int:
        """Stack pointer of the caller of the activation at `frame`."""
        return int(self.kernel.frames[frame + kernels.FRAME_STACK]) & self._lowering.stack_mask

    def _stack_pointer(self) -> int:
        return kernels.stack_pointer(self.kernel.address) & self._lowering.stack_mask

    def _block_of_caller(self, frame: int) -> int:
        """Block in which the caller of the activation at `frame` waits, UNKNOWN if it ended."""
        address = self._return_address(frame)
        if frame == 0 or address & ENDED_BIT:
            return UNKNOWN
        return self._waiting_block(address)

    def _waiting_block(self, return_address: int) -> int:
        """The block at whose end a caller with this return address waits."""
        if return_address & SIGNAL_BIT:
            record = self._signals[return_address >> 2]
            return self._truncated(record.state, record.pc)[1].block
        return self._index.call_block(return_address & ~ENDED_BIT)

    def _end_early(self, frame: int, block: int) -> None:
        """The activation at `frame` ended in `block`."""
        if block == UNKNOWN:
            return
        first = frame + kernels.FRAME_REGISTERS
        words = self.kernel.frames[first : frame + self._stride].tolist()
        registers = tuple(zip(words[::2], words[1::2], strict=True))
        self.tally.early[EarlyEnd(block, registers)] += 1

    def _end_caller_early(self, frame: int) -> None:
        """The caller of the activation at `frame` ends where it waits."""
        address = self._return_address(frame)
        if self._is_handler(frame):
            record = self._signals[address >> 2]
            steps, context = self._truncated(record.state, record.pc)
            self._apply(steps, frame - self._stride)
            if context.block != UNKNOWN:
                end = self._index.block_end(context.block)
                self.tally.unexecuted += max(0, end - record.pc) // 4
        self._end_early(frame - self._stride, self._block_of_caller(frame))

    def _apply(self, steps: Sequence[Step], frame: int) -> None:
        """Take steps that stay within one activation, on behalf of the one at `frame`."""
        if not steps:
            return
        current, self.clock[kernels.FRAME] = self._frame, frame
        for step in steps:
            if isinstance(step, Cross):
                self._cross(step.edge)
        self.clock[kernels.FRAME] = current

    def _cross(self, edge: int) -> None:
        self.tally.crossed[edge] += 1
        operation = self._operation_for_edge(edge)
        if operation:
            self._settle(kernels.execute(self.kernel.address, operation, 0), 0)

    def _operation_for_edge(self, edge: int) -> int:
        return self._operation((Cross(edge),))

    def _truncated(self, number: int, pc: int) -> tuple[tuple[Step, ...], Context]:
        """Steps of a state up to the instruction at `pc`, which it has reached."""
        state = self._states[number]
        if number < kernels.FIRST_STATE:
            return (), BEGINNING
        return self._walk_inside(state, min(pc + 4, state.address + state.size))

    # Arrivals that only the stack explains

    def _land(self, address: int, block: int, *, returned: bool) -> None:
        """Control arrives at `address`; find out in which activation.

        `block` is where the current activation left off (UNKNOWN: it has been accounted for);
        `returned`: it is complete.
        """
        frame = self._frame
        if returned:
            self._check_missing_return(frame, address)
            if self._is_handler(frame):
                self._enter(address, UNKNOWN)  # the handler returned to the signal trampoline
                return
        else:
            self._end_early(frame, block)
        target = self._activation_for(address, frame)
        if target is None:
            self._enter_above(address, frame)
            return
        for above in range(frame, target, -self._stride):
            self._end_caller_early(above)
        self.clock[kernels.FRAME] = target
        self._enter(address, UNKNOWN)

    def _check_missing_return(self, frame: int, address: int) -> None:
        if self._return_address(frame) == address | ENDED_BIT:
            self._note_missing(MissingReturn(address - 8))

    def _activation_for(self, address: int, frame: int) -> int | None:
        """Frame of the live activation, below the current one, that continues at `address`."""
        landing = self._block_at(address)
        if landing == UNKNOWN:
            return None
        routine = self._index.routine(landing)
        pointer = self._stack_pointer()
        fallback = None
        for above in range(frame, 0, -self._stride):
            block = self._waiting_block(self._return_address(above))
            if block == UNKNOWN or self._index.routine(block) != routine:
                continue
            caller = above - self._stride
            upper = self._stack(caller) if caller else self._lowering.stack_mask
            if self._stack(above) <= pointer < upper:
                return caller
            if fallback is None and pointer < upper:
                fallback = caller
        return fallback

    def _enter_above(self, address: int, frame: int) -> None:
        """No live activation continues here: a new one begins on top of the stack's owner.

        The 64-bit longjmp arrives like this, inside setjmp, whose activation is long gone.
        """
        pointer = self._stack_pointer()
        above = frame
        while above > 0 and self._stack(above) < pointer:
            self._end_caller_early(above)
            above -= self._stride
        if above > 0 and not self._return_address(above) & ENDED_BIT:
            self._end_caller_early(above)
            self.kernel.frames[above + kernels.FRAME_RETURN] |= ENDED_BIT
        self.clock[kernels.FRAME] = above
        self._enter(address, UNKNOWN)

    def _block_at(self, address: int) -> int:
        return self._index.block_at(address)

    def _enter(self, address: int, block: int) -> None:
        """Begin an activation in the current frame at `address`."""
        landing = self._block_at(address)
        edge = self._index.entry_edge.get(landing)
        if edge is None:
            self._note_missing(MissingEntry(address))
            return
        self._cross(edge)

    def _arrive_abnormally(self, address: int, size: int) -> None:
        arrival, self._arrival = self._arrival, None
        state = State(address, size, self._walker.land(address))
        self.clock[kernels.STATE] = self._number(state)
        if arrival is not None:
            arrival(address)

    # What the machine tells

    def _current(self) -> tuple[int, int]:
        """(state, address of the first instruction of it that has not executed)."""
        number = int(self.clock[kernels.STATE])
        if number == kernels.RESUME:
            return int(self.clock[kernels.RESUMED_STATE]), int(self.clock[kernels.RESUME_PC])
        state = self._states[number]
        return number, state.address + state.size

    def signal_delivered(self, interrupted_pc: int, stack_pointer: int) -> None:
        """The next event is the entry of a signal handler.

        `stack_pointer` is the interrupted %sp, bias included.
        """
        number, _ = self._current()
        record = len(self._signals)
        self._signals.append(SignalRecord(number, interrupted_pc, self._frame))
        self._arrival = lambda address: self._enter_handler(record, stack_pointer, address)
        self.clock[kernels.STATE] = kernels.ABNORMAL

    def _enter_handler(self, record: int, stack_pointer: int, address: int) -> None:
        frame = self._frame + self._stride
        if frame + self._stride > int(self.clock[kernels.FRAME_LIMIT]):
            raise UnsupportedError(f"more than {MAXIMUM_DEPTH} nested calls at {address:#x}")
        self.kernel.frames[frame + kernels.FRAME_RETURN] = record << 2 | SIGNAL_BIT
        self.kernel.frames[frame + kernels.FRAME_STACK] = _signed(stack_pointer)
        self.clock[kernels.FRAME] = frame
        self._enter(address, UNKNOWN)

    def signal_returned(self, resumed_pc: int) -> None:
        """Sigreturn: the next event continues what the innermost signal interrupted."""
        steps, context = self._inside(self._current()[0])
        self._apply(steps, self._frame)
        self._end_early(self._frame, self._leave_by_trap(context))
        frame = self._frame
        while frame > 0 and not self._is_handler(frame):
            self._end_caller_early(frame)
            frame -= self._stride
        if frame == 0:
            self.context_replaced(resumed_pc)
            return
        record = self._signals[self._return_address(frame) >> 2]
        self.clock[kernels.FRAME] = record.frame
        state = self._states[record.state]
        end = state.address + state.size
        if resumed_pc != record.pc:
            truncated, context = self._truncated(record.state, record.pc)
            self._apply(truncated, record.frame)
            self._redirect(context.block)
        elif record.pc < end and record.state >= kernels.FIRST_STATE:
            self.clock[kernels.RESUME_PC], self.clock[kernels.RESUME_END] = record.pc, end
            self.clock[kernels.RESUMED_STATE] = record.state
            self.clock[kernels.STATE] = kernels.RESUME
        else:
            self.clock[kernels.STATE] = record.state

    def _leave_by_trap(self, context: Context) -> int:
        """The block that a trap which does not return leaves its activation in.

        UNKNOWN where the graph knows that it does not return: the activation is then complete.
        """
        edge = self._index.exit_edge.get(context.block)
        if edge is None or context.pending >= 0:
            return context.block
        self._cross(edge)
        return UNKNOWN

    def context_replaced(self, pc: int) -> None:
        """setcontext: the next event is at `pc`, in whatever activation."""
        number, end = self._current()
        steps, context = self._truncated(number, end - 4)
        self._apply(steps, self._frame)
        self._redirect(self._leave_by_trap(context))

    def _redirect(self, block: int) -> None:
        self._arrival = lambda address: self._land(address, block, returned=False)
        self.clock[kernels.STATE] = kernels.ABNORMAL

    # The end

    def finish(self, *, exited: bool, fault_pc: int | None) -> None:
        """Account for the block that ran last and for all activations still alive.

        `exited`: the program ended itself; `fault_pc`: it faulted there, within its last block.
        """
        if self._arrival is not None:
            self._arrival = None  # the run ended between a signal and its handler
            block = UNKNOWN
        else:
            block = self._finish_block(exited, fault_pc)
        self._end_early(self._frame, block)
        for frame in range(self._frame, 0, -self._stride):
            self._end_caller_early(frame)

    def _finish_block(self, exited: bool, fault_pc: int | None) -> int:
        """The block in which the current activation ends early; UNKNOWN if it is complete."""
        number, end = self._current()
        if number < kernels.FIRST_STATE:
            return UNKNOWN
        steps, context = self._truncated(number, end - 4 if fault_pc is None else fault_pc)
        self._apply(steps, self._frame)
        if exited and self._leave_by_trap(context) == UNKNOWN:
            return UNKNOWN
        if context.block != UNKNOWN:
            next_pc = context.last + 4 if fault_pc is None else fault_pc
            self.tally.unexecuted += (self._index.block_end(context.block) - next_pc) // 4
        return context.block

    def attributed_instructions(self) -> int:
        """Instructions executed in blocks of the graphs, derived from the edge counts alone."""
        counts = self.edge_counts()
        total = -self.tally.unexecuted
        for number, cfg in enumerate(self._index.recovered.routines):
            first = int(self._index.first_edge[number])
            mine = counts[first : first + len(cfg.edges)].tolist()
            if any(mine):
                total += sum(
                    count * cfg.blocks[edge.target].instructions
                    for edge, count in zip(cfg.edges, mine, strict=True)
                    if edge.target != cfg.exit
                )
        return total

    def reached(self, address: int) -> bool:
        """Whether the instruction at `address` was part of a block that ran."""
        return any(
            state.address <= address < state.address + state.size for state in self._states.values()
        )

    def edge_counts(self) -> Array:
        """How often each edge of the program was crossed (int64 by program-wide number)."""
        counts = np.zeros(self._index.edge_count, np.int64)
        left: Counter[int] = Counter()
        for transition, count in self.transition_counts():
            for step in transition.boundary:
                if isinstance(step, Cross):
                    counts[step.edge] += count
            left[transition.source] += count
        for number, count in left.items():
            for step in self._inside(number)[0] if number >= kernels.FIRST_STATE else ():
                if isinstance(step, Cross):
                    counts[step.edge] += count
        for edge, count in self.tally.crossed.items():
            counts[edge] += count
        return counts

    def transition_counts(self) -> list[tuple[Transition, int]]:
        """Every transition with its count."""
        spilled = self.kernel.spill.reshape(-1, kernels.SPILL)
        used = spilled[spilled[:, kernels.OWNER] != 0].tolist()
        by_key = {(owner, key): count for key, count, _, _, owner in used}
        counted = []
        for transition in self._transitions:
            if transition.spilled:
                state = self._states[transition.target]
                key = (transition.source, state.address | state.size << 48)
                counted.append((transition, by_key[key]))
            else:
                counted.append((transition, int(self.kernel.rows[transition.slot])))
        return counted

    def unattributed_transfers(self) -> int:
        """Transfers that no edge of the graphs explains."""
        return sum(
            count
            for transition, count in self.transition_counts()
            if any(isinstance(s, MissingTarget | MissingEntry) for s in transition.boundary)
        ) + sum(count for step, count in self.tally.missing.items() if count > 1)


def _signed(word: int) -> int:
    """A 64-bit word as an int64."""
    return word - (word >> 63 << 64)


def _grown(array: Array, size: int) -> Array:
    larger = np.zeros(size, np.int64)
    larger[: len(array)] = array
    return larger


def _edges_after_pop(steps: Sequence[Step]) -> tuple[int, ...]:
    place = next(i for i, step in enumerate(steps) if isinstance(step, Pop))
    return tuple(step.edge for step in steps[place + 1 :] if isinstance(step, Cross))
