"""Profiles of several runs: added up (`merge`) or compared (`diff`).

Both need profiles of one program file under one scheme. Graphs may differ a little, because a
run can discover edges that another never took; edges are matched by the names of their ends and
their kind (parallel edges in order), paths by their blocks and edges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.call_tree import merge_trees
from simprof.profiler.profiles.profile import (
    BlockCount,
    CutBlock,
    EdgeCount,
    Ending,
    Guide,
    Measurement,
    PathCount,
    ProgramInfo,
    RefusedCalls,
    RoutineProfile,
    ThreadInfo,
)
from simprof.profiler.profiles.splitting import block_starts, split
from simprof.simulator.errors import UsageError

EdgeKey = tuple[VertexName, VertexName, str, int]
PathKey = tuple[tuple[int | str, ...], tuple[int, ...], bool, tuple[EdgeKey, ...]]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class EdgeChange:
    """An edge whose count differs."""

    routine: str
    source: VertexName
    target: VertexName
    kind: str
    before: int
    after: int


@dataclass(frozen=True)
class PathChange:
    """A path whose count differs."""

    routine: str
    blocks: tuple[int | str, ...]
    slots: tuple[int, ...]
    partial: bool
    before: int
    after: int


@dataclass(frozen=True)
class ProfileDiff:
    """How two measurements of one program differ, before and after; largest change first."""

    base: tuple[int, int]
    added: tuple[int, int]
    edges: tuple[EdgeChange, ...]
    paths: tuple[PathChange, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        totals = self.base[0] == self.base[1] and self.added[0] == self.added[1]
        return totals and not self.edges and not self.paths


def merge(measurements: Sequence[Measurement]) -> Measurement:
    """Add up profiles of one program.

    The ending is that of the first run that did not end well, or else of the first run.

    Raises
    ------
    UsageError
        If there is none, or they are of different programs, schemes or scheme options.
    """
    if not measurements:
        raise UsageError("there are no profiles to merge: name at least one")
    first = measurements[0]
    for other in measurements[1:]:
        check_comparable(first, other)
        if dict(first.options) != dict(other.options):
            raise UsageError("profiles recorded with different options cannot be merged")
    return replace(
        first,
        program=merge_programs([each.program for each in measurements]),
        ending=merge_endings([each.ending for each in measurements]),
        base=sum(each.base for each in measurements),
        added=sum(each.added for each in measurements),
        counts=add_counts(each.counts for each in measurements),
        routines=merge_all_routines(measurements),
        warnings=tuple(dict.fromkeys(line for each in measurements for line in each.warnings)),
        partial=any(each.partial for each in measurements),
        lines={at: line for measurement in measurements for at, line in measurement.lines.items()},
        runs=sum(each.runs for each in measurements),
        refused_calls=add_refused_calls(measurements),
        call_tree=merge_trees([each.call_tree for each in measurements]),
        threads=add_threads(measurements),
        guide=merge_guides(measurements),
    )


def add_refused_calls(measurements: Sequence[Measurement]) -> tuple[RefusedCalls, ...]:
    """Add up how often each system call was refused."""
    counts: Counter[tuple[str, str]] = Counter()
    for measurement in measurements:
        for call in measurement.refused_calls:
            counts[call.name, call.error] += call.count
    return tuple(RefusedCalls(*call, count) for call, count in sorted(counts.items()))


def add_threads(measurements: Sequence[Measurement]) -> tuple[ThreadInfo, ...]:
    """Add up what threads of the same number have executed."""
    totals: Counter[int] = Counter()
    for measurement in measurements:
        for each in measurement.threads:
            totals[each.thread] += each.instructions
    return tuple(ThreadInfo(*each) for each in sorted(totals.items()))


def merge_guides(measurements: Sequence[Measurement]) -> Guide | None:
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


def diff(before: Measurement, after: Measurement) -> ProfileDiff:
    """Compare two profiles of one program.

    Raises
    ------
    UsageError
        If they are of different programs or schemes.
    """
    check_comparable(before, after)
    old = {routine.key: routine for routine in before.routines}
    new = {routine.key: routine for routine in after.routines}
    edges: list[EdgeChange] = []
    paths: list[PathChange] = []
    for key in sorted(old.keys() | new.keys()):
        sides = (old.get(key), new.get(key))
        edges += edge_changes(key[1], *sides)
        paths += path_changes(key[1], *sides)
    return ProfileDiff(
        base=(before.base, after.base),
        added=(before.added, after.added),
        edges=tuple(sorted(edges, key=change_size)),
        paths=tuple(sorted(paths, key=change_size)),
    )


def check_comparable(first: Measurement, other: Measurement) -> None:
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


def merge_programs(programs: Sequence[ProgramInfo]) -> ProgramInfo:
    """Keep the arguments only where all runs had the same."""
    first = replace(programs[0], routines=max(program.routines for program in programs))
    if all(program.arguments == first.arguments for program in programs):
        return first
    return replace(first, arguments=())


def merge_endings(endings: Sequence[Ending]) -> Ending:
    """Return the first ending that is not success, else the first."""
    return next((ending for ending in endings if ending.code != 0), endings[0])


def add_counts(tables: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    """Add tables of counts by key, in the order in which the keys first appear."""
    total: dict[Key, int] = {}
    for table in tables:
        for key, count in table.items():
            total[key] = total.get(key, 0) + count
    return total


def merge_all_routines(measurements: Sequence[Measurement]) -> tuple[RoutineProfile, ...]:
    """Merge routine by routine, by address."""
    groups: dict[tuple[int, str], list[RoutineProfile]] = defaultdict(list)
    for measurement in measurements:
        for routine in measurement.routines:
            groups[routine.key].append(routine)
    guide = merge_guides(measurements)
    once = guide is not None and not guide.same_run
    return tuple(merge_routine(groups[key], inferred_once=once) for key in sorted(groups))


def merge_routine(
    profiles: Sequence[RoutineProfile], *, inferred_once: bool = False
) -> RoutineProfile:
    """Add up the profiles of one routine; the larger graph describes it.

    Blocks that only some of the runs found to be entered in their middle are split there.
    `inferred_once`: one edge profile guided all runs, so that inferred counts are the same in each
    of them, and are not added up.
    """
    starts = sorted(set[int]().union(*map(block_starts, profiles)))
    profiles = [split(profile, starts) for profile in profiles]
    largest = max(profiles, key=lambda each: each.edges)
    edges = merge_edges(profiles)
    return replace(
        largest,
        activations=sum(profile.activations for profile in profiles),
        added=sum(each.added for each in profiles),
        instructions=sum(each.instructions for each in profiles),
        edge_counts=tuple(edges.values()),
        path_counts=merge_paths(
            profiles,
            {key: index for index, key in enumerate(edges)},
            inferred_once=inferred_once,
        ),
        block_counts=(blocks := merge_blocks(profiles)),
        cut_blocks=merge_cuts(profiles, blocks),
    )


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
    """Name a path by its blocks and the names of its edges."""
    return (path.blocks, path.slots, path.partial, tuple(keys[edge] for edge in path.edges))


def merge_edges(profiles: Sequence[RoutineProfile]) -> dict[EdgeKey, EdgeCount]:
    """Add edge counts, in the order in which the edges first appear."""
    total: dict[EdgeKey, EdgeCount] = {}
    for profile in profiles:
        for key, edge in zip(edge_keys(profile), profile.edge_counts, strict=True):
            known = total.get(key)
            total[key] = (
                edge
                if known is None
                else replace(
                    known,
                    count=known.count + edge.count,
                    added=known.added + edge.added,
                    instrumented=known.instrumented or edge.instrumented,
                )
            )
    return total


def merge_paths(
    profiles: Sequence[RoutineProfile],
    index: Mapping[EdgeKey, int],
    *,
    inferred_once: bool = False,
) -> tuple[PathCount, ...]:
    """Add path counts; a path keeps its number only where all profiles agree on it.

    `inferred_once`: see `merge_routine`.
    """
    total: dict[PathKey, PathCount] = {}
    for profile in profiles:
        keys = edge_keys(profile)
        for path in profile.path_counts:
            key = path_key(path, keys)
            known = total.get(key)
            if known is None:
                total[key] = replace(path, edges=tuple(index[each] for each in key[3]))
                continue
            number = known.id if known.id == path.id else None
            counts = known.count, path.count
            again = inferred_once and known.inferred and path.inferred
            total[key] = replace(
                known,
                id=number,
                count=max(counts) if again else sum(counts),
                inferred=known.inferred or path.inferred,
                shortened=known.shortened or path.shortened,
            )
    return tuple(total.values())


def edge_changes(
    name: str, before: RoutineProfile | None, after: RoutineProfile | None
) -> list[EdgeChange]:
    """List the edges of one routine whose counts differ."""
    old, new = (
        {} if side is None else {key: edge.count for key, edge in merge_edges([side]).items()}
        for side in (before, after)
    )
    return [
        EdgeChange(name, key[0], key[1], key[2], old.get(key, 0), new.get(key, 0))
        for key in dict.fromkeys([*old, *new])
        if old.get(key, 0) != new.get(key, 0)
    ]


def path_changes(
    name: str, before: RoutineProfile | None, after: RoutineProfile | None
) -> list[PathChange]:
    """List the paths of one routine whose counts differ."""
    old, new = (path_table(side) for side in (before, after))
    return [
        PathChange(name, key[0], key[1], key[2], old.get(key, 0), new.get(key, 0))
        for key in dict.fromkeys([*old, *new])
        if old.get(key, 0) != new.get(key, 0)
    ]


def path_table(routine: RoutineProfile | None) -> dict[PathKey, int]:
    """Return path name -> count."""
    if routine is None:
        return {}
    keys = edge_keys(routine)
    return add_counts({path_key(path, keys): path.count} for path in routine.path_counts)


def change_size(change: EdgeChange | PathChange) -> int:
    """Sort key: largest change first."""
    return -abs(change.after - change.before)
