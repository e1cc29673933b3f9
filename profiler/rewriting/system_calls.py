"""What a software trap is to rewriting: does it end the program, or say what a signal does?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from profiler.recovery.idioms import writes_integer
from profiler.recovery.recovery import RecoveredProgram

SYSTEM_CALL = {True: 0x6D, False: 0x10}
"""Trap number of Linux by whether the program is 64 bits wide."""
GET_CONTEXT = 0x6E
"""The trap with which the 64-bit setjmp saves its context."""
EXIT, EXIT_GROUP = 1, 188
"""Numbers of the system calls that end the program."""
ACTIONS = {True: (102,), False: (102, 198)}
"""Numbers of the system calls that install handlers, by whether the program is 64 bits wide."""
_G1 = 1


class Ending(Enum):
    """Whether a trap ends the program, or says what a signal does."""

    GOES_ON = "goes on"
    EXITS = "exits"
    ACTS = "acts on signals"
    UNKNOWN = "unknown"


def trap_number(word: int) -> int | None:
    """Return the number of a trap whose number is in the instruction, None for others."""
    if word >> 14 & 31 or not word & 1 << 13:
        return None
    return word & 0x7F


def ending_of(words: Sequence[int], is64: bool) -> Ending:
    """Tell what the trap that is the last of `words` does.

    `words` is a block; a number that it does not put into %g1 itself is unknown.
    """
    if trap_number(words[-1]) != SYSTEM_CALL[is64]:
        return Ending.GOES_ON
    for word in reversed(words[:-1]):
        if word >> 30 == 1 or word >> 25 & 31 != _G1 or not writes_integer(word):
            continue
        is_constant = word >> 30 == 2 and word >> 19 & 0x3F in (0, 2)
        if is_constant and word >> 14 & 31 == 0 and word & 1 << 13:
            return _ending(word & 0x1FFF, is64)
        return Ending.UNKNOWN
    return Ending.UNKNOWN


def _ending(number: int, is64: bool) -> Ending:
    if number in ACTIONS[is64]:
        return Ending.ACTS
    return Ending.EXITS if number in (EXIT, EXIT_GROUP) else Ending.GOES_ON


def acts_on_signals(recovered: RecoveredProgram, routines: Iterable[int]) -> bool:
    """Whether one of `routines`, by number, may make a system call that installs a handler."""
    words, code = recovered.code.lists.words, recovered.code
    for number in routines:
        for block in recovered.routines[number].blocks:
            first = code.index(block.start)
            ending = ending_of(words[first : first + block.instructions], recovered.program.is64)
            if ending in (Ending.ACTS, Ending.UNKNOWN):
                return True
    return False
