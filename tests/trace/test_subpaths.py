"""Subpaths counted in a grammar, against counting them in the sequence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from simprof.profiler.trace.sequitur import grammar_of
from simprof.profiler.trace.subpaths import HotSubpath, count_subpaths, hot_subpaths
from tests.support.sequences import random_sequence


def windows(sequence: Sequence[int], longest: int) -> Counter[tuple[int, ...]]:
    return Counter(
        tuple(sequence[at : at + size])
        for size in range(1, longest + 1)
        for at in range(len(sequence) - size + 1)
    )


@pytest.mark.long
@pytest.mark.seeds(range(4))
def test_counts_are_those_of_the_sequence(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(400):
        sequence, longest = random_sequence(rng, 150), rng.randrange(1, 9)
        assert count_subpaths(grammar_of(sequence), longest) == windows(sequence, longest)


@pytest.mark.seeds(range(4))
def test_hot_subpaths_are_hot_and_minimal(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        sequence, longest = random_sequence(rng), rng.randrange(1, 7)
        costs = [rng.randrange(1, 20) for _ in range(8)]
        counts = windows(sequence, longest)
        threshold = rng.choice((1, 20, 200, 600))
        costly = {s: n * sum(costs[each] for each in s) for s, n in counts.items()}
        hot = {subpath for subpath, cost in costly.items() if cost >= threshold}
        minimal = {
            subpath
            for subpath in hot
            if not any(part in hot for part in windows(subpath, len(subpath) - 1))
        }
        found = hot_subpaths(counts, costs.__getitem__, threshold)
        assert {each.symbols for each in found} == minimal
        assert all(each.cost == costly[each.symbols] for each in found)
        assert [each.cost for each in found] == sorted((e.cost for e in found), reverse=True)


def test_a_loop_with_two_paths() -> None:
    counts = count_subpaths(grammar_of([0, 1, 0, 1, 0, 1, 2]), 2)
    # 0 and 1 alone execute less than the limit, together more
    found = hot_subpaths(counts, [10, 10, 1].__getitem__, 50)
    assert found == [HotSubpath((0, 1), 3, 60)]
