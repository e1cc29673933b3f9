"""Depth-first search, natural loops and reducibility of control-flow graphs.

Terms
-----
back edge
    An edge whose target is on the search's stack. Successors are visited in the order of
    `cfg.out_edges`. A self-loop is a back edge too.
natural loop of a back edge x -> y
    Where y dominates x: y, and every vertex with a directed path to x that does not include y
    (BL94, section 5). The loop of an entry y is the union over its back edges.
loop-exit edge
    An edge from inside a natural loop to outside of it.
live edge
    An edge whose source can be reached from ENTRY. Other edges never execute and take no part
    in any later step.

Steps: `depth_first` -> `natural_loops`, `is_reducible`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from simprof.profiler.graphs.cfg import ControlFlowGraph, closure, remembers_recent
from simprof.simulator.values import dataclass


@dataclass(frozen=True)
class DepthFirst:
    """A depth-first search from ENTRY."""

    # preorder, postorder: The vertices reached, in order of discovery and of completion.
    preorder: tuple[int, ...]
    postorder: tuple[int, ...]
    back_edges: frozenset[int]  # Ids of the back edges, self-loops included
    self_loops: frozenset[int]  # Ids of the edges with one vertex as source and target

    @cached_property
    def reached(self) -> frozenset[int]:
        """Vertices that can be reached from ENTRY."""
        return frozenset(self.preorder)

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """The reached vertices, sources before targets along all edges but back edges."""
        return self.postorder[::-1]


@dataclass(frozen=True)
class Loop:
    """The natural loop of an entry: its vertices, back edges and exit edges (by edge id)."""

    entry: int
    body: frozenset[int]
    back_edges: tuple[int, ...]
    exits: tuple[int, ...]


@remembers_recent
def depth_first(cfg: ControlFlowGraph) -> DepthFirst:
    """Search `cfg` from ENTRY, successors in the order of `cfg.out_edges`."""
    # Iterative, so that deep graphs are no problem; linear time.
    edges, out_edges = cfg.edges, cfg.out_edges
    unseen, on_stack, finished = 0, 1, 2
    state = bytearray(cfg.vertex_count)
    preorder, postorder, back = [cfg.entry], [], []
    state[cfg.entry] = on_stack
    stack = [(cfg.entry, iter(out_edges[cfg.entry]))]
    while stack:
        vertex, successors = stack[-1]
        for edge in successors:
            target = edges[edge].target
            if state[target] == unseen:
                state[target] = on_stack
                preorder.append(target)
                stack.append((target, iter(out_edges[target])))
                break
            if state[target] == on_stack:
                back.append(edge)
        else:
            state[vertex] = finished
            postorder.append(vertex)
            stack.pop()
    loops = (edge for edge in back if edges[edge].source == edges[edge].target)
    return DepthFirst(tuple(preorder), tuple(postorder), frozenset(back), frozenset(loops))


@remembers_recent
def live_edges(cfg: ControlFlowGraph, dfs: DepthFirst) -> frozenset[int]:
    """Ids of the edges whose source can be reached from ENTRY."""
    reached = dfs.reached
    return frozenset(edge.id for edge in cfg.edges if edge.source in reached)


@remembers_recent
def natural_loops(cfg: ControlFlowGraph, dfs: DepthFirst) -> tuple[Loop, ...]:
    """Return the natural loops, in topological order of their entries."""
    # BL94's loops nest, which holds only where loops are entered at their entry. A back edge whose
    # target does not dominate its source (an irreducible graph) therefore makes no loop here.
    by_entry: dict[int, list[int]] = {}
    for edge in sorted(proper_back_edges(cfg, dfs)):
        by_entry.setdefault(cfg.edges[edge].target, []).append(edge)
    return tuple(
        _loop(cfg, dfs, entry, by_entry[entry]) for entry in dfs.topological if entry in by_entry
    )


def _loop(cfg: ControlFlowGraph, dfs: DepthFirst, entry: int, back_edges: list[int]) -> Loop:
    body = loop_body(cfg, dfs, entry, (cfg.edges[edge].source for edge in back_edges))
    return Loop(entry, body, tuple(back_edges), exits_of(cfg, body))


def exits_of(cfg: ControlFlowGraph, body: Collection[int]) -> tuple[int, ...]:
    """Return the edges out of a set of vertices, ascending."""
    edges = (edge for vertex in body for edge in cfg.out_edges[vertex])
    return tuple(sorted(edge for edge in edges if cfg.edges[edge].target not in body))


def loop_body(
    cfg: ControlFlowGraph, dfs: DepthFirst, entry: int, sources: Iterable[int]
) -> frozenset[int]:
    """Return `entry` and the vertices from which `sources` are reached without passing it."""

    def before(vertex: int) -> Iterable[int]:
        return () if vertex == entry else dfs.reached.intersection(cfg.sources(vertex))

    return frozenset(closure({entry, *sources}, before))


def immediate_dominators(cfg: ControlFlowGraph, dfs: DepthFirst) -> dict[int, int]:
    """Map each reached vertex to its immediate dominator; ENTRY to itself."""
    # Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001. Vertices stand for their
    # places in the topological order, ENTRY for 0: what dominates comes first.
    order = dfs.topological
    place = {vertex: index for index, vertex in enumerate(order)}
    before = [[place[s] for s in cfg.sources(vertex) if s in place] for vertex in order]
    dominator = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:
        changed = False
        for vertex in range(1, len(order)):
            best = -1  # some predecessor comes earlier in the order
            for source in before[vertex]:
                if dominator[source] >= 0:
                    best = source if best < 0 else _meet(dominator, best, source)
            if dominator[vertex] != best:
                dominator[vertex] = best
                changed = True
    return {vertex: order[dominator[index]] for index, vertex in enumerate(order)}


def _meet(dominator: list[int], left: int, right: int) -> int:
    while left != right:
        if left > right:
            left = dominator[left]
        else:
            right = dominator[right]
    return left


@remembers_recent
def proper_back_edges(cfg: ControlFlowGraph, dfs: DepthFirst) -> frozenset[int]:
    """Back edges whose target dominates their source."""
    if dfs.back_edges == dfs.self_loops:
        return dfs.back_edges
    first, size = _dominator_intervals(dfs, immediate_dominators(cfg, dfs))
    ends = ((edge, cfg.edges[edge].source, cfg.edges[edge].target) for edge in dfs.back_edges)
    return frozenset(
        edge
        for edge, source, entry in ends
        if first[entry] <= first[source] < first[entry] + size[entry]
    )


def _dominator_intervals(
    dfs: DepthFirst, dominator: dict[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Arrange the dominator tree so that v dominates first[v] .. first[v] + size[v] - 1."""
    inner = dfs.topological[1:]
    size = dict.fromkeys(dfs.topological, 1)
    for vertex in reversed(inner):
        size[dominator[vertex]] += size[vertex]
    root = dfs.topological[0]
    first, free = {root: 0}, {root: 1}
    for vertex in inner:
        parent = dominator[vertex]
        first[vertex] = free[parent]
        free[parent] += size[vertex]
        free[vertex] = first[vertex] + 1
    return first, size


def is_reducible(cfg: ControlFlowGraph, dfs: DepthFirst) -> bool:
    """Whether every back edge's target dominates its source."""
    return proper_back_edges(cfg, dfs) == dfs.back_edges
