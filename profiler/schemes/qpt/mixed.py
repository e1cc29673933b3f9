"""Eprof(Mcnt): counters on a mixture of edges and blocks (BL94 section 3, Samples in 7.1.1).

A counter in a block needs no jump, and one on an edge may; but a block executes more often than
each of its edges. BL94 names the problem and leaves it aside. With each block as an edge from its
top to its end, a placement is a set of edges of this *split graph*, and what counters tell follows
as in Eprof(Ecnt): all counts, if and only if the edges without counters hold no cycle. So the
chords of a maximum spanning tree are an optimal placement, where an edge weighs what its counter
would execute: an increment, and the jump that its place may need.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.flow import counts_at, early_supply, solve_tree
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import SpanningTree, block_weights, maximum_spanning_tree
from simprof.profiler.plan.decoders import Reading, RoutineCounters
from simprof.profiler.plan.placement import counter_plan
from simprof.profiler.plan.plan import InstrumentationPlan

INCREMENT = 5  # Instructions of an increment where a jump takes one, as BL94 counts them (6.1)


@dataclass(frozen=True)
class MixedPlan:
    """Counters on edges and in blocks that tell every edge's count."""

    # cfg, plan, weights: See `RoutinePlan`. Counter k of the plan is on chord k of the tree.
    cfg: ControlFlowGraph
    plan: InstrumentationPlan
    weights: tuple[float, ...]
    # Spanning tree of the split graph: its edges are those of the routine, then its blocks.
    tree: SpanningTree
    jumps: frozenset[int]  # Edges whose counters were taken to need a jump

    @property
    def counted_edges(self) -> tuple[int, ...]:
        """Edges with counters, ascending: the first counters of the plan."""
        return tuple(chord for chord in self.tree.chords if chord < len(self.cfg.edges))

    @property
    def counted_blocks(self) -> tuple[int, ...]:
        """Blocks with counters, ascending: the other counters."""
        edges = len(self.cfg.edges)
        return tuple(chord - edges for chord in self.tree.chords if chord >= edges)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the edge counts; what ends early in a block leaves its end for EXIT."""
        early = ((_end(self.cfg, block), count) for block, count in counters.early.items())
        counts = counts_at(len(self.tree.ends), self.tree.chords, counters.events)
        supply = early_supply(self.tree.vertex_count, early, self.cfg.exit)
        solved = solve_tree(self.tree, counts, supply)
        return Reading(edges=tuple(solved[: len(self.cfg.edges)]))

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        blocks = [str(self.cfg.name_of(block)) for block in self.counted_blocks]
        return {"counted_edges": list(self.counted_edges), "counted_blocks": blocks}

    def validate(self) -> None:
        """Check the tree and that the plan counts its chords and nothing else."""
        self.tree.validate()
        self.tree.validate_maximum(_costs(self.cfg, self.weights, self.jumps))
        assert self.plan == counter_plan(self.counted_edges, self.counted_blocks), (
            "the plan counts other edges and blocks than the chords"
        )


def plan_mixed(
    cfg: ControlFlowGraph, weights: Sequence[float], jumps: Collection[int]
) -> MixedPlan:
    """Place counters on edges and in blocks.

    - `cfg`: The routine; any graph.
    - `weights`: By edge id.
    - `jumps`: Ids of the edges whose code would need a jump.
    """
    needing = frozenset(jumps)
    reached = depth_first(cfg).reached
    ends = [(_end(cfg, edge.source), edge.target) for edge in cfg.edges]
    ends += [(block.id, _end(cfg, block.id)) for block in cfg.blocks]
    sources = [*(edge.source for edge in cfg.edges), *(block.id for block in cfg.blocks)]
    tree = maximum_spanning_tree(
        cfg.vertex_count + len(cfg.blocks),
        ends,
        _costs(cfg, weights, needing),
        (cfg.exit, cfg.entry),
        [edge for edge, source in enumerate(sources) if source not in reached],
    )
    chords = tree.chords
    edges = [chord for chord in chords if chord < len(cfg.edges)]
    plan = counter_plan(edges, [chord - len(cfg.edges) for chord in chords[len(edges) :]])
    return MixedPlan(cfg, plan, tuple(weights), tree, needing)


def _end(cfg: ControlFlowGraph, vertex: int) -> int:
    """Return the vertex that is the end of a block; ENTRY and EXIT are their own."""
    return vertex if vertex >= cfg.entry else cfg.vertex_count + vertex


def _costs(
    cfg: ControlFlowGraph, weights: Sequence[float], jumps: frozenset[int]
) -> tuple[float, ...]:
    """Return what counters would execute: on the edges, then in the blocks."""
    on_edges = ((INCREMENT + (edge in jumps)) * weight for edge, weight in enumerate(weights))
    in_blocks = (INCREMENT * weight for weight in block_weights(cfg, weights))
    return (*on_edges, *in_blocks)
