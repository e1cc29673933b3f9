"""What TPP instruments of an acyclic graph: its hot part, without what only obvious paths need.

Steps, in one function: leave out cold edges (4.1), truncate what still has too many paths (EPP
5.3), and leave out what only obvious paths need (4.2.2), among hot paths or among all (4.3).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.tpp.cold import remove_cold, through
from simprof.profiler.schemes.tpp.disconnection import Disconnection


class Rules(NamedTuple):
    """What the paper leaves open, and what is switched off: see `plan_tpp`."""

    literal_cold: bool = False
    obvious_first: bool = False
    count_obvious: bool = False
    cold_counter: bool = True
    branching: bool = False


class ReducedGraph(NamedTuple):
    """What is left of the acyclic graph."""

    cold: frozenset[int]  # Edges that are cold by themselves
    hot: s.Dag  # Without cold edges
    kept: s.Dag  # The part of that which is instrumented
    obvious: s.ObviousPaths  # Those of the former, or of the whole graph (4.3)


def reduce_graph(
    cfg: s.ControlFlowGraph,
    disconnection: Disconnection,
    early: frozenset[int],
    rules: Rules,
    cold: frozenset[int],
    path_limit: int | None = None,
    total_limit: int | None = None,
) -> ReducedGraph:
    """Leave out the edges `cold`, what is cold because of them, and what only obvious paths need,
    where activations end early in the blocks `early`; limits as of `find_cut_edges`.
    """
    dfs, cuts, merged = s.depth_first(cfg), disconnection.cuts, disconnection.merged
    whole = s.make_dag(cfg, dfs, cuts, merged)
    hot = remove_cold(whole, cold, rules.literal_cold)
    if more := s.find_cut_edges(hot, path_limit, total_limit):
        whole = s.make_dag(cfg, dfs, cuts.union(more), merged)
        hot = remove_cold(whole, cold, rules.literal_cold)
    obvious = s.find_obvious(whole if rules.obvious_first else hot, early)
    if rules.count_obvious:
        everything = frozenset(range(len(obvious.dag.columns.source)))
        ends = frozenset(obvious.dag.in_edges[cfg.exit])
        obvious = replace(obvious, kept=everything, points=ends)
    if not rules.obvious_first or hot is whole:
        return ReducedGraph(cold, hot, s.thin(hot, obvious.kept), obvious)
    # What only obvious paths take is not cold, whatever the profile says of its edges.
    warm = {edge[1:] for edge in hot.edges}
    cool = {
        edge.id for edge in whole.edges if edge[1:] not in warm and edge.source != obvious.split
    }
    kept = through(whole, obvious.kept - cool)
    hot = s.thin(whole, {edge.id for edge in whole.edges} - (cool & obvious.kept))
    return ReducedGraph(cold, hot, kept, obvious)
