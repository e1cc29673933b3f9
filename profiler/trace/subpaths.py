"""Subpaths of a sequence, counted in its grammar without expanding it (after Larus 1999).

A *subpath* is some neighbouring symbols of the sequence. Of each rule the first and the last L - 1
terminals are kept, so in a body each nonterminal stands as both with a gap between, or whole if it
is short. A subpath of L symbols at most that lies in two places of a body or more, and in no gap,
is there as often as the rule occurs; every other one lies in a rule that the body uses, and is
counted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from simprof.profiler.trace.sequitur import Grammar

Subpath = tuple[int, ...]


class HotSubpath(Struct, frozen=True):
    """A subpath that is hot, while no part of it is."""

    symbols: Subpath
    occurrences: int
    cost: int  # Of all occurrences together


class _RuleEnds(Struct, frozen=True):
    """The first and the last terminals that a rule makes, all of them where it is `whole`."""

    first: Subpath
    last: Subpath
    whole: bool


def count_subpaths(grammar: Grammar, longest: int) -> Counter[Subpath]:
    """Return how often each subpath of 1 to `longest` symbols is in the sequence of a grammar."""
    counts: Counter[Subpath] = Counter()
    ends = _ends(grammar, longest - 1)
    for body, times in zip(grammar.bodies, grammar.occurrences, strict=True):
        for subpath in _crossing(body, ends, longest):
            counts[subpath] += times
    return counts


def _ends(grammar: Grammar, size: int) -> Sequence[_RuleEnds]:
    """Return the ends of `size` terminals of each rule."""
    ends: list[_RuleEnds] = [_RuleEnds((), (), True)] * len(grammar.bodies)
    for rule in range(len(grammar.bodies) - 1, -1, -1):
        body = grammar.bodies[rule]
        first = _collected(body, ends, size, forwards=True)
        last = _collected(body[::-1], ends, size, forwards=False)
        whole = grammar.lengths[rule] <= size
        ends[rule] = _RuleEnds(first, last, whole)
    return ends


def _collected(body: Subpath, ends: Sequence[_RuleEnds], size: int, *, forwards: bool) -> Subpath:
    found: Subpath = ()
    for symbol in body:
        if len(found) >= size:
            break
        end = None if symbol >= 0 else ends[~symbol]
        made = (symbol,) if end is None else end.first if forwards else end.last
        found = (*found, *made) if forwards else (*made, *found)
    return found[:size] if forwards else found[len(found) - size if len(found) > size else 0 :]


def _crossing(body: Subpath, ends: Sequence[_RuleEnds], longest: int) -> Iterator[Subpath]:
    """Yield the subpaths in two places of a body or more, and the terminals in it."""
    # What is before the place, back to a gap, and where in it each place begins.
    before: list[int] = []
    for symbol in body:
        end = None if symbol >= 0 else ends[~symbol]
        head = (symbol,) if end is None else end.first
        if end is None:
            yield (symbol,)
        # Those that end in this place and begin before it
        for size in range(1, len(head) + 1):
            for more in range(1, min(longest - size, len(before)) + 1):
                yield (*before[-more:], *head[:size])
        if end is None or end.whole:
            before += head
            del before[: -(longest - 1) or None]
        else:
            before = list(end.last)


def hot_subpaths(
    counts: Counter[Subpath], cost_of: Callable[[int], int], threshold: float
) -> list[HotSubpath]:
    """Return the minimal hot subpaths, those of the greatest cost first.

    The cost of a subpath is that of its symbols (`cost_of`) times its occurrences. It is hot if
    that is `threshold` at least, and minimal if no part of it is hot.
    """
    found: list[HotSubpath] = []
    covered: set[Subpath] = set()  # subpaths that are hot, or have a part that is
    for subpath in sorted(counts, key=len):
        if subpath[1:] in covered or subpath[:-1] in covered:
            covered.add(subpath)
            continue
        cost = counts[subpath] * sum(map(cost_of, subpath))
        if cost >= threshold:
            covered.add(subpath)
            found.append(HotSubpath(subpath, counts[subpath], cost))
    return sorted(found, key=lambda each: (-each.cost, each.symbols))
