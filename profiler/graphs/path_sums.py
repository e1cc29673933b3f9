"""Sums of values along the paths of an acyclic graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from simprof.profiler.graphs.dag import Dag

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
