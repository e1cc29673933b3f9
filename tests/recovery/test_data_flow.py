"""What reaches an indirect jump: constants, joins, comparisons, calls, the frame.

Each routine ends in `jmpl %g1`, and the test says what %g1 holds there: a number, or an unknown
value ("atom") times a factor, with the bounds that are known of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simprof.profiler.recovery.data_flow import DataFlow
from simprof.profiler.recovery.slices import BlockGraph, frame_escapes
from simprof.profiler.recovery.symbolic import (
    MASK64,
    RETURN_ADDRESS,
    UNBOUNDED,
    Affine,
    Bounds,
    ReadOnlyMemory,
    SymbolicValue,
)
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from tests.support.assembled import BASE, code
from tests.support.explored import Explored

R = Register
RETURN = (asm.retl(), asm.nop())
JUMP = (asm.jmpl(R.G1, 0, R.G0), asm.nop())
LEAF: dict[str, Sequence[Item]] = {"leaf": code(*RETURN)}


def reaching(
    *body: Instruction | str, others: Mapping[str, Sequence[Item]] = LEAF, jump: str = "jump"
) -> tuple[SymbolicValue | None, Bounds]:
    """What reaches the jump at the label "jump" of `f`; UNBOUNDED for constants."""
    explored = Explored({"f": code(*body), **others})
    found = explored.run()
    memory = ReadOnlyMemory([(BASE, explored.program.segments[0].data)], MASK64)
    graph, escapes = BlockGraph(found, 0), frame_escapes(found, 0)
    flow = DataFlow(found, graph, explored.code.address, memory, escapes)
    return flow.propagate()[explored.index(jump)]


def scaled(value: SymbolicValue | None) -> tuple[int, int]:
    """(base, factor) of a value that is made of an atom."""
    assert isinstance(value, Affine)
    return value.base, value.factor


def test_constants_are_put_together() -> None:
    value, _ = reaching(asm.sethi(0x12345400, R.G1),
                        asm.arithmetic("or", R.G1, 0x78, R.G1), "jump", *JUMP)  # fmt: skip
    assert value == 0x12345478


def test_nothing_is_known_of_a_register_that_nothing_set() -> None:
    assert reaching("jump", *JUMP) == (None, UNBOUNDED)


def choice(first: Instruction, second: Instruction) -> list[Instruction | str]:
    """One way executes `first`, the other `second`."""
    return [
        asm.branch("e", "other"), asm.nop(), first, asm.branch("a", "jump"), asm.nop(),
        "other", second, "jump", *JUMP,
    ]  # fmt: skip


def test_paths_that_agree_keep_the_constant() -> None:
    assert reaching(*choice(asm.mov(12, R.G1), asm.mov(12, R.G1)))[0] == 12


def test_paths_that_disagree_leave_the_interval_around_both() -> None:
    value, bounds = reaching(*choice(asm.mov(4, R.G1), asm.mov(12, R.G1)))
    assert scaled(value) == (0, 1)
    assert bounds == (4, 12)


def test_a_path_that_knows_nothing_takes_all_knowledge_away() -> None:
    unknown = asm.load("ldx", R.O0, 0, R.G1)
    assert reaching(*choice(asm.mov(4, R.G1), unknown)) == (None, UNBOUNDED)


def test_a_value_that_grows_in_a_loop_is_given_up() -> None:
    found = reaching(
        asm.mov(0, R.G1), "loop", asm.arithmetic("add", R.G1, 4, R.G1), asm.branch("ne", "loop"),
        asm.nop(), "jump", *JUMP,
    )  # fmt: skip
    assert found[1] == UNBOUNDED


INDEX = asm.shift("sll", R.O0, 2, R.G1)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("gu", (0, 3)),
        ("cc", (0, 2)),
        ("g", (None, 3)),
        ("l", (3, None)),
        ("ne", (3, 3)),
        ("vs", UNBOUNDED),
    ],
)
def test_a_branch_that_is_not_taken_bounds_the_index(condition: str, bounds: Bounds) -> None:
    """Behind `cmp %o0, 3` and the branch, %g1 is four times %o0."""
    value, found = reaching(
        asm.cmp(R.O0, 3), asm.branch(condition, "out"), asm.nop(), INDEX, "jump", *JUMP,
        "out", *RETURN,
    )  # fmt: skip
    assert scaled(value) == (0, 4)
    assert found == bounds


def test_the_taken_side_learns_the_opposite() -> None:
    _, bounds = reaching(
        asm.cmp(R.O0, 3),
        asm.branch("leu", "case"),
        asm.nop(),
        *RETURN,
        "case",
        INDEX,
        "jump",
        *JUMP,
    )
    assert bounds == (0, 3)


def test_registers_are_compared_with_zero_by_branches_of_their_own() -> None:
    value, bounds = reaching(
        asm.load("ldx", R.O1, 0, R.O0), asm.mov(R.O0, R.O0),
        asm.branch_register("lz", R.O0, "out", False, True), asm.nop(), INDEX, "jump", *JUMP,
        "out", *RETURN,
    )  # fmt: skip
    assert scaled(value) == (0, 4)
    assert bounds == (0, None)


def test_what_is_compared_before_it_changes_says_nothing_of_it_after() -> None:
    _, bounds = reaching(
        asm.cmp(R.O0, 3), asm.load("ldx", R.O1, 0, R.O0), asm.branch("gu", "out"), asm.nop(),
        INDEX, "jump", *JUMP, "out", *RETURN,
    )  # fmt: skip
    assert bounds == UNBOUNDED


def test_a_delay_slot_executes_on_both_ways() -> None:
    branch = [asm.mov(4, R.G1), asm.branch("e", "target"), asm.mov(8, R.G1)]
    taken, _ = reaching(*branch, *RETURN, "target", "jump", *JUMP)
    fallen, _ = reaching(*branch, "jump", *JUMP, "target", *RETURN)
    assert (taken, fallen) == (8, 8)


def test_an_annulled_slot_executes_on_the_taken_way_only() -> None:
    taken, _ = reaching(
        asm.mov(4, R.G1), asm.branch("e", "jump", True), asm.mov(8, R.G1), *RETURN, "jump", *JUMP
    )
    fallen, _ = reaching(
        asm.mov(4, R.G1), asm.branch("e", "out", True), asm.mov(8, R.G1), "jump", *JUMP,
        "out", *RETURN,
    )  # fmt: skip
    assert (taken, fallen) == (8, 4)


@pytest.mark.parametrize(("register", "value"), [(R.L1, 8), (R.I0, 8), (R.O1, None), (R.G2, None)])
def test_calls_keep_the_window_and_nothing_else(register: Register, value: int | None) -> None:
    found, _ = reaching(
        asm.mov(8, register), asm.call("leaf"), asm.nop(), asm.mov(register, R.G1), "jump", *JUMP
    )
    assert found == value or (value is None and isinstance(found, Affine))


def test_a_call_that_fetches_the_program_counter_is_seen_through() -> None:
    """`retl; add %o7, %l7, %l7` adds the address of the call."""
    thunk = code(asm.retl(), asm.arithmetic("add", R.O7, R.L7, R.L7))
    body = [asm.mov(100, R.L7), asm.call("thunk"), asm.nop(), asm.mov(R.L7, R.G1)]
    value, _ = reaching(*body, "jump", *JUMP, others={"thunk": thunk})
    assert value == 100 + BASE + 4
    thunk = code(asm.retl(), asm.mov(R.O7, R.L7))
    value, _ = reaching(*body, "jump", *JUMP, others={"thunk": thunk})
    assert value == BASE + 4


def test_the_return_address_is_known_by_name() -> None:
    value, _ = reaching(asm.arithmetic("add", R.O7, 8, R.G1), "jump", *JUMP)
    assert value == Affine(8, RETURN_ADDRESS, 1)


STORE, LOAD = asm.store("st", R.G2, R.SP, 64), asm.load("ld", R.SP, 64, R.G1)


def test_the_frame_keeps_what_no_pointer_can_reach() -> None:
    """A store through %o1 may write the slot only if the routine made an address of it."""
    elsewhere = asm.store("st", R.G0, R.O1, 0)
    kept, _ = reaching(asm.mov(12, R.G2), STORE, elsewhere, LOAD, "jump", *JUMP)
    assert kept == 12
    escaped = asm.arithmetic("add", R.SP, 64, R.O1)
    lost, bounds = reaching(asm.mov(12, R.G2), STORE, escaped, elsewhere, LOAD, "jump", *JUMP)
    assert isinstance(lost, Affine) and bounds == UNBOUNDED
    higher = asm.arithmetic("add", R.SP, 72, R.O1)
    kept, _ = reaching(asm.mov(12, R.G2), STORE, higher, elsewhere, LOAD, "jump", *JUMP)
    assert kept == 12


def test_only_code_that_leads_to_a_jump_is_looked_at() -> None:
    """Of two jumps, each has its own answer; what does not reach one plays no part."""
    value, _ = reaching(
        asm.branch("e", "aside"), asm.nop(), asm.mov(4, R.G1), "jump", *JUMP,
        "aside", asm.mov(8, R.G1), *RETURN,
    )  # fmt: skip
    assert value == 4
