"""Constant propagation over single instructions: the state before and after."""

from __future__ import annotations

import pytest

from simprof.profiler.recovery.instructions import Interpreter
from simprof.profiler.recovery.symbolic import (
    FP,
    MASK64,
    SP,
    UNBOUNDED,
    Affine,
    Bounds,
    ComparedValues,
    Entry,
    ReadOnlyMemory,
    SymbolicState,
)
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Register

R = Register
G1, G2, G3 = int(R.G1), int(R.G2), int(R.G3)
TABLE = 0x400000
MEMORY = ReadOnlyMemory([(TABLE, bytes([0xFF, 0xFE, 0, 7]))], MASK64)
ATOM = 77
X = Affine(0, ATOM, 1)
"""An unknown value."""


def executed(
    state: SymbolicState, *instructions: Instruction, escapes: dict[int, int] | None = None
) -> tuple[SymbolicState, Interpreter]:
    """The state after these instructions; `state` is changed."""
    words = [each.word for each in instructions]
    interpreter = Interpreter(words, lambda index: 0x1000 + 4 * index, MEMORY, escapes or {})
    for index in range(len(words)):
        interpreter.execute(state, index)
    return state, interpreter


def after(state: SymbolicState, *instructions: Instruction) -> SymbolicState:
    return executed(state, *instructions)[0]


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (asm.sethi(0x12345400, R.G2), 0x12345400),
        (asm.mov(-1, R.G2), MASK64),
        (asm.mov(R.G1, R.G2), 12),
        (asm.arithmetic("add", R.G1, 5, R.G2), 17),
        (asm.arithmetic("sub", R.G1, 13, R.G2), MASK64),
        (asm.arithmetic("and", R.G1, 10, R.G2), 8),
        (asm.arithmetic("xor", R.G1, 10, R.G2), 6),
        (asm.arithmetic("andn", R.G1, 8, R.G2), 4),
        (asm.shift("sllx", R.G1, 62, R.G2), 0),
        (asm.shift("srl", R.G1, 2, R.G2), 3),
        (asm.arithmetic("umul", R.G1, 2, R.G2), None),
        (asm.arithmetic("addc", R.G1, 2, R.G2), None),
        (asm.load("ld", R.G1, 0, R.G2), None),
    ],
)
def test_what_is_done_to_12(instruction: Instruction, expected: int | None) -> None:
    assert after({G1: 12, G2: 1}, instruction).get(G2) == expected


def test_shifts_of_32_bits_extend_as_they_say() -> None:
    minus = 0xFFFFFFFF_FFFFFFF0
    assert after({G1: minus}, asm.shift("sra", R.G1, 4, R.G2))[G2] == MASK64
    assert after({G1: minus}, asm.shift("srl", R.G1, 4, R.G2))[G2] == 0x0FFFFFFF
    assert after({G1: minus}, asm.shift("srlx", R.G1, 4, R.G2))[G2] == MASK64 >> 4
    assert after({G1: minus}, asm.shift("srax", R.G1, 4, R.G2))[G2] == MASK64


def test_an_unknown_register_gets_a_name_when_it_is_used() -> None:
    """Both registers are then known to hold the same value but for the constant."""
    state = after({}, asm.arithmetic("add", R.G1, 8, R.G2))
    source, total = state[G1], state[G2]
    assert isinstance(source, Affine)
    assert total == source._replace(base=8)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (asm.arithmetic("add", R.G1, 5, R.G2), Affine(5, ATOM, 1)),
        (asm.arithmetic("sub", R.G1, 5, R.G2), Affine(MASK64 - 4, ATOM, 1)),
        (asm.arithmetic("sub", R.G0, R.G1, R.G2), Affine(0, ATOM, -1)),
        (asm.shift("sll", R.G1, 3, R.G2), Affine(0, ATOM, 8)),
        (asm.arithmetic("or", R.G1, 0, R.G2), X),
        (asm.arithmetic("add", R.G1, R.G1, R.G2), None),
        (asm.arithmetic("xor", R.G1, 1, R.G2), None),
    ],
)
def test_what_is_done_to_an_unknown(instruction: Instruction, expected: Affine | None) -> None:
    assert after({G1: X}, instruction).get(G2) == expected


@pytest.mark.parametrize(
    ("instruction", "bounds"),
    [
        (asm.arithmetic("and", R.G1, 7, R.G2), (0, 7)),
        (asm.arithmetic("and", R.G1, 0x38, R.G2), (0, 7)),  # eight times 0 to 7
        (asm.shift("srl", R.G1, 28, R.G2), (0, 15)),
        (asm.shift("sra", R.G1, 28, R.G2), (-8, 7)),
        (asm.load("ldub", R.O0, 0, R.G2), (0, 255)),
        (asm.load("lduh", R.O0, 0, R.G2), (0, 65535)),
    ],
)
def test_what_bounds_an_unknown(instruction: Instruction, bounds: Bounds) -> None:
    state, interpreter = executed({G1: X}, instruction)
    value = state[G2]
    assert isinstance(value, Affine)
    assert interpreter.bounds(state, value.atom) == bounds


def test_a_mask_is_of_a_run_of_ones_only() -> None:
    assert G2 not in after({G1: X}, asm.arithmetic("and", R.G1, 5, R.G2))


def test_a_mask_that_changes_nothing_keeps_the_value() -> None:
    state: SymbolicState = {G1: X, ("fact", ATOM): (0, 3)}
    assert after(state, asm.arithmetic("and", R.G1, 7, R.G2))[G2] == X


def test_the_same_operation_on_the_same_value_has_the_same_name() -> None:
    mask = (asm.arithmetic("and", R.G1, 7, R.G2), asm.arithmetic("and", R.G1, 7, R.G3))
    state = after({G1: X}, *mask)
    assert state[G2] == state[G3]


def test_the_last_comparison_is_remembered() -> None:
    assert after({G1: X}, asm.cmp(R.G1, -3))["cc"] == ComparedValues(X, -3)
    assert after({G1: X}, asm.arithmetic("orcc", R.G0, R.G1, R.G0))["cc"] == ComparedValues(X, 0)
    assert after({G1: X}, asm.arithmetic("orcc", R.G1, 0, R.G0))["cc"] == ComparedValues(X, 0)
    assert "cc" not in after({G1: X}, asm.cmp(R.G1, 3), asm.arithmetic("addcc", R.G1, 1, R.G2))
    assert "cc" not in after({G1: X}, asm.cmp(R.G1, 3), asm.cmp(R.G1, R.G2))
    assert "cc" in after({G1: X}, asm.cmp(R.G1, 3), asm.arithmetic("add", R.G1, 1, R.G2))


def test_a_window_moves_what_is_known() -> None:
    state = after({int(R.O0): 5, G1: 6}, asm.arithmetic("save", R.SP, -176, R.SP))
    assert state[int(R.I0)] == 5 and state[G1] == 6
    assert int(R.O0) not in state
    assert after(state, asm.restore())[int(R.O0)] == 5


# -- memory


@pytest.mark.parametrize(
    ("name", "offset", "value"),
    [("ld", 0, 0xFFFE0007), ("ldsw", 0, MASK64 - 0x1FFF8), ("lduh", 2, 7), ("ldsb", 1, MASK64 - 1)],
)
def test_constants_are_loaded_from_read_only_memory(name: str, offset: int, value: int) -> None:
    assert after({G1: TABLE}, asm.load(name, R.G1, offset, R.G2))[G2] == value


def test_memory_that_may_change_is_unknown() -> None:
    assert G2 not in after({G1: TABLE + 4}, asm.load("ld", R.G1, 0, R.G2))


def test_an_unknown_place_in_read_only_memory_is_a_table() -> None:
    address = Affine(TABLE, ATOM, 4)
    state = after({G1: address}, asm.load("ldsw", R.G1, 0, R.G2))
    assert state[G2] == Entry(0, 0, address, 4, True)
    elsewhere = after({G1: Affine(0, ATOM, 4)}, asm.load("ldsw", R.G1, 0, R.G2))
    assert G2 not in elsewhere


STORE, LOAD = asm.store("st", R.G1, R.FP, -8), asm.load("ld", R.FP, -8, R.G2)


def test_the_frame_gives_back_what_was_put_there() -> None:
    assert after({G1: 12}, STORE, LOAD)[G2] == 12
    assert after({G1: X}, STORE, LOAD)[G2] == X
    assert after({G1: MASK64}, STORE, LOAD)[G2] == 0xFFFFFFFF
    assert after({G1: MASK64}, STORE, asm.load("ldsw", R.FP, -8, R.G2))[G2] == MASK64


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        (asm.store("stb", R.G0, R.FP, -8), False),
        (asm.store("stb", R.G0, R.FP, -5), False),
        (asm.store("stx", R.G0, R.FP, -12), False),
        (asm.store("st", R.G0, R.FP, -4), True),
        (asm.store("st", R.G0, R.FP, -12), True),
        (asm.store("st", R.G0, R.SP, -8), True),
    ],
)
def test_a_store_that_overlaps_a_slot_overwrites_it(store: Instruction, kept: bool) -> None:
    state = after({G1: 12}, STORE, store)
    assert ((FP, -8) in state) is kept


def test_stores_elsewhere_reach_what_has_escaped() -> None:
    """Slots at or above an offset whose address the routine takes."""
    elsewhere = asm.store("st", R.G0, R.O0, 0)
    for lowest, kept in ((-8, False), (-5, False), (-4, True)):
        state, _ = executed({G1: 12}, STORE, elsewhere, escapes={FP: lowest})
        assert ((FP, -8) in state) is kept, lowest
    state, _ = executed({G1: 12}, STORE, elsewhere, escapes={SP: -100})
    assert (FP, -8) in state


def test_calls_forget_globals_outs_and_the_comparison() -> None:
    state, interpreter = executed({G1: X, int(R.O1): 3, int(R.L1): 4}, asm.cmp(R.G1, 3))
    interpreter.clobber_call(state)
    assert state == {int(R.L1): 4}


def test_a_name_that_is_made_again_means_another_value() -> None:
    """In a loop: what was derived from the old value is forgotten."""
    load = asm.load("ldub", R.O0, 0, R.G1)
    state, interpreter = executed({}, load, asm.mov(R.G1, R.G2))
    assert state[G1] == state[G2]
    interpreter.execute(state, 0)
    assert G2 not in state
    assert isinstance(state[G1], Affine)
    assert interpreter.interval(state, state[G1]) == (0, 255)


def test_intervals_of_values() -> None:
    _, interpreter = executed({}, asm.nop())
    state: SymbolicState = {("fact", ATOM): (1, 3)}
    assert interpreter.interval(state, MASK64) == (-1, -1)
    assert interpreter.interval(state, Affine(10, ATOM, 4)) == (14, 22)
    assert interpreter.interval(state, Affine(10, ATOM, -1)) == (7, 9)
    assert interpreter.interval(state, Affine(10, 5, 1)) == UNBOUNDED
    assert interpreter.interval(state, None) == UNBOUNDED
