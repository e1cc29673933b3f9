"""Outer loops with their inner loops collapsed to single nodes (KITER 5).

Terms
-----
collapsed loop
    A loop inside of an iterated one. In the graph that this is part of it is one block, which its
    head stands for: the edges into it, and those out of it, are the block's.
region
    The routine, or a collapsed loop: a graph of its own, whose paths are numbered and counted on
    their own (as in hierarchical path profiling, to which KITER 5 refers). The graph of a loop is
    entered at the head, and left from every block that an edge leaves the loop from.

A loop with k = 1 is acyclic, in the region that it is in, and collapses nothing (mixed mode).

Steps: `nested_loops` finds the loops; `divide` makes the regions, and chooses k within the limits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.kiter.numbering import fit, number_iterations
from simprof.profiler.schemes.kiter.unrolled import (
    IteratedLoop,
    Unrolled,
    cycles_inside,
    find_loops,
)


class NestedLoop(Struct, frozen=True):
    """A loop, and those directly inside of it."""

    loop: IteratedLoop
    inner: tuple[NestedLoop, ...]
    # Whether nothing but its own back edges closes cycles in it once the inner loops are collapsed
    is_iterable: bool

    def __iter__(self) -> Iterator[NestedLoop]:
        """Yield the loop and all inside of it, outer ones first."""
        yield self
        for each in self.inner:
            yield from each


def nested_loops(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, iterations: int
) -> tuple[NestedLoop, ...]:
    """Return the loops that are in no other, all with k = `iterations`; self-loops are none."""
    # Loops are nested or disjoint, so each one is in the smallest of those that hold its head.
    every = find_loops(cfg, dfs, iterations)
    left = sorted(every, key=lambda loop: (len(loop.body), loop.back_edges))
    found: list[NestedLoop] = []
    for loop in left:
        inner = tuple(each for each in found if each.loop.body <= loop.body)
        found = [each for each in found if each not in inner]
        is_iterable = all(
            any(ends <= each.loop.body for each in inner) for ends in cycles_inside(cfg, dfs, loop)
        )
        found.append(NestedLoop(loop, inner, is_iterable))
    return tuple(found)


# -- Regions


class GraphRegion(Struct, frozen=True, dict=True):
    """A routine, or a collapsed loop, as a graph without the insides of its collapsed loops."""

    cfg: s.ControlFlowGraph
    dfs: s.DepthFirst
    blocks: tuple[int, ...]  # By block: that of the routine; for a collapsed loop, its head
    # By edge: that of the routine, of which there is one; None for a loop's entry and exits
    edges: tuple[int | None, ...]
    members: tuple[frozenset[int], ...]  # By block: the routine's blocks that it stands for
    loops: tuple[IteratedLoop, ...]  # Iterated ones, by the blocks and edges of this graph
    loop: IteratedLoop | None = None  # Which loop of the routine it is
    parent: int | None = None  # The region that this one is collapsed in, by number

    @cached_property
    def vertex_of(self) -> Mapping[int, int]:
        """The block that each of the routine's blocks is, or is collapsed in."""
        return {block: at for at, group in enumerate(self.members) for block in group}

    def vertices(self, cfg: s.ControlFlowGraph) -> dict[int, int]:
        """Return which vertex of the routine each vertex is; those of ENTRY and EXIT too."""
        found = dict(enumerate(self.blocks))
        if self.loop is None:
            found |= {self.cfg.entry: cfg.entry, self.cfg.exit: cfg.exit}
        return found

    @cached_property
    def real(self) -> Mapping[int, int]:
        """Edge of the routine -> its edge here."""
        return {edge: at for at, edge in enumerate(self.edges) if edge is not None}

    def weights(self, weights: Sequence[float], cfg: s.ControlFlowGraph) -> tuple[float, ...]:
        """Return the weights by edge here, of those by edge of the routine."""
        body = frozenset[int]() if self.loop is None else self.loop.body
        border: defaultdict[tuple[int, int], float] = defaultdict(float)
        for edge in cfg.edges:
            if edge.target in body and edge.source not in body:
                border[self.cfg.entry, self.vertex_of[edge.target]] += weights[edge.id]
            elif edge.source in body and edge.target not in body:
                border[self.vertex_of[edge.source], self.cfg.exit] += weights[edge.id]
        return tuple(
            weights[edge] if edge is not None else border[here.source, here.target]
            for edge, here in zip(self.edges, self.cfg.edges, strict=True)
        )

    @cached_property
    def exits(self) -> Mapping[int, int]:
        """Block -> its edge out of the loop, where it has one."""
        leaving = (e for e in self.cfg.edges if e.target == self.cfg.exit)
        return {edge.source: edge.id for edge in leaving}

    @property
    def entry(self) -> int:
        """The edge into the loop."""
        (entry,) = self.cfg.out_edges[self.cfg.entry]
        return entry

    @property
    def collapsed(self) -> frozenset[int]:
        """The blocks that stand for loops."""
        return frozenset(at for at, group in enumerate(self.members) if len(group) > 1)


class _Divider:
    """Makes the regions of a routine."""

    def __init__(
        self,
        cfg: s.ControlFlowGraph,
        dfs: s.DepthFirst,
        iterations: Mapping[tuple[int, ...], int],  # k by the loops' back edges
    ) -> None:
        self.cfg, self.dfs, self.iterations = cfg, dfs, iterations
        self.regions: list[GraphRegion] = []

    def divide(self, loops: Sequence[NestedLoop]) -> list[GraphRegion]:
        """Return the regions, outer ones first."""
        every = frozenset(range(len(self.cfg.blocks)))
        work: list[tuple[NestedLoop | None, int | None]] = [(None, None)]
        for nest, parent in work:
            tops = loops if nest is None else (nest,)
            iterated = [each for top in tops for each in self._iterated(top)]
            inner = [each for outer in iterated for each in outer.inner]
            blocks = every if nest is None else nest.loop.body
            loop = None if nest is None else nest.loop
            work += [(each, len(self.regions)) for each in inner]
            self.regions.append(self._region(blocks, loop, parent, iterated, inner))
        return self.regions

    def _iterated(self, nest: NestedLoop) -> Iterator[NestedLoop]:
        """Yield the loops of a nest that are iterated in the region that it is in."""
        if nest.is_iterable and self.iterations[nest.loop.back_edges] > 1:
            yield nest
            return
        for each in nest.inner:
            yield from self._iterated(each)

    def _region(
        self,
        inside: frozenset[int],
        loop: IteratedLoop | None,
        parent: int | None,
        iterated: Sequence[NestedLoop],
        collapsed: Sequence[NestedLoop],
    ) -> GraphRegion:
        cfg, dfs = self.cfg, self.dfs
        groups = {each.loop.head: each.loop.body for each in collapsed}
        hidden = {block for head, body in groups.items() for block in body if block != head}
        blocks = tuple(sorted(inside - hidden))
        members = tuple(groups.get(block, frozenset({block})) for block in blocks)
        vertex = {block: at for at, group in enumerate(members) for block in group}
        count = len(blocks)
        if loop is None:
            vertex |= {cfg.entry: count, cfg.exit: count + 1}
        edges: list[s.Edge] = []
        originals: list[int | None] = []
        exits: set[int] = set()
        for edge in cfg.edges:
            source, target = vertex.get(edge.source), vertex.get(edge.target)
            if source is None:
                continue
            if target is None:
                exits.add(source)
            elif source != target or len(members[source]) == 1:  # not inside a collapsed loop
                edges.append(s.Edge(len(edges), source, target, edge.kind))
                originals.append(edge.id)
        if loop is not None:
            edges.append(s.Edge(len(edges), count, vertex[loop.head], s.EdgeKind.ENTRY))
            for source in sorted(exits):
                edges.append(s.Edge(len(edges), source, count + 1, s.EdgeKind.EXIT))
            originals += [None] * (len(edges) - len(originals))
        made = tuple(cfg.blocks[block]._replace(id=at) for at, block in enumerate(blocks))
        graph = s.ControlFlowGraph(
            cfg.name, cfg.address, cfg.size, made, tuple(edges), ordered=cfg.ordered
        )
        ids = {edge: at for at, edge in enumerate(originals) if edge is not None}
        search = _search(dfs, graph, ids, {v: vertex[v] for v in vertex if v not in hidden}, loop)
        loops = tuple(
            IteratedLoop(
                vertex[each.loop.head],
                frozenset(vertex[block] for block in each.loop.body),
                tuple(ids[edge] for edge in each.loop.back_edges),
                self.iterations[each.loop.back_edges],
            )
            for each in iterated
        )
        return GraphRegion(graph, search, blocks, tuple(originals), members, loops, loop, parent)


def _search(
    dfs: s.DepthFirst,
    cfg: s.ControlFlowGraph,  # The region's graph
    edges: Mapping[int, int],
    vertices: Mapping[int, int],
    loop: IteratedLoop | None,
) -> s.DepthFirst:
    """Return the routine's search on a region."""
    # A search of the region's own could find other back edges in irreducible parts, so that edges
    # would end paths that end none elsewhere. Nothing but its inside, and what its exits lead to,
    # is finished between a loop's vertices and its head, so the head stands for it in both orders.
    preorder = tuple(vertices[v] for v in dfs.preorder if v in vertices)
    postorder = tuple(vertices[v] for v in dfs.postorder if v in vertices)
    if loop is not None:
        is_left = any(edge.target == cfg.exit for edge in cfg.edges)
        last = (cfg.exit,) if is_left else ()
        preorder, postorder = (cfg.entry, *preorder, *last), (*last, *postorder, cfg.entry)
    return s.DepthFirst(
        preorder,
        postorder,
        frozenset(edges[edge] for edge in dfs.back_edges if edge in edges),
        frozenset(edges[edge] for edge in dfs.self_loops if edge in edges),
    )


class UnrolledRegion(Struct, frozen=True):
    """A region, and the graph on which its paths are numbered."""

    region: GraphRegion
    unrolled: Unrolled

    def got(self, wanted: IteratedLoop) -> int:
        """Return the k that an iterated loop of the region has got."""
        return next((x.iterations for x in self.unrolled.loops if x.head == wanted.head), 1)


def divide(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    loops: Sequence[NestedLoop],
    iterations: Mapping[tuple[int, ...], int],
    path_limit: int | None,
    total_limit: int | None,
) -> tuple[UnrolledRegion, ...]:
    """Return the regions of a routine, outer ones first; `iterations`: the k that is asked for, by
    the loops' back edges. Limits are those of `numbering.fit`, for all regions together.
    """
    given = [each for each in (path_limit, total_limit) if each is not None]
    limit = min(given) if path_limit is not None else None
    share, asked = limit, dict(iterations)
    while True:
        regions = _Divider(cfg, dfs, asked).divide(loops)
        parts = tuple(
            UnrolledRegion(each, fit(each.cfg, each.dfs, each.loops, share, share))
            for each in regions
        )
        # An outer loop that is left acyclic must not collapse what is inside.
        left = [_original(part, x) for part in parts for x in part.region.loops if part.got(x) < 2]
        outer = {each.loop.back_edges for top in loops for each in top if each.inner}
        if acyclic := outer.intersection(left):
            asked |= dict.fromkeys(acyclic, 1)
            continue
        totals = [number_iterations(part.unrolled).total for part in parts]
        if limit is None or share is None or sum(totals) <= limit or len(parts) == 1:
            return parts
        if share > limit // len(parts):
            share = max(limit // len(parts), 1)
            continue
        # The limit is about what the branches alone make: nothing is collapsed.
        asked |= dict.fromkeys(outer, 1)
        share = limit


def _original(part: UnrolledRegion, loop: IteratedLoop) -> tuple[int, ...]:
    """Return the back edges of a region's loop in the routine."""
    return tuple(edge for at in loop.back_edges if (edge := part.region.edges[at]) is not None)


def iterations_got(parts: Collection[UnrolledRegion]) -> dict[tuple[int, ...], int]:
    """Return k of the iterated loops, by back edges in the routine."""
    return {
        _original(part, loop): loop.iterations for part in parts for loop in part.unrolled.loops
    }
