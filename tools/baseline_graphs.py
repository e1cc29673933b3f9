"""The graphs of the baselines: graph files (docs/SEMANTICS.md), each made from its number.

They use nothing of simprof, and of `random` only `random()`, which gives the same sequence for a
seed in every Python. Eight families take turns: nested regions, sparse and dense multigraphs,
loops that share heads, irreducible loops, ladders of choices in a loop, and very small graphs.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

COUNT = 320

Pair = tuple[int, int]
Item = TypeVar("Item")


class Dice:
    """Random choices that no Python makes otherwise."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return int(self._random.random() * limit)

    def between(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`."""
        return least + self.below(most - least + 1)

    def one(self, items: Sequence[Item]) -> Item:
        """Return an item."""
        return items[self.below(len(items))]

    def happens(self, percent: int) -> bool:
        """Return true in so many of 100 cases."""
        return self.below(100) < percent

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]


class Shape:
    """Blocks and edges as they are added; block 0 is the entry, the last one the exit."""

    def __init__(self, dice: Dice, blocks: int = 0) -> None:
        self.dice = dice
        self.blocks = blocks
        self.edges: list[Pair] = []

    def block(self) -> int:
        """Add a block."""
        self.blocks += 1
        return self.blocks - 1

    def join(self, *blocks: int) -> None:
        """Add edges from each block to the next."""
        self.edges += pairwise(blocks)

    def anywhere(self) -> int:
        """Return some block."""
        return self.dice.below(self.blocks)


def regions(dice: Dice) -> Shape:
    """Return nested sequences, choices, switches and loops, with some jumps between them."""
    shape = Shape(dice)
    first, last = shape.block(), _region(shape, 3)
    shape.join(first, last[0])
    exit_block = shape.block()
    shape.join(last[1], exit_block)
    for _ in range(dice.one((0, 0, 1, 2))):
        shape.join(shape.anywhere(), dice.one((exit_block, shape.anywhere())))
    return shape


def _region(shape: Shape, depth: int) -> Pair:
    dice = shape.dice
    kind = dice.one(("sequence", "choice", "choice", "loop", "loop")) if depth else "block"
    if kind == "sequence":
        first, second = _region(shape, depth - 1), _region(shape, depth - 1)
        shape.join(first[1], second[0])
        return first[0], second[1]
    if kind == "choice":
        head, tail = shape.block(), shape.block()
        for _ in range(dice.one((1, 2, 2, 4))):
            inner = _region(shape, depth - 1)
            shape.join(head, inner[0])
            shape.join(inner[1], tail)
        if dice.happens(50):
            shape.join(head, tail)
        return head, tail
    if kind == "loop":
        head, inner, tail = shape.block(), _region(shape, depth - 1), shape.block()
        shape.join(head, inner[0])
        shape.join(inner[1], dice.one((head, head, inner[0])))
        shape.join(dice.one((head, inner[1])), tail)
        shape.join(inner[1], tail)
        return head, tail
    only = shape.block()
    if dice.happens(15):
        shape.join(only, only)
    return only, only


def sparse(dice: Dice) -> Shape:
    """Return any multigraph of few edges: dead ends, unreachable blocks, self-loops."""
    return _scattered(dice, dice.between(3, 14), (70, 110))


def dense(dice: Dice) -> Shape:
    """Return any multigraph of many edges."""
    return _scattered(dice, dice.between(3, 9), (150, 220))


def tiny(dice: Dice) -> Shape:
    """Return a graph of at most three blocks, many of its edges parallel or self-loops."""
    return _scattered(dice, dice.between(1, 3), (50, 150, 300))


def _scattered(dice: Dice, blocks: int, densities: Sequence[int]) -> Shape:
    shape = Shape(dice, blocks)
    for _ in range(blocks * dice.one(densities) // 100):
        shape.join(shape.anywhere(), shape.anywhere())
    if dice.happens(75):
        shape.join(*range(blocks))
    if shape.edges and dice.happens(40):
        shape.edges.append(dice.one(shape.edges))
    shape.edges = dice.shuffled(shape.edges)
    return shape


def shared_heads(dice: Dice) -> Shape:
    """Return loops with several back edges to one head, and loops in loops with its head."""
    shape = Shape(dice, 1)
    here = 0
    for _ in range(dice.between(1, 3)):
        head = shape.block()
        shape.join(here, head)
        here = head
        for _ in range(dice.between(2, 4)):
            following = shape.block()
            shape.join(here, following)
            shape.join(following, head)
            if dice.happens(30):
                shape.join(head, following)
            here = following
    shape.join(here, shape.block())
    return shape


def irreducible(dice: Dice) -> Shape:
    """Return loops that are entered at two blocks, some within another loop."""
    shape = Shape(dice, 1)
    here, first = 0, 1
    for _ in range(dice.between(1, 3)):
        one, two, after = shape.block(), shape.block(), shape.block()
        shape.join(here, one, two, one)
        shape.join(here, two)
        shape.join(dice.one((one, two)), after)
        here = after
        if dice.happens(40):
            shape.join(here, first)
    shape.join(here, shape.block())
    return shape


def ladder(dice: Dice) -> Shape:
    """Return choices one after the other, mostly within a loop: many paths."""
    shape = Shape(dice, 1)
    here = 0
    for _ in range(dice.between(2, 16)):
        following = shape.block()
        for _ in range(dice.one((1, 2, 2, 3))):
            side = shape.block()
            shape.join(here, side, following)
        if dice.happens(60):
            shape.join(*(here, following) * dice.one((1, 1, 2)))
        here = following
    if dice.happens(75):
        shape.join(here, 0)
    shape.join(here, shape.block())
    return shape


FAMILIES: Sequence[Callable[[Dice], Shape]] = (
    regions,
    sparse,
    ladder,
    shared_heads,
    irreducible,
    dense,
    regions,
    tiny,
)


def graph_file(number: int) -> dict[str, Any]:
    """Return the graph file of a number: always the same."""
    dice = Dice(number)
    family = FAMILIES[number % len(FAMILIES)]
    shape = family(dice)
    runs = _runs(shape)
    edges: list[list[Any]] = [[f"b{source}", f"b{target}"] for source, target in shape.edges]
    if not runs or dice.happens(35):
        for edge in edges:
            if not runs or dice.happens(90):
                edge.append(float(dice.below(50)))
    sizes = {f"b{block}": dice.between(1, 9) for block in range(shape.blocks)}
    return {
        "name": f"{family.__name__} {number:03}",
        "entry": "b0",
        "exit": f"b{shape.blocks - 1}",
        "blocks": sizes,
        "edges": edges,
        "runs": runs,
    }


def _runs(shape: Shape) -> list[list[Any]]:
    """Return some activations; none where the exit cannot be reached."""
    dice, distance = shape.dice, _distances(shape)
    if 0 not in distance:
        return []
    runs: list[list[Any]] = []
    for _ in range(dice.between(1, 10)):
        walk = _walk(shape, distance, dice.one((2, 10, 60)))
        often = dice.one((1, dice.between(2, 9), dice.between(10, 5000)))
        runs.append([{"edges": walk} if walk else "b0", often])
    return runs


def _distances(shape: Shape) -> dict[int, int]:
    """Return block -> edges of a shortest way to the exit, of those that have one."""
    found = {shape.blocks - 1: 0}
    waiting = deque(found)
    while waiting:
        block = waiting.popleft()
        for source, target in shape.edges:
            if target == block and source not in found:
                found[source] = found[block] + 1
                waiting.append(source)
    return found


def _walk(shape: Shape, distance: dict[int, int], steps: int) -> list[int]:
    """Return the edges of a walk from the entry to the exit, which it hurries to after `steps`."""
    here, walk = 0, list[int]()
    while True:
        ways = [
            number
            for number, (source, target) in enumerate(shape.edges)
            if source == here and target in distance
        ]
        late = len(walk) >= steps
        if not distance[here] and (late or not ways or shape.dice.happens(50)):
            return walk
        if late:
            ways = [way for way in ways if distance[shape.edges[way][1]] < distance[here]]
        walk.append(shape.dice.one(ways))
        here = shape.edges[walk[-1]][1]
