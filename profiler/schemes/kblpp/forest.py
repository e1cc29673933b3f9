"""Sequences of path numbers: their codes, the k-slab forest, and the k-iteration path forest.

Source: D'Elia and Demetrescu, OOPSLA 2013, by the algorithm chapter of D'Elia's thesis.

Terms
-----
stream
    The numbers of the acyclic paths of one activation, in order.
sequence
    Numbers that come one directly behind the other in a stream. Its *code* is its numerals in
    base N, the number of paths, with digits 1 .. N; the empty sequence has code 0. A sequence's
    *number* is its code less 1: that of a single path is the path's own.
chunk
    k - 1 numbers of a stream, from a multiple of k - 1 on: any sequence of up to k lies in two
    chunks that follow each other.
k-slab forest
    Prefix trees of pairs of such chunks. A node is a sequence of up to 2k - 2 numbers. Those of
    more than k - 1 are its *lower slab*, those of the first chunk of a stream and of pairs count.
k-iteration path forest
    Counts of all sequences of up to k numbers (`iteration_paths`). Its first level is the profile
    of the acyclic paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct


class Sequences(Struct, frozen=True):
    """Sequences of numbers below `paths`, and the forest that counts those of up to `length`."""

    paths: int
    length: int  # k

    @property
    def chunk(self) -> int:
        """Numbers of a chunk."""
        return self.length - 1

    def extended(self, code: int, number: int) -> int:
        """Return the code of a sequence with another number behind it."""
        return code * self.paths + number + 1

    def numbers(self, code: int) -> tuple[int, ...]:
        """Return the sequence of a code."""
        found = []
        while code > 0:
            code, number = divmod(code - 1, self.paths)
            found.append(number)
        return tuple(reversed(found))

    def upper(self, node: tuple[int, ...]) -> tuple[int, ...]:
        """Return the node of the upper slab at which a stream is whose counted node is `node`."""
        return node[self.chunk :] or node

    def iteration_paths(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return sequence -> count of the k-iteration path forest, by number, ascending.

        `counts`: The same of the k-slab forest's nodes.
        """
        # Joining the tree at each node into the forest's root adds the count of a node to all
        # sequences that end with it.
        found: Counter[int] = Counter()
        for node, count in counts.items():
            code, place = 0, 1
            for number in reversed(self.numbers(node + 1)[-self.length :]):
                code += (number + 1) * place
                place *= self.paths
                found[code - 1] += count
        return dict(sorted(found.items()))


class Visit(NamedTuple):
    """A search for a node: how many others it passed, and whether the node then was inserted."""

    passed: int
    inserted: bool


Counted = tuple[bool, tuple[Visit, ...]]
"""Whether a chunk began, and the visits of the upper node, and of the lower one if there is one."""


class SlabForest:
    """Where the nodes of a k-slab forest are, as counters were incremented first."""

    # A node's children are a list to whose end new ones are appended. So how many others a search
    # passes before it finds a node never changes. Roots are found by their number, or in buckets.

    def __init__(self, sequences: Sequences, buckets: int) -> None:
        self._sequences = sequences
        self._buckets = buckets  # 0: roots are in an array
        self._places: dict[tuple[int, ...], int] = {}  # Node -> nodes before it in its list
        self._lists: Counter[tuple[int, ...]] = Counter()  # Nodes of each list so far

    def count(self, number: int) -> Counted:
        """Return what happens when a node is counted."""
        node = self._sequences.numbers(number + 1)
        upper = self._sequences.upper(node)
        lower = [node] if len(node) > self._sequences.chunk else []
        return len(upper) == 1, tuple(self._visit(each) for each in (upper, *lower))

    def _visit(self, node: tuple[int, ...]) -> Visit:
        known = self._places.get(node)
        if known is not None:
            return Visit(known, False)
        own_list = node[:-1]
        if not own_list:  # a root: the list of its bucket, or its own
            own_list = (-1 - (bucket(node[0]) if self._buckets else node[0]),)
        place = self._places[node] = self._lists[own_list]
        self._lists[own_list] += 1
        return Visit(place, True)


BUCKET_BITS = 9
BUCKETS = 1 << BUCKET_BITS


def bucket(number: int) -> int:
    """Return the bucket of a root."""
    return (number ^ number >> BUCKET_BITS) & BUCKETS - 1
