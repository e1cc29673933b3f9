"""The stack of live activations, and the arrivals that only it can explain.

Native code pushes and pops frames; this module reads them where control arrives otherwise than by
a call or a matching return: longjmp, C++ landing pads, signal handlers, the end of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, field

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import (
    MAXIMUM_DEPTH,
    Array,
    EngineMemory,
    larger_table,
    put_row,
)
from simprof.profiler.engine.stacks import EarlyEnd, RunNotes, Stacks
from simprof.profiler.engine.walk import (
    UNKNOWN,
    Cross,
    GraphIndex,
    Missing,
    MissingEntry,
    MissingReturn,
    MissingTarget,
    Step,
    WalkContext,
)
from simprof.simulator.errors import UnsupportedError

ENDED_BIT = kernels.ENDED_BIT
SIGNAL_BIT = kernels.SIGNAL_BIT
FARTHEST_RETURN = 4000  # Bytes of data behind a call over which its callee may return


class SignalRecord(Struct, frozen=True):
    """What a signal interrupted."""

    state: int  # number of the automaton's state
    pc: int  # address of the first instruction in it that had not executed; its end where all had
    # Where the program goes on: elsewhere than at `pc` if the block ended with a transfer.
    resumes_at: int
    npc: int  # and where behind that instruction


class Tally(Struct):
    """What Python counted itself, beside the kernel's transitions."""

    crossed: Counter[int] = field(default_factory=Counter)
    early: Counter[EarlyEnd] = field(default_factory=Counter)
    missing: Counter[Missing] = field(default_factory=Counter)
    # (block, address before which it ended) -> executions of the block that ended so, less those
    # that went on there, behind an instruction that a signal's handler stepped over.
    cut: Counter[tuple[int, int]] = field(default_factory=Counter)


class Activations:
    """The frames of one run."""

    def __init__(
        self,
        memory: EngineMemory,
        index: GraphIndex,
        tally: Tally,
        stack_mask: int,  # All ones of the program's register width
        # Crosses an edge on behalf of the current frame, with all that it entails
        cross: Callable[[Sequence[Step]], None],
        # (state, pc) -> steps and context of a block up to the instruction at `pc`
        reached: Callable[[int, int], tuple[tuple[Step, ...], WalkContext]],
        on_missing: Callable[[Missing], None],  # Told of what the graphs lack
        notes: RunNotes | None = None,
    ) -> None:
        self._memory, self._index, self._tally = memory, index, tally
        self._stack_mask = stack_mask
        self.stacks = Stacks(memory, notes, stack_mask)
        self._cross, self._reached, self._on_missing = cross, reached, on_missing
        self._signals: list[SignalRecord] = []
        self._notes = notes
        # Told of every activation that ends early; None: nobody.
        self.on_end: Callable[[EarlyEnd], None] | None = None

    def retire(self) -> None:
        """Let go of the automaton and of native code, when the run is over."""
        del self._cross, self._reached, self._on_missing
        self.on_end = self._notes = None

    # Reading frames

    @property
    def current(self) -> int:
        """Frame of the activation that executes."""
        return int(self._memory.clock[kernels.FRAME])

    @current.setter
    def current(self, frame: int) -> None:
        self._memory.clock[kernels.FRAME] = frame

    def _return_address(self, frame: int) -> int:
        return int(self._memory.state.frames[frame + kernels.FRAME_RETURN])

    def _is_handler(self, frame: int) -> bool:
        """Whether a signal put the activation at `frame` on top of one that still waits."""
        return self._return_address(frame) & (SIGNAL_BIT | ENDED_BIT) == SIGNAL_BIT

    def _stack(self, frame: int) -> int:
        return self.stacks.pointer(frame)

    def _stack_pointer(self) -> int:
        pointer: int = kernels.read_stack_pointer(self._memory.address)
        return pointer & self._stack_mask

    def _waiting_block(self, frame: int) -> int:
        """Block in which the caller of the activation at `frame` waits, or did when it ended."""
        # It waits in the block that ends with its call, or that of the interrupted instruction.
        address = self._return_address(frame)
        if address & SIGNAL_BIT:
            record = self._signals[address >> 2]
            return self._reached(record.state, record.pc)[1].block
        return self._index.call_block(address & ~ENDED_BIT)

    # Ending

    def apply(self, steps: Sequence[Step], frame: int) -> None:
        """Take steps that all belong to the activation at `frame`, whichever is the current one."""
        if steps:
            current, self.current = self.current, frame
            self._cross(steps)
            self.current = current

    def end_early(self, frame: int, block: int) -> None:
        """Count that the activation at `frame` ended in `block`."""
        # Nothing is done where the block is UNKNOWN: its end has been counted already.
        if block == UNKNOWN:
            return
        frames = self._memory.state.frames
        register = int(frames[frame + kernels.FRAME_PATH])
        segments = int(frames[frame + kernels.FRAME_SEGMENTS])
        end = EarlyEnd(block, register, segments)
        self._tally.early[end] += 1
        if self.on_end is not None:
            self.on_end(end)
        if self._notes is not None:
            self._notes.ended_early(frame, end)

    def _end_caller_early(self, frame: int) -> None:
        if frame == 0 or self._return_address(frame) & ENDED_BIT:
            return
        address = self._return_address(frame)
        below = frame - kernels.STRIDE
        signal = address & SIGNAL_BIT
        block = self.abandon(address >> 2, below) if signal else self._waiting_block(frame)
        self.end_early(below, block)

    def abandon(self, number: int, frame: int) -> int:
        """Count what the interrupted activation at `frame` has executed; it is never resumed."""
        # Returns the block in which it ends, or UNKNOWN. `number` is that of the record.
        record = self._signals[number]
        return self.stop_at(record.state, record.pc, frame)

    def stop_at(self, state: int, pc: int, frame: int) -> int:
        """Count what the activation at `frame` has executed of a state, up to `pc`."""
        # Returns the block in which it ends; UNKNOWN if it is complete.
        steps, context = self._reached(state, pc)
        self.apply(steps, frame)
        if context.block == UNKNOWN:
            return UNKNOWN
        self.cut(frame, context.block, pc)
        edge = self._index.exit_behind_slot(context)
        if edge == UNKNOWN or pc != context.last:
            return context.block
        # The instruction in the slot has faulted, but the return has executed, and the code of its
        # edge, which stands before it.
        self.apply((Cross(edge),), frame)
        return UNKNOWN

    def cut(self, frame: int, block: int, pc: int, count: int = 1) -> None:
        """Count that the activation at `frame` has come no further in `block` than to `pc`."""
        # Nothing is done where `pc` is elsewhere: the whole block has executed, and its activation
        # went on where there is no graph (a call of a null pointer).
        if not self._index.block_start(block) <= pc < self._index.block_end(block):
            return
        self._tally.cut[block, pc] += count
        if self._notes is not None:
            self._notes.cut_short(frame, block, pc, count)

    def step_over(self, frame: int, block: int, pc: int) -> None:
        """Count that the activation at `frame` does not execute the instruction at `pc`."""
        if block != UNKNOWN:
            self.cut(frame, block, pc)
            self.cut(frame, block, pc + 4, -1)  # it executes what is behind

    def end_callers_early(self) -> None:
        """End all activations below the current one where they wait: the run is over."""
        for frame in range(self.current, 0, -kernels.STRIDE):
            self._end_caller_early(frame)

    def end_left(self) -> None:
        """End all activations on stacks that were left, where they wait: the run is over."""
        for frame in self.stacks.parts():
            for above in range(frame, kernels.STRIDE, -kernels.STRIDE):
                self._end_caller_early(above)

    # Returning

    def accept_return(self, address: int) -> bool:
        """Whether the current activation returns at `address` though its caller has another %sp."""
        # The frame then gets the %sp that the kernel wants to find there.
        # So it does where its caller's graph has several places to which the call may return.
        frame = self.current
        returned = self._return_address(frame) == address and self._returns(address, frame)
        edge = self._index.return_edge_to(address)
        if not returned and edge is not None and self._calls_from(frame) == edge[0]:
            returned = True
        if returned:
            frames = self._memory.state.frames
            pointer = kernels.read_stack_pointer(self._memory.address)
            frames[frame + kernels.FRAME_STACK], frames[frame + kernels.FRAME_RETURN] = (
                pointer,
                address,
            )
        return returned

    def _calls_from(self, frame: int) -> int:
        """Block with the call of the activation at `frame`, if its caller owns the stack again."""
        waits = frame > 0 and not self._return_address(frame) & (SIGNAL_BIT | ENDED_BIT)
        at_caller = waits and self._stack(frame) == self._stack_pointer()
        return self._waiting_block(frame) if at_caller else UNKNOWN

    def _returns_elsewhere(self, address: int, frame: int) -> bool:
        """Whether a callee returns to its caller, but not to where the graph says; notes where."""
        # No exception or longjmp comes there: it is no entry, and no other call returns to it.
        index, block = self._index, self._calls_from(frame)
        if block == UNKNOWN or index.call_block(address) not in (UNKNOWN, block):
            return False
        if index.entry_edge[index.block_at(address)] != UNKNOWN:
            return False
        ahead = address - index.block_end(block)
        routine = index.recovered.routine_at(address)
        if not 0 <= ahead <= FARTHEST_RETURN or routine not in (UNKNOWN, index.routine(block)):
            return False
        self._on_missing(MissingTarget(index.block_end(block) - 8, address))
        self.current = frame - kernels.STRIDE
        return True

    def _returns(self, address: int, frame: int) -> bool:
        """Whether the activation at `frame` returns to its caller by coming to `address`."""
        # Not where its caller's caller, or another activation further up, owns the stack there: it
        # is left by a non-local exit, which lands where the call that unwinds returns to.
        if self._return_address(frame) | ENDED_BIT != address | ENDED_BIT:
            return False
        if self._stack(frame) == self._stack_pointer():
            return True
        if self.stacks.other(frame, self._stack_pointer()) is not None:
            return False
        return self._activation_for(address, frame) in (frame - kernels.STRIDE, None)

    # Landing: a non-local exit. The activations above the one that continues end early, and so does
    # that one; a new activation begins at the landing, along an ENTRY edge.

    def land(self, address: int, block: int, *, returned: bool) -> None:
        """Find out in which activation control arrives at `address`, and go on with that one."""
        # `address`: Where control arrives.
        # `block`: The block that the current activation left; UNKNOWN if its end has been counted.
        # `returned`: Whether the current activation is complete, because it has crossed its EXIT
        # edge.
        frame = self.current
        if returned:
            if self._returns(address, frame):
                self._return_unseen(address, frame)
                return
            if self._is_handler(frame):
                self.enter(address)  # the handler returned to the signal trampoline
                return
            if self._returns_elsewhere(address, frame):
                return
        else:
            self.end_early(frame, block)
        frame = self.current = self.stacks.switch(frame, self._stack_pointer())
        if self.stacks.has_any and self._resume(address, frame):
            return
        landing, waits = self._index.block_at(address), self.stacks.waits
        is_start = landing != UNKNOWN and self._index.starts_routine(landing)
        if is_start and not waits(frame, self._stack_pointer()):
            # nothing is unwound to there: a coroutine begins, or control goes on as after a call
            self.stacks.begin(frame)
            self._enter_landing(frame, address)
            return
        target = self._activation_for(address, frame)
        if target is None and returned and frame and self._stack_pointer() < self._stack(frame):
            self._enter_landing(frame, address)  # in the place of the one that is complete
            return
        if target is None:
            self._enter_above(address, frame)
            return
        for above in range(frame, target, -kernels.STRIDE):
            self._end_caller_early(above)
        self._enter_landing(target, address)

    # Going on elsewhere: a signal's handler has changed pc or npc, and nothing else as a rule. The
    # activation ends where it is, and a new one takes its place, or its caller goes on.

    def resume_elsewhere(self, address: int, block: int) -> None:
        """Go on at `address` with the current activation, which a signal interrupted in `block`."""
        # `block`: UNKNOWN if it is complete. The handler's frame, just dropped, has the interrupted
        # %sp. Where it is another one now, the handler has left activations or switched stacks.
        above = self.current + kernels.STRIDE
        self._replace(address, block, self._stack_pointer() == self._stack(above))

    def stray(self, address: int, block: int) -> None:
        """Go on at `address`, which is not where the transfer in `block` leads."""
        pointer = self._stack_pointer()
        self._replace(address, block, not self.current or pointer <= self._stack(self.current))

    def _replace(self, address: int, block: int, stays: bool) -> None:
        """Go on at `address`; `stays`: in place of the current activation, or in its caller."""
        frame = self.current
        at_caller = frame > 0 and self._stack(frame) == self._stack_pointer()
        back = None
        if at_caller and self._return_address(frame) == address:
            back = self._index.return_edge_to(address)
        if back is not None:
            self.end_early(frame, block)
            self.current = frame - kernels.STRIDE
            self._cross((Cross(back[1]),))
            return
        if stays and at_caller:  # without a frame, or behind its `restore`
            landing = self._index.block_at(address)
            known = UNKNOWN not in (landing, block)
            within = known and self._index.routine(landing) == self._index.routine(block)
            stays = within or self._activation_for(address, frame) != frame - kernels.STRIDE
        if not stays:
            self.land(address, block, returned=False)
            return
        self.end_early(frame, block)
        self._enter_landing(frame, address)

    def _return_unseen(self, address: int, frame: int) -> None:
        """Follow the activation at `frame` to a place where the graphs have no return."""
        self.current = frame - kernels.STRIDE
        if self._return_address(frame) & ENDED_BIT:
            self._on_missing(MissingReturn(address - 8))
            if self._notes is not None:  # the call may be its routine's last instruction
                self._notes.landed(self.current, self.current)
        self.enter(address, behind=True)

    def _resume(self, address: int, frame: int) -> bool:
        """Go on where an activation of the stack of `frame` waits, if that is at `address`."""
        pointer, edge = self._stack_pointer(), self._index.return_edge_to(address)
        for above in range(frame, self.stacks.base(frame), -kernels.STRIDE):
            returns_to = self._return_address(above)
            if returns_to | ENDED_BIT != address | ENDED_BIT or self._stack(above) != pointer:
                continue
            for ended in range(frame, above, -kernels.STRIDE):
                self._end_caller_early(ended)
            if edge is None or returns_to & ENDED_BIT:  # the call was taken as one without return
                self._return_unseen(address, above)
                return True
            self.current = above - kernels.STRIDE
            self._cross((Cross(edge[1]),))
            return True
        return False

    def _activation_for(self, address: int, frame: int) -> int | None:
        """Frame of the live activation, below the current one, that continues at `address`."""
        # An activation owns the stack between its own %sp and its caller's.
        landing = self._index.block_at(address)
        if landing == UNKNOWN:
            return None
        routine = self._index.routine(landing)
        pointer = self._stack_pointer()
        fallback, base = None, self.stacks.base(frame)
        for above in range(frame, base, -kernels.STRIDE):
            block = self._waiting_block(above)
            if block == UNKNOWN or self._index.routine(block) != routine:
                continue
            caller = above - kernels.STRIDE
            upper = self._stack(caller) if caller > base else self._stack_mask
            if self._stack(above) <= pointer < upper:
                return caller
            if fallback is None and pointer < upper:
                fallback = caller
        return fallback

    def _enter_above(self, address: int, frame: int) -> None:
        """No live activation continues here: a new one begins on top of the stack's owner."""
        # The 64-bit longjmp arrives like this, inside setjmp, whose activation is long gone.
        pointer, base = self._stack_pointer(), self.stacks.base(frame)
        above = frame
        while above > base and self._stack(above) < pointer:
            self._end_caller_early(above)
            above -= kernels.STRIDE
        if above > base:
            self._end_caller_early(above)
            self._memory.state.frames[above + kernels.FRAME_RETURN] |= ENDED_BIT
        self._enter_landing(above, address)

    def _enter_landing(self, frame: int, address: int) -> None:
        self.current = frame
        if self._notes is not None:
            self._notes.landed(frame, self._owner(frame))
        self.enter(address, again=True)

    def _owner(self, frame: int) -> int:
        """Frame of the innermost activation, from `frame` down, below whose caller the stack is."""
        pointer, base = self._stack_pointer(), self.stacks.base(frame)
        while frame > base and self._stack(frame) <= pointer:
            frame -= kernels.STRIDE
        return frame

    def enter(self, address: int, *, behind: bool = False, again: bool = False) -> None:
        """Begin an activation in the current frame at `address`; see `MissingEntry`."""
        if not self._index.enter(address, self._cross):
            self._on_missing(MissingEntry(address, behind, again))

    # Signals

    def interrupt(self, record: SignalRecord) -> int:
        """Remember what a signal interrupts; return the number of the record."""
        self._signals.append(record)
        return len(self._signals) - 1

    def enter_handler(self, record: int, stack_pointer: int, address: int) -> None:
        """Push the frame of a handler; `stack_pointer` is the interrupted one."""
        frame = self.current + kernels.STRIDE
        if frame + kernels.STRIDE > int(self._memory.clock[kernels.FRAME_LIMIT]):
            raise too_deep(address)
        frames = self._memory.state.frames
        frames[frame + kernels.FRAME_RETURN] = record << 2 | SIGNAL_BIT
        frames[frame + kernels.FRAME_STACK] = _signed(stack_pointer)
        frames[frame + kernels.FRAME_SEGMENTS] = 0
        self.current = frame
        if self._notes is not None:
            self._notes.signalled(frame)
        self.enter(address)

    def leave_handler(self, resumed_pc: int) -> SignalRecord | None:
        """Drop the frames down to the innermost handler's; return what goes on at `resumed_pc`."""
        # That is what the handler had interrupted, or another stack's: tasks of a bare program.
        frame = self.current
        while frame > 0 and not self._is_handler(frame):
            self._end_caller_early(frame)
            frame -= kernels.STRIDE
        if frame == 0:  # outside a handler: where the program goes on, nobody waits any more
            self.current = 0
            return None
        pointer = self._stack_pointer()

        def is_wanted(link: int, waits: int) -> bool:
            is_signal = link & (SIGNAL_BIT | ENDED_BIT) == SIGNAL_BIT
            return (
                is_signal and waits == pointer and self._signals[link >> 2].resumes_at == resumed_pc
            )

        if self.stacks.has_any and not is_wanted(self._return_address(frame), self._stack(frame)):
            place = self.stacks.interrupted(frame, is_wanted)
            frame = frame if place is None else self.stacks.change(frame, place)
        self.current = frame - kernels.STRIDE
        return self._signals[self._return_address(frame) >> 2]

    def begins_task(self, address: int) -> bool:
        """Whether a handler that goes to `address` leaves what it has interrupted to wait."""
        # It goes to the start of a routine, with a stack that nobody waits with: a task begins. In
        # a bare program that stack may be the same, as the first task needs none.
        landing = self._index.block_at(address)
        if landing == UNKNOWN or not self._index.starts_routine(landing):
            return False
        above = self.current + kernels.STRIDE
        return self._index.is_bare or not self.stacks.waits(above, self._stack_pointer())

    def begin_task(self, address: int) -> None:
        """Begin a stack on the frame of a handler, which is complete."""
        self.stacks.begin(self.current)
        self._enter_landing(self.current, address)


def too_deep(address: int) -> UnsupportedError:
    """Return the error to raise when there is no room for another frame."""
    return UnsupportedError(
        f"more than {MAXIMUM_DEPTH} nested calls at {address:#x}: "
        "the program recurses without end, or calls without returning"
    )


def _signed(word: int) -> int:
    return word - (word >> 63 << 64)


# -- Landings in native code
#
# What the kernel must know to handle a landing (`landing_kernel`): noted when Python has handled
# one like it. Nothing of it is there until a program leaves an activation by something else than
# its return.

_LANDINGS = 1 << 6
_ENDS = 1 << 10


class Landings:
    """The landings of one run that native code handles."""

    # `stack_mask`: All ones of the program's register width. `operation`: Steps -> number of the
    # first operation that executes them.

    def __init__(
        self,
        memory: EngineMemory,
        index: GraphIndex,
        tally: Tally,
        stack_mask: int,
        operation: Callable[[tuple[Step, ...]], int],
    ) -> None:
        self._memory, self._index, self._tally = memory, index, tally
        self._operation = operation
        # Of each landing: the ENTRY edge that is crossed, or what the graphs lack in its place, and
        # the edges that are not crossed, though a transition says so.
        self._landings: list[tuple[Cross | MissingEntry, tuple[int, ...]]] = []
        self._rows = np.zeros(_LANDINGS * kernels.LANDING, np.int64)
        self._known: set[EarlyEnd] = set()
        self._ends = np.zeros(_ENDS * kernels.KEYED_ROW, np.int64)
        self._waits = _waits(index)
        clock = memory.clock
        clock[kernels.STACK_MASK] = _signed(stack_mask)
        clock[kernels.WAITS_BASE] = index.recovered.code.base
        clock[kernels.WAITS] = len(self._waits)
        clock[kernels.WAITS_POINTER] = self._waits.ctypes.data
        self._publish()
        # Loaded, and compiled, only when a program leaves an activation without a return.
        from simprof.profiler.engine import landing_kernel

        clock[kernels.LAND_PART] = landing_kernel.part()

    def _publish(self) -> None:
        clock = self._memory.clock
        clock[kernels.LANDINGS_POINTER] = self._rows.ctypes.data
        clock[kernels.ENDS_POINTER] = self._ends.ctypes.data
        clock[kernels.END_ROWS] = len(self._ends) // kernels.KEYED_ROW

    def add_end(self, end: EarlyEnd) -> None:
        """Let native code count this way to end, which Python has counted."""
        if end in self._known:
            return
        self._known.add(end)
        rows = len(self._ends) // kernels.KEYED_ROW
        if 2 * len(self._known) > rows:
            self._ends = larger_table(self._ends, 2 * rows)
            self._publish()
        put_row(self._ends, end.block + 1, end.register, end.segments, 0)

    def add(
        self, operation: int, address: int, block: int, uncrossed: tuple[int, ...] | None
    ) -> None:
        """Let native code handle a landing that Python has handled."""
        # Nothing is done where it could have been: it was left to Python for another reason.
        # `operation`: The one at which the kernel stopped.
        # `address`: Where control arrived.
        # `block`: The block that control left; UNKNOWN if its end had been counted.
        # `uncrossed`: Edges that the transition counts behind its RETURN; None where control did
        # not return.
        if self._memory.state.operations[operation * kernels.OPERATION + 2]:
            return
        landing = self._index.block_at(address)
        edge = self._index.entry_edge[landing]
        if edge == UNKNOWN and uncrossed is not None:
            return  # it may be a return that the graphs lack
        entered = MissingEntry(address, again=True) if edge == UNKNOWN else Cross(edge)
        self._landings.append((entered, uncrossed or ()))
        number = len(self._landings)
        if (number + 1) * kernels.LANDING > len(self._rows):
            larger = np.zeros(2 * len(self._rows), np.int64)
            larger[: len(self._rows)] = self._rows
            self._rows = larger
            self._publish()
        row = self._rows.reshape(-1, kernels.LANDING)[number]
        row[kernels.LANDING_RETURNED] = uncrossed is not None
        row[kernels.LANDING_BLOCK] = 0 if block == UNKNOWN else block + 1
        if landing != UNKNOWN:
            row[kernels.LANDING_ROUTINE] = self._index.routine(landing) + 1
        if isinstance(entered, Cross):
            row[kernels.LANDING_ENTRY] = self._operation((entered,))
        self._memory.state.operations[operation * kernels.OPERATION + 2] = number

    def collect(self) -> None:
        """Add to the tally what native code has counted since this was last called."""
        ends = self._ends.reshape(-1, kernels.KEYED_ROW)
        for block, register, segments, count in ends[ends[:, kernels.VALUE] > 0].tolist():
            self._tally.early[EarlyEnd(block - 1, register, segments)] += count
        ends[:, kernels.VALUE] = 0
        counts = self._rows.reshape(-1, kernels.LANDING)[:, kernels.LANDING_COUNT]
        for (entered, uncrossed), count in zip(self._landings, counts[1:].tolist(), strict=False):
            if isinstance(entered, Cross):
                self._tally.crossed[entered.edge] += count
            elif count:
                self._tally.missing[entered] += count
            for edge in uncrossed:
                self._tally.crossed[edge] -= count
        counts[:] = 0


def _waits(index: GraphIndex) -> Array:
    """Return where callers wait, by word of the code that they go on at (`landing_kernel`)."""
    place = index.recovered.code.place
    calls = index.call_blocks
    waits = np.zeros(len(index.recovered.code.words) + 2, np.int64)
    ends = place.indices(np.fromiter(calls, np.int64, len(calls)))
    blocks = np.fromiter(calls.values(), np.int64, len(calls))
    values = (index.routine_of_block[blocks].astype(np.int64) + 1) << 32 | blocks + 1
    waits[ends + 1] = values  # returns behind an `unimp`, unless another call returns there
    waits[ends] = values
    return waits
