"""Names that a misspelt word may stand for."""

from __future__ import annotations

from collections.abc import Iterable

# How alike two words must be, as `difflib` measures it, for one to be suggested for the other.
LIKENESS = 0.75


def alike(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that are nearly the same as a word, the likeliest first."""
    from difflib import get_close_matches  # no word is misspelt in most commands

    known = list(names)
    # in `rnu` for `run` two letters have changed places
    swapped = [name for name in known if sorted(name) == sorted(word)]
    return swapped or get_close_matches(word, known, cutoff=LIKENESS)
