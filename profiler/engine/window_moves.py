"""Moves of register windows that the kernel makes before a block, instead of traps.

A `save` for which no window is free traps, and so does a `restore` whose window is on the stack.
A trap costs the emulator ten times what moving the window does. The kernel therefore moves it
when a block begins (operation `kernels.WINDOW`), wherever nobody could see the difference:
between the block's first instruction and the one that would trap there is none that accesses
memory, can trap, or writes the frame pointer, under which windows are found. Where a window
cannot be moved, the trap happens as it would have.
"""

from __future__ import annotations

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import Operation
from simprof.profiler.recovery.code_image import CodeImage

_FRAME_POINTER = 30
_SETHI = 4
_BRANCHES = (1, 2, 3, 5, 6)  # op2
_SAVE, _RESTORE, _RETURN, _JUMP, _MOVE_ON_CONDITION = 0x3C, 0x3D, 0x39, 0x38, 0x2C
# op3 of instructions that write one register at most, and touch no memory.
_HARMLESS = frozenset(
    [*range(0x08), 0x08, 0x0C, *range(0x10, 0x19), 0x1C, 0x25, 0x26, 0x27, 0x2F, _JUMP]
)
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
            # What is harmless writes a register, if it is no branch or call: the frame pointer?
            writes = word >> 30 == 2 or (word >> 30 == 0 and word >> 22 & 7 == _SETHI)
            if not is_harmless(word) or (writes and word >> 25 & 31 == _FRAME_POINTER):
                return ()
        return ()


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
