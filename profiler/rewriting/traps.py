"""Software traps in a copy: the run-time code takes over where one ends the program."""

from __future__ import annotations

from profiler.graphs.cfg import Block, EdgeKind
from profiler.rewriting.charges import Cause
from profiler.rewriting.draft import Draft
from profiler.rewriting.landings import Landings
from profiler.rewriting.system_calls import (
    EXIT,
    EXIT_GROUP,
    GET_CONTEXT,
    Ending,
    ending_of,
    trap_number,
)
from profiler.rewriting.transfers import jump, raw
from simulator.isa import assembler as asm
from simulator.isa.assembler import Register
from simulator.isa.assembly import Label

EXIT_ROUTINE = "simprof.exit"
CONTEXT_SAVED = Register.G1
"""Zero behind the trap with which the 64-bit setjmp saves the context, unless longjmp lands."""


def write_trap(draft: Draft, landings: Landings, block: Block, address: int) -> None:
    """Write the trap that ends a block."""
    word, is64 = draft.word(address), draft.context.is64
    ending = ending_of([draft.word(a) for a in range(block.start, address + 4, 4)], is64)
    if ending is Ending.EXITS:
        draft.emit(jump(EXIT_ROUTINE))
        draft.charge(Cause.SYSTEM_CALLS, 1, block=block.id)
        draft.copy.endings.append(block.id)
        return
    if ending is Ending.UNKNOWN:
        _test_number(draft, block)
    draft.emit(raw(word))
    onward = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
    if onward is not None and trap_number(word) == GET_CONTEXT and is64:
        landings.test(onward, CONTEXT_SAVED)


def _test_number(draft: Draft, block: Block) -> None:
    """Leave for the run-time code if %g1 is the number of a system call that ends the program.

    The flags are the kernel's to change here. Both ways out execute the same number.
    """
    also = draft.label("ends", block.id)
    draft.emit(
        asm.cmp(Register.G1, EXIT_GROUP),
        asm.branch("e", also),
        asm.cmp(Register.G1, EXIT),
        asm.branch("e", EXIT_ROUTINE),
        asm.nop(),
    )
    draft.put_behind(Label(also), asm.nop(), jump(EXIT_ROUTINE))
    draft.charge(Cause.SYSTEM_CALLS, 5, block=block.id)
