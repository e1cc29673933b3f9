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
a path, its *definite flow*, is another thing: `definite`.

`attribute` compares two readings of one routine; attributions of routines add up to that of the
program: `sum(of_routines, Attribution())`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathRecord
from simprof.profiler.plan.decoders import PathDecoder, Reading

PathPiece = tuple[tuple[int, ...], tuple[int, ...]]
"""Blocks and edges of a path, or of a part of one, as in `PathRecord`."""


@runtime_checkable
class SplittingDecoder(PathDecoder, Protocol):
    """A plan that may end paths at self-loops, which `pp` counts apart."""

    @property
    def split_edges(self) -> Collection[int]:
        """Ids of all edges at which its paths end, back edges other than self-loops excepted."""
        ...


@dataclass(frozen=True)
class Attribution:
    """Blocks executed in paths, all of them counted as `pp` counted them.

    Attributes
    ----------
    flow
        Blocks in the paths of `pp`.
    overcounted, undercounted
        Blocks in paths that the other profile counts too often, too rarely.
    """

    flow: int = 0
    overcounted: int = 0
    undercounted: int = 0

    def __add__(self, other: Attribution) -> Attribution:
        return Attribution(
            self.flow + other.flow,
            self.overcounted + other.overcounted,
            self.undercounted + other.undercounted,
        )

    def _share(self, blocks: int) -> Fraction:
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

    Parameters
    ----------
    pp_plan, pp
        Its exact profile; `pp.edges` gives the counts of self-loops at which `tpp` ends paths.
    tpp_plan, tpp
        The profile to judge.

    Raises
    ------
    ValueError
        If there are such self-loops and `pp` has no edge counts.
    """
    split = {*pp_plan.cut_edges, *tpp_plan.split_edges}
    exact = ((pp_plan.decode(path), count) for path, count in pp.paths.items())
    guided_paths = ((tpp_plan.decode(path), count) for path, count in tpp.paths.items())
    return attribution(tpp_plan.cfg, exact, guided_paths, split, pp.edges)


def attribution(
    cfg: ControlFlowGraph,
    exact: Iterable[tuple[PathRecord, int]],
    guided_paths: Iterable[tuple[PathRecord, int]],
    split: Collection[int],
    edge_counts: Sequence[int] | None,
) -> Attribution:
    """Compare two path profiles of `cfg`, each as whole paths with their counts.

    Parameters
    ----------
    exact
        All paths that were executed, as `pp` counts them.
    guided_paths
        The paths that the profile to be judged tells apart.
    split
        Edges at which either profile ends paths, back edges excepted that both end paths at.
    edge_counts
        Exact counts by edge id. Read for self-loops in `split`, which are in no path of `exact`.
    """
    edges = frozenset(split)
    true = _count(cfg, exact, edges)
    turns = [e for e in edges if cfg.edges[e].source == cfg.edges[e].target]
    if turns and edge_counts is None:
        raise ValueError(f"{cfg.name}: paths end at self-loops, whose counts are needed")
    for edge in turns:
        assert edge_counts is not None
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
