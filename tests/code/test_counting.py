"""The counting of what code executes."""

from __future__ import annotations

import pytest

from simprof.profiler.code.counting import executed
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label

CODE: list[Item] = [
    Label("start"),
    asm.call("known"),
    asm.nop(),
    Label("known"),
    asm.call("leaf"),
    asm.nop(),
    Label("again"),
    asm.branch("ne", "again", annul=True),
    asm.nop(),
    asm.trap_always(0x6D),
    asm.branch("a", "elsewhere", annul=True),
    Label("leaf"),
    asm.branch("e", "out"),
    asm.nop(),
    asm.nop(),
    Label("out"),
    asm.retl(),
    asm.nop(),
]


def test_steps() -> None:
    assert executed(CODE, (True, False), "start") == 2 + 2 + 4 + 1 + 2
    assert executed(CODE, (False, True, True, False), "start") == 2 + 2 + 5 + 5 + 2
    assert executed(CODE, (True,), "leaf") == 4
    assert executed(CODE, (True,), "start", "again") == 8
    for outcomes in ((True,), (True, False, False)):
        with pytest.raises(ValueError, match="branches than outcomes"):
            executed(CODE, outcomes, "start")
