"""Schemes along segments: what their registers hold in between, and what they have counted.

The graph is a loop around a choice. Its plan, by hand, numbers four paths as EPP does: 0 and 1
from the entry over B and C, 2 and 3 the same behind the back edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.products import (
    CountedSegment,
    Player,
    Products,
    RoutineProduct,
    Totals,
    hash_operation,
)
from simprof.profiler.engine.segments import segment
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountPath,
    PathIncrement,
    SetRegister,
)
from simprof.profiler.plan.decoders import UnfinishedPath
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.schemes.tpp.actions import CountHotPath, Poison
from simprof.simulator.binary.program import MachineKind
from tests.support.figures import edge, named

LOOP = named("A>B A>C B>D C>D D>A", "A", "D")
A, B, C, D = range(4)
ENTER, BACK, LEAVE = (edge(LOOP, name) for name in ("ENTRY>A", "D>A", "D>EXIT"))
OVER_B = [edge(LOOP, "A>B"), edge(LOOP, "B>D")]
OVER_C = [edge(LOOP, "A>C"), edge(LOOP, "C>D")]
NUMBERED: Mapping[int, tuple[Action, ...]] = {
    ENTER: (SetRegister(0),),
    OVER_C[0]: (AddRegister(1),),
    BACK: (CountPath(0, True), SetRegister(2)),
    LEAVE: (CountPath(0),),
}


def plan_of(
    actions: Mapping[int, tuple[Action, ...]] = NUMBERED,
    table: CounterTable = CounterTable.ARRAY,
    counted_region: frozenset[int] = frozenset(),
) -> InstrumentationPlan:
    addressing = Addressing.INDEX if table is CounterTable.ARRAY else None
    return InstrumentationPlan(
        actions, True, table, 4, addressing, 0, counted_region=counted_region
    )


def player_of(plan: InstrumentationPlan) -> Player:
    return Player(LOOP, plan)


# -- one scheme


def test_a_segment_counts_what_the_plan_counts_and_hands_its_registers_on() -> None:
    player = player_of(plan_of())
    first = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert first.counted == (PathIncrement(1, True),)
    assert first.after == ((2,), None)
    second = player.execute(first.after, [*OVER_C, LEAVE], ends=True)
    assert second.counted == (PathIncrement(3, False),)


def test_behind_the_exit_all_registers_are_as_at_the_start() -> None:
    player = player_of(plan_of())
    assert player.execute(((3,), None), [*OVER_B, LEAVE], ends=True).after == player.start


def test_a_register_that_nobody_reads_again_is_forgotten() -> None:
    """Both ways on from A set it: without that, each past path would be a state of its own."""
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_B[0]: (SetRegister(5),),
        OVER_C[0]: (SetRegister(6),),
        BACK: (CountPath(0, True),),
        LEAVE: (CountPath(0),),
    }
    player = player_of(plan_of(actions))
    over_b = player.execute(player.start, [ENTER, *OVER_B, BACK], ends=True)
    over_c = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert (over_b.counted, over_c.counted) == (
        (PathIncrement(5, True),),
        (PathIncrement(6, True),),
    )
    assert over_b.after == over_c.after == player.start


def test_an_unfinished_segment_keeps_its_registers() -> None:
    player = player_of(plan_of())
    assert player.execute(((7,), None), OVER_C, ends=False).after == ((8,), None)


def test_the_last_count_is_kept_where_it_may_be_taken_back() -> None:
    for region, last in ((frozenset({A}), 1), (frozenset({D}), None)):
        player = player_of(plan_of(counted_region=region))
        stretch = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
        assert stretch.after == ((2,), last)


def test_hashed_counts_are_made_when_their_segment_ends() -> None:
    player = player_of(plan_of(table=CounterTable.HASH))
    stretch = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert stretch.at_end == (PathIncrement(1, True),)
    assert stretch.hashed_increments == 1
    array = player_of(plan_of())
    stretch = array.execute(array.start, [ENTER, *OVER_C, BACK], ends=True)
    assert (stretch.at_end, stretch.hashed_increments) == ((), 0)


def test_cold_paths_are_counted_without_the_table() -> None:
    """A poisoned register counts in the cold counter, -1, which is no place of the table."""
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_C[0]: (Poison(),),
        BACK: (CountHotPath(0, True), SetRegister(0)),
        LEAVE: (CountHotPath(0, True),),
    }
    player = player_of(plan_of(actions, CounterTable.HASH))
    stretch = player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True)
    assert [count.counter for count in stretch.counted] == [-1]
    assert (stretch.at_end, stretch.hashed_increments) == ((), 0)


def test_fixed_counts_are_those_that_need_no_register() -> None:
    actions: Mapping[int, tuple[Action, ...]] = {
        OVER_B[1]: (CountConstantPath(9),),
        LEAVE: (CountPath(0),),
    }
    hashed, array = player_of(plan_of(actions, CounterTable.HASH)), player_of(plan_of(actions))
    assert hashed.fixed_counts(OVER_B[1]) == [PathIncrement(9, False)]
    assert hashed.fixed_counts(LEAVE) == []
    assert array.fixed_counts(OVER_B[1]) == []


def test_the_same_segment_from_the_same_state_is_executed_once() -> None:
    player = player_of(plan_of())
    edges = [ENTER, *OVER_B, BACK]
    assert player.stretch(player.start, 3, edges) == player.stretch(player.start, 3, edges) == 0
    assert player.stretch(((1,), None), 3, edges) == 1
    assert len(player.stretches) == 2


def test_totals_multiply_what_a_stretch_counts() -> None:
    player = player_of(plan_of(table=CounterTable.HASH))
    totals = Totals()
    totals.add(player.execute(player.start, [ENTER, *OVER_C, BACK], ends=True), 5)
    totals.add(player.execute(((2,), None), [*OVER_C, LEAVE], ends=True), 2)
    assert totals.paths == {1: 5, 3: 2}
    assert totals.hashed_increments == 7


def test_hash_operations_name_table_and_variant() -> None:
    back = hash_operation(3, PathIncrement(8, True), 8)
    assert back == (kernels.HASH | kernels.HASH_BACK_EDGE | 3 << kernels.TABLE_SHIFT, 8)
    assert hash_operation(0, PathIncrement(8, False), 8) == (kernels.HASH, 8)


# -- all schemes of a routine


class Run:
    """Plays the kernel on `LOOP` under one plan, segment by segment."""

    def __init__(
        self, plan: InstrumentationPlan, cuts: Sequence[int] = (), *, keep_history: bool = False
    ) -> None:
        self.memory = EngineMemory(cost_words(MachineKind.SPARCV9), 8)
        self.products = Products(self.memory, keep_history=keep_history)
        self.segmentation = segment(LOOP, cuts)
        product = RoutineProduct(lambda: (self.segmentation, {0: player_of(plan)}))
        self.start = self.products.add(0, product)
        self.keys: list[int] = []

    def walk(self, *edges: int) -> tuple[int, int]:
        """Cross edges; return (register, state) of the segments at the end."""
        state = self.memory.state
        for crossed in edges:
            for code, a, b in self.segmentation.steps.get(crossed, ()):
                if code == kernels.SEGMENT:
                    self.keys.append(int(state.frames[kernels.FRAME_PATH]) + a)
                begun = self.start if code == kernels.BEGIN else b
                number = self.memory.add_operations([(code, a, begun)])
                if self.memory.execute(number, 0) == kernels.NEW_SEGMENT:
                    before, _ = self.memory.segment(0)
                    assert self.products.resolve(before, self.keys[-1])
                    assert self.memory.execute(number, 0) == kernels.OK
        number, register = self.memory.segment(0)
        return register, number


def test_counters_are_sums_over_the_transitions_taken() -> None:
    """Once C, three times B behind the back edge, then out over C."""
    run = Run(plan_of())
    run.walk(ENTER, *OVER_C, BACK, *[*OVER_B, BACK] * 3, *OVER_C, LEAVE)
    (total,) = run.products.totals().values()
    assert total.paths == {1: 1, 2: 3, 3: 1}
    assert run.products.totals().keys() == {(0, 0)}
    assert run.products.lost == 0


def test_an_unfinished_activation_is_read_from_its_register() -> None:
    """Two activations stopped in D: they had come over C behind the back edge, so r = 3."""
    run = Run(plan_of())
    register, number = run.walk(ENTER, *OVER_B, BACK, *OVER_C)
    ((slot, (stretch, unfinished)),) = run.products.finish(0, D, register, number, 2).items()
    assert slot == 0
    assert unfinished == UnfinishedPath(D, (3,), None, 2)
    assert stretch.counted == ()


def test_what_is_unfinished_in_another_routine_is_none_of_ours() -> None:
    run = Run(plan_of())
    register, number = run.walk(ENTER, *OVER_B)
    assert run.products.finish(1, D, register, number, 2) == {}
    assert run.products.finish(0, D, register, number + 8 * kernels.START, 2) == {}
    assert run.products.lost == 0


def test_registers_of_no_segment_are_lost_and_counted_as_such() -> None:
    """Control came into the routine by a way that its graph lacks."""
    run = Run(plan_of())
    _, number = run.walk(ENTER, *OVER_B)
    assert run.products.finish(0, D, 1 << 40, number, 2) == {}
    assert run.products.lost == 2
    assert not run.products.resolve(number, -1)
    assert not run.products.resolve(12345, 1)
    assert run.products.lost == 4


CUT = OVER_B[0]


def test_history_goes_back_to_where_segments_end_anyway() -> None:
    """A>B is cut for a scheme's sake; the back edge ends segments for all schemes."""
    run = Run(plan_of(), [CUT], keep_history=True)
    _, behind_cut = run.walk(ENTER, OVER_B[0])
    assert run.products.history(behind_cut) == (run.keys[0],)
    _, behind_back = run.walk(OVER_B[1], BACK)
    assert run.products.history(behind_back) == ()


def test_history_keeps_every_segment_since_then() -> None:
    run = Run(plan_of(), OVER_B, keep_history=True)
    _, behind_both = run.walk(ENTER, *OVER_B)
    assert len(run.keys) == 2
    assert run.products.history(behind_both) == tuple(run.keys)


def test_segments_are_told_with_what_came_before_them() -> None:
    """B, B, C: entered once, behind the back edge the choice of B once, then C and out."""
    run = Run(plan_of(), [CUT], keep_history=True)
    run.walk(ENTER, *OVER_B, BACK, *OVER_B, BACK, *OVER_C, LEAVE)
    to_cut, behind_first, again, behind_second, out = run.keys
    assert behind_first == behind_second
    counted = run.products.segments()[0]
    assert sorted(counted, key=lambda each: (each.key, each.history)) == sorted(
        [
            CountedSegment((), to_cut, 1),
            CountedSegment((to_cut,), behind_first, 1),
            CountedSegment((), again, 1),
            CountedSegment((again,), behind_second, 1),
            CountedSegment((), out, 1),
        ],
        key=lambda each: (each.key, each.history),
    )


def test_without_history_the_same_segments_are_counted_together() -> None:
    run = Run(plan_of(), [CUT])
    run.walk(ENTER, *OVER_B, BACK, *OVER_B, BACK, *OVER_C, LEAVE)
    counts = {each.key: each.count for each in run.products.segments()[0]}
    assert counts[run.keys[1]] == 2
    assert all(each.history == () for each in run.products.segments()[0])


@pytest.mark.parametrize(("name", "ends"), [("D>A", True), ("D>EXIT", True), ("A>B", False)])
def test_back_edges_and_exits_end_segments_anyway(name: str, ends: bool) -> None:
    product = RoutineProduct(lambda: (segment(LOOP, [CUT]), {}))
    assert product.ends_anyway(edge(LOOP, name)) is ends


def test_a_register_stays_where_activations_can_only_end_early() -> None:
    """B is never left; no count reads the register there, but who decodes unfinished paths does."""
    stuck = named("A>B A>C B>B", "A", "C")
    enter, into, out = (edge(stuck, name) for name in ("ENTRY>A", "A>B", "C>EXIT"))
    actions: Mapping[int, tuple[Action, ...]] = {
        enter: (SetRegister(0),),
        into: (AddRegister(1),),
        out: (CountPath(0),),
    }
    player = Player(stuck, plan_of(actions))
    assert player.execute(player.start, [enter, into], ends=True).after == ((1,), None)
