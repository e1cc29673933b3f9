"""A routine's profile on a finer graph: blocks split where another run entered them.

A run may discover a transfer into the middle of a block. Its graph has two blocks there, the graph
of a run without that transfer has one. To be added up, the coarser profile is told on the finer
graph: an edge leads from each part of a block to the next, edges out of the block leave the last
part, paths pass through all parts. Code stays where it was: that of the block with its first part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from simprof.profiler.graphs.cfg import EdgeKind, VertexName
from simprof.profiler.profiles.profile import (
    BlockCount,
    CutBlock,
    EdgeCount,
    PathCount,
    RoutineProfile,
)


def block_starts(routine: RoutineProfile) -> set[int]:
    """Return where the ordinary blocks of a routine begin."""
    return {block.start for block in routine.block_counts if not block.is_slot}


def split(routine: RoutineProfile, starts: Sequence[int]) -> RoutineProfile:
    """Return a routine's profile with its blocks split at `starts`, which ascend.

    Paths of a routine whose blocks are split lose their numbers, which are those of another graph.
    """
    parts = {block.name: _parts(routine, block, starts) for block in routine.block_counts}
    if all(len(each) == 1 for each in parts.values()):
        return routine
    edges = _Edges(routine, parts)
    blocks = tuple(part.block for block in routine.block_counts for part in parts[block.name])
    place = {(block.start, block.is_slot): at for at, block in enumerate(blocks)}
    cuts = tuple(
        CutBlock(place[part.block.start, part.block.is_slot], executed, count)
        for block in routine.block_counts
        for part in parts[block.name]
        for executed, count in part.cuts.items()
    )
    return replace(
        routine,
        blocks=routine.blocks + len(blocks) - len(routine.block_counts),
        edges=routine.edges + len(edges.inner),
        edge_counts=edges.counts,
        path_counts=tuple(_path(path, parts, edges) for path in routine.path_counts),
        block_counts=blocks,
        cut_blocks=cuts,
    )


@dataclass(frozen=True)
class _Part:
    """A part of a block. `cuts`: instructions executed -> executions that ended so within it."""

    block: BlockCount
    cuts: Mapping[int, int]


_Parts = Mapping[VertexName, tuple[_Part, ...]]


def _parts(routine: RoutineProfile, block: BlockCount, starts: Sequence[int]) -> tuple[_Part, ...]:
    """Return the parts of a block. A delay slot stays with its transfer, leader or not."""
    own = starts[bisect_right(starts, block.start) : bisect_left(starts, block.end)]
    slot = block.end - 4 if block.delayed else block.end
    inner = () if block.is_slot else tuple(start for start in own if start != slot)
    cuts = {
        cut.executed: cut.count
        for cut in routine.cut_blocks
        if routine.block_counts[cut.block].name == block.name
    }
    return tuple(_cut_up(block, (block.start, *inner), cuts))


def _cut_up(block: BlockCount, begins: Sequence[int], cuts: Mapping[int, int]) -> Iterator[_Part]:
    count = block.count
    for begin, end in zip(begins, (*begins[1:], block.end), strict=True):
        away, size = (begin - block.start) // 4, (end - begin) // 4
        own = {at - away: times for at, times in cuts.items() if away <= at < away + size}
        yield _Part(
            replace(
                block,
                start=begin,
                instructions=size,
                delayed=block.delayed and end == block.end,
                count=count,
                added=block.added if begin == block.start else 0,
            ),
            own,
        )
        count -= sum(own.values())


class _Edges:
    """The edges between the parts, and those of the routine with their new sources.

    Attributes
    ----------
    counts
        Those of the routine, in their order, then the inner ones, then early ends in parts.
    inner
        Part that is not its block's last -> position of the edge to the next.
    """

    def __init__(self, routine: RoutineProfile, parts: _Parts) -> None:
        edges: list[EdgeCount] = []
        early: list[EdgeCount] = []
        ended = {
            block: {part.block.name: sum(part.cuts.values()) for part in each[:-1] if part.cuts}
            for block, each in parts.items()
        }
        for edge in routine.edge_counts:
            each = parts.get(edge.source)
            moved = edge if each is None else replace(edge, source=each[-1].block.name)
            if edge.kind is EdgeKind.EARLY:
                inside = ended.pop(edge.source, {})
                moved = replace(moved, count=moved.count - sum(inside.values()))
                early += [replace(moved, source=at, count=n) for at, n in inside.items()]
            edges.append(moved)
        self.inner: dict[VertexName, int] = {}
        for each in parts.values():
            for first, second in pairwise(each):
                ends = first.block.name, second.block.name
                self.inner[ends[0]] = len(edges)
                edges.append(EdgeCount(*ends, EdgeKind.FALL_THROUGH, second.block.count, False))
        self.counts = (*edges, *early)


def _path(path: PathCount, parts: _Parts, edges: _Edges) -> PathCount:
    """Return a path on the parts."""
    slots, blocks, new_slots = set(path.slots), list[int | str](), list[int]()
    last = None
    for at, start in enumerate(path.blocks):
        last = VertexName(start, at in slots)
        for part in parts.get(last, ()):
            if part.block.is_slot:
                new_slots.append(len(blocks))
            blocks.append(part.block.start)
    inside: dict[VertexName, list[int]] = defaultdict(list)
    for each in parts.values():
        end = each[-1].block.name
        inside[end] = [edges.inner[part.block.name] for part in each[:-1]]
    crossed = [
        number for edge in path.edges for number in (*inside[edges.counts[edge].source], edge)
    ]
    ends = parts.get(last) if last is not None else None
    if ends is not None and not (path.edges and _leaves(edges, path.edges[-1], ends)):
        crossed += inside[ends[-1].block.name]
    return replace(
        path, id=None, blocks=tuple(blocks), slots=tuple(new_slots), edges=tuple(crossed)
    )


def _leaves(edges: _Edges, edge: int, parts: Sequence[_Part]) -> bool:
    """Whether an edge leaves a path's last block, so that the block's inner edges came before."""
    found = edges.counts[edge]
    return found.source == parts[-1].block.name and found.target != parts[0].block.name
