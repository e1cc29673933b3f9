"""TPP by walking: which paths are hot, and which parts of a walk are what (TPP section 4).

Nothing of `cold`, `obvious`, `disconnection` or `poisoning` is used. What a plan is asked for is
where it ends paths (`cut_edges`, `split_edges`), the blocks of the loops that it disconnected, and
whether it left cold edges out at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import networkx as nx

from simprof.profiler.graphs.cfg import ControlFlowGraph, Edge
from tests.oracles.brute import back_edges, reachable

Key = tuple[tuple[int, ...], tuple[int, ...]]


def locally_cold(
    cfg: ControlFlowGraph,
    counts: Sequence[int],
    percent: Fraction,
    disconnected: Iterable[Collection[int]] = (),
) -> set[int]:
    """Edges that are cold by themselves (TPP 4.1, 4.1.1): all but those that must be hot.

    An edge is hot by itself if control took it, on a way from ENTRY that it took, at least
    `percent` as often as the block before it (for an exit of `disconnected` loops, given by their
    blocks: as often as the loop was left). Self-loops are on no path. At 0 % no edge is cold.
    """
    blocks = reachable(cfg)
    live = {e.id for e in cfg.edges if e.source in blocks and e.source != e.target}
    if percent == 0:
        return set()
    taken = [e for e in cfg.edges if counts[e.id] > 0]
    came_by = {cfg.entry}
    for _ in cfg.edges:
        came_by |= {e.target for e in taken if e.source in came_by}
    hot = set()
    for edge in taken:
        around = cfg.out_edges if edge.source == cfg.entry else cfg.in_edges
        executions = [sum(counts[e] for e in around[edge.source])]
        leaving = [
            sum(counts[e.id] for e in cfg.edges if e.source in body and e.target not in body)
            for body in disconnected
            if edge.source in body and edge.target not in body
        ]
        if edge.source in came_by and counts[edge.id] * 100 >= percent * min(leaving or executions):
            hot.add(edge.id)
    return live - hot


def literally_cold(cfg: ControlFlowGraph, cold: Collection[int]) -> set[int]:
    """Edges that no way from ENTRY to EXIT has that takes no cold edge (TPP 4.1.1), and `cold`."""
    if not cold:
        return set()
    hot = nx.DiGraph((e.source, e.target) for e in cfg.edges if e.id not in cold)
    hot.add_nodes_from((cfg.entry, cfg.exit))
    through = {
        e.id
        for e in cfg.edges
        if e.id not in cold
        and nx.has_path(hot, cfg.entry, e.source)
        and nx.has_path(hot, e.target, cfg.exit)
    }
    return {e.id for e in cfg.edges if e.source != e.target} - through


def self_loop_counts(
    cfg: ControlFlowGraph, walks: Iterable[Sequence[int]], disconnected: Iterable[Collection[int]]
) -> tuple[int, ...]:
    """What the counters of self-loops hold: none has one where its block is a disconnected loop.

    Such a loop is obvious then (TPP figure 7f), and in no other case (figure 7b).
    """
    cut = {next(iter(body)) for body in disconnected if len(body) == 1}
    turns = Counter(step for steps in walks for step in steps)
    blocks = reachable(cfg) - cut
    return tuple(turns[e.id] for e in cfg.edges if e.source == e.target and e.source in blocks)


def ending(cfg: ControlFlowGraph, cut: Collection[int], turns: Collection[int]) -> set[int]:
    """Edges that are in no path: back edges, cut edges and the self-loops `turns`."""
    loops = {e.id for e in cfg.edges if e.source == e.target}
    return back_edges(cfg) - loops | set(cut) | set(turns)


@dataclass(frozen=True)
class Piece:
    """A part of a walk between edges that end paths."""

    blocks: tuple[int, ...]
    edges: tuple[int, ...]
    finished: bool

    @property
    def key(self) -> Key:
        return self.blocks, self.edges


def pieces(cfg: ControlFlowGraph, walk: Sequence[int], ended: Collection[int]) -> list[Piece]:
    """Cut an activation."""
    found: list[Piece] = []
    blocks: list[int] = []
    edges: list[int] = []
    for step in walk:
        edge = cfg.edges[step]
        if step in ended:
            if edge.source != cfg.entry:
                found.append(Piece(tuple(blocks), tuple(edges), True))
            blocks, edges = ([edge.target] if edge.target != cfg.exit else []), []
        elif edge.source != edge.target:
            edges.append(step)
            if edge.target != cfg.exit:
                blocks.append(edge.target)
            else:
                found.append(Piece(tuple(blocks), tuple(edges), True))
                blocks = []
    if cfg.edges[walk[-1]].target != cfg.exit:
        found.append(Piece(tuple(blocks), tuple(edges), False))
    return found


def hot_paths(cfg: ControlFlowGraph, ended: Collection[int], cold: Collection[int]) -> set[Key]:
    """Enumerate the paths that TPP gives numbers: the greatest set that supports itself."""
    live = [e for e in cfg.edges if e.source in reachable(cfg)]
    inner = [e for e in live if e.id not in ended and e.source != e.target]
    warm = {e.id for e in live if e.id in ended and e.id not in cold}
    while True:
        starts = {cfg.edges[e].target for e in warm} - {cfg.exit}
        leaving = {e.id for e in live if e.id in ended and e.id not in cold}
        ends = {cfg.edges[e].source for e in leaving} - {cfg.entry}
        sources = {e.source for e in inner} | {e.source for e in live if e.id in ended}
        ends |= reachable(cfg) - sources - {cfg.entry, cfg.exit}  # dead ends
        found = set(_walks(cfg, [e for e in inner if e.id not in cold], starts, ends))
        hot = {block for blocks, _ in found for block in blocks} | {cfg.entry}
        still = {e for e in warm if cfg.edges[e].source in hot}
        if still == warm:
            return found
        warm = still


def uncounted_paths(cfg: ControlFlowGraph, hot: Collection[Key], counts: Sequence[int]) -> set[Key]:
    """Hot paths that need no counter: where they are recorded, only obvious ones are (TPP 4.2.2).

    A path is recorded on its edge into the block of EXIT, if that is one block (2.1, figure 8),
    else on its edge to EXIT.

    A path is obvious if an edge of the acyclic graph lies on it alone. The beginning of a path up
    to a block where the profile `counts` shows that activations end early is one more path.
    """
    chains = {key: _chain(cfg, key) for key in hot}
    early = {
        b
        for b in range(len(cfg.blocks))
        if sum(counts[e] for e in cfg.in_edges[b]) > sum(counts[e] for e in cfg.out_edges[b])
    }
    begun = {
        chain[: place + 1]
        for key, chain in chains.items()
        for place, block in enumerate(key[0])
        if block in early
    }
    on = Counter(step for chain in (*chains.values(), *begun) for step in chain)
    obvious = {key for key, chain in chains.items() if any(on[step] == 1 for step in chain)}
    points = {key: _recorded(cfg, chain, on) for key, chain in chains.items()}
    needed = {points[key] for key in chains if key not in obvious}
    return {key for key in chains if points[key] not in needed}


def _recorded(
    cfg: ControlFlowGraph, chain: tuple[tuple[str, int], ...], on: Counter[tuple[str, int]]
) -> tuple[str, int]:
    """The step of a path at which it is recorded."""
    leaving = [edge for edge in cfg.edges if edge.target == cfg.exit]
    blocks = {edge.source for edge in leaving}
    ways_on = [edge for edge in cfg.edges if edge.source in blocks]
    single = len(ways_on) == 1 and chain[-1] == ("edge", leaving[0].id) and len(chain) > 1
    # One path alone may take the way out, whatever ends early in the block: then it is obvious.
    return chain[-2] if single and on[chain[-1]] > 1 else chain[-1]


def _chain(cfg: ControlFlowGraph, key: Key) -> tuple[tuple[str, int], ...]:
    """The edges of the acyclic graph on a path: dummies by the block that they lead to or from."""
    blocks, edges = key
    steps = [("edge", edge) for edge in edges]
    if not edges or cfg.edges[edges[0]].source != cfg.entry:
        steps.insert(0, ("to", blocks[0]))
    if not edges or cfg.edges[edges[-1]].target != cfg.exit:
        steps.append(("from", blocks[-1]))
    return tuple(steps)


def cold_executions(whole: Counter[Key], hot: Collection[Key]) -> int:
    """How many path executions no hot path explains."""
    return sum(count for key, count in whole.items() if key not in hot)


def _walks(
    cfg: ControlFlowGraph, inner: Sequence[Edge], starts: Iterable[int], ends: Collection[int]
) -> Iterable[Key]:
    def extend(vertex: int, blocks: tuple[int, ...], edges: tuple[int, ...]) -> Iterable[Key]:
        if vertex == cfg.exit:
            yield blocks, edges
            return
        if vertex != cfg.entry:
            blocks = (*blocks, vertex)
        if vertex in ends:
            yield blocks, edges
        for edge in inner:
            if edge.source == vertex:
                yield from extend(edge.target, blocks, (*edges, edge.id))

    yield from extend(cfg.entry, (), ())
    for start in starts:
        yield from extend(start, (), ())


def tally(
    cfg: ControlFlowGraph, walks: Iterable[Sequence[int]], ended: Collection[int]
) -> tuple[Counter[Key], Counter[Key]]:
    """Count finished and unfinished paths of walks."""
    whole: Counter[Key] = Counter()
    partial: Counter[Key] = Counter()
    for walk in walks:
        for piece in pieces(cfg, walk, ended):
            (whole if piece.finished else partial)[piece.key] += 1
    return whole, partial
