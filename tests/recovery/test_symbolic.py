"""Values of constant propagation: sums, shifts, windows, read-only memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable

import pytest

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
    SymbolicValue,
    add,
    atom_of,
    narrow,
    put,
    refine,
    restore_window,
    save_window,
    shift_left,
    wider,
)

INDEX = Affine(0, 7, 4)
"""Four times the unknown value that is called 7."""
ELEMENT = Entry(0, 0, INDEX, 4, True)


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (3, 4, 7),
        (MASK64, 1, 0),
        (INDEX, 100, Affine(100, 7, 4)),
        (100, INDEX, Affine(100, 7, 4)),
        (ELEMENT, 8, Entry(8, 0, INDEX, 4, True)),
        (INDEX, INDEX, None),
        (INDEX, ELEMENT, None),
        (None, 4, None),
        (4, None, None),
    ],
)
def test_sums(
    left: SymbolicValue | None, right: SymbolicValue | None, total: SymbolicValue | None
) -> None:
    assert add(left, right) == total


def test_shifts() -> None:
    assert shift_left(3, 2) == 12
    assert shift_left(1 << 63, 1) == 0
    assert shift_left(Affine(1, 7, 4), 3) == Affine(8, 7, 32)
    assert shift_left(ELEMENT, 2) == Entry(0, 2, INDEX, 4, True)
    assert shift_left(Entry(4, 0, INDEX, 4, True), 2) is None  # an address, no offset
    assert shift_left(ELEMENT, 8) is None


@pytest.mark.parametrize(
    ("location", "value", "atom"),
    [
        (8, 5, None),
        (8, INDEX, 7),
        (8, ELEMENT, 7),
        ((FP, -8), (4, INDEX), 7),
        (("fact", 9), (0, 3), 9),
        ("cc", ComparedValues(INDEX, 3), 7),
    ],
)
def test_what_a_value_is_made_of(location: Hashable, value: object, atom: int | None) -> None:
    assert atom_of(location, value) == atom


# -- states


def test_the_zero_register_holds_nothing() -> None:
    state: SymbolicState = {}
    put(state, 0, 5)
    put(state, 9, 5)
    assert state == {9: 5}
    put(state, 9, None)
    assert state == {}


def test_a_new_frame_register_takes_its_slots_with_it() -> None:
    state: SymbolicState = {(SP, 64): (4, 1), (FP, -8): (4, 2), 9: 3}
    put(state, SP, 0x1000)
    assert state == {SP: 0x1000, (FP, -8): (4, 2), 9: 3}


def test_a_new_window_sees_outs_as_ins() -> None:
    """Globals stay, locals and old ins go, slots by %sp are now by %fp."""
    state: SymbolicState = {
        1: 10,
        8: 80,
        15: 150,
        16: 160,
        24: 240,
        (SP, 64): (4, 1),
        (FP, -8): (4, 2),
    }
    save_window(state, SP)
    assert state == {1: 10, 24: 80, 31: 150, (FP, 64): (4, 1)}


def test_the_old_window_sees_ins_as_outs() -> None:
    state: SymbolicState = {
        1: 10,
        8: 80,
        16: 160,
        24: 240,
        31: 310,
        (FP, 64): (4, 1),
        (SP, 8): (4, 2),
    }
    restore_window(state, 9, 99)
    assert state == {1: 10, 8: 240, 9: 99, 15: 310, (SP, 64): (4, 1)}


# -- memory


def test_memory_is_read_where_nothing_changes_it() -> None:
    memory = ReadOnlyMemory([(0x1000, b"\x00\x00\x00\x05\xff\xff\xff\xfe")], MASK64)
    assert memory.read(0x1000, 4, True) == 5
    assert memory.read(0x1004, 4, True) == -2
    assert memory.read(0x1004, 4, False) == 0xFFFFFFFE
    assert memory.read(0x1000, 8, False) == 0x5FFFFFFFE
    assert memory.read(0x1007, 1, False) == 0xFE


def test_memory_ends_with_its_segments() -> None:
    memory = ReadOnlyMemory([(0x1000, bytes(8)), (0x2000, bytes(8))], MASK64)
    assert memory.read(0x1006, 4, False) is None
    assert memory.read(0xFFF, 1, False) is None
    assert memory.read(0x2004, 4, False) == 0
    assert [memory.holds(at) for at in (0xFFF, 0x1000, 0x1007, 0x1008)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_addresses_of_32_bit_programs_wrap() -> None:
    memory = ReadOnlyMemory([(0x1000, b"\x2a")], 0xFFFFFFFF)
    assert memory.read((1 << 32) + 0x1000, 1, False) == 0x2A
    assert memory.holds(0x1000 - (1 << 32))


SMALL = range(-6, 7)
BOUNDS: list[Bounds] = [
    (low, high)
    for low, high in itertools.product([None, -4, 0, 3], [None, -2, 0, 5])
    if low is None or high is None or low <= high
]
CONDITIONS: dict[int, Callable[[int, int], bool]] = {
    1: lambda value, against: value == against,
    2: lambda value, against: value <= against,
    3: lambda value, against: value < against,
    4: lambda value, against: value & MASK64 <= against & MASK64,
    5: lambda value, against: value & MASK64 < against & MASK64,
    9: lambda value, against: value != against,
    10: lambda value, against: value > against,
    11: lambda value, against: value >= against,
    12: lambda value, against: value & MASK64 > against & MASK64,
    13: lambda value, against: value & MASK64 >= against & MASK64,
}


def holds(bounds: Bounds, value: int) -> bool:
    low, high = bounds
    return (low is None or low <= value) and (high is None or value <= high)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_value_that_passes_the_comparison_is_lost(condition: int) -> None:
    for (low, high), against in itertools.product(BOUNDS, SMALL):
        found = narrow(low, high, against, condition)
        for value in SMALL:
            if holds((low, high), value) and CONDITIONS[condition](value, against):
                assert holds(found, value), (low, high, against, value)


@pytest.mark.parametrize(
    ("condition", "against", "before", "after"),
    [
        (1, 3, UNBOUNDED, (3, 3)),
        (2, 3, (0, None), (0, 3)),
        (3, 3, (0, None), (0, 2)),
        (4, 3, UNBOUNDED, (0, 3)),  # `bgu default` not taken: the bound of a jump table
        (5, 3, UNBOUNDED, (0, 2)),
        (9, 0, (0, 5), (1, 5)),
        (9, 5, (0, 5), (0, 4)),
        (9, 3, (0, 5), (0, 5)),
        (10, 3, UNBOUNDED, (4, None)),
        (11, 3, (None, 9), (3, 9)),
        (12, 3, (0, 9), (4, 9)),
        (12, 3, UNBOUNDED, UNBOUNDED),  # a negative number is larger than 3, unsigned
        (13, 3, (0, 9), (3, 9)),
        (4, -1, UNBOUNDED, UNBOUNDED),
        (6, 0, UNBOUNDED, (None, -1)),
        (14, 0, UNBOUNDED, (0, None)),
        (6, 1, UNBOUNDED, UNBOUNDED),  # the sign of the difference, which may overflow
        (7, 0, UNBOUNDED, UNBOUNDED),
        (8, 0, (1, 2), (1, 2)),
    ],
)
def test_how_far_a_comparison_narrows(
    condition: int, against: int, before: Bounds, after: Bounds
) -> None:
    assert narrow(*before, against, condition) == after


def test_the_interval_around_two() -> None:
    assert wider((1, 4), (3, 9)) == (1, 9)
    assert wider((1, None), (0, 9)) == (0, None)
    assert wider((None, 4), (0, 9)) == (None, 9)


def refined(value: Affine, against: int, condition: int, bounds: Bounds = UNBOUNDED) -> Bounds:
    """What a comparison of `value` says about its atom, 7."""
    state: SymbolicState = {}
    refine(state, bounds, ComparedValues(value, against), condition)
    found: Bounds = state.get(("fact", 7), UNBOUNDED)
    return found


def test_facts_are_about_the_atom_not_about_what_was_compared() -> None:
    assert refined(Affine(0, 7, 1), 3, 4) == (0, 3)
    assert refined(Affine(MASK64 - 64, 7, 1), 3, 4) == (65, 68)  # x - 65 <= 3: 'A' to 'D'
    assert refined(Affine(0, 7, 4), 14, 2) == (None, 3)  # 4 x <= 14
    assert refined(Affine(0, 7, 4), 4, 10, (None, 9)) == (2, 9)  # 4 x > 4
    assert refined(Affine(10, 7, -1), 3, 4) == (7, 10)  # 10 - x <= 3, unsigned


def test_nothing_is_noted_where_nothing_is_known() -> None:
    state: SymbolicState = {}
    refine(state, UNBOUNDED, ComparedValues(Affine(0, 7, 1), 0), 7)
    assert state == {}
