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

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s

# -- Which loops are iterated (KITER 5)
#
# Loops with one head and nested bodies are nested loops, as in KITER figure 8; the others that
# share a head are one loop with several tails. A loop is left acyclic that has another loop, or
# part of an irreducible one, inside, or whose paths would not tell how often its edges were
# executed (`ambiguous_loops`). Self-loops are no loops here: they have counters of their
# own (KITER 3; EPP 4.1).


class IteratedLoop(Struct, frozen=True):
    """A loop and the number of its iterations that paths span (k of KITER, by loop)."""

    head: int
    body: frozenset[int]
    back_edges: tuple[int, ...]
    iterations: int


def find_loops(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, iterations: int
) -> Iterator[IteratedLoop]:
    """Yield all loops, with k = `iterations`; self-loops are none. Of one head inner ones first."""
    by_head: dict[int, list[int]] = {}
    for edge in sorted(s.proper_back_edges(cfg, dfs) - dfs.self_loops):
        by_head.setdefault(cfg.edges[edge].target, []).append(edge)
    for head in filter(by_head.__contains__, dfs.topological):
        bodies = {
            edge: s.loop_body(cfg, dfs, head, [cfg.edges[edge].source]) for edge in by_head[head]
        }
        body: frozenset[int] = frozenset()
        while bodies:
            least = [each for each in bodies.values() if not any(o < each for o in bodies.values())]
            body = body.union(*least)
            own = tuple(edge for edge in bodies if cfg.edges[edge].source in body)
            yield IteratedLoop(head, body, own, iterations)
            bodies = {edge: each for edge, each in bodies.items() if edge not in own}


def innermost_loops(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, iterations: int
) -> tuple[IteratedLoop, ...]:
    """Return the loops that can be iterated where none is collapsed, all with k = `iterations`."""
    loops = find_loops(cfg, dfs, iterations)
    return tuple(loop for loop in loops if not any(cycles_inside(cfg, dfs, loop)))


def cycles_inside(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, loop: IteratedLoop
) -> Iterator[frozenset[int]]:
    """Yield the ends of the back edges inside of a loop that are neither its own nor self-loops."""
    source, target = cfg.ends
    for edge in dfs.back_edges.difference(dfs.self_loops, loop.back_edges):
        if source[edge] in loop.body and target[edge] in loop.body:
            yield frozenset((source[edge], target[edge]))


def with_iterations(
    loops: Iterable[IteratedLoop], iterations: Mapping[int, int]
) -> tuple[IteratedLoop, ...]:
    """Return `loops` with k by head; those with k = 1 are acyclic and left out."""
    kept = ((loop, k) for loop in loops if (k := iterations[loop.head]) > 1)
    return tuple(each if each.iterations == k else replace(each, iterations=k) for each, k in kept)


def by_back_edges(loops: Iterable[IteratedLoop]) -> dict[tuple[int, ...], int]:
    """Return k by the loops' back edges."""
    return {loop.back_edges: loop.iterations for loop in loops}


# -- The unrolled graph


class Copy(NamedTuple):
    """A vertex of the unrolled graph: which vertex of the control-flow graph, in which copy."""

    vertex: int
    iteration: int


class Unrolled(s.Dag, frozen=True, dict=True):
    """A control-flow graph without cycles, its iterated loops unrolled."""

    # Vertices keep their ids in copy 1; those of other copies follow, by loop, copy and block. Real
    # edges are in control-flow order, then by copy.
    loops: tuple[IteratedLoop, ...]  # The iterated loops; their bodies are disjoint.

    @property
    def vertex_count(self) -> int:
        """Number of vertex ids."""
        more = sum([(loop.iterations - 1) * len(loop.body) for loop in self.loops])
        return self.cfg.vertex_count + more

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """What each vertex is a copy of."""
        more = [
            Copy(vertex, iteration)
            for loop in self.loops
            for iteration in range(2, loop.iterations + 1)
            for vertex in sorted(loop.body)
        ]
        return (*(Copy(vertex, 1) for vertex in range(self.cfg.vertex_count)), *more)

    @cached_property
    def copies_of(self) -> Mapping[int, tuple[int, ...]]:
        """The copies of each block of an iterated loop."""
        return _copies_of(self.cfg, self.loops)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The vertices, targets before sources; the copies of a loop are together, last first."""
        order, ranks = [self.cfg.exit], {v: rank for rank, v in enumerate(self.dfs.postorder)}
        for vertex in self.dfs.postorder:  # A head comes after all that its loop's exits lead to.
            loop = self.loop_of.get(vertex)
            if loop is None:
                if vertex != self.cfg.exit:
                    order.append(vertex)
            elif vertex == loop.head:
                body = sorted(loop.body, key=ranks.__getitem__)
                for copies in reversed([*zip(*map(self.copies_of.__getitem__, body), strict=True)]):
                    order += copies
        return tuple(order)

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

    @property
    @s.remembers_recent
    def by_cfg_edge(self) -> Mapping[int, tuple[int, ...]]:
        """Control-flow edge -> its edges here, by copy; absent where it is removed."""
        copies_of: defaultdict[int, list[int]] = defaultdict(list)
        for number, edge in enumerate(self.columns.cfg_edge):
            if edge >= 0:
                copies_of[edge].append(number)
        return {edge: tuple(copies) for edge, copies in copies_of.items()}

    @cached_property
    def full_loops(self) -> frozenset[int]:
        """Heads of the iterated loops whose paths from the head make all k iterations."""
        return full_loops(self.cfg, self.loops, self.removed)

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The edges out of ENTRY."""
        source, entry = self.columns.source, self.cfg.entry
        return tuple([edge for edge, vertex in enumerate(source) if vertex == entry])

    @cached_property
    def compensated_dummies(self) -> frozenset[int]:
        """The entry dummies of `full_loops`."""
        return frozenset(self.entry_dummy[head] for head in self.full_loops)

    def copy(self, vertex: int, iteration: int) -> int:
        """Return the vertex that is this copy of a control-flow vertex."""
        return self.copies_of[vertex][iteration - 1] if vertex in self.copies_of else vertex

    @cached_property
    def leaving(self) -> frozenset[int]:
        """The edges that leave an iterated loop otherwise than by its k-th back edge."""
        (_, target), cfg_edge, found = self.cfg.ends, self.columns.cfg_edge, set()
        for loop in self.loops:
            for copies in map(self.copies_of.__getitem__, loop.body):
                for copy in copies:
                    for number in self.out_edges[copy]:
                        edge = cfg_edge[number]
                        if copy != copies[-1] if edge < 0 else target[edge] not in loop.body:
                            found.add(number)
        return frozenset(found)

    def edge_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights from those of control-flow edges: what an increment on the edge would cost."""
        # Every copy of an edge costs what the edge does. The back edge of an iterated loop sets and
        # reads accumulators anyway, so what its dummies add to that costs nothing.
        paid = list(weights)
        for loop in self.loops:
            for edge in loop.back_edges:
                paid[edge] = 0
        real = len(self.columns.cfg_edge) + 1 - len(self.columns.first)  # dummies are the last
        copied = map(weights.__getitem__, self.columns.cfg_edge[:real])
        return (*copied, *super().edge_weights(paid)[real:])

    def validate(self) -> None:
        """Check what holds of every acyclic graph, and that iterated loops are disjoint."""
        super().validate()
        bodies = sum(len(loop.body) for loop in self.loops)
        assert len(self.loop_of) == bodies, "a block is in two iterated loops"


def removed_edges(
    dfs: s.DepthFirst, loops: Iterable[IteratedLoop], cuts: Collection[int]
) -> tuple[int, ...]:
    """Return the edges that are removed where these loops are iterated and `cuts` are cut."""
    back = dfs.back_edges.difference(dfs.self_loops, *(loop.back_edges for loop in loops))
    return tuple(sorted(back.union(cuts)))


def full_loops(
    cfg: s.ControlFlowGraph, loops: Iterable[IteratedLoop], removed: Iterable[int]
) -> frozenset[int]:
    """Return `Unrolled.full_loops`."""
    # Only its back edges begin paths at such a head. Where removed edges lead to the head too,
    # paths begin there that may leave the loop in any iteration, and all those are valid.
    entered = set(map(cfg.ends[1].__getitem__, removed))
    return frozenset([loop.head for loop in loops]) - entered


def ambiguous_loops(
    cfg: s.ControlFlowGraph, loops: Iterable[IteratedLoop], removed: Iterable[int]
) -> frozenset[int]:
    """Return the heads of loops whose paths do not tell how often each edge was executed."""
    # A path that begins at the head may have been begun by another edge than the loop's, and
    # one that ends at a tail may have been ended by another.
    source, full = cfg.ends[0], full_loops(cfg, loops, removed)
    ended = set(map(source.__getitem__, removed))
    return frozenset(
        loop.head
        for loop in loops
        if loop.head not in full and any(source[edge] in ended for edge in loop.back_edges)
    )


def _copies_of(
    cfg: s.ControlFlowGraph, loops: Iterable[IteratedLoop]
) -> Mapping[int, tuple[int, ...]]:
    found, begin = {}, cfg.vertex_count
    for loop in loops:
        width = len(loop.body)
        end = begin + (loop.iterations - 1) * width
        for second, vertex in enumerate(sorted(loop.body), begin):
            found[vertex] = (vertex, *range(second, end, width))
        begin = end
    return found


def unroll(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    loops: Sequence[IteratedLoop],
    cut_edges: Collection[int] = (),
) -> Unrolled:
    """Return the unrolled graph of disjoint innermost loops with k >= 2; `cut_edges`, from vertices
    outside of them, are removed too. ValueError if one cannot be cut, or a loop not be iterated.
    """
    cuts, loops = frozenset(cut_edges), tuple(loops)
    source, target = cfg.ends
    inside = {vertex for loop in loops for vertex in loop.body}
    if any(loop.iterations < 2 for loop in loops):
        raise ValueError(f"{cfg.name}: an iterated loop needs at least 2 iterations")
    if cuts & dfs.back_edges or any(
        target[edge] == cfg.exit or source[edge] in inside for edge in cuts
    ):
        raise ValueError(f"{cfg.name}: back edges, edges to EXIT and in loops cannot be cut")
    if loops:
        removed = removed_edges(dfs, loops, cuts)
        columns = _unrolled(cfg, dfs, loops, removed)
    else:
        dag = s.make_dag(cfg, dfs, cuts)
        columns, removed = dag.columns, dag.removed
    return Unrolled(cfg, dfs, columns, removed, tuple(sorted(cuts)), loops)


def _unrolled(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    loops: tuple[IteratedLoop, ...],
    removed: tuple[int, ...],
) -> s.DagColumns:
    """Return the edges of the unrolled graph of one loop or more."""
    (sources, targets), copies_of = cfg.ends, _copies_of(cfg, loops)
    loop_of = {vertex: loop for loop in loops for vertex in loop.body}
    back = {edge for loop in loops for edge in loop.back_edges}
    left_out, reached = dfs.self_loops.union(removed), dfs.reached
    source, target, cfg_edge = array("q"), array("q"), array("q")
    live = {cfg.exit}  # and whatever an edge leaves in copy 1
    for edge, (begin, end) in enumerate(zip(sources, targets, strict=True)):
        if begin not in reached or edge in left_out:
            continue
        live.add(begin)
        loop = loop_of.get(begin)
        if loop is None:
            source.append(begin)
            target.append(end)
            cfg_edge.append(edge)
            continue
        copies: Sequence[int] = copies_of[begin]
        ends: Sequence[int] = copies_of[end] if end in loop.body else (end,) * len(copies)
        if edge in back:
            copies, ends = copies[:-1], ends[1:]
        source.extend(copies)
        target.extend(ends)
        cfg_edge.extend([edge] * len(copies))
    # The dummies, by source and target, with what they stand for
    begins: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    stops: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for edge in sorted(back.union(removed)):
        begins[cfg.entry, targets[edge]].append(edge)
        copies = copies_of.get(sources[edge], (sources[edge],))
        for copy in copies[-1:] if edge in back else copies:
            stops[copy, cfg.exit].append(edge)
    for vertex in dfs.preorder:
        if vertex not in live:
            stops.setdefault((vertex, cfg.exit), [])
    dummies = [*begins.items(), *stops.items()]
    source.extend([begin for (begin, _), _ in dummies])
    target.extend([end for (_, end), _ in dummies])
    cfg_edge.extend([-1] * len(dummies))
    standing = [edges for _, edges in dummies]
    first = array("q", accumulate(map(len, standing), initial=0))
    return s.DagColumns(source, target, cfg_edge, first, array("q", chain(*standing)))
