"""Where calls and exits lead, one idiom of leaving a routine a test; read off the code alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.engine.walk import UNKNOWN
from simprof.profiler.trace.calls import Callees, Exit
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.assembled import code
from tests.support.event_player import IndexedGraphs

R = Register
RETURN = (asm.retl(), asm.nop())
OTHERS: dict[str, Sequence[Item]] = {
    "other": code(asm.call("leaf"), asm.nop(), "behind", *RETURN),
    "spin": code(asm.branch("a", "spin"), asm.nop()),
    "leaf": code(*RETURN),
    "tall": code(asm.branch("e", "inside"), asm.nop(), "inside", *RETURN),
}


def graphs_of(*body: Item | str) -> IndexedGraphs:
    """The graphs of `main`, of this code, and of `OTHERS`."""
    main = [item for part in body for item in (code(part) if isinstance(part, str) else [part])]
    return IndexedGraphs({"main": main, **OTHERS})


@pytest.mark.parametrize(
    ("body", "way", "entered"),
    [
        ([asm.retl(), asm.nop()], Exit.RETURN, None),
        ([asm.return_(R.I7, 8), asm.nop()], Exit.RETURN, None),
        ([asm.branch("a", "leaf"), asm.nop()], Exit.ENTER, "leaf"),
        ([asm.branch("a", "leaf", True), asm.nop()], Exit.ENTER, "leaf"),
        ([asm.call("leaf"), asm.restore()], Exit.ENTER, "leaf"),
        ([asm.jmpl(R.G1, 0, R.O7), asm.restore()], Exit.ENTER, None),
        ([asm.call("spin"), asm.nop(), asm.nop()], Exit.CALL, "spin"),
        ([asm.jmpl(R.G1, 0, R.G0), asm.nop()], Exit.WRITTEN, None),
        ([asm.nop()], Exit.ENTER, "other"),  # falls through into the next routine
        ([asm.mov(1, R.G1), asm.trap_always(0x6D)], Exit.UNKNOWN, None),
    ],
    ids=["retl", "return", "ba", "ba,a", "call, restore", "jmpl, restore", "no return", "jmp",
         "falls", "trap"],
)  # fmt: skip
def test_how_a_block_leaves(body: list[Item], way: Exit, entered: str | None) -> None:
    graphs = graphs_of(*body)
    expected = UNKNOWN if entered is None else graphs.edge(f"ENTRY>{entered}")
    assert Callees(graphs.index).exit(graphs.edge("main>EXIT")) == (way, expected)


def test_a_branch_out_of_the_routine_enters_its_target() -> None:
    graphs = graphs_of(asm.branch("e", "leaf"), asm.nop(), "on", *RETURN)
    found = Callees(graphs.index).exit(graphs.edge("main>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>leaf"))


def test_an_annulled_branch_leaves_from_its_slot() -> None:
    graphs = graphs_of(asm.branch("e", "leaf", True), asm.nop(), "on", *RETURN)
    found = Callees(graphs.index).exit(graphs.edge("main+1s>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>leaf"))


def test_where_the_branch_stays_it_is_the_fall_through_that_leaves() -> None:
    """The branch goes back to the start; behind it comes the next routine."""
    graphs = graphs_of(asm.nop(), "again", asm.branch("e", "again"), asm.nop())
    found = Callees(graphs.index).exit(graphs.edge("again>EXIT"))
    assert found == (Exit.ENTER, graphs.edge("ENTRY>other"))


def test_what_a_call_leads_to() -> None:
    graphs = graphs_of(
        asm.call("leaf"), asm.nop(), "indirect", asm.jmpl(R.G1, 0, R.O7), asm.nop(), "on", *RETURN
    )
    callees = Callees(graphs.index)
    assert callees.callee(graphs.block("main")) == graphs.edge("ENTRY>leaf")
    assert callees.callee(graphs.block("indirect")) == UNKNOWN
    assert callees.callee(graphs.block("on")) == UNKNOWN
    assert not callees.is_indirect(graphs.block("main"))
    assert callees.is_indirect(graphs.block("indirect"))


def test_exits_know_their_blocks() -> None:
    graphs = graphs_of(*RETURN)
    sources = Callees(graphs.index).source
    assert sources[graphs.edge("behind>EXIT")] == graphs.block("behind")
    assert len(sources) == 4  # main, behind, leaf, inside; `spin` never leaves


def test_entries_are_found_by_address() -> None:
    graphs = graphs_of(*RETURN)
    callees = Callees(graphs.index)
    assert callees.entry(graphs.address("leaf")) == graphs.edge("ENTRY>leaf")
    assert callees.entry(graphs.address("leaf+1")) == UNKNOWN
    assert callees.entry(-1) == UNKNOWN


def test_a_jump_behind_a_call_of_another_routine_is_a_return() -> None:
    """As longjmp does; a jump to a routine's start is a tail call, one within it is a switch."""
    graphs = graphs_of(asm.jmpl(R.G1, 0, R.G0), asm.nop())
    callees = Callees(graphs.index)
    main = graphs.block("main")
    assert callees.returns(main, graphs.block("behind"))
    assert not callees.returns(main, graphs.block("leaf"))
    assert not callees.returns(main, graphs.block("inside")), "no call returns there"
    assert not callees.returns(graphs.block("other"), graphs.block("behind"))
