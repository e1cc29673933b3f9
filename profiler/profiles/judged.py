"""Two saved profiles of one program, compared routine by routine for `measures.quality`.

Blocks, edges and paths are matched by address, as `combine` does. Where one run has found more of a
routine than the other, the graphs are merged. Paths are split where either profile ends them: at
back edges, and at `RoutineProfile.split_edges`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind, VertexName
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.paths import PathEnd, PathRecord, PathStart
from simprof.profiler.profiles.combine import (
    EdgeKey,
    edge_keys,
    merge_blocks,
    merge_edges,
    split,
)
from simprof.profiler.profiles.edge_flow import EdgeFlow
from simprof.profiler.profiles.measures import (
    CountedPath,
    FlowComparison,
    Pieces,
    compare_edges,
    compare_pieces,
    true_pieces,
)
from simprof.profiler.profiles.profile import RoutineProfile, RunMeasurement, rebuilt_graph


class JudgedProfile(NamedTuple):
    """A profile, and what of it is compared."""

    measurement: RunMeasurement
    has_paths: bool  # Whether its path counts are; else its edge counts, and what these tell


def compare_profiles(truth: JudgedProfile, judged: JudgedProfile) -> Iterator[FlowComparison]:
    """Yield comparisons of all routines that either profile has.

    An edge profile is compared with paths by their definite flow. Edges are compared as executions
    of paths cross them; those of an edge profile, as they were counted.
    """
    true, other = (
        {routine.key: routine for routine in each.measurement.routines} for each in (truth, judged)
    )
    for key in dict.fromkeys((*true, *other)):
        pair = [side.get(key) for side in (true, other)]
        found = next(each for each in pair if each is not None)
        nothing = replace(found, edge_counts=(), path_counts=(), block_counts=(), split_edges=())
        sides = [nothing if each is None else each for each in pair]
        yield _compare(_Routine.of(sides[0], sides[1]), truth.has_paths, judged.has_paths)


class _Side(NamedTuple):
    """One profile of a routine, on the graph of both."""

    counts: Sequence[int]  # By edge id
    paths: Sequence[CountedPath]  # Finished ones
    split: frozenset[int]  # Edges at which its paths end, back edges excepted


class _Routine(NamedTuple):
    cfg: ControlFlowGraph
    true: _Side
    judged: _Side

    @classmethod
    def of(cls, *pair: RoutineProfile) -> _Routine:
        starts = {block.start for each in pair for block in each.block_counts if not block.is_slot}
        sides = [split(each, sorted(starts)) for each in pair]
        merged = merge_edges(sides)
        inner = {key: edge for key, edge in merged.items() if edge.kind is not EdgeKind.EARLY}
        name, address = pair[0].name, pair[0].address
        cfg, _ = rebuilt_graph(name, address, merge_blocks(sides), inner.values())
        ids = {key: number for number, key in enumerate(inner)}
        blocks = {cfg.name_of(block.id): block.id for block in cfg.blocks}
        return cls(cfg, *(_side(each, ids, blocks) for each in sides))


def _side(
    routine: RoutineProfile, ids: Mapping[EdgeKey, int], blocks: Mapping[VertexName, int]
) -> _Side:
    keys, counts, paths = edge_keys(routine), [0] * len(ids), []
    for key, edge in zip(keys, routine.edge_counts, strict=True):
        if key in ids:
            counts[ids[key]] = edge.count
    for path in routine.path_counts:
        if path.partial:
            continue
        slots = set(path.slots)
        places = (VertexName(start, at in slots) for at, start in enumerate(path.blocks))
        start = PathStart.ENTRY if path.start is PathStart.REENTRY else path.start
        record = PathRecord(
            tuple(blocks[place] for place in places),
            tuple(ids[keys[edge]] for edge in path.edges),
            start or PathStart.ENTRY,
            path.end or PathEnd.EXIT,
        )
        paths.append((record, path.count))
    return _Side(counts, paths, frozenset(ids[keys[edge]] for edge in routine.split_edges))


def _compare(routine: _Routine, true_paths: bool, judged_paths: bool) -> FlowComparison:
    cfg, true, judged = routine
    edges = compare_edges(*(dict(enumerate(side.counts)) for side in (true, judged)))
    if not (true_paths or judged_paths):
        return FlowComparison({}, edges)
    dfs = depth_first(cfg)
    ends = (dfs.back_edges - dfs.self_loops) | true.split
    if judged_paths:
        ends |= judged.split
    if not true_paths:
        crossed = _crossed(_pieces(cfg, judged, ends))
        inside = {e: n for e, n in enumerate(true.counts) if e not in ends | dfs.self_loops}
        return FlowComparison({}, compare_edges(inside, crossed))
    pieces = _pieces(cfg, true, ends)
    if judged_paths:
        return compare_pieces(cfg, pieces, _pieces(cfg, judged, ends))
    definite = EdgeFlow(cfg, ends - dfs.self_loops, judged.counts).definite_paths()
    paths = [(PathRecord(*path, PathStart.ENTRY, PathEnd.EXIT), count) for path, count in definite]
    claimed = _pieces(cfg, judged._replace(paths=paths), ends)
    return FlowComparison(compare_pieces(cfg, pieces, claimed).pieces, edges)


def _crossed(pieces: Pieces) -> Counter[int]:
    """Return how often executions of pieces cross each edge."""
    crossed: Counter[int] = Counter()
    for (_, edges), count in pieces.items():
        for edge in edges:
            crossed[edge] += count
    return crossed


def _pieces(cfg: ControlFlowGraph, side: _Side, ends: frozenset[int]) -> Pieces:
    return true_pieces(cfg, side.paths, ends, side.counts, side.split)
