"""Measures of a path profile against a true one of the same execution or program.

Terms
-----
truth, judged profile
    The profile that is taken as exact (`pp`'s, say), and the one that is compared with it.
piece
    A path, or a part of one. Schemes end paths at different edges, so all paths are split at the
    edges where either profile ends them (TPP, footnote 5); edges from ENTRY and to EXIT belong to
    a piece. Where one profile ends paths at a self-loop whose turns the other counts apart (`pp`),
    and paths come to its block by edges that end none, all paths are split behind that block, too:
    what follows is a piece without it.
flow of a piece
    What its executions weigh (`PathFlow`): each one (*unit flow*), as many as it has blocks with
    more than one way out (*branch flow*: after M. D. Bond and K. S. McKinley, "Practical Path
    Profiling", CGO 2005, as a long path decides more than a short one), or as many as it has blocks
    (*block flow*, TPP 5).
hot
    A piece with more than a given share of all true flow; `HOT` by default.
accuracy (Wall's weight matching)
    Take as many pieces as are hot, those that the judged profile gives most flow; accuracy is the
    share of the hot ones' true flow that is on hot ones among these. After D. W. Wall, "Predicting
    Program Behavior Using Real or Estimated Profiles", PLDI 1991. Where pieces of equal flow
    compete for the last places, each gets the same part of these.
coverage
    The share of true flow that the judged profile counts where it belongs: the sum of the lesser of
    both counts. What is counted too often, or in a wrong place, covers nothing. Counts of an
    estimate are scaled to as many executions as the truth has.
hot coverage
    The share of the hot pieces' true flow on pieces that the judged profile has at all.
overlap
    The sum, over all pieces, of the lesser share of executions: 1 where the profiles are in
    proportion (M. Arnold and B. G. Ryder, "A Framework for Reducing the Cost of Instrumented
    Code", PLDI 2001).
relative overlap by routine
    The overlap of each routine's pieces among themselves, on average over routines, weighted by
    their true executions: what is left of the overlap's loss if the routines' shares are right.
edge overlap
    The overlap of edges: of those within pieces, as executions of pieces cross them; of two edge
    profiles, of all edges.
attribution of definite flow (AoDF)
    TPP's measure (section 5): 100 % less the overcount and the undercount, each relative to the
    truth's block flow. Flow that is attributed to a wrong path counts twice, there as overcount and
    where it belongs as undercount, so that the attribution can be negative. It compares counts, and
    is not defined for estimates, which have a part of them.

What an edge profile tells of paths is in `edge_flow`.

Steps -> functions
1. compare two profiles of a routine, as rows of numbers      `compare_paths`, `attribute`
2. sum up a routine's block flow                              `FlowComparison.attribution`
3. sum up all routines                                        `quality`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict, astuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.paths import PathPiece, PathRecord
from simprof.profiler.plan.decoders import Plan, Reading

if TYPE_CHECKING:
    from fractions import Fraction  # which takes 2 ms of a run, and most judge nothing

Pieces = Counter[PathPiece]
CountedPath = tuple[PathRecord, int]

HOT = 0.125  # Percent of all flow that a hot path has more of


class PathFlow(StrEnum):
    """What an execution of a path weighs."""

    UNIT = "unit"
    BRANCH = "branch"
    BLOCK = "block"


# -- one routine ----------------------------------------------------------------------------------


class Attribution(Struct, frozen=True):
    """Blocks executed in paths, all of them counted as the truth counted them."""

    flow: int = 0  # Blocks in the paths of the truth
    # overcounted, undercounted: Blocks in paths that the judged profile counts too often, too
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


class Row(NamedTuple):
    """Pieces of a routine that are alike in all that measures look at."""

    true: int  # How often the truth counted each of them
    claimed: int  # How often the judged profile did
    blocks: int  # Their length
    branches: int  # Their blocks with more than one way out

    def weight(self, flow: PathFlow) -> int:
        """Return what one execution of a piece weighs."""
        return {PathFlow.UNIT: 1, PathFlow.BRANCH: self.branches, PathFlow.BLOCK: self.blocks}[flow]


class FlowComparison(Struct, frozen=True):
    """Two profiles of one routine."""

    pieces: Mapping[Row, int] = field(default_factory=dict)  # How many pieces have these numbers
    # Counts of an edge by the truth and by the judged profile -> how many edges have them
    edges: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def attribution(self) -> Attribution:
        """The comparison in block flow."""
        flow = over = under = 0
        for (true, claimed, blocks, _), times in self.pieces.items():
            flow += true * blocks * times
            over += max(claimed - true, 0) * blocks * times
            under += max(true - claimed, 0) * blocks * times
        return Attribution(flow, over, under)


def attribute(exact: Plan, truth: Reading, judged: Plan, read: Reading) -> FlowComparison:
    """Compare what the plan `judged` read in a routine with what `exact` counted in the same run.

    Raises ValueError if `judged` ends paths at self-loops and `exact` has no edge counts.
    """
    split = {*exact.cut_edges, *judged.split_edges}
    return compare_paths(
        judged.cfg, decoded(exact, truth), decoded(judged, read), split, truth.all_edges
    )


def decoded(plan: Plan, reading: Reading) -> Iterator[CountedPath]:
    """Yield the finished paths of a reading."""
    return ((plan.decode(path), count) for path, count in reading.paths.items())


def compare_paths(
    cfg: ControlFlowGraph,
    exact: Iterable[CountedPath],  # All paths that were executed, as `pp` counts them
    claimed: Iterable[CountedPath],  # Those that the judged profile has
    # Edges at which either profile ends paths, back edges excepted that both end paths at
    split: Collection[int],
    # Exact counts by edge id. Read for self-loops in `split`, which are in no path of `exact`.
    edge_counts: Sequence[int] | None,
) -> FlowComparison:
    """Compare two path profiles of `cfg`, each as whole paths with their counts."""
    true = true_pieces(cfg, exact, split, edge_counts)
    return compare_pieces(cfg, true, pieces_of_paths(cfg, claimed, split))


def true_pieces(
    cfg: ControlFlowGraph,
    exact: Iterable[CountedPath],
    split: Collection[int],
    edge_counts: Sequence[int] | None,
    own: Collection[int] = (),  # Edges at which the profile itself ends paths
) -> Pieces:
    """Return the pieces of an exact profile, those between turns of self-loops among them."""
    true = pieces_of_paths(cfg, exact, split)
    turns = (edge for edge in split if cfg.edges[edge].source == cfg.edges[edge].target)
    for edge in (turn for turn in turns if turn not in own):
        if edge_counts is None:
            raise ValueError(f"{cfg.name}: paths end at self-loops, whose counts are needed")
        true[(cfg.edges[edge].target,), ()] += edge_counts[edge]
    return true


def compare_pieces(cfg: ControlFlowGraph, true: Pieces, claimed: Pieces) -> FlowComparison:
    """Compare the pieces of two profiles."""
    branching = frozenset(block for block, out in enumerate(cfg.out_edges) if len(out) > 1)
    pieces: Counter[Row] = Counter()
    crossed: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    for piece in true | claimed:  # all that one of them has executed
        blocks, edges = piece
        counts = true.get(piece, 0), claimed.get(piece, 0)
        branches = sum(block in branching for block in blocks)
        pieces[Row(*counts, len(blocks), branches)] += 1
        for edge in edges:
            crossed[0][edge] += counts[0]
            crossed[1][edge] += counts[1]
    return FlowComparison(pieces, compare_edges(*crossed))


def compare_edges(true: Mapping[int, int], claimed: Mapping[int, int]) -> Counter[tuple[int, int]]:
    """Compare two edge profiles, by what names an edge."""
    both = ((true.get(edge, 0), claimed.get(edge, 0)) for edge in {**true, **claimed})
    return Counter(pair for pair in both if any(pair))


def pieces_of_paths(
    cfg: ControlFlowGraph, paths: Iterable[CountedPath], split: Collection[int]
) -> Pieces:
    """Count the pieces of paths that are split at the edges `split`."""
    pieces: Pieces = Counter()
    at = frozenset(split)
    within = blocks_that_split(cfg, at)
    for record, count in paths:
        if at.isdisjoint(record.edges) and within.isdisjoint(record.blocks):
            pieces[record.blocks, record.edges] += count
            continue
        for piece in pieces_of(cfg, record, at, within):
            pieces[piece] += count
    return pieces


def blocks_that_split(cfg: ControlFlowGraph, split: frozenset[int]) -> frozenset[int]:
    """Return the blocks in which paths are split: see the module."""
    loops = {cfg.edges[e].target: e for e in split if cfg.edges[e].source == cfg.edges[e].target}
    if not loops:
        return frozenset()
    from simprof.profiler.graphs.loops import depth_first  # native code, which few need here

    ends = split | depth_first(cfg).back_edges
    return frozenset(block for block in loops if not ends.issuperset(cfg.in_edges[block]))


def pieces_of(
    cfg: ControlFlowGraph,
    record: PathRecord,
    split: Collection[int],
    within: Collection[int] = (),
) -> Iterator[PathPiece]:
    """Split a path at the edges `split`, which are in no piece, and behind the blocks `within`."""
    blocks: list[int] = [record.blocks[0]]
    edges: list[int] = []
    for edge in record.edges:
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        inner = source != cfg.entry and target != cfg.exit
        if source in within:
            yield tuple(blocks), tuple(edges)
            blocks, edges = [], []
        if edge not in split:
            edges.append(edge)
        elif inner:
            if blocks:
                yield tuple(blocks), tuple(edges)
            blocks, edges = [], []
        if inner:
            blocks.append(target)
    if blocks or edges:
        yield tuple(blocks), tuple(edges)


# -- a whole program ------------------------------------------------------------------------------


class Quality(Struct, frozen=True, forbid_unknown_fields=True):
    """How good a profile is (the module has the definitions): shares, None where undefined."""

    truth: str  # Mode of the true profile
    # accuracy, coverage, hot_coverage: In the flow `flow`, with paths hot above `hot` percent of it
    accuracy: float | None = None
    coverage: float | None = None
    hot_coverage: float | None = None
    # overlap, routine_overlap, edge_overlap: Of executions; the second relative, by routine.
    overlap: float | None = None
    routine_overlap: float | None = None
    edge_overlap: float | None = None
    hot_paths: int = 0  # How many pieces are hot
    hot: float = HOT
    flow: PathFlow = PathFlow.BRANCH

    def as_json(self) -> dict[str, object]:
        """Return its fields."""
        return asdict(self)


# Names of the measures among the fields of `Quality`, with what reports call them.
MEASURES: Mapping[str, str] = {
    "accuracy": "accuracy (weight matching of hot paths)",
    "coverage": "coverage",
    "hot_coverage": "coverage of hot paths",
    "overlap": "overlap of paths",
    "routine_overlap": "overlap of paths, relative by routine",
    "edge_overlap": "overlap of edges",
}


def quality(
    routines: Iterable[FlowComparison],
    truth: str,  # Mode of the true profile
    *,
    estimate: bool = False,  # Whether counts are a part of what was executed, and are scaled
    hot: float = HOT,
    flow: PathFlow = PathFlow.BRANCH,
) -> Quality:
    """Sum up how good a profile is, of comparisons routine by routine."""
    every = list(routines)
    rows: Counter[Row] = Counter()
    edges: Counter[tuple[int, int]] = Counter()
    for each in every:
        rows.update(each.pieces)
        edges.update(each.edges)
    executions = _pairs(rows)
    weighed = _Weighed.of(rows, flow, hot, _totals(executions) if estimate else (1, 1))
    return Quality(
        truth,
        accuracy=weighed.accuracy,
        coverage=weighed.coverage,
        hot_coverage=weighed.hot_coverage,
        overlap=_overlap(executions),
        routine_overlap=_routine_overlap(every),
        edge_overlap=_overlap(edges),
        hot_paths=weighed.hot_paths,
        hot=hot,
        flow=flow,
    )


class _WeighedRow(NamedTuple):
    true: int  # Flow of each piece
    claimed: int
    times: int  # How many pieces there are


class _Weighed(Struct, frozen=True):
    """Flows of all pieces of a program."""

    rows: Sequence[_WeighedRow]
    hot: Sequence[_WeighedRow]  # Those that are hot
    threshold: int  # The most flow of a piece that is not
    # The judged profile's flow is to the truth's as the second of these to the first.
    scale: tuple[int, int]

    @classmethod
    def of(
        cls, rows: Mapping[Row, int], flow: PathFlow, hot: float, scale: tuple[int, int]
    ) -> _Weighed:
        from fractions import Fraction

        weighed = []
        for row, times in rows.items():
            weight = row.weight(flow)
            if weight:
                weighed.append(_WeighedRow(row.true * weight, row.claimed * weight, times))
        threshold = int(_true_flow(weighed) * Fraction(str(hot)) / 100)
        return cls(weighed, [row for row in weighed if row.true > threshold], threshold, scale)

    @property
    def hot_paths(self) -> int:
        return sum(row.times for row in self.hot)

    @property
    def accuracy(self) -> float | None:
        """Wall's weight matching."""
        from fractions import Fraction

        left, found = self.hot_paths, Fraction(0)
        if not left:
            return None
        claimed = sorted((row for row in self.rows if row.claimed), key=_by_claimed, reverse=True)
        for _, alike in groupby(claimed, _by_claimed):
            group = list(alike)
            size = sum(row.times for row in group)
            flow = sum(row.true * row.times for row in group if row.true > self.threshold)
            found += Fraction(flow * min(left, size), size)
            left -= min(left, size)
            if not left:
                break
        return float(found / _true_flow(self.hot))

    @property
    def coverage(self) -> float | None:
        from fractions import Fraction

        (more, less), total = self.scale, _true_flow(self.rows)
        if not (total and less):
            return 0.0 if total else None
        both = sum(min(row.true * less, row.claimed * more) * row.times for row in self.rows)
        return float(Fraction(both, less * total))

    @property
    def hot_coverage(self) -> float | None:
        from fractions import Fraction

        there = _true_flow(row for row in self.hot if row.claimed)
        return float(Fraction(there, _true_flow(self.hot))) if self.hot else None


_by_claimed = itemgetter(1)


def _true_flow(rows: Iterable[_WeighedRow]) -> int:
    return sum(row.true * row.times for row in rows)


def _pairs(rows: Mapping[Row, int]) -> Counter[tuple[int, int]]:
    """Return how many pieces have these counts, whatever their length."""
    pairs: Counter[tuple[int, int]] = Counter()
    for row, times in rows.items():
        pairs[row[:2]] += times
    return pairs


def _totals(pairs: Mapping[tuple[int, int], int]) -> tuple[int, int]:
    true = sum(each * times for (each, _), times in pairs.items())
    return true, sum(each * times for (_, each), times in pairs.items())


def _overlap(pairs: Mapping[tuple[int, int], int]) -> float | None:
    found = _common_share(pairs)
    return None if found is None else float(found)


def _common_share(pairs: Mapping[tuple[int, int], int]) -> Fraction | None:
    """Return the sum of the lesser shares; None where the truth has nothing."""
    from fractions import Fraction

    true, claimed = _totals(pairs)
    if not (true and claimed):
        return Fraction(0) if true else None
    both = sum(min(one * claimed, other * true) * n for (one, other), n in pairs.items())
    return Fraction(both, true * claimed)


def _routine_overlap(routines: Iterable[FlowComparison]) -> float | None:
    """Return the average overlap of routines, weighted by their true executions."""
    from fractions import Fraction

    total, shared = 0, Fraction(0)
    for routine in routines:
        pairs = _pairs(routine.pieces)
        executions, _ = _totals(pairs)
        total += executions
        shared += executions * (_common_share(pairs) or 0)
    return float(shared / total) if total else None
