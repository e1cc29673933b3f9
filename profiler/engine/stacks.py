"""Stacks that a program leaves and comes back to: coroutines, tasks of a bare program, and threads.

Terms
-----
complete frame
    The one of an activation that has ended; it still says where its caller waits, with what %sp.
base
    The frame of the first activation of a stack that the program has made. It stands on the
    complete frame of what switched to it; who waits below is not its caller.
part
    The frames of a stack that was left: from its base to the complete frame of what switched away.

Control that arrives with the %sp with which an activation of another stack waits has come back to
that stack. Bases above it become parts, or a part goes on top of what switched to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import MAXIMUM_DEPTH, Array, EngineMemory, Operation
from simprof.profiler.engine.walk import UNKNOWN
from simprof.simulator.errors import UnsupportedError

if TYPE_CHECKING:
    from simprof.profiler.engine.products import Products

# Of the stack pointer of a base: native code then does not take it for that of a caller.
BASE_BIT = 2


class EarlyEnd(Struct, frozen=True):
    """How an activation ended that did not leave by its EXIT."""

    # It adds one to a virtual edge from the block it was in to EXIT (BL94 3.2, EPP 3.6).

    block: int  # The block in which it ended, by number in the whole program
    register: int  # What its segment register held
    segments: int  # The state of the segment automaton in which its last segment began


class RunNotes(Protocol):
    """What the kernel notes of a run, in the order of its events, besides what it counts."""

    # The notes are keys of HASH operations, which go to a hook in place of the hashing routine: for
    # counts by calling context (`contexts`).

    frames: Array = np.zeros(0, np.int64)  # what is noted of each frame in use, where it is kept

    def use_frames(self, frames: Array) -> None:
        """Keep what is noted of other frames from now on: another thread runs."""
        return

    def attach(self, memory: EngineMemory, products: Products) -> None:
        """Let the kernel of a run find everything."""

    def begun(self, routine: int) -> Operation:
        """Return what the kernel does where an activation of a routine begins."""

    def pushed(self, return_address: int) -> tuple[Operation, ...]:
        """Return what the kernel does behind a CALL operation with this return address."""
        return ()

    def taken(self, transition: int, routine: int, edges: tuple[int, ...]) -> tuple[int, int]:
        """Return code and key of what the kernel does where it takes a new transition."""
        # `transition`: of the segment automaton; `edges`: those of the segment.

    # What Python, not the kernel, finds out about the activation at `frame`

    def ended_early(self, frame: int, end: EarlyEnd) -> None:
        """Note that the activation ended otherwise than by its EXIT."""

    def cut_short(self, frame: int, block: int, pc: int, count: int) -> None:
        """Note that it has come no further in `block` than to `pc`; -1: that it went on there."""
        return

    def signalled(self, frame: int) -> None:
        """Note that the frame of a signal's handler was pushed."""
        return

    def landed(self, frame: int, owner: int) -> None:
        """Note that an activation is to begin there in place of one that is gone."""
        # `owner`: the frame of the activation that owns the stack there.
        return


class LeftStack(Struct, frozen=True):
    """A stack that was left: the words of its frames, and what is noted of each (`RunNotes`)."""

    frames: Array
    notes: Array


class Stacks:
    """The stacks of one run; frames are those of the thread that runs."""

    def __init__(self, memory: EngineMemory, notes: RunNotes | None, mask: int) -> None:
        self._memory, self._notes = memory, notes
        self._mask = mask & ~BASE_BIT
        # By the %sp with which its innermost activation waits, and the signal that it waits behind
        self._parts: dict[tuple[int, int], LeftStack] = {}
        self._gone: list[LeftStack] = []  # Those in whose place there was another one later
        self.has_any = False  # Whether the program has made one
        self.has_switched = False  # Whether it has come back to one

    def pointer(self, frame: int) -> int:
        """Return the %sp with which the caller of the activation at `frame` waits."""
        return int(self._memory.state.frames[frame + kernels.FRAME_STACK]) & self._mask

    def base(self, frame: int) -> int:
        """Return the base of the stack that the activation at `frame` is on; 0 of the first one."""
        stacks = self._memory.state.frames[kernels.FRAME_STACK :: kernels.STRIDE]
        number = frame // kernels.STRIDE
        while self.has_any and number > 0 and not stacks[number] & BASE_BIT:
            number -= 1
        return number * kernels.STRIDE if self.has_any else 0

    def begin(self, frame: int) -> None:
        """Make `frame`, which is complete, the base of a new stack."""
        self._memory.state.frames[frame + kernels.FRAME_STACK] |= BASE_BIT
        self.has_any = True

    def waits(self, frame: int, pointer: int) -> bool:
        """Whether an activation on the stack of `frame` waits with this %sp."""
        return any(self.pointer(each) == pointer for each in _down(frame, self.base(frame)))

    def other(self, frame: int, pointer: int) -> int | LeftStack | None:
        """Return where an activation waits with this %sp on another stack than that of `frame`."""
        # The base above it, or a part; None: nowhere, or on the stack of `frame`.
        if not self.has_any:
            return None
        if self.waits(frame, pointer):
            return None
        base = self.base(frame)
        while base > 0:
            below = self.base(base - kernels.STRIDE)
            if any(self.pointer(each) == pointer for each in _down(base, below)):
                return base
            base = below
        return self._parts.get((pointer, 0)) or next(
            (part for part in reversed(self._parts.values()) if self._has(part, pointer)), None
        )

    def switch(self, frame: int, pointer: int) -> int:
        """Change from the complete `frame` to the stack on which one waits with `pointer`.

        Return its complete frame; `frame` where it is the stack that the program is on.
        """
        place = self.other(frame, pointer)
        return frame if place is None else self.change(frame, place)

    def interrupted(
        self, frame: int, is_wanted: Callable[[int, int], bool]
    ) -> int | LeftStack | None:
        """Return where an interrupted activation waits on another stack than that of `frame`."""
        # `is_wanted`: Told of the return address and the %sp of the handler's frame.
        frames, base = self._memory.state.frames, self.base(frame)
        while base > 0:
            if is_wanted(int(frames[base + kernels.FRAME_RETURN]), self.pointer(base)):
                return base
            base = self.base(base - kernels.STRIDE)
        for (pointer, signal), part in reversed(self._parts.items()):
            if is_wanted(signal, pointer):
                return part
        return None

    def change(self, frame: int, place: int | LeftStack) -> int:
        """Change from the complete `frame` to the stack at `place`; return its complete frame."""
        self.has_switched = True
        if isinstance(place, LeftStack):
            return self._put_back(place, frame)
        base = -1
        while base != place:  # other stacks may stand on that above it
            base = self.base(frame)
            self._take(base, frame)
            self._memory.state.frames[base + kernels.FRAME_STACK] &= ~BASE_BIT
            frame = base
        return frame

    def parts(self) -> Iterator[int]:
        """Put each part back above the first frame; yield its complete frame."""
        # Nothing else may be alive there.
        for part in (*self._gone, *self._parts.values()):
            yield self._put_back(part, kernels.STRIDE)

    def _take(self, base: int, frame: int) -> None:
        """Keep the frames from `base` to the complete `frame` as a part."""
        if frame == base:
            return  # nothing is alive there
        frames = self._memory.state.frames[base : frame + kernels.STRIDE].copy()
        frames[-kernels.STRIDE + kernels.FRAME_STACK] &= ~BASE_BIT
        link = int(frames[-kernels.STRIDE + kernels.FRAME_RETURN])
        key = self.pointer(frame), link if link & kernels.SIGNAL_BIT else 0
        if key in self._parts:
            self._gone.append(self._parts.pop(key))
        self._parts[key] = LeftStack(frames, self._notes_of(base, frame + kernels.STRIDE).copy())

    def _put_back(self, part: LeftStack, frame: int) -> int:
        """Put a part on the complete `frame`; return the part's own complete frame."""
        end = frame + len(part.frames)
        if end > int(self._memory.clock[kernels.FRAME_LIMIT]):
            raise UnsupportedError(f"more than {MAXIMUM_DEPTH} nested calls on all stacks together")
        frames = self._memory.state.frames
        waits = frames[[frame + kernels.FRAME_RETURN, frame + kernels.FRAME_STACK]]
        frames[frame:end] = part.frames
        self._notes_of(frame, end)[:] = part.notes
        frames[[frame + kernels.FRAME_RETURN, frame + kernels.FRAME_STACK]] = waits
        self.begin(frame)
        self._parts = {at: each for at, each in self._parts.items() if each is not part}
        return end - kernels.STRIDE

    def _notes_of(self, frame: int, end: int) -> Array:
        noted = np.zeros(0, np.int64) if self._notes is None else self._notes.frames
        limit = int(self._memory.clock[kernels.FRAME_LIMIT])
        words = len(noted) // (limit // kernels.STRIDE + 1)
        first, last = frame // kernels.STRIDE, end // kernels.STRIDE
        return noted[first * words : last * words]

    def _has(self, part: LeftStack, pointer: int) -> bool:
        """Whether an activation of a part waits with this %sp."""
        stacks = part.frames[kernels.FRAME_STACK :: kernels.STRIDE][1:].tolist()
        return any(each & self._mask == pointer for each in stacks)


def _down(frame: int, base: int) -> range:
    return range(frame, base, -kernels.STRIDE)


# -- Threads
#
# Each thread has a stack of its own, on which one kernel works. Counters, states and transitions
# are the program's. What belongs to a thread is where it is, which the machine keeps for it
# (`simulator.machine.threads`), and what is here: its frames, in which one it is, in which contexts
# they are, and what is to be done where it arrives next.

DEPTH = 1 << 20  # Activations that can be live at once in each thread but the first


class Arrival(NamedTuple):
    """What is to be done where control arrives next."""

    begin: Callable[[int], None]  # called with the address of the next block, wherever that is
    # Called if no block comes; returns that in which the current activation ends, or UNKNOWN.
    abandon: Callable[[], int]


class _Stack(Struct):
    """What a thread has for itself while another one runs."""

    # Its activations, and the contexts of each where these are distinguished.
    frames: Array
    contexts: Array | None
    frame: int  # its current activation
    words: Array  # the state it is in, and what that continues
    arrival: Arrival | None  # what is to be done where it arrives next


_WORDS = [kernels.STATE, kernels.RESUMED_STATE, kernels.RESUME_PC, kernels.RESUME_END]


class ThreadStacks:
    """The stacks of the threads that do not run."""

    def __init__(self, memory: EngineMemory, contexts: RunNotes | None) -> None:
        self._memory = memory
        self._contexts = contexts
        self.stacks: dict[int, _Stack] = {}  # by number of the thread
        self._current: int | None = None

    def start(self, number: int, current: int, begin: Callable[[int], None]) -> None:
        """Note that thread `current` has started another one, which begins by `begin`."""
        self._current = current
        frames = np.zeros(kernels.STRIDE * (DEPTH + 1), np.int64)
        contexts = None
        if self._contexts is not None:
            from simprof.profiler.engine import context_kernel  # few runs tell contexts apart

            contexts = np.zeros(context_kernel.FRAME * (DEPTH + 1), np.int64)
        words = np.array([kernels.ABNORMAL, 0, 0, 0])
        arrival = Arrival(begin, lambda: UNKNOWN)
        self.stacks[number] = _Stack(frames, contexts, 0, words, arrival)

    def switch(self, number: int, arrival: Arrival | None) -> Arrival | None:
        """Let thread `number` go on; return its arrival. `arrival`: that of the current one."""
        memory = self._memory
        if self._current is not None:
            contexts = None if self._contexts is None else self._contexts.frames
            frame, words = int(memory.clock[kernels.FRAME]), memory.clock[_WORDS]
            self.stacks[self._current] = _Stack(
                memory.state.frames, contexts, frame, words, arrival
            )
        self._current = number
        stack = self.stacks.pop(number)
        memory.use_frames(stack.frames)
        memory.clock[kernels.FRAME] = stack.frame
        memory.clock[_WORDS] = stack.words
        if self._contexts is not None and stack.contexts is not None:
            self._contexts.use_frames(stack.contexts)
        return stack.arrival

    def end(self) -> None:
        """Forget the current thread."""
        self._current = None
