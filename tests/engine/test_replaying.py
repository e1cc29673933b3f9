"""What a replay makes of a recording that was cut, from a few bytes written by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simprof.profiler.engine.lowering import Lowering, cost_words
from simprof.profiler.engine.recording import RecordedPiece, RecordedStretch
from simprof.profiler.engine.recording_kernel import BEGINS, ENDS
from simprof.profiler.engine.replaying import DamagedError, Replayer
from simprof.profiler.engine.stacks import EarlyEnd
from simprof.simulator.binary.program import MachineKind
from tests.support.figures import named

GRAPHS = [named("A>B", "A", "B"), named("A>B B>C", "A", "C")]
FIRST_EDGE, FIRST_BLOCK = np.array([0, 3, 7]), np.array([0, 2, 5])
STRETCHES = [
    RecordedStretch(1, (), BEGINS),
    RecordedStretch(1, (), BEGINS | ENDS),
    RecordedStretch(1, (1,), BEGINS),  # to block 2
    RecordedStretch(1, (2,), BEGINS),  # to block 0
]
BEGIN, BEGIN_AND_END, TO_2, TO_0 = (2 * number for number in range(1, 5))
STREAM = bytes([TO_2, BEGIN_AND_END, TO_0, BEGIN])
"""Three activations that go on, and one that ends."""


def replayer(routines: frozenset[int] | None = None, data: bytes = STREAM) -> Replayer:
    """Return one that has replayed stretches of routine 1."""
    lowering = Lowering([], GRAPHS, FIRST_EDGE, cost_words(MachineKind.SPARCV9), (1 << 64) - 1)
    result = Replayer(lowering, GRAPHS, FIRST_EDGE, FIRST_BLOCK, routines)
    result.play(RecordedPiece(STRETCHES, np.array([1]), np.array([len(data)]), data))
    return result


def test_activations_that_a_cut_leaves_alive_end_in_their_blocks() -> None:
    """One that has crossed no edge is in no block; block 0 of a routine is one like others."""
    replay = replayer()
    replay.end_alive()
    assert replay.early == Counter({EarlyEnd(4, 0, 0): 1, EarlyEnd(2, 0, 0): 1})


def test_routines_that_are_not_replayed_end_nothing() -> None:
    replay = replayer(frozenset({0}))
    replay.end_alive()
    assert not replay.early


def test_a_stretch_comes_as_often_as_its_number_says() -> None:
    replay = replayer(data=bytes([TO_2 | 1, 3, BEGIN_AND_END | 1, 9, TO_0 | 1, 130, 1]))
    replay.end_alive()
    assert replay.early == Counter({EarlyEnd(4, 0, 0): 3, EarlyEnd(2, 0, 0): 130})
    assert replay.edges() == {1: [0, 3, 130, 0]}


@pytest.mark.parametrize(
    "data",
    [
        bytes([5 << 1]),  # there is no stretch 5
        bytes([BEGIN | 1, 0]),  # not even once
        bytes([BEGIN | 1]),  # the number of times is cut
        bytes([BEGIN | 0x80]),
        bytes([0]),  # one ends that has not begun
    ],
)
def test_bytes_that_no_run_writes(data: bytes) -> None:
    with pytest.raises(DamagedError):
        replayer(data=data)
