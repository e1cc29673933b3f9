"""The kernel's operations for a transition: those of its steps, a window's move, a trace's tokens.

Each list of operations is added once (`StepOperations`). Lists for nothing but edges mean the same
wherever they stand, and are found by what is in them. Others are found by their steps: Python may
be asked for more about them when the kernel stops there.

Windows (`WindowMoves`): a `save` for which no window is free traps, and so does a `restore` whose
window is on the stack. A trap costs the emulator ten times what moving the window does. The kernel
therefore moves it when a block begins (operation `kernels.WINDOW`), wherever nobody could see the
difference: between the block's first instruction and the one that would trap there is none that
accesses memory, can trap, or writes the frame pointer, under which windows are found. Where a
window cannot be moved, the trap happens as it would have.

Traces (`TraceSink`): the kernel appends the tokens of edges to a buffer without asking anybody.
Python reports which operations do that (`operations`), that the kernel stopped for the trace
(`drain`, `mark`), and what happened where Python took over from the kernel: between `begin_event`
and `end_event` control moves in ways that no reader of the trace could find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, fuse
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.walk import Cross, Land, Pop, Push, Step, only_crosses
from simprof.profiler.recovery.code_image import CodeImage

if TYPE_CHECKING:
    from simprof.profiler.engine.recording import RecordingLowering


class StepOperations:
    """The lists of operations of one run."""

    def __init__(self, lowering: Lowering | RecordingLowering) -> None:
        self.landings: dict[int, Land] = {}  # by number of a SLOW operation: where control lands
        # By number of a MARK operation: the steps from there on.
        self.marks: dict[int, tuple[Step, ...]] = {}
        # By number of a RETURN operation: the edges that are crossed behind it.
        self.after_pop: dict[int, tuple[int, ...]] = {}
        self._lowering = lowering
        self._memory = lowering.memory
        self._contexts = lowering.contexts
        self._is_idle = lowering.is_idle
        self._by_steps: dict[tuple[tuple[Step, ...], tuple[Operation, ...]], int] = {}
        self._by_content: dict[tuple[Operation, ...], int] = {(): 0}

    def number(
        self,
        steps: tuple[Step, ...],
        then: tuple[Operation, ...] = (),
        trace: TraceSink | None = None,
    ) -> int:
        """Return the number of the first operation that the kernel executes for `steps`.

        After them it executes `then`. 0 where there is nothing to do.
        """
        if trace is None and only_crosses(steps):
            return self._alike(then if self._is_idle else (*self._lower(steps, None), *then))
        known = self._by_steps.get((steps, then))
        if known is not None:
            return known
        operations = fuse((*self._lower(steps, trace), *then))
        first = self._memory.add_operations(operations) if operations else 0
        self._by_steps[steps, then] = first
        for number, (code, place, _) in enumerate(operations, first):
            if code == kernels.SLOW:
                landing = steps[place]
                assert isinstance(landing, Land)
                self.landings[number] = landing
            elif code == kernels.MARK:
                self.marks[number] = steps[place:]
            elif code == kernels.RETURN:
                self.after_pop[number] = _edges_after_pop(steps)
        return first

    def learn(self, landings: Mapping[int, Land], after_pop: Mapping[int, tuple[int, ...]]) -> None:
        """Take over what operations of another run need Python for; the memory has them."""
        self.landings.update(landings)
        self.after_pop.update(after_pop)

    def _alike(self, operations: tuple[Operation, ...]) -> int:
        known = self._by_content.get(operations)
        if known is None:
            known = self._by_content[operations] = self._memory.add_operations(fuse(operations))
        return known

    def _lower(self, steps: Sequence[Step], trace: TraceSink | None) -> list[Operation]:
        operations: list[Operation] = []
        for place, step in enumerate(steps):
            if trace is not None:
                operations += trace.operations(steps, place)
            match step:
                case Cross(edge):
                    operations += self._lowering.operations(edge)
                case Push(return_address):
                    operations.append((kernels.CALL, return_address, 0))
                    if self._contexts is not None:
                        operations.append(self._contexts.pushed(return_address))
                case Pop():
                    operations.append((kernels.RETURN, 0, 0))
                case Land():
                    operations.append((kernels.SLOW, place, 0))
        return operations


def _edges_after_pop(steps: Sequence[Step]) -> tuple[int, ...]:
    place = next(i for i, step in enumerate(steps) if isinstance(step, Pop))
    return tuple(step.edge for step in steps[place + 1 :] if isinstance(step, Cross))


_FRAME_POINTER = 30
_SETHI = 4
_BRANCHES = (1, 2, 3, 5, 6)  # op2
_SAVE, _RESTORE, _RETURN, _JUMP, _MOVE_ON_CONDITION = 0x3C, 0x3D, 0x39, 0x38, 0x2C
_HARMLESS = frozenset(
    [*range(0x08), 0x08, 0x0C, *range(0x10, 0x19), 0x1C, 0x25, 0x26, 0x27, 0x2F, _JUMP]
)
"""op3 of instructions that write one register at most, and touch no memory."""
_SPILL: tuple[Operation, ...] = ((kernels.WINDOW, kernels.CAN_SAVE, 0),)
_FILL: tuple[Operation, ...] = ((kernels.WINDOW, kernels.CAN_RESTORE, 0),)


class WindowMoves:
    """Which blocks of a program begin with a move of a window."""

    def __init__(self, code: CodeImage) -> None:
        self._code = code
        self._words = np.ascontiguousarray(code.words).data
        self._known: dict[tuple[int, int], tuple[Operation, ...]] = {}

    def ahead(self, start: int, end: int) -> tuple[Operation, ...]:
        """Return the operation that moves a window before the block of [start, end) executes."""
        known = self._known.get((start, end))
        if known is None:
            known = self._known[start, end] = self._ahead(start, end)
        return known

    def _ahead(self, start: int, end: int) -> tuple[Operation, ...]:
        first = self._code.place.index(start)
        last = first + ((end - start) >> 2)
        if first < 0:
            return ()
        for place in range(first, min(last, len(self._words))):
            word = self._words[place]
            if word >> 30 == 2 and word >> 19 & 63 == _SAVE:
                return _SPILL
            if word >> 30 == 2 and word >> 19 & 63 in (_RESTORE, _RETURN):
                return _FILL
            if not is_harmless(word) or _writes_frame_pointer(word):
                return ()
        return ()


def _writes_frame_pointer(word: int) -> bool:
    form, op2 = word >> 30, word >> 22 & 7
    writes = form == 2 or (form == 0 and op2 == _SETHI)
    return writes and word >> 25 & 31 == _FRAME_POINTER


def is_harmless(word: int) -> bool:
    """Whether an instruction neither traps nor accesses memory, but writes a register at most."""
    form, op2, op3 = word >> 30, word >> 22 & 7, word >> 19 & 63
    if form == 1:
        return True  # call
    if form == 0 and op2 in _BRANCHES:
        return True
    if form == 0:
        return op2 == _SETHI
    moves_integers = op3 == _MOVE_ON_CONDITION and bool(word >> 18 & 1)
    return form == 2 and (op3 in _HARMLESS or moves_integers)


class TraceSink(Protocol):
    """Writes a trace of one run. Edges and blocks have their program-wide numbers."""

    def operations(self, steps: Sequence[Step], place: int) -> list[Operation]:
        """Return what the kernel does for the trace when the program takes `steps[place]`."""
        ...

    def drain(self) -> None:
        """Do what the kernel stopped for: its buffer is full, or a checkpoint is due."""
        ...

    def mark(self, steps: Sequence[Step], frame: int, block: int) -> None:
        """Note that `steps` come next, which the code does not tell.

        The kernel stopped at a MARK operation with the activation at `frame` in `block`.
        """
        ...

    def crossed(self, edge: int) -> None:
        """Python crosses `edge` on behalf of the program."""
        ...

    def begin_event(self, block: int) -> None:
        """Python takes over while the current activation is in `block`, -1 if in none."""
        ...

    def end_event(self, frame: int, block: int) -> None:
        """Note that the kernel goes on with the activation at `frame`, in `block`."""
        ...

    def end(self) -> None:
        """Note that the run is over."""
        ...
