"""What a software trap of the program is to rewriting: does it end the program?"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from profiler.recovery.idioms import writes_integer

SYSTEM_CALL = {True: 0x6D, False: 0x10}
"""Trap number of Linux by whether the program is 64 bits wide."""
GET_CONTEXT = 0x6E
"""The trap with which the 64-bit setjmp saves its context."""
EXIT, EXIT_GROUP = 1, 188
"""Numbers of the system calls that end the program."""
_G1 = 1


class Ending(Enum):
    """Whether a trap ends the program."""

    GOES_ON = "goes on"
    EXITS = "exits"
    UNKNOWN = "unknown"


def trap_number(word: int) -> int | None:
    """Return the number of a trap whose number is in the instruction, None for others."""
    if word >> 14 & 31 or not word & 1 << 13:
        return None
    return word & 0x7F


def ending_of(words: Sequence[int], is64: bool) -> Ending:
    """Tell whether the trap that is the last of `words` ends the program.

    `words` is a block; a number that it does not put into %g1 itself is unknown.
    """
    if trap_number(words[-1]) != SYSTEM_CALL[is64]:
        return Ending.GOES_ON
    for word in reversed(words[:-1]):
        if word >> 30 == 1 or word >> 25 & 31 != _G1 or not writes_integer(word):
            continue
        is_constant = word >> 30 == 2 and word >> 19 & 0x3F in (0, 2)
        if is_constant and word >> 14 & 31 == 0 and word & 1 << 13:
            return Ending.EXITS if word & 0x1FFF in (EXIT, EXIT_GROUP) else Ending.GOES_ON
        return Ending.UNKNOWN
    return Ending.UNKNOWN
