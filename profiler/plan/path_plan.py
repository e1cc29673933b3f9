"""The common part of plans that count paths: the skeleton of planning, and reading counters.

Steps of planning (`plan_paths`): the acyclic graph, its paths' numbers, a spanning tree and its
chords' increments (`number_paths`); then, of any graph of paths that tells edge counts, the removed
edges that need counters, the placement of all code, the table, and the plan (`exact_plan`).

Steps of reading counters: counts taken ahead of an early end are taken back
(`RoutineCounters.finished_paths`), the paths of activations that ended early are identified
(`decode_partial`, EPP 3.6), and edge counts follow from the paths and from the counters of the
edges that these leave open (`paths.edge_counts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from simprof.profiler.graphs.cfg import ControlFlowGraph, remembers_recent
from simprof.profiler.graphs.dag import Dag, DagEdge
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.graphs.numbering import PATH_LIMIT, TOTAL_LIMIT, PathNumbering
from simprof.profiler.graphs.paths import (
    NumberedPaths,
    PathRecord,
    dag_path,
    edge_counts,
    number_paths,
    path_record,
    removed_forest,
)
from simprof.profiler.graphs.spanning import ChordIncrements, SpanningTree, given_weights
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.decoders import (
    PathNames,
    Plan,
    Reading,
    RoutineCounters,
    UnfinishedPath,
)
from simprof.profiler.plan.placement import Placement, choose_table, instrumentation, place
from simprof.profiler.plan.plan import Addressing, CounterTable


class Numbering(Protocol):
    """Numbers 0 .. total - 1 of the paths of an acyclic graph, given by edges."""

    @property
    def total(self) -> int:
        """Number of paths."""

    def decode(self, path_id: int) -> tuple[int, ...]:
        """Return the path of a number; ValueError if there is none."""

    def paths(self) -> Iterator[tuple[int, ...]]:
        """Yield every path, by ascending number."""


class PathCountingPlan(Plan, frozen=True, kw_only=True):
    """A plan with counters of the paths of an acyclic graph."""

    dag: Dag  # The acyclic graph whose paths are counted
    numbering: Numbering  # The order of the paths. A scheme may name its counters otherwise.

    @property
    def cut_edges(self) -> tuple[int, ...]:
        """Ids of edges that end or begin paths and are no back edges (EPP 5.3)."""
        return self.dag.cut_edges

    @property
    def num_paths(self) -> int:
        """Number of paths that the plan tells apart."""
        return self.numbering.total

    def decode(self, path_id: int) -> PathRecord:
        """Return the path that counter `path_id` counts (EPP 3.5); ValueError if there is none."""
        known = _decoded(self)
        record = known.get(path_id)
        if record is None:
            record = known[path_id] = self._decode(path_id)
        return record

    def _decode(self, path_id: int) -> PathRecord:
        return path_record(self.dag, self.numbering.decode(path_id))

    def dag_path(self, blocks: Sequence[int], edges: Sequence[int]) -> tuple[int, ...]:
        """Return the dag edges, from ENTRY to EXIT, of a path given as in `PathRecord`; KeyError if
        there is no such path.
        """
        path = dag_path(self.dag, blocks, edges)
        if path is None:
            raise KeyError((blocks, edges))
        return path

    def all_paths(self) -> Iterator[PathRecord]:
        """Yield every path that a counter counts, in the order of `numbering`."""
        return (path_record(self.dag, path) for path in self.numbering.paths())

    def numbered_paths(self) -> Iterator[tuple[int, PathRecord]]:
        """Yield every path with the number of its counter, in the order of `numbering`."""
        return enumerate(self.all_paths())


@remembers_recent
def _decoded(plan: PathCountingPlan) -> dict[int, PathRecord]:
    """Return the paths that have been decoded: edge counts, rows and judgements ask for each."""
    return {}


class ExactPathPlan(PathCountingPlan, frozen=True, kw_only=True):
    """A plan with path counters from which all edge counts follow."""

    # Edges of the plan's `CountEdge` counters: self-loops, and removed edges where the paths leave
    # their counts open.
    edge_counters: tuple[int, ...]
    removed_tree: SpanningTree  # The other removed edges (see `paths.removed_forest`)

    def validate_counters(self) -> None:
        """Check that actions are on edges of the graph, and each edge counter on its edge;
        AssertionError if not.
        """
        beyond = set(self.plan.actions) - {edge.id for edge in self.cfg.edges}
        assert not beyond, f"actions on the edges {sorted(beyond)}, which there are not"
        counters = [
            (action.counter, edge)
            for edge, actions in self.plan.actions.items()
            for action in actions
            if isinstance(action, CountEdge)
        ]
        assert sorted(counters) == list(enumerate(self.edge_counters)), (
            "the edge counters are not on the edges that they are to count"
        )
        assert self.plan.edge_counters == len(self.edge_counters), "wrong number of edge counters"
        self.removed_tree.validate_maximum([self.weights[edge] for edge in self.dag.removed])


class AcyclicPathPlan(ExactPathPlan, frozen=True, kw_only=True):
    """A plan that counts acyclic paths (EPP)."""

    numbering: PathNumbering

    @property
    def names(self) -> PathNames:
        """How large path numbers are: 0 .. paths - 1 (EPP 3.2)."""
        return PathNames((self.num_paths - 1).bit_length(), self.num_paths)

    def decode_partial(self, end: UnfinishedPath) -> PathRecord:
        """Return the unfinished path of activations that ended early (EPP 3.6)."""
        raise NotImplementedError

    def encode(self, blocks: Sequence[int], edges: Sequence[int]) -> int:
        """Return the number of a path given as in `PathRecord`; inverse of `decode`."""
        return self.numbering.encode(self.dag_path(blocks, edges))

    @property
    def blocks_of_all_paths(self) -> int | None:
        """How many blocks all paths have together."""
        return self.numbering.blocks_of_all_paths()

    def edge_counts(
        self,
        paths: Mapping[int, int],
        counters: Sequence[int],
        partial: Iterable[tuple[PathRecord, int]] = (),
    ) -> tuple[int, ...]:
        """Derive the count of every edge from counts by path number, values of the plan's edge
        counters, and unfinished paths with their counts.
        """
        finished = ((self.decode(path_id), count) for path_id, count in paths.items() if count)
        counted = zip(self.edge_counters, counters, strict=True)
        return edge_counts(self.dag, self.removed_tree, counted, chain(finished, partial))

    def read(self, counters: RoutineCounters) -> Reading:
        """Derive paths, unfinished paths and edge counts (EPP 3.5, 3.6)."""
        paths = counters.finished_paths
        partial: Counter[PathRecord] = Counter()
        for end in counters.unfinished:
            partial[self.decode_partial(end)] += end.count
        edges = self.edge_counts(paths, counters.events, partial.items())
        return Reading(edges=edges, paths=paths, partial=partial)


class PathPlan(AcyclicPathPlan, frozen=True, kw_only=True):
    """Path instrumentation of one routine and the way back from counters to paths."""

    # tree, increments: By dag edge and vertex: the structures that the plan was made from.
    tree: SpanningTree
    increments: ChordIncrements
    # Vertices at which the path register means nothing, because one path leads there
    static_region: frozenset[int]

    def decode_partial(self, end: UnfinishedPath) -> PathRecord:
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
        return path_record(self.dag, path, partial=True)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`."""
        return describe_acyclic(self.dag, self.weights, self.numbering, self.tree, self.increments)

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


# -- Planning

ExactT = TypeVar("ExactT", bound=ExactPathPlan)
Kept = tuple[CounterTable, Addressing | None]

# (numbered paths, removed edges that need counters) -> what is done where
Placing = Callable[[NumberedPaths, Sequence[int]], Placement]


def place_paths(paths: NumberedPaths, counted: Sequence[int]) -> Placement:
    """Place the code of numbered paths as EPP 3.4 does."""
    increments = paths.increments
    return place(paths.dag, paths.tree, increments.increments, counted, root=increments.root)


def plan_paths(
    cfg: ControlFlowGraph,
    *,
    weights: Sequence[float] | None = None,
    path_limit: int | None = PATH_LIMIT,
    total_limit: int | None = TOTAL_LIMIT,
    per_vertex: bool = False,
    cuts: Collection[int] = (),
    merged: Collection[int] = (),
    root_in_tree: bool = True,
    table: CounterTable | None = None,
    placing: Placing = place_paths,
) -> PathPlan:
    """Plan path profiling of any graph, irreducible ones and parallel edges included (EPP 3).

    - `weights`: Edge weights by edge id; None for BL94's heuristic.
    - `path_limit`, `total_limit`: See `find_cut_edges`; None for exact numbering of any size.
    - `per_vertex`: Whether `path_limit` is each vertex's and not the routine's (EPP 5.3).
    - `cuts`, `merged`: More edges that end paths: see `make_dag`.
    - `root_in_tree`: Whether EXIT -> ENTRY is in the spanning tree; else it is a chord.
    - `table`: The kind of table that paths are counted in in any case; None for EPP's choice.
    - `placing`: What is done where.
    """
    edge_weights = given_weights(cfg, weights)
    paths = number_paths(
        cfg,
        depth_first(cfg),
        edge_weights,
        path_limit=path_limit,
        total_limit=total_limit,
        per_vertex=per_vertex,
        cuts=cuts,
        merged=merged,
        root_in_tree=root_in_tree,
    )
    return exact_plan(
        PathPlan,
        paths.dag,
        paths.numbering,
        edge_weights,
        partial(placing, paths),
        choose_table(paths.increments.greatest, table),
        tree=paths.tree,
        increments=paths.increments,
    )


def exact_plan(
    kind: type[ExactT],
    dag: Dag,
    numbering: Numbering,
    weights: tuple[float, ...],
    placing: Callable[[Sequence[int]], Placement],
    kept: Kept,
    *,
    size: int | None = None,
    registers: int = 1,
    **fields: Any,
) -> ExactT:
    """Return a plan of some kind whose paths are numbered.

    - `placing`: (Removed edges that need counters) -> what is done where.
    - `kept`: As `choose_table` says.
    - `size`: Counters of an array; None: as many as there are paths.
    - `registers`: How many path registers there are.
    - `fields`: The kind's own.
    """
    forest = removed_forest(dag, weights)
    placement = placing([dag.removed[chord] for chord in forest.chords])
    size = numbering.total if size is None else size
    return kind(
        cfg=dag.cfg,
        plan=instrumentation(placement, size, kept, registers),
        weights=weights,
        edge_counters=placement.edge_counters,
        removed_tree=forest,
        dag=dag,
        numbering=numbering,
        **{"static_region": placement.static_region, **fields},
    )


# -- What schemes tell of their plans in `static` of `simprof explain`: the parts that several share
#
# Lists by edge follow the graph's edges; they have null where a scheme has nothing for the edge.

# What joins the halves of a spanning tree: no edge of the graph, and no code can be on it. Where
# it is a chord (`root_increment`), code of its own is in EXIT.
ROOT_EDGE = ["EXIT", "ENTRY"]


def end_names(cfg: ControlFlowGraph, edge: int) -> list[str]:
    """Return the names of an edge's source and target."""
    return [str(cfg.name_of(vertex)) for vertex in cfg.edges[edge][1:3]]


def by_block(cfg: ControlFlowGraph, numbers: Sequence[int]) -> dict[str, int]:
    """Return numbers by vertex as numbers by block name."""
    return {str(cfg.name_of(block.id)): numbers[block.id] for block in cfg.blocks}


def describe_tree(tree: SpanningTree) -> dict[str, Any]:
    """Return which edges of the routine are in the spanning tree that chose the counted ones."""
    return {"tree": list(tree.in_tree), "root_edge": ROOT_EDGE}


def describe_acyclic(
    dag: Dag,
    edge_weights: Sequence[float],
    numbering: PathNumbering,
    tree: SpanningTree,
    chord_increments: ChordIncrements,
) -> dict[str, Any]:
    """Return what numbering and placement computed on the acyclic graph that is instrumented."""
    cfg, increments = dag.cfg, chord_increments.increments
    real = [dag.real.get(edge.id) for edge in cfg.edges]
    weights = dag.edge_weights(edge_weights)
    root = {} if tree.root_edge else {"root_increment": chord_increments.root}
    return {
        "num_paths": by_block(cfg, numbering.num_paths),
        "values": by_edge(real, numbering.values),
        "order": numbering.rule.value,
        "tree": [edge is not None and tree.in_tree[edge] for edge in real],
        "root_edge": ROOT_EDGE,
        **root,
        "increments": by_edge(real, increments),
        "dummy_edges": [
            describe_dummy(cfg, edge)
            | {
                "value": numbering.values[edge.id],
                "increment": increments[edge.id],
                "weight": weights[edge.id],
                "tree": tree.in_tree[edge.id],
            }
            for edge in dag.dummies
        ],
    }


def by_edge(real: Sequence[int | None], values: Sequence[int]) -> list[int | None]:
    """Return values by dag edge as values by edge; `real` is the dag edge of each, or None."""
    return [None if edge is None else values[edge] for edge in real]


def describe_dummy(cfg: ControlFlowGraph, edge: DagEdge) -> dict[str, Any]:
    """Return a dummy edge's ends, and the edges that it stands for."""
    return {
        "from": str(cfg.name_of(edge.source)),
        "to": str(cfg.name_of(edge.target)),
        "for": list(edge.stands_for),
    }
