"""The graph on which k-iteration paths are numbered (KITER; Roy and Srikant, CGO 2009).

Terms
-----
iterated loop
    An innermost natural loop whose paths span k >= 2 iterations (KITER 5). All other loops are
    profiled acyclically: their back edges, like cut edges, are *removed* and end paths, as in
    `dag`.
copy
    The loop-unrolled graph has k copies of an iterated loop (KITER 3.1); `iteration` i of a vertex
    or edge is the copy that it is in, 1 outside of such loops. The back edge leads from copy
    i to the head in copy i + 1.
entry dummy, exit dummy
    ENTRY -> head in copy 1, and tail in copy k -> EXIT: the paths that a back edge begins and
    ends. Removed edges share the dummies of their vertices; one that leaves an iterated loop has
    an exit dummy in every copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.dag import Dag, DagEdge
from simprof.profiler.graphs.loops import DepthFirst, loop_body, proper_back_edges
from simprof.simulator.values import dataclass

# -- Which loops are iterated (KITER 5)
#
# Loops with one head and nested bodies are nested loops, as in KITER figure 8; the others that
# share a head are one loop with several tails. A loop is left acyclic that has another loop, or
# part of an irreducible one, inside, or whose paths would not tell how often its edges were
# executed (`Unrolled.ambiguous_loops`). Self-loops are no loops here: they have counters of their
# own (KITER 3; EPP 4.1).


@dataclass(frozen=True)
class IteratedLoop:
    """A loop and the number of its iterations that paths span (k of KITER, by loop)."""

    head: int
    body: frozenset[int]
    back_edges: tuple[int, ...]
    iterations: int


def find_loops(cfg: ControlFlowGraph, dfs: DepthFirst, iterations: int) -> Iterator[IteratedLoop]:
    """Yield all loops, with k = `iterations`; self-loops are none. Of one head inner ones first."""
    by_head: dict[int, list[int]] = {}
    for edge in sorted(proper_back_edges(cfg, dfs) - dfs.self_loops):
        by_head.setdefault(cfg.edges[edge].target, []).append(edge)
    for head in filter(by_head.__contains__, dfs.topological):
        bodies = {
            edge: loop_body(cfg, dfs, head, [cfg.edges[edge].source]) for edge in by_head[head]
        }
        body: frozenset[int] = frozenset()
        while bodies:
            least = [each for each in bodies.values() if not any(o < each for o in bodies.values())]
            body = body.union(*least)
            own = tuple(edge for edge in bodies if cfg.edges[edge].source in body)
            yield IteratedLoop(head, body, own, iterations)
            bodies = {edge: each for edge, each in bodies.items() if edge not in own}


def innermost_loops(
    cfg: ControlFlowGraph, dfs: DepthFirst, iterations: int
) -> tuple[IteratedLoop, ...]:
    """Return the loops that can be iterated where none is collapsed, all with k = `iterations`."""
    loops = find_loops(cfg, dfs, iterations)
    return tuple(loop for loop in loops if not any(cycles_inside(cfg, dfs, loop)))


def cycles_inside(
    cfg: ControlFlowGraph, dfs: DepthFirst, loop: IteratedLoop
) -> Iterator[frozenset[int]]:
    """Yield the ends of the back edges inside of a loop that are neither its own nor self-loops."""
    for edge in dfs.back_edges - dfs.self_loops - frozenset(loop.back_edges):
        ends = frozenset((cfg.edges[edge].source, cfg.edges[edge].target))
        if ends <= loop.body:
            yield ends


def with_iterations(
    loops: Iterable[IteratedLoop], iterations: Mapping[int, int]
) -> tuple[IteratedLoop, ...]:
    """Return `loops` with k by head; those with k = 1 are acyclic and left out."""
    chosen = (replace(loop, iterations=iterations[loop.head]) for loop in loops)
    return tuple(loop for loop in chosen if loop.iterations > 1)


def by_back_edges(loops: Iterable[IteratedLoop]) -> dict[tuple[int, ...], int]:
    """Return k by the loops' back edges."""
    return {loop.back_edges: loop.iterations for loop in loops}


# -- The unrolled graph


class Copy(NamedTuple):
    """A vertex of the unrolled graph: which vertex of the control-flow graph, in which copy."""

    vertex: int
    iteration: int


@dataclass(frozen=True)
class Unrolled(Dag):
    """A control-flow graph without cycles, its iterated loops unrolled."""

    # Vertices keep their ids in copy 1; those of other copies follow. Real edges are in control-
    # flow order, then by copy.
    loops: tuple[IteratedLoop, ...]  # The iterated loops; their bodies are disjoint.
    copies: tuple[Copy, ...]  # By vertex
    # The vertices, targets before sources; the copies of a loop are together, the last first.
    order: tuple[int, ...]

    @property
    def vertex_count(self) -> int:
        """Number of vertex ids."""
        return len(self.copies)

    @property
    def topological(self) -> tuple[int, ...]:
        """The vertices, sources before targets."""
        return self.order[::-1]

    def targets_of(self, edges: Iterable[int]) -> Iterable[int]:
        """Return which vertex of `cfg` each of some edges leads to."""
        return (self.copies[self.columns.target[edge]].vertex for edge in edges)

    @cached_property
    def loop_of(self) -> Mapping[int, IteratedLoop]:
        """The iterated loop of each block that is in one."""
        return {vertex: loop for loop in self.loops for vertex in loop.body}

    @cached_property
    def by_cfg_edge(self) -> Mapping[int, tuple[int, ...]]:
        """Control-flow edge -> its edges here, by copy; absent where it is removed."""
        copies_of: defaultdict[int, list[int]] = defaultdict(list)
        for edge in self.edges:
            if edge.cfg_edge is not None:
                copies_of[edge.cfg_edge].append(edge.id)
        return {edge: tuple(copies) for edge, copies in copies_of.items()}

    @cached_property
    def full_loops(self) -> frozenset[int]:
        """Heads of the iterated loops whose paths from the head make all k iterations."""
        # Only its back edges begin paths at such a head. Where removed edges lead to the head too,
        # paths begin there that may leave the loop in any iteration, and all those are valid.
        entered = {self.cfg.edges[edge].target for edge in self.removed}
        return frozenset(loop.head for loop in self.loops) - entered

    @cached_property
    def ambiguous_loops(self) -> frozenset[int]:
        """Heads of loops whose paths do not tell how often each edge was executed."""
        # A path that begins at the head may have been begun by another edge than the loop's, and
        # one that ends at a tail may have been ended by another.
        ended = {self.cfg.edges[edge].source for edge in self.removed}
        return frozenset(
            loop.head
            for loop in self.loops
            if loop.head not in self.full_loops
            and any(self.cfg.edges[edge].source in ended for edge in loop.back_edges)
        )

    def copy(self, vertex: int, iteration: int) -> int:
        """Return the vertex that is this copy of a control-flow vertex."""
        return self._ids[vertex, iteration]

    @cached_property
    def _ids(self) -> Mapping[tuple[int, int], int]:
        return {copy: vertex for vertex, copy in enumerate(self.copies)}

    def leaves(self, edge: DagEdge) -> bool:
        """Whether the edge leaves an iterated loop otherwise than by its k-th back edge."""
        loop = self.loop_of.get(self.copies[edge.source].vertex)
        if loop is None:
            return False
        if edge.cfg_edge is None:
            return self.copies[edge.source].iteration < loop.iterations
        return self.cfg.edges[edge.cfg_edge].target not in loop.body

    def edge_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights from those of control-flow edges: what an increment on the edge would cost."""
        # Every copy of an edge costs what the edge does. The back edge of an iterated loop sets and
        # reads accumulators anyway, so what its dummies add to that costs nothing.
        free = {edge for loop in self.loops for edge in loop.back_edges}
        return tuple(
            weights[edge.cfg_edge]
            if edge.cfg_edge is not None
            else sum(weights[ended] for ended in edge.stands_for if ended not in free)
            for edge in self.edges
        )

    def validate(self) -> None:
        """Check what holds of every acyclic graph, and that iterated loops are disjoint."""
        super().validate()
        bodies = sum(len(loop.body) for loop in self.loops)
        assert len(self.loop_of) == bodies, "a block is in two iterated loops"


def unroll(
    cfg: ControlFlowGraph,
    dfs: DepthFirst,
    loops: Sequence[IteratedLoop],
    cut_edges: Collection[int] = (),
) -> Unrolled:
    """Return the unrolled graph of disjoint innermost loops with k >= 2; `cut_edges`, from vertices
    outside of them, are removed too. ValueError if one cannot be cut, or a loop not be iterated.
    """
    cuts = frozenset(cut_edges)
    inside = {vertex for loop in loops for vertex in loop.body}
    if any(loop.iterations < 2 for loop in loops):
        raise ValueError(f"{cfg.name}: an iterated loop needs at least 2 iterations")
    if cuts & dfs.back_edges or any(
        cfg.edges[edge].target == cfg.exit or cfg.edges[edge].source in inside for edge in cuts
    ):
        raise ValueError(f"{cfg.name}: back edges, edges to EXIT and in loops cannot be cut")
    return _Unroller(cfg, dfs, tuple(loops), cuts).build()


class _Unroller:
    """Collects the vertices and edges of the unrolled graph."""

    def __init__(
        self,
        cfg: ControlFlowGraph,
        dfs: DepthFirst,
        loops: tuple[IteratedLoop, ...],
        cuts: frozenset[int],
    ) -> None:
        self.cfg, self.dfs, self.loops, self.cuts = cfg, dfs, loops, cuts
        self.loop_of = {vertex: loop for loop in loops for vertex in loop.body}
        self.back = {edge for loop in loops for edge in loop.back_edges}
        self.removed = tuple(sorted((dfs.back_edges - dfs.self_loops - self.back) | cuts))
        self.copies = [Copy(vertex, 1) for vertex in range(cfg.vertex_count)]
        # By vertex and iteration: plain tuples find what named ones do, and are made sooner
        self.ids: dict[tuple[int, int], int] = {
            copy: vertex for vertex, copy in enumerate(self.copies)
        }
        for loop in loops:
            for iteration in range(2, loop.iterations + 1):
                for vertex in sorted(loop.body):
                    self.ids[Copy(vertex, iteration)] = len(self.copies)
                    self.copies.append(Copy(vertex, iteration))
        self.edges: list[DagEdge] = []

    def build(self) -> Unrolled:
        """Return the graph."""
        gone = {*self.removed, *self.dfs.self_loops}
        for edge in self.cfg.edges:
            if edge.source in self.dfs.reached and edge.id not in gone:
                self._add_real(edge.id)
        self._add_dummies()
        return Unrolled(
            self.cfg,
            self.dfs,
            tuple(self.edges),
            self.removed,
            tuple(sorted(self.cuts)),
            self.loops,
            tuple(self.copies),
            tuple(self._order()),
        )

    def _add(
        self,
        source: tuple[int, int],
        target: tuple[int, int],
        cfg_edge: int | None,
        stands_for: Iterable[int] = (),
    ) -> None:
        ends = self.ids[source], self.ids[target]
        self.edges.append(DagEdge(len(self.edges), *ends, cfg_edge, tuple(stands_for)))

    def _add_real(self, cfg_edge: int) -> None:
        _, source, target, _ = self.cfg.edges[cfg_edge]
        loop = self.loop_of.get(source)
        if loop is None:  # first copies have the numbers of what they are copies of
            self.edges.append(DagEdge(len(self.edges), source, target, cfg_edge))
            return
        step = int(cfg_edge in self.back)
        for iteration in range(1, loop.iterations - step + 1):
            to = target, iteration + step if target in loop.body else 1
            self._add((source, iteration), to, cfg_edge)

    def _add_dummies(self) -> None:
        starts: defaultdict[int, list[int]] = defaultdict(list)
        ends: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for edge in sorted({*self.removed, *self.back}):
            _, source, target, _ = self.cfg.edges[edge]
            starts[target].append(edge)
            loop = self.loop_of.get(source)
            last = loop.iterations if loop is not None else 1
            first = last if edge in self.back else 1
            for iteration in range(first, last + 1):
                ends[source, iteration].append(edge)
        inner = {edge.source for edge in self.edges} | {self.cfg.exit}
        for vertex in self.dfs.preorder:
            if vertex not in inner:
                ends.setdefault((vertex, 1), [])
        entry, exit_copy = (self.cfg.entry, 1), (self.cfg.exit, 1)
        for target, edges in starts.items():
            self._add(entry, (target, 1), None, edges)
        for source_copy, edges in ends.items():
            self._add(source_copy, exit_copy, None, edges)

    def _order(self) -> Iterable[int]:
        """Yield vertices, targets first: a loop's head comes after all that its exits lead to."""
        yield self.cfg.exit
        heads = {loop.head: loop for loop in self.loops}
        ranks = {vertex: rank for rank, vertex in enumerate(self.dfs.postorder)}
        for vertex in self.dfs.postorder:
            loop = heads.get(vertex)
            if loop is not None:
                for iteration in range(loop.iterations, 0, -1):
                    for inner in sorted(loop.body, key=ranks.__getitem__):
                        yield self.ids[inner, iteration]
            elif vertex not in self.loop_of and vertex != self.cfg.exit:
                yield vertex
