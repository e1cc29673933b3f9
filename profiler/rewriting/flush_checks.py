"""The test before `flush`: does the program change code of which there are copies?

A program that writes instructions must flush their addresses before they are executed (SPARC V8
B.32, V9 A.20). Where the address is one of the old code, the copies would go on as before: the
program ends with one line (`refusals`). Code that is generated elsewhere runs as ever; so do the
stubs that static programs write when they start, of which there are no copies.

The test has a window of its own and puts the condition codes back; V8 code cannot, so that they
must be dead there. It always executes the same number of instructions.
"""

from __future__ import annotations

from simprof.profiler.code.runtime.prologue import save_smallest_frame
from simprof.profiler.graphs.cfg import Block
from simprof.profiler.rewriting.charges import Cause
from simprof.profiler.rewriting.draft import Draft, NotRewritableError
from simprof.profiler.rewriting.operands import needs_flags, operand_sum
from simprof.profiler.rewriting.parts import Width
from simprof.profiler.rewriting.refusals import REWRITES
from simprof.profiler.rewriting.transfers import constant, jump
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Label, Register

R = Register
_FLUSH = 0x3B
_ADDRESS, _OTHER, _FLAGS = R.L0, R.L1, R.L2


def is_flush(word: int) -> bool:
    """Whether a word is `flush`."""
    return word >> 30 == 2 and word >> 19 & 63 == _FLUSH


def write_check(draft: Draft, block: Block, address: int) -> None:
    """Write the test before the `flush` at an old address.

    Raises
    ------
    NotRewritableError
        If V8's condition codes are live there.
    """
    width = Width(draft.context.machine)
    if needs_flags(draft, block, address):
        raise NotRewritableError(f"the flush at {address:#x} cannot be tested")
    first, end = draft.program.span
    elsewhere = f"r{draft.number}.flush.{address:x}"
    code = [
        save_smallest_frame(width.machine),
        *operand_sum(draft, draft.word(address), _ADDRESS, _OTHER),
        *width.keep(_FLAGS),
        *constant(first, _OTHER),
        asm.arithmetic("sub", _ADDRESS, _OTHER, _ADDRESS),
        *constant(end - first, _OTHER),
        asm.cmp(_ADDRESS, _OTHER),
        width.branch("cc", elsewhere),
        *(width.put_back(_FLAGS) or [asm.nop()]),
    ]
    draft.emit(*code, jump(REWRITES), Label(elsewhere), asm.restore())
    draft.charge(Cause.FLUSHES, len(code) + 1, block=block.id)
