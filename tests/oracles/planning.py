"""Planning on edge objects and dictionaries, which is how simprof planned before `plan_kernel`.

The same definitions in the plainest Python: slow, of any size, and sharing no code with the kernel.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from simprof.profiler.graphs.cfg import ControlFlowGraph, closure
from simprof.profiler.request.weights import Guess

Ends = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Search:
    """A depth-first search: both orders, and the back edges as they are met."""

    preorder: list[int]
    postorder: list[int]
    back: list[int]

    @property
    def topological(self) -> list[int]:
        """What is reached, sources before targets."""
        return self.postorder[::-1]


@dataclass(frozen=True)
class Edges:
    """An acyclic graph: (source, target, control-flow edge or None, what it stands for) by edge."""

    cfg: ControlFlowGraph
    search: Search
    edges: list[tuple[int, int, int | None, tuple[int, ...]]]
    removed: list[int]

    def out(self, vertex: int) -> list[int]:
        """Return the edges out of a vertex."""
        return [number for number, edge in enumerate(self.edges) if edge[0] == vertex]

    @property
    def topological(self) -> list[int]:
        """The vertices, EXIT last."""
        leave = self.cfg.exit
        return [vertex for vertex in self.search.topological if vertex != leave] + [leave]


def search(cfg: ControlFlowGraph) -> Search:
    """Search from ENTRY."""
    unseen, on_stack, finished = 0, 1, 2
    state = bytearray(cfg.vertex_count)
    preorder, postorder, back = [cfg.entry], list[int](), list[int]()
    state[cfg.entry] = on_stack
    stack = [(cfg.entry, iter(cfg.out_edges[cfg.entry]))]
    while stack:
        vertex, successors = stack[-1]
        for edge in successors:
            target = cfg.edges[edge].target
            if state[target] == unseen:
                state[target] = on_stack
                preorder.append(target)
                stack.append((target, iter(cfg.out_edges[target])))
                break
            if state[target] == on_stack:
                back.append(edge)
        else:
            state[vertex] = finished
            postorder.append(vertex)
            stack.pop()
    return Search(preorder, postorder, back)


def dominators(cfg: ControlFlowGraph, found: Search) -> dict[int, set[int]]:
    """Return what dominates each vertex: without it, the vertex cannot be reached."""
    result: dict[int, set[int]] = {vertex: set() for vertex in found.preorder}
    for removed in found.preorder:

        def onward(vertex: int, removed: int = removed) -> Iterable[int]:
            return (target for target in cfg.targets(vertex) if target != removed)

        reached = closure({cfg.entry} - {removed}, onward)
        for vertex in found.preorder:
            if vertex not in reached:
                result[vertex].add(removed)
    return result


def proper_back_edges(cfg: ControlFlowGraph, found: Search) -> set[int]:
    """Return the back edges whose target dominates their source."""
    above = dominators(cfg, found)
    ends = ((edge, cfg.edges[edge].source, cfg.edges[edge].target) for edge in found.back)
    return {edge for edge, source, target in ends if target in above[source]}


def loops(cfg: ControlFlowGraph, found: Search) -> list[tuple[int, set[int], list[int], list[int]]]:
    """Return the natural loops: entry, body, back edges, exits."""
    by_entry: dict[int, list[int]] = {}
    for edge in sorted(proper_back_edges(cfg, found)):
        by_entry.setdefault(cfg.edges[edge].target, []).append(edge)
    result = []
    for entry in found.topological:
        if entry not in by_entry:
            continue

        def before(vertex: int, entry: int = entry) -> Iterable[int]:
            reached = set(found.preorder)
            return () if vertex == entry else reached.intersection(cfg.sources(vertex))

        body = closure({entry, *(cfg.edges[edge].source for edge in by_entry[entry])}, before)
        edges = (edge for vertex in body for edge in cfg.out_edges[vertex])
        exits = sorted(edge for edge in edges if cfg.edges[edge].target not in body)
        result.append((entry, body, by_entry[entry], exits))
    return result


def heuristic(cfg: ControlFlowGraph, found: Search, guess: Guess) -> list[float]:
    """Weigh edges as BL94's section 5 does."""
    assigned: dict[int, float] = {}
    known = loops(cfg, found)
    exits_of = {entry: exits for entry, _, _, exits in known}
    exit_edges = {edge for exits in exits_of.values() for edge in exits}
    heads = {entry: body for entry, body, _, _ in known} if guess.loops is not None else {}
    for vertex in found.topological:
        weight = 0.0
        for edge in cfg.in_edges[vertex]:
            if edge not in found.back and cfg.edges[edge].source in found.preorder:
                weight += assigned[edge]
        if vertex == cfg.entry:
            weight = 1.0
        exits = exits_of.get(vertex)
        if exits is not None:
            for edge in exits:
                assigned.setdefault(edge, weight / len(exits))
            weight *= guess.multiplier
        rest = []
        for edge in cfg.out_edges[vertex]:
            if edge in exit_edges:
                weight -= assigned[edge]
            else:
                rest.append(edge)
        assigned |= split(cfg, rest, weight, guess, heads)
    return [assigned.get(edge.id, 0.0) for edge in cfg.edges]


def shares(cfg: ControlFlowGraph, found: Search, guess: Guess) -> list[float]:
    """Share 1 among the edges of each vertex."""
    assigned: dict[int, float] = {}
    heads = {}
    if guess.loops is not None:
        heads = {entry: body for entry, body, _, _ in loops(cfg, found)}
    for vertex in found.preorder:
        assigned |= split(cfg, cfg.out_edges[vertex], 1.0, guess, heads)
    return [assigned.get(edge.id, 0.0) for edge in cfg.edges]


def split(
    cfg: ControlFlowGraph,
    edges: Sequence[int],
    weight: float,
    guess: Guess,
    heads: dict[int, set[int]],
) -> dict[int, float]:
    """Share a weight among edges of one vertex, by edge id."""
    favoured, part = list(edges[:1]), guess.fall_through
    if guess.loops is not None:
        towards = [edge for edge in edges if leads_to_loop(cfg, edge, heads)]
        if 0 < len(towards) < len(edges):
            favoured, part = towards, guess.loops
    if part is None or len(favoured) == len(edges):
        return dict.fromkeys(edges, weight / len(edges)) if edges else {}
    others = [edge for edge in edges if edge not in favoured]
    return dict.fromkeys(favoured, weight * part / len(favoured)) | dict.fromkeys(
        others, weight * (1 - part) / len(others)
    )


def leads_to_loop(cfg: ControlFlowGraph, edge: int, heads: dict[int, set[int]]) -> bool:
    """Whether an edge leads to a loop that its source is not in, maybe through straight code."""
    vertex = cfg.edges[edge].target
    for _ in range(cfg.vertex_count):  # straight code that goes on for longer goes in circles
        if vertex in heads:
            return cfg.edges[edge].source not in heads[vertex]
        if len(cfg.out_edges[vertex]) != 1:
            return False
        vertex = cfg.edges[cfg.out_edges[vertex][0]].target
    return False


def dag(
    cfg: ControlFlowGraph, found: Search, cuts: Collection[int] = (), merged: Collection[int] = ()
) -> Edges:
    """Remove back edges, `cuts` and `merged`; put dummy edges in their place."""
    turns = {edge for edge in found.back if cfg.edges[edge].source == cfg.edges[edge].target}
    removed = sorted((set(found.back) - turns) | set(cuts) | set(merged))
    gone = {*removed, *turns}
    edges: list[tuple[int, int, int | None, tuple[int, ...]]] = [
        (edge.source, edge.target, edge.id, ())
        for edge in cfg.edges
        if edge.source in found.preorder and edge.id not in gone
    ]
    by_target: defaultdict[int, list[int]] = defaultdict(list)
    by_source: defaultdict[int, list[int]] = defaultdict(list)
    for edge in removed:
        source, target = cfg.edges[edge].source, cfg.edges[edge].target
        if target != cfg.exit:
            by_target[target].append(edge)
        if source != cfg.entry:
            by_source[source].append(edge)
    inner = {edge[0] for edge in edges} | {cfg.exit}
    inner |= {cfg.edges[edge].source for edge in removed} & {cfg.entry}
    for vertex in found.preorder:
        if vertex not in inner:
            by_source.setdefault(vertex, [])
    edges += [(cfg.entry, target, None, tuple(each)) for target, each in by_target.items()]
    edges += [(source, cfg.exit, None, tuple(each)) for source, each in by_source.items()]
    return Edges(cfg, found, edges, removed)


def number(graph: Edges) -> tuple[list[int], list[int], list[list[int]]]:
    """Return NumPaths by vertex, Val by edge, and the edges of each vertex by ascending value."""
    num_paths = [0] * graph.cfg.vertex_count
    values = [0] * len(graph.edges)
    order: list[list[int]] = [[] for _ in num_paths]
    num_paths[graph.cfg.exit] = 1
    for vertex in reversed(graph.topological[:-1]):
        order[vertex] = sorted(graph.out(vertex), key=lambda e: num_paths[graph.edges[e][1]])
        total = 0
        for edge in order[vertex]:
            values[edge] = total
            total += num_paths[graph.edges[edge][1]]
        num_paths[vertex] = total
    return num_paths, values, order


def truncate(graph: Edges, threshold: int) -> tuple[list[int], int]:
    """Cut the edges of vertices from which too many paths lead; how many the routine has then."""
    entry, leave = graph.cfg.entry, graph.cfg.exit
    num_paths = [0] * graph.cfg.vertex_count
    num_paths[leave] = 1
    cuts: list[int] = []
    for vertex in reversed(graph.topological[:-1]):
        edges = [graph.edges[edge] for edge in graph.out(vertex)]
        total = sum(num_paths[edge[1]] for edge in edges)
        if total > threshold and vertex != entry:
            chosen = [edge[2] for edge in edges if edge[2] is not None and edge[1] != leave]
            has_dummy = any(edge[2] is None and edge[1] == leave for edge in edges)
            if chosen:
                cuts += chosen
                total = len(edges) - len(chosen) + (not has_dummy)
        num_paths[vertex] = total
    out = [graph.edges[edge] for edge in graph.out(entry)]
    starts = {edge[1] for edge in out if edge[2] is None}
    starts |= {graph.cfg.edges[edge].target for edge in cuts}
    total = sum(num_paths[edge[1]] for edge in out if edge[2] is not None)
    return sorted(cuts), total + sum(num_paths[vertex] for vertex in starts)


def cut_edges(graph: Edges, limit: int, total_limit: float = inf) -> list[int]:
    """Choose the edges to cut so that a routine has few enough paths (EPP 5.3)."""
    bound = threshold = int(min(limit, total_limit))
    if max(number(graph)[0]) <= threshold:
        return []
    tried = {threshold: truncate(graph, threshold)}
    beyond = low = threshold
    while tried[low][1] > bound and low > 1:
        beyond, low = low, low // 2
        tried[low] = truncate(graph, low)
    if tried[low][1] > bound:
        return min(tried.values(), key=lambda each: each[1])[0]
    while beyond - low > 1:
        middle = (low + beyond) // 2
        tried[middle] = truncate(graph, middle)
        if tried[middle][1] <= bound:
            low = middle
        else:
            beyond = middle
    return tried[low][0]


def tree(
    vertices: int,
    ends: Ends,
    weights: Sequence[float],
    root: tuple[int, int] | None,
    barred: Collection[int] = (),
) -> list[bool]:
    """Return a spanning tree of greatest weight: sets of vertices are joined one after another."""
    set_of = list(range(vertices))

    def join(source: int, target: int) -> bool:
        kept, gone = set_of[source], set_of[target]
        for vertex in range(vertices):
            if set_of[vertex] == gone:
                set_of[vertex] = kept
        return kept != gone

    if root is not None:
        join(*root)
    inside = [False] * len(ends)
    for edge in sorted(range(len(ends)), key=weights.__getitem__, reverse=True):
        if edge not in barred:
            inside[edge] = join(*ends[edge])
    return inside


def increments(
    vertices: int, ends: Ends, inside: Sequence[bool], values: Sequence[int], root: tuple[int, int]
) -> tuple[list[int], list[int]]:
    """Return increments by edge and potentials by vertex; `root`: EXIT -> ENTRY, if in the tree."""
    potential = {root[1]: 0}
    edges = [
        (*pair, value) for pair, value, is_in in zip(ends, values, inside, strict=True) if is_in
    ]
    if not _joins(vertices, ends, inside, root):
        edges.append((*root, 0))
    while True:
        more = {t: potential[s] + v for s, t, v in edges if s in potential and t not in potential}
        more |= {s: potential[t] - v for s, t, v in edges if t in potential and s not in potential}
        if not more:
            break
        potential |= more
    by_vertex = [potential.get(vertex, 0) for vertex in range(vertices)]
    result = [
        0 if is_in else value + by_vertex[source] - by_vertex[target]
        for (source, target), value, is_in in zip(ends, values, inside, strict=True)
    ]
    return result, by_vertex


def _joins(vertices: int, ends: Ends, inside: Sequence[bool], root: tuple[int, int]) -> bool:
    """Whether tree edges lead from one end of EXIT -> ENTRY to the other."""
    near: list[list[int]] = [[] for _ in range(vertices)]
    for (source, target), is_in in zip(ends, inside, strict=True):
        if is_in:
            near[source].append(target)
            near[target].append(source)
    return root[0] in closure({root[1]}, near.__getitem__)


def obvious(
    graph: Edges, early: Collection[int], only: int | None
) -> tuple[set[int], set[int], set[int]]:
    """Return defining edges, recording points and what is kept (TPP 4.2.2); `only`: the EXIT block.

    All ways are listed, and those that end in the blocks `early`.
    """
    entry, leave = graph.cfg.entry, graph.cfg.exit
    on = Counter[int]()
    work: list[tuple[int, tuple[int, ...]]] = [(entry, ())]
    while work:
        vertex, way = work.pop()
        on.update(way * ((vertex == leave) + (vertex in early)))
        work += [(graph.edges[edge][1], (*way, edge)) for edge in graph.out(vertex)]
    defining = {edge for edge, times in on.items() if times == 1}
    edges = list(enumerate(graph.edges))
    ends = {edge for edge, (_, target, *_) in edges if target == leave}
    leaving = {edge for edge in ends - defining if graph.edges[edge][0] == only}
    into = {edge for edge, (_, target, *_) in edges if leaving and target == only}
    points = ends - leaving | into
    plain = [graph.edges[edge] for edge in range(len(edges)) if edge not in defining]
    seen = closure([entry], lambda v: [target for source, target, *_ in plain if source == v])
    needed = {edge for edge in points - defining if graph.edges[edge][0] in seen}
    before = closure(
        [graph.edges[edge][0] for edge in needed],
        lambda v: [source for source, target, *_ in graph.edges if target == v],
    )
    kept = needed | {edge for edge, (_, target, *_) in edges if target in before}
    if needed & into:
        kept |= leaving
    return defining, points if needed & into and into - needed else ends, kept


def register_steps(
    graph: Edges, inside: Sequence[bool], joins: Collection[int], leaves: Collection[int]
) -> tuple[set[int], set[int], set[int], set[int]]:
    """Return the edges that set the register, the vertices before, those that count, and the
    vertices behind (EPP figure 8).
    """
    ends = [edge[:2] for edge in graph.edges]
    may = [e for e, (_, to) in enumerate(ends) if inside[e] and to not in {*joins, graph.cfg.exit}]
    initial, static = frontier(ends, set(may), graph.cfg.entry)
    may = [e for e, (v, _) in enumerate(ends) if inside[e] and v not in leaves and e not in initial]
    return initial, static, *frontier([pair[::-1] for pair in ends], set(may), graph.cfg.exit)


def frontier(ends: Ends, may: Collection[int], start: int) -> tuple[set[int], set[int]]:
    """Return where edges that `may` be followed and are the only ones to a vertex end, and the
    vertices that they lead to.
    """
    degree = Counter(target for _, target in ends)
    follows = [e for e in may if degree[ends[e][1]] == 1]
    passed = closure([start], lambda v: [ends[e][1] for e in follows if ends[e][0] == v])
    stops = {e for e, (v, _) in enumerate(ends) if v in passed and e not in follows}
    return stops, passed - {start}
