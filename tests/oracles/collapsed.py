"""Paths of outer loops with collapsed inner loops, by their definition (KITER 5).

A visit to a collapsed loop is cut out of what was executed: around it nothing is left but the step
into the loop and the one out of it, and what was cut out is followed on its own. Nothing here
numbers paths, or knows what regions a plan has: only which loops are iterated, and how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.brute import back_edges, reachable
from tests.oracles.iterations import KLoop, without_passing


class OuterPath(NamedTuple):
    """A path: blocks and edges as in `PathRecord`, and which collapsed loops it passes."""

    start: str
    blocks: tuple[int, ...]
    edges: tuple[int, ...]
    collapsed: tuple[int, ...]
    end: str


@dataclass(frozen=True)
class Nested:
    """A loop of a nest."""

    head: int
    body: frozenset[int]
    back: frozenset[int]


def every_loop(cfg: ControlFlowGraph) -> list[Nested]:
    """All loops with one entry; of those that share a head, each level is one."""
    live = reachable(cfg)
    back = {e for e in back_edges(cfg) if cfg.edges[e].source != cfg.edges[e].target}
    loops = []
    for head in sorted({cfg.edges[e].target for e in back}):
        outside = without_passing(cfg, cfg.entry, head)
        bodies = {
            e: frozenset(
                {head} | {v for v in live if cfg.edges[e].source in without_passing(cfg, v, head)}
            )
            for e in back
            if cfg.edges[e].target == head and cfg.edges[e].source not in outside
        }
        inner: frozenset[int] = frozenset()
        while bodies:
            least = [b for b in bodies.values() if not any(o < b for o in bodies.values())]
            inner = inner.union(*least)
            mine = {e for e in bodies if cfg.edges[e].source in inner}
            loops.append(Nested(head, inner, frozenset(mine)))
            bodies = {e: b for e, b in bodies.items() if e not in mine}
    return loops


def can_be_iterated(cfg: ControlFlowGraph, loop: Nested, loops: Sequence[Nested]) -> bool:
    """Whether only the loop's own back edges close cycles once the loops inside are collapsed."""
    inside = [each for each in loops if each.body < loop.body]
    for edge in back_edges(cfg) - loop.back:
        ends = {cfg.edges[edge].source, cfg.edges[edge].target}
        if len(ends) > 1 and ends <= loop.body and not any(ends <= x.body for x in inside):
            return False
    return True


# -- Regions of an execution


@dataclass(frozen=True)
class Level:
    """The routine (`loop` is None) or a collapsed loop, with what is iterated and collapsed."""

    cfg: ControlFlowGraph
    loop: Nested | None
    iterated: tuple[KLoop, ...]
    collapsed: tuple[Nested, ...]
    ends_paths: frozenset[int]

    def holds(self, vertex: int) -> bool:
        return self.loop is None or vertex in self.loop.body

    def inside(self, vertex: int) -> Nested | None:
        """The collapsed loop that a vertex is in."""
        return next((x for x in self.collapsed if vertex in x.body), None)

    def iterated_at(self, vertex: int) -> KLoop | None:
        return next((x for x in self.iterated if vertex in x.body), None)

    def block(self, vertex: int) -> int:
        found = self.inside(vertex)
        return vertex if found is None else found.head


def levels(
    cfg: ControlFlowGraph, loops: Sequence[Nested], k_of: dict[frozenset[int], int], cuts: set[int]
) -> Iterator[Level]:
    """The routine and its collapsed loops; `k_of` by back edges, where k is more than 1."""
    back = {e for e in back_edges(cfg) if cfg.edges[e].source != cfg.edges[e].target}
    work: list[Nested | None] = [None]
    while work:
        here = work.pop()
        mine = [x for x in loops if here is None or x.body <= here.body]
        chosen = [x for x in mine if x.back in k_of]
        top = [x for x in chosen if not any(x.body < y.body for y in chosen)]
        collapsed = [
            x
            for x in mine
            if any(x.body < y.body for y in top)
            and not any(
                x.body < z.body and z.body < y.body for y in top for z in mine if x.body < y.body
            )
        ]
        iterated = tuple(KLoop(x.head, x.body, x.back, k_of[x.back]) for x in top)
        own = {e for x in iterated for e in x.back}
        yield Level(cfg, here, iterated, tuple(collapsed), frozenset((back - own) | cuts))
        work += collapsed


def visits(level: Level, walk: Sequence[int]) -> Iterator[tuple[list[int], bool]]:
    """Each visit to a level: its steps without insides of collapsed loops, those into and out of
    it included, and whether it was left.
    """
    cfg = level.cfg
    steps: list[int] | None = [] if level.loop is None else None
    for step in walk:
        source, target = cfg.edges[step].source, cfg.edges[step].target
        if steps is None:
            if level.holds(target):
                steps = [step]
            continue
        hidden = level.inside(source)
        if source != target and (hidden is None or level.inside(target) is not hidden):
            steps.append(step)
        if target == cfg.exit if level.loop is None else not level.holds(target):
            yield steps, True
            steps = None
    if steps is not None:
        yield steps, False


def paths_of_visit(level: Level, steps: Sequence[int], left: bool) -> list[OuterPath]:
    """The paths of a visit; of unfinished ones only the oldest."""
    cfg, is_loop = level.cfg, level.loop is not None
    begins: list[tuple[int, str, KLoop | None]] = [
        (1, "loop-entry", None) if is_loop else (0, "entry", None)
    ]
    inner = range(1 if is_loop else 0, len(steps) - (1 if is_loop and left else 0))
    back = back_edges(cfg)
    for place in inner:
        loop = next((x for x in level.iterated if steps[place] in x.back), None)
        if loop is not None or steps[place] in level.ends_paths:
            begins.append((place + 1, _ends(level, steps[place], back, False), loop))
    found: list[OuterPath] = []
    unfinished: list[OuterPath] = []
    for first, start, own in begins:
        path = _follow(level, steps, first, start, own, left)
        if path is not None:
            (unfinished if path.end == "partial" else found).append(path)
    return [*found, *unfinished[:1]]


def _ends(level: Level, step: int, back: set[int], at_source: bool) -> str:
    """How a path ends, or begins, at a removed edge; all that end in one block do alike."""
    edges, edge = level.cfg.edges, level.cfg.edges[step]
    ending = level.ends_paths | {e for x in level.iterated for e in x.back}
    alike = [
        e
        for e in ending
        if (
            level.block(edges[e].source) == level.block(edge.source)
            if at_source
            else level.block(edges[e].target) == level.block(edge.target)
        )
        and level.holds(edges[e].source)
        and level.holds(edges[e].target)
    ]
    return "back-edge" if back & set(alike) else "cut"


def _follow(
    level: Level, steps: Sequence[int], first: int, start: str, own: KLoop | None, left: bool
) -> OuterPath | None:
    """Follow one path: as `iterations._Follower` does, on what is left of the visit."""
    cfg, back = level.cfg, back_edges(level.cfg)
    vertices: list[int] = []
    edges: list[int] = []
    if first:
        vertices.append(cfg.edges[steps[first - 1]].target)
    crossed, visited = 0, own

    def made(end: str) -> OuterPath:
        blocks = tuple(map(level.block, vertices))
        places = tuple(at for at, v in enumerate(vertices) if level.inside(v) is not None)
        return OuterPath(start, blocks, tuple(edges), places, end)

    for place, step in enumerate(steps[first:], first):
        edge = cfg.edges[step]
        is_out = left and place == len(steps) - 1
        inside = level.iterated_at(edge.source)
        leaves = inside is not None and (
            is_out or edge.target not in inside.body or step in level.ends_paths
        )
        if own is not None and inside is own and leaves and crossed < own.k - 1:
            return None
        if is_out and level.loop is not None:
            return made("loop-exit")
        if step in level.ends_paths:
            return made(_ends(level, step, back, True))
        if inside is not None and step in inside.back:
            crossed = crossed + 1 if visited is inside else 1
            visited = inside
            if crossed == inside.k:
                return made("back-edge")
        elif leaves:
            crossed, visited, own = 0, None, None
        edges.append(step)
        if is_out:
            return made("exit")
        vertices.append(edge.target)
    return made("partial")


def split_outer(
    cfg: ControlFlowGraph, walk: Sequence[int], every: Iterable[Level]
) -> list[OuterPath]:
    """The paths of an activation, in all levels."""
    return [
        path
        for level in every
        for steps, left in visits(level, walk)
        for path in paths_of_visit(level, steps, left)
    ]
