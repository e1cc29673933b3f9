"""Characteristics of executed paths (EPP tables 2 and 3).

Conventions where EPP is silent: a path's length in edges is the number of edges between its
blocks (those from ENTRY, to EXIT and the back edge that ends it are not counted); percentages of
correctly predicted paths are of different paths, not of executions; unfinished paths are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from simprof.profiler.experiments.cells.cells import PathFacts, PathRow, PredictedPaths
from simprof.profiler.graphs.cfg import ControlFlowGraph, EdgeKind
from simprof.profiler.profiles.accuracy import DefiniteFlow, definite_flow
from simprof.profiler.profiles.profile import PathCount

KEY_BYTES = 8


@dataclass(frozen=True)
class RoutinePaths:
    """The paths that one routine executed."""

    cfg: ControlFlowGraph  # Its graph
    # What `pp` (or another mode) counted; `PathCount.edges` are edge ids of `cfg`.
    paths: Sequence[PathCount]
    edges: Sequence[int]  # Exact count by edge id
    # Ids of the edges that end paths, self-loops excepted: back edges and cut edges.
    removed: Collection[int] = ()

    @property
    def whole(self) -> list[PathCount]:
        """The finished paths that were executed."""
        return [path for path in self.paths if not path.partial and path.count]


def inner_edges(cfg: ControlFlowGraph, path: PathCount) -> list[int]:
    """Return the ids of a path's edges between blocks, in order."""
    outer = (EdgeKind.ENTRY, EdgeKind.EXIT)
    return [edge for edge in path.edges if cfg.edges[edge].kind not in outer]


def path_facts(routines: Iterable[RoutinePaths], *, predict: bool) -> PathFacts:
    """Sum up the executed paths of a program; `predict` where the paths are acyclic (`pp`)."""
    paths = executions = edges = instructions = partial = executed = 0
    longest_edges = longest_instructions = most = 0
    tally, definite = _Tally(), DefiniteFlow()
    for routine in routines:
        partial += sum(path.count for path in routine.paths if path.partial)
        whole = routine.whole
        executed += bool(whole)
        most = max(most, len(whole))
        predictor = _Predictor(routine) if predict else None
        if predict:
            definite += _definite(routine)
        for path in whole:
            length = len(inner_edges(routine.cfg, path))
            paths += 1
            executions += path.count
            edges += path.count * length
            instructions += path.count * path.instructions
            longest_edges = max(longest_edges, length)
            longest_instructions = max(longest_instructions, path.instructions)
            if predictor is not None:
                tally.add(path.count, predictor.follow(path))
    return PathFacts(
        paths=paths,
        executions=executions,
        edges=edges,
        instructions=instructions,
        longest_edges=longest_edges,
        longest_instructions=longest_instructions,
        partial=partial,
        routines=executed,
        most_paths=most,
        predicted=tally.result() if predict else None,
        definite=definite if predict else None,
    )


def _definite(routine: RoutinePaths) -> DefiniteFlow:
    """Return what the routine's edge counts alone tell of its paths."""
    cfg = routine.cfg
    blocks: dict[tuple[int | str, bool], int] = {
        (block.start, block.is_slot): block.id for block in cfg.blocks
    }
    paths = (
        (blocks[path.blocks[0], 0 in path.slots], path.edges, path.count) for path in routine.whole
    )
    return definite_flow(cfg, routine.removed, routine.edges, paths)


@dataclass(frozen=True)
class _Prefix:
    """How far a path is predicted, and whether to its end."""

    edges: int
    instructions: int
    correct: bool


@dataclass
class _Tally:
    """Sums over predicted paths."""

    correct: int = 0
    correct_executions: int = 0
    edges: int = 0
    instructions: int = 0
    longest_edges: int = 0
    longest_instructions: int = 0

    def add(self, count: int, prefix: _Prefix) -> None:
        """Add a path that was executed `count` times."""
        self.correct += prefix.correct
        self.correct_executions += count * prefix.correct
        self.edges += count * prefix.edges
        self.instructions += count * prefix.instructions
        self.longest_edges = max(self.longest_edges, prefix.edges)
        self.longest_instructions = max(self.longest_instructions, prefix.instructions)

    def result(self) -> PredictedPaths:
        """Return the sums."""
        return PredictedPaths(
            self.correct,
            self.correct_executions,
            self.edges,
            self.instructions,
            self.longest_edges,
            self.longest_instructions,
        )


class _Predictor:
    """Follows the most frequent edge out of each block of one routine."""

    def __init__(self, routine: RoutinePaths) -> None:
        self._cfg = routine.cfg
        self._removed = frozenset(routine.removed)
        self._blocks = {(block.start, block.is_slot): block.id for block in routine.cfg.blocks}
        self._next = [self._favourite(block.id, routine.edges) for block in routine.cfg.blocks]

    def _favourite(self, block: int, counts: Sequence[int]) -> int | None:
        """Return the predicted edge out of a block, None where there is none."""
        edges = self._cfg.edges
        candidates = [e for e in self._cfg.out_edges[block] if edges[e].target != block]
        return min(candidates, key=lambda e: _rank(counts[e], edges[e].kind, e), default=None)

    def follow(self, path: PathCount) -> _Prefix:
        """Return how far the prediction that starts where `path` does goes with it."""
        block = self._blocks[path.blocks[0], 0 in path.slots]  # type: ignore[index]
        instructions, length = self._cfg.blocks[block].instructions, 0
        for edge in inner_edges(self._cfg, path):
            if self._next[block] != edge:
                return _Prefix(length, instructions, False)
            block = self._cfg.edges[edge].target
            instructions += self._cfg.blocks[block].instructions
            length += 1
        return _Prefix(length, instructions, self._ends(path, self._next[block]))

    def _ends(self, path: PathCount, predicted: int | None) -> bool:
        """Whether the predicted edge out of the path's last block ends it as it did end.

        A path that does not end at EXIT may have been ended by any removed edge of that block.
        """
        last = path.edges[-1] if path.edges else None
        if last is not None and self._cfg.edges[last].kind is EdgeKind.EXIT:
            return predicted == last
        return predicted in self._removed


def _rank(count: int, kind: EdgeKind, edge: int) -> tuple[int, bool, int]:
    """Order of preference: the most frequent; of equals the edge not taken; then the first."""
    return (-count, kind is not EdgeKind.FALL_THROUGH, edge)


def path_rows(routines: Iterable[RoutinePaths]) -> tuple[PathRow, ...]:
    """Return every executed whole path, by key."""
    rows = (
        PathRow(_key(routine.cfg, path, ordinals), path.count, path.instructions)
        for routine in routines
        for ordinals in (_parallel(routine.cfg),)
        for path in routine.whole
    )
    return tuple(sorted(rows, key=lambda row: row.key))


def _parallel(cfg: ControlFlowGraph) -> dict[int, int]:
    """Edge id -> how many edges of its kind between the same vertices come before it."""
    seen: dict[tuple[int, int, EdgeKind], int] = {}
    ordinals = {}
    for edge in cfg.edges:
        ends = (edge.source, edge.target, edge.kind)
        ordinals[edge.id] = seen.get(ends, 0)
        seen[ends] = ordinals[edge.id] + 1
    return ordinals


def _key(cfg: ControlFlowGraph, path: PathCount, ordinals: dict[int, int]) -> str:
    """Digest of a path by addresses, so that graphs that a run extended do not change it.

    The kinds of its edges tell parallel ones apart, and whether it starts at ENTRY, ends at EXIT.
    """
    edges = [f"{cfg.edges[edge].kind}{ordinals[edge]}" for edge in path.edges]
    text = repr((cfg.address, cfg.name, path.blocks, path.slots, edges))
    return blake2b(text.encode(), digest_size=KEY_BYTES).hexdigest()
