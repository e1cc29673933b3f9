"""How much of a path profile another one tells rightly.

Terms
-----
attribution of definite flow (AoDF)
    TPP's measure (section 5): 100 % less the overcount and the undercount, each relative to what
    `pp` counted. Flow that is attributed to a wrong path counts twice, there as overcount and
    where it belongs as undercount, so that the attribution can be negative.
overlap
    The flow on which both profiles agree, as a share of the larger profile: from 0 to 100 %, which
    is where they are the same. Misplaced flow counts once.

Paths weigh by their length in blocks. `pp` and `tpp` end paths at different edges, so all paths are
split at the edges where either of them does (TPP, footnote 5). What an edge profile alone tells of
a path, its *definite flow*, is another thing: `definite_flow`.

`attribute` compares two readings of one routine; attributions of routines add up to that of the
program: `sum(of_routines, Attribution())`.

definite flow of a path
    How often it executed at least, in every path profile that has this edge profile: many may have
    the same one (EPP figure 1). T. Ball, P. Mataga and M. Sagiv, "Edge Profiling versus Path
    Profiling: The Showdown" (POPL 1998) attribute 76 % (SPEC95 INT) and 84 % (FP) of the execution
    to acyclic paths that way, as TPP (section 1) reports.

`definite_flow` sums it up: a path with definite flow was executed, so the executed paths tell the
program's. As in path profiling (EPP 4) back edges and cut edges end paths, and edges from a block
to itself are on none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple
from operator import add
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece, PathRecord
from simprof.profiler.plan.decoders import PathDecoder, Reading
from simprof.simulator.values import dataclass

if TYPE_CHECKING:
    from fractions import Fraction  # which takes 2 ms of a run, and most judge nothing


@runtime_checkable
class SplittingDecoder(PathDecoder, Protocol):
    """A plan that may end paths at self-loops, which `pp` counts apart."""

    @property
    def split_edges(self) -> Collection[int]:
        """Ids of all edges at which its paths end, back edges other than self-loops excepted."""
        ...


@dataclass(frozen=True)
class Attribution:
    """Blocks executed in paths, all of them counted as `pp` counted them."""

    flow: int = 0  # Blocks in the paths of `pp`
    # overcounted, undercounted: Blocks in paths that the other profile counts too often, too
    # rarely.
    overcounted: int = 0
    undercounted: int = 0

    def __add__(self, other: Attribution) -> Attribution:
        return Attribution(*map(add, astuple(self), astuple(other)))

    def _share(self, blocks: int) -> Fraction:
        from fractions import Fraction

        return Fraction(blocks, self.flow) if self.flow else Fraction(0)

    @property
    def overcount(self) -> Fraction:
        """Share that is counted too often; can pass 1."""
        return self._share(self.overcounted)

    @property
    def undercount(self) -> Fraction:
        """Share that is counted too rarely, 0 to 1."""
        return self._share(self.undercounted)

    @property
    def attributed(self) -> Fraction:
        """Attribution of definite flow: 1 where both profiles agree; can be negative."""
        return 1 - self.overcount - self.undercount

    @property
    def overlap(self) -> Fraction:
        """Flow on which both profiles agree, as a share of the larger one: 0 to 1."""
        from fractions import Fraction

        agreed = self.flow - self.undercounted
        larger = max(self.flow, agreed + self.overcounted)
        return Fraction(agreed, larger) if larger else Fraction(1)

    def as_json(self) -> dict[str, float]:
        """Return its shares; `definite` is what `attributed` was called first."""
        return {
            "definite": float(self.attributed),
            "overcount": float(self.overcount),
            "undercount": float(self.undercount),
            "attributed": float(self.attributed),
            "overlap": float(self.overlap),
        }


def attribute(
    pp_plan: PathDecoder, pp: Reading, tpp_plan: SplittingDecoder, tpp: Reading
) -> Attribution:
    """Compare what `tpp` says of a routine with what `pp` counted in the same run.

    Raises ValueError if `tpp` ends paths at self-loops and `pp` has no edge counts.
    """
    split = {*pp_plan.cut_edges, *tpp_plan.split_edges}
    exact = ((pp_plan.decode(path), count) for path, count in pp.paths.items())
    guided_paths = ((tpp_plan.decode(path), count) for path, count in tpp.paths.items())
    return attribution(tpp_plan.cfg, exact, guided_paths, split, pp.edges)


def attribution(
    cfg: ControlFlowGraph,
    exact: Iterable[tuple[PathRecord, int]],  # All paths that were executed, as `pp` counts them
    guided_paths: Iterable[tuple[PathRecord, int]],  # Those that the profile to be judged has
    # Edges at which either profile ends paths, back edges excepted that both end paths at
    split: Collection[int],
    # Exact counts by edge id. Read for self-loops in `split`, which are in no path of `exact`.
    edge_counts: Sequence[int] | None,
) -> Attribution:
    """Compare two path profiles of `cfg`, each as whole paths with their counts."""
    edges = frozenset(split)
    true = _count(cfg, exact, edges)
    for edge in (e for e in edges if cfg.edges[e].source == cfg.edges[e].target):
        if edge_counts is None:
            raise ValueError(f"{cfg.name}: paths end at self-loops, whose counts are needed")
        true[(cfg.edges[edge].target,), ()] += edge_counts[edge]
    claimed = _count(cfg, guided_paths, edges)
    over = under = 0
    for piece in {*true, *claimed}:
        difference = (claimed[piece] - true[piece]) * len(piece[0])
        over += max(difference, 0)
        under += max(-difference, 0)
    flow = sum(count * len(blocks) for (blocks, _), count in true.items())
    return Attribution(flow, over, under)


def _count(
    cfg: ControlFlowGraph, paths: Iterable[tuple[PathRecord, int]], split: frozenset[int]
) -> Counter[PathPiece]:
    pieces: Counter[PathPiece] = Counter()
    for record, count in paths:
        for piece in pieces_of(cfg, record, split):
            pieces[piece] += count
    return pieces


def pieces_of(
    cfg: ControlFlowGraph, record: PathRecord, split: Collection[int]
) -> Iterator[PathPiece]:
    """Split a path at the edges `split`; these are in no piece."""
    blocks: list[int] = [record.blocks[0]]
    edges: list[int] = []
    for edge in record.edges:
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        inner = source != cfg.entry and target != cfg.exit
        if edge not in split:
            edges.append(edge)
        elif inner:
            yield tuple(blocks), tuple(edges)
            blocks, edges = [], []
        if inner:
            blocks.append(target)
    yield tuple(blocks), tuple(edges)


# First block, edge ids in order (those from ENTRY and to EXIT included), executions.
ExecutedPath = tuple[int, tuple[int, ...], int]


@dataclass(frozen=True)
class DefiniteFlow:
    """Executions of whole paths, and those that follow from the edge profile."""

    # executions, definite_executions: Each path as often as it was executed.
    executions: int = 0
    definite_executions: int = 0
    # blocks, definite_blocks: The same, weighted by the length of paths in blocks, as TPP weighs
    # them.
    blocks: int = 0
    definite_blocks: int = 0

    def __add__(self, other: DefiniteFlow) -> DefiniteFlow:
        return DefiniteFlow(*map(add, astuple(self), astuple(other)))

    @property
    def share(self) -> float | None:
        """Share of the blocks in paths that is definite; None where no path was executed."""
        return self.definite_blocks / self.blocks if self.blocks else None


class EdgeFlow:
    """An edge profile on the acyclic graph of a routine; `counts`: executions by edge id."""

    def __init__(
        self, cfg: ControlFlowGraph, removed: Collection[int], counts: Sequence[int]
    ) -> None:
        # removed: Ids of the edges that end paths: back edges and cut edges, self-loops excepted.
        self._cfg, self._counts = cfg, counts
        self._through = [0] * cfg.vertex_count  # executions on the way of a path
        self._begun, self._ended = [0] * cfg.vertex_count, [0] * cfg.vertex_count
        for edge in cfg.edges:
            if edge.source != edge.target:
                self._through[edge.target] += counts[edge.id]
            if edge.id in removed:
                self._begun[edge.target] += counts[edge.id]
                self._ended[edge.source] += counts[edge.id]

    def definite_count(self, first_block: int, edges: Sequence[int]) -> int:
        """Return the definite flow of a whole path (see the module)."""
        # The path's first edge carries so many executions; at each block all that leaves by other
        # edges may have come along the path, so at least the rest of them goes on. What is left at
        # the end is the definite flow, and some path profile has no more: at each block what comes
        # in can be continued in any way that the edge profile allows.
        inside, known = tuple(edges), self._begun[first_block]
        if inside and self._cfg.edges[inside[0]].source == self._cfg.entry:
            known, inside = self._counts[inside[0]], inside[1:]
        block = first_block
        for edge in inside:
            known -= self._through[block] - self._counts[edge]
            block = self._cfg.edges[edge].target
        if block != self._cfg.exit:  # it ends at removed edges
            known -= self._through[block] - self._ended[block]
        return max(known, 0)


def definite_flow(
    cfg: ControlFlowGraph,
    removed: Collection[int],
    counts: Sequence[int],
    paths: Iterable[ExecutedPath],
) -> DefiniteFlow:
    """Sum up the definite flow of a routine's executed whole paths; parameters as `EdgeFlow`'s."""
    flow = EdgeFlow(cfg, removed, counts)
    total = DefiniteFlow()
    for first_block, edges, count in paths:
        length = 1 + sum(
            cfg.edges[edge].source != cfg.entry and cfg.edges[edge].target != cfg.exit
            for edge in edges
        )
        definite = flow.definite_count(first_block, edges)
        total += DefiniteFlow(count, definite, count * length, definite * length)
    return total
