"""Choice of k for each loop, and reasons for fewer iterations than asked for (KITER 5, 8).

Terms
-----
base profile
    What says which loops are hot (KITER 8): the edge weights, which are counts where `--weights`
    names a saved profile, else estimates.
hot loop
    One whose blocks execute at least a given share of the routine's instructions in that profile.
limited loop
    One whose paths span fewer iterations than were asked for, with the reason (`LimitReason`).

Steps: `read_choices` reads `k-of`; `Asked` says what is asked of each loop; `numbering.fit` chooses
within the path limit; `limited_loops` says what became of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from msgspec import Struct

from simprof import schemes as s
from simprof.profiler.schemes.kiter.unrolled import IteratedLoop

GIVEN_UP = "given_up_routines"  # Name of what is lost where a routine has too many paths

BETWEEN, AT, IS = "+", "@", "="


BackEdges = tuple[int, ...]  # Names a loop: its head may be that of several


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


# -- What became of it


class LimitReason(StrEnum):
    """Why the paths of a loop span fewer iterations than were asked for."""

    IRREDUCIBLE = "irreducible"  # It is entered at several blocks, so it has no head to unroll at
    OUTER = "outer"  # Another loop, or part of one, is inside: mixed mode (KITER 5)
    ONE_BLOCK = "one block"  # It has a counter of its own (KITER 3; EPP 4.1)
    NOT_HOT = "not hot"  # By the base profile
    AMBIGUOUS = "ambiguous"  # `unrolled.ambiguous_loops`
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
