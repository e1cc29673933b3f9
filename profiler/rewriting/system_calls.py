"""What a software trap is to rewriting: does it end the program, or say what a signal does?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.idioms import writes_integer
from simprof.profiler.recovery.recovery import RecoveredProgram
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP

GET_CONTEXT = 0x6E
"""The trap with which the 64-bit setjmp saves its context."""
EXIT, EXIT_GROUP = 1, 188
"""Numbers of the system calls that end the program."""
ACTIONS = {True: (102,), False: (102, 198)}
"""Numbers of the system calls that install handlers, by whether the program is 64 bits wide."""
_G1 = 1
_TRAP = 0x3A


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
    if trap_number(words[-1]) != SYSTEM_CALL_TRAP[is64]:
        return Ending.GOES_ON
    number = _number(words[:-1])
    if number < 0:
        return Ending.UNKNOWN
    if number in ACTIONS[is64]:
        return Ending.ACTS
    return Ending.EXITS if number in (EXIT, EXIT_GROUP) else Ending.GOES_ON


_NOT_THERE, _NOT_CONSTANT = -1, -2


def _number(words: Sequence[int]) -> int:
    """Return the number that instructions leave in %g1, or why they do not tell."""
    for word in reversed(words):
        if word >> 30 == 1 or word >> 25 & 31 != _G1 or not writes_integer(word):
            continue
        is_constant = word >> 30 == 2 and word >> 19 & 0x3F in (0, 2)
        if is_constant and word >> 14 & 31 == 0 and word & 1 << 13:
            return word & 0x1FFF
        return _NOT_CONSTANT
    return _NOT_THERE


def acts_on_signals(recovered: RecoveredProgram, routines: Iterable[int]) -> bool:
    """Whether one of `routines`, by number, may make a system call that installs a handler."""
    is64 = recovered.program.is64
    acting = {*ACTIONS[is64], _NOT_CONSTANT}
    for number in routines:
        cfg = recovered.routines[number]
        for block in cfg.blocks:
            last = _words(recovered, block)[-1]
            makes = (
                last >> 30 == 2
                and last >> 19 & 0x3F == _TRAP
                and trap_number(last) == SYSTEM_CALL_TRAP[is64]
            )
            if makes and _numbers(recovered, cfg, block.id) & acting:
                return True
    return False


def _numbers(recovered: RecoveredProgram, cfg: ControlFlowGraph, trap: int) -> set[int]:
    """Return the numbers that %g1 may hold at the trap that ends a block, whatever leads there."""
    found: set[int] = set()
    seen, work = {trap}, [trap]
    while work:
        block = work.pop()
        words = _words(recovered, cfg.blocks[block])
        number = _number(words[:-1] if block == trap else words)
        if number != _NOT_THERE:
            found.add(number)
            continue
        for edge in map(cfg.edges.__getitem__, cfg.in_edges[block]):
            if edge.kind in (EdgeKind.ENTRY, EdgeKind.CALL_RETURN):
                found.add(_NOT_CONSTANT)
            elif edge.source not in seen:
                seen.add(edge.source)
                work.append(edge.source)
    return found


def _words(recovered: RecoveredProgram, block: Block) -> Sequence[int]:
    first = recovered.code.index(block.start)
    return recovered.code.lists.words[first : first + block.instructions]
