"""Software traps in a copy: the run-time code takes over where one ends the program.

System calls that say what a signal does are made by the run-time code, too (`elsewhere.signals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.idioms import writes_integer
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.rewriting.calls import RoutineEntries
from simprof.profiler.rewriting.draft import Cause, CopyDraft, jump, raw
from simprof.profiler.rewriting.elsewhere.signals import action_cost, call_site
from simprof.profiler.rewriting.elsewhere.writing import EXIT as EXIT_ROUTINE
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register
from simprof.simulator.isa.sparc import SYSTEM_CALL_TRAP

CONTEXT_SAVED = Register.G1
"""Zero behind the trap with which the 64-bit setjmp saves the context, unless longjmp lands."""


def write_trap(draft: CopyDraft, landings: RoutineEntries, block: Block, address: int) -> None:
    """Write the trap that ends a block."""
    word, is64 = draft.word(address), draft.context.is64
    ending = ending_of([draft.word(a) for a in range(block.start, address + 4, 4)], is64)
    if ending is TrapEnding.EXITS:
        draft.emit(jump(EXIT_ROUTINE))
        draft.charge(Cause.SYSTEM_CALLS, 1, block=block.id)
        draft.copy.endings.append(block.id)
        return
    if ending is TrapEnding.UNKNOWN:
        _test_number(draft, block, address)
    if trap_number(word) == SYSTEM_CALL_TRAP[is64]:
        draft.emit(Label(f"r{draft.number}.call.{address:x}"))
    if ending is TrapEnding.ACTS:
        draft.emit(*call_site(draft.context.machine))
        draft.charge(Cause.SYSTEM_CALLS, action_cost(draft.context.machine), block=block.id)
    else:
        draft.emit(raw(word))
    if ending is TrapEnding.UNKNOWN:
        draft.emit(Label(draft.label("behind", block.id)))
    onward = draft.out(block.id, EdgeKind.FALL_THROUGH, EdgeKind.CALL_RETURN)
    if onward is not None and trap_number(word) == GET_CONTEXT and is64:
        landings.test(onward, CONTEXT_SAVED)


def _test_number(draft: CopyDraft, block: Block, address: int) -> None:
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


GET_CONTEXT = 0x6E
"""The trap with which the 64-bit setjmp saves its context."""
EXIT, EXIT_GROUP = 1, 188
"""Numbers of the system calls that end the program."""
ACTIONS = {True: (102,), False: (102, 198)}
"""Numbers of the system calls that install handlers, by whether the program is 64 bits wide."""
_G1 = 1
_TRAP = 0x3A


class TrapEnding(Enum):
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


def ending_of(words: Sequence[int], is64: bool) -> TrapEnding:
    """Tell what the trap that is the last of `words` does.

    `words` is a block; a number that it does not put into %g1 itself is unknown.
    """
    if trap_number(words[-1]) != SYSTEM_CALL_TRAP[is64]:
        return TrapEnding.GOES_ON
    number = _number(words[:-1])
    if number < 0:
        return TrapEnding.UNKNOWN
    if number in ACTIONS[is64]:
        return TrapEnding.ACTS
    return TrapEnding.EXITS if number in (EXIT, EXIT_GROUP) else TrapEnding.GOES_ON


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


def acts_on_signals(recovered: ProgramGraphs, routines: Iterable[int]) -> bool:
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


def _numbers(recovered: ProgramGraphs, cfg: ControlFlowGraph, trap: int) -> set[int]:
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


def _words(recovered: ProgramGraphs, block: Block) -> Sequence[int]:
    first = recovered.code.index(block.start)
    return recovered.code.lists.words[first : first + block.instructions]
