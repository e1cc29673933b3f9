"""Slow, obvious references on control-flow graphs, sharing no code with the product.

Graphs are built from edge lists; activations are lists of edge ids from ENTRY to EXIT (or to the
block where they end early). Paths are found by walking, not by arithmetic.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.actions import (
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.plan import InstrumentationPlan


def graph(
    blocks: int,
    edges: Iterable[tuple[int, int]],
    entries: Sequence[int] = (0,),
    exits: Sequence[int] | None = None,
    name: str = "graph",
) -> ControlFlowGraph:
    """Build a graph of `blocks` one-instruction blocks; inner edges first, then ENTRY, EXIT."""
    made: list[Edge] = []
    for source, target in edges:
        made.append(Edge(len(made), source, target, EdgeKind.TAKEN))
    for block in entries:
        made.append(Edge(len(made), blocks, block, EdgeKind.ENTRY))
    for block in (blocks - 1,) if exits is None else exits:
        made.append(Edge(len(made), block, blocks + 1, EdgeKind.EXIT))
    vertices = tuple(Block(index, index, 1) for index in range(blocks))
    return ControlFlowGraph(name, 0, 0, vertices, tuple(made))


def random_graph(rng: random.Random, most: int = 9) -> ControlFlowGraph:
    """Return any multigraph: self-loops, parallel edges, dead ends, unreachable blocks."""
    blocks = rng.randint(1, most)
    density = rng.choice((0.7, 1.2, 2.0))
    edges = [(rng.randrange(blocks), rng.randrange(blocks)) for _ in range(int(blocks * density))]
    if rng.random() < 0.7:
        edges += [(block, block + 1) for block in range(blocks - 1)]
    if edges and rng.random() < 0.3:
        edges.append(rng.choice(edges))
    rng.shuffle(edges)
    exits = rng.choices(range(blocks), k=rng.choice((1, 1, 2)))
    entries = rng.sample(range(blocks), k=min(blocks, rng.choice((1, 1, 1, 2))))
    return graph(blocks, edges, entries, exits)


def diamonds(count: int) -> ControlFlowGraph:
    """Return a graph of 2 ** count paths."""
    edges = []
    for top in range(0, 3 * count, 3):
        edges += [(top, top + 1), (top, top + 2), (top + 1, top + 3), (top + 2, top + 3)]
    return graph(3 * count + 1, edges)


def structured_graph(rng: random.Random, depth: int = 3) -> ControlFlowGraph:
    """Return the graph of nested sequences, choices and loops, with some jumps out of them."""
    edges: list[tuple[int, int]] = []
    count = 0

    def block() -> int:
        nonlocal count
        count += 1
        return count - 1

    def region(depth: int) -> tuple[int, int]:
        """Add blocks and edges; return the first and the last block."""
        kind = rng.choice(("sequence", "choice", "loop", "loop")) if depth else "block"
        if kind == "sequence":
            first, middle = region(depth - 1)
            second, last = region(depth - 1)
            edges.append((middle, second))
            return first, last
        if kind == "choice":
            first, last = block(), block()
            for _ in range(rng.choice((1, 2, 2, 3))):
                inner, end = region(depth - 1)
                edges.extend([(first, inner), (end, last)])
            if rng.random() < 0.5:
                edges.append((first, last))
            return first, last
        if kind == "loop":
            head, body = block(), region(depth - 1)
            edges.append((head, body[0]))
            edges.append((body[1], head if rng.random() < 0.8 else body[0]))
            last = block()
            edges.extend([(source, last) for source in {rng.choice((head, body[1])), body[1]}])
            return head, last
        return (only := block()), only

    first, last = region(depth)
    for _ in range(rng.choice((0, 0, 1, 2))):
        edges.append((rng.randrange(count), last))
    rng.shuffle(edges)
    return graph(count, edges, (first,), (last,))


def with_slots(rng: random.Random, cfg: ControlFlowGraph, share: float = 0.4) -> ControlFlowGraph:
    """Put a slot block on some edges out of blocks with several, as annulled branches have."""
    forks = [len(edges) > 1 for edges in cfg.out_edges]
    chosen = {
        edge.id: len(cfg.blocks) + at
        for at, edge in enumerate(
            edge
            for edge in cfg.edges
            if edge.source < cfg.entry and forks[edge.source] and rng.random() < share
        )
    }
    slots = tuple(Block(slot, slot, 1, is_slot=True) for slot in chosen.values())
    vertex = {cfg.entry: len(cfg.blocks) + len(slots), cfg.exit: len(cfg.blocks) + len(slots) + 1}
    ends: list[tuple[int, int, EdgeKind]] = []
    for edge in cfg.edges:
        source = vertex.get(edge.source, edge.source)
        target = vertex.get(edge.target, edge.target)
        if edge.id in chosen:
            ends.append((source, chosen[edge.id], EdgeKind.SLOT))
            source = chosen[edge.id]
        ends.append((source, target, edge.kind))
    edges = tuple(Edge(at, *each) for at, each in enumerate(ends))
    return ControlFlowGraph(cfg.name, 0, 0, cfg.blocks + slots, edges)


def back_edges(cfg: ControlFlowGraph) -> set[int]:
    """Edges whose target is on the stack of a recursive depth-first search."""
    stack: set[int] = set()
    seen: set[int] = set()
    found: set[int] = set()

    def visit(vertex: int) -> None:
        seen.add(vertex)
        stack.add(vertex)
        for edge in cfg.edges:
            if edge.source == vertex:
                if edge.target in stack:
                    found.add(edge.id)
                elif edge.target not in seen:
                    visit(edge.target)
        stack.remove(vertex)

    visit(cfg.entry)
    return found


def reachable(cfg: ControlFlowGraph) -> set[int]:
    """Vertices that can be reached from ENTRY."""
    found = {cfg.entry}
    while True:
        more = {edge.target for edge in cfg.edges if edge.source in found} - found
        if not more:
            return found
        found |= more


@dataclass(frozen=True)
class Path:
    """A path by its blocks and kept edges; `end` is "whole" or "partial"."""

    blocks: tuple[int, ...]
    edges: tuple[int, ...]
    partial: bool


def all_paths(cfg: ControlFlowGraph, cut: Iterable[int] = ()) -> set[Path]:
    """Enumerate the paths (docs/SEMANTICS.md), and those into dead ends (EPP figure 5's leaf)."""
    back = back_edges(cfg)
    ended = {edge for edge in back if cfg.edges[edge].source != cfg.edges[edge].target} | set(cut)
    live = reachable(cfg)
    kept = {
        v: [e for e in cfg.edges if e.source == v and e.id not in ended | back]
        for v in range(cfg.vertex_count)
    }
    ending = {cfg.edges[edge].source for edge in ended}
    starts = {cfg.edges[edge].target for edge in ended if cfg.edges[edge].source in live}
    found: set[Path] = set()

    def extend(vertex: int, blocks: tuple[int, ...], edges: tuple[int, ...]) -> None:
        if vertex == cfg.exit:
            found.add(Path(blocks, edges, False))
            return
        if vertex != cfg.entry:
            blocks = (*blocks, vertex)
        if vertex in ending or not kept[vertex]:
            found.add(Path(blocks, edges, False))
        for edge in kept[vertex]:
            extend(edge.target, blocks, (*edges, edge.id))

    extend(cfg.entry, (), ())
    for vertex in starts:
        extend(vertex, (), ())
    return found


def split(cfg: ControlFlowGraph, walk: Sequence[int], cut: Iterable[int] = ()) -> list[Path]:
    """Cut an activation into its paths; the last is partial unless it ends in EXIT.

    Self-loops end paths only where they are among `cut`.
    """
    back = back_edges(cfg)
    cuts = set(cut)
    paths: list[Path] = []
    blocks: list[int] = []
    edges: list[int] = []
    for step in walk:
        edge = cfg.edges[step]
        if step in back and edge.source == edge.target and step not in cuts:
            continue
        if step in back or step in cuts:
            paths.append(Path(tuple(blocks), tuple(edges), False))
            blocks, edges = [edge.target], []
            continue
        edges.append(step)
        if edge.target != cfg.exit:
            blocks.append(edge.target)
    ended_early = cfg.edges[walk[-1]].target != cfg.exit
    paths.append(Path(tuple(blocks), tuple(edges), ended_early))
    return paths


def split_sequences(
    cfg: ControlFlowGraph, walk: Sequence[int], cut: Iterable[int], k: int
) -> list[Path]:
    """All runs of up to k whole paths of an activation, and its partial path.

    Of parallel edges between two paths the first stands for all.
    """
    paths, cuts = split(cfg, walk, cut), set(cut)
    ending = {
        e for e in back_edges(cfg) | cuts if cfg.edges[e].source != cfg.edges[e].target or e in cuts
    }
    between = [
        min(e for e in ending if cfg.edges[e][1:3] == cfg.edges[step][1:3])
        for step in walk
        if step in ending
    ]
    found = [path for path in paths if path.partial]
    for first in range(len(paths)):
        blocks: tuple[int, ...] = ()
        edges: tuple[int, ...] = ()
        for n, path in enumerate(paths[first : first + k]):
            if path.partial:
                break
            blocks += path.blocks
            edges += (*([between[first + n - 1]] if n else []), *path.edges)
            found.append(Path(blocks, edges, False))
    return found


def branch_windows(cfg: ControlFlowGraph, walk: Sequence[int], k: int) -> list[Path]:
    """The ways over the last k branches up to each branch of an activation, or from its start."""
    at = [
        place
        for place, step in enumerate(walk)
        if (source := cfg.edges[step].source) != cfg.entry and len(cfg.out_edges[source]) > 1
    ]
    windows = []
    for number, place in enumerate(at, 1):
        first = at[number - k] if number >= k else 0
        edges = tuple(walk[first : place + 1])
        vertices = [cfg.edges[edges[0]].source, *(cfg.edges[edge].target for edge in edges)]
        blocks = tuple(v for v in vertices if v not in (cfg.entry, cfg.exit))
        windows.append(Path(blocks, edges, False))
    return windows


@dataclass(frozen=True)
class Loop:
    """A loop of which paths span `iterations` iterations (KITER)."""

    blocks: frozenset[int]
    back_edges: frozenset[int]
    iterations: int


def split_iterations(
    cfg: ControlFlowGraph, walk: Sequence[int], loops: Sequence[Loop], ending: Iterable[int]
) -> list[Path]:
    """Cut an activation into its k-iteration paths (KITER section 2); the last may be partial.

    A path ends at each edge of `ending`, and in a loop of `loops` at each back edge crossed after
    its k-th iteration; there the next path has been under way for k - 1 iterations. So paths
    overlap, and one that has left a loop began with the last k iterations of it, or before the
    loop where it had no more than k. Loops do not overlap. Self-loops are left out.
    """
    ends, back = set(ending), back_edges(cfg)
    steps = [
        step
        for step in walk
        if not (step in back and cfg.edges[step].source == cfg.edges[step].target)
    ]
    found: list[Path] = []
    begin = 0  # position of the first edge of the path; the edge that began it is no part of it
    visit: list[int] = []  # where each iteration of the loop that control is in began
    inside: Loop | None = None

    def path(first: int, last: int, partial: bool = False) -> Path:
        blocks = [cfg.edges[step].target for step in steps[first:last]]
        if first:
            blocks.insert(0, cfg.edges[steps[first - 1]].target)
        kept = tuple(block for block in blocks if block != cfg.exit)
        return Path(kept, tuple(steps[first:last]), partial)

    def start() -> int:
        """Where the longest path that is under way and allowed began."""
        if inside is None or len(visit) <= inside.iterations:
            return begin
        return visit[-inside.iterations]

    for position, step in enumerate(steps):
        target = cfg.edges[step].target
        if inside is not None and step in inside.back_edges:
            if len(visit) >= inside.iterations:
                found.append(path(start(), position))
            visit.append(position + 1)
            continue
        if inside is not None and (target not in inside.blocks or step in ends):
            begin = start()
            inside, visit = None, []
        if step in ends:
            found.append(path(begin, position))
            begin = position + 1
        if inside is None:
            inside = next((loop for loop in loops if target in loop.blocks), None)
            visit = [begin if step in ends else position + 1]
    ended_early = cfg.edges[steps[-1]].target != cfg.exit
    found.append(path(start(), len(steps), ended_early))
    return found


def edge_counts(cfg: ControlFlowGraph, walks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Crossings by edge id."""
    crossed = Counter(step for walk in walks for step in walk)
    return tuple(crossed[edge.id] for edge in cfg.edges)


def block_counts(cfg: ControlFlowGraph, walks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Executions by block id."""
    entered = Counter(cfg.edges[step].target for walk in walks for step in walk)
    return tuple(entered[block.id] for block in cfg.blocks)


def early_ends(cfg: ControlFlowGraph, walks: Iterable[Sequence[int]]) -> Counter[int]:
    """Activations that ended early, by block."""
    ends = (cfg.edges[walk[-1]].target for walk in walks)
    return Counter(block for block in ends if block != cfg.exit)


def regenerate(
    cfg: ControlFlowGraph, witnesses: set[int], trace: Sequence[int], activations: int
) -> list[list[int]]:
    """Follow a trace of witnessed edges through whole activations, one after the other.

    At each block the next edge is the only one that writes the next witness, or from which
    that can be reached, or the exit, without writing any. `cfg` has one ENTRY edge.
    """
    free = [edge for edge in cfg.edges if edge.id not in witnesses]

    @cache
    def ahead(vertex: int) -> frozenset[int]:
        """Witnessed edges, or -1 for EXIT, that are next from here."""
        found, fresh = {vertex}, {vertex}
        while fresh:
            fresh = {edge.target for edge in free if edge.source in fresh} - found
            found |= fresh
        written = {edge for edge in witnesses if cfg.edges[edge].source in found}
        return frozenset(written | ({-1} if cfg.exit in found else set()))

    walks, rest = [], list(trace)
    for _ in range(activations):
        vertex, steps = cfg.entry, []
        while vertex != cfg.exit:
            wanted = {rest[0] if rest else -1, -1}
            out = [edge for edge in cfg.edges if edge.source == vertex]
            fitting = [
                edge
                for edge in out
                if (edge.id in wanted if edge.id in witnesses else ahead(edge.target) & wanted)
            ]
            assert len(fitting) == 1, f"at {vertex}: {fitting}"
            if fitting[0].id in witnesses:
                rest.pop(0)
            steps.append(fitting[0].id)
            vertex = fitting[0].target
        walks.append(steps)
    assert not rest
    return walks


def locally_cold(cfg: ControlFlowGraph, counts: Sequence[int], percentage: float) -> set[int]:
    """Edges that take less than this share of their source's executions (TPP 4.1.1)."""
    leaving = Counter[int]()
    for edge in cfg.edges:
        leaving[edge.source] += counts[edge.id]
    return {
        edge.id
        for edge in cfg.edges
        if counts[edge.id] < Fraction(percentage) / 100 * leaving[edge.source]
    }


def random_walk(rng: random.Random, cfg: ControlFlowGraph, most: int = 40) -> list[int]:
    """Walk from ENTRY until EXIT, a dead end, or `most` edges."""
    vertex = cfg.entry
    walk: list[int] = []
    while len(walk) < most and vertex != cfg.exit:
        choices = [edge for edge in cfg.edges if edge.source == vertex]
        if not choices:
            break
        edge = rng.choice(choices)
        walk.append(edge.id)
        vertex = edge.target
    return walk


@dataclass
class Outcome:
    """What a plan's counters hold after some activations."""

    paths: Counter[int]
    counters: list[int]
    early: list[tuple[int, int, int | None]]  # (block, register, last counter)
    steps: int  # actions executed


def run_plan(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, walks: Iterable[Sequence[int]]
) -> Outcome:
    """Execute the plan's actions along `walks`, one activation each, edge by edge.

    Only actions of edges are known here, and only those of `plan.actions` that count. A plan with
    any others raises AssertionError, even if no walk comes there.
    """
    known = (SetRegister, AddRegister, CountPath, CountConstantPath, CountEdge)
    for action in (a for actions in plan.actions.values() for a in actions):
        assert isinstance(action, known), f"no idea what {action!r} does"
    assert not plan.blocks, "no idea of what blocks do"
    assert not plan.block_ends, "no idea of what ends of blocks do"
    result = Outcome(Counter(), [0] * plan.edge_counters, [], 0)
    for walk in walks:
        register, last = -(10**9), None
        for step in walk:
            for action in plan.actions.get(step, ()):
                result.steps += 1
                match action:
                    case SetRegister(constant):
                        register = constant
                    case AddRegister(constant):
                        register += constant
                    case CountPath(constant):
                        last = register + constant
                        result.paths[last] += 1
                    case CountConstantPath(constant):
                        last = constant
                        result.paths[last] += 1
                    case CountEdge(counter):
                        result.counters[counter] += 1
        if walk and cfg.edges[walk[-1]].target != cfg.exit:
            result.early.append((cfg.edges[walk[-1]].target, register, last))
    return result


# Of a vertex and those of its edges that share what is left of its weight: their shares.
Shares = Callable[[int, list[int]], list[Fraction]]


def structural_weights(
    cfg: ControlFlowGraph, multiplier: Fraction = Fraction(10), shares: Shares | None = None
) -> list[Fraction]:
    """BL94 section 5, rules 1-3 word for word, on reducible graphs; exact."""
    back, live = back_edges(cfg), reachable(cfg)
    edges = [edge for edge in cfg.edges if edge.source in live]
    entries = {cfg.edges[edge].target for edge in back}

    @cache
    def body(entry: int) -> frozenset[int]:
        return frozenset(
            {entry}
            | {
                vertex
                for vertex in live
                for edge in back
                if cfg.edges[edge].target == entry
                and vertex != entry
                and _leads(cfg, vertex, cfg.edges[edge].source, entry)
            }
        )

    exits = {
        y: [e.id for e in edges if e.source in body(y) and e.target not in body(y)] for y in entries
    }
    exit_edges = {edge for found in exits.values() for edge in found}
    weight: dict[int, Fraction] = {}
    done: set[int] = set()
    while len(done) < len(live):
        for vertex in sorted(live - done):
            incoming = [e.id for e in edges if e.target == vertex and e.id not in back]
            if all(cfg.edges[edge].source in done for edge in incoming):
                break
        done.add(vertex)
        total = (
            Fraction(1)
            if vertex == cfg.entry
            else sum((weight[edge] for edge in incoming), Fraction(0))
        )
        if vertex in entries:
            for edge in exits[vertex]:
                weight.setdefault(edge, total / len(exits[vertex]))
            total *= multiplier
        outgoing = [e.id for e in edges if e.source == vertex]
        rest = [edge for edge in outgoing if edge not in exit_edges]
        taken = sum((weight[e] for e in outgoing if e in exit_edges), Fraction(0))
        even = [Fraction(1, len(rest))] * len(rest) if rest else []
        for edge, share in zip(
            rest, shares(vertex, rest) if shares and rest else even, strict=True
        ):
            weight[edge] = (total - taken) * share
    return [weight.get(edge.id, Fraction(0)) for edge in cfg.edges]


def _leads(cfg: ControlFlowGraph, source: int, target: int, avoiding: int) -> bool:
    found = {source}
    while True:
        more = {e.target for e in cfg.edges if e.source in found} - found - {avoiding}
        if not more:
            return target in found
        found |= more
