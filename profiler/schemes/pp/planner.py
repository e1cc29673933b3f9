"""`pp`: efficient path profiling (EPP; Ball and Larus, MICRO-29, 1996).

Terms: see `dag`, `numbering`, `spanning`, `placement`.

Steps, as EPP numbers them
--------------------------
0. Remove back edges, add dummy edges (section 4); cut vertices with too many paths (5.3).
1. Value the edges so that path sums are the numbers 0 .. n-1 (3.2, 5.2): `numbering.number`.
2. Move the values onto the chords of a maximum spanning tree (3.3): `spanning`.
3. Place the instrumentation (3.4): `placement.place`.
4. Regenerate paths from counters (3.5): `PathPlan.decode`; unfinished paths of activations that
   ended early (3.6): `PathPlan.decode_partial`; edge counts: `path_edges`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from profiler.graphs.cfg import ControlFlowGraph
from profiler.graphs.dag import Dag
from profiler.graphs.loops import depth_first
from profiler.graphs.numbering import PATH_LIMIT, TOTAL_LIMIT, PathNumbering, number
from profiler.graphs.paths import (
    PathRecord,
    edge_counts,
    path_record,
    removed_forest,
    truncated_dag,
)
from profiler.graphs.spanning import (
    ChordIncrements,
    SpanningTree,
    chord_increments,
    maximum_spanning_tree,
)
from profiler.graphs.weights import heuristic
from profiler.plan.decoders import Reading, RoutineCounters
from profiler.plan.placement import choose_table, instrumentation, place
from profiler.plan.plan import CountEdge, InstrumentationPlan, Table


@dataclass(frozen=True)
class PathPlan:
    """Path instrumentation of one routine and the way back from counters to paths.

    Attributes
    ----------
    cfg, plan, weights
        See `RoutinePlan`.
    dag, numbering, tree, increments
        By dag edge and vertex: the structures that the plan was made from.
    static_region
        Vertices at which the path register means nothing, because one path leads there.
    edge_counters
        Edges of the plan's `CountEdge` counters: self-loops, and removed edges where the paths
        leave their counts open.
    removed_tree
        The other removed edges (see `path_edges.removed_forest`).
    """

    cfg: ControlFlowGraph
    plan: InstrumentationPlan
    weights: tuple[float, ...]
    dag: Dag
    numbering: PathNumbering
    tree: SpanningTree
    increments: ChordIncrements
    static_region: frozenset[int]
    edge_counters: tuple[int, ...]
    removed_tree: SpanningTree

    @property
    def cut_edges(self) -> tuple[int, ...]:
        """Ids of the edges cut because of too many paths (EPP 5.3)."""
        return self.dag.cut_edges

    @property
    def num_paths(self) -> int:
        """Number of paths that the plan tells apart."""
        return self.numbering.total

    def decode(self, path_id: int) -> PathRecord:
        """Return the path that counter `path_id` counts (EPP 3.5).

        Raises
        ------
        ValueError
            If there is no such path.
        """
        return self._record(self.numbering.decode(path_id))

    def all_paths(self) -> Iterator[PathRecord]:
        """Yield every path that a counter counts, by ascending number."""
        return map(self._record, self.numbering.paths())

    def encode(self, blocks: Sequence[int], edges: Sequence[int]) -> int:
        """Return the number of a path given as in `PathRecord`; inverse of `decode`."""
        path = [self.dag.real[edge] for edge in edges]
        if not path or self.dag.edges[path[0]].source != self.cfg.entry:
            path.append(self.dag.entry_dummy[blocks[0]])
        if not edges or self.cfg.edges[edges[-1]].target != self.cfg.exit:
            path.append(self.dag.exit_dummy[blocks[-1]])
        return self.numbering.encode(path)

    def decode_partial(self, register: int, last_count: int | None, vertex: int) -> PathRecord:
        """Return the unfinished path of an activation that ended early (EPP 3.6).

        Parameters
        ----------
        register
            Path register when it ended; not read where it is not initialised yet.
        last_count
            The path counter that the activation incremented last, if any. Read where the path
            was counted ahead (`vertex in plan.counted_region`); the caller then takes that count
            back.
        vertex
            The block in which the activation ended.
        """
        if vertex in self.plan.counted_region:
            if last_count is None:
                raise ValueError(f"{self.cfg.name}: block {vertex} reached without a count")
            return self._record(self.numbering.decode_prefix(last_count, vertex), partial=True)
        sum_of_increments = 0 if vertex in self.static_region else register
        path_sum = sum_of_increments + self.increments.potential[vertex]
        return self._record(self.numbering.decode_prefix(path_sum, vertex), partial=True)

    def _record(self, path: tuple[int, ...], partial: bool = False) -> PathRecord:
        return path_record(self.dag, path, partial)

    def edge_counts(
        self,
        paths: Mapping[int, int],
        counters: Sequence[int],
        partial: Iterable[tuple[PathRecord, int]] = (),
    ) -> tuple[int, ...]:
        """Derive the count of every edge.

        Parameters
        ----------
        paths
            Path number -> count, counts taken ahead of an early end taken back.
        counters
            Values of the plan's edge counters.
        partial
            Unfinished paths with their counts.
        """
        whole = ((self.decode(path_id), count) for path_id, count in paths.items() if count)
        counted = zip(self.edge_counters, counters, strict=True)
        return edge_counts(self.dag, self.removed_tree, counted, chain(whole, partial))

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive paths, unfinished paths and edge counts (EPP 3.5, 3.6)."""
        paths = Counter(counters.paths)
        partial: Counter[PathRecord] = Counter()
        for end in counters.unfinished:
            record = self.decode_partial(end.registers[0], end.last, end.block)
            partial[record] += end.count
            if end.last is not None:
                paths[end.last] -= end.count
        return Reading(
            edges=self.edge_counts(paths, counters.events, partial.items()),
            paths={number: count for number, count in sorted(paths.items()) if count},
            partial=partial,
        )

    def validate(self) -> None:
        """Check every structure.

        Raises
        ------
        AssertionError
            If one is not as it must be.
        """
        self.dag.validate()
        self.numbering.validate()
        self.tree.validate()
        self._validate_increments()
        assert set(self.plan.actions) <= {edge.id for edge in self.cfg.edges}
        counters = [
            (action.counter, edge)
            for edge, actions in self.plan.actions.items()
            for action in actions
            if isinstance(action, CountEdge)
        ]
        assert sorted(counters) == list(enumerate(self.edge_counters))
        assert self.plan.edge_counters == len(self.edge_counters)
        assert not self.plan.counted_region & self.static_region

    def _validate_increments(self) -> None:
        """Check edge by edge what makes sums of increments and sums of values agree."""
        potential = self.increments.potential
        assert potential[self.cfg.entry] == 0 and potential[self.cfg.exit] == 0
        for edge in self.dag.edges:
            moved = self.numbering.values[edge.id] + potential[edge.source]
            assert self.increments.increments[edge.id] == moved - potential[edge.target]
            if self.tree.in_tree[edge.id]:
                assert self.increments.increments[edge.id] == 0


def plan_pp(
    cfg: ControlFlowGraph,
    *,
    weights: Sequence[float] | None = None,
    path_limit: int | None = PATH_LIMIT,
    total_limit: int | None = TOTAL_LIMIT,
    table: Table | None = None,
) -> PathPlan:
    """Plan path profiling of `cfg`.

    Parameters
    ----------
    cfg
        The routine; any graph, irreducible ones and parallel edges included.
    weights
        Edge weights by edge id; None for BL94's heuristic.
    path_limit, total_limit
        See `numbering.find_cut_edges`; None for exact numbering of any size.
    table
        ARRAY or HASH to have that in any case; None for EPP's choice.
    """
    dfs = depth_first(cfg)
    edge_weights = tuple(weights) if weights is not None else heuristic(cfg, dfs)
    dag = truncated_dag(cfg, dfs, path_limit, total_limit)
    numbering = number(dag)
    ends = [(edge.source, edge.target) for edge in dag.edges]
    tree = maximum_spanning_tree(
        cfg.vertex_count, ends, dag.edge_weights(edge_weights), (cfg.exit, cfg.entry)
    )
    increments = chord_increments(tree, numbering.values)
    removed_tree = removed_forest(cfg, dag.removed, edge_weights)
    open_edges = [dag.removed[chord] for chord in removed_tree.chords]
    placement = place(dag, tree, increments.increments, open_edges)
    kept = choose_table(increments.greatest, table)
    plan = instrumentation(placement, numbering.total, kept)
    return PathPlan(
        cfg,
        plan,
        edge_weights,
        dag,
        numbering,
        tree,
        increments,
        placement.static_region,
        placement.edge_counters,
        removed_tree,
    )
