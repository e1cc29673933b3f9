"""Segment states' successors: native code finds each wherever it was put, and its count is read."""

import random
from collections import Counter

import numpy as np

from simprof.profiler.engine import kernels
from simprof.profiler.engine.lowering import cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.simulator.binary.program import MachineKind


def execute(memory: EngineMemory, state: int, key: int) -> int:
    """End segment `key` of an activation in a segment state; return the kernel's status."""
    frame = memory.state.frames
    frame[kernels.FRAME_PATH], frame[kernels.FRAME_SEGMENTS] = 0, state
    return memory.execute(memory.add_operations([(kernels.SEGMENT, key, 0)]), 0)


def test_segments_are_counted_in_tables_and_beside_them() -> None:
    rng = random.Random(41)
    memory = EngineMemory(cost_words(MachineKind.SPARCV9), 8)
    states, counts = [memory.new_state() for _ in range(40)], Counter[tuple[int, int]]()
    for _ in range(4000):
        # Some states have hundreds of successors; others of the last one meet in each table
        state = states[min(int(rng.expovariate(0.2)), 38)]
        key = rng.randrange(1 << rng.choice((6, 12, 40, 62))) | 1
        if rng.random() < 0.05:
            state, key = states[39], rng.randrange(100) << 44 | 1
        if not counts[state, key]:
            assert execute(memory, state, key) == kernels.NEW_SEGMENT
            memory.insert_segment(state, (key, 0, state, 0))
        assert execute(memory, state, key) == kernels.OK
        counts[state, key] += 1
    assert memory.spilled_counts(), "some have to be where no table has room"
    sources, keys = np.array(list(counts), np.int64).T
    assert memory.segment_counts(sources, keys).tolist() == list(counts.values())
