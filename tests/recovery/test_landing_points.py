"""Landing pads are entries of routines."""

from __future__ import annotations

from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register
from tests.support.assembled import code
from tests.support.explored import Explored

R = Register
RETURN = (asm.retl(), asm.mov(0, R.O0))


def test_a_landing_is_an_entry_where_it_is_clear_whose() -> None:
    """Without symbols, what a routine has not reached may be another's."""
    caller = [asm.call("leaf"), asm.nop(), *RETURN]
    leaf: list[Instruction | str] = [asm.branch("e", "in"), asm.nop(), *RETURN, "in", *RETURN]
    body = code(*caller, "leaf", *leaf, "far", *RETURN)
    explored = Explored({"f": body}, stripped=True, landings=["in", "far"])
    found = explored.run()
    assert explored.places(found.entries[1]) == {"leaf", "in"}
    assert not found.stale
    named = Explored({"f": body}, landings=["in", "far"])
    assert {"in", "far"} <= named.places(named.run().entries[0])
