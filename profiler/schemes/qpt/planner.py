"""`qpt2` and `qpt`: edge profiling and block profiling (BL94 section 3; QPT2 in EPP).

====================  =====================================  ==============  =================
plan                  counters                               BL94            the rest follows
====================  =====================================  ==============  =================
`qpt2`, `qpt` EDGE    on the chords of a maximum spanning    Eprof(Ecnt)     `flow.propagate`
                      tree that holds EXIT -> ENTRY
`qpt` REDUNDANT       in every block                         (section 3)     nothing
`qpt` VERTEX_OPTIMAL  in the cheapest blocks                 Vprof(Vcnt)     `VertexFlow`
`qpt` EDGE_HEURISTIC  on those chords but some               Vprof(Ecnt)     figures 6 and 8
`qpt` MIXED           on edges and in blocks                 Eprof(Mcnt)     `mixed.MixedPlan`
====================  =====================================  ==============  =================

`make_plan` plans either for our blocks or for BL94's (`BlockBasis`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import Where
from simprof.profiler.code.places import find_place
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.contraction import Contraction, contract
from simprof.profiler.graphs.flow import NO_EXITS, block_counts, counts_at, propagate
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.spanning import SpanningTree, block_weights, edge_tree, given_weights
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.decoders import Reading, RoutineCounters
from simprof.profiler.plan.placement import counter_plan
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.schemes.qpt.mixed import MixedPlan, plan_mixed
from simprof.profiler.schemes.qpt.options import BlockBasis, VertexPlacement
from simprof.profiler.schemes.qpt.vertex_counts import (
    VertexFlow,
    edges_from_blocks,
    removable,
    vertex_flow,
)
from simprof.profiler.schemes.static import describe_tree


@dataclass(frozen=True)
class EdgePlan:
    """Edge instrumentation of one routine."""

    # cfg, plan, weights: See `RoutinePlan`. Counter k of the plan is on edge `tree.chords[k]`.
    cfg: ControlFlowGraph
    plan: InstrumentationPlan
    weights: tuple[float, ...]
    tree: SpanningTree  # Spanning tree of the live edges, by control-flow edge id

    def edge_counts(
        self, counters: Sequence[int], early_exits: Mapping[int, int] = NO_EXITS
    ) -> tuple[int, ...]:
        """Derive the count of every edge.

        `counters`: Values of the plan's edge counters. `early_exits`: Block -> activations that
        ended early in it (BL94 figure 7).
        """
        chord_counts = dict(zip(self.tree.chords, counters, strict=True))
        return propagate(self.cfg, self.tree, chord_counts, early_exits)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the edge counts."""
        return Reading(edges=self.edge_counts(counters.events, counters.early))

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return describe_tree(self.tree) | {"dummy_edges": []}

    def validate(self) -> None:
        """Check the tree and that the plan counts its chords and nothing else."""
        self.tree.validate()
        self.tree.validate_maximum(self.weights)
        _validate_counters(self.plan, self.tree.chords)


def plan_qpt2(cfg: ControlFlowGraph, *, weights: Sequence[float] | None = None) -> EdgePlan:
    """Plan edge profiling of `cfg`; `weights` by edge id, None for BL94's heuristic."""
    edge_weights = given_weights(cfg, weights)
    tree = edge_tree(cfg, edge_weights)
    return EdgePlan(cfg, counter_plan(tree.chords), edge_weights, tree)


@dataclass(frozen=True)
class VertexPlan:
    """Counters in blocks: in each (redundant), or in the fewest that tell the others' counts."""

    # cfg, plan, weights: See `RoutinePlan`. Counter k of the plan is in block `counted[k]`.
    cfg: ControlFlowGraph
    plan: InstrumentationPlan
    weights: tuple[float, ...]
    counted: tuple[int, ...]  # Blocks with counters, ascending
    # How the other blocks' counts follow; None where every block that can execute is counted.
    flow: VertexFlow | None

    def block_counts(
        self, counters: Sequence[int], early_exits: Mapping[int, int] = NO_EXITS
    ) -> tuple[int, ...]:
        """Derive the count of every block; parameters as those of `EdgePlan.edge_counts`."""
        if self.flow is not None:
            return self.flow.block_counts(counters, early_exits)
        return tuple(counts_at(len(self.cfg.blocks), self.counted, counters))

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the block counts, and the edge counts where these determine them."""
        blocks = self.block_counts(counters.events, counters.early)
        edges = edges_from_blocks(self.cfg, depth_first(self.cfg), blocks, counters.early)
        return Reading(edges=edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return {"counted_blocks": [str(self.cfg.name_of(block)) for block in self.counted]}

    def validate(self) -> None:
        """Check the tree and that the plan counts its blocks and nothing else."""
        if self.flow is not None:
            self.flow.tree.validate()
            self.flow.tree.validate_maximum(block_weights(self.cfg, self.weights))
            assert self.counted == self.flow.counted, "the counted blocks are not the chords"
        expected = {block: (CountEdge(k),) for k, block in enumerate(self.counted)}
        assert dict(self.plan.blocks) == expected, "the plan counts other blocks"
        assert not self.plan.actions and not self.plan.block_ends, "counters outside of blocks"
        assert self.plan.edge_counters == len(expected), "wrong number of counters"


@dataclass(frozen=True)
class EdgeHeuristicPlan(EdgePlan):
    """Counters on edges that tell block counts: Vprof(Ecnt), BL94 figure 11."""

    removed: tuple[int, ...]  # Chords without counters

    @property
    def counted(self) -> tuple[int, ...]:
        """Edges with counters: counter k of the plan is on edge `counted[k]`."""
        return _without(self.tree.chords, self.removed)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the block counts as BL94 figure 8 does, and edge counts if all are determined."""
        # Chords without counters are taken to be never crossed. Other edges' counts may then be
        # wrong, even negative, but their sums at a block are right.
        chords = dict.fromkeys(self.removed, 0)
        chords.update(zip(self.counted, counters.events, strict=True))
        edges = propagate(self.cfg, self.tree, chords, counters.early)
        blocks = block_counts(self.cfg, edges)
        return Reading(edges=None if self.removed else edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        counted = {"counted_edges": list(self.counted), "removed_counters": list(self.removed)}
        return describe_tree(self.tree) | counted

    def validate(self) -> None:
        """Check the tree and that the plan counts its chords but those removed."""
        self.tree.validate()
        self.tree.validate_maximum(self.weights)
        assert set(self.removed) <= set(self.tree.chords), "tree edges are taken for chords"
        _validate_counters(self.plan, self.counted)


def plan_qpt(
    cfg: ControlFlowGraph,
    *,
    placement: VertexPlacement,
    weights: Sequence[float] | None = None,
    jumps: Collection[int] | None = None,
) -> EdgePlan | VertexPlan | EdgeHeuristicPlan | MixedPlan:
    """Plan block profiling of `cfg` (BL94 section 3).

    - `cfg`: The routine; any graph.
    - `placement`: Where the counters go. EDGE gives the plan of `qpt2`, which tells edge counts
      too.
    - `weights`: By edge id; None for BL94's heuristic.
    - `jumps`: Of MIXED: edges whose code needs a jump; None: what the graph says of that.
    """
    edge_plan = plan_qpt2(cfg, weights=weights)
    if placement is VertexPlacement.EDGE:
        return edge_plan
    edge_weights, tree = edge_plan.weights, edge_plan.tree
    if placement is VertexPlacement.EDGE_HEURISTIC:
        removed = removable(tree, edge_weights)
        plan = counter_plan(_without(tree.chords, removed))
        return EdgeHeuristicPlan(cfg, plan, edge_weights, tree, removed)
    if placement is VertexPlacement.MIXED:
        return plan_mixed(cfg, edge_weights, jumping(cfg) if jumps is None else jumps)
    dfs = depth_first(cfg)
    if placement is VertexPlacement.VERTEX_OPTIMAL:
        flow = vertex_flow(cfg, dfs, edge_weights)
        plan = counter_plan(blocks=flow.counted)
        return VertexPlan(cfg, plan, edge_weights, flow.counted, flow)
    every = tuple(block.id for block in cfg.blocks if block.id in dfs.reached)
    return VertexPlan(cfg, counter_plan(blocks=every), edge_weights, every, None)


# A plan of the contracted graph becomes one of the routine: a counter on an edge is on the same
# edge, a counter in a block is in the first of its chain. So it is generated, priced and counted
# like any other, and its counters are read for every block and edge of the routine.
@dataclass(frozen=True)
class MergedPlan:
    """A plan for the blocks of BL94."""

    contraction: Contraction  # The routine and its contracted graph
    inner: (
        EdgePlan | VertexPlan | MixedPlan
    )  # The plan of the contracted graph; its counters have the same numbers.
    plan: InstrumentationPlan  # The same actions on the edges and blocks of the routine

    @property
    def cfg(self) -> ControlFlowGraph:
        """The routine."""
        return self.contraction.cfg

    @property
    def weights(self) -> tuple[float, ...]:
        """The edge weights that guided the placement, by edge id of the routine."""
        return self.contraction.edge_counts(self.inner.weights, dead=0.0)

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive the counts of the contracted graph, and from them those of the routine."""
        early = counters.early
        reading = self.inner.read(replace(counters, early=self.contraction.early(early)))
        edges, blocks = reading.edges, reading.blocks
        if edges is not None:
            edges = self.contraction.edge_counts(edges, early)
        if blocks is not None:
            blocks = self.contraction.block_counts([n for n in blocks if n is not None], early)
            if edges is not None:
                blocks = block_counts(self.cfg, edges)
        return replace(reading, edges=edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`, by the routine's edges."""
        # Edges inside chains are tree edges.
        kept = self.contraction.kept
        found: dict[str, Any] = self.inner.describe() | {
            "merged_blocks": [
                [str(self.cfg.name_of(block)) for block in chain]
                for chain in self.contraction.chains
            ]
        }
        if "tree" in found:
            in_tree = {edge for edge, inside in zip(kept, found["tree"], strict=True) if inside}
            in_tree.update(self.contraction.inside)
            found["tree"] = [edge.id in in_tree for edge in self.cfg.edges]
        for key in ("counted_edges", "removed_counters"):
            if key in found:
                found[key] = [kept[edge] for edge in found[key]]
        return found

    def validate(self) -> None:
        """Check the contraction and its plan, and that the routine's plan is that one."""
        self.contraction.validate()
        self.inner.validate()
        assert self.plan == lift(self.contraction, self.inner.plan), "other actions than planned"


def lift(contraction: Contraction, plan: InstrumentationPlan) -> InstrumentationPlan:
    """Return a plan of the contracted graph as one of the routine."""
    assert not plan.block_ends, "a counter at the end of a block counts no early ends"
    return replace(
        plan,
        actions={contraction.kept[edge]: actions for edge, actions in plan.actions.items()},
        blocks={contraction.chains[block][0]: actions for block, actions in plan.blocks.items()},
    )


def make_plan(
    cfg: ControlFlowGraph,
    placement: VertexPlacement,
    blocks: BlockBasis,
    weights: Sequence[float] | None = None,
) -> EdgePlan | VertexPlan | EdgeHeuristicPlan | MixedPlan | MergedPlan:
    """Plan as `plan_qpt`, for the blocks that `blocks` chooses; `weights` by edge id of `cfg`."""
    if blocks is BlockBasis.SPLIT:
        return plan_qpt(cfg, placement=placement, weights=weights)
    contraction = contract(cfg, blocks is BlockBasis.FOLDED)
    kept = None if weights is None else contraction.weights(weights)
    there: list[int] = []
    if placement is VertexPlacement.MIXED:
        jumps = jumping(cfg)
        there = [at for at, edge in enumerate(contraction.kept) if edge in jumps]
    inner = plan_qpt(contraction.graph, placement=placement, weights=kept, jumps=there)
    return MergedPlan(contraction, inner, lift(contraction, inner.plan))


def jumping(cfg: ControlFlowGraph) -> frozenset[int]:
    """Return the edges whose code needs a jump, as far as the graph alone tells (BL94 6.3)."""
    context = RoutineContext.free()
    stubs = (edge.id for edge in cfg.edges if find_place(cfg, edge.id, context).where is Where.STUB)
    return frozenset(stubs)


def _validate_counters(plan: InstrumentationPlan, edges: Sequence[int]) -> None:
    """Check that the plan counts these edges, in order, and nothing else."""
    expected = {edge: (CountEdge(k),) for k, edge in enumerate(edges)}
    assert dict(plan.actions) == expected, "the plan counts other edges than the chords"
    assert plan.edge_counters == len(expected), "wrong number of counters"


def _without(chords: Sequence[int], removed: Sequence[int]) -> tuple[int, ...]:
    gone = frozenset(removed)
    return tuple(chord for chord in chords if chord not in gone)
