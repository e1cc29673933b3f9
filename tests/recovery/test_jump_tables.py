"""Indirect jumps resolved on assembled routines: tables, computed jumps, returns, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from profiler.recovery.exploration import Resolution
from profiler.recovery.jump_tables import MAX_PIECES, Answers, JumpResolver
from simulator.isa import assembler as asm
from simulator.isa.assembler import Instruction, Register
from simulator.isa.assembly import Item
from tests.support.assembled import code
from tests.support.explored import Explored, with_table, word

R = Register
Body = list[Instruction | str]
RETURN = (asm.retl(), asm.nop())
JUMP = (asm.jmpl(R.G1, 0, R.G0), asm.nop())
ADDRESS = (asm.sethi_symbol("table", R.G2), asm.or_symbol(R.G2, "table", R.G2))
SCALE = asm.shift("sll", R.O0, 2, R.G3)
LOAD = asm.load("ld", R.G2, R.G3, R.G1)
CASES = ("one", *RETURN, "two", *RETURN, "default", *RETURN)


def bounded(last: int) -> list[Instruction]:
    """Go to the default case unless %o0 is 0 to `last`."""
    return [asm.cmp(R.O0, last), asm.branch("gu", "default"), asm.nop()]


def resolved(items: Sequence[Item], *, writable: bool = False) -> Resolution | None:
    """What the jump at the label "jump" resolves to, without the code that it opens."""
    explored = Explored({"f": items})
    program = explored.program
    segments = tuple(replace(each, writable=writable) for each in program.segments)
    resolver = JumpResolver(replace(program, segments=segments), explored.code)
    return resolver.resolve(explored.run(), 0)[explored.index("jump")]


def targets(items: Sequence[Item], *places: str) -> Resolution:
    return Resolution(Explored({"f": items}).indices(places))


def switch(last: int, *table: str) -> list[Item]:
    body: Body = [*bounded(last), *ADDRESS, SCALE, LOAD, "jump", *JUMP, *CASES]
    return with_table("f", code(*body), *table)


def test_every_element_within_the_bounds_is_a_target() -> None:
    items = switch(2, "two", "one", "two")
    assert resolved(items) == targets(items, "one", "two")
    items = switch(0, "two", "one", "two")
    assert resolved(items) == targets(items, "two")


def test_an_element_that_is_no_code_leaves_the_jump_unresolved() -> None:
    """The bound admits one element more than the table has: what follows is no address."""
    assert resolved([*switch(1, "one"), word(5)]) is None
    assert resolved([*switch(1, "one"), word(0x100002)]) is None, "not aligned"


def test_a_table_may_not_be_longer_than_memory() -> None:
    assert resolved(switch(3, "one", "two")) is None


def test_a_table_that_may_change_is_not_read() -> None:
    assert resolved(switch(1, "one", "two"), writable=True) is None


def test_without_a_bound_nothing_is_guessed() -> None:
    body: Body = [*ADDRESS, SCALE, LOAD, "jump", *JUMP, *CASES]
    assert resolved(with_table("f", code(*body), "one", "two")) is None


def test_a_bound_on_one_side_is_none() -> None:
    """A signed comparison lets negative indices through."""
    guard = [asm.cmp(R.O0, 1), asm.branch("g", "default"), asm.nop()]
    body: Body = [*guard, *ADDRESS, SCALE, LOAD, "jump", *JUMP, *CASES]
    assert resolved(with_table("f", code(*body), "one", "two")) is None


def test_a_constant_is_a_table_of_one() -> None:
    items = code(
        asm.sethi_symbol("two", R.G1), asm.or_symbol(R.G1, "two", R.G1), "jump", *JUMP, *CASES
    )
    assert resolved(items) == targets(items, "two")


def pieces(last: int) -> list[Item]:
    """Jump to "one" or, 8 bytes each further on, into what follows."""
    start = [asm.sethi_symbol("one", R.G2), asm.or_symbol(R.G2, "one", R.G2)]
    scale = asm.shift("sll", R.O0, 3, R.G3)
    add = asm.arithmetic("add", R.G2, R.G3, R.G1)
    rest = [asm.nop()] * (2 * last)
    return code(*bounded(last), *start, scale, add, "jump", *JUMP, *CASES, *rest)


def test_jumps_into_equal_pieces_of_code_are_computed() -> None:
    items = pieces(2)
    assert resolved(items) == targets(items, "one", "two", "default")


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (8, Resolution(frozenset(), returns=True)),
        (12, Resolution(frozenset(), returns=True)),
        (16, None),
    ],
)
def test_a_jump_to_the_callers_return_point_returns(
    offset: int, expected: Resolution | None
) -> None:
    items = code(asm.mov(R.O7, R.G1), "jump", asm.jmpl(R.G1, offset, R.G0), asm.nop())
    assert resolved(items) == expected


def test_no_more_pieces_are_believed_than_any_program_has() -> None:
    assert resolved(pieces(MAX_PIECES)) is None


def test_the_same_graph_is_analysed_once() -> None:
    """Exploration starts over often; a routine that has not changed costs nothing."""
    known: Answers = {}
    items = switch(1, "one", "two")
    answers = []
    for _ in range(2):
        explored = Explored({"f": items})
        resolver = JumpResolver(explored.program, explored.code, known)
        answers.append(resolver.resolve(explored.run(), 0))
    assert answers[0] is answers[1]
    assert len(known) == 1
    grown = Explored({"f": items}, entries=["two"])
    JumpResolver(grown.program, grown.code, known).resolve(grown.run(), 0)
    assert len(known) == 2
