"""`qpt2`: optimal edge profiling (BL94 section 3.2; QPT2 in EPP).

A counter on every chord of a maximum spanning tree that holds EXIT -> ENTRY; the counts of the
tree's edges follow from the flow law (`flow.propagate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.cfg import ControlFlowGraph
from profiler.flow import NO_EXITS, propagate
from profiler.loops import depth_first, live_edges
from profiler.plan import CountEdge, InstrumentationPlan, Table
from profiler.schemes.base import Reading, RoutineCounters
from profiler.spanning import SpanningTree, maximum_spanning_tree
from profiler.weights import heuristic


@dataclass(frozen=True)
class EdgePlan:
    """Edge instrumentation of one routine.

    Attributes
    ----------
    cfg, plan, weights
        See `RoutinePlan`. Counter k of the plan is on edge `tree.chords[k]`.
    tree
        Spanning tree of the live edges, by control-flow edge id.
    """

    cfg: ControlFlowGraph
    plan: InstrumentationPlan
    weights: tuple[float, ...]
    tree: SpanningTree

    def edge_counts(
        self, counters: Sequence[int], early_exits: Mapping[int, int] = NO_EXITS
    ) -> tuple[int, ...]:
        """Derive the count of every edge.

        Parameters
        ----------
        counters
            Values of the plan's edge counters.
        early_exits
            Block -> activations that ended early in it (BL94 figure 7).
        """
        chord_counts = dict(zip(self.tree.chords, counters, strict=True))
        return propagate(self.cfg, self.tree, chord_counts, early_exits)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the edge counts."""
        return Reading(edges=self.edge_counts(counters.events, counters.early))

    def validate(self) -> None:
        """Check the tree and that the plan counts its chords and nothing else.

        Raises
        ------
        AssertionError
            If not.
        """
        self.tree.validate()
        expected = {edge: (CountEdge(k),) for k, edge in enumerate(self.tree.chords)}
        assert dict(self.plan.actions) == expected
        assert self.plan.edge_counters == len(expected)


def plan_qpt2(cfg: ControlFlowGraph, *, weights: Sequence[float] | None = None) -> EdgePlan:
    """Plan edge profiling of `cfg`; `weights` by edge id, None for BL94's heuristic."""
    dfs = depth_first(cfg)
    edge_weights = tuple(weights) if weights is not None else heuristic(cfg, dfs)
    live = live_edges(cfg, dfs)
    ends = [(edge.source, edge.target) for edge in cfg.edges]
    dead = [edge.id for edge in cfg.edges if edge.id not in live]
    tree = maximum_spanning_tree(cfg.vertex_count, ends, edge_weights, (cfg.exit, cfg.entry), dead)
    plan = InstrumentationPlan(
        actions={edge: (CountEdge(k),) for k, edge in enumerate(tree.chords)},
        uses_register=False,
        table=Table.NONE,
        path_counters=0,
        addressing=None,
        edge_counters=len(tree.chords),
    )
    return EdgePlan(cfg, plan, edge_weights, tree)
