"""Windows of k branches as a FIFO holds them, and their codes (EPP section 2, Young and Smith).

Terms
-----
branch
    A block that control leaves along two edges or more. Whichever is taken is its *outcome*.
record
    What the FIFO keeps of a branch, its block and its outcome, in one number; or of a *start*, an
    edge from ENTRY. None is 0.
window
    The last k branches of an activation, or all of them and the start before there are k.
code
    The records of a window, the newest in the lowest bits of the last word. No record crosses a
    word's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.bittrace.branch_codes import WORD_BITS


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
