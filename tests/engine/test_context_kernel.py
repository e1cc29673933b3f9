"""The hash table of counts by context: what has one place there is distinguished by its token."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from simprof.profiler.engine import context_kernel as kernel
from simprof.profiler.engine.kernels import KEYED_ROW, VALUE

ROWS = 16


@pytest.mark.seeds(range(20))
def test_counts_of_a_context_are_told_apart_by_their_tokens(seed: int) -> None:
    """Half of the rows are in use, so that places meet; more would ask for room."""
    rng = random.Random(seed)
    counts = np.zeros((ROWS, KEYED_ROW), np.int64)
    words = np.zeros(kernel.WORDS, np.int64)
    words[kernel.COUNTS], words[kernel.COUNT_ROWS] = counts.ctypes.data, ROWS
    keys = [(rng.randrange(2), token) for token in rng.sample(range(1000), ROWS // 2)]
    wanted: Counter[tuple[int, int]] = Counter()
    for key in [*keys, *rng.choices(keys, k=50)]:
        amount = rng.randrange(1, 9)
        kernel.add(words.ctypes.data, *key, amount)
        wanted[key] += amount
    used = counts[counts[:, 0] > 0]
    assert words[kernel.COUNTED] == len(used) == len(wanted)
    columns = used[:, [0, 1, VALUE]].tolist()
    assert {(owner - 1, token): count for owner, token, count in columns} == wanted
