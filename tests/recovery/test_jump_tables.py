"""Indirect jumps resolved on assembled routines: tables, computed jumps, returns, and refusals.

What nothing proves is a guess: the jump stays among those that may go elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.recovery import jump_tables
from simprof.profiler.recovery.exploration import Resolution
from simprof.profiler.recovery.jump_tables import MAX_PIECES, Answers, JumpResolver
from simprof.simulator.binary.program import Binding, Symbol
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register, assign_labels
from tests.support.assembled import BASE, code
from tests.support.explored import Explored, with_table, word

R = Register
Body = list[Instruction | str]
RETURN = (asm.retl(), asm.nop())
JUMP = (asm.jmpl(R.G1, 0, R.G0), asm.nop())
ADDRESS = (asm.sethi_symbol("table", R.G2), asm.or_symbol(R.G2, "table", R.G2))
SCALE = asm.shift("sll", R.O0, 2, R.G3)
LOAD = asm.load("ld", R.G2, R.G3, R.G1)
NO_DATA: Mapping[str, int] = {}
CASES = ("one", *RETURN, "two", *RETURN, "default", *RETURN)


def bounded(last: int) -> list[Instruction]:
    """Go to the default case unless %o0 is 0 to `last`."""
    return [asm.cmp(R.O0, last), asm.branch("gu", "default"), asm.nop()]


def resolved(
    items: Sequence[Item], *, writable: bool = False, data: Mapping[str, int] = NO_DATA
) -> Resolution | None:
    """What the jump at the label "jump" resolves to, without the code that it opens.

    `data` are the symbols of data: label and size in bytes.
    """
    explored = Explored({"f": items})
    program = explored.program
    segments = tuple(replace(each, writable=writable) for each in program.segments)
    labels = assign_labels([Label("f"), *items], BASE)
    tables = [Symbol(at, labels[at], size, Binding.LOCAL, False) for at, size in data.items()]
    program = replace(program, segments=segments, symbols=(*program.symbols, *tables))
    resolver = JumpResolver(program, explored.code)
    return resolver.resolve(explored.run(), 0)[explored.index("jump")]


def targets(items: Sequence[Item], *places: str) -> Resolution:
    return Resolution(Explored({"f": items}).indices(places))


def guess(items: Sequence[Item], *places: str) -> Resolution:
    return replace(targets(items, *places), proven=False)


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


def test_a_table_that_seems_longer_than_memory_is_read_as_far_as_it_goes() -> None:
    items = switch(3, "one", "two")
    assert resolved(items) == guess(items, "one", "two")


def test_a_table_that_may_change_is_a_guess() -> None:
    items = switch(1, "one", "two")
    assert resolved(items, writable=True) == guess(items, "one", "two")


def dispatch(*table: str) -> list[Item]:
    """A computed goto: no comparison."""
    return with_table("f", code(*ADDRESS, SCALE, LOAD, "jump", *JUMP, *CASES), *table)


def test_a_table_without_a_bound_ends_where_it_leads_out_of_the_routine() -> None:
    items = dispatch("one", "two")
    assert resolved(items) == guess(items, "one", "two")
    for stranger in (5, BASE - 4, BASE + 2, BASE + 0x10000):
        assert resolved([*items, word(stranger), *items[-1:]]) == guess(items, "one", "two")


def test_a_table_of_one_element_may_be_anything() -> None:
    assert resolved(dispatch("one")) is None


def test_a_table_without_a_bound_ends_with_its_symbol() -> None:
    items = dispatch("one", "two", "default")
    assert resolved(items) == guess(items, "one", "two", "default")
    assert resolved(items, data={"table": 8}) == guess(items, "one", "two")
    assert resolved(items, data={"table": 12}) == guess(items, "one", "two", "default")


def test_a_table_without_a_bound_ends_where_another_symbol_begins() -> None:
    items = dispatch("one", "two", "default")
    split = [*items[:-1], Label("next"), items[-1]]
    assert resolved(split, data={"next": 4}) == guess(items, "one", "two")


def test_a_table_without_a_bound_ends_where_another_table_of_the_routine_begins() -> None:
    other = [asm.sethi_symbol("table", R.G2), asm.or_symbol(R.G2, "table", R.G2)]
    second = [asm.arithmetic("add", R.G2, 8, R.G2), LOAD, asm.jmpl(R.G1, 0, R.G0), asm.nop()]
    choose = [SCALE, asm.cmp(R.O1, 0), asm.branch("e", "second"), asm.nop()]
    first: Body = [*choose, *ADDRESS, LOAD, "jump", *JUMP, "second", *other, *second, *CASES]
    items = with_table("f", code(*first), "one", "two", "default", "one")
    assert resolved(items) == guess(items, "one", "two")


def test_a_bound_on_one_side_is_none() -> None:
    """A signed comparison lets negative indices through."""
    guard = [asm.cmp(R.O0, 1), asm.branch("g", "default"), asm.nop()]
    body: Body = [*guard, *ADDRESS, SCALE, LOAD, "jump", *JUMP, *CASES]
    items = with_table("f", code(*body), "one", "two", "default")
    assert resolved(items) == guess(items, "one", "two"), "but it is one where the table is read"


def test_the_index_may_itself_come_from_a_table() -> None:
    """As in printf: a character's class, of 256, is the index of its label."""
    classes = [asm.load("ldub", R.G2, R.O0, R.G3), asm.shift("sll", R.G3, 2, R.G3)]
    body: Body = [*ADDRESS, *classes, LOAD, "jump", *JUMP, *CASES]
    items = with_table("f", code(*body), "one", "two")
    assert resolved(items) == guess(items, "one", "two")


def test_a_tables_address_in_the_frame_is_found_behind_stores() -> None:
    """Nothing proves that a store through a pointer leaves it, if the frame's address is known."""
    frame = [asm.arithmetic("save", R.SP, -192, R.SP), asm.arithmetic("add", R.FP, -80, R.L0)]
    keep = [asm.store("st", R.G2, R.FP, -16), asm.store("st", R.G0, R.I0, 0)]
    again = [asm.load("ld", R.FP, -16, R.G2), SCALE, LOAD]
    body: Body = [*frame, *ADDRESS, *keep, *again, "jump", *JUMP, *CASES]
    items = with_table("f", code(*body), "one", "two")
    assert resolved(items) == guess(items, "one", "two")


def test_gotos_that_share_a_jump_lead_to_all_of_their_labels() -> None:
    """Gcc does without -O2: every computed goto of a routine goes through one jump."""
    gotos: Body = [*ADDRESS, SCALE, asm.cmp(R.O1, 0), asm.branch("e", "other"), asm.nop()]
    gotos += [LOAD, asm.branch("a", "shared"), asm.nop()]
    gotos += ["other", asm.sethi_symbol("default", R.G1), asm.or_symbol(R.G1, "default", R.G1)]
    body: Body = [*gotos, "shared", "jump", *JUMP, *CASES]
    items = with_table("f", code(*body), "one", "two")
    assert resolved(items) == guess(items, "one", "two", "default")


def test_a_window_that_closes_is_a_tail_call() -> None:
    """Whatever the table is: the jump leaves the routine."""
    body: Body = [*ADDRESS, SCALE, LOAD, "jump", asm.jmpl(R.G1, 0, R.G0), asm.restore(), *CASES]
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
        (16, Resolution(frozenset(), returns=True)),  # behind two words of data
        (4, None),
        (10, None),
    ],
)
def test_a_jump_to_the_callers_return_point_returns(
    offset: int, expected: Resolution | None
) -> None:
    items = code(asm.mov(R.O7, R.G1), "jump", asm.jmpl(R.G1, offset, R.G0), asm.nop())
    assert resolved(items) == expected


def test_no_more_pieces_are_believed_than_any_program_has() -> None:
    assert resolved(pieces(MAX_PIECES)) is None


def test_the_same_graph_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exploration starts over often; what no jump can be reached from does not count either."""
    known: dict[str, Answers] = {}
    analysed = []
    resolve = jump_tables._resolve

    def counted(*arguments: Any) -> Resolution | None:
        analysed.append(arguments)
        return resolve(*arguments)

    monkeypatch.setattr(jump_tables, "_resolve", counted)
    answers = []
    for entries in ([], [], ["two"], ["jump"]):
        explored = Explored({"f": switch(1, "one", "two")}, entries=entries)
        resolver = JumpResolver(explored.program, explored.code, known)
        answers.append(resolver.resolve(explored.run(), 0))
    assert answers[0] == answers[1] == answers[2]
    assert len(analysed) == 2
    assert answers[3] != answers[0], "the index is not bounded"
