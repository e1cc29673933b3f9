"""Where control lands in the middle of a routine: exceptions, and `longjmp`.

Terms
-----
landing pad
    Where an exception lands that a call has let through. The program's unwinding tables tell.
second return
    Where `longjmp` lands: behind a call of `setjmp`. That is any routine that stores both the stack
    pointer and the return address where its first argument points; no list of names. In 64-bit
    programs `longjmp` has the kernel set a context, and lands behind the trap that got it.

All of these are entries of their routines, whether a run lands there or not: graphs are the same
for all inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from profiler.recovery.code_image import CodeImage
from profiler.recovery.idioms import is_prologue, return_point
from simulator.binary.landing_pads import landing_pads
from simulator.binary.program import Program
from simulator.isa.decode import TransferKind

_K = TransferKind
_SP, _O0, _O7 = 14, 8, 15
_STW, _STX = 0x04, 0x0E
_ANNUL = 1 << 29
_TRAP_ALWAYS, _TRAP_MASK = 0x91D02000, 0xFFFFE07F
"""`ta %icc, number` without a register; `%xcc` sets one bit more."""
_GET_CONTEXT = 0x6E
_LENGTH = 48
"""How many instructions `saves_context` looks at."""


def landing_points(program: Program, code: CodeImage) -> frozenset[int]:
    """Return the word indices of all code in which control may land."""
    pads = landing_pads(program.unwinding, program.segments, program.is64)
    found = {index for pad in pads if (index := code.index(pad)) >= 0}
    if program.is64:
        traps = np.flatnonzero(_gets_context(code.words) & code.is_code)
        found.update((traps + 1).tolist())
    return frozenset(found | _second_returns(code, program.is64))


def _second_returns(code: CodeImage, is64: bool) -> set[int]:
    words, kinds, _, targets, _ = code.lists
    calls = np.flatnonzero((code.transfers.kind == _K.CALL) & code.is_code)
    callees = np.asarray(code.targets)[calls]
    savers = [
        callee
        for callee in np.unique(callees).tolist()
        if saves_context(words, kinds, targets, callee, is64)
    ]
    returns = set()
    for call in calls[np.isin(callees, savers)].tolist():
        point = return_point(words, kinds, call, is64)
        if point >= 0 and point < len(words):
            returns.add(point)
    return returns


def _gets_context(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (words & _TRAP_MASK) == (_TRAP_ALWAYS | _GET_CONTEXT)
    return found


def saves_context(
    words: Sequence[int], kinds: Sequence[int], targets: Sequence[int], index: int, is64: bool
) -> bool:
    """Whether the routine at word `index` returns again later, as `setjmp` does.

    It stores both the stack pointer and the return address, perhaps encrypted, where its first
    argument points, and has no window of its own; or it has the kernel do so.
    """
    holding = {_SP: {_SP}, _O7: {_O7}}
    stored: set[int] = set()
    slot_of = -1  # where the branch leads whose delay slot this is
    for _ in range(_LENGTH):
        if not 0 <= index < len(words):
            return False
        word, kind = words[index], kinds[index]
        if is64 and word & _TRAP_MASK == _TRAP_ALWAYS | _GET_CONTEXT:
            return True
        if kind == _K.BRANCH_ALWAYS and not word & _ANNUL and slot_of < 0:
            slot_of, index = targets[index], index + 1
            continue
        if kind not in (_K.NONE, _K.TRAP_ALWAYS) or is_prologue(words, index):
            return False
        _hold(word, holding, stored)
        if len(stored) == len(holding):
            return True
        index, slot_of = (index + 1, -1) if slot_of < 0 else (slot_of, -1)
    return False


def _hold(word: int, holding: dict[int, set[int]], stored: set[int]) -> None:
    """Follow values into the registers that hold them, and to where the first argument points."""
    op, op3, rd, first = word >> 30, (word >> 19) & 63, (word >> 25) & 31, (word >> 14) & 31
    sources = {first} if word & 0x2000 else {first, word & 31}
    for value, registers in holding.items():
        if op == 3:
            is_near = first == _O0 and (word & 0x2000 or not word & 31)
            if op3 in (_STW, _STX) and is_near and rd in registers:
                stored.add(value)
        elif op == 2 and op3 < 0x10:
            if sources & registers:
                registers.add(rd)
            elif rd != value:
                registers.discard(rd)
