"""Spanning trees, chord increments, and the weights that choose the trees.

Terms
-----
chord
    An edge that is not in the spanning tree. Only chords are instrumented.
root edge
    EXIT -> ENTRY, which makes the graph strongly connected. In the tree it is never instrumented
    (BL94, section 3.2). As a chord its increment is added where EXIT counts a path (EPP 3.3).
event counting
    Moving the edges' values onto the chords without changing any sum from ENTRY to EXIT
    [Ball, "Efficiently Counting Program Events with Support for On-line Queries", 1994]. The
    increment of a chord is the signed sum of values around its cycle with the tree. With
    *potentials* - the signed sum of values along the tree from ENTRY to a vertex - that is
    `value + potential(source) - potential(target)`, for all chords in linear time.

weighting
    An estimate for each edge of how often it executes in an activation (EXIT -> ENTRY has 1).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from simprof.profiler.graphs import plan_kernel as k
from simprof.profiler.graphs.cfg import ControlFlowGraph, check_vertices, closure, remembers_recent
from simprof.profiler.graphs.columns import compact
from simprof.profiler.graphs.loops import (
    DepthFirst,
    depth_first,
    live_edges,
    natural_loops,
    proper_back_edges,
    survey,
)
from simprof.profiler.graphs.plan_calls import Piece, Reals, call
from simprof.profiler.graphs.plan_kernel import find_root as find_root
from simprof.profiler.request.weights import LOOP_MULTIPLIER, Guess, Weights


class SpanningTree(Struct, frozen=True, dict=True):
    """A spanning tree of a multigraph."""

    # Number of vertex ids. Vertices that no usable edge touches are no part of the graph.
    vertex_count: int
    # By edge
    source: Sequence[int]
    target: Sequence[int]
    in_tree: tuple[bool, ...]  # Whether the edge is a tree edge, by edge
    excluded: frozenset[int]  # Edges that do not take part: neither tree edges nor chords.
    # (EXIT, ENTRY), in the tree in addition to `in_tree`; None for a forest without it.
    root_edge: tuple[int, int] | None

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """(source, target) by edge."""
        return tuple(zip(self.source, self.target, strict=True))

    @cached_property
    def chords(self) -> tuple[int, ...]:
        """Ids of the edges outside the tree, ascending."""
        return tuple(
            edge
            for edge, inside in enumerate(self.in_tree)
            if not inside and edge not in self.excluded
        )

    def neighbours(self) -> list[list[tuple[int, int, int]]]:
        """By vertex, its tree edges as (edge, other end, +1 leaving or -1 entering)."""
        # The root edge has the id `len(ends)`. This is made anew each time: whoever needs it needs
        # it once, and it takes more memory than the tree.
        table: list[list[tuple[int, int, int]]] = [[] for _ in range(self.vertex_count)]
        source, target = self.source, self.target
        inside = [(e, source[e], target[e]) for e, flag in enumerate(self.in_tree) if flag]
        if self.root_edge is not None:
            inside.append((len(source), *self.root_edge))
        for edge, start, end in inside:
            table[start].append((edge, end, 1))
            table[end].append((edge, start, -1))
        return table

    def weight(self, weights: Sequence[float]) -> float:
        """Sum of the tree edges' weights, without the root edge."""
        return sum(weight for weight, inside in zip(weights, self.in_tree, strict=True) if inside)

    def validate(self) -> None:
        """Check that the tree has |V| - 1 edges and connects the graph; AssertionError if not."""
        usable = [ends for edge, ends in enumerate(self.ends) if edge not in self.excluded]
        if self.root_edge is not None:
            usable.append(self.root_edge)
        vertices = {vertex for ends in usable for vertex in ends}
        neighbours = self.neighbours()
        first = [usable[0][0]] if usable else []
        reached = closure(first, lambda v: (other for _, other, _ in neighbours[v]))
        assert reached == vertices, "the tree does not span the graph"
        size = sum(self.in_tree) + (self.root_edge is not None)
        assert size == max(len(vertices) - 1, 0), "the tree has a cycle"
        excluded = [edge for edge in self.excluded if self.in_tree[edge]]
        assert not excluded, f"the excluded edges {sorted(excluded)} are in the tree"

    def validate_maximum(self, weights: Sequence[float]) -> None:
        """Check that no spanning tree, or forest, has a greater weight; AssertionError naming an
        edge that the tree lacks, or one that closes a cycle in it.
        """
        # A forest is one of greatest weight if and only if every edge joins two vertices that tree
        # edges at least as heavy join already: none of them could be exchanged for it.
        # `weights`: By edge: those that the tree was made with.
        ends = self.ends
        assert len(weights) == len(ends), "the tree has not one weight for each edge"
        parent = list(range(self.vertex_count))
        if self.root_edge is not None:
            parent[self.root_edge[0]] = self.root_edge[1]
        usable = (edge for edge in range(len(ends)) if edge not in self.excluded)
        # Of equal weights the tree edges come first: they are as heavy as the chords.
        for edge in sorted(usable, key=lambda e: (-weights[e], not self.in_tree[e])):
            source, target = (find_root(parent, vertex) for vertex in ends[edge])
            if self.in_tree[edge]:
                assert source != target, f"the tree's edge {edge} closes a cycle"
                parent[source] = target
            assert self.in_tree[edge] or source == target, (
                f"the tree lacks edge {edge}, of weight {weights[edge]:g}, for lighter ones"
            )


class ChordIncrements(Struct, frozen=True):
    """Result of event counting."""

    # `increments` by edge (0 on tree edges); `potential` by vertex: the sum of values of any way
    # from ENTRY to the vertex is the sum of its increments plus the vertex's potential. `root`: the
    # increment of EXIT -> ENTRY, the potential of EXIT; 0 where that edge is in the tree.

    increments: tuple[int, ...]
    potential: tuple[int, ...]
    root: int = 0

    @property
    def greatest(self) -> int:
        """The greatest absolute increment."""
        return max(map(abs, (*self.increments, self.root)))

    def validate(
        self,
        tree: SpanningTree,
        values: Sequence[int],
        root_chord: tuple[int, int] | None = None,
    ) -> None:
        """Check edge by edge what makes sums of increments and sums of values agree; AssertionError
        naming an edge whose increment does not reproduce its value.
        """
        # `tree`: The tree that they were moved off.
        # `values`: The values by edge.
        # `root_chord`: As of `chord_increments`.
        increments, potential = self.increments, self.potential
        root_edge = tree.root_edge or root_chord
        assert root_edge is not None, "increments without the edge EXIT -> ENTRY"
        ends = [potential[vertex] for vertex in root_edge]
        assert ends == [self.root, 0], "ENTRY has a potential, or EXIT another than EXIT -> ENTRY"
        assert not (tree.root_edge and self.root), "EXIT -> ENTRY has an increment in the tree"
        for edge, (source, target) in enumerate(tree.ends):
            assert increments[edge] == values[edge] + potential[source] - potential[target], (
                f"the increment of edge {edge} does not reproduce its value {values[edge]}"
            )
            inside = tree.in_tree[edge] and increments[edge]
            assert not inside, f"tree edge {edge} has an increment"


# Kruskal's algorithm with stable order: of equal weights the lower edge id enters the tree.
def maximum_spanning_tree(
    vertex_count: int,
    ends: Sequence[tuple[int, int]],
    weights: Sequence[float],
    root_edge: tuple[int, int] | None,
    excluded: Collection[int] = (),
) -> SpanningTree:
    """Return a spanning tree (a forest, if the graph is not connected) of greatest weight.

    `ends`: (source, target) by edge. `root_edge`: (EXIT, ENTRY), which is put into the tree first,
    or None. `excluded`: Edges that may not be in the tree.
    """
    source, target = zip(*ends, strict=True) if ends else ((), ())
    check_vertices(vertex_count, source, target)
    return find_tree(vertex_count, source, target, weights, root_edge, excluded)


def find_tree(
    vertex_count: int,
    source: Sequence[int],
    target: Sequence[int],
    weights: Sequence[float],
    root_edge: tuple[int, int] | None,
    excluded: Collection[int] = (),
) -> SpanningTree:
    """Do what `maximum_spanning_tree` does, with known vertices at both ends, by edge."""
    edges = len(source)
    # The graph's own columns, if they are arrays: trees of large programs are many.
    source, target = (
        each if isinstance(each, array) else compact(each) for each in (source, target)
    )
    if not edges:
        return SpanningTree(vertex_count, source, target, (), frozenset(excluded), root_edge)
    leave, entry = root_edge or (0, 0)
    found = call(
        k.spanning_tree,
        {
            k.VERTICES: vertex_count,
            k.EDGES: edges,
            k.ENTRY: entry,
            k.EXIT: leave,
            k.ROOT: root_edge is not None,
        },
        *(Reals(weights), source, target, _barred(edges, excluded)),
        *(edges, edges, Reals(edges), vertex_count, edges),
    )
    in_tree = tuple(map(bool, found(9)))
    return SpanningTree(vertex_count, source, target, in_tree, frozenset(excluded), root_edge)


def _barred(edges: int, excluded: Collection[int]) -> Piece:
    return [edge in excluded for edge in range(edges)] if excluded else edges


def edge_tree(cfg: ControlFlowGraph, weights: Sequence[float]) -> SpanningTree:
    """Return the heaviest spanning tree of the live edges that holds EXIT -> ENTRY (BL94 3.2)."""
    dead = frozenset(range(len(cfg.edges))) - live_edges(cfg, depth_first(cfg))
    return find_tree(cfg.vertex_count, *cfg.ends, weights, (cfg.exit, cfg.entry), dead)


@remembers_recent
def chord_increments(
    tree: SpanningTree, values: Sequence[int], root_chord: tuple[int, int] | None = None
) -> ChordIncrements:
    """Move `values` by edge onto the chords of `tree` (EPP 3.3); `root_chord`: (EXIT, ENTRY) where
    that edge is not in the tree, but a chord.
    """
    # The root edge has value 0. In the tree it gives ENTRY and EXIT the same potential, 0, and sums
    # from ENTRY to EXIT stay as they are; as a chord it has what they lack, the potential of EXIT.
    root_edge = tree.root_edge or root_chord
    if root_edge is None:
        raise ValueError("event counting needs the edge EXIT -> ENTRY, in the tree or as a chord")
    exit_vertex, entry = root_edge
    vertices, edges = tree.vertex_count, len(values)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: entry, k.EXIT: exit_vertex}
    found = call(
        k.count_events,
        size | {k.ROOT: int(tree.root_edge is not None)},
        *(tree.source, tree.target, tree.in_tree, _barred(edges, tree.excluded), values),
        *(vertices + 1, vertices, vertices, 2 * edges, vertices, edges),
    )
    potential = tuple(found(10))
    return ChordIncrements(tuple(found(11)), potential, root=potential[exit_vertex])


PLAIN = Guess()


# Weights are floats: sums of products of reciprocals, evaluated in a fixed order, so the same graph
# has the same weights on every machine. They only ever choose between correct placements.
@remembers_recent
def heuristic(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess = PLAIN) -> tuple[float, ...]:
    """Return BL94's structural weighting (section 5, rules 1-3), by edge; 0 of dead edges."""
    # The rules are applied as published, in one topological traversal. On reducible graphs whose
    # loops all have exits, each out of one loop only, the result satisfies the flow law; an edge
    # that leaves several loops gets its weight from the outermost. A weight can be negative: where
    # an exit edge sits deeper in conditionals than an even split of the loop's exits allows, rule
    # 3 subtracts more than the vertex has. Irreducible regions form no loops (see
    # `natural_loops`): their vertices pass on what enters them over edges that are no back edges.
    #
    # Each loop iterates `guess.multiplier` times, a loop's flow leaves evenly through its exit
    # edges, and what remains at a vertex leaves through its other edges, evenly if the guess does
    # not say otherwise.
    known = survey(cfg)
    if known.dfs is dfs and guess == PLAIN:
        return known.heuristic
    vertices, edges = cfg.vertex_count, len(cfg.edges)
    back, proper = tuple(dfs.back_edges), proper_back_edges(cfg, dfs)
    size = {k.VERTICES: vertices, k.EDGES: edges, k.ENTRY: cfg.entry, k.COUNT: len(back)}
    found = call(
        k.heuristic,
        size | {k.REACHED: len(dfs.topological)},
        Reals(_numbers(guess)),
        *(*cfg.ends, dfs.topological, back, [edge in proper for edge in back]),
        *(_leading(cfg, dfs, guess), vertices + 1, edges, vertices + 1, edges, vertices),
        *(edges, vertices, vertices, vertices, edges, edges, Reals(edges)),
    )
    return tuple(found(19))


def _numbers(guess: Guess) -> tuple[float, ...]:
    shares = (guess.fall_through, guess.loops)
    return guess.multiplier, *(-1.0 if share is None else share for share in shares)


def edge_shares(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> tuple[float, ...]:
    """Return the share of its source's executions that each edge gets, by edge; 0 of dead ones."""
    vertices, edges = cfg.vertex_count, len(cfg.edges)
    found = call(
        k.edge_shares,
        {k.VERTICES: vertices, k.EDGES: edges, k.REACHED: len(dfs.preorder)},
        *(Reals(_numbers(guess)), cfg.ends[0], dfs.preorder, _leading(cfg, dfs, guess)),
        *(vertices + 1, edges, Reals(edges)),
    )
    return tuple(found(7))


def _leading(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> Sequence[int] | int:
    """Return which edges lead to a loop; zeros where the guess favours none."""
    if guess.loops is None:
        return len(cfg.edges)
    heads = {loop.entry: loop.body for loop in natural_loops(cfg, dfs)}
    return [_leads_to_loop(cfg, edge.id, heads) for edge in cfg.edges]


def _leads_to_loop(cfg: ControlFlowGraph, edge: int, heads: Mapping[int, frozenset[int]]) -> bool:
    """Whether an edge leads to a loop that its source is not in, maybe through straight code."""
    source, vertex = cfg.edges[edge].source, cfg.edges[edge].target
    seen: set[int] = set()
    while vertex not in heads and vertex not in seen and len(cfg.out_edges[vertex]) == 1:
        seen.add(vertex)
        vertex = cfg.edges[cfg.out_edges[vertex][0]].target
    return vertex in heads and source not in heads[vertex]


def given_weights(cfg: ControlFlowGraph, weights: Sequence[float] | None) -> tuple[float, ...]:
    """Return `weights` by edge id, BL94's heuristic where they are None."""
    return heuristic(cfg, depth_first(cfg)) if weights is None else tuple(weights)


def block_weights(cfg: ControlFlowGraph, weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights by block from weights by edge: the sum over the incoming edges."""
    entered: list[float] = [0] * cfg.vertex_count
    for target, weight in zip(cfg.ends[1], weights, strict=True):
        entered[target] += weight
    return tuple(entered[: len(cfg.blocks)])


@remembers_recent
def postorder(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[int, ...]:
    """Return Goldberg's weighting, by edge: post-order numbers of the edges' sources, from 1 on; of
    back edges the number of vertices plus 1, of dead edges 0.
    """
    # A. Goldberg, "Reducing Overhead in Counter-Based Execution Profiling", Stanford CSL-TR-91-495,
    # 1991, as BL94 7.1.4 describes it and figure 17 (b) shows: a depth-first search from the root
    # numbers vertices as it leaves them, so that those far from the root have low numbers and
    # counters on what leaves them seem cheap. The flow law does not hold, and distance is not
    # nesting: BL94 shows a placement that this makes worse.
    number = {vertex: at for at, vertex in enumerate(dfs.postorder, 1)}
    return tuple(
        cfg.vertex_count + 1 if edge.id in dfs.back_edges else number.get(edge.source, 0)
        for edge in cfg.edges
    )


@remembers_recent
def uniform(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[float, ...]:
    """Weight 1 for every edge that can execute, 0 for the others."""
    live = live_edges(cfg, dfs)
    return tuple(1.0 if edge.id in live else 0.0 for edge in cfg.edges)


def measured(cfg: ControlFlowGraph, counts: Sequence[int]) -> tuple[int, ...]:
    """Weights from an edge profile, `counts` by edge id; ValueError unless there is one count for
    each edge, and none is negative.
    """
    if len(counts) != len(cfg.edges):
        raise ValueError(f"{len(counts)} counts for the {len(cfg.edges)} edges of {cfg.name}")
    if min(counts, default=0) < 0:
        raise ValueError(f"negative edge count in the profile of {cfg.name}")
    return tuple(counts)


# -- Estimates of edge weights (BL94 7.1.4)
#
# Edge weights by the name of an estimate: how often each edge may execute in an activation.
#
# BL94's heuristic is in `spanning`, with those that need no more than an edge's ends. Here are two
# that BL94 7.1.4 compares it with.
#
# Wall's
#     A block that is in d loops weighs the loop multiplier to the power of d, whatever conditionals
#     it is in; an edge as much as the lighter of its ends.
# Forman's
#     The expected number of executions where each predicate leaves by its edges with given
#     probabilities. It satisfies the flow law in every graph whose blocks all lead to EXIT.


def wall(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> tuple[float, ...]:
    """Return Wall's weights, by edge; 0 of dead edges."""
    depth = [0] * cfg.vertex_count
    for loop in natural_loops(cfg, dfs):
        for vertex in loop.body:
            depth[vertex] += 1
    live = live_edges(cfg, dfs)
    return tuple(
        guess.multiplier ** min(depth[edge.source], depth[edge.target]) if edge.id in live else 0.0
        for edge in cfg.edges
    )


# The matrix equation that Forman solves is n = e + P^T n, with the probabilities P and e the one
# execution of ENTRY. Vertices are eliminated one after the other, deepest first, each way through
# one becoming an edge; on control-flow graphs this adds few edges, and the order of all sums is the
# graph's, so that weights are the same on every machine.
def forman(cfg: ControlFlowGraph, dfs: DepthFirst, guess: Guess) -> tuple[float, ...]:
    """Return Forman's weights, by edge; 0 of dead edges."""
    share = edge_shares(cfg, dfs, guess)
    # From a block that does not lead to EXIT control never leaves, and the equation has no
    # solution. There each step is the last one with a probability that lets a loop iterate as
    # often as BL94's.
    ending = closure([cfg.exit], cfg.sources)
    stay = 1 - 1 / LOOP_MULTIPLIER
    out: dict[int, dict[int, float]] = {vertex: {} for vertex in dfs.reached}
    into: dict[int, dict[int, float]] = {vertex: {} for vertex in dfs.reached}
    for edge in cfg.edges:
        if edge.source in dfs.reached:
            part = share[edge.id] * (1 if edge.source in ending else stay)
            _add(out, into, edge.source, edge.target, part)
    order = [vertex for vertex in dfs.postorder if vertex != cfg.entry]
    arrivals: dict[int, Mapping[int, float]] = {}
    for vertex in order:
        again = out[vertex].pop(vertex, 0.0)
        into[vertex].pop(vertex, None)
        arrivals[vertex] = {v: part / (1 - again) for v, part in into[vertex].items()}
        for source, arriving in arrivals[vertex].items():
            for target, part in out[vertex].items():
                _add(out, into, source, target, arriving * part)
            del out[source][vertex]
        for target in out[vertex]:
            del into[target][vertex]
    executions = {cfg.entry: 1.0}
    for vertex in reversed(order):
        parts = arrivals[vertex].items()
        executions[vertex] = sum(executions[source] * part for source, part in parts)
    return tuple(executions.get(edge.source, 0.0) * share[edge.id] for edge in cfg.edges)


def _add(
    out: dict[int, dict[int, float]],
    into: dict[int, dict[int, float]],
    source: int,
    target: int,
    part: float,
) -> None:
    total = out[source].get(target, 0.0) + part
    out[source][target] = into[target][source] = total


_WAYS: Mapping[str, Callable[[ControlFlowGraph, DepthFirst, Guess], Sequence[float]]] = {
    "heuristic": heuristic,
    "uniform": lambda cfg, dfs, _: uniform(cfg, dfs),
    "postorder": lambda cfg, dfs, _: postorder(cfg, dfs),
    "wall": wall,
    "forman": forman,
}


@remembers_recent
def estimate(cfg: ControlFlowGraph, wanted: Weights) -> tuple[float, ...]:
    """Return the weights that `wanted` names, by edge."""
    return tuple(_WAYS[wanted.name](cfg, depth_first(cfg), wanted.guess))
