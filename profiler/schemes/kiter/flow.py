"""Edge counts from the counts of k-iteration paths.

An iteration in the middle of a long visit to a loop is part of k paths. Each path adds only what
no other path adds:

- Of a path that began at the head of a loop, all but its last iteration there is part of older
  paths; what counts begins at its last inner back edge. This needs heads at which only the loop's
  back edges begin paths (`Unrolled.full_loops`).
- In other loops, what counts of a path that a tail of the loop ended stops after the first of
  its last k iterations, the inner back edge included: the next path goes on from there.

That gives the counts of all edges that do not end paths, and of all blocks. Counts of removed edges
follow from the flow through their sources and targets, where an early end is an edge too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from simprof.profiler.graphs.dag import DagEdge
from simprof.profiler.graphs.flow import solve_tree
from simprof.profiler.graphs.spanning import SpanningTree
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop, Unrolled


def unrolled_edge_counts(
    unrolled: Unrolled,
    forest: SpanningTree,
    paths: Iterable[tuple[Sequence[int], int]],
    counted: Mapping[int, int],
    early: Mapping[int, int],
) -> tuple[int, ...]:
    """Derive the count of every edge.

    - `unrolled`, `forest`: The numbered graph, and the `paths.removed_forest` of its removed edges.
    - `paths`: All paths with their counts, unfinished ones included, by edges of `unrolled`.
    - `counted`: Edges with counters of their own: self-loops and the chords of `forest`.
    - `early`: Block -> activations that ended early in it.
    """
    cfg = unrolled.cfg
    counts, executions = [0] * len(cfg.edges), [0] * cfg.vertex_count
    for path, count in paths:
        for edge, arrives in _new_part(unrolled, path):
            if edge.cfg_edge is not None:
                counts[edge.cfg_edge] += count
            if arrives:
                executions[unrolled.copies[edge.target].vertex] += count
    supply = _supply(unrolled, counts, executions, early)
    for number, count in counted.items():
        counts[number] = count
    solved = solve_tree(forest, [counts[edge] for edge in unrolled.removed], supply)
    for number, count in zip(unrolled.removed, solved, strict=True):
        counts[number] = count
    return tuple(counts)


def _supply(
    unrolled: Unrolled, counts: Sequence[int], executions: Sequence[int], early: Mapping[int, int]
) -> list[int]:
    """Flow over the removed edges out of v, and, negative, into w at |V| + w."""
    cfg = unrolled.cfg
    supply = [0] * (2 * cfg.vertex_count)
    for vertex in {cfg.edges[edge].source for edge in unrolled.removed}:
        known = sum(counts[edge] for edge in cfg.out_edges[vertex])
        supply[vertex] = executions[vertex] - known - early.get(vertex, 0)
    for vertex in {cfg.edges[edge].target for edge in unrolled.removed}:
        known = sum(counts[edge] for edge in cfg.in_edges[vertex])
        supply[cfg.vertex_count + vertex] = known - executions[vertex]
    return supply


def _new_part(unrolled: Unrolled, path: Sequence[int]) -> Iterator[tuple[DagEdge, bool]]:
    """Yield the edges that this path adds, and whether it adds the execution of their target."""
    edges = [unrolled.edges[edge] for edge in path]
    first, last = 0, len(edges)
    begun = _begun_by(unrolled, edges[0])
    if begun is not None:
        first = _inner_back_edge(unrolled, path, begun, begun.iterations - 1)
    ended = _ended_by(unrolled, edges[-1])
    if ended is not None:
        last = _inner_back_edge(unrolled, path, ended, 1)
    for place in range(first, min(last + 1, len(edges))):
        yield edges[place], place != last


def _begun_by(unrolled: Unrolled, edge: DagEdge) -> IteratedLoop | None:
    """Return the loop whose back edge began the path, where that is sure."""
    if edge.cfg_edge is not None or edge.target not in unrolled.full_loops:
        return None
    return unrolled.loop_of[unrolled.copies[edge.target].vertex]


def _ended_by(unrolled: Unrolled, edge: DagEdge) -> IteratedLoop | None:
    """Return the loop whose back edge ended the path, if that began the next path unsurely."""
    loop = unrolled.loop_of.get(unrolled.copies[edge.source].vertex)
    if loop is None or loop.head in unrolled.full_loops or edge.cfg_edge is not None:
        return None
    return loop if any(ended in loop.back_edges for ended in edge.stands_for) else None


def _inner_back_edge(unrolled: Unrolled, path: Sequence[int], loop: IteratedLoop, copy: int) -> int:
    """Return the place of the back edge out of a copy of `loop`."""
    edges = (unrolled.edges[edge] for edge in path)
    return next(
        place
        for place, edge in enumerate(edges)
        if edge.cfg_edge in loop.back_edges and unrolled.copies[edge.source].iteration == copy
    )
