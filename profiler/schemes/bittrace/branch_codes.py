"""Codes of acyclic paths made of branch outcomes (bit tracing: EPP section 2; BL94 6.2).

Terms
-----
predicate
    A vertex of the acyclic graph with N > 1 outgoing edges, dummy edges among them. Whichever is
    taken appends its label, a number of `ceil(log2 N)` bits. Edges that lead to fewer bits have
    the lower labels, as EPP 5.2 visits successors with the most paths last.
start
    An edge from ENTRY: a real one, or the dummy of the removed edges to one vertex. Each has an
    initial value, to which the labels are appended.
code
    Initial value and labels of a whole path. Two paths never have one code. So two unfinished
    ways to one vertex have different codes too: the same labels would complete both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from simprof import schemes as s

WORD_BITS = 31  # Bits of a word: what is never negative in a 32-bit register
Span = tuple[int, int]


class BranchCodes(Struct, frozen=True, dict=True):
    """Codes of the paths of a dag."""

    dag: s.Dag  # The acyclic graph
    order: tuple[tuple[int, ...], ...]  # By vertex, its outgoing dag edges by label
    widths: tuple[int, ...]  # By vertex, bits of its labels; 0 if it is no predicate.
    words: tuple[int, ...]  # By vertex, the word that its labels are appended to
    word_count: int  # Words of a code
    # Dag edge from ENTRY -> initial value of its paths, in the word of the edge's target
    initial: Mapping[int, int]
    start_bits: int  # Where there are several words, bits of an initial value behind its leading 1
    largest: int | None  # Where there is one word, the largest code; None otherwise.

    @cached_property
    def labels(self) -> Mapping[int, int]:
        """Dag edge -> its label."""
        return {edge: label for order in self.order for label, edge in enumerate(order)}

    @cached_property
    def _starts(self) -> Mapping[int, tuple[int, ...]]:
        table: dict[int, tuple[int, ...]] = {}
        for edge, value in self.initial.items():
            table[value] = (*table.get(value, ()), edge)
        return table

    def encode(self, path: Iterable[int]) -> tuple[int, ...]:
        """Return the code, by word, of dag edges from ENTRY on."""
        start, *edges = path
        words = [0] * self.word_count
        at = self.words[self.dag.columns.target[start]]
        words[at] = self.initial[start]
        for edge in edges:
            source, target = self.dag.columns.source[edge], self.dag.columns.target[edge]
            words[at] = words[at] << self.widths[source] | self.labels[edge]
            if target != self.dag.cfg.exit and self.words[target] != at:
                at = self.words[target]
                words[at] = 1
        return tuple(words)

    def decode(self, words: Sequence[int], vertex: int) -> tuple[int, ...]:
        """Return the dag edges from ENTRY to `vertex` with this code.

        `words`: The code by word. Words behind that of `vertex` are not read, if it is not EXIT,
        which stands for whole paths. ValueError if there is no such path.
        """
        for start, bits in self._beginnings(words):
            path = self._follow(start, words, bits, vertex)
            if path is not None:
                return path
        raise ValueError(f"{self.dag.cfg.name} has no path with the code {list(words)}")

    def _beginnings(self, words: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Yield starts that may begin a code, and how many bits of labels follow in its word."""
        first = next((at for at, word in enumerate(words) if word), 0)
        value = words[first]
        lengths = range(WORD_BITS + 1)
        if self.word_count > 1:
            bits = value.bit_length() - 1 - self.start_bits
            lengths = range(max(bits, 0), bits + 1)
        for bits in lengths:
            for start in self._starts.get(value >> bits, ()):
                if self.words[self.dag.columns.target[start]] == first:
                    yield start, bits

    def _follow(
        self, start: int, words: Sequence[int], bits: int, last: int
    ) -> tuple[int, ...] | None:
        path, vertex = [start], self.dag.columns.target[start]
        at = self.words[vertex]
        while vertex != last:
            width = self.widths[vertex]
            bits -= width
            label = words[at] >> max(bits, 0) & (1 << width) - 1
            if bits < 0 or label >= len(self.order[vertex]):
                return None
            path.append(self.order[vertex][label])
            vertex = self.dag.columns.target[path[-1]]
            if vertex != self.dag.cfg.exit and self.words[vertex] != at:
                if bits:
                    return None
                at = self.words[vertex]
                bits = words[at].bit_length() - 1
        return None if bits else tuple(path)

    def validate(self, numbering: s.PathNumbering) -> None:
        """Check sizes, and that samples of the paths survive encoding and decoding."""
        for vertex in self.dag.topological:
            count = len(self.order[vertex])
            assert sorted(self.order[vertex]) == sorted(self.dag.out_edges[vertex]), (
                f"the codes of vertex {vertex} are not those of its edges"
            )
            if vertex != self.dag.cfg.entry:
                assert max(count, 1) <= 1 << self.widths[vertex] < max(2 * count, 2), (
                    f"{self.widths[vertex]} bits for the {count} edges of vertex {vertex}"
                )
        step = max(numbering.total // 64, 1)
        for number in (*range(0, numbering.total, step), numbering.total - 1):
            path = numbering.decode(number)
            words = self.encode(path)
            assert all(word < 1 << WORD_BITS for word in words), f"path {number} has a long word"
            assert self.decode(words, self.dag.cfg.exit) == path, (
                f"path {number} is decoded as another one than it was encoded from"
            )


def branch_codes(dag: s.Dag, numbering: s.PathNumbering) -> BranchCodes:
    """Choose labels, words and initial values for the paths of `dag`."""
    # Short codes are one word, `initial << bits | labels`, and initial values are as small as
    # disjoint codes allow (`_initial_values`): a chain of conditionals has the codes 0 .. 2^k - 1.
    # Where that takes more than `WORD_BITS` bits, a code is several words. Each vertex belongs to a
    # word, to which its labels go; on the way to a vertex of a later word that word starts anew
    # with the value 1, which tells how many bits follow. Words passed over are 0; words behind the
    # path's last count as 0.
    order, widths, longest = _labels(dag, numbering)
    starts = dag.out_edges[dag.cfg.entry]
    initial, largest = _initial_values(dag, order, widths, longest)
    if initial is not None:
        words = (0,) * dag.cfg.vertex_count
        return BranchCodes(dag, order, widths, words, 1, initial, 0, largest)
    start_bits = (len(starts) - 1).bit_length()
    words = _words(dag, widths, start_bits + 1)
    long = {edge: 1 << start_bits | index for index, edge in enumerate(starts)}
    return BranchCodes(dag, order, widths, words, max(words) + 1, long, start_bits, None)


def _labels(
    dag: s.Dag, numbering: s.PathNumbering
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], list[int]]:
    """Return each vertex's edges by label, the labels' widths, and the most bits up to EXIT."""
    longest = [0] * dag.cfg.vertex_count
    widths = [0] * dag.cfg.vertex_count
    order = list(dag.out_edges)
    target, paths = dag.columns.target, numbering.num_paths
    for vertex in reversed(dag.topological[:-1]):
        edges = order[vertex]
        if len(edges) > 1:
            edges = order[vertex] = tuple(
                sorted(edges, key=lambda edge: (longest[target[edge]], paths[target[edge]]))
            )
            if vertex != dag.cfg.entry:
                # EPP says that bit tracing takes the least possible number of bits. That holds
                # where all predicates of a path are balanced. A path past k early ways out takes k
                # bits though there are k + 1 paths.
                widths[vertex] = (len(edges) - 1).bit_length()
        longest[vertex] = widths[vertex] + longest[target[edges[-1]]]
    return tuple(order), tuple(widths), longest


def _words(dag: s.Dag, widths: Sequence[int], start_length: int) -> tuple[int, ...]:
    """Give each vertex the first word in which its labels fit, whatever way led there."""
    entry, exit_vertex, source = dag.cfg.entry, dag.cfg.exit, dag.columns.source
    words = [0] * dag.cfg.vertex_count
    filled = [0] * dag.cfg.vertex_count  # most bits of the word when the vertex is reached
    for vertex in dag.topological[1:]:
        if vertex == exit_vertex:
            continue
        fresh, word, most = 1, 0, 0
        for edge in dag.in_edges[vertex]:
            before = source[edge]
            if before == entry:
                fresh = start_length
            elif words[before] >= word:
                end = filled[before] + widths[before]
                most = end if words[before] > word else max(most, end)
                word = words[before]
        if max(most, fresh) + widths[vertex] > WORD_BITS:
            word, most = word + 1, fresh
        words[vertex], filled[vertex] = word, max(most, fresh)
    return tuple(words)


def _initial_values(
    dag: s.Dag, order: Sequence[Sequence[int]], widths: Sequence[int], longest: Sequence[int]
) -> tuple[dict[int, int] | None, int | None]:
    """Choose the starts' initial values, those of the longest codes first, each the least.

    Returns them and the largest code; None if the codes do not fit a word.
    """
    if longest[dag.cfg.entry] > WORD_BITS:
        return None, None
    spans, target = _spans(dag, order, widths), dag.columns.target
    taken = _Taken()
    initial: dict[int, int] = {}
    for start in sorted(dag.out_edges[dag.cfg.entry], key=lambda edge: -longest[target[edge]]):
        by_bits = spans[target[start]]
        value = _least_value(by_bits, taken)
        for bits, (low, high) in by_bits.items():
            taken.add((value << bits) + low, (value << bits) + high)
        if taken.ends[-1] >> WORD_BITS:
            return None, None
        initial[start] = value
    return initial, taken.ends[-1]


def _spans(
    dag: s.Dag, order: Sequence[Sequence[int]], widths: Sequence[int]
) -> list[dict[int, Span]]:
    """By vertex: bits of labels up to EXIT -> least and greatest labels of that many bits."""
    spans: list[dict[int, Span]] = [{} for _ in range(dag.cfg.vertex_count)]
    spans[dag.cfg.exit] = {0: (0, 0)}
    target = dag.columns.target
    for vertex in reversed(dag.topological[1:-1]):
        edges, width = order[vertex], widths[vertex]
        if not width:  # nothing is appended here
            spans[vertex] = spans[target[edges[0]]]
            continue
        at_vertex = spans[vertex]
        for label, edge in enumerate(edges):
            for bits, (low, high) in spans[target[edge]].items():
                # A greater label makes a greater number of so many bits.
                length, above = bits + width, label << bits
                least = at_vertex[length][0] if length in at_vertex else above + low
                at_vertex[length] = least, above + high
    return spans


def _least_value(by_bits: Mapping[int, Span], taken: _Taken) -> int:
    """Return the least initial value that makes codes disjoint from each other and `taken`."""
    # From 1 on, codes of different lengths from one start differ.
    own = sorted(by_bits.values())
    value = 0 if all(a[1] < b[0] for a, b in pairwise(own)) else 1
    firsts, ends = taken.firsts, taken.ends
    while True:
        for bits, (low, high) in by_bits.items():
            at = bisect_left(ends, (value << bits) + low)
            if at < len(ends) and firsts[at] <= (value << bits) + high:
                value = max(value + 1, ends[at] + 1 - low + (1 << bits) - 1 >> bits)
                break
        else:
            return value


class _Taken:
    """A set of numbers, as intervals in ascending order, no two of them adjacent."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ends: list[int] = []

    def add(self, first: int, end: int) -> None:
        """Add an interval that overlaps none, and join it with its neighbours."""
        at = bisect_left(self.ends, first)
        if at < len(self.ends) and self.firsts[at] == end + 1:
            end = self.ends[at]
            del self.firsts[at], self.ends[at]
        if at and self.ends[at - 1] == first - 1:
            first = self.firsts[at - 1]
            at -= 1
            del self.firsts[at], self.ends[at]
        self.firsts.insert(at, first)
        self.ends.insert(at, end)
