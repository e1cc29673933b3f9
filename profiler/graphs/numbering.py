"""Path numbering: NumPaths, Val, truncation, and ways between paths and their numbers.

Terms (EPP, section 3.2)
------------------------
NumPaths(v)
    Number of paths from v to EXIT in the acyclic graph.
Val(e)
    Value of an edge; the values of a path from ENTRY to EXIT add up to its number, and the
    numbers are 0 .. NumPaths(ENTRY) - 1, each exactly once.

Steps: `find_cut_edges` (EPP 5.3) -> `number` (EPP figure 5, successors with the most paths last,
EPP 5.2) -> `PathNumbering.encode`, `decode` (EPP 3.5), `decode_prefix` (EPP 3.6).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph, remembers_recent
from simprof.profiler.graphs.columns import columns_of
from simprof.profiler.graphs.dag import Dag, known_columns, make_dag
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.plan_calls import LIMIT, call

# Paths of a routine beyond which edges are cut. EPP 5.3 has this number for a vertex.
PATH_LIMIT = 100_000_000

# Greatest number of paths of a routine whose numbers fit a signed 32-bit register.
TOTAL_LIMIT = 2**31 - 1


_FEW = 6  # Edges of a vertex that are looked at one by one


class SuccessorOrder(StrEnum):
    """The order in which a vertex's outgoing edges get their values."""

    FEWEST = "fewest"  # paths behind them first, ties in the order of edge ids (EPP 5.2)
    FILE = "file"  # of edge ids, as in papers' figures
    WEIGHTS = "weights"  # heaviest first, then as FEWEST


class PathNumbering(Struct, frozen=True, dict=True):
    """Numbers of the paths of a dag."""

    dag: Dag  # The numbered graph
    num_paths: tuple[int, ...]  # NumPaths by vertex, exact; 0 for vertices that cannot be reached.
    values: tuple[int, ...]  # Val by dag edge
    rule: SuccessorOrder = SuccessorOrder.FEWEST

    @cached_property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """By vertex, its outgoing dag edges by ascending value."""
        first, edges = self.sorted
        return tuple(tuple(edges[begin:end]) for begin, end in pairwise(first))

    @cached_property
    def sorted(self) -> tuple[Sequence[int], Sequence[int]]:
        """The same, one behind the other, those of v from `[0][v]` to `[0][v + 1]`."""
        edges = [sorted(each, key=self.values.__getitem__) for each in self.dag.out_edges]
        return tuple(accumulate(map(len, edges), initial=0)), tuple(chain.from_iterable(edges))

    @property
    def total(self) -> int:
        """Number of paths of the routine."""
        return self.num_paths[self.dag.cfg.entry]

    def encode(self, path: Iterable[int]) -> int:
        """Return the number of a path given as dag edges from ENTRY to EXIT."""
        return sum(self.values[edge] for edge in path)

    def decode(self, path_id: int) -> tuple[int, ...]:
        """Return the dag edges, from ENTRY to EXIT, of path `path_id` (EPP 3.5); ValueError if
        there is no such path.
        """
        return self.decode_prefix(path_id, self.dag.cfg.exit)

    def paths(self) -> Iterator[tuple[int, ...]]:
        """Yield the dag edges of every path, by ascending number."""
        path: list[int] = []
        open_edges = [iter(self.order[self.dag.cfg.entry])]
        while open_edges:
            edge = next(open_edges[-1], None)
            if edge is None:
                open_edges.pop()
                del path[-1:]
                continue
            path.append(edge)
            target = self.dag.columns.target[edge]
            if target == self.dag.cfg.exit:
                yield tuple(path)
                path.pop()
            else:
                open_edges.append(iter(self.order[target]))

    def blocks_of_all_paths(self) -> int:
        """Return how many blocks all paths have, together."""
        ways, target = [0] * self.dag.cfg.vertex_count, self.dag.columns.target
        ways[self.dag.cfg.entry] = 1
        for vertex in self.dag.topological:
            for edge in self.dag.out_edges[vertex]:
                ways[target[edge]] += ways[vertex]
        return sum(ways[block.id] * self.num_paths[block.id] for block in self.dag.cfg.blocks)

    def decode_prefix(self, path_sum: int, last: int) -> tuple[int, ...]:
        """Return the dag edges of the unfinished path to `last` with values `path_sum`; ValueError
        if that path does not lead through `last`.
        """
        # Each vertex has an outgoing edge of value 0, so the unfinished path can be continued at no
        # value: it is the beginning of path `path_sum`.
        if not 0 <= path_sum < self.total:
            raise ValueError(f"{self.dag.cfg.name} has no path {path_sum} (paths: {self.total})")
        vertex, rest, path = self.dag.cfg.entry, path_sum, []
        target, values = self.dag.columns.target, self.values
        first, edges = self.sorted
        while vertex != last:
            begin, end = first[vertex], first[vertex + 1]
            if begin == end:
                raise ValueError(f"{self.dag.cfg.name}: no path of this value through {last}")
            at = end - 1
            if end - begin > _FEW:
                at = bisect_right(edges, rest, begin, end, key=values.__getitem__) - 1
            while at > begin and values[edges[at]] > rest:
                at -= 1
            edge = edges[at]
            path.append(edge)
            rest -= values[edge]
            vertex = target[edge]
        return tuple(path)

    def validate(self) -> None:
        """Check the numbering on every vertex and on samples of its paths; AssertionError if a
        vertex's values do not tile 0 .. NumPaths - 1, or a number does not survive decoding and
        encoding.
        """
        for vertex in self.dag.topological:
            covered = 0
            for edge in self.order[vertex]:
                assert self.values[edge] == covered, (
                    f"the value of dag edge {edge} is not {covered}"
                )
                covered += self.num_paths[self.dag.columns.target[edge]]
            assert vertex == self.dag.cfg.exit or covered == self.num_paths[vertex], (
                f"NumPaths of vertex {vertex} is not {covered}"
            )
        check_samples(self.total, self.decode, self.encode)


def check_samples(
    total: int, decode: Callable[[int], tuple[int, ...]], encode: Callable[[tuple[int, ...]], int]
) -> None:
    """Check that samples of the paths 0 .. total - 1 survive decoding and encoding."""
    for path_id in (*range(0, total, max(total // 64, 1)), total - 1):
        assert encode(decode(path_id)) == path_id, (
            f"path {path_id} is encoded as another number than it was decoded from"
        )


@remembers_recent
def number(dag: Dag) -> PathNumbering:
    """Give the paths of `dag` their numbers (EPP figure 5).

    A vertex's outgoing edges are valued in ascending order of their targets' NumPaths, which
    makes the greatest value least (EPP 5.2); ties stay in the order of edge ids. Where the graph is
    `ordered`, all are in that order.
    """
    known = known_columns(dag)
    if known is not None and known.most < LIMIT:
        return numbering_of(dag, *known.numbers())
    vertices, edges = dag.vertex_count, len(dag.columns.source)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.EXIT: dag.cfg.exit}
    order = dag.topological
    found = call(
        k.number,
        size | {k.REACHED: len(order)},
        *(dag.columns.source, dag.columns.target, order),
        *(vertices + 1, edges, edges, edges, vertices, edges),
    )
    return numbering_of(dag, *map(found, (4, 5, 8, 9)))


def numbering_of(
    dag: Dag,
    first: Sequence[int],
    edges: Sequence[int],
    paths: Iterable[int],
    values: Iterable[int],
) -> PathNumbering:
    """Return the numbers that have been found; the first two are `PathNumbering.sorted`."""
    if dag.cfg.ordered:
        return _number_by(dag, tuple(paths), SuccessorOrder.FILE, None)
    made = PathNumbering(dag, tuple(paths), tuple(values))
    made.__dict__["sorted"] = first, edges
    return made


def number_by_weight(dag: Dag, weights: Sequence[float]) -> PathNumbering:
    """Give the paths of `dag` numbers such that the heaviest edge out of each vertex has value 0,
    and lighter ones greater values (smart numbering); `weights` by control-flow edge.
    """
    # Equal weights: as `number` orders them.
    by_edge = dag.edge_weights(weights)
    return number_by(dag, SuccessorOrder.WEIGHTS, lambda edge, paths: (-by_edge[edge], paths))


Rank = Callable[[int, int], tuple[float, ...]]


def number_by(dag: Dag, rule: SuccessorOrder, rank: Rank | None) -> PathNumbering:
    """Give the paths of `dag` numbers such that edges out of a vertex have values that ascend with
    their `rank`, by an edge and the number of paths behind it; None: with their ids.
    """
    return _number_by(dag, number(dag).num_paths, rule, rank)


def _number_by(
    dag: Dag, paths: tuple[int, ...], rule: SuccessorOrder, rank: Rank | None
) -> PathNumbering:
    # Any order of the edges out of a vertex gives the numbers 0 .. NumPaths - 1.
    target = dag.columns.target
    values = [0] * len(target)
    for edges in dag.out_edges:
        covered, ranked = 0, edges
        if rank is not None:
            ranked = tuple(sorted(edges, key=lambda edge: rank(edge, paths[target[edge]])))
        for edge in ranked:
            values[edge] = covered
            covered += paths[target[edge]]
    return PathNumbering(dag, paths, tuple(values), rule)


@remembers_recent
def find_cut_edges(
    dag: Dag,
    path_limit: int | None = PATH_LIMIT,
    total_limit: int | None = TOTAL_LIMIT,
    per_vertex: bool = False,
) -> tuple[int, ...]:
    """Choose the edges to cut so that a routine has few enough paths (EPP 5.3), ascending.

    - `dag`: Without cut edges.
    - `path_limit`: The most paths that the routine may have. None never cuts.
    - `total_limit`: A second limit: whichever is less holds.
    - `per_vertex`: Whether `path_limit` is not the routine's, but each vertex's, as in EPP 5.3: the
      routine may have more paths, up to `total_limit`.
    """
    threshold = path_threshold(path_limit, total_limit)
    if not threshold:
        return ()
    known = known_columns(dag)
    if known is not None and min(known.most, threshold) < LIMIT:
        most = known.most
    else:
        most = max(number(dag).num_paths)
    if most <= threshold:  # nearly always
        return ()
    return choose_cuts(dag, threshold, total_limit, per_vertex)


def path_threshold(path_limit: int | None, total_limit: int | None) -> int:
    """Return the most paths that may lead from a vertex before edges are cut; 0: any number."""
    if path_limit is None:
        return 0
    if path_limit < 1:
        raise ValueError(f"path limit {path_limit} is less than 1")
    return path_limit if total_limit is None else min(path_limit, total_limit)


def choose_cuts(
    dag: Dag, threshold: int, total_limit: int | None, per_vertex: bool
) -> tuple[int, ...]:
    """Choose the edges to cut of a graph with a vertex from which more than `threshold` lead."""
    most = total_limit or 0 if per_vertex else threshold
    return _truncate(dag, threshold, most).cut_edges


class Truncation(NamedTuple):
    """What a threshold does to a routine."""

    threshold: int  # paths from one vertex beyond which its outgoing edges are cut
    cut_edges: tuple[int, ...]  # control-flow edge ids, ascending
    paths: int  # how many paths the routine has then


def cuts_at(dag: Dag, vertex: int) -> tuple[list[int], int]:
    """Return the edges of a vertex that can be cut, and how many paths lead from it then."""
    edges, (_, target, cfg_edge, *_) = dag.out_edges[vertex], dag.columns
    real = [cfg_edge[edge] for edge in edges if target[edge] != dag.cfg.exit]
    chosen = [edge for edge in real if edge >= 0]
    # What is left: edges to EXIT, and one dummy edge to EXIT, which a vertex that is the source of
    # back edges has already (its target is EXIT, so it counts).
    dummy = 0 if vertex in dag.exit_dummy else 1
    return chosen, len(edges) - len(chosen) + dummy


def truncate(dag: Dag, threshold: int) -> Truncation:
    """Cut all outgoing edges of each vertex from which too many paths lead (EPP 5.3)."""
    # A cut changes NumPaths of its vertex and of those before it only, so one pass in reverse
    # topological order, cutting as it goes, equals a fresh run after every cut.
    # Edges to EXIT, which end a path anyway, are not cut, nor those of ENTRY.
    # `dag`: Without cut edges.
    # `threshold`: The most paths that may lead from a vertex.
    return _truncate(dag, threshold, 0)


def _truncate(dag: Dag, threshold: int, most: int) -> Truncation:
    columns, order = dag.columns, dag.topological
    vertices, edges = dag.vertex_count, len(columns.source)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: dag.cfg.entry, k.EXIT: dag.cfg.exit}
    found = call(
        k.choose_cuts,
        size | {k.REACHED: len(order), k.THRESHOLD: threshold, k.MOST: most},
        *(columns.source, columns.target, columns.cfg_edge, order),
        *(vertices + 1, edges, vertices, vertices, edges),
    )
    chosen, cuts = found(0), found(9)
    cut_edges = tuple(sorted(cuts[: chosen[k.COUNT]]))
    return Truncation(chosen[k.THRESHOLD], cut_edges, chosen[k.PATHS])


class GraphFacts(Struct, frozen=True):
    """Facts about one control-flow graph."""

    # blocks, edges: How many there are; edges from ENTRY and to EXIT are counted too.
    blocks: int
    edges: int
    # How many edges the depth-first search finds to lead back, self-loops among them
    back_edges: int
    irreducible: bool  # Whether the target of some back edge does not dominate its source
    # How many acyclic paths lead through the graph before any edge is cut (EPP, section 3.2)
    potential_paths: int


def graph_facts(cfg: ControlFlowGraph) -> GraphFacts:
    """Return the facts about `cfg`."""
    columns = columns_of(cfg)
    _, _, back, proper = columns.search()
    paths = columns.found.paths[columns.vertices][cfg.entry]
    if columns.most == LIMIT:
        paths = number(make_dag(cfg, depth_first(cfg))).total
    return GraphFacts(len(cfg.blocks), len(cfg.edges), len(back), not all(proper), paths)


# -- Sums of values along paths
#
# Sums of values along the paths of an acyclic graph.


MOST_SUMS = 1 << 16  # Sums that `sums_within` looks at


def bounds(dag: Dag, values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return by vertex the least and the greatest sum of values of a way from there to EXIT."""
    least, most = [0] * dag.cfg.vertex_count, [0] * dag.cfg.vertex_count
    for vertex in reversed(dag.topological):
        if ways := [(values[edge], dag.columns.target[edge]) for edge in dag.out_edges[vertex]]:
            least[vertex] = min(value + least[target] for value, target in ways)
            most[vertex] = max(value + most[target] for value, target in ways)
    return least, most


def least_before(dag: Dag, values: Sequence[int]) -> list[int]:
    """Return by vertex the least sum of values of a way from ENTRY to there."""
    least: dict[int, int] = {dag.cfg.entry: 0}
    for vertex in dag.topological:
        for edge in dag.out_edges[vertex]:
            target, total = dag.columns.target[edge], least[vertex] + values[edge]
            least[target] = min(least.get(target, total), total)
    return [least.get(vertex, 0) for vertex in range(dag.cfg.vertex_count)]


def sums_within(dag: Dag, values: Sequence[int], size: int) -> Counter[int] | None:
    """Return how many paths have each of the sums 0 .. size - 1; None: too many to tell."""
    least, most = bounds(dag, values)
    sums = defaultdict[int, Counter[int]](Counter, {dag.cfg.entry: Counter([0])})
    looked_at = 0
    for vertex in dag.topological:
        looked_at += len(sums[vertex]) * len(dag.out_edges[vertex])
        if looked_at > MOST_SUMS:
            return None
        for edge in dag.out_edges[vertex]:
            value, target = values[edge], dag.columns.target[edge]
            for known, ways in sums[vertex].items():
                total = known + value
                # others cannot come to such a sum any more
                if total + most[target] >= 0 and total + least[target] < size:
                    sums[target][total] += ways
    return sums[dag.cfg.exit]
