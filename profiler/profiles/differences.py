"""Differences between two profiles: of one program, or of two builds of it.

Terms
-----
same program
    Both profiles are of the same file. Routines, edges and paths are matched by their addresses,
    as `combine` does.
two builds
    The files differ, so that addresses may have moved. Routines are matched by name; those that
    share one also by the file that they were compiled from, and in order. An edge is known by the
    source lines of the blocks that it leads from and to, and by its kind; a path by the lines of
    its blocks. Edges of the same lines and kind are added up.

Only what differs is listed, the largest change first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import PurePath
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.graphs.paths import PathEnd, PathStart
from simprof.profiler.profiles.combine import edge_keys, path_key
from simprof.profiler.profiles.profile import EdgeCount, PathCount, RoutineProfile, RunMeasurement
from simprof.profiler.profiles.tables import LoopName, loop_marks, path_blocks
from simprof.simulator.binary.program import SourceLine

Pair = tuple[int, int]  # A number in the first profile, and in the second


class RoutineDifference(Struct, frozen=True):
    """A routine whose numbers differ."""

    # symbol, entered, instructions, added: As in `tables.COLUMNS`.
    symbol: str
    side: str  # "both", or in which profile alone it was entered: "before", "after".
    entered: Pair
    instructions: Pair
    added: Pair


class CountDifference(Struct, frozen=True):
    """An edge or path whose count differs."""

    symbol: str  # Its routine
    # An edge's source and target, or a path's blocks: their names, or where builds are compared
    # "FILE:LINE" (`+OFFSET` from the routine's start where no line is known).
    steps: tuple[str, ...]
    # An edge's kind; of a path "path" or "partial", with where it starts and ends (`_kind`)
    kind: str
    executions: Pair


class Difference(Struct, frozen=True):
    """Everything in which two profiles differ."""

    before: RunMeasurement
    after: RunMeasurement
    same_program: bool  # Whether both are of one file
    # routines, edges, paths: Those that differ; no paths where only one profile has any.
    routines: tuple[RoutineDifference, ...]
    edges: tuple[CountDifference, ...]
    paths: tuple[CountDifference, ...]

    @property
    def without_paths(self) -> RunMeasurement | None:
        """The profile that has no paths, if the other has any."""
        has = [any(each.path_counts for each in run.routines) for run in (self.before, self.after)]
        return None if has[0] == has[1] else self.after if has[0] else self.before

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        totals = [(each.base, each.added) for each in (self.before, self.after)]
        return totals[0] == totals[1] and not (self.routines or self.edges or self.paths)


def difference(before: RunMeasurement, after: RunMeasurement) -> Difference:
    """Compare two profiles, of any modes."""
    same = before.program.sha256 == after.program.sha256
    pairs = _pairs(before, after, same)
    tables = [_Exact() if same else _ByLine(each) for each in (before, after)]
    edges: list[CountDifference] = []
    paths: list[CountDifference] = []
    for name, sides in pairs:
        found = list(zip(tables, sides, (before, after), strict=True))
        counted = [table.edges(side) if side else {} for table, side, _ in found]
        edges += _changes(name, *counted)
        counted = [table.paths(_of_this_run(run, s)) if s else {} for table, s, run in found]
        paths += _changes(name, *counted)
    routines = [each for name, sides in pairs if (each := _routine(name, *sides)) is not None]
    routines.sort(key=lambda r: (_size(r.instructions) + _size(r.added), _size(r.entered)))
    for changes in (edges, paths):
        changes.sort(key=lambda change: _size(change.executions))
    whole = Difference(before, after, same, tuple(routines), tuple(edges), tuple(paths))
    return whole if whole.without_paths is None else replace(whole, paths=())


def _of_this_run(measurement: RunMeasurement, routine: RoutineProfile) -> RoutineProfile:
    """Return a routine without the path counts of the run that made the edge profile."""
    paths = [p for p in routine.path_counts if not measurement.is_of_another_run(p)]
    return replace(routine, path_counts=tuple(paths))


Side = RoutineProfile | None
# By what identifies an edge or path: its steps, its kind and its count.
Named = Mapping[Hashable, tuple[tuple[str, ...], str, int]]


def _pairs(
    before: RunMeasurement, after: RunMeasurement, same: bool
) -> list[tuple[str, tuple[Side, Side]]]:
    """Return the routines of both profiles, matched, in the order of the second."""

    def file(measurement: RunMeasurement, routine: RoutineProfile) -> str:
        line = measurement.lines.get(routine.address)
        return "" if line is None else PurePath(line.file).name

    files = partial(file, before), partial(file, after)
    pairs = matched(before.routines, after.routines, same, files)
    return [(each.name, pair) for pair in pairs if (each := pair[1] or pair[0]) is not None]


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def changed(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, tuple[V | None, V | None]]:
    """Return both values of each key whose values differ; None where one side has none."""
    keys = dict.fromkeys((*before, *after))
    pairs = ((key, (before.get(key), after.get(key))) for key in keys)
    return {key: pair for key, pair in pairs if pair[0] != pair[1]}


class Matchable(Protocol):
    """A routine, as far as matching it goes."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def key(self) -> tuple[int, str]:
        """What identifies it within one program."""


M = TypeVar("M", bound=Matchable)
FileOf = Callable[[M], str]


def matched(
    before: Sequence[M],
    after: Sequence[M],
    same: bool,
    files: tuple[FileOf[M], FileOf[M]] | None = None,
) -> list[tuple[M | None, M | None]]:
    """Match the routines of two results, in the order of the second.

    `same`: Whether both are of one program; else they are matched by name, those that share one
    first by their source files (`files`, of both sides), then in order.
    """
    sides = zip((before, after), files or (None, None), strict=True)
    first, second = (
        {each.key: each for each in routines} if same else _named(routines, file)
        for routines, file in sides
    )
    return [(first.get(key), second.get(key)) for key in dict.fromkeys((*second, *first))]


def _named(routines: Sequence[M], file_of: FileOf[M] | None) -> dict[Hashable, M]:
    """Return routines by name, file and position among those that share both."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Hashable, M] = {}
    shared = Counter(routine.name for routine in routines)
    for routine in routines:
        file = file_of(routine) if file_of is not None and shared[routine.name] > 1 else ""
        found[routine.name, file, seen[routine.name, file]] = routine
        seen[routine.name, file] += 1
    return found


class _Exact:
    """Edges and paths of one program, by address."""

    def edges(self, routine: RoutineProfile) -> Named:
        return {
            key: ((str(edge.source), str(edge.target)), str(edge.kind), edge.count)
            for key, edge in zip(edge_keys(routine), routine.edge_counts, strict=True)
        }

    def paths(self, routine: RoutineProfile) -> Named:
        keys = edge_keys(routine)
        return {
            path_key(path, keys): (tuple(map(str, path_blocks(path))), _kind(path), path.count)
            for path in routine.path_counts
        }


class _ByLine:
    """Edges and paths of a build, by source line."""

    def __init__(self, measurement: RunMeasurement) -> None:
        self._lines = measurement.lines

    def edges(self, routine: RoutineProfile) -> Named:
        """Return the edges of a routine, those of the same lines and kind as one."""

        def ends(edge: EdgeCount) -> tuple[VertexName, ...]:
            return edge.source, edge.target

        rows = ((ends(edge), str(edge.kind), edge.count) for edge in routine.edge_counts)
        return self._added_up(routine, rows, repeats=True)

    def paths(self, routine: RoutineProfile) -> Named:
        """Return the paths of a routine, those of the same lines as one."""
        rows = ((path_blocks(path), _kind(path), path.count) for path in routine.path_counts)
        return self._added_up(routine, rows, repeats=False)

    def _added_up(
        self,
        routine: RoutineProfile,
        rows: Iterable[tuple[Sequence[VertexName], str, int]],
        repeats: bool,
    ) -> Named:
        first = self._lines.get(routine.address)
        total: dict[Hashable, tuple[tuple[str, ...], str, int]] = {}
        for vertices, kind, count in rows:
            if not count:
                continue
            places = [self._place(routine, first, vertex) for vertex in vertices]
            if not repeats:
                places = [place for place, _ in groupby(places)]
            keys, texts = zip(*places, strict=True) if places else ((), ())
            known = total[keys, kind][2] if (keys, kind) in total else 0
            total[keys, kind] = texts, kind, known + count
        return total

    def _place(
        self, routine: RoutineProfile, first: SourceLine | None, vertex: VertexName
    ) -> tuple[Hashable, str]:
        """Return what identifies a vertex in any build, and what it is called."""
        # Lines count from the first line of their routine, so that text inserted above it changes
        # nothing; lines of other files (inline functions) count as they are. Blocks whose lines are
        # unknown are known by their distance from the routine's start.
        if isinstance(vertex, LoopName):
            key, text = self._place(routine, first, VertexName(vertex.start, vertex.is_slot))
            return (LoopName, key), f"loop {text}"
        if not isinstance(vertex.start, int):
            return vertex.start, vertex.start
        line = self._lines.get(vertex.start)
        if line is None:
            away = f"{vertex.start - routine.address:+#x}"
            return away, away
        own = first is not None and line.file == first.file
        number = line.line - first.line if own and first is not None else line.line
        file = "" if own else PurePath(line.file).name
        return (file, number), f"{PurePath(line.file).name}:{line.line}"


# What stands behind "path" where it does not start at ENTRY, or end at EXIT: two paths of the same
# blocks may differ in nothing else.
STARTS = {
    PathStart.REENTRY: "(from re-entry)",
    PathStart.LOOP: "(after back edge)",
    PathStart.CUT: "(after cut edge)",
    PathStart.BRANCH: "(from branch)",
}
ENDS = {
    PathEnd.LOOP: "(before back edge)",
    PathEnd.CUT: "(before cut edge)",
    PathEnd.BRANCH: "(to branch)",
}


def _kind(path: PathCount) -> str:
    words = [
        "partial" if path.partial else "path",
        "" if path.start is None else STARTS.get(path.start, ""),
        "" if path.end is None else ENDS.get(path.end, ""),
        *loop_marks(path.start, path.end),
    ]
    return " ".join(filter(None, words))


def _changes(name: str, before: Named, after: Named) -> Iterable[CountDifference]:
    for key in dict.fromkeys((*after, *before)):
        steps, kind, _ = after.get(key) or before[key]
        count = tuple(side[key][2] if key in side else 0 for side in (before, after))
        if count[0] != count[1]:
            yield CountDifference(name, steps, kind, (count[0], count[1]))


def _routine(name: str, before: Side, after: Side) -> RoutineDifference | None:
    side = "after" if before is None else "before" if after is None else "both"
    first, second = (
        (0, 0, 0) if each is None else (each.activations, each.instructions, each.added)
        for each in (before, after)
    )
    if first == second:
        return None
    return RoutineDifference(name, side, *zip(first, second, strict=True))


def _size(pair: Pair) -> int:
    return -abs(pair[1] - pair[0])
