"""The graph of iterations, whose paths are KITER's (Roy and Srikant, CGO 2009, 3.1 and 5).

Terms
-----
region
    The routine, or a collapsed loop (see `loops`), side by side: they share ENTRY and EXIT alone.
copy
    There are k copies of an iterated loop (3.1); the back edge leads from copy i to the head in
    copy i + 1. All other back edges, like cut edges, are *removed* and end paths, as in `Dag`.
entry dummy, exit dummy
    ENTRY -> head in copy 1, and tail in copy k -> EXIT: the paths that a back edge begins and ends.
    Removed edges share the dummies of their vertices; one that leaves an iterated loop has an exit
    dummy in every copy.
begun path
    One that began at the head of an iterated loop and has not been through k iterations. It is
    valid only if it does not leave the loop before (KITER section 2).

Steps: `unroll` makes it of the regions that `loops.divide` finds.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import accumulate, chain
from operator import add
from typing import NamedTuple

from simprof import schemes as s
from simprof.profiler.schemes.kiter.loops import IteratedLoop, PathRegion


class RegionEdge(NamedTuple):
    """An edge between vertices of a region in copy 1."""

    edge: int | None  # None of an edge into the region or out of it
    source: int  # The block
    target: int
    copies: tuple[int, ...]  # Its edges in the unrolled graph; of removed edges none
    stands_for: tuple[int, ...]


class IterationGraph(s.Dag, frozen=True, kw_only=True, dict=True):
    """Control-flow graph without cycles, its iterated loops unrolled, its regions side by side."""

    # Vertices of the routine keep their ids in copy 1; those of collapsed loops follow, then those
    # of other copies, by loop, copy and vertex. Real edges are in control-flow order, then by copy.
    regions: tuple[PathRegion, ...]  # Outer ones first
    # vertex, copy, region: By vertex id, what it is a copy of, which, and in which region.
    vertex: Sequence[int]
    copy: Sequence[int]
    region: Sequence[int]
    order: tuple[int, ...]  # The vertices, targets before sources
    copies_of: Mapping[int, tuple[int, ...]] = {}  # The copies of each vertex of an iterated loop
    entries: tuple[int | None, ...] = (None,)  # By region its edge ENTRY -> head
    exits: Mapping[int, tuple[int, ...]] = {}  # Vertex in copy 1 -> its edges out of the region

    @property
    def vertex_count(self) -> int:
        """Number of vertex ids."""
        return len(self.vertex)

    @property
    def topological(self) -> tuple[int, ...]:
        """The vertices, sources before targets."""
        return self.order[::-1]

    def targets_of(self, edges: Iterable[int]) -> Iterable[int]:
        """Return which vertex of `cfg` each of some edges leads to."""
        return (self.vertex[self.columns.target[edge]] for edge in edges)

    @cached_property
    def loops(self) -> tuple[IteratedLoop, ...]:
        """The iterated loops, whose bodies are disjoint, by vertex in copy 1."""
        return tuple(chain.from_iterable(region.loops for region in self.regions))

    @cached_property
    def loop_of(self) -> Mapping[int, IteratedLoop]:
        """The iterated loop of each vertex in copy 1 that is in one."""
        return {vertex: loop for loop in self.loops for vertex in loop.body}

    def base(self, vertex: int) -> int:
        """Return the vertex in copy 1 that a vertex is a copy of."""
        return self.regions[self.region[vertex]].at[self.vertex[vertex]]

    def copy_of(self, vertex: int, iteration: int) -> int:
        """Return the vertex that is this copy of one in copy 1."""
        return self.copies_of[vertex][iteration - 1] if vertex in self.copies_of else vertex

    @cached_property
    def owner(self) -> Mapping[int, int]:
        """By edge that is not the routine's, the number of its region."""
        inner = enumerate(self.regions[1:], 1)
        return {edge: number for number, each in inner for edge in each.edges}

    def regions_of(self, block: int) -> list[int]:
        """Return the regions that a block is in, by number, outer ones first."""
        return [number for number, region in enumerate(self.regions) if block in region.at]

    def region_of(self, edge: int) -> int:
        """Return the number of an edge's region."""
        source, target, *_ = self.columns
        at = source[edge] if source[edge] != self.cfg.entry else target[edge]
        return self.region[at]

    def edges_of(self, number: int) -> list[RegionEdge]:
        """Return the edges of a region: its own, the one into it, and those out of it."""
        region, (source, target), copies = self.regions[number], self.cfg.ends, self.by_cfg_edge
        blocks, at = region.blocks, region.at
        found = [
            RegionEdge(e, blocks[at[source[e]]], blocks[at[target[e]]], copies.get(e, ()), (e,))
            for e in region.edges
        ]
        if region.loop is not None and (entry := self.entries[number]) is not None:
            ends = self.cfg.entry, region.loop.head
            found.append(RegionEdge(None, *ends, (entry,), region.entering))
        for vertex, edges in region.leaving.items():
            exits = self.exits[vertex]
            found.append(RegionEdge(None, blocks[vertex], self.cfg.exit, exits, tuple(edges)))
        return found

    @cached_property
    def full_loops(self) -> frozenset[int]:
        """Heads of the iterated loops whose paths from the head make all k iterations."""
        parts = (
            each.full_loops(self.cfg, each.loops, each.removed(self.dfs, each.loops, each.cuts))
            for each in self.regions
        )
        return frozenset(chain.from_iterable(parts))

    @property
    def removed_ends(self) -> tuple[list[int], list[int]]:
        """The vertices that removed edges leave, and those that they lead to."""
        (source, target), owner, regions = self.cfg.ends, self.owner, self.regions
        places = [(regions[owner.get(edge, 0)].at, edge) for edge in self.removed]
        return [at[source[edge]] for at, edge in places], [at[target[edge]] for at, edge in places]

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
    def borders(self) -> frozenset[int]:
        """The edges into regions and out of them."""
        entries = (edge for edge in self.entries if edge is not None)
        return frozenset(chain(entries, *self.exits.values()))

    @cached_property
    def entry_dummy(self) -> dict[int, int]:
        """Target vertex of removed edges -> its dummy edge ENTRY -> vertex."""
        (source, target, *_), entry, borders = self.columns, self.cfg.entry, self.borders
        dummies = (e for e in self.dummy_ids if source[e] == entry and e not in borders)
        return {target[e]: e for e in dummies}

    @cached_property
    def exit_dummy(self) -> dict[int, int]:
        """Source vertex of removed edges, or dead end -> its dummy edge vertex -> EXIT."""
        (source, target, *_), leave, borders = self.columns, self.cfg.exit, self.borders
        dummies = (e for e in self.dummy_ids if target[e] == leave and e not in borders)
        return {source[e]: e for e in dummies}

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The edges out of ENTRY."""
        source, entry = self.columns.source, self.cfg.entry
        return tuple([edge for edge, vertex in enumerate(source) if vertex == entry])

    def edge_weights(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Weights from those of control-flow edges: what an increment on the edge would cost."""
        # Every copy of an edge costs what the edge does. The back edge of an iterated loop sets and
        # reads accumulators anyway, so what its dummies add to that costs nothing.
        paid = list(weights)
        for loop in self.loops:
            for edge in loop.back_edges:
                paid[edge] = 0
        real = self.dummy_ids.start
        copied = map(weights.__getitem__, self.columns.cfg_edge[:real])
        found = [*copied, *super().edge_weights(paid)[real:]]
        for edge in self.borders:
            found[edge] = reduce(add, map(weights.__getitem__, self.stood_for(edge) or ()), 0.0)
        return tuple(found)

    def record(self, path: Sequence[int], partial: bool = False) -> s.PathRecord:
        """Return where a path leads, given by edges from ENTRY to EXIT (`partial`: to its last)."""
        found = s.path_record(self, path, partial)
        if not self.borders:
            return found
        steps, leave = [self.columns.target[edge] for edge in path], self.cfg.exit
        inside = self.regions[self.region[steps[0]]].collapsed
        passed = [self.base(vertex) for vertex in steps if vertex != leave]
        return s.PathRecord(
            found.blocks,
            found.edges,
            s.PathStart.LOOP_ENTRY if path[0] in self.borders else found.start,
            s.PathEnd.LOOP_EXIT if path[-1] in self.borders and not partial else found.end,
            tuple(place for place, vertex in enumerate(passed) if vertex in inside),
        )

    def validate(self) -> None:
        """Check what holds of every acyclic graph, and that loops and regions are disjoint."""
        super().validate()
        bodies = sum(len(loop.body) for loop in self.loops)
        assert len(self.loop_of) == bodies, "a vertex is in two iterated loops"
        owned = [edge for each in self.regions for edge in each.edges]
        assert sorted(owned) == [*range(len(self.cfg.edges))], "edges of several regions"
        for each in self.regions:
            inside = each.collapsed.keys() - self.loop_of.keys()
            assert not inside, f"collapsed loops {sorted(inside)} are in no iterated one"


def _copies_of(loops: Iterable[IteratedLoop], begin: int) -> dict[int, tuple[int, ...]]:
    found = {}
    for loop in loops:
        width = len(loop.body)
        end = begin + (loop.iterations - 1) * width
        for second, vertex in enumerate(sorted(loop.body), begin):
            found[vertex] = (vertex, *range(second, end, width))
        begin = end
    return found


def unroll(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, regions: Sequence[PathRegion]
) -> IterationGraph:
    """Return the unrolled graph of regions whose loops, with k >= 2, are chosen, and whose cuts."""
    if regions[0].is_whole and not regions[0].loops:  # so that there are no others
        dag = s.make_dag(cfg, dfs, regions[0].cuts)
        vertices = range(cfg.vertex_count)
        return IterationGraph(
            cfg=cfg,
            dfs=dfs,
            columns=dag.columns,
            removed=dag.removed,
            cut_edges=dag.cut_edges,
            regions=tuple(regions),
            vertex=vertices,
            copy=(1,) * len(vertices),
            region=(0,) * len(vertices),
            order=dag.topological[::-1],
        )
    removed = [each.removed(dfs, each.loops, each.cuts) for each in regions]
    vertex, number = list(range(cfg.vertex_count)), [0] * cfg.vertex_count
    for place, region in enumerate(regions):
        more = 0 if region.is_whole else max(region.blocks) + 1 - len(vertex)
        vertex, number = [*vertex, *[0] * more], [*number, *[0] * more]
        for at in () if region.is_whole else region.blocks:
            vertex[at], number[at] = region.blocks[at], place
    copy, loops = [1] * len(vertex), [loop for region in regions for loop in region.loops]
    copies_of = _copies_of(loops, len(vertex))
    for loop in loops:
        body = sorted(loop.body)
        for iteration in range(2, loop.iterations + 1):
            copy += [iteration] * len(body)
            vertex += map(vertex.__getitem__, body)
            number += map(number.__getitem__, body)
    source, target, cfg_edge = array("q"), array("q"), array("q")
    dummies: list[tuple[int, int, Sequence[int]]] = []
    borders = []  # By region, where those of its dummies begin that lead into it or out of it
    for region, gone in zip(regions, removed, strict=True):
        live = _add_edges(cfg, dfs, region, gone, copies_of, (source, target, cfg_edge))
        borders.append(len(dummies))
        dummies += _borders(cfg, region, copies_of)
        dummies += _dummies(cfg, dfs, region, gone, live, copies_of)
    real = len(source)
    for begin, end, _ in dummies:
        source.append(begin)
        target.append(end)
    cfg_edge.extend([-1] * len(dummies))
    first = array("q", accumulate([len(edges) for _, _, edges in dummies], initial=0))
    standing = array("q", chain.from_iterable(edges for _, _, edges in dummies))
    entries: list[int | None] = []
    exits: dict[int, tuple[int, ...]] = {}
    for region, begin in zip(regions, borders, strict=True):
        entries.append(None if region.loop is None else real + begin)
        next_edge = real + begin + 1
        for at in region.leaving:
            ids = range(next_edge, next_edge + len(copies_of.get(at, (at,))))
            exits[at], next_edge = tuple(ids), ids.stop
    return IterationGraph(
        cfg=cfg,
        dfs=dfs,
        columns=s.DagColumns(source, target, cfg_edge, first, standing),
        removed=tuple(chain.from_iterable(removed)),
        cut_edges=tuple(sorted(chain.from_iterable(each.cuts for each in regions))),
        regions=tuple(regions),
        vertex=vertex,
        copy=copy,
        region=number,
        order=tuple(_order(cfg, dfs, regions, copies_of)),
        copies_of=copies_of,
        entries=tuple(entries),
        exits=exits,
    )


def _add_edges(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    region: PathRegion,
    removed: Collection[int],
    copies_of: Mapping[int, tuple[int, ...]],
    columns: tuple[array[int], array[int], array[int]],
) -> set[int]:
    """Add the edges that a region keeps; returns the vertices in copy 1 that something leaves."""
    (sources, targets), at, reached = cfg.ends, region.at, dfs.reached
    source, target, cfg_edge = columns
    loop_of = {vertex: loop for loop in region.loops for vertex in loop.body}
    back = {edge for loop in region.loops for edge in loop.back_edges}
    left_out, live = dfs.self_loops.union(removed), {cfg.exit, *region.leaving}
    for edge in region.edges:
        if sources[edge] not in reached or edge in left_out:
            continue
        begin, end = at[sources[edge]], at[targets[edge]]
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
    return live


def _borders(
    cfg: s.ControlFlowGraph, region: PathRegion, copies_of: Mapping[int, tuple[int, ...]]
) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield the edges into a collapsed loop and out of it, with what they stand for."""
    if region.loop is not None:
        yield cfg.entry, region.at[region.loop.head], region.entering
    for vertex, edges in region.leaving.items():
        for copy in copies_of.get(vertex, (vertex,)):
            yield copy, cfg.exit, edges


def _dummies(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    region: PathRegion,
    removed: Sequence[int],
    live: Collection[int],
    copies_of: Mapping[int, tuple[int, ...]],
) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield the dummies of a region with what they stand for, those of ENTRY first."""
    (sources, targets), at = cfg.ends, region.at
    back = {edge for loop in region.loops for edge in loop.back_edges}
    begins: defaultdict[int, list[int]] = defaultdict(list)
    stops: defaultdict[int, list[int]] = defaultdict(list)
    for edge in sorted(back.union(removed)):
        begins[at[targets[edge]]].append(edge)
        vertex = at[sources[edge]]
        copies = copies_of.get(vertex, (vertex,))
        for copy in copies[-1:] if edge in back else copies:
            stops[copy].append(edge)
    for vertex in _vertices(region, dfs.preorder):
        if vertex not in live:
            stops.setdefault(vertex, [])
    yield from ((cfg.entry, vertex, edges) for vertex, edges in begins.items())
    yield from ((vertex, cfg.exit, edges) for vertex, edges in stops.items())


def _vertices(region: PathRegion, blocks: Iterable[int]) -> Iterator[int]:
    """Yield the vertices of a region in the order of blocks, a collapsed loop's with its head."""
    # Nothing but its inside, and what its exits lead to, is finished between a loop's vertices and
    # its head, so the head stands for it in both orders of the search.
    at = region.at
    return (at[block] for block in blocks if block in at and region.blocks[at[block]] == block)


def _order(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    regions: Sequence[PathRegion],
    copies_of: Mapping[int, tuple[int, ...]],
) -> Iterator[int]:
    """Yield the vertices, targets before sources; the copies of a loop are together, last first."""
    yield cfg.exit
    for region in reversed(regions):
        loop_of = {vertex: loop for loop in region.loops for vertex in loop.body}
        order = [*_vertices(region, dfs.postorder)]
        ranks = {vertex: rank for rank, vertex in enumerate(order)}
        for vertex in order:  # A head comes after all that its loop's exits lead to.
            loop = loop_of.get(vertex)
            if loop is None and vertex not in (cfg.entry, cfg.exit):
                yield vertex
            elif loop is not None and vertex == loop.head:
                body = sorted(loop.body, key=ranks.__getitem__)
                for copies in reversed([*zip(*map(copies_of.__getitem__, body), strict=True)]):
                    yield from copies
    yield cfg.entry
