"""The test before `flush`: does the program change code of which there are copies?

A program that writes instructions must flush their addresses before they are executed (SPARC V8
B.32, V9 A.20). Where the address is one of the old code, the copies would go on as before: the
program ends with one line (`refusals`). Code that is generated elsewhere runs as ever; so do the
stubs that static programs write when they start, of which there are no copies.

The test has a window of its own and puts the condition codes back; V8 code cannot, so that they
must be dead there. It always executes the same number of instructions.
"""

from __future__ import annotations

from profiler.code.runtime.prologue import save_smallest_frame
from profiler.graphs.cfg import Block
from profiler.rewriting.charges import Cause
from profiler.rewriting.draft import Draft, NotRewritableError
from profiler.rewriting.operands import operand_sum
from profiler.rewriting.parts import Width
from profiler.rewriting.refusals import REWRITES
from profiler.rewriting.transfers import constant, jump
from simulator.binary.program import MachineKind
from simulator.isa import assembler as asm
from simulator.isa.assembler import Register
from simulator.isa.assembly import Label
from simulator.isa.effects import ICC

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
    is_v8 = width.machine is MachineKind.SPARCV8
    if is_v8 and draft.liveness.live_before(block.id, (address - block.start) >> 2) & ICC:
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
