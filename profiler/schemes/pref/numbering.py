"""Interval numbering: compact numbers of some of the paths of an acyclic graph.

After preferential path profiling (Vaswani, Nori and Chilimbi, POPL 2007), of which the abstract and
slides were at hand; the proof and the choice among orders of edges are simprof's own.

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

An edge's value is so large that, for every prefix alike, the indices of the rests behind it begin
where those behind the edges before it have *ended*. (As large as these are long together would not
do: where another prefix needs more, they begin later.) So two interesting paths differ at the edges
where they part, and the common prefix adds the same to both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations

from msgspec import Struct

from simprof import schemes as s

DagPath = tuple[int, ...]


class _Beginning(Struct):
    """A prefix, with what follows it by its next edge, and where the indices of its rests are."""

    onward: dict[int, _Beginning]
    executions: int = 0
    # least, end: The rests' indices are at least `least`, and below `end`.
    least: int = 0
    end: int = 1


class IntervalNumbering(Struct, frozen=True):
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

    def lowered(self, dag: s.Dag, by: int) -> IntervalNumbering:
        """Return it with all indices less by a number, which is taken off where paths begin."""
        first = frozenset(dag.out_edges[dag.cfg.entry])
        values = tuple(v - by if edge in first else v for edge, v in enumerate(self.values))
        return IntervalNumbering(values, {p: n - by for p, n in self.indices.items()})

    def apart(self, dag: s.Dag, size: int) -> IntervalNumbering:
        """Return it with values that give `size` or more to all paths over edges that no
        interesting path takes.
        """
        # As free poisoning in practical path profiling. The bounds hold whatever is added to such
        # edges, which makes no sum less.
        used = frozenset(edge for path in self.indices for edge in path)
        before, (behind, _) = s.least_before(dag, self.values), s.bounds(dag, self.values)
        values = tuple(
            value if edge in used else max(value, size - before[source] - behind[target])
            for edge, (value, source, target) in enumerate(
                zip(self.values, *dag.columns[:2], strict=True)
            )
        )
        return IntervalNumbering(values, self.indices)


def number_intervals(dag: s.Dag, paths: Mapping[DagPath, int]) -> IntervalNumbering:
    """Number interesting paths, given by edges from ENTRY to EXIT, with how often each executed."""
    root, values = _Beginning({}), [0] * len(dag.columns.source)
    at = defaultdict[int, list[_Beginning]](list)  # prefixes by the vertex that they lead to
    for path, executions in paths.items():
        prefix = root
        for edge in path:
            if edge not in prefix.onward:
                at[dag.columns.source[edge]] += [prefix] if not prefix.onward else []
                prefix.onward[edge] = _Beginning({})
            prefix = prefix.onward[edge]
            prefix.executions += executions
    for vertex in reversed(dag.topological):
        heat = Counter[int]()
        for prefix in at[vertex]:
            heat.update({edge: rest.executions for edge, rest in prefix.onward.items()})
        if not heat:
            continue
        hottest = sorted(heat, key=lambda edge: (-heat[edge], edge))
        # of equally compact ones the first is taken, whose hottest edge comes first
        orders = permutations(hottest) if len(hottest) == 2 else (hottest,)
        found, spans = min((_value(at[vertex], order) for order in orders), key=_spread)
        for prefix, span in zip(at[vertex], spans, strict=True):
            prefix.least, prefix.end = span
        for edge, value in found.items():
            values[edge] = value
    indices = {path: sum(values[edge] for edge in path) for path in paths}
    return IntervalNumbering(tuple(values), indices).lowered(dag, root.least)


_Valued = tuple[dict[int, int], list[tuple[int, int]]]


def _value(prefixes: Sequence[_Beginning], order: Sequence[int]) -> _Valued:
    """Value a vertex's edges in an order; return that, and `least` and `end` by prefix."""
    values: dict[int, int] = {}
    least: dict[int, int] = {}
    end = [0] * len(prefixes)
    for edge in order:
        behind = [(k, p.onward[edge]) for k, p in enumerate(prefixes) if edge in p.onward]
        value = values[edge] = max(end[k] - rest.least for k, rest in behind)
        for k, rest in behind:
            least.setdefault(k, value + rest.least)
            end[k] = value + rest.end
    return values, [(least[k], end[k]) for k in range(len(prefixes))]


def _spread(valued: _Valued) -> tuple[int, int]:
    """Return how long the longest range of a prefix's rests is, and all ranges together."""
    lengths = [end - least for least, end in valued[1]]
    return max(lengths), sum(lengths)
