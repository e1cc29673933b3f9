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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from math import inf
from typing import NamedTuple

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.kiter.unrolled import (
    IteratedLoop,
    Unrolled,
    ambiguous_loops,
    full_loops,
    removed_edges,
    unroll,
    with_iterations,
)


class Choices(NamedTuple):
    """The valid edges out of a vertex by ascending compensated value."""

    values: tuple[int, ...]
    edges: tuple[int, ...]


class IterationNumbering(Struct, frozen=True, dict=True):
    """Numbers of the valid paths of an unrolled graph."""

    unrolled: Unrolled  # The numbered graph
    # num_paths, invalid_paths: By vertex (copies included).
    num_paths: tuple[int, ...]
    invalid_paths: tuple[int, ...]
    # values, compensation: val and cval by edge (copies included).
    values: tuple[int, ...]
    compensation: tuple[int, ...]

    @cached_property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """Outgoing edges by vertex, by ascending value."""
        edges = self.unrolled.out_edges
        if self.unrolled.loops:
            return edges
        paths, target = self.num_paths, self.unrolled.columns.target
        return tuple(tuple(sorted(each, key=lambda e: paths[target[e]])) for each in edges)

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

    def _is_compensated(self, edge: s.DagEdge, before: bool) -> bool:
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
        plain = [
            Choices(tuple([self.values[edge] for edge in order]), order) for order in self.order
        ]
        compensated = {
            vertex: self._compensated_choices(self.order[vertex])
            for vertex in compensated_vertices(self.unrolled)
        }
        entry = self.unrolled.cfg.entry
        plain[entry] = self._compensated_choices(self.order[entry])
        return compensated, tuple(plain)

    def _compensated_choices(self, order: tuple[int, ...]) -> Choices:
        target = self.unrolled.columns.target
        valid = [  # edges that a compensated path, or one at ENTRY, may take
            edge
            for edge in order
            if _invalid_over(self.unrolled, edge, self.num_paths, self.invalid_paths)
            < self.num_paths[target[edge]]
        ]
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
        s.check_samples(self.total, self.decode, self.encode)


def compensated_vertices(unrolled: Unrolled) -> set[int]:
    """Return the vertices that compensated paths pass."""
    full = unrolled.full_loops
    bodies = (loop.body for loop in unrolled.loops if loop.head in full)
    blocks = map(unrolled.copies_of.__getitem__, chain.from_iterable(bodies))
    return {copy for copies in blocks for copy in copies[:-1]}


def _invalid_over(
    unrolled: Unrolled, edge: int, num_paths: Sequence[int], invalid_paths: Sequence[int]
) -> int:
    """Return how many paths over `edge`, from ENTRY or one of `compensated_vertices`, are invalid
    if it is compensated (equation 2).
    """
    source, target = unrolled.columns.source[edge], unrolled.columns.target[edge]
    if edge in unrolled.leaving:
        return num_paths[target]
    if source == unrolled.cfg.entry and edge not in unrolled.compensated_dummies:
        return 0
    return invalid_paths[target]


@s.remembers_recent
def number_iterations(unrolled: Unrolled) -> IterationNumbering:
    """Give the valid paths of `unrolled` their numbers (algorithm 1)."""
    # Edges are valued in the order of their ids, as KITER's table 1 does. Without iterated loops
    # paths are EPP's and so is the order: ascending NumPaths of the targets (EPP 5.2).
    cfg, target = unrolled.cfg, unrolled.columns.target
    if not unrolled.loops:
        cuts = frozenset(unrolled.cut_edges)
        found = s.number(s.make_dag(cfg, unrolled.dfs, cuts))  # the same edges
        none = (0,) * unrolled.vertex_count, (0,) * len(target)
        return IterationNumbering(unrolled, found.num_paths, none[0], found.values, none[1])
    num_paths, values = [0] * unrolled.vertex_count, [0] * len(target)
    invalid_paths, compensation = num_paths.copy(), values.copy()
    num_paths[cfg.exit] = 1
    starts = compensated_vertices(unrolled) | {cfg.entry}  # paths are invalid only from these on
    for vertex in unrolled.order[1:]:
        paths = invalid = 0
        for edge in unrolled.out_edges[vertex]:
            values[edge], compensation[edge] = paths, invalid
            paths += num_paths[target[edge]]
            if vertex in starts:
                invalid += _invalid_over(unrolled, edge, num_paths, invalid_paths)
        num_paths[vertex], invalid_paths[vertex] = paths, invalid
    by_place = num_paths, invalid_paths, values, compensation
    return IterationNumbering(unrolled, *map(tuple, by_place))


# -- How many iterations, and which cuts, keep the number of paths in bounds
#
# KITER gives up on routines with too many paths. Here each loop gets the greatest k, up to the one
# asked for, with which no more paths than a threshold lead from any of its vertices; a loop with
# k = 1 is acyclic, and vertices outside of iterated loops are cut as EPP 5.3 does.


class Fitted(NamedTuple):
    """Which loops are iterated, and which edges cut."""

    loops: tuple[IteratedLoop, ...]
    cuts: frozenset[int]
    paths: int  # how many paths the routine has then
    most: int = 0  # A lower threshold changes nothing unless it is less


def fit(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    loops: Sequence[IteratedLoop],
    path_limit: int | None,
    total_limit: int | None,
) -> Unrolled:
    """Return the unrolled graph of what `choose` chooses."""
    chosen = choose(cfg, dfs, loops, path_limit, total_limit)
    return unroll(cfg, dfs, chosen.loops, chosen.cuts)


@s.remembers_recent
def choose(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    loops: Sequence[IteratedLoop],
    path_limit: int | None,
    total_limit: int | None,
) -> Fitted:
    """Choose the loops to iterate, with up to the k asked for, and the edges to cut, within the
    limits: as for `find_cut_edges`.
    """
    # The limit on the routine's paths is the first threshold. While it leaves the routine more, the
    # threshold is halved and the choice made again; where no loop is left with k > 1, edges are cut
    # as `pp` cuts them.
    limit: float = s.path_threshold(path_limit, total_limit) or inf
    fitter = _Fitter(cfg, dfs) if loops else None
    threshold = limit
    while fitter and (fitted := fitter.within(loops, threshold)):
        if fitted.paths <= limit:
            return fitted
        if threshold == 1:
            break
        threshold = max(threshold // 2, 1)
        while threshold > max(fitted.most, 1):  # that would change nothing
            threshold //= 2
    cuts = frozenset(s.find_cut_edges(s.make_dag(cfg, dfs), path_limit, total_limit))
    return Fitted((), cuts, s.number(s.make_dag(cfg, dfs, cuts)).total)


class _Fitter:
    """Passes over the vertices, targets before sources, choosing as they go."""

    def __init__(self, cfg: s.ControlFlowGraph, dfs: s.DepthFirst) -> None:
        self.cfg, self.dfs, self.dag = cfg, dfs, s.make_dag(cfg, dfs)
        self.targets: list[list[int]] = [[] for _ in range(cfg.vertex_count)]
        for begin, end in zip(*self.dag.columns[:2], strict=True):
            self.targets[begin].append(end)
        self.tails = Counter([cfg.ends[0][edge] for edge in dfs.back_edges - dfs.self_loops])
        self.order = [v for v in dfs.postorder if v not in (cfg.entry, cfg.exit)]
        self.ranks = {vertex: rank for rank, vertex in enumerate(dfs.postorder)}

    def within(self, loops: Iterable[IteratedLoop], threshold: float) -> Fitted | None:
        """Fit every vertex, leaving acyclic the loops whose paths would be ambiguous; None if no
        loop is left with k > 1.
        """
        usable, most = [loop for loop in loops if loop.iterations > 1], 0
        while usable:
            fitted, removed = self._fit(usable, threshold)
            if not fitted.loops:
                break
            ambiguous = ambiguous_loops(self.cfg, fitted.loops, removed)
            most = max(most, fitted.most)
            if not ambiguous:
                return fitted._replace(most=most)
            usable = [loop for loop in usable if loop.head not in ambiguous]
        return None

    def _fit(
        self, loops: Sequence[IteratedLoop], threshold: float
    ) -> tuple[Fitted, tuple[int, ...]]:
        """Choose k of all loops and edges to cut; returns the edges that are removed, too."""
        self.limit, self.most = threshold, 0
        loop_of = {vertex: loop for loop in loops for vertex in loop.body}
        self.cuts: list[int] = []
        self.iterations: dict[int, int] = {}
        self.valid: dict[int, int] = {}  # Paths from a head that make all k iterations
        self.num_paths = [0] * self.cfg.vertex_count
        self.num_paths[self.cfg.exit] = 1
        for loop, vertices in groupby(self.order, loop_of.get):
            if loop is None:
                self._fit_vertices(vertices)
            elif loop.head in vertices:  # the last of its body
                self._fit_loop(loop)
        chosen = with_iterations(loops, self.iterations)
        removed = removed_edges(self.dfs, chosen, self.cuts)
        begun = set(map(self.cfg.ends[1].__getitem__, self.cuts)) - self.dag.entry_dummy.keys()
        starts = (*self.targets[self.cfg.entry], *begun)
        heads = full_loops(self.cfg, chosen, removed)
        invalid = sum([self.num_paths[head] - self.valid[head] for head in heads])
        paths = sum([self.num_paths[vertex] for vertex in starts]) - invalid
        return Fitted(chosen, frozenset(self.cuts), paths, self.most), removed

    def _fit_loop(self, loop: IteratedLoop) -> None:
        """Choose k: as many copies, from the last backwards, as have few enough paths."""
        body = sorted(loop.body, key=self.ranks.__getitem__)
        ends, turns, last = self._ways(loop, body)
        copies, found, counts = 0, last, last
        while copies < loop.iterations:
            if copies:
                after = counts[loop.head]
                found = {vertex: ends[vertex] + turns[vertex] * after for vertex in body}
            most = max(found.values())
            if most > self.limit:
                break
            copies, counts, self.most = copies + 1, found, max(self.most, most)
        self.iterations[loop.head] = max(copies, 1)
        if copies > 1:
            for vertex, count in counts.items():
                self.num_paths[vertex] = count
            self.valid[loop.head] = turns[loop.head] ** (copies - 1) * last[loop.head]
        else:
            self._fit_vertices(body)

    def _ways(
        self, loop: IteratedLoop, body: Iterable[int]
    ) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """Count, by vertex of a copy, the paths that do not go on to the next, the ways that do,
        and the paths in the last copy, where back edges end them, as removed edges do in all.
        """
        # Where back edges leave a vertex, the acyclic graph has one edge to EXIT for all of them.
        source, num_paths = self.cfg.ends[0], self.num_paths
        tails = Counter([source[edge] for edge in loop.back_edges])
        ends: dict[int, int] = {}
        turns: dict[int, int] = {}
        last: dict[int, int] = {}
        for vertex in body:
            turn = tails[vertex]
            here, end = 0, -1 if turn and turn == self.tails[vertex] else 0
            for to in self.targets[vertex]:
                if to in loop.body:
                    end, turn, here = end + ends[to], turn + turns[to], here + last[to]
                else:
                    end, here = end + num_paths[to], here + num_paths[to]
            ends[vertex], turns[vertex], last[vertex] = end, turn, here
        return ends, turns, last

    def _fit_vertices(self, vertices: Iterable[int]) -> None:
        """Count the paths from vertices; cut their edges where they are too many (EPP 5.3)."""
        num_paths = self.num_paths
        for vertex in vertices:
            total = sum([num_paths[target] for target in self.targets[vertex]])
            if total > self.limit:
                chosen, left = s.cuts_at(self.dag, vertex)
                self.cuts += chosen
                total = left if chosen else total
            elif total > self.most:
                self.most = total
            num_paths[vertex] = total
