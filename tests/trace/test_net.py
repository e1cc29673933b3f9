"""NET against a plain simulation, block by block."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from simprof.profiler.trace.net import Path, forward_paths, predict


def random_blocks(rng: random.Random) -> list[int]:
    """Return what a program with a few loops might execute: blocks by addresses."""
    loops = [sorted(rng.sample(range(12), rng.randrange(1, 6))) for _ in range(4)]
    blocks: list[int] = []
    for _ in range(rng.randrange(1, 80)):
        loop = rng.choice(loops)
        for _ in range(rng.randrange(1, 6)):
            blocks += [block for block in loop if rng.random() < 0.85] or loop
    return blocks


def simulate(blocks: Sequence[int], delay: int) -> list[bool]:
    """Return for each path in order whether all of it was executed in traces chosen before.

    One block at a time: a trace is entered at its head only, and left where it ends or where
    control goes elsewhere than it does.
    """
    traces: dict[int, list[int]] = {}
    counts: Counter[int] = Counter()
    inside: list[bool] = []
    rest: list[int] | None = None  # what the trace has next; None: outside of traces
    recorded: list[int] | None = None  # the tail that is being recorded
    last: int | None = None
    may_be_head = False
    for block in blocks:
        if last is None or block <= last:  # a path begins
            inside.append(True)
            if recorded is not None:
                traces[recorded[0]] = recorded
            rest, recorded, may_be_head = None, None, True
        last = block
        if rest and rest[0] == block:
            rest = rest[1:]
            continue
        if rest is not None:  # the end of a trace, or an exit from it
            rest, may_be_head = None, True
        if block in traces:
            if recorded is not None:
                traces[recorded[0]] = recorded
                recorded = None
            rest = traces[block][1:]
            continue
        inside[-1] = False
        if recorded is not None:
            recorded.append(block)
        elif may_be_head:
            counts[block] += 1
            if counts[block] == delay + 1:
                recorded = [block]
                counts[block] = 0
        may_be_head = False
    return inside


@pytest.mark.long
@pytest.mark.seeds(range(4))
def test_it_predicts_what_a_simulation_does(seed: int) -> None:
    rng = random.Random(seed)
    seen: Counter[bool] = Counter()
    for _ in range(300):
        blocks, delay = random_blocks(rng), rng.choice((0, 1, 2, 5, 20))
        share = rng.choice((0.001, 0.02, 0.2))
        paths = forward_paths(blocks)
        assert [block for path in paths for block in path] == blocks
        inside = simulate(blocks, delay)
        counts = Counter(paths)
        hot = {path for path, count in counts.items() if count >= share * len(paths)}
        found = predict(paths, delay, share)
        pairs = list(zip(paths, inside, strict=True))
        assert found.executions == len(paths)
        assert found.hot == sum(path in hot for path in paths)
        assert found.hits == sum(path in hot for path, there in pairs if there)
        assert found.noise == sum(path not in hot for path, there in pairs if there)
        seen[found.hits > 0] += 1
        seen[found.noise > 0] += 1
    assert min(seen[True], seen[False]) > 50


def test_a_loop_is_predicted_after_the_delay() -> None:
    paths: list[Path] = [*[(1, 2, 4)] * 100, *[(1, 3, 4)] * 5]
    found = predict(paths, 50, 0.5)
    # the 51st execution is chosen; the other path leaves its trace at 3, a head of its own
    assert (found.hot, found.hits, found.noise) == (100, 49, 0)
    assert (found.traces, found.counters) == (1, 1)
    assert found.hit_rate == 49.0
    assert found.noise_rate == 0.0


def test_noise_is_what_is_in_traces_and_not_hot() -> None:
    paths: list[Path] = [*[(1, 2)] * 3, *[(5, 6)] * 40]
    found = predict(paths, 0, 0.5)
    assert (found.hits, found.noise) == (39, 2)
    assert found.noise_rate == 100 * 2 / 41
