"""Names that a misspelt word may stand for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LIKENESS = 0.75
"""How alike two words must be, as `difflib` measures it, for one to be suggested for the other."""


def alike(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that are nearly the same as a word, the likeliest first.

    Those of the same letters come before all: in `rnu` for `run` two have changed places.
    """
    letters, known = sorted(word), list(names)
    swapped = [name for name in known if sorted(name) == letters]
    return swapped or get_close_matches(word, known, cutoff=LIKENESS)
