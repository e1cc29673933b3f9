"""Profiles of several runs, added up.

They are of one program file under one scheme. Graphs may differ a little, because a run can
discover edges that another never took; edges are matched by the names of their ends and their kind
(parallel edges in order), paths by their blocks and edges.

Steps -> functions
1. Profiles on one graph each: blocks split where any run entered them     `split`
2. Counts of edges, paths and blocks added up                              `merge_routine`
3. Totals, endings, warnings                                               `merge`

A run may discover a transfer into the middle of a block. Its graph has two blocks there, the graph
of a run without that transfer has one. To be added up, the coarser profile is told on the finer
graph: an edge leads from each part of a block to the next, edges out of the block leave the last
part, paths pass through all parts. Code stays where it was: that of the block with its first part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ENTRY, EdgeKind, VertexName
from simprof.profiler.profiles.calls import merge_trees
from simprof.profiler.profiles.profile import (
    BlockCount,
    CutBlock,
    EdgeCount,
    Guide,
    PathCount,
    RefusedCalls,
    RoutineProfile,
    RunMeasurement,
    ThreadInfo,
)
from simprof.simulator.errors import UsageError

EdgeKey = tuple[VertexName, VertexName, str, int]
PathKey = tuple[tuple[object, ...], tuple[EdgeKey, ...]]
Key = TypeVar("Key", bound=Hashable)


def merge(measurements: Sequence[RunMeasurement]) -> RunMeasurement:
    """Add up profiles of one program.

    The ending is that of the first run that did not end well, or else of the first run.

    Raises UsageError if there is none, or programs, schemes or scheme options differ.
    """
    if not measurements:
        raise UsageError("there are no profiles to merge: name at least one")
    first, programs = measurements[0], [each.program for each in measurements]
    for other in measurements[1:]:
        check_comparable(first, other)
        if dict(first.options) != dict(other.options):
            raise UsageError("profiles recorded with different options cannot be merged")
    calls = chain(*(each.refused_calls for each in measurements))
    refused = add_counts({(call.name, call.error): call.count} for call in calls)
    every = chain(*(each.threads for each in measurements))
    threads = add_counts({each.thread: each.instructions} for each in every)
    return replace(
        first,
        program=replace(
            first.program,
            routines=max(each.routines for each in programs),
            # kept only where all runs had the same
            arguments=()
            if len({each.arguments for each in programs}) > 1
            else programs[0].arguments,
        ),
        ending=next((each.ending for each in measurements if each.ending.code), first.ending),
        base=sum(each.base for each in measurements),
        added=sum(each.added for each in measurements),
        counts=add_counts(each.counts for each in measurements),
        routines=merge_all_routines(measurements),
        warnings=tuple(dict.fromkeys(line for each in measurements for line in each.warnings)),
        partial=any(each.partial for each in measurements),
        lines={at: line for measurement in measurements for at, line in measurement.lines.items()},
        runs=sum(each.runs for each in measurements),
        refused_calls=tuple(RefusedCalls(*call, n) for call, n in sorted(refused.items())),
        call_tree=merge_trees([each.call_tree for each in measurements]),
        threads=tuple(ThreadInfo(*each) for each in sorted(threads.items())),
        guide=merge_guides(measurements),
        quality=None,
        edge_quality=None,
        discoveries=merge_discoveries([each.discoveries for each in measurements]),
    )


def merge_discoveries(all_found: Sequence[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """Return what any of the runs has shown of the program; None where that is not known of one."""
    found = [each for each in all_found if each is not None]
    if len(found) < len(all_found):
        return None
    names = dict.fromkeys(name for each in found for name in each)
    merged = {name: [item for each in found for item in each.get(name, ())] for name in names}
    return {
        name: list({repr(item): item for item in items}.values()) for name, items in merged.items()
    }


def merge_guides(measurements: Sequence[RunMeasurement]) -> Guide | None:
    """Return what guided all of the runs: their options, which name its file, are the same."""
    guides = [each.guide for each in measurements if each.guide is not None]
    if not guides:
        return None
    prices = [guide.added for guide in guides if guide.added is not None]
    return replace(
        guides[0],
        same_run=all(guide.same_run for guide in guides),
        added=sum(prices) if len(prices) == len(measurements) else None,
    )


def check_comparable(first: RunMeasurement, other: RunMeasurement) -> None:
    """Raise UsageError unless both are of one program and one scheme."""
    if first.program.sha256 != other.program.sha256:
        raise UsageError(
            f"profiles of different programs ({first.program.file}, {other.program.file}) "
            "have nothing in common: give profiles of one program file"
        )
    if first.mode != other.mode:
        raise UsageError(
            f"profiles of different modes ({first.mode}, {other.mode}) cannot be put together: "
            "give profiles of one mode"
        )


def add_counts(tables: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    """Add tables of counts by key, in the order in which the keys first appear."""
    total: dict[Key, int] = {}
    for table in tables:
        for key, count in table.items():
            total[key] = total.get(key, 0) + count
    return total


def merge_all_routines(measurements: Sequence[RunMeasurement]) -> tuple[RoutineProfile, ...]:
    """Merge routine by routine, by address."""
    groups: dict[tuple[int, str], list[RoutineProfile]] = defaultdict(list)
    for routine in chain(*(each.routines for each in measurements)):
        groups[routine.key].append(routine)
    guide = merge_guides(measurements)
    once = guide is not None and not guide.same_run
    return tuple(merge_routine(groups[key], inferred_once=once) for key in sorted(groups))


def merge_routine(
    profiles: Sequence[RoutineProfile], *, inferred_once: bool = False
) -> RoutineProfile:
    """Add up the profiles of one routine; the larger graph describes it.

    `inferred_once`: one edge profile guided all runs, so that inferred counts are the same in each
    of them, and are not added up.
    """
    starts = sorted(
        {block.start for each in profiles for block in each.block_counts if not block.is_slot}
    )
    profiles = [split(profile, starts) for profile in profiles]
    edges = merge_edges(profiles)
    blocks = merge_blocks(profiles)
    places = {key: index for index, key in enumerate(edges)}
    return replace(
        max(profiles, key=lambda each: each.edges),
        activations=sum(profile.activations for profile in profiles),
        added=sum(each.added for each in profiles),
        instructions=sum(each.instructions for each in profiles),
        edge_counts=tuple(edges.values()),
        path_counts=merge_paths(profiles, places, inferred_once=inferred_once),
        block_counts=blocks,
        cut_blocks=merge_cuts(profiles, blocks),
        split_edges=_merge_split(profiles, places),
    )


def _merge_split(
    profiles: Sequence[RoutineProfile], places: Mapping[EdgeKey, int]
) -> tuple[int, ...]:
    """Return the edges at which any of the profiles ends paths."""
    split: set[int] = set()
    for profile in profiles:
        if profile.split_edges:
            keys = edge_keys(profile)
            split.update(places[keys[edge]] for edge in profile.split_edges)
    return tuple(sorted(split))


def merge_blocks(profiles: Sequence[RoutineProfile]) -> tuple[BlockCount, ...]:
    """Add block counts, by address."""
    total: dict[VertexName, BlockCount] = {}
    for profile in profiles:
        for block in profile.block_counts:
            known = total.get(block.name)
            count, added = (0, 0) if known is None else (known.count, known.added)
            total[block.name] = replace(block, count=count + block.count, added=added + block.added)
    return tuple(sorted(total.values(), key=lambda block: (block.start, block.is_slot)))


def merge_cuts(
    profiles: Sequence[RoutineProfile], blocks: Sequence[BlockCount]
) -> tuple[CutBlock, ...]:
    """Add up how often executions of blocks did not come to their end."""
    index = {block.name: place for place, block in enumerate(blocks)}
    total: Counter[tuple[int, int]] = Counter()
    for profile in profiles:
        for cut in profile.cut_blocks:
            total[index[profile.block_counts[cut.block].name], cut.executed] += cut.count
    return tuple(CutBlock(*place, count) for place, count in sorted(total.items()))


def edge_keys(routine: RoutineProfile) -> tuple[EdgeKey, ...]:
    """Name every edge of a routine; parallel edges are numbered."""
    seen: Counter[object] = Counter()
    keys = []
    for edge in routine.edge_counts:
        keys.append((edge.source, edge.target, str(edge.kind), seen[edge.key]))
        seen[edge.key] += 1
    return tuple(keys)


def path_key(path: PathCount, keys: Sequence[EdgeKey]) -> PathKey:
    """Name a path by its shape and the names of its edges."""
    return path.shape, tuple(keys[edge] for edge in path.edges)


def merge_edges(profiles: Sequence[RoutineProfile]) -> dict[EdgeKey, EdgeCount]:
    """Add edge counts, in the order in which the edges first appear."""
    total: dict[EdgeKey, EdgeCount] = {}
    for profile in profiles:
        for key, edge in zip(edge_keys(profile), profile.edge_counts, strict=True):
            if (known := total.get(key)) is None:
                total[key] = edge
                continue
            total[key] = replace(
                known,
                count=known.count + edge.count,
                added=known.added + edge.added,
                instrumented=known.instrumented or edge.instrumented,
                told=known.told and edge.told,
            )
    return total


def merge_paths(
    profiles: Sequence[RoutineProfile], index: Mapping[EdgeKey, int], *, inferred_once: bool = False
) -> tuple[PathCount, ...]:
    """Add path counts; a path keeps its number only where all profiles agree on it."""
    total: dict[PathKey, PathCount] = {}
    for profile in profiles:
        keys = edge_keys(profile)
        for path in profile.path_counts:
            key = path_key(path, keys)
            known = total.get(key)
            if known is None:
                total[key] = replace(path, edges=tuple(index[each] for each in key[1]))
                continue
            counts = known.count, path.count
            again = inferred_once and known.inferred and path.inferred
            total[key] = replace(
                known,
                id=known.id if known.id == path.id else None,
                count=max(counts) if again else sum(counts),
                inferred=known.inferred or path.inferred,
                shortened=known.shortened or path.shortened,
                start=known.start or path.start,
                end=known.end or path.end,
            )
    return tuple(total.values())


def split(routine: RoutineProfile, starts: Sequence[int]) -> RoutineProfile:
    """Return a routine's profile with its blocks split at `starts`, which ascend."""
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


class _BlockPart(Struct, frozen=True):
    block: BlockCount
    cuts: Mapping[int, int]  # Instructions executed -> executions that ended so within it


_Parts = Mapping[VertexName, tuple[_BlockPart, ...]]


def _parts(
    routine: RoutineProfile, block: BlockCount, starts: Sequence[int]
) -> tuple[_BlockPart, ...]:
    """Return the parts of a block. A delay slot stays with its transfer, leader or not."""
    own = starts[bisect_right(starts, block.start) : bisect_left(starts, block.end)]
    slot = block.end - 4 if block.delayed else block.end
    inner = () if block.is_slot else tuple(start for start in own if start != slot)
    cuts = {
        cut.executed: cut.count
        for cut in routine.cut_blocks
        if routine.block_counts[cut.block].name == block.name
    }
    parts, count = [], block.count
    for begin, end in pairwise((block.start, *inner, block.end)):
        away, size = (begin - block.start) // 4, (end - begin) // 4
        inside = {at - away: times for at, times in cuts.items() if away <= at < away + size}
        part = replace(
            block,
            start=begin,
            instructions=size,
            delayed=block.delayed and end == block.end,
            count=count,
            added=block.added if begin == block.start else 0,
        )
        parts.append(_BlockPart(part, inside))
        count -= sum(inside.values())
    return tuple(parts)


class _Edges:
    """The edges between the parts, and those of the routine with their new sources."""

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
        # Part that is not its block's last -> position of the edge to the next
        self.inner: dict[VertexName, int] = {}
        for each in parts.values():
            for first, second in pairwise(each):
                ends = first.block.name, second.block.name
                self.inner[ends[0]] = len(edges)
                edges.append(EdgeCount(*ends, EdgeKind.FALL_THROUGH, second.block.count, False))
        # Those of the routine, in their order, then the inner ones, then early ends in parts
        self.counts = (*edges, *early)


def _path(path: PathCount, parts: _Parts, edges: _Edges) -> PathCount:
    slots, blocks, new_slots = set(path.slots), list[int | str](), list[int]()
    loops, new_loops = set(path.collapsed), list[int]()
    last = None
    for at, start in enumerate(path.blocks):
        last = VertexName(start, at in slots)
        # A collapsed loop is known by where its head begins, and has no steps inside.
        for part in parts.get(last, ())[: 1 if at in loops else None]:
            if part.block.is_slot:
                new_slots.append(len(blocks))
            if at in loops:
                new_loops.append(len(blocks))
            blocks.append(part.block.start)
    inside: dict[VertexName, list[int]] = defaultdict(list)
    for each in parts.values():
        end = each[-1].block.name
        inside[end] = [edges.inner[part.block.name] for part in each[:-1]]
    # By edge of the path the block that it leaves: none, if it enters the routine
    first = -1 if path.edges and edges.counts[path.edges[0]].source == ENTRY else 0
    crossed = list[int]()
    for at, edge in enumerate(path.edges, first):
        crossed += () if at in loops else inside[edges.counts[edge].source]
        crossed.append(edge)
    is_loop = len(path.blocks) - 1 in loops
    ends = parts.get(last) if last is not None and not is_loop else None
    if ends is not None and not (path.edges and _leaves(edges, path.edges[-1], ends)):
        crossed += inside[ends[-1].block.name]
    # its number was that of another graph
    return replace(
        path,
        id=None,
        blocks=tuple(blocks),
        slots=tuple(new_slots),
        edges=tuple(crossed),
        collapsed=tuple(new_loops),
    )


def _leaves(edges: _Edges, edge: int, parts: Sequence[_BlockPart]) -> bool:
    """Whether an edge leaves a path's last block, so that the block's inner edges came before."""
    found = edges.counts[edge]
    return found.source == parts[-1].block.name and found.target != parts[0].block.name
