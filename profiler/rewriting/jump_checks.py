"""The test before a jump of which only a run has told where it leads.

The copy of a routine is right only for the targets that are known: registers that are dead on all
ways from them may hold the scheme's values. Another run may jump elsewhere, to old code that needs
these registers. So before such a jump the copy looks its target up in a table, a byte for each word
from the first target on, and ends the program where it is not there (`refusals`).

The test has a window of its own, and so changes nothing; V8 code cannot keep the condition codes,
so that these must be dead there. It always executes the same number of instructions.
"""

from __future__ import annotations

from collections.abc import Iterable

from simprof.profiler.code.runtime.prologue import save_smallest_frame
from simprof.profiler.graphs.cfg import Block
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.operands import needs_flags, operand_sum
from simprof.profiler.rewriting.refusals import UNFORESEEN
from simprof.profiler.rewriting.transfers import constant, jump
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register

R = Register
LARGEST_TABLE = 1 << 16
"""Bytes; targets further apart than so many words are not looked up."""
_OFFSET, _FOUND, _WHERE = R.L0, R.L1, R.L2


def write_check(draft: Draft, block: Block, address: int, targets: frozenset[int]) -> None:
    """Write the test before the jump at an old address, which ends `block`.

    Parameters
    ----------
    targets
        Old addresses, at least one, to which it is known to lead.

    Raises
    ------
    NotRewritableError
        If they lie too far apart, or V8's condition codes are live there.
    """
    unknown = f"nothing tells where the jump at {address:#x} leads"
    first, last = min(targets), max(targets)
    shift = ((last - first) >> 2).bit_length()
    if 1 << shift > LARGEST_TABLE:
        raise NotRewritableError(f"{unknown}: it has targets far apart")
    is_v8 = draft.context.machine is MachineKind.SPARCV8
    if needs_flags(draft, block, address):
        raise NotRewritableError(unknown)
    table = draft.label("targets", block.id)
    near, known = draft.label("near", block.id), draft.label("known", block.id)
    executed = [
        save_smallest_frame(draft.context.machine),
        *operand_sum(draft, draft.word(address), _OFFSET, _FOUND),
        *constant(first, _WHERE),
        asm.arithmetic("sub", _OFFSET, _WHERE, _OFFSET),
        asm.shift("srlx" if draft.context.is64 else "srl", _OFFSET, shift + 2, _FOUND),
        *_branch(is_v8, "z", near),
        asm.shift("srl", _OFFSET, 2, _OFFSET),
    ]
    looked_up = [
        asm.sethi_symbol(table, _WHERE),
        asm.or_symbol(_WHERE, table, _WHERE),
        asm.load("ldub", _WHERE, _OFFSET, _FOUND),
        *_branch(is_v8, "nz", known),
        asm.restore(),
    ]
    draft.emit(*executed, jump(UNFORESEEN), Label(near), *looked_up, jump(UNFORESEEN), Label(known))
    draft.charge(Cause.JUMP_CHECKS, len(executed) + len(looked_up), block=block.id)
    draft.put_behind(*_table(table, ((t - first) >> 2 for t in targets), 1 << shift))


def _branch(is_v8: bool, condition: str, label: str) -> list[Instruction]:
    """Branch by whether what was found is zero ("z") or not ("nz")."""
    if is_v8:
        on_icc = {"z": "e", "nz": "ne"}[condition]
        return [asm.cmp(_FOUND, 0), asm.branch(on_icc, label)]
    return [asm.branch_register(condition, _FOUND, label)]


def _table(label: str, places: Iterable[int], size: int) -> list[Item]:
    """Return the table as words: a byte is 1 where the jump may lead."""
    content = bytearray(-(-size // 4) * 4)
    for place in places:
        content[place] = 1
    numbers = (int.from_bytes(content[k : k + 4], "big") for k in range(0, len(content), 4))
    return [Label(label), *(Instruction(f".word {n:#010x}", n) for n in numbers)]
