"""Short instruction sequences that tell how code calls, returns and ends.

Most of these functions are also compiled (`exploration_kernel`): they use plain integers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from simprof.simulator.isa.decode import TransferKind
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP

Integers: TypeAlias = "Sequence[int] | npt.NDArray[Any]"

_K = TransferKind
_RESTORE = 0x3D
RETL = 0x81C3E008
_RETURNS_FROM_LEAF = (RETL, 0x81C3E00C)
_O7 = 15
_INTEGER = 0xFFFFFFFE
_LEAF = 64  # How far `starts_leaf` looks
# `word & PROLOGUE_MASK == PROLOGUE` tells `save %sp, ..., %sp`.
PROLOGUE, PROLOGUE_MASK = 0x9DE38000, 0xFFFFC000
_EXIT_CALLS = (1, 188, 101, 216)  # exit, exit_group, rt_sigreturn, sigreturn
_SYSTEM_CALL_32, _SYSTEM_CALL_64 = SYSTEM_CALL_TRAP[False], SYSTEM_CALL_TRAP[True]
_SET_CONTEXT = 0x6F
_BAD_TRAP = 5  # what compilers emit for __builtin_trap: SIGILL


def is_restore(word: int) -> bool:
    """Whether `word` is `restore`: as a delay slot, it makes a call a tail call."""
    return word >> 30 == 2 and (word >> 19) & 0x3F == _RESTORE


def is_prologue(words: Integers, index: int) -> bool:
    """Whether word `index` is `save %sp, ..., %sp`: only routines start so."""
    return 0 <= index < len(words) and words[index] & PROLOGUE_MASK == PROLOGUE


def starts_leaf(words: Integers, index: int) -> bool:
    """Whether the straight line from word `index` comes to `retl` before a call, window or jump."""
    # Code in a window of its own closes that before it returns: it is no part of such a routine.
    for word in words[index : index + _LEAF]:
        if word in _RETURNS_FROM_LEAF:
            return True
        is_call = word >> 30 == 1
        moves_window = word >> 30 == 2 and word >> 19 & 0x3F in (0x38, 0x39, 0x3C, 0x3D)
        goes_away = word >> 30 == 0 and word >> 25 & 15 == 8 and word >> 22 & 7 in (1, 2)
        if is_call or moves_window or goes_away:
            return False
    return False


def ending_trap(words: Integers, kinds: Integers, at: int, is64: bool) -> int | None:
    """First word of the straight line that shows that the trap at `at` does not return."""
    word = words[at]
    if (word >> 14) & 31 or not word & 0x2000:  # not a constant trap number
        return None
    trap = word & 0x7F
    if trap == _BAD_TRAP or (trap == _SET_CONTEXT and is64):
        return at
    if trap != (_SYSTEM_CALL_64 if is64 else _SYSTEM_CALL_32):
        return None
    for index in range(at - 1, max(-1, at - 32), -1):  # back to what sets %g1, the number
        word = words[index]
        if kinds[index] != _K.NONE:
            return None
        if word >> 30 != 1 and (word >> 25) & 31 == 1 and writes_integer(word):
            is_move = word >> 30 == 2 and (word >> 19) & 0x3F in (0, 2)
            if is_move and (word >> 14) & 31 == 0 and word & 0x2000:  # or, add of %g0
                return index if word & 0x1FFF in _EXIT_CALLS else None
            return None
    return None


def return_point(words: Integers, kinds: Integers, at: int, is64: bool) -> int:
    """Word at which a call's callee returns, or -1 if it returns to somebody else."""
    slot = words[at + 1]
    op, op3, rd = slot >> 30, (slot >> 19) & 0x3F, (slot >> 25) & 31
    point = at + 2
    if op == 2 and op3 == _RESTORE:
        return -1
    if rd == 15 and ((op == 2 and op3 < 0x34) or (op == 0 and (slot >> 22) & 7 == 4)):  # %o7
        offset = ((slot & 0x1FFF) ^ 0x1000) - 0x1000  # simm13
        adjusts = op3 in (0, 4) and slot & 0x2000 and (slot >> 14) & 31 == 15 and op == 2
        if not adjusts or offset & 3:
            return -1
        return point + (offset >> 2 if op3 == 0 else -(offset >> 2))
    unimp = not is64 and point < len(words) and words[point] >> 22 == 0  # returns a struct
    return point + 1 if unimp and kinds[point] == _K.ILLEGAL else point


def writes_integer(word: int) -> bool:
    """Whether the destination field of a format 2 or 3 word may name an integer register."""
    op, op3 = word >> 30, (word >> 19) & 0x3F
    if op == 0:
        return (word >> 22) & 7 == 4
    if op == 2:
        return op3 not in (0x34, 0x35)
    return not (0x20 <= op3 <= 0x27 or 0x30 <= op3 <= 0x37 or op3 in (4, 5, 6, 7, 0xE, 0x2D))


def pc_thunk(words: Sequence[int], target: int) -> tuple[int, bool] | None:
    """`retl; add %o7, %rX, %rX` or `retl; mov %o7, %rX`: (register, whether it adds)."""
    if target < 0 or target + 1 >= len(words) or words[target] != RETL:
        return None
    word = words[target + 1]
    op3, rd = (word >> 19) & 63, (word >> 25) & 31
    sources = {(word >> 14) & 31, word & 31}
    if word >> 30 != 2 or word & 0x2000 or _O7 not in sources or op3 not in (0, 2):  # add, or
        return None
    if op3 == 0 and sources == {_O7, rd} and rd != _O7:
        return rd, True
    return (rd, False) if sources == {_O7, 0} else None


def bit(register: int) -> int:
    """Return a register's bit, 0 for %g0."""
    return 1 << register & _INTEGER


def operands(word: int) -> int:
    """Return the registers that a format 3 instruction names as sources."""
    return bit(word >> 14 & 31) | (0 if word & 0x2000 else bit(word & 31))
