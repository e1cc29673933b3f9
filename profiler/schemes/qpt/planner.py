"""`qpt2` and `qpt`: edge profiling and block profiling (BL94 section 3; QPT2 in EPP).

====================  =====================================  ==============  =================
plan                  counters                               BL94            the rest follows
====================  =====================================  ==============  =================
`qpt2`, `qpt` EDGE    on the chords of a maximum spanning    Eprof(Ecnt)     `propagate`
                      tree that holds EXIT -> ENTRY
`qpt` REDUNDANT       in every block                         (section 3)     nothing
`qpt` VERTEX_OPTIMAL  in the cheapest blocks                 Vprof(Vcnt)     `VertexFlow`
`qpt` EDGE_HEURISTIC  on those chords but some               Vprof(Ecnt)     figures 6 and 8
`qpt` MIXED           on edges and in blocks                 Eprof(Mcnt)     `MixedPlan`
====================  =====================================  ==============  =================

`make_plan` plans either for our blocks or for BL94's (`BlockBasis`).
"""

# ruff: noqa: D102 - overriding methods do what `Plan` says

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s
from simprof.profiler.schemes.qpt.options import BlockBasis, VertexPlacement

# -- Block counts from few counters
#
# How often blocks execute, from few counters (BL94 section 3).
#
# Vprof(Vcnt): counters in blocks (`VertexFlow`). All successors of a vertex belong to one *class*:
# vertices are in one class if they have a predecessor in common, directly or through others. What
# leaves the predecessors of a class enters its members. So each block is an edge of the *reduced
# graph*, from its own class to that of its successors, block counts obey the flow law there, and
# the blocks outside a maximum spanning tree need counters, no others [Knuth and Stevenson, "Optimal
# Measurement Points for Program Frequency Counts", BIT 13, 1973].


class VertexFlow(Struct, frozen=True):
    """The reduced graph of a routine, and a spanning tree of it."""

    cfg: s.ControlFlowGraph  # The routine
    # Spanning tree of the reduced graph: edge b is block b, vertices are the classes. ENTRY and
    # EXIT execute equally often and are one edge, the root edge, unless it is a loop. Blocks that
    # cannot execute are excluded.
    tree: s.SpanningTree
    exit_class: int  # The class of EXIT

    @property
    def counted(self) -> tuple[int, ...]:
        """Blocks that need counters, ascending."""
        return self.tree.chords

    def block_counts(self, counters: Sequence[int], early: Mapping[int, int]) -> tuple[int, ...]:
        """Derive the count of every block from those of `counted`; `early`: Block -> activations
        that ended early in it, and so did not go on to its successors.
        """
        ended = ((self.tree.target[block], count) for block, count in early.items())
        counts = s.counts_at(len(self.cfg.blocks), self.counted, counters)
        supply = s.early_supply(self.tree.vertex_count, ended, self.exit_class)
        return tuple(s.solve_tree(self.tree, counts, supply))


def vertex_flow(cfg: s.ControlFlowGraph, dfs: s.DepthFirst, weights: Sequence[float]) -> VertexFlow:
    """Find the cheapest blocks to count; `weights` by edge id."""
    classes = _Classes(cfg, dfs)
    ends = [classes.ends(block.id) for block in cfg.blocks]
    root = (classes.of(cfg.exit), classes.ends(cfg.entry)[1])
    dead = [block.id for block in cfg.blocks if block.id not in dfs.reached]
    tree = s.maximum_spanning_tree(
        2 * cfg.vertex_count,
        ends,
        s.block_weights(cfg, weights),
        root if root[0] != root[1] else None,
        dead,
    )
    return VertexFlow(cfg, tree, root[0])


class _Classes:
    """The classes of the reached vertices, each named by one of its members."""

    def __init__(self, cfg: s.ControlFlowGraph, dfs: s.DepthFirst) -> None:
        self._cfg = cfg
        self._parent = list(range(cfg.vertex_count))
        for vertex in dfs.preorder:
            targets = [cfg.edges[edge].target for edge in cfg.out_edges[vertex]]
            for target in targets[1:]:
                self._parent[self.of(target)] = self.of(targets[0])

    def of(self, vertex: int) -> int:
        """The class of a vertex."""
        return s.find_root(self._parent, vertex)

    def ends(self, vertex: int) -> tuple[int, int]:
        """The class of a vertex, and that of its successors."""
        # A block that is never left has a class of its own behind it, which nothing leaves: as
        # often as it executes, activations end in it.
        out = self._cfg.out_edges[vertex]
        behind = self._cfg.vertex_count + vertex
        return self.of(vertex), self.of(self._cfg.edges[out[0]].target) if out else behind


def removable(tree: s.SpanningTree, weights: Sequence[float]) -> tuple[int, ...]:
    """Return chords of a maximum spanning tree of the control-flow graph, with EXIT -> ENTRY, that
    need no counter if only blocks are to be counted.
    """
    # The heuristic of BL94 figure 11: chords by decreasing weight, each if the cycle that it closes
    # has no pipe and no vertex in common with those of the chords removed before.
    # Vprof(Ecnt): counters on edges (`removable`). Less than all chords of a spanning tree may do:
    # a cycle whose edges alternate in direction may go without, because what its edges count can
    # change without a block's count changing (BL94 3.3).
    up = _Upward(tree)
    marked: set[int] = set()
    removed = []
    for chord in sorted(tree.chords, key=lambda edge: -weights[edge]):
        cycle = up.cycle(chord)
        vertices = {vertex for vertex, _ in cycle}
        # no pipe: directions alternate around the cycle
        is_pipeless = all(cycle[at - 1][1] != way for at, (_, way) in enumerate(cycle))
        if is_pipeless and not vertices & marked:
            marked |= vertices
            removed.append(chord)
    return tuple(sorted(removed))


class _Upward:
    """A spanning tree's edges from each vertex towards its root."""

    def __init__(self, tree: s.SpanningTree) -> None:
        self._tree = tree
        self._parent: dict[int, tuple[int, bool]] = {}  # vertex -> parent, edge leads up
        self._depth = dict.fromkeys(range(tree.vertex_count), 0)
        for vertex, _, parent, direction in s.rooted_edges(tree):
            self._depth[vertex] = self._depth[parent] + 1
            self._parent[vertex] = parent, direction > 0

    def cycle(self, chord: int) -> list[tuple[int, bool]]:
        """Return the vertices of the cycle that `chord`, the first edge, closes, each with whether
        the edge to the next is crossed in its own direction.
        """
        source, target = self._tree.source[chord], self._tree.target[chord]
        onward, back = [(source, True)], []
        while source != target:
            if self._depth[target] >= self._depth[source]:
                parent, leads_up = self._parent[target]
                onward.append((target, leads_up))
                target = parent
            else:
                parent, leads_up = self._parent[source]
                back.append((parent, not leads_up))
                source = parent
        return [*onward, *reversed(back)]


def edges_from_blocks(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, blocks: Sequence[int], early: Mapping[int, int]
) -> tuple[int, ...] | None:
    """Derive the count of every edge from the executions, and the activations that ended early, of
    all blocks; None where they do not tell.
    """
    # Each block is a vertex for what leaves it and another for what enters it. They tell all edge
    # counts if the edges form no cycle between these vertices.
    apart = cfg.vertex_count
    live = [edge for edge in cfg.edges if edge.source in dfs.reached]
    ends = [(edge.source, edge.target + (apart if edge.target < cfg.entry else 0)) for edge in live]
    tree = s.maximum_spanning_tree(2 * apart, ends, [0.0] * len(live), (cfg.exit, cfg.entry))
    if tree.chords:
        return None
    supply = s.early_supply(tree.vertex_count, early.items(), cfg.exit)
    for block, count in enumerate(blocks):
        supply[block] += count
        supply[apart + block] -= count
    solved = s.solve_tree(tree, [0] * len(live), supply)
    return tuple(s.counts_at(len(cfg.edges), (edge.id for edge in live), solved))


# -- Plans


_OTHER_EDGES = "the plan counts other edges than the chords"


class EdgePlan(s.Plan, frozen=True):
    """Edge instrumentation of one routine: counter k of the plan is on edge `tree.chords[k]`."""

    tree: s.SpanningTree  # Spanning tree of the live edges, by control-flow edge id

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the edge counts (BL94 figures 6, 7)."""
        chord_counts = dict(zip(self.tree.chords, counters.events, strict=True))
        return s.Reading(edges=s.propagate(self.cfg, self.tree, chord_counts, counters.early))

    def describe(self) -> dict[str, Any]:
        return s.describe_tree(self.tree) | {"dummy_edges": []}

    def validate(self) -> None:
        self.tree.validate()
        self.tree.validate_maximum(self.weights)
        assert self.plan == s.counter_plan(self.tree.chords), _OTHER_EDGES


# -- Eprof(Mcnt): counters on a mixture of edges and blocks (BL94 section 3, Samples in 7.1.1)
#
# A counter in a block needs no jump, and one on an edge may; but a block executes more often than
# each of its edges. BL94 names the problem and leaves it aside.

INCREMENT = 5  # Instructions of an increment where a jump takes one, as BL94 counts them (6.1)


class MixedPlan(s.Plan, frozen=True):
    """Counters on edges and in blocks that tell every edge's count: counter k is on chord k."""

    # Spanning tree of the split graph: its edges are those of the routine, then its blocks.
    tree: s.SpanningTree
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

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the edge counts; what ends early in a block leaves its end for EXIT."""
        early = ((_end(self.cfg, block), count) for block, count in counters.early.items())
        counts = s.counts_at(len(self.tree.source), self.tree.chords, counters.events)
        supply = s.early_supply(self.tree.vertex_count, early, self.cfg.exit)
        solved = s.solve_tree(self.tree, counts, supply)
        return s.Reading(edges=tuple(solved[: len(self.cfg.edges)]))

    def describe(self) -> dict[str, Any]:
        blocks = [str(self.cfg.name_of(block)) for block in self.counted_blocks]
        return {"counted_edges": list(self.counted_edges), "counted_blocks": blocks}

    def validate(self) -> None:
        self.tree.validate()
        self.tree.validate_maximum(_costs(self.cfg, self.weights, self.jumps))
        expected = s.counter_plan(self.counted_edges, self.counted_blocks)
        assert self.plan == expected, "the plan counts other edges and blocks than the chords"


def plan_mixed(
    cfg: s.ControlFlowGraph, weights: Sequence[float], jumps: Collection[int]
) -> MixedPlan:
    """Place counters on edges and in blocks; the code of the edges `jumps` would need a jump."""
    # With each block as an edge from its top to its end, a placement is a set of edges of this
    # *split graph*, and what counters tell follows as in Eprof(Ecnt): all counts, if and only if
    # the edges without counters hold no cycle. So the chords of a maximum spanning tree are an
    # optimal placement, where an edge weighs what its counter would execute: an increment, and the
    # jump that its place may need.
    needing = frozenset(jumps)
    reached = s.depth_first(cfg).reached
    ends = [(_end(cfg, edge.source), edge.target) for edge in cfg.edges]
    ends += [(block.id, _end(cfg, block.id)) for block in cfg.blocks]
    sources = [*(edge.source for edge in cfg.edges), *(block.id for block in cfg.blocks)]
    tree = s.maximum_spanning_tree(
        cfg.vertex_count + len(cfg.blocks),
        ends,
        _costs(cfg, weights, needing),
        (cfg.exit, cfg.entry),
        [edge for edge, source in enumerate(sources) if source not in reached],
    )
    chords = tree.chords
    edges = [chord for chord in chords if chord < len(cfg.edges)]
    plan = s.counter_plan(edges, [chord - len(cfg.edges) for chord in chords[len(edges) :]])
    return MixedPlan(cfg, plan, tuple(weights), tree, needing)


def _end(cfg: s.ControlFlowGraph, vertex: int) -> int:
    """Return the vertex that is the end of a block; ENTRY and EXIT are their own."""
    return vertex if vertex >= cfg.entry else cfg.vertex_count + vertex


def _costs(
    cfg: s.ControlFlowGraph, weights: Sequence[float], jumps: frozenset[int]
) -> tuple[float, ...]:
    """Return what counters would execute: on the edges, then in the blocks."""
    on_edges = ((INCREMENT + (edge in jumps)) * weight for edge, weight in enumerate(weights))
    in_blocks = (INCREMENT * weight for weight in s.block_weights(cfg, weights))
    return (*on_edges, *in_blocks)


def plan_qpt2(cfg: s.ControlFlowGraph, *, weights: Sequence[float] | None = None) -> EdgePlan:
    """Plan edge profiling of `cfg`; `weights` by edge id, None for BL94's heuristic."""
    edge_weights = s.given_weights(cfg, weights)
    tree = s.edge_tree(cfg, edge_weights)
    return EdgePlan(cfg, s.counter_plan(tree.chords), edge_weights, tree)


class VertexPlan(s.Plan, frozen=True):
    """Counters in blocks: in each (redundant), or in the fewest that tell the others' counts."""

    counted: tuple[int, ...]  # Blocks with counters: counter k of the plan is in the k-th.
    # How the other blocks' counts follow; None where every block that can execute is counted.
    flow: VertexFlow | None

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the block counts, and the edge counts where these determine them."""
        if self.flow is not None:
            blocks = self.flow.block_counts(counters.events, counters.early)
        else:
            blocks = tuple(s.counts_at(len(self.cfg.blocks), self.counted, counters.events))
        edges = edges_from_blocks(self.cfg, s.depth_first(self.cfg), blocks, counters.early)
        return s.Reading(edges=edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        return {"counted_blocks": [str(self.cfg.name_of(block)) for block in self.counted]}

    def validate(self) -> None:
        """Check the tree and that the plan counts its blocks and nothing else."""
        if self.flow is not None:
            self.flow.tree.validate()
            self.flow.tree.validate_maximum(s.block_weights(self.cfg, self.weights))
            assert self.counted == self.flow.counted, "the counted blocks are not the chords"
        assert self.plan == s.counter_plan(blocks=self.counted), "the plan counts other blocks"


class EdgeHeuristicPlan(EdgePlan, frozen=True):
    """Counters on edges that tell block counts: Vprof(Ecnt), BL94 figure 11."""

    removed: tuple[int, ...]  # Chords without counters

    @property
    def counted(self) -> tuple[int, ...]:
        """Edges with counters: counter k of the plan is on edge `counted[k]`."""
        return tuple(chord for chord in self.tree.chords if chord not in self.removed)

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the block counts as BL94 figure 8 does, and edge counts if all are determined."""
        # Chords without counters are taken to be never crossed. Other edges' counts may then be
        # wrong, even negative, but their sums at a block are right.
        chords = dict.fromkeys(self.removed, 0)
        chords.update(zip(self.counted, counters.events, strict=True))
        edges = s.propagate(self.cfg, self.tree, chords, counters.early)
        blocks = s.block_counts(self.cfg, edges)
        return s.Reading(edges=None if self.removed else edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        counted = {"counted_edges": list(self.counted), "removed_counters": list(self.removed)}
        return s.describe_tree(self.tree) | counted

    def validate(self) -> None:
        self.tree.validate()
        self.tree.validate_maximum(self.weights)
        assert set(self.removed) <= set(self.tree.chords), "tree edges are taken for chords"
        assert self.plan == s.counter_plan(self.counted), _OTHER_EDGES


def plan_qpt(
    cfg: s.ControlFlowGraph,
    *,
    placement: VertexPlacement,
    weights: Sequence[float] | None = None,
    jumps: Collection[int] | None = None,
) -> EdgePlan | VertexPlan | EdgeHeuristicPlan | MixedPlan:
    """Plan block profiling of any graph (BL94 section 3); `weights` as for `plan_qpt2`. `jumps`: Of
    MIXED, the edges whose code needs a jump; None: what the graph says of that.
    """
    edge_plan = plan_qpt2(cfg, weights=weights)
    if placement is VertexPlacement.EDGE:
        return edge_plan
    edge_weights, tree = edge_plan.weights, edge_plan.tree
    if placement is VertexPlacement.EDGE_HEURISTIC:
        removed = removable(tree, edge_weights)
        plan = s.counter_plan([chord for chord in tree.chords if chord not in removed])
        return EdgeHeuristicPlan(cfg, plan, edge_weights, tree, removed)
    if placement is VertexPlacement.MIXED:
        return plan_mixed(cfg, edge_weights, jumping(cfg) if jumps is None else jumps)
    dfs = s.depth_first(cfg)
    if placement is VertexPlacement.VERTEX_OPTIMAL:
        flow = vertex_flow(cfg, dfs, edge_weights)
        plan = s.counter_plan(blocks=flow.counted)
        return VertexPlan(cfg, plan, edge_weights, flow.counted, flow)
    every = tuple(block.id for block in cfg.blocks if block.id in dfs.reached)
    return VertexPlan(cfg, s.counter_plan(blocks=every), edge_weights, every, None)


# A plan of the contracted graph becomes one of the routine: a counter on an edge is on the same
# edge, a counter in a block is in the first of its chain. So it is generated, priced and counted
# like any other, and its counters are read for every block and edge of the routine.
class MergedPlan(s.Plan, frozen=True):
    """A plan for the blocks of BL94."""

    contraction: s.Contraction  # The routine and its contracted graph
    # The plan of the contracted graph; its counters have the same numbers.
    inner: EdgePlan | VertexPlan | MixedPlan

    @property
    def placed_on(self) -> s.ControlFlowGraph:
        return self.contraction.graph

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Derive the counts of the contracted graph, and from them those of the routine."""
        early = counters.early
        reading = self.inner.read(replace(counters, early=self.contraction.early(early)))
        edges, blocks = reading.all_edges, reading.blocks
        if edges is not None:
            edges = self.contraction.edge_counts(edges, early)
        if blocks is not None and edges is not None:
            blocks = s.block_counts(self.cfg, edges)
        elif blocks is not None:
            blocks = self.contraction.block_counts([n for n in blocks if n is not None], early)
        return replace(reading, edges=edges, blocks=blocks)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`, by the routine's edges."""
        # Edges inside chains are tree edges.
        kept = self.contraction.kept
        name_of, chains = self.cfg.name_of, self.contraction.chains
        found: dict[str, Any] = self.inner.describe()
        found |= {"merged_blocks": [[str(name_of(block)) for block in chain] for chain in chains]}
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


def lift(contraction: s.Contraction, plan: s.InstrumentationPlan) -> s.InstrumentationPlan:
    """Return a plan of the contracted graph as one of the routine."""
    assert not plan.block_ends, "a counter at the end of a block counts no early ends"
    return replace(
        plan,
        actions={contraction.kept[edge]: actions for edge, actions in plan.actions.items()},
        blocks={contraction.chains[block][0]: actions for block, actions in plan.blocks.items()},
    )


def make_plan(
    cfg: s.ControlFlowGraph,
    placement: VertexPlacement,
    blocks: BlockBasis,
    weights: Sequence[float] | None = None,
) -> EdgePlan | VertexPlan | EdgeHeuristicPlan | MixedPlan | MergedPlan:
    """Plan as `plan_qpt`, for the blocks that `blocks` chooses; `weights` by edge id of `cfg`."""
    if blocks is BlockBasis.SPLIT:
        return plan_qpt(cfg, placement=placement, weights=weights)
    contraction = s.contract(cfg, blocks is BlockBasis.FOLDED)
    kept = None if weights is None else contraction.weights(weights)
    there: list[int] = []
    if placement is VertexPlacement.MIXED:
        jumps = jumping(cfg)
        there = [at for at, edge in enumerate(contraction.kept) if edge in jumps]
    inner = plan_qpt(contraction.graph, placement=placement, weights=kept, jumps=there)
    edge_weights = contraction.edge_counts(inner.weights, dead=0.0)
    return MergedPlan(cfg, lift(contraction, inner.plan), edge_weights, contraction, inner)


def jumping(cfg: s.ControlFlowGraph) -> frozenset[int]:
    """Return the edges whose code needs a jump, as far as the graph alone tells (BL94 6.3)."""
    context = s.RoutineContext.free()
    places = (s.find_place(cfg, edge.id, context) for edge in cfg.edges)
    return frozenset(edge for edge, place in enumerate(places) if place.where is s.Where.STUB)
