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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from simprof import schemes as s

# -- Codes of paths (`bittrace`)


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


# -- Codes of windows (`fifo`)
#
# Windows of k branches as a FIFO holds them, and their codes (EPP section 2, Young and Smith).
#
# Terms
# -----
# branch
#     A block that control leaves along two edges or more. Whichever is taken is its *outcome*.
# record
#     What the FIFO keeps of a branch, its block and its outcome, in one number; or of a *start*, an
#     edge from ENTRY. None is 0.
# window
#     The last k branches of an activation, or all of them and the start before there are k.
# code
#     The records of a window, the newest in the lowest bits of the last word. No record crosses a
#     word's end.


def shift_in(words: list[int], record: int, width: int, sizes: Sequence[int]) -> None:
    """Shift a record into a FIFO whose words have room for `sizes` records."""
    for at, size in enumerate(sizes):
        newer = record
        if at + 1 < len(sizes):
            newer = words[at + 1] >> (sizes[at + 1] - 1) * width
        words[at] = (words[at] << width | newer) & (1 << size * width) - 1


class WindowCodes(Struct, frozen=True, dict=True):
    """Codes of the windows of a routine."""

    cfg: s.ControlFlowGraph
    branches: int  # k
    records: Mapping[int, int]  # Edge -> its record: outcomes, and starts that lead to a branch
    width: int  # Bits of a record
    # Edge with a record -> the edges behind it up to the next branch, from which only one leads on
    onward: Mapping[int, tuple[int, ...]]
    following: Mapping[int, tuple[int, ...]]  # Edge with a record -> outcomes of the next branch

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Records in each word, the oldest first: all are full but that."""
        each = WORD_BITS // self.width
        full = (self.branches - 1) // each
        return (self.branches - full * each, *[each] * full)

    @property
    def words(self) -> int:
        """Words of a code; 1 where there are no branches."""
        return len(self.sizes) if self.outcomes else 1

    @cached_property
    def outcomes(self) -> tuple[int, ...]:
        """The edges out of branches."""
        return tuple(edge for edge in self.records if self.cfg.edges[edge].source != self.cfg.entry)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The edges from ENTRY that have a record."""
        return tuple(edge for edge in self.records if self.cfg.edges[edge].source == self.cfg.entry)

    @cached_property
    def _edges(self) -> Mapping[int, int]:
        return {record: edge for edge, record in self.records.items()}

    def encode(self, window: Sequence[int]) -> tuple[int, ...]:
        """Return the words of a window: its outcomes, behind its start if there are fewer than k.

        A start alone is no window, but what the FIFO holds before the first branch.
        """
        words = [0] * len(self.sizes)
        for edge in window:
            shift_in(words, self.records[edge], self.width, self.sizes)
        return tuple(words)

    def decode(self, words: Sequence[int]) -> tuple[int, ...]:
        """Return the edges of a window; ValueError if no activation has it."""
        found: list[int] = []
        for word, size in zip(words, self.sizes, strict=True):
            for place in reversed(range(size)):
                record = word >> place * self.width & (1 << self.width) - 1
                if record or found:
                    found.append(self._edges.get(record, -1))
        window = tuple(found)
        if not self._is_window(window) or self.encode(window) != tuple(words):
            raise ValueError(f"{self.cfg.name} has no window of branches {list(words)}")
        return window

    def _is_window(self, window: Sequence[int]) -> bool:
        if -1 in window or not window or window[-1] in self.starts:
            return False
        whole = len(window) == self.branches and window[0] not in self.starts
        begun = len(window) <= self.branches and window[0] in self.starts
        pairs = pairwise(window)
        return (whole or begun) and all(then in self.following[edge] for edge, then in pairs)

    def record(self, window: Sequence[int]) -> s.PathRecord:
        """Return the path of a window: from its first branch, or ENTRY, to behind its last."""
        cfg, edges = self.cfg, list[int]()
        for edge in window[:-1]:
            edges += [edge, *self.onward[edge]]
        edges.append(window[-1])
        ends = [cfg.edges[edge] for edge in edges]
        vertices = [ends[0].source, *(edge.target for edge in ends)]
        start = s.PathStart.ENTRY if vertices[0] == cfg.entry else s.PathStart.BRANCH
        end = s.PathEnd.EXIT if vertices[-1] == cfg.exit else s.PathEnd.BRANCH
        blocks = tuple(vertex for vertex in vertices if vertex not in (cfg.entry, cfg.exit))
        return s.PathRecord(blocks, tuple(edges), start, end)

    @cached_property
    def total(self) -> int:
        """Number of windows."""
        # By the last edge: sequences of so many records that lead to it
        begun = dict.fromkeys(self.starts, 1)
        running = dict.fromkeys(self.outcomes, 1)
        total = 0
        for _ in range(self.branches - 1):
            begun, running = self._longer(begun), self._longer(running)
            total += sum(begun.values())
        return total + sum(running.values())

    def _longer(self, ways: Mapping[int, int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for edge, count in ways.items():
            for then in self.following[edge]:
                found[then] = found.get(then, 0) + count
        return found

    def windows(self) -> Iterator[tuple[int, ...]]:
        """Yield every window, those of fewer than k branches first."""
        begun: list[tuple[int, ...]] = [(start,) for start in self.starts]
        for _ in range(self.branches - 1):
            begun = [(*window, then) for window in begun for then in self.following[window[-1]]]
            yield from begun
        for edge in self.outcomes:
            yield from self._continued((edge,))

    def _continued(self, window: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(window) == self.branches:
            yield window
            return
        for then in self.following[window[-1]]:
            yield from self._continued((*window, then))

    def validate(self) -> None:
        """Check records and room for them; AssertionError if they do not tell windows apart."""
        branching = [out for out in self._live_out() if len(out) > 1]
        assert sorted(self.outcomes) == sorted(edge for out in branching for edge in out), (
            "not every outcome has a record"
        )
        values = list(self.records.values())
        assert len({*values, 0}) == len(values) + 1, "records are not distinct"
        assert all(0 < value < 1 << self.width for value in values), "a record has too many bits"
        assert sum(self.sizes) == self.branches, f"{sum(self.sizes)} records in a window"
        assert all(0 < size * self.width <= WORD_BITS for size in self.sizes), "a word is too long"
        assert len(self.sizes) <= s.MAX_WORDS, f"a window has {len(self.sizes)} words"

    def _live_out(self) -> Iterator[tuple[int, ...]]:
        reached = s.depth_first(self.cfg).reached
        blocks = range(len(self.cfg.blocks))
        return (self.cfg.out_edges[block] for block in blocks if block in reached)


def window_codes(cfg: s.ControlFlowGraph, branches: int) -> WindowCodes:
    """Choose records for windows of so many branches, or of as many as `MAX_WORDS` words hold."""
    reached = s.depth_first(cfg).reached
    forks = {block for block in reached if len(cfg.out_edges[block]) > 1} - {cfg.entry, cfg.exit}
    ways = {start: _onward(cfg, forks, start) for start in cfg.out_edges[cfg.entry]}
    # The one branch of a window of one is its own: nothing stands before it.
    starts = [start for start, (_, end) in ways.items() if end in forks and branches > 1]
    outcomes = [edge for block in sorted(forks) for edge in cfg.out_edges[block]]
    ways |= {edge: _onward(cfg, forks, edge) for edge in outcomes}
    edges = sorted([*starts, *outcomes])
    width = max(len(edges).bit_length(), 1)
    return WindowCodes(
        cfg=cfg,
        branches=min(branches, WORD_BITS // width * s.MAX_WORDS),
        records={edge: record for record, edge in enumerate(edges, 1)},
        width=width,
        onward={edge: ways[edge][0] for edge in edges},
        following={
            edge: cfg.out_edges[ways[edge][1]] if ways[edge][1] in forks else () for edge in edges
        },
    )


def _onward(cfg: s.ControlFlowGraph, forks: set[int], edge: int) -> tuple[tuple[int, ...], int]:
    """Return the edges that follow an edge up to a branch, and the vertex where they end."""
    way: list[int] = []
    vertex = cfg.edges[edge].target
    seen = {vertex}
    # They end at EXIT, too, in a block that nothing leaves, and in a cycle without a branch.
    while vertex not in forks and cfg.out_edges[vertex]:
        (then,) = cfg.out_edges[vertex]
        way.append(then)
        vertex = cfg.edges[then].target
        if vertex in seen:
            break
        seen.add(vertex)
    return tuple(way), vertex
