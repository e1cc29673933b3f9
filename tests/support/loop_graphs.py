"""Random graphs made of nested loops, where random edges would rarely make one."""

from __future__ import annotations

import random

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.brute import graph


def random_loops(rng: random.Random, most: int = 9) -> ControlFlowGraph:
    """Return blocks in a row with branches ahead, loops over ranges of them, and oddities."""
    blocks = rng.randint(2, most)
    edges = [(block, block + 1) for block in range(blocks - 1)]
    ranges = [(0, blocks - 1)]
    for _ in range(rng.randint(1, 4)):
        low, high = rng.choice(ranges)
        head = rng.randint(low, high)
        tail = rng.randint(min(head + rng.choice((0, 1, 1)), high), high)
        ranges.append((head, tail))
        edges.append((tail, head))
        if rng.random() < 0.3:
            edges.append((rng.randint(head, tail), head))
        if rng.random() < 0.1:
            edges.append((tail, head))
    for _ in range(rng.randint(1, 5)):
        source = rng.randrange(blocks)
        target = rng.randrange(source, blocks)
        if not any(source < head < target <= tail for head, tail in ranges):
            edges.append((source, target))
    if rng.random() < 0.15:
        edges.append((rng.randrange(blocks), rng.randrange(blocks)))
    rng.shuffle(edges)
    exits = {blocks - 1, *rng.choices(range(blocks), k=rng.choice((0, 0, 1, 2)))}
    entries = [0] if rng.random() < 0.9 else [0, rng.randrange(blocks)]
    return graph(blocks, edges, sorted(set(entries)), sorted(exits))
