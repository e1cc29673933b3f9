"""Software traps in a copy: the run-time code takes over where one ends the program.

System calls that say what a signal does are made by the run-time code, too (`signals`).
"""

from __future__ import annotations

from simprof.profiler.graphs.cfg import Block, EdgeKind
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft
from simprof.profiler.rewriting.dump import EXIT as EXIT_ROUTINE
from simprof.profiler.rewriting.landings import Landings
from simprof.profiler.rewriting.signal_cost import action_cost
from simprof.profiler.rewriting.signals import call_site
from simprof.profiler.rewriting.system_calls import (
    ACTIONS,
    EXIT,
    EXIT_GROUP,
    GET_CONTEXT,
    Ending,
    ending_of,
    trap_number,
)
from simprof.profiler.rewriting.transfers import jump, raw
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP

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
        _test_number(draft, block, address)
    if trap_number(word) == SYSTEM_CALL_TRAP[is64]:
        draft.emit(Label(f"r{draft.number}.call.{address:x}"))
    if ending is Ending.ACTS:
        draft.emit(*call_site(draft.context.machine))
        draft.charge(Cause.SYSTEM_CALLS, action_cost(draft.context.machine), block=block.id)
    else:
        draft.emit(raw(word))
    if ending is Ending.UNKNOWN:
        draft.emit(Label(draft.label("behind", block.id)))
    onward = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
    if onward is not None and trap_number(word) == GET_CONTEXT and is64:
        landings.test(onward, CONTEXT_SAVED)


def _test_number(draft: Draft, block: Block, address: int) -> None:
    """Leave for the run-time code if %g1 is the number of a system call that it makes.

    The flags are the kernel's to change here. All ways execute as many instructions.
    """
    machine = draft.context.machine
    ends, acts = draft.label("ends", block.id), draft.label("acts", block.id)
    numbers = ACTIONS[draft.context.is64]
    tests: list[Item] = []
    ways: list[Item] = []
    for number in numbers:
        tests += [asm.cmp(Register.G1, number), asm.branch("e", f"{acts}.{number}")]
        ways += [Label(f"{acts}.{number}"), asm.nop(), asm.nop()]  # in place of the next test
    draft.emit(
        asm.cmp(Register.G1, EXIT_GROUP),
        asm.branch("e", f"{ends}.group"),
        asm.cmp(Register.G1, EXIT),
        asm.branch("e", ends),
        *tests,
        asm.nop(),
    )
    draft.put_behind(Label(f"{ends}.group"), asm.nop(), asm.nop())
    draft.put_behind(Label(ends), *(asm.nop() for _ in tests[1:]), jump(EXIT_ROUTINE))
    draft.put_behind(*ways[:-2], *call_site(machine), jump(draft.label("behind", block.id)))
    draft.charge(Cause.SYSTEM_CALLS, 5 + len(tests), block=block.id)
    draft.copy.actions[address] = action_cost(machine) + 1
