"""Path segments: what the kernel counts so that every scheme's counters follow.

A routine's *segmentation* cuts the walks through its graph into acyclic pieces, at back edges and
wherever else the caller wants, and numbers them as EPP numbers paths: one register, increments on
the chords of a maximum spanning tree. Which schemes run does not matter to it. A segment knows
its edges, the one that ended it included, so that whatever actions a scheme has on them can be
executed for all executions of the segment at once (`products`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from simprof.profiler.engine import kernels
from simprof.profiler.engine.memory import Operation
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import PathNumbering
from simprof.profiler.graphs.paths import number_paths
from simprof.profiler.graphs.spanning import heuristic

# Segments from one vertex beyond which walks are cut there: keys stay within 63 bits.
SEGMENT_LIMIT = 1 << 32


class Segmentation(Struct, frozen=True):
    """The segments of one routine."""

    # A segment's key is what the kernel's register holds when it ends: the segment's number, the
    # place of the edge that ended it, flags, and a 1 that keeps keys from being 0. Flags are bits
    # that whoever crosses a segment's first or last edge may set once (`products`).

    cfg: ControlFlowGraph
    dag: Dag
    numbering: PathNumbering
    # Edge id -> what the kernel does on it: BEGIN, where an activation begins, without the segment
    # state, which is the run's; ADD; SEGMENT, where a segment ends.
    steps: dict[int, tuple[Operation, ...]]
    # By vertex, what register values lack to the sum of the segment's values (unscaled).
    potential: tuple[int, ...]
    shift: int  # number of bits below the segment's number in a key
    flags: int = 0  # how many of them are flags

    def decode(self, key: int) -> tuple[int, ...]:
        """Return the edges of a segment in order, from ENTRY or behind a cut to its end."""
        # Raises `ValueError` if there is no such segment.
        place = (key & (1 << self.shift) - 1) >> self.flags + 1
        if place > len(self.dag.removed):
            raise ValueError(f"{self.cfg.name} has no segment {key}")
        edges = self._real(self.numbering.decode(key >> self.shift))
        if place:
            edges = (*edges, self.dag.removed[place - 1])
        return edges

    def decode_prefix(self, register: int, block: int) -> tuple[int, ...]:
        """Return the edges of the unfinished segment of an activation that is in `block`."""
        # Raises `ValueError` if there is no such segment.
        path_sum = (register >> self.shift) + self.potential[block]
        return self._real(self.numbering.decode_prefix(path_sum, block))

    def flags_of(self, key: int) -> int:
        """Return the flags that are set in a key, or in the register of an unfinished segment."""
        return key >> 1 & (1 << self.flags) - 1

    def _real(self, path: tuple[int, ...]) -> tuple[int, ...]:
        edges = map(self.dag.columns.cfg_edge.__getitem__, path)
        return tuple([edge for edge in edges if edge >= 0])


def segment(
    cfg: ControlFlowGraph,
    cuts: Collection[int] = (),
    weights: Sequence[float] | None = None,
    flags: int = 0,
) -> Segmentation:
    """Cut `cfg` into segments."""
    # `cuts`: Edges that must end a segment. Edges from ENTRY begin one and edges to EXIT end one in
    # any case; self-loops are in none unless they are among these.
    # `weights`: Edge weights by edge id; None for BL94's heuristic.
    # `flags`: How many flags keys have.
    dfs = depth_first(cfg)
    ending = frozenset(
        edge
        for edge in cuts
        if edge not in dfs.back_edges
        and cfg.edges[edge].target != cfg.exit
        and cfg.edges[edge].source != cfg.entry
        and cfg.edges[edge].source in dfs.reached
    )
    turns = frozenset(cuts) & dfs.self_loops
    dag, numbering, _, event_counting = number_paths(
        cfg,
        dfs,
        heuristic(cfg, dfs) if weights is None else weights,
        path_limit=SEGMENT_LIMIT,
        total_limit=SEGMENT_LIMIT,
        cuts=ending,
        merged=turns,
    )
    shift = 1 + flags + len(dag.removed).bit_length()
    steps = _steps(dag, [increment << shift for increment in event_counting.increments], flags)
    return Segmentation(cfg, dag, numbering, steps, event_counting.potential, shift, flags)


def _steps(dag: Dag, increments: Sequence[int], flags: int) -> dict[int, tuple[Operation, ...]]:
    """Place the steps: no figure 8 here, so that a segment is counted where it ends."""
    cfg = dag.cfg
    steps: dict[int, tuple[Operation, ...]] = {}
    ends = zip(
        dag.columns.source, dag.columns.target, dag.columns.cfg_edge, increments, strict=True
    )
    for source, target, edge, increment in ends:
        if edge < 0:
            continue
        placed: list[Operation] = []
        if source == cfg.entry:
            placed.append((kernels.BEGIN, increment, 0))
        rest = 0 if placed else increment
        if target == cfg.exit:
            placed.append((kernels.SEGMENT, rest | 1, 0))
        elif rest:
            placed.append((kernels.ADD, rest, 0))
        if placed:
            steps[edge] = tuple(placed)
    for place, removed in enumerate(dag.removed, 1):
        _, source, target, _ = cfg.edges[removed]
        last = increments[dag.exit_dummy[source]]
        first = increments[dag.entry_dummy[target]]
        steps[removed] = ((kernels.SEGMENT, last | place << flags + 1 | 1, first),)
    return steps
