"""Where counters lie: addresses handed out one plan after the other, added up by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from simprof.profiler.code.layout import (
    ARRAYS_BASE,
    LIMIT,
    TABLE_SPAN,
    TABLES_BASE,
    CounterLayout,
    CounterSpace,
)
from simprof.profiler.plan.plan import (
    Addressing,
    Buffer,
    BufferUse,
    CounterTable,
    InstrumentationPlan,
)
from simprof.simulator.errors import UsageError


def plan_of(
    paths: int = 0,
    edges: int = 0,
    *,
    table: CounterTable = CounterTable.ARRAY,
    registers: int = 1,
    named: int = 0,
) -> InstrumentationPlan:
    names = tuple(f"name {number}" for number in range(named))
    return InstrumentationPlan(
        {}, True, table, paths, Addressing.INDEX, edges, registers=registers, named_counters=names
    )


def test_arrays_lie_one_after_the_other_in_steps_of_eight_bytes() -> None:
    """3 counters take 12 bytes, rounded up to 16; one takes 4, rounded up to 8."""
    space = CounterSpace()
    first, second = space.place(plan_of(3, 1)), space.place(plan_of(2, 2))
    assert (first.path_base, first.edge_base) == (ARRAYS_BASE, ARRAYS_BASE + 16)
    assert (second.path_base, second.edge_base) == (ARRAYS_BASE + 24, ARRAYS_BASE + 32)
    assert first.path_counter(2) == ARRAYS_BASE + 8
    assert second.edge_counter(1) == ARRAYS_BASE + 36


def test_counters_with_names_lie_right_below_their_array() -> None:
    """One takes 4 bytes, rounded up to 8; three take 16."""
    one, three = (CounterSpace().place(plan_of(3, named=number)) for number in (1, 3))
    assert one.path_base == ARRAYS_BASE + 8
    assert one.named == one.path_counter(-1) == one.path_base - 4
    assert three.path_base == ARRAYS_BASE + 16
    assert [three.path_counter(-number) for number in (1, 2, 3)] == [
        three.path_base - 4 * number for number in (1, 2, 3)
    ]


def test_hash_tables_stand_apart_and_take_no_room_among_the_arrays() -> None:
    space = CounterSpace()
    first = space.place(plan_of(1000, 1, table=CounterTable.HASH))
    second = space.place(plan_of(1000, 1, table=CounterTable.HASH))
    assert (first.path_base, second.path_base) == (TABLES_BASE, TABLES_BASE + TABLE_SPAN)
    assert (first.edge_base, second.edge_base) == (ARRAYS_BASE, ARRAYS_BASE + 8)


def test_tables_of_few_paths_take_less_room() -> None:
    """3,000 bytes are three steps of 1,024; nothing takes more than a table of unknown size."""
    few, many = (
        replace(plan_of(table=CounterTable.HASH), table_bytes=size) for size in (3000, 1 << 20)
    )
    space = CounterSpace()
    places = [space.place(each).path_base - TABLES_BASE for each in (few, many, few, few)]
    assert places == [0, 3072, 3072 + TABLE_SPAN, 3072 + TABLE_SPAN + 3072]


def test_tables_addresses_need_one_instruction() -> None:
    """`sethi` sets all but the low 10 bits."""
    assert TABLES_BASE % 1024 == TABLE_SPAN % 1024 == 0


def test_registers_that_the_stack_has_no_room_for_get_two_words_each() -> None:
    """Six have room; of eight, two do not, which take 16 bytes."""
    space = CounterSpace()
    assert space.place(plan_of(registers=6)).words_base == ARRAYS_BASE
    assert space.place(plan_of(registers=8)).words_base == ARRAYS_BASE
    assert space.place(plan_of(1)).path_base == ARRAYS_BASE + 16


def test_numbers_of_logged_edges_go_on_from_routine_to_routine() -> None:
    """Three sources and one destination, then nothing, then the same again."""
    use = BufferUse(Buffer("log", has_slots=True), (), (3, 1))
    logging = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 0, buffers=(use,))
    space = CounterSpace()
    plans = (logging, plan_of(), logging, logging)
    places = [space.place(plan) for plan in plans]
    assert [layout.first for layout in places] == [(1, 1), (4, 2), (4, 2), (7, 3)]


def test_buffers_that_do_not_fit_are_refused() -> None:
    """Slots of 8 bytes: two million of them take 16 MB, one less than 16 MB is between."""
    use = BufferUse(Buffer("log", has_slots=True), (), (1 << 20, 1 << 20))
    logging = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 0, buffers=(use,))
    with pytest.raises(UsageError, match="--routine"):
        CounterSpace().place(logging)


def test_counters_that_do_not_fit_are_refused_with_a_remedy() -> None:
    space = CounterSpace()
    room = (TABLES_BASE - ARRAYS_BASE) // 4
    space.place(plan_of(room))
    with pytest.raises(UsageError, match="--routine"):
        space.place(plan_of(1))
    space = CounterSpace()
    for _ in range((LIMIT - TABLES_BASE) // TABLE_SPAN):
        space.place(plan_of(table=CounterTable.HASH))
    with pytest.raises(UsageError, match="--routine"):
        space.place(plan_of(table=CounterTable.HASH))


def test_plans_in_the_same_order_get_the_same_addresses() -> None:
    plans = [plan_of(3, 1), plan_of(table=CounterTable.HASH), plan_of(5, named=1)]
    assert [CounterSpace().place(plan) for plan in plans[:1]] == [CounterLayout(
        ARRAYS_BASE, ARRAYS_BASE + 16, 0, ARRAYS_BASE + 24, ()
    )]  # fmt: skip
    first, second = CounterSpace(), CounterSpace()
    assert [first.place(plan) for plan in plans] == [second.place(plan) for plan in plans]
