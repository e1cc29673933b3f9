"""Which loops are iterated, how often, and why some are iterated less (KITER 5, 8).

Terms
-----
iterated loop
    A natural loop whose paths span k >= 2 iterations. Loops with one head and nested bodies are
    nested loops, as in KITER figure 8; the others that share a head are one loop with several
    tails. Self-loops are no loops here: they have counters of their own (KITER 3; EPP 4.1).
base profile
    What says which loops are hot (KITER 8): the edge weights, which are counts where `--weights`
    names a saved profile, else estimates.
hot loop
    One whose blocks execute at least a given share of the routine's instructions in that profile.
region
    The routine, or a *collapsed* loop: one inside of an iterated one. In the region around it a
    collapsed loop is one vertex, which its head stands for: the edges into it, and those out of it,
    are that vertex's. Its own paths begin at an edge ENTRY -> head and end at edges to EXIT from
    every vertex that an edge leaves the loop from, as in hierarchical path profiling, to which
    KITER 5 refers. A loop with k = 1 is acyclic, in the region that it is in, and collapses nothing
    (mixed mode). Without `outer` the routine is the only region.
limited loop
    One whose paths span fewer iterations than were asked for, with the reason (`LimitReason`).

Steps: `innermost_loops` or `nested_loops` finds the loops; `read_choices` reads `k-of`; `Asked`
says what is asked of each loop; `divide` makes the regions; `limited_loops` says what became of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof import schemes as s

GIVEN_UP = "given_up_routines"  # Name of what is lost where a routine has too many paths

BETWEEN, AT, IS = "+", "@", "="


BackEdges = tuple[int, ...]  # Names a loop: its head may be that of several


# -- Loops


class IteratedLoop(Struct, frozen=True):
    """A loop and the number of its iterations that paths span (k of KITER, by loop)."""

    # head, body: Blocks; in an `IterationGraph`, its vertices.
    head: int
    body: frozenset[int]
    back_edges: BackEdges
    iterations: int


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


def cycles_inside(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, loop: IteratedLoop
) -> Iterator[frozenset[int]]:
    """Yield the ends of the back edges inside of a loop that are neither its own nor self-loops."""
    source, target = cfg.ends
    for edge in dfs.back_edges.difference(dfs.self_loops, loop.back_edges):
        if source[edge] in loop.body and target[edge] in loop.body:
            yield frozenset((source[edge], target[edge]))


def innermost_loops(
    cfg: s.ControlFlowGraph, dfs: s.DepthFirst, iterations: int
) -> tuple[NestedLoop, ...]:
    """Return the loops that can be iterated where none is collapsed, all with k = `iterations`."""
    loops = find_loops(cfg, dfs, iterations)
    return tuple(
        NestedLoop(loop, (), True) for loop in loops if not any(cycles_inside(cfg, dfs, loop))
    )


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


# -- What is asked of them


class LoopChoice(NamedTuple):
    """k for some loops."""

    where: str  # A routine's name, with wildcards, and perhaps a loop's head behind `AT`
    iterations: int

    def fits(self, cfg: s.ControlFlowGraph, head: int) -> bool:
        """Whether it is about the loop at this head."""
        # A symbol may itself have an `@` ("puts@plt").
        if fnmatchcase(cfg.name, self.where):
            return True
        routine, at, name = self.where.rpartition(AT)
        return bool(at) and fnmatchcase(cfg.name, routine or "*") and _is_named(cfg, head, name)


def _is_named(cfg: s.ControlFlowGraph, head: int, name: str) -> bool:
    """Whether a block has this label, or else begins at this address."""
    block = cfg.blocks[head]
    if block.label is not None:
        return block.label == name
    try:
        return int(name, 0) == block.start and not block.is_slot
    except ValueError:
        return False


def read_choices(text: str) -> tuple[LoopChoice, ...]:
    """Read choices such as "main=4+sort@0x10400=1+@B=3"; ValueError if it is none."""
    found = []
    for part in text.split(BETWEEN) if text else ():
        where, _, iterations = part.rpartition(IS)
        if not where:
            raise ValueError(f"{part!r} is no choice of k")
        found.append(LoopChoice(where, int(iterations)))
    return tuple(found)


def unmatched(text: str, routines: Iterable[s.ControlFlowGraph]) -> list[str]:
    """Return the choices, as they are spelt, that fit no loop of any routine."""
    left = list(read_choices(text))
    for cfg in routines if left else ():
        dfs = s.depth_first(cfg)
        heads = {cfg.edges[edge].target for edge in dfs.back_edges}
        left = [each for each in left if not any(each.fits(cfg, head) for head in heads)]
    return [f"{each.where}{IS}{each.iterations}" for each in left]


class Asked(Struct, frozen=True):
    """What the user asks of a routine's loops."""

    iterations: int = 2  # k of the loops that `choices` leave open
    choices: tuple[LoopChoice, ...] = ()  # Of several that fit a loop the last one counts
    hot: float = 0.0  # Percent of the routine's instructions; loops that `choices` leave open

    def iterations_of(self, cfg: s.ControlFlowGraph, head: int) -> int:
        """Return k of the loop at this head, if it is hot."""
        found = self._chosen(cfg, head)
        return self.iterations if found is None else found

    def wanted(
        self, cfg: s.ControlFlowGraph, loop: IteratedLoop, cold: frozenset[BackEdges]
    ) -> int:
        """Return k of a loop, 1 if it is one of those that are not hot."""
        return 1 if loop.back_edges in cold else self.iterations_of(cfg, loop.head)

    def _chosen(self, cfg: s.ControlFlowGraph, head: int) -> int | None:
        fitting = [each.iterations for each in self.choices if each.fits(cfg, head)]
        return fitting[-1] if fitting else None

    def cold_loops(
        self, cfg: s.ControlFlowGraph, loops: Sequence[IteratedLoop], weights: Sequence[float]
    ) -> frozenset[BackEdges]:
        """Return the loops that are not hot by the base profile, given by edge."""
        executed = _instructions(cfg, weights) if self.hot else []
        total = sum(executed)
        return frozenset(
            loop.back_edges
            for loop in loops
            if self.hot
            and self._chosen(cfg, loop.head) is None
            # A routine that the base profile never executed has no hot loop.
            and not (total > 0 and 100 * sum(executed[at] for at in loop.body) >= self.hot * total)
        )


def _instructions(cfg: s.ControlFlowGraph, weights: Sequence[float]) -> list[float]:
    """Return the instructions that blocks execute by the weights of the edges into them."""
    executions = (sum(weights[edge] for edge in cfg.in_edges[block.id]) for block in cfg.blocks)
    return [n * block.instructions for n, block in zip(executions, cfg.blocks, strict=True)]


# -- Regions


class PathRegion(Struct, frozen=True):
    """The routine, or a collapsed loop."""

    at: Sequence[int] | Mapping[int, int]  # Block -> its vertex in copy 1: that of a collapsed loop
    blocks: Sequence[int] | Mapping[int, int]  # Such a vertex -> the block: the loop's head
    collapsed: Mapping[int, frozenset[int]]  # Vertex -> the blocks of the loop that it stands for
    edges: Collection[int]  # The region's own edges, ascending; every edge is one region's
    entering: tuple[int, ...]  # Edges into the loop
    leaving: Mapping[int, list[int]]  # Vertex -> edges out of the loop, ascending in both
    loops: tuple[IteratedLoop, ...]  # Iterated ones, by vertex
    loop: IteratedLoop | None = None  # Which loop of the routine it is, by block
    parent: int | None = None  # The region that it is collapsed in, by number
    cuts: tuple[int, ...] = ()  # Edges that are cut (EPP 5.3)
    paths: int = 0  # How many paths it has, once k and the cuts are chosen

    @property
    def is_whole(self) -> bool:
        """Whether it is the routine with nothing collapsed."""
        return isinstance(self.at, range)

    def inside(self, vertices: Iterable[int]) -> frozenset[int]:
        """Return the blocks that vertices in copy 1 stand for."""
        none = frozenset[int]()
        return none.union(*(self.collapsed.get(at, (self.blocks[at],)) for at in vertices))

    def removed(
        self, dfs: s.DepthFirst, loops: Iterable[IteratedLoop], cuts: Iterable[int]
    ) -> list[int]:
        """Return the edges that are removed where these loops are iterated and these cut."""
        back = dfs.back_edges.difference(dfs.self_loops, *(loop.back_edges for loop in loops))
        return sorted({edge for edge in back if edge in self.edges}.union(cuts))

    def full_loops(
        self, cfg: s.ControlFlowGraph, loops: Iterable[IteratedLoop], removed: Iterable[int]
    ) -> frozenset[int]:
        """Return the heads of the loops whose paths from the head make all k iterations."""
        # Only its back edges begin paths at such a head. Where removed edges lead to the head too,
        # paths begin there that may leave the loop in any iteration, and all those are valid.
        entered = {self.at[cfg.ends[1][edge]] for edge in removed}
        return frozenset([loop.head for loop in loops]) - entered

    def ambiguous_loops(
        self, cfg: s.ControlFlowGraph, loops: Iterable[IteratedLoop], removed: Iterable[int]
    ) -> frozenset[int]:
        """Return the heads of loops whose paths do not tell how often each edge was executed."""
        # A path that begins at the head may have been begun by another edge than the loop's, and
        # one that ends at a tail may have been ended by another.
        source, full = cfg.ends[0], self.full_loops(cfg, loops, removed)
        ended = {self.at[source[edge]] for edge in removed}
        return frozenset(
            loop.head
            for loop in loops
            if loop.head not in full and any(self.at[source[e]] in ended for e in loop.back_edges)
        )


def divide(
    cfg: s.ControlFlowGraph, nests: Sequence[NestedLoop], iterations: Mapping[tuple[int, ...], int]
) -> list[PathRegion]:
    """Return the regions, outer ones first; `iterations`: k by the loops' back edges."""
    regions: list[PathRegion] = []
    first = cfg.vertex_count
    work: list[tuple[NestedLoop | None, int | None]] = [(None, None)]
    for nest, parent in work:
        tops = nests if nest is None else (nest,)
        iterated = [each for top in tops for each in _iterated(top, iterations)]
        inner = [each.loop for outer in iterated for each in outer.inner]
        work += [(each, len(regions)) for outer in iterated for each in outer.inner]
        if nest is None and not inner:
            every = range(cfg.vertex_count)
            region = PathRegion(every, every, {}, range(len(cfg.edges)), (), {}, ())
        else:
            region = _region(cfg, None if nest is None else nest.loop, parent, inner, first)
            first += len(region.blocks) if nest else 0
        at = region.at.__getitem__
        loops = tuple(
            IteratedLoop(at(x.head), frozenset(map(at, x.body)), x.back_edges, k)
            for x in (each.loop for each in iterated)
            if (k := iterations[x.back_edges])
        )
        regions.append(replace(region, loops=loops))
    return regions


def _iterated(nest: NestedLoop, iterations: Mapping[tuple[int, ...], int]) -> Iterator[NestedLoop]:
    """Yield the loops of a nest that are iterated in the region that it is in."""
    if nest.is_iterable and iterations[nest.loop.back_edges] > 1:
        yield nest
        return
    for each in nest.inner:
        yield from _iterated(each, iterations)


def _region(
    cfg: s.ControlFlowGraph,
    loop: IteratedLoop | None,
    parent: int | None,
    inner: Sequence[IteratedLoop],  # Those that it collapses
    first: int,  # The first vertex of a collapsed loop
) -> PathRegion:
    hidden = {block for each in inner for block in each.body if block != each.head}
    if loop is None:
        at = {block: block for block in range(cfg.vertex_count) if block not in hidden}
    else:
        at = {block: first + place for place, block in enumerate(sorted(loop.body - hidden))}
    blocks = {vertex: block for block, vertex in at.items()}
    collapsed = {at[each.head]: each.body for each in inner}
    at |= {block: vertex for vertex, body in collapsed.items() for block in body}
    edges: dict[int, None] = {}
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    entering = []
    for edge in cfg.edges:
        source, target = at.get(edge.source), at.get(edge.target)
        if source is None:
            if loop is not None and target == at[loop.head]:
                entering.append(edge.id)
        elif target is None:
            leaving[source].append(edge.id)
        elif source != target or source not in collapsed:
            edges[edge.id] = None
    exits = dict(sorted(leaving.items()))
    return PathRegion(at, blocks, collapsed, edges, tuple(entering), exits, (), loop, parent)


# -- What became of it


class LimitReason(StrEnum):
    """Why the paths of a loop span fewer iterations than were asked for."""

    IRREDUCIBLE = "irreducible"  # It is entered at several blocks, so it has no head to unroll at
    OUTER = "outer"  # Another loop, or part of one, is inside: mixed mode (KITER 5)
    ONE_BLOCK = "one block"  # It has a counter of its own (KITER 3; EPP 4.1)
    NOT_HOT = "not hot"  # By the base profile
    AMBIGUOUS = "ambiguous"  # `PathRegion.ambiguous_loops`
    PATH_LIMIT = "path limit"

    @property
    def is_of_innermost(self) -> bool:
        """Whether a user who asked for k innermost iterations has to know of it."""
        return self in (LimitReason.IRREDUCIBLE, LimitReason.AMBIGUOUS, LimitReason.PATH_LIMIT)


class LimitedLoop(Struct, frozen=True):
    """A loop whose paths span fewer iterations than were asked for."""

    head: int  # Target of its back edges
    known_body: frozenset[int] | None  # None of loops that cannot be iterated
    back_edges: tuple[int, ...]
    # asked, iterations: k that was asked for, and that it got.
    asked: int
    iterations: int
    reason: LimitReason

    def body(self, cfg: s.ControlFlowGraph) -> frozenset[int]:
        """Return its blocks: else those of the cycles that its back edges close."""
        if self.known_body is not None:
            return self.known_body
        sources = [cfg.edges[edge].source for edge in self.back_edges]
        body = s.loop_body(cfg, s.depth_first(cfg), self.head, sources)
        if self.reason is not LimitReason.IRREDUCIBLE:
            return body

        # What leads to the sources without passing the head goes back to ENTRY there, so the blocks
        # of the cycles are those that the head leads to as well.
        def after(vertex: int) -> list[int]:
            return [target for target in cfg.targets(vertex) if target in body]

        return frozenset(s.closure({self.head}, after))

    def describe(self, cfg: s.ControlFlowGraph) -> dict[str, Any]:
        """Return what `simprof explain` says of it."""
        return {
            "head": str(cfg.name_of(self.head)),
            "blocks": [str(cfg.name_of(block)) for block in sorted(self.body(cfg))],
            "back_edges": list(self.back_edges),
            "asked": self.asked,
            "iterations": self.iterations,
            "reason": str(self.reason),
        }


def limited_loops(
    cfg: s.ControlFlowGraph,
    dfs: s.DepthFirst,
    asked: Asked,
    iterable: Sequence[IteratedLoop],  # Those that can be iterated
    cold: frozenset[BackEdges],  # Those of them that are not hot
    got: Mapping[BackEdges, int],  # k where that is not 1
    unlimited: Mapping[BackEdges, int],  # The same without a path limit
) -> Iterator[LimitedLoop]:
    """Yield the loops that got fewer iterations, in topological order of their heads."""
    loops: defaultdict[int, list[IteratedLoop]] = defaultdict(list)
    for loop in iterable:
        loops[loop.head].append(loop)
    proper = s.proper_back_edges(cfg, dfs)
    of_head: defaultdict[int, list[int]] = defaultdict(list)
    for edge in sorted(dfs.back_edges):
        of_head[cfg.edges[edge].target].append(edge)
    for head in (vertex for vertex in dfs.topological if vertex in of_head):
        wanted = asked.iterations_of(cfg, head)
        own = {edge for loop in loops[head] for edge in loop.back_edges}
        for loop in loops[head]:
            name = loop.back_edges
            if (k := got.get(name, 1)) < wanted:
                is_possible = unlimited.get(name, 1) == wanted
                reason = LimitReason.PATH_LIMIT if is_possible else LimitReason.AMBIGUOUS
                reason = LimitReason.NOT_HOT if name in cold else reason
                yield LimitedLoop(head, loop.body, name, wanted, k, reason)
        rest: defaultdict[LimitReason, list[int]] = defaultdict(list)
        for edge in of_head[head] if wanted > 1 else ():
            if edge in dfs.self_loops:
                rest[LimitReason.ONE_BLOCK].append(edge)
            elif edge not in proper:
                rest[LimitReason.IRREDUCIBLE].append(edge)
            elif edge not in own:
                rest[LimitReason.OUTER].append(edge)
        for reason, edges in rest.items():
            yield LimitedLoop(head, None, tuple(edges), wanted, 1, reason)
