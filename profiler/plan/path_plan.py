"""The common part of plans that count paths.

Steps of reading counters: counts taken ahead of an early end are taken back
(`RoutineCounters.finished_paths`), the paths of activations that ended early are identified
(`decode_partial`, EPP 3.6), and edge counts follow from the paths and from the counters of the
edges that these leave open (`paths.edge_counts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from simprof.profiler.graphs.cfg import remembers_recent
from simprof.profiler.graphs.dag import Dag
from simprof.profiler.graphs.numbering import PathNumbering
from simprof.profiler.graphs.paths import PathRecord, dag_path, edge_counts, path_record
from simprof.profiler.graphs.spanning import SpanningTree
from simprof.profiler.plan.actions import CountEdge
from simprof.profiler.plan.decoders import (
    PathNames,
    Plan,
    Reading,
    RoutineCounters,
    UnfinishedPath,
)


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
