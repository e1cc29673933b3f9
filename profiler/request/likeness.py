"""Names that a misspelt word may stand for."""

from __future__ import annotations

from collections.abc import Iterable

# How alike two words must be, as `difflib` measures it, for one to be suggested for the other.
LIKENESS = 0.75
SHORTEST = 3  # Letters of a word in which one may be wrong


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Return what is said of a word that is no `what`: which one was meant, else all of them.

    Examples
    --------
    >>> unknown("view", "edgs", ("edges", "paths")), unknown("view", "all", ("edges", "paths"))
    ("unknown view 'edgs': did you mean 'edges'?", "unknown view 'all': choose from edges, paths")
    """
    names = tuple(known)
    if near := alike(word, names, loosely=True):
        return f"unknown {what} {word!r}: did you mean {' or '.join(map(repr, near))}?"
    return f"unknown {what} {word!r}: choose from {', '.join(names)}"


def alike(word: str, names: Iterable[str], *, loosely: bool = False) -> list[str]:
    """Return the names that are nearly the same as a word, the likeliest first.

    `loosely`: also names of three letters or more that differ in one of them alone.
    """
    from difflib import get_close_matches  # no word is misspelt in most commands

    known = list(names)
    # in `rnu` for `run` two letters have changed places
    swapped = [name for name in known if sorted(name) == sorted(word)]
    found = swapped or get_close_matches(word, known, cutoff=LIKENESS)
    if not found and loosely and len(word) >= SHORTEST:
        same = [name for name in known if len(name) == len(word)]
        found = [name for name in same if sum(map(str.__ne__, name, word)) == 1]
    return found
