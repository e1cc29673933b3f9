"""Interval numbering: compact numbers of some of the paths of an acyclic graph.

After preferential path profiling (Vaswani, Nori and Chilimbi, POPL 2007), of which the abstract and
slides were at hand; the order in which vertices' edges are tried, and the proof, are simprof's own.

Terms
-----
interesting path
    A path of the acyclic graph, from ENTRY to EXIT, that is to have a number of its own.
prefix
    The beginning of interesting paths, up to a vertex. What follows are the *rests* of that prefix.
index
    The sum of a path's values. Those of interesting paths are distinct, and lie in 0 .. size - 1;
    another path may have any index, also one of theirs.
compactness
    size by the number of interesting paths: 1 is perfect.

Steps -> functions
1. gather the prefixes, vertex by vertex                          `_gather`
2. value each vertex's edges, from EXIT up, in several orders     `_value`
3. how other paths' indices lie among those                       `sums_within`, `bounds`

An edge's value is so large that, for every prefix alike, the indices of the rests behind it begin
where those behind the edges before it have *ended*. (As large as these are long together would not
do: where another prefix needs more, they begin later.) So two interesting paths differ at the edges
where they part, and the common prefix adds the same to both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

from simprof.profiler.graphs.dag import Dag
from simprof.simulator.values import dataclass

MOST_SUMS = 1 << 16  # Sums that are looked at to tell which paths share an index

DagPath = tuple[int, ...]


@dataclass
class _Prefix:
    """A prefix: the interesting paths that begin so, by their next edge."""

    onward: dict[int, _Prefix]
    executions: int = 0
    # least, end: The rests' indices are at least `least`, and below `end`.
    least: int = 0
    end: int = 1


@dataclass(frozen=True)
class IntervalNumbering:
    """Values by edge of the acyclic graph that give interesting paths their indices."""

    values: tuple[int, ...]
    indices: Mapping[DagPath, int]  # Interesting path -> its index

    @property
    def size(self) -> int:
        """How long the range of the interesting paths' indices is."""
        return max(self.indices.values(), default=-1) + 1

    @property
    def compactness(self) -> float:
        """`size` for each interesting path; 1 where there is none."""
        return self.size / len(self.indices) if self.indices else 1.0

    def lowered(self, dag: Dag, by: int) -> IntervalNumbering:
        """Return it with all indices less by a number, which is taken off where paths begin."""
        values = list(self.values)
        for edge in dag.out_edges[dag.cfg.entry]:
            values[edge] -= by
        return IntervalNumbering(tuple(values), {p: n - by for p, n in self.indices.items()})


def number_intervals(dag: Dag, paths: Mapping[DagPath, int]) -> IntervalNumbering:
    """Number interesting paths, given by edges from ENTRY to EXIT, with how often each executed."""
    at, values = _gather(dag, paths), [0] * len(dag.edges)
    for vertex in reversed(dag.topological):
        prefixes = at.get(vertex, [])
        heat = Counter[int]()
        for prefix in prefixes:
            for edge, rest in prefix.onward.items():
                heat[edge] += rest.executions
        if not heat:
            continue
        hottest = sorted(heat, key=lambda edge: (-heat[edge], edge))
        orders = permutations(hottest) if len(hottest) == 2 else (hottest,)
        # of equal ones the first, whose hottest edge comes first
        _, chosen = min(
            ((_spread(valued), order) for order in orders for valued in [_value(prefixes, order)]),
            key=lambda each: each[0],
        )
        found = _value(prefixes, chosen)
        for prefix, least, end in found.intervals:
            prefix.least, prefix.end = least, end
        for edge, value in found.values.items():
            values[edge] = value
    # the least index of all is taken off once, where paths begin
    first = min((prefix.least for prefix in at.get(dag.cfg.entry, [])), default=0)
    indices = {path: sum(values[edge] for edge in path) for path in paths}
    return IntervalNumbering(tuple(values), indices).lowered(dag, first)


def _gather(dag: Dag, paths: Mapping[DagPath, int]) -> dict[int, list[_Prefix]]:
    """Return all prefixes by the vertex that they lead to."""
    root = _Prefix({})
    at = {dag.cfg.entry: [root]}
    for path, executions in paths.items():
        prefix = root
        prefix.executions += executions
        for edge in path:
            if edge not in prefix.onward:
                prefix.onward[edge] = _Prefix({})
                at.setdefault(dag.columns.target[edge], []).append(prefix.onward[edge])
            prefix = prefix.onward[edge]
            prefix.executions += executions
    return at if paths else {}


@dataclass(frozen=True)
class _Valued:
    """A vertex's edges with values, and where the rests of each of its prefixes then lie."""

    values: dict[int, int]
    intervals: list[tuple[_Prefix, int, int]]


def _value(prefixes: Iterable[_Prefix], order: Sequence[int]) -> _Valued:
    """Value a vertex's edges in an order."""
    prefixes = [prefix for prefix in prefixes if prefix.onward]
    values: dict[int, int] = {}
    least: list[int | None] = [None] * len(prefixes)
    end = [0] * len(prefixes)
    for edge in order:
        behind = [(k, p.onward[edge]) for k, p in enumerate(prefixes) if edge in p.onward]
        value = values[edge] = max(end[k] - rest.least for k, rest in behind)
        for k, rest in behind:
            end[k] = value + rest.end
            least[k] = value + rest.least if least[k] is None else least[k]
    intervals = [(p, low or 0, high) for p, low, high in zip(prefixes, least, end, strict=True)]
    return _Valued(values, intervals)


def _spread(valued: _Valued) -> tuple[int, int]:
    """Return the longest range of a prefix's rests, and how long all ranges are together."""
    lengths = [end - least for _, least, end in valued.intervals]
    return max(lengths), sum(lengths)


def bounds(dag: Dag, values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return by vertex the least and the greatest sum of values of a way from there to EXIT."""
    least, most = [0] * dag.cfg.vertex_count, [0] * dag.cfg.vertex_count
    for vertex in reversed(dag.topological):
        if ways := [(values[edge], dag.columns.target[edge]) for edge in dag.out_edges[vertex]]:
            least[vertex] = min(value + least[target] for value, target in ways)
            most[vertex] = max(value + most[target] for value, target in ways)
    return least, most


def sums_within(dag: Dag, values: Sequence[int], size: int) -> Counter[int] | None:
    """Return how many paths have each of the indices 0 .. size - 1; None: too many to tell."""
    least, most = bounds(dag, values)
    sums: dict[int, Counter[int]] = {dag.cfg.entry: Counter([0])}
    looked_at = 0
    for vertex in dag.topological:
        here = sums.get(vertex, Counter())
        if vertex == dag.cfg.exit:
            return here
        looked_at += len(here) * len(dag.out_edges[vertex])
        if looked_at > MOST_SUMS:
            return None
        for edge in dag.out_edges[vertex]:
            value, target = values[edge], dag.columns.target[edge]
            there = sums.setdefault(target, Counter())
            for known, ways in here.items():
                total = known + value
                if total + most[target] >= 0 and total + least[target] < size:
                    there[total] += ways
    return Counter()
