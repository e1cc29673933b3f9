"""All schemes along the segments of a routine: the states, the transitions, and their sums."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.products import (
    CountedSegment,
    Products,
    RoutineProduct,
    hash_operation,
)
from simprof.profiler.engine.segments import Player, segment
from simprof.profiler.plan.actions import (
    PathIncrement,
)
from simprof.profiler.plan.decoders import UnfinishedPath
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.simulator.binary.program import MachineKind
from tests.support.choice_loop import BACK, ENTER, LEAVE, LOOP, OVER_B, OVER_C, D, plan_of
from tests.support.figures import edge


def player_of(plan: InstrumentationPlan) -> Player:
    return Player(LOOP, plan)


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
        product = RoutineProduct(self.segmentation, {0: player_of(plan)})
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
    ((slot, (effect, unfinished)),) = run.products.finish(0, D, register, number, 2).items()
    assert slot == 0
    assert unfinished == UnfinishedPath(D, (3,), None, 2)
    assert effect.counted == ()


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
    product = RoutineProduct(segment(LOOP, [CUT]), {})
    assert product.ends_anyway(edge(LOOP, name)) is ends
