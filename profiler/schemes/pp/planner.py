"""`pp`: efficient path profiling (EPP; Ball and Larus, MICRO-29, 1996).

Terms: see `Dag`, `PathNumbering`, `SpanningTree`, `Placement`.

Steps, as EPP numbers them
--------------------------
0. Remove back edges, add dummy edges (section 4); cut vertices with too many paths (5.3).
1. Value the edges so that path sums are the numbers 0 .. n-1 (3.2, 5.2): `number`.
2. Move the values onto the chords of a maximum spanning tree (3.3): `chord_increments`.
3. Place the instrumentation (3.4): `place`.
4. Regenerate paths from counters (3.5): `PathPlan.decode`; unfinished paths of activations that
   ended early (3.6): `PathPlan.decode_partial`; edge counts: `AcyclicPathPlan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simprof import schemes as s
from simprof.profiler.schemes.pp.options import RootEdge


class PathPlan(s.AcyclicPathPlan, frozen=True, kw_only=True):
    """Path instrumentation of one routine and the way back from counters to paths."""

    # tree, increments: By dag edge and vertex: the structures that the plan was made from.
    tree: s.SpanningTree
    increments: s.ChordIncrements
    # Vertices at which the path register means nothing, because one path leads there
    static_region: frozenset[int]

    def decode_partial(self, end: s.UnfinishedPath) -> s.PathRecord:
        """Return the unfinished path of activations that ended early (EPP 3.6); ValueError if it
        was to be counted ahead and was not.
        """
        # The register is not read where it is not initialised yet. The last counter is read where
        # the path was counted ahead; the caller takes that count back.
        if end.block in self.plan.counted_region:
            path_sum = end.counted_ahead(self.cfg)
        else:
            sum_of_increments = 0 if end.block in self.static_region else end.registers[0]
            path_sum = sum_of_increments + self.increments.potential[end.block]
        path = self.numbering.decode_prefix(path_sum, end.block)
        return s.path_record(self.dag, path, partial=True)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return s.describe_acyclic(
            self.dag, self.weights, self.numbering, self.tree, self.increments
        )

    def validate(self) -> None:
        """Check every structure; AssertionError if one is wrong."""
        self.dag.validate()
        self.numbering.validate()
        self.tree.validate()
        self.tree.validate_maximum(self.dag.edge_weights(self.weights))
        root = self.cfg.exit, self.cfg.entry
        self.increments.validate(self.tree, self.numbering.values, root)
        self.validate_counters()
        both = self.plan.counted_region & self.static_region
        assert not both, f"vertices {sorted(both)} are before the path register and behind it"


def plan_pp(
    cfg: s.ControlFlowGraph,
    *,
    weights: Sequence[float] | None = None,
    path_limit: int | None = s.PATH_LIMIT,
    total_limit: int | None = s.TOTAL_LIMIT,
    per_vertex: bool = False,
    table: s.CounterTable | None = None,
    root: RootEdge = RootEdge.TREE,
) -> PathPlan:
    """Plan path profiling of any graph, irreducible ones and parallel edges included.

    - `weights`: Edge weights by edge id; None for BL94's heuristic.
    - `path_limit`, `total_limit`: See `find_cut_edges`; None for exact numbering of any
      size.
    - `per_vertex`: Whether `path_limit` is each vertex's and not the routine's (EPP 5.3).
    - `table`: ARRAY or HASH to have that in any case; None for EPP's choice.
    - `root`: Where EXIT -> ENTRY is.
    """
    if root is RootEdge.CHEAPER:
        rivals = (
            plan_pp(
                cfg,
                weights=weights,
                path_limit=path_limit,
                total_limit=total_limit,
                per_vertex=per_vertex,
                table=table,
                root=each,
            )
            for each in (RootEdge.TREE, RootEdge.CHORD)
        )
        return min(rivals, key=expected_cost)
    dfs = s.depth_first(cfg)
    edge_weights = s.given_weights(cfg, weights)
    dag, numbering, tree, increments = s.number_paths(
        cfg,
        dfs,
        edge_weights,
        path_limit=path_limit,
        total_limit=total_limit,
        per_vertex=per_vertex,
        root_in_tree=root is RootEdge.TREE,
    )
    removed_tree = s.removed_forest(cfg, dag.removed, edge_weights)
    open_edges = [dag.removed[chord] for chord in removed_tree.chords]
    placement = s.place(dag, tree, increments.increments, open_edges, root=increments.root)
    kept = s.choose_table(increments.greatest, table)
    plan = s.instrumentation(placement, numbering.total, kept)
    return PathPlan(
        cfg=cfg,
        plan=plan,
        weights=edge_weights,
        edge_counters=placement.edge_counters,
        removed_tree=removed_tree,
        dag=dag,
        numbering=numbering,
        tree=tree,
        increments=increments,
        static_region=placement.static_region,
    )


def expected_cost(plan: PathPlan, context: s.RoutineContext | None = None) -> tuple[bool, float]:
    """Return whether a plan hashes, and what its code executes by its weights.

    `context`: Registers of its routine; None: all are free. A plan rests on its graph alone, and
    which registers are free on the whole program's code: that decides nothing (DEVIATIONS, pp).
    """
    context = s.RoutineContext.free() if context is None else context
    cost = s.Pricer(s.PATH_GENERATORS).cost(plan.cfg, plan.plan, plan.weights, context)
    executed = (plan.weights[edge] * snippet.cost for edge, snippet in cost.snippets.items())
    return plan.plan.table is s.CounterTable.HASH, sum(executed)
