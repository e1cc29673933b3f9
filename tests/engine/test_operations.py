"""Lists of operations: which transitions share one, and what is kept of those that do not."""

from __future__ import annotations

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import Lowering, StepOperations, cost_words
from simprof.profiler.engine.memory import Operation
from simprof.profiler.engine.walk import Cross, Land, Pop, Push
from simprof.simulator.binary.program import MachineKind

MASK = (1 << 64) - 1
SPILL: tuple[Operation, ...] = ((kernels.WINDOW, kernels.CAN_SAVE, 0),)


class _Adding(Lowering):
    """Adds to the segment register on each edge: edges 2 n and 2 n + 1 add n, none if that is 0."""

    def __init__(self, *, has_schemes: bool = True) -> None:
        planners = [lambda _: None] if has_schemes else []
        super().__init__(planners, (), np.zeros(1, np.int64), cost_words(MachineKind.SPARCV9), MASK)

    def operations(self, edge: int) -> tuple[Operation, ...]:
        """Return what the kernel does on `edge`."""
        return ((kernels.ADD, edge // 2, 0),) if edge > 1 else ()

    def words(self, number: int) -> list[tuple[int, int, int]]:
        """Return the list of operations that begins with `number`."""
        found: list[tuple[int, int, int]] = []
        while not found or not self.memory.is_last(number - 1):
            code, a, b = self.memory.state.operations[3 * number : 3 * number + 3].tolist()
            found.append((code & ~kernels.LAST, a, b))
            number += 1
        return found


def test_edges_on_which_the_same_is_done_share_a_list() -> None:
    lowering = _Adding()
    operations = StepOperations(lowering)
    number = operations.number((Cross(4), Cross(7)))
    assert lowering.words(number) == [(kernels.ADD, 5, 0)]
    assert operations.number((Cross(5), Cross(1), Cross(6))) == number
    assert operations.number((Cross(6), Cross(6))) != number


def test_nothing_to_do_needs_no_list() -> None:
    operations = StepOperations(_Adding())
    assert operations.number((Cross(0), Cross(1))) == operations.number(()) == 0


def test_without_schemes_only_windows_are_moved() -> None:
    lowering = _Adding(has_schemes=False)
    operations = StepOperations(lowering)
    assert operations.number((Cross(8),)) == 0
    number = operations.number((Cross(8),), SPILL)
    assert lowering.words(number) == list(SPILL)
    assert operations.number((Cross(10),), SPILL) == number


def test_a_window_moves_behind_the_edges() -> None:
    lowering = _Adding()
    number = StepOperations(lowering).number((Cross(8),), SPILL)
    assert lowering.words(number) == [(kernels.ADD_WINDOW, 4, kernels.CAN_SAVE)]


def test_landings_and_returns_are_told_apart_by_their_steps() -> None:
    operations = StepOperations(_Adding())
    here, there = Land(0x1000, 3, returned=False), Land(0x2000, 3, returned=False)
    numbers = [operations.number((each,)) for each in (here, there, here)]
    assert numbers[0] == numbers[2] != numbers[1]
    assert [operations.landing(number) for number in numbers] == [here, there, here]
    popped = [operations.number((Pop(), Cross(edge))) for edge in (4, 5)]
    assert [operations.after_pop(number) for number in popped] == [(4,), (5,)]


def test_calls_push() -> None:
    lowering = _Adding()
    number = StepOperations(lowering).number((Cross(4), Push(0x1008), Cross(9)))
    expected = [(kernels.ADD, 2, 0), (kernels.CALL, 0x1008, 0), (kernels.ADD, 4, 0)]
    assert lowering.words(number) == expected
