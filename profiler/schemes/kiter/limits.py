"""How many iterations, and which cuts, keep the number of k-iteration paths in bounds.

KITER gives up on routines with too many paths. Here each loop gets the greatest k, up to the one
asked for, with which no more paths than a threshold lead from any of its vertices; a loop with
k = 1 is acyclic, and vertices outside of iterated loops are cut as EPP 5.3 does. The limit on the
routine's paths is the first threshold. While it leaves the routine more, the threshold is halved
and the choice made again; where no loop is left with k > 1, edges are cut as `pp` cuts them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, make_dag
from simprof.profiler.graphs.loops import DepthFirst
from simprof.profiler.graphs.numbering import cuts_at, find_cut_edges
from simprof.profiler.schemes.kiter.numbering import number_iterations
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop, Unrolled, unroll, with_iterations


def fit(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    loops: Sequence[IteratedLoop],
    path_limit: int | None,
    total_limit: int | None,
) -> Unrolled:
    """Return the unrolled graph within the limits.

    `loops`: The loops to iterate, with the k asked for. `path_limit`, `total_limit`: See
    `numbering.find_cut_edges`; None for `path_limit`: no limit.
    """
    if path_limit is not None and path_limit < 1:
        raise ValueError(f"path limit {path_limit} is less than 1")
    limits = [each for each in (path_limit, total_limit) if each is not None]
    limit = min(limits) if path_limit is not None else None
    threshold = limit
    while True:
        unrolled = _within(cfg, dfs, loops, threshold)
        if unrolled is None:
            return unroll(cfg, dfs, (), find_cut_edges(make_dag(cfg, dfs), path_limit, total_limit))
        if limit is None or threshold is None or number_iterations(unrolled).total <= limit:
            return unrolled
        if threshold == 1:
            loops = ()
        threshold = max(threshold // 2, 1)


def _within(
    cfg: ControlFlowGraph, dfs: DepthFirst, loops: Sequence[IteratedLoop], threshold: int | None
) -> Unrolled | None:
    """Fit every vertex, leaving acyclic the loops whose paths would be ambiguous.

    None if no loop is left with k > 1.
    """
    left: set[int] = set()
    while True:
        usable = [loop for loop in loops if loop.head not in left and loop.iterations > 1]
        chosen, cuts = _Fitter(cfg, dfs, usable, threshold).fit() if usable else ((), ())
        if not chosen:
            return None
        unrolled = unroll(cfg, dfs, chosen, cuts)
        if not unrolled.ambiguous_loops:
            return unrolled
        left |= unrolled.ambiguous_loops


class _Fitter:
    """One pass over the vertices, targets before sources, choosing as it goes."""

    def __init__(
        self,
        cfg: ControlFlowGraph,
        dfs: DepthFirst,
        loops: Sequence[IteratedLoop],
        limit: int | None,
    ) -> None:
        self.cfg, self.dfs, self.limit = cfg, dfs, limit
        self.loops = {loop.head: loop for loop in loops}
        self.loop_of = {vertex: loop for loop in loops for vertex in loop.body}
        self.dag: Dag = make_dag(cfg, dfs)
        self.removed = {*self.dag.removed}
        self.num_paths = [0] * cfg.vertex_count
        self.num_paths[cfg.exit] = 1
        self.cuts: list[int] = []
        self.iterations: dict[int, int] = {}
        self.ranks = {vertex: rank for rank, vertex in enumerate(dfs.postorder)}

    def fit(self) -> tuple[tuple[IteratedLoop, ...], Collection[int]]:
        """Return the loops to iterate and the edges to cut."""
        for vertex in self.dfs.postorder:
            loop = self.loops.get(vertex)
            if loop is not None:
                self._fit_loop(loop)
            elif vertex not in self.loop_of and vertex != self.cfg.exit:
                self._fit_vertex(vertex)
        return with_iterations(self.loops.values(), self.iterations), self.cuts

    def _fit_loop(self, loop: IteratedLoop) -> None:
        """Choose k: as many copies, from the last backwards, as have few enough paths."""
        body = sorted(loop.body, key=self.ranks.__getitem__)
        copies: list[Mapping[int, int]] = []
        while len(copies) < loop.iterations:
            after = copies[-1][loop.head] if copies else None
            counts: dict[int, int] = {}
            for vertex in body:
                counts[vertex] = self._paths_in_copy(vertex, loop, counts, after)
            if self.limit is not None and max(counts.values()) > self.limit:
                break
            copies.append(counts)
        self.iterations[loop.head] = max(len(copies), 1)
        if len(copies) > 1:
            for vertex, count in copies[-1].items():
                self.num_paths[vertex] = count
            return
        for vertex in body:
            self._fit_vertex(vertex)

    def _paths_in_copy(
        self, vertex: int, loop: IteratedLoop, counts: Mapping[int, int], after: int | None
    ) -> int:
        """Count the paths from a vertex in one copy; `after` are those from the next one's head."""
        # In the last copy `after` is None: a back edge ends a path there, as removed edges do.
        total, ends = 0, 0
        for edge in self.cfg.out_edges[vertex]:
            target = self.cfg.edges[edge].target
            if edge in self.dfs.self_loops:
                continue
            if edge in loop.back_edges:
                total += after or 0
                ends = 1 if after is None else ends
            elif edge in self.removed:
                ends = 1
            else:
                total += counts[target] if target in loop.body else self.num_paths[target]
        return total + ends

    def _fit_vertex(self, vertex: int) -> None:
        """Count the paths from a vertex; cut its edges where they are too many (EPP 5.3)."""
        edges = [self.dag.edges[edge] for edge in self.dag.out_edges[vertex]]
        total = sum(self.num_paths[edge.target] for edge in edges)
        if self.limit is not None and total > self.limit and vertex != self.cfg.entry:
            chosen, left = cuts_at(self.dag, vertex)
            self.cuts += chosen
            total = left if chosen else total
        self.num_paths[vertex] = total
