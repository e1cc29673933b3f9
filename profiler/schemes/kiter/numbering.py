"""Numbers of k-iteration paths, and how many iterations keep them few (KITER 3.2, algorithms 1, 2).

Terms
-----
invalidPaths(v)
    How many of the paths from a vertex in copy i < k of a loop leave the loop before its k-th
    iteration is complete: a begun path may not (KITER section 2).
val(e, i), cval(e, i)
    val is a path's value on an edge, as in `PathNumbering`, and cval what is taken off it for a
    begun path: the number of invalid paths over the edges before e. With it the valid paths have
    the numbers 0 .. n - 1.

Here begun paths have vertices of their own (`valid_graph`), so that invalid paths are none, and
numbers and paths come from each other as those of acyclic paths do: what the paper calls val - cval
is the value of an edge of begun paths.

Steps: `fit_regions` chooses k and cuts; `valid_graph` makes the graph of the valid paths, which
`number_iterations` numbers (algorithm 1); `algorithm_1` tells what the paper's tables have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby
from math import inf
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.kiter.graph import IterationGraph, unroll
from simprof.profiler.schemes.kiter.loops import IteratedLoop, NestedLoop, PathRegion, divide

# -- The valid paths


class ValidPaths(NamedTuple):
    """A graph whose paths are the valid ones of an unrolled graph."""

    graph: s.Dag
    unrolled_edge: Sequence[int]  # By edge: that of the unrolled graph
    begun: Mapping[int, int]  # Vertex of the unrolled graph -> the one that begun paths pass
    begun_edges: range  # The edges that begun paths are on


def valid_graph(graph: IterationGraph) -> ValidPaths:
    """Return the graph of the valid paths: begun paths have copies of their own of the copies 1 ..
    k - 1 of a loop, which no edge leaves but to copy k.
    """
    source, target, cfg_edge, first, standing = graph.columns
    if not graph.loops:
        dag = s.make_dag(graph.cfg, graph.dfs, graph.cut_edges)  # the same edges
        return ValidPaths(dag, range(len(source)), {}, range(0))
    begun: dict[int, int] = {}
    beyond: dict[int, int] = {}  # Vertices of begun paths, and of copy k -> the loop's head
    for loop in graph.loops:
        if loop.head in graph.full_loops:
            copies = [graph.copies_of[vertex] for vertex in sorted(loop.body)]
            beyond |= dict.fromkeys(chain.from_iterable(copies), loop.head)
            for vertex in chain.from_iterable(each[:-1] for each in copies):
                begun[vertex] = graph.vertex_count + len(begun)
    real = graph.dummy_ids.start
    inside = [
        edge
        for edge in range(real)
        if source[edge] in begun and beyond[source[edge]] == beyond.get(target[edge])
    ]
    heads = {graph.entry_dummy[head] for head in graph.full_loops}
    columns = s.DagColumns(
        [*source[:real], *(begun[source[edge]] for edge in inside), *source[real:]],
        [
            *target[:real],
            *(begun.get(target[edge], target[edge]) for edge in inside),
            *(begun[target[e]] if e in heads else target[e] for e in graph.dummy_ids),
        ],
        [*cfg_edge[:real], *(cfg_edge[edge] for edge in inside), *cfg_edge[real:]],
        first,
        standing,
    )
    both = ((vertex, begun[vertex]) if vertex in begun else (vertex,) for vertex in graph.order)
    made = replace(
        graph,
        columns=columns,
        vertex=[*graph.vertex, *map(graph.vertex.__getitem__, begun)],
        copy=[*graph.copy, *map(graph.copy.__getitem__, begun)],
        region=[*graph.region, *map(graph.region.__getitem__, begun)],
        order=tuple(chain.from_iterable(both)),
    )
    unrolled_edge = [*range(real), *inside, *graph.dummy_ids]
    return ValidPaths(made, unrolled_edge, begun, range(real, real + len(inside)))


class IterationNumbering(NamedTuple):
    """Numbers of the valid paths of an unrolled graph."""

    valid: ValidPaths
    numbers: s.PathNumbering  # Of the paths of `valid.graph`
    first: tuple[int, ...]  # By region the number of its first path
    # values, compensation: By edge of the unrolled graph: val, at ENTRY from the region's first
    # path on and less cval; and cval of the edges that begun paths are on.
    values: list[int]
    compensation: list[int]

    @property
    def total(self) -> int:
        """Number of valid paths."""
        return self.numbers.total

    def decode(self, path_id: int) -> tuple[int, ...]:
        """Return the edges of the unrolled graph, from ENTRY to EXIT, of path `path_id` (algorithm
        2); ValueError if there is no such path.
        """
        return self._unrolled(self.numbers.decode(path_id))

    def decode_prefix(self, path_sum: int, last: int) -> tuple[int, ...]:
        """Return the edges of the unfinished path to vertex `last` with these values (EPP 3.6);
        ValueError if there is none.
        """
        return self._unrolled(self.numbers.decode_prefix(path_sum, last))

    def paths(self) -> Iterator[tuple[int, ...]]:
        """Yield the edges of every valid path, by ascending number."""
        return map(self._unrolled, self.numbers.paths())

    def _unrolled(self, path: Iterable[int]) -> tuple[int, ...]:
        return tuple(map(self.valid.unrolled_edge.__getitem__, path))


@s.remembers_recent
def number_iterations(graph: IterationGraph) -> IterationNumbering:
    """Give the valid paths of an unrolled graph their numbers (algorithm 1)."""
    # Edges are valued in the order of their ids, as KITER's table 1 does. In regions without
    # iterated loops paths are EPP's and so is the order: ascending NumPaths of the targets (EPP
    # 5.2). The numbers of one region follow those of the region before.
    valid = valid_graph(graph)
    if not graph.loops:
        numbers = s.number(valid.graph)
        return IterationNumbering(
            valid, numbers, (0,), [*numbers.values], [0] * len(numbers.values)
        )
    (source, target, *_), entry = valid.graph.columns, graph.cfg.entry
    in_order = [bool(each.loops) or graph.cfg.ordered for each in graph.regions]
    region = [*graph.region, *map(graph.region.__getitem__, valid.begun)]

    def rank(edge: int, paths: int) -> tuple[int, ...]:
        number = region[target[edge] if source[edge] == entry else source[edge]]
        return (number, edge) if in_order[number] else (number, paths, edge)

    numbers = s.number_by(valid.graph, s.SuccessorOrder.FILE, None if all(in_order) else rank)
    first = [numbers.total] * len(in_order)
    for edge in valid.graph.out_edges[entry]:
        number = region[target[edge]]
        first[number] = min(first[number], numbers.values[edge])
    values = [*numbers.values[: valid.begun_edges.start], *numbers.values[valid.begun_edges.stop :]]
    for edge in graph.begins:
        values[edge] -= first[graph.region[graph.columns.target[edge]]]
    compensation = [0] * len(values)
    for edge in valid.begun_edges:
        unrolled = valid.unrolled_edge[edge]
        compensation[unrolled] = values[unrolled] - numbers.values[edge]
    return IterationNumbering(valid, numbers, tuple(first), values, compensation)


class Table1(NamedTuple):
    """What the paper's table 1 has, by vertex and edge of the unrolled graph."""

    num_paths: tuple[int, ...]
    invalid_paths: tuple[int, ...]
    values: tuple[int, ...]
    compensation: tuple[int, ...]


def table_1(graph: IterationGraph, numbering: IterationNumbering) -> Table1:
    """Return the numbers of algorithm 1."""
    valid, numbers = numbering.valid, numbering.numbers
    target, entry = graph.columns.target, graph.cfg.entry
    num_paths = [*numbers.num_paths[: graph.vertex_count]]
    values, compensation = numbering.values.copy(), numbering.compensation.copy()
    invalid = [0] * graph.vertex_count
    for vertex, begun in valid.begun.items():
        invalid[vertex] = num_paths[vertex] - numbers.num_paths[begun]
    over = {
        valid.unrolled_edge[edge]: valid.graph.columns.target[edge] for edge in valid.begun_edges
    }
    for vertex in valid.begun:
        less = 0
        for edge in graph.out_edges[vertex]:
            compensation[edge] = less
            less += num_paths[target[edge]] - (numbers.num_paths[over[edge]] if edge in over else 0)
    heads = {graph.entry_dummy[head] for head in graph.full_loops}
    at_entry = [0] * len(graph.regions), [0] * len(graph.regions)
    for edge in sorted(graph.begins, key=lambda edge: (values[edge], edge)):
        region = graph.region[target[edge]]
        values[edge], compensation[edge] = at_entry[0][region], at_entry[1][region]
        at_entry[0][region] += num_paths[target[edge]]
        at_entry[1][region] += invalid[target[edge]] if edge in heads else 0
    num_paths[entry], invalid[entry] = sum(at_entry[0]), sum(at_entry[1])
    return Table1(*map(tuple, (num_paths, invalid, values, compensation)))


# -- How many iterations, and which cuts, keep the number of paths in bounds
#
# KITER gives up on routines with too many paths. Here each loop gets the greatest k, up to the one
# asked for, with which no more paths than a threshold lead from any of its vertices; a loop with
# k = 1 is acyclic, and vertices outside of iterated loops are cut as EPP 5.3 does.


def fit_regions(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    nests: Sequence[NestedLoop],
    iterations: Mapping[tuple[int, ...], int],
    path_limit: int | None,
    total_limit: int | None,
) -> tuple[PathRegion, ...]:
    """Return the regions of a routine, outer ones first, with loops and cuts within the limits;
    `iterations`: the k that is asked for, by the loops' back edges. Limits are those of
    `find_cut_edges`, for all regions together.
    """
    limit = share = s.path_threshold(path_limit, total_limit)
    asked, outer = dict(iterations), {x.loop.back_edges for top in nests for x in top if x.inner}
    while True:
        regions = divide(cfg, nests, asked)
        fitted = tuple(fit(cfg, dfs, each, share) for each in regions)
        # An outer loop that is left acyclic must not collapse what is inside.
        got = iterations_got(fitted)
        left = [x.back_edges for each in regions for x in each.loops if x.back_edges not in got]
        if acyclic := outer.intersection(left):
            asked |= dict.fromkeys(acyclic, 1)
            continue
        total = sum(each.paths for each in fitted)
        if not limit or total <= limit or len(fitted) == 1:
            return fitted
        if share > limit // len(fitted):
            share = max(limit // len(fitted), 1)
            continue
        # The limit is about what the branches alone make: nothing is collapsed.
        asked |= dict.fromkeys(outer, 1)
        share = limit


def iterations_got(regions: Iterable[PathRegion]) -> dict[tuple[int, ...], int]:
    """Return k of the iterated loops, by back edges."""
    return {loop.back_edges: loop.iterations for each in regions for loop in each.loops}


def fit(cfg: s.ControlFlowGraph, dfs: s.DepthFirst, region: PathRegion, limit: int) -> PathRegion:
    """Return the region with the loops to iterate, with up to the k asked for, and the edges to
    cut, so that it has no more paths than `limit`; 0: any number.
    """
    # The limit on the region's paths is the first threshold. While it leaves the region more, the
    # threshold is halved and the choice made again; where no loop is left with k > 1, edges are cut
    # as `pp` cuts them.
    ways = AcyclicRegion(cfg, dfs, region, _acyclic(cfg, dfs, region, ())) if region.loops else None
    threshold = limit or inf
    while ways and (fitted := fit_within(ways, threshold)):
        if not limit or fitted.region.paths <= limit:
            return fitted.region
        if threshold == 1:
            break
        threshold = max(threshold // 2, 1)
        while threshold > max(fitted.most, 1):  # that would change nothing
            threshold //= 2
    acyclic = _acyclic(cfg, dfs, region, ())
    cuts = s.find_cut_edges(acyclic, limit or None, None)
    paths = s.number(_acyclic(cfg, dfs, region, cuts) if cuts else acyclic).total
    return replace(region, loops=(), cuts=tuple(cuts), paths=paths)


def _acyclic(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, region: PathRegion, cuts: tuple[int, ...]
) -> s.Dag:
    """Return the region's graph where no loop is iterated."""
    if region.is_whole:
        return s.make_dag(cfg, dfs, cuts)
    return unroll(cfg, dfs, (replace(region, loops=(), cuts=cuts),))


class AcyclicRegion(Struct, frozen=True, dict=True):
    """A region where no loop is iterated, as the choice of k goes through it."""

    cfg: s.ControlFlowGraph
    dfs: s.DepthFirst
    region: PathRegion
    dag: s.Dag

    @cached_property
    def targets(self) -> list[list[int]]:
        """The targets of edges, by vertex."""
        found: list[list[int]] = [[] for _ in range(self.dag.vertex_count)]
        for begin, end in zip(*self.dag.columns[:2], strict=True):
            found[begin].append(end)
        return found

    @cached_property
    def tails(self) -> Counter[int]:
        """How many back edges leave each vertex."""
        return self.leaving(self.dag.removed)

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Vertex -> its place in the order of targets before sources."""
        order = [v for v in self.dag.topological[::-1] if v not in (self.cfg.entry, self.cfg.exit)]
        return {vertex: rank for rank, vertex in enumerate(order)}

    def leaving(self, edges: Iterable[int]) -> Counter[int]:
        """Return how many of these edges leave each vertex."""
        return Counter([self.region.at[self.cfg.ends[0][edge]] for edge in edges])


class Fitted(NamedTuple):
    """A region with loops and cuts."""

    region: PathRegion
    most: int  # A lower threshold changes nothing unless it is less


def fit_within(ways: AcyclicRegion, threshold: float) -> Fitted | None:
    """Fit every vertex, leaving acyclic the loops whose paths would be ambiguous; None if no loop
    is left with k > 1.
    """
    usable, most = ways.region.loops, 0
    while usable:
        fitted = _fit_once(ways, usable, threshold)
        region, cfg = fitted.region, ways.cfg
        if not region.loops:
            break
        most = max(most, fitted.most)
        removed = region.removed(ways.dfs, region.loops, region.cuts)
        ambiguous = region.ambiguous_loops(cfg, region.loops, removed)
        if not ambiguous:
            return Fitted(region, most)
        usable = tuple(loop for loop in usable if loop.head not in ambiguous)
    return None


def _fit_once(ways: AcyclicRegion, loops: Sequence[IteratedLoop], threshold: float) -> Fitted:
    """Choose k of all loops and edges to cut, targets before sources."""
    cfg, region, dag = ways.cfg, ways.region, ways.dag
    loop_of = {vertex: loop for loop in loops for vertex in loop.body}
    num_paths, most = [0] * dag.vertex_count, 0
    num_paths[cfg.exit] = 1
    cuts: list[int] = []
    got: dict[int, Iterations] = {}  # By head
    for loop, vertices in groupby(ways.ranks, loop_of.get):
        body = list(vertices)
        if loop is not None:
            if loop.head not in body:  # the last of its body
                continue
            body = sorted(loop.body, key=ways.ranks.__getitem__)
            copies = _copies_within(ways, loop, body, num_paths, threshold)
            most = max(most, copies.most)
            if copies.iterations > 1:
                got[loop.head] = copies
                for vertex, paths in copies.num_paths.items():
                    num_paths[vertex] = paths
                continue
        most = max(most, _cut(ways, body, num_paths, cuts, threshold))
    chosen = tuple(
        replace(loop, iterations=got[loop.head].iterations) for loop in loops if loop.head in got
    )
    removed = region.removed(ways.dfs, chosen, cuts)
    full = region.full_loops(cfg, chosen, removed)
    invalid = sum([num_paths[head] - got[head].valid for head in full])
    begun = {region.at[cfg.ends[1][edge]] for edge in cuts} - dag.entry_dummy.keys()
    paths = sum([num_paths[vertex] for vertex in (*ways.targets[cfg.entry], *begun)]) - invalid
    return Fitted(replace(region, loops=chosen, cuts=tuple(sorted(cuts)), paths=paths), most)


class Iterations(NamedTuple):
    """How often a loop can be iterated."""

    iterations: int
    num_paths: Mapping[int, int]  # By vertex in copy 1
    valid: int  # Paths from the head that make all iterations
    most: int  # The greatest number of paths from a vertex


def _copies_within(
    ways: AcyclicRegion,
    loop: IteratedLoop,
    body: Sequence[int],
    num_paths: Sequence[int],
    threshold: float,
) -> Iterations:
    """Choose k: as many copies, from the last backwards, as have few enough paths."""
    # By vertex of a copy: the paths that do not go on to the next, the ways that do, and the paths
    # in the last copy, where back edges end them, as removed edges do in all.
    ends: dict[int, int] = {}
    turns: dict[int, int] = {}
    last: dict[int, int] = {}
    # Where back edges leave a vertex, the acyclic graph has one edge to EXIT for all of them.
    tails = ways.leaving(loop.back_edges)
    for vertex in body:
        turn = tails[vertex]
        here, end = 0, -1 if turn and turn == ways.tails[vertex] else 0
        for to in ways.targets[vertex]:
            if to in loop.body:
                end, turn, here = end + ends[to], turn + turns[to], here + last[to]
            else:
                end, here = end + num_paths[to], here + num_paths[to]
        ends[vertex], turns[vertex], last[vertex] = end, turn, here
    copies, greatest, found, counts = 0, 0, last, last
    while copies < loop.iterations:
        if copies:
            after = counts[loop.head]
            found = {vertex: ends[vertex] + turns[vertex] * after for vertex in body}
        most = max(found.values())
        if most > threshold:
            break
        copies, counts, greatest = copies + 1, found, max(greatest, most)
    valid = turns[loop.head] ** max(copies - 1, 0) * last[loop.head]
    return Iterations(copies, counts, valid, greatest)


def _cut(
    ways: AcyclicRegion,
    vertices: Iterable[int],
    num_paths: list[int],
    cuts: list[int],
    threshold: float,
) -> int:
    """Count the paths from vertices; cut their edges where they are too many (EPP 5.3). Returns the
    greatest number that is not.
    """
    most = 0
    for vertex in vertices:
        total = sum([num_paths[target] for target in ways.targets[vertex]])
        if total > threshold:
            chosen, left = s.cuts_at(ways.dag, vertex)
            cuts += chosen
            total = left if chosen else total
        elif total > most:
            most = total
        num_paths[vertex] = total
    return most
