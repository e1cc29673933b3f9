"""Numbers of k-iteration paths (KITER 3.2, algorithms 1 and 2).

Terms
-----
val(e, i), numPaths(v)
    As in `numbering`, on the unrolled graph: `values` and `num_paths` by edge and vertex copy.
invalidPaths(v)
    How many of the paths from a vertex in copy i < k of a loop leave the loop before its k-th
    iteration is complete: a path that began at the loop's head may not (KITER section 2).
cval(e, i)
    What is taken off val(e, i) for a path that began at the head: the number of invalid paths
    over the edges before e. With it the valid paths have the numbers 0 .. n - 1.
compensated
    A path before it enters copy k of a loop at whose head it began (`Unrolled.full_loops`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph, remembers_recent
from simprof.profiler.graphs.dag import DagEdge, make_dag
from simprof.profiler.graphs.loops import DepthFirst
from simprof.profiler.graphs.numbering import check_samples, cuts_at, find_cut_edges
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop, Unrolled, unroll, with_iterations
from simprof.simulator.values import dataclass


class Choices(NamedTuple):
    """The valid edges out of a vertex by ascending compensated value."""

    values: tuple[int, ...]
    edges: tuple[int, ...]


@dataclass(frozen=True)
class IterationNumbering:
    """Numbers of the valid paths of an unrolled graph."""

    unrolled: Unrolled  # The numbered graph
    # num_paths, invalid_paths: By vertex (copies included).
    num_paths: tuple[int, ...]
    invalid_paths: tuple[int, ...]
    # values, compensation: val and cval by edge (copies included).
    values: tuple[int, ...]
    compensation: tuple[int, ...]
    order: tuple[tuple[int, ...], ...]  # Outgoing edges by vertex, by ascending value

    @property
    def total(self) -> int:
        """Number of valid paths."""
        entry = self.unrolled.cfg.entry
        return self.num_paths[entry] - self.invalid_paths[entry]

    def encode(self, path: Iterable[int]) -> int:
        """Return the number of a path given as edges from ENTRY to EXIT (equation 1)."""
        number, compensated = 0, False
        for edge in map(self.unrolled.edges.__getitem__, path):
            compensated = self._is_compensated(edge, compensated)
            number += self.values[edge.id]
            if compensated or edge.source == self.unrolled.cfg.entry:
                number -= self.compensation[edge.id]
        return number

    def _is_compensated(self, edge: DagEdge, before: bool) -> bool:
        """Whether a path is compensated on `edge`, by whether it was on the edge before."""
        source, iteration = self.unrolled.copies[edge.source]
        if source == self.unrolled.cfg.entry:
            return edge.cfg_edge is None and edge.target in self.unrolled.full_loops
        loop = self.unrolled.loop_of.get(source)
        return before and loop is not None and iteration < loop.iterations

    def decode(self, path_id: int) -> tuple[int, ...]:
        """Return the edges, from ENTRY to EXIT, of path `path_id` (algorithm 2); ValueError if
        there is no such path.
        """
        return self.decode_prefix(path_id, self.unrolled.cfg.exit)

    def decode_prefix(self, path_sum: int, last: int) -> tuple[int, ...]:
        """Return the edges of the unfinished path to vertex `last` with these values; ValueError if
        there is none.
        """
        # From each vertex some valid edge has value 0, so it begins path `path_sum` (EPP 3.6).
        name, rest = self.unrolled.cfg.name, path_sum
        if not 0 <= path_sum < self.total:
            raise ValueError(f"{name} has no path {path_sum} (paths: {self.total})")
        vertex, path, compensated = self.unrolled.cfg.entry, [], False
        while vertex != last:
            choices = self._choices(vertex, compensated)
            if not choices.edges:
                raise ValueError(f"{name}: no path of this value through {last}")
            place = bisect_right(choices.values, rest) - 1
            edge = self.unrolled.edges[choices.edges[place]]
            rest -= choices.values[place]
            path.append(edge.id)
            compensated = self._is_compensated(edge, compensated)
            vertex = edge.target
        return tuple(path)

    def _choices(self, vertex: int, compensated: bool) -> Choices:
        known = self._tables[0].get(vertex) if compensated else None
        return self._tables[1][vertex] if known is None else known

    @cached_property
    def _tables(self) -> tuple[dict[int, Choices], tuple[Choices, ...]]:
        """Choices of compensated paths, by vertex where these differ, and of other paths."""
        plain = []
        compensated = {}
        for vertex, order in enumerate(self.order):
            values = tuple(self.values[edge] for edge in order)
            plain.append(Choices(values, order))
            copy = self.unrolled.copies[vertex]
            loop = self.unrolled.loop_of.get(copy.vertex)
            if vertex == self.unrolled.cfg.entry:
                plain[-1] = self._compensated_choices(order)
            elif loop is not None and copy.iteration < loop.iterations:
                compensated[vertex] = self._compensated_choices(order)
        return compensated, tuple(plain)

    def _compensated_choices(self, order: tuple[int, ...]) -> Choices:
        valid = []  # edges that a compensated path, or one at ENTRY, may take
        for edge in map(self.unrolled.edges.__getitem__, order):
            invalid = _invalid_over(self.unrolled, edge, self.num_paths, self.invalid_paths)
            if invalid < self.num_paths[edge.target]:
                valid.append(edge.id)
        values = (self.values[edge] - self.compensation[edge] for edge in valid)
        return Choices(tuple(values), tuple(valid))

    def paths(self) -> Iterator[tuple[int, ...]]:
        """Yield the edges of every valid path, by ascending number."""
        entry, exit_vertex = self.unrolled.cfg.entry, self.unrolled.cfg.exit
        path: list[int] = []
        states = [False]
        open_edges = [iter(self._choices(entry, False).edges)]
        while open_edges:
            number = next(open_edges[-1], None)
            if number is None:
                open_edges.pop()
                states.pop()
                del path[-1:]
                continue
            edge = self.unrolled.edges[number]
            path.append(number)
            if edge.target == exit_vertex:
                yield tuple(path)
                path.pop()
            else:
                states.append(self._is_compensated(edge, states[-1]))
                open_edges.append(iter(self._choices(edge.target, states[-1]).edges))

    def validate(self) -> None:
        """Check the numbers on every vertex, and that samples survive decoding and encoding."""
        for vertex in self.unrolled.order:
            for compensated in (False, True):
                choices = self._choices(vertex, compensated)
                ascending = list(choices.values) == sorted(set(choices.values))
                assert ascending and not any(choices.values[:1]), (
                    f"the values of the edges of vertex {vertex} do not ascend from 0"
                )
        check_samples(self.total, self.decode, self.encode)


def _invalid_over(
    unrolled: Unrolled, edge: DagEdge, num_paths: Sequence[int], invalid_paths: Sequence[int]
) -> int:
    """Return how many paths over `edge` are invalid if it is compensated (equation 2)."""
    source, iteration = unrolled.copies[edge.source]
    if source == unrolled.cfg.entry:
        counts = edge.cfg_edge is None and edge.target in unrolled.full_loops
        return invalid_paths[edge.target] if counts else 0
    loop = unrolled.loop_of.get(source)
    if loop is None or iteration == loop.iterations or loop.head not in unrolled.full_loops:
        return 0
    return num_paths[edge.target] if unrolled.leaves(edge) else invalid_paths[edge.target]


@remembers_recent
def number_iterations(unrolled: Unrolled) -> IterationNumbering:
    """Give the valid paths of `unrolled` their numbers (algorithm 1)."""
    # Edges are valued in the order of their ids, as KITER's table 1 does. Without iterated loops
    # paths are EPP's and so is the order: ascending NumPaths of the targets (EPP 5.2).
    count = len(unrolled.copies)
    num_paths, invalid_paths = [0] * count, [0] * count
    values, compensation = [0] * len(unrolled.edges), [0] * len(unrolled.edges)
    order: list[tuple[int, ...]] = [()] * count
    num_paths[unrolled.cfg.exit] = 1
    target = unrolled.columns.target
    # Paths are invalid only from these on.
    starts = {
        copy for copy, (vertex, _) in enumerate(unrolled.copies) if vertex in unrolled.loop_of
    }
    starts.add(unrolled.cfg.entry)
    for vertex in unrolled.order[1:]:
        edges = unrolled.out_edges[vertex]
        if not unrolled.loops:
            edges = tuple(sorted(edges, key=lambda e: num_paths[target[e]]))
        for number in edges:
            values[number] = num_paths[vertex]
            compensation[number] = invalid_paths[vertex]
            num_paths[vertex] += num_paths[target[number]]
            if vertex in starts:
                edge = unrolled.edges[number]
                invalid_paths[vertex] += _invalid_over(unrolled, edge, num_paths, invalid_paths)
        order[vertex] = edges
    return IterationNumbering(
        unrolled,
        tuple(num_paths),
        tuple(invalid_paths),
        tuple(values),
        tuple(compensation),
        tuple(order),
    )


# -- How many iterations, and which cuts, keep the number of paths in bounds
#
# KITER gives up on routines with too many paths. Here each loop gets the greatest k, up to the one
# asked for, with which no more paths than a threshold lead from any of its vertices; a loop with
# k = 1 is acyclic, and vertices outside of iterated loops are cut as EPP 5.3 does.


def fit(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    loops: Sequence[IteratedLoop],
    path_limit: int | None,
    total_limit: int | None,
) -> Unrolled:
    """Return the unrolled graph, of loops with the k asked for, within the limits: as for
    `numbering.find_cut_edges`.
    """
    if path_limit is not None and path_limit < 1:
        raise ValueError(f"path limit {path_limit} is less than 1")
    limit = path_limit
    if path_limit is not None and total_limit is not None:
        limit = min(path_limit, total_limit)
    # The limit on the routine's paths is the first threshold. While it leaves the routine more, the
    # threshold is halved and the choice made again; where no loop is left with k > 1, edges are cut
    # as `pp` cuts them.
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
    """Fit every vertex, leaving acyclic the loops whose paths would be ambiguous; None if no loop
    is left with k > 1.
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
        self.dag = make_dag(cfg, dfs)
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
        else:
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
            elif edge in self.dfs.back_edges:
                ends = 1
            else:
                total += counts[target] if target in loop.body else self.num_paths[target]
        return total + ends

    def _fit_vertex(self, vertex: int) -> None:
        """Count the paths from a vertex; cut its edges where they are too many (EPP 5.3)."""
        target = self.dag.columns.target
        total = sum([self.num_paths[target[edge]] for edge in self.dag.out_edges[vertex]])
        if self.limit is not None and total > self.limit and vertex != self.cfg.entry:
            chosen, left = cuts_at(self.dag, vertex)
            self.cuts += chosen
            total = left if chosen else total
        self.num_paths[vertex] = total
