"""Drafts of targeted path profiling: graph, numbers and placement for given cold edges (TPP 4).

A routine is drafted up to three times: as it is, without its cold edges, and again with smaller
numbers where these would not leave room for poison (TPP 5.1 reports the same of its own tool).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, make_dag, thin
from simprof.profiler.graphs.loops import DepthFirst
from simprof.profiler.graphs.numbering import PathNumbering, find_cut_edges, number
from simprof.profiler.graphs.paths import dag_tree
from simprof.profiler.graphs.spanning import (
    ChordIncrements,
    SpanningTree,
    chord_increments,
)
from simprof.profiler.plan.actions import Action, CountEdge
from simprof.profiler.plan.placement import (
    Placement,
    choose_table,
    place,
    uses_register,
    with_edge_counters,
)
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.schemes.tpp.actions import POISON, CountColdPath, CountHotPath
from simprof.profiler.schemes.tpp.cold import remove_cold
from simprof.profiler.schemes.tpp.disconnection import Disconnection
from simprof.profiler.schemes.tpp.obvious import ObviousPaths, find_obvious
from simprof.profiler.schemes.tpp.poisoning import HotGraphs, register_range

POISON_REACH = -POISON // 2
"""Path registers stay this close to where they start, so that poison is told from any of them."""


@dataclass(frozen=True)
class DraftInputs:
    """What a draft is made from."""

    # cfg, dfs, weights: The routine, its depth-first search, edge weights by edge id.
    cfg: ControlFlowGraph
    dfs: DepthFirst
    weights: tuple[float, ...]
    disconnection: Disconnection  # The loops to cut out
    # path_limit, total_limit: See `numbering.find_cut_edges`.
    path_limit: int | None
    total_limit: int | None
    table: CounterTable | None  # The kind of table that is wanted in any case, or None
    early: frozenset[int] = frozenset()  # Blocks where activations end early, by the edge profile
    count_obvious: bool = False  # Whether obvious paths have counters, too
    cold_counter: bool = True  # Whether cold paths are counted


@dataclass(frozen=True)
class PlanDraft:
    """A plan and the structures that it was made from."""

    plan: InstrumentationPlan  # The actions
    cold: frozenset[int]  # Control-flow edges left out because they are cold by themselves
    # The acyclic graph without cold edges, and the part of it that is instrumented
    graphs: HotGraphs
    obvious: ObviousPaths  # The obvious paths of the former
    # numbering, tree, increments: Of the latter.
    numbering: PathNumbering
    tree: SpanningTree
    increments: ChordIncrements
    # Vertices at which the path register means nothing, because one path leads there
    static_region: frozenset[int]
    natural: CounterTable  # The table that EPP would choose; NONE where nothing is instrumented.
    reach: int  # How far the path register gets from its first values (`poisoning.register_range`)


def poisonable_draft(inputs: DraftInputs, cold: frozenset[int]) -> PlanDraft:
    """Make a draft with path numbers so small that poison is told from all of them."""
    latest = draft(inputs, cold)
    limit = POISON_REACH
    while latest.reach >= POISON_REACH and limit > 1:
        limit //= 2
        paths = limit if inputs.path_limit is None else min(limit, inputs.path_limit)
        latest = draft(replace(inputs, path_limit=paths, total_limit=limit), cold)
    return latest


def draft(inputs: DraftInputs, cold: frozenset[int] = frozenset()) -> PlanDraft:
    """Make a draft without the edges `cold` and what is cold because of them."""
    hot = _hot_graph(inputs, cold)
    obvious = find_obvious(hot, inputs.early)
    if inputs.count_obvious:
        obvious = replace(obvious, kept=frozenset(edge.id for edge in hot.edges))
    graphs = HotGraphs(hot, thin(hot, obvious.kept), inputs.cold_counter)
    kept = graphs.kept
    numbering = number(kept)
    tree = dag_tree(kept, inputs.weights)
    increments = chord_increments(tree, numbering.values)
    placement = place(kept, tree, increments.increments, (), graphs.detours)
    # Where every path is obvious no path is instrumented, cold ones included (4.2.2).
    obvious_only = bool(hot.edges) and not kept.edges
    actions = _self_loop_counts(placement) if obvious_only else graphs.actions(placement)
    natural, _ = choose_table(increments.greatest)
    table, addressing = choose_table(increments.greatest, inputs.table)
    if not _has_path_code(actions):
        natural, table, addressing = CounterTable.NONE, CounterTable.NONE, None
    return PlanDraft(
        replace(
            _instrumentation(actions, table, addressing, numbering.total, placement),
            uncounted_entries=graphs.uncounted_entries(placement),
        ),
        cold,
        graphs,
        obvious,
        numbering,
        tree,
        increments,
        placement.static_region,
        natural,
        register_range(kept, actions, increments.increments),
    )


def _hot_graph(inputs: DraftInputs, cold: frozenset[int]) -> Dag:
    """Return the acyclic graph: loops disconnected, cold edges left out, truncated."""
    cuts, merged = inputs.disconnection.cuts, inputs.disconnection.merged
    hot = remove_cold(make_dag(inputs.cfg, inputs.dfs, cuts, merged), cold)
    more = find_cut_edges(hot, inputs.path_limit, inputs.total_limit)
    if not more:
        return hot
    return remove_cold(make_dag(inputs.cfg, inputs.dfs, cuts | frozenset(more), merged), cold)


def _self_loop_counts(placement: Placement) -> dict[int, tuple[Action, ...]]:
    return with_edge_counters({}, placement.edge_counters)


def _has_path_code(actions: Mapping[int, tuple[Action, ...]]) -> bool:
    """Whether any path is instrumented: there is more than counters of self-loops."""
    everything = chain.from_iterable(actions.values())
    return any(not isinstance(action, CountEdge) for action in everything)


def _instrumentation(
    actions: Mapping[int, tuple[Action, ...]],
    table: CounterTable,
    addressing: Addressing | None,
    total: int,
    placement: Placement,
) -> InstrumentationPlan:
    hashed = table is CounterTable.HASH
    placed = {
        edge: tuple(_in_table(action, hashed) for action in group)
        for edge, group in actions.items()
    }
    everything = chain.from_iterable(placed.values())
    has_cold = any(isinstance(action, CountHotPath | CountColdPath) for action in everything)
    return InstrumentationPlan(
        actions=placed,
        uses_register=uses_register(placed),
        table=table,
        path_counters=total if table is CounterTable.ARRAY else 0,
        addressing=addressing,
        edge_counters=len(placement.edge_counters),
        counted_region=placement.counted_region,
        named_counters=("cold",) * has_cold,
    )


def _in_table(action: Action, hashed: bool) -> Action:
    return replace(action, hashed=hashed) if isinstance(action, CountHotPath) else action
