"""Characteristics of executed paths (EPP tables 2 and 3).

Conventions where EPP is silent: a path's length in edges is the number of edges between its
blocks (those from ENTRY, to EXIT and the back edge that ends it are not counted); percentages of
correctly predicted paths are of different paths, not of executions; unfinished paths are left out.

Facts of a program, by name:

============================  ======================================================================
`paths`, `executions`         different paths; their executions
`edges`, `instructions`       sums over all executions
`longest_edges`,              the greatest of one path (of two paths, possibly)
`longest_instructions`
`partial`                     executions of unfinished paths, which are not among the others
`routines`, `most_paths`      routines with an executed path; the most paths that one has
`predicted_correct`,          paths that edge counts predict to their very end; how often they
`..._correct_executions`      were executed
`predicted_edges` and so on   sums over all executions, and the greatest of one path, up to the
                              first misprediction
`definite_executions`, `flow_blocks`, `definite_blocks`
                              what follows from edge counts (`edge_flow.DefiniteFlow`)
============================  ======================================================================

A prediction (EPP table 2) starts where the path does and follows the edge crossed most often; of
edges crossed equally often the fall-through, then the first. Self-loops, which are on no path, are
not followed. A path is predicted as far as its blocks are those of the prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.graphs.cfg import ENTRIES, ControlFlowGraph, EdgeKind
from simprof.profiler.profiles.edge_flow import DefiniteFlow, definite_flow
from simprof.profiler.profiles.profile import PathCount

KEY_BYTES = 8


class RoutinePaths(Struct, frozen=True):
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
    outer = (*ENTRIES, EdgeKind.EXIT)
    return [edge for edge in path.edges if cfg.edges[edge].kind not in outer]


def path_facts(routines: Iterable[RoutinePaths], *, predict: bool) -> dict[str, int]:
    """Sum up the executed paths of a program; `predict` where the paths are acyclic (`pp`)."""
    routines = tuple(routines)
    whole = [(routine.cfg, path) for routine in routines for path in routine.whole]
    lengths = [len(inner_edges(cfg, path)) for cfg, path in whole]
    paths = [path for _, path in whole]
    by_routine = [len(routine.whole) for routine in routines]
    facts = {
        "paths": len(paths),
        "executions": sum(path.count for path in paths),
        "edges": sum(path.count * length for path, length in zip(paths, lengths, strict=True)),
        "instructions": sum(path.count * path.instructions for path in paths),
        "longest_edges": max(lengths, default=0),
        "longest_instructions": max((path.instructions for path in paths), default=0),
        "partial": sum(path.count for each in routines for path in each.paths if path.partial),
        "routines": sum(map(bool, by_routine)),
        "most_paths": max(by_routine, default=0),
    }
    if not predict:
        return facts
    flow = sum(map(_definite, routines), DefiniteFlow())
    return {
        **facts,
        **_predicted(routines),
        "definite_executions": flow.definite_executions,
        "flow_blocks": flow.blocks,
        "definite_blocks": flow.definite_blocks,
    }


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


class _Prefix(NamedTuple):
    """How far a path is predicted, and whether to its end."""

    executions: int  # Of the path
    edges: int
    instructions: int
    correct: bool


def _predicted(routines: Iterable[RoutinePaths]) -> dict[str, int]:
    found: list[_Prefix] = []
    for routine in routines:
        found += map(_Predictor(routine).follow, routine.whole)
    return {
        "predicted_correct": sum(each.correct for each in found),
        "predicted_correct_executions": sum(each.executions for each in found if each.correct),
        "predicted_edges": sum(each.executions * each.edges for each in found),
        "predicted_instructions": sum(each.executions * each.instructions for each in found),
        "predicted_longest_edges": max((each.edges for each in found), default=0),
        "predicted_longest_instructions": max((each.instructions for each in found), default=0),
    }


class _Predictor:
    """Follows the most frequent edge out of each block of one routine."""

    def __init__(self, routine: RoutinePaths) -> None:
        self._cfg = cfg = routine.cfg
        self._removed = frozenset(routine.removed)
        self._blocks = {(block.start, block.is_slot): block.id for block in cfg.blocks}

        def rank(edge: int) -> tuple[int, bool, int]:
            # the most frequent; of equals the edge not taken; then the first
            return -routine.edges[edge], cfg.edges[edge].kind is not EdgeKind.FALL_THROUGH, edge

        self._next = [
            min((e for e in out if cfg.edges[e].target != block), key=rank, default=None)
            for block, out in enumerate(cfg.out_edges[: len(cfg.blocks)])
        ]

    def follow(self, path: PathCount) -> _Prefix:
        """Return how far the prediction that starts where `path` does goes with it."""
        block = self._blocks[path.blocks[0], 0 in path.slots]  # type: ignore[index]
        instructions, length = self._cfg.blocks[block].instructions, 0
        for edge in inner_edges(self._cfg, path):
            if self._next[block] != edge:
                return _Prefix(path.count, length, instructions, False)
            block = self._cfg.edges[edge].target
            instructions += self._cfg.blocks[block].instructions
            length += 1
        return _Prefix(path.count, length, instructions, self._ends(path, self._next[block]))

    def _ends(self, path: PathCount, predicted: int | None) -> bool:
        """Whether the predicted edge out of the path's last block ends it as it did end.

        A path that does not end at EXIT may have been ended by any removed edge of that block.
        """
        last = path.edges[-1] if path.edges else None
        if last is not None and self._cfg.edges[last].kind is EdgeKind.EXIT:
            return predicted == last
        return predicted in self._removed


def path_rows(routines: Iterable[RoutinePaths]) -> dict[str, tuple[int, int]]:
    """Return the count and the instructions of every executed whole path, by key."""
    rows = {
        _key(routine.cfg, path, ordinals): (path.count, path.instructions)
        for routine in routines
        for ordinals in (_parallel(routine.cfg),)
        for path in routine.whole
    }
    return dict(sorted(rows.items()))


def iteration_rows(routines: Iterable[tuple[RoutinePaths, int]]) -> dict[str, tuple[int, int]]:
    """Return every executed path of k iterations of one loop that a back edge of it ended, by key.

    Routines come with k. What passes before the loop is part of a path.
    """
    # Schemes agree on what these paths are, and not on all shorter ones: some follow a path past
    # its loop, others end it there. Nor do they all tell parallel back edges apart: the first
    # stands for the others.
    counts: Counter[tuple[str, int]] = Counter()
    for routine, iterations in routines:
        cfg, ordinals, turns = routine.cfg, _parallel(routine.cfg), _first_turns(routine)
        tails = {cfg.edges[edge][1:3] for edge in routine.removed}
        blocks = {(block.start, block.is_slot): block.id for block in cfg.blocks}
        for path in routine.whole:
            heads = [cfg.edges[edge].target for edge in path.edges if edge in turns]
            last = blocks[path.blocks[-1], len(path.blocks) - 1 in path.slots]  # type: ignore[index]
            leaves = any(cfg.edges[edge].kind is EdgeKind.EXIT for edge in path.edges[-1:])
            whole = len(heads) == iterations - 1 and len(set(heads)) == 1
            if whole and not leaves and (last, heads[0]) in tails:
                edges = tuple(turns.get(edge, edge) for edge in path.edges)
                key = _key(cfg, replace(path, edges=edges), ordinals)
                counts[key, path.instructions] += path.count
    return {key: (count, size) for (key, size), count in sorted(counts.items())}


def _first_turns(routine: RoutinePaths) -> dict[int, int]:
    """Removed edge -> the first one with the same ends."""
    first: dict[tuple[int, int], int] = {}
    ends = {edge: routine.cfg.edges[edge] for edge in sorted(routine.removed)}
    return {e: first.setdefault((each.source, each.target), e) for e, each in ends.items()}


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
    text = repr((cfg.address, cfg.name, path.shape, edges))
    return blake2b(text.encode(), digest_size=KEY_BYTES).hexdigest()
