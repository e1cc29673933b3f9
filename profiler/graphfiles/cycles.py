"""Increments of chords derived from the values of edges, term by term (EPP 3.3).

A chord closes one cycle with the spanning tree. Its increment is the sum of the values around
this cycle, in the chord's direction: those of edges crossed backwards are subtracted. All is read
from the `static` part of an answer (docs/SEMANTICS.md, graph files), so that a reader can do the
same sums by hand. Loops that `kiter` unrolls have a copy of each block for every iteration
(KITER 3.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

Vertex = tuple[str, int]  # A block's name, and its copy: 1 outside of unrolled loops


class Arc(Struct, frozen=True):
    """An edge of the acyclic graph whose paths are numbered."""

    line: int | None  # Its position among edges and, behind these, dummies; None: EXIT to ENTRY
    source: Vertex
    target: Vertex
    # Of dummies from ENTRY less KITER's compensation, as whatever begins with them is compensated.
    value: int
    increment: int
    in_tree: bool
    is_dummy: bool = False

    @property
    def name(self) -> str:
        """Its ends, with the iteration where it is not the first."""
        iteration = max(self.source[1], self.target[1])
        more = ["dummy"] if self.is_dummy else []
        more += [str(iteration)] if iteration > 1 else []
        ends = f"{self.source[0]} to {self.target[0]}"
        return f"{ends} ({', '.join(more)})" if more else ends


class Cycle(Struct, frozen=True):
    """A chord, and the edges that it makes a cycle with."""

    chord: Arc
    steps: tuple[tuple[Arc, int], ...]  # In order, the chord first; 1 along an edge, -1 against it

    @property
    def total(self) -> int:
        """The sum of values around the cycle."""
        return sum(sign * arc.value for arc, sign in self.steps)


def chord_cycles(static: Mapping[str, Any], ends: Sequence[tuple[str, str]]) -> tuple[Cycle, ...]:
    """Return the cycle of each chord; `ends` are the names of the edges' blocks, by edge.

    There are none where the tree does not span the graph (`kiter:unoptimised`).
    """
    arcs = tuple(_arcs(static, ends))
    neighbours: defaultdict[Vertex, list[tuple[Vertex, Arc, int]]] = defaultdict(list)
    for arc in arcs:
        if arc.in_tree:
            neighbours[arc.source].append((arc.target, arc, 1))
            neighbours[arc.target].append((arc.source, arc, -1))
    if len(neighbours) < len({end for arc in arcs for end in (arc.source, arc.target)}):
        return ()
    return tuple(
        Cycle(arc, ((arc, 1), *_way(neighbours, arc.target, arc.source)))
        for arc in arcs
        if not arc.in_tree
    )


def _arcs(static: Mapping[str, Any], ends: Sequence[tuple[str, str]]) -> Iterator[Arc]:
    loops = static.get("loops", ())
    loop_of = {str(block): loop["head"] for loop in loops for block in loop["blocks"]}
    unrolled = {edge for loop in loops for edge in loop["back_edges"]}
    facts = zip(ends, static["values"], static["increments"], static["tree"], strict=True)
    for number, ((source, target), *by_copy) in enumerate(facts):
        if by_copy[0] is None:  # Removed: paths end there, and dummy edges stand for it.
            continue
        each = [fact if isinstance(fact, list) else [fact] for fact in by_copy]
        for copy, (value, increment, in_tree) in enumerate(zip(*each, strict=True), 1):
            begin, end = (source, copy), (target, 1)
            if number in unrolled:
                end = target, copy + 1
            elif source in loop_of and loop_of[source] == loop_of.get(target):
                end = target, copy
            yield Arc(number, begin, end, value, increment, in_tree)
    for place, edge in enumerate(static.get("dummy_edges", ()), len(ends)):
        source, target, copy = str(edge["from"]), str(edge["to"]), edge.get("iteration", 1)
        begin = source, 1 if source == "ENTRY" else copy
        end = target, 1 if target == "EXIT" else copy
        value = edge["value"] - (edge.get("compensation", 0) if source == "ENTRY" else 0)
        yield Arc(place, begin, end, value, edge["increment"], edge["tree"], True)
    source, target = static["root_edge"]
    increment = static.get("root_increment")  # Where EXIT -> ENTRY is a chord (EPP 3.3)
    yield Arc(None, (source, 1), (target, 1), 0, increment or 0, increment is None)


def _way(
    neighbours: Mapping[Vertex, Sequence[tuple[Vertex, Arc, int]]], begin: Vertex, end: Vertex
) -> list[tuple[Arc, int]]:
    """Return the only way between two vertices in a tree."""
    came: dict[Vertex, tuple[Vertex, Arc, int] | None] = {begin: None}
    work = [begin]
    while work:
        vertex = work.pop()
        for other, arc, sign in neighbours.get(vertex, ()):
            if other not in came:
                came[other] = vertex, arc, sign
                work.append(other)
    steps = []
    while (step := came[end]) is not None:
        end, arc, sign = step
        steps.append((arc, sign))
    return steps[::-1]
