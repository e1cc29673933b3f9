"""Shared by tests: what `tests/trace/test_sequitur.py` and others use."""

from __future__ import annotations

import random


def random_sequence(rng: random.Random, most: int = 120) -> list[int]:
    """Return noise, or words of a few in random order, as loops make them."""
    kinds, size = rng.choice([1, 2, 2, 3, 4, 8]), rng.randrange(most)
    if rng.random() < 0.5:
        return [rng.randrange(kinds) for _ in range(size)]
    words = [[rng.randrange(kinds) for _ in range(rng.randrange(1, 6))] for _ in range(3)]
    return [symbol for _ in range(size // 3) for symbol in rng.choice(words)]
