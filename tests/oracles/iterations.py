"""k-iteration paths by their definition: from the list of executed edges, and by enumeration.

Nothing here unrolls a graph or numbers anything. A path is followed forward from where it begins,
counting the back edges that it crosses in the visit to a loop that it is in; it ends before the
k-th of them. One path begins with the activation and after each removed edge; one at each back
edge of an iterated loop, which is dropped if it leaves that loop before its k-th iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.brute import Path, back_edges, reachable


@dataclass(frozen=True)
class KLoop:
    """An iterated loop."""

    head: int
    body: frozenset[int]
    back: frozenset[int]
    k: int


def without_passing(cfg: ControlFlowGraph, source: int, avoided: int) -> set[int]:
    """Vertices reached from `source` on ways that do not pass `avoided`."""
    found = {source} - {avoided}
    left = list(found)
    while left:
        vertex = left.pop()
        more = {cfg.edges[e].target for e in cfg.out_edges[vertex]} - found - {avoided}
        found |= more
        left += more
    return found


def iterated_loops(cfg: ControlFlowGraph, k: int) -> list[KLoop]:
    """Innermost loops with one entry, nested where heads are shared; KITER 5, figure 8."""
    live = reachable(cfg)
    back = {e for e in back_edges(cfg) if cfg.edges[e].source != cfg.edges[e].target}
    loops = []
    for head in sorted({cfg.edges[e].target for e in back}):
        outside = without_passing(cfg, cfg.entry, head)
        own = {
            e for e in back if cfg.edges[e].target == head and cfg.edges[e].source not in outside
        }

        def body_of(edge: int, head: int = head) -> frozenset[int]:
            tail = cfg.edges[edge].source
            return frozenset({head} | {v for v in live if tail in without_passing(cfg, v, head)})

        bodies = {e: body_of(e) for e in own}
        small = [b for b in bodies.values() if not any(other < b for other in bodies.values())]
        body = frozenset().union(*small)
        mine = frozenset(e for e in own if cfg.edges[e].source in body)
        inner = {e for e in back if {cfg.edges[e].source, cfg.edges[e].target} <= body}
        if mine and inner <= mine:
            loops.append(KLoop(head, body, mine, k))
    return loops


def removed_edges(cfg: ControlFlowGraph, loops: Sequence[KLoop], cuts: Iterable[int]) -> set[int]:
    """Back edges of acyclic loops, and cut edges."""
    back = {e for e in back_edges(cfg) if cfg.edges[e].source != cfg.edges[e].target}
    return (back - {e for loop in loops for e in loop.back}) | set(cuts)


@dataclass
class _Follower:
    """Follows one path along a walk without self-loops."""

    cfg: ControlFlowGraph
    walk: Sequence[int]
    loops: Sequence[KLoop]
    removed: set[int]

    def follow(self, first: int, own: KLoop | None) -> tuple[Path, bool] | None:
        """The path whose first edge is `walk[first]`; None if it is dropped.

        `own` is the loop whose back edge began it. Also whether it was finished.
        """
        blocks = [] if own is None and first == 0 else [self.cfg.edges[self.walk[first - 1]].target]
        edges: list[int] = []
        crossed, visited = 0, own
        for step in self.walk[first:]:
            edge = self.cfg.edges[step]
            inside = next((x for x in self.loops if edge.source in x.body), None)
            leaves = inside is not None and (edge.target not in inside.body or step in self.removed)
            if own is not None and inside is own and leaves and crossed < own.k - 1:
                return None
            if step in self.removed:
                return Path(tuple(blocks), tuple(edges), False), True
            if inside is not None and step in inside.back:
                crossed = crossed + 1 if visited is inside else 1
                visited = inside
                if crossed == inside.k:
                    return Path(tuple(blocks), tuple(edges), False), True
            elif leaves:
                crossed, visited, own = 0, None, None
            edges.append(step)
            if edge.target != self.cfg.exit:
                blocks.append(edge.target)
        ended = bool(self.walk) and self.cfg.edges[self.walk[-1]].target == self.cfg.exit
        return Path(tuple(blocks), tuple(edges), not ended), ended


def split_iterations(
    cfg: ControlFlowGraph, walk: Sequence[int], loops: Sequence[KLoop], cuts: Iterable[int] = ()
) -> list[Path]:
    """The k-iteration paths of an activation; of unfinished ones only the oldest, as partial."""
    steps = [s for s in walk if cfg.edges[s].source != cfg.edges[s].target]
    removed = removed_edges(cfg, loops, cuts)
    follower = _Follower(cfg, steps, loops, removed)
    begins: list[tuple[int, KLoop | None]] = [(0, None)]
    for place, step in enumerate(steps):
        loop = next((loop for loop in loops if step in loop.back), None)
        if step in removed or loop is not None:
            begins.append((place + 1, loop))
    paths: list[Path] = []
    unfinished: list[Path] = []
    for first, own in begins:
        found = follower.follow(first, own)
        if found is not None:
            (paths if found[1] else unfinished).append(found[0])
    return [*paths, *unfinished[:1]]


def all_iteration_paths(
    cfg: ControlFlowGraph, loops: Sequence[KLoop], cuts: Iterable[int] = ()
) -> set[Path]:
    """Enumerate the valid k-iteration paths (KITER section 2), dead ends included."""
    removed = removed_edges(cfg, loops, cuts)
    live = reachable(cfg)
    loop_of = {v: loop for loop in loops for v in loop.body}
    ending = {cfg.edges[e].source for e in removed if cfg.edges[e].source in live}
    starting = {cfg.edges[e].target for e in removed if cfg.edges[e].source in live}
    out = {
        v: [e for e in cfg.edges if e.source == v and e.target != v]
        for v in range(cfg.vertex_count)
    }
    found: set[Path] = set()

    def extend(v: int, blocks: tuple[int, ...], edges: tuple[int, ...], n: int, full: bool) -> None:
        """`n` back edges crossed in this visit; `full`: it may not be left before k - 1."""
        if v == cfg.exit:
            found.add(Path(blocks, edges, False))
            return
        blocks = (*blocks, v) if v != cfg.entry else blocks
        loop = loop_of.get(v)
        stuck = full and loop is not None and n < loop.k - 1
        at_last_tail = (
            loop is not None and n == loop.k - 1 and any(e.id in loop.back for e in out[v])
        )
        if at_last_tail or (v in ending and not stuck) or not out[v]:
            found.add(Path(blocks, edges, False))
        for e in out[v]:
            if e.id in removed:
                continue
            if loop is not None and e.id in loop.back:
                if n < loop.k - 1:
                    extend(e.target, blocks, (*edges, e.id), n + 1, full)
            elif loop is not None and e.target in loop.body:
                extend(e.target, blocks, (*edges, e.id), n, full)
            elif not stuck:
                extend(e.target, blocks, (*edges, e.id), 0, False)

    extend(cfg.entry, (), (), 0, False)
    for vertex in starting:
        extend(vertex, (), (), 0, False)
    for loop in loops:
        extend(loop.head, (), (), 0, True)
    return found


def limit_of(cfg: ControlFlowGraph, edge: int, innermost: Sequence[KLoop]) -> str | None:
    """Why the loop that a back edge closes cannot be iterated; None if nothing forbids it."""
    _, source, head, _ = cfg.edges[edge]
    if source == head:
        return "one block"
    if source in without_passing(cfg, cfg.entry, head):
        return "irreducible"
    return None if any(edge in loop.back for loop in innermost) else "outer"


def is_hot(cfg: ControlFlowGraph, loop: KLoop, walks: Sequence[Sequence[int]], hot: float) -> bool:
    """Whether the blocks of a loop execute `hot` percent of the instructions of activations."""
    spent = [
        (cfg.blocks[cfg.edges[step].target].instructions, cfg.edges[step].target in loop.body)
        for steps in walks
        for step in steps
        if cfg.edges[step].target < len(cfg.blocks)
    ]
    total = sum(n for n, _ in spent)
    return hot == 0 or (total > 0 and 100 * sum(n for n, inside in spent if inside) >= hot * total)
