"""`pap`: profiling all paths (after Li, Wang and Leung 2012), as a trace.

An activation has one number, r. Control that enters a block by the i-th of d > 1 ways makes it
r * d + i. Before r would be too large it is written, with the place where control is, and begins
anew; at EXIT, too. So a *walk*, the edges between two such places, is one symbol of the trace.
*Backwalk*: from the place, the way into a block is r mod d, and r div d is what it was before; a
block with one way in needs no digit. Where r is what it began with, the walk is whole.

The paper's text was not at hand, only an account of it. Derived here: r begins with 2 at ENTRY and
with 3 behind a number that was written, less than any number with a digit, so that a symbol can be
read without those before it. A symbol is one word; so r has few bits (`bits`), and is written more
often than a register of 32 bits needs to be, in half the bytes each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from simprof import schemes as s
from simprof.profiler.schemes.pap.actions import ENTERED, WRITTEN, AddDigit, WriteWalk
from simprof.profiler.schemes.tracing.actions import TRACE


class WalkPlan(s.Plan, frozen=True, dict=True):
    """The digits of one routine, and the way back from numbers to walks."""

    bits: int  # Of a number
    ways: tuple[tuple[int, ...], ...]  # By block: the edges into it that can be executed

    @cached_property
    def exits(self) -> tuple[int, ...]:
        """The edges to EXIT, whose places are behind those of the blocks."""
        return tuple(self.cfg.in_edges[self.cfg.exit])

    def encode(self, walk: Sequence[int]) -> list[int]:
        """Return the symbols that an activation writes which crosses these edges."""
        found: list[int] = []
        number = 0
        for edge in walk:
            _, source, target, _ = self.cfg.edges[edge]
            if source == self.cfg.entry:
                number = ENTERED
            if target == self.cfg.exit:
                found.append(self._exit_place(edge) + number)
                continue
            ways = self.ways[target]
            if len(ways) < 2:
                continue
            if number >= (1 << self.bits) // len(ways):
                found.append((source << self.bits) + number)
                number = WRITTEN
            number = number * len(ways) + ways.index(edge)
        return found

    def walk(self, symbol: int) -> tuple[int, ...]:
        """Return the edges of a walk; ValueError if it is none."""
        place, number = symbol >> self.bits, symbol & (1 << self.bits) - 1
        if place < len(self.cfg.blocks):
            return self.walk_to(place, number)
        if place - len(self.cfg.blocks) >= len(self.exits):
            raise ValueError(f"{self.cfg.name} has no place {place}")
        last = self.exits[place - len(self.cfg.blocks)]
        return (*self.walk_to(self.cfg.edges[last].source, number), last)

    def walk_to(self, block: int, number: int) -> tuple[int, ...]:
        """Return the edges that lead to a block while the number becomes `number`."""
        walk: list[int] = []
        vertex = block
        # Blocks with one way in, between two digits, are fewer than all.
        alone = 0
        while not (number == WRITTEN and walk) and vertex != self.cfg.entry:
            ways = self.ways[vertex]
            if not ways or alone > len(self.cfg.blocks):
                raise ValueError(f"{self.cfg.name}: no way leads to block {vertex}")
            edge, alone = ways[0], alone + 1
            if len(ways) > 1:
                if number <= WRITTEN:
                    break
                number, digit = divmod(number, len(ways))
                edge, alone = ways[digit], 0
            walk.append(edge)
            vertex = self.cfg.edges[edge].source
        if not walk or number != (ENTERED if vertex == self.cfg.entry else WRITTEN):
            raise ValueError(f"{self.cfg.name}: {number} is left of the number of a walk")
        return tuple(reversed(walk))

    def read(self, counters: s.RoutineCounters) -> s.Reading:
        """Count the edges of all walks, those of activations that ended early among them."""
        counts = [0] * len(self.cfg.edges)
        for symbol, times in counters.paths.items():
            for edge in self.walk(symbol):
                counts[edge] += times
        unfinished = 0
        for end in counters.unfinished:
            unfinished += end.count
            for edge in self.walk_to(end.block, end.registers[0]):
                counts[edge] += end.count
        # A trace lacks the numbers of activations that were there at the program's end.
        known = unfinished == sum(counters.early.values())
        return s.Reading(edges=tuple(counts) if known else None)

    def describe(self) -> dict[str, Any]:
        """Return `static` of `simprof explain`: radix and digit of each edge; null: none."""
        radix: list[int | None] = [None] * len(self.cfg.edges)
        digit: list[int | None] = [None] * len(self.cfg.edges)
        for ways in self.ways:
            for place, edge in enumerate(ways):
                if len(ways) > 1:
                    radix[edge], digit[edge] = len(ways), place
        return {"radix": radix, "digit": digit, "walk_bits": self.bits}

    def validate(self) -> None:
        """Check that ways are told apart and numbers have room; AssertionError if not."""
        live = s.live_edges(self.cfg, s.depth_first(self.cfg))
        for block, ways in enumerate(self.ways):
            assert set(ways) == live.intersection(self.cfg.in_edges[block]), (
                f"ways into block {block} are missing, or dead ones among them"
            )
            assert WRITTEN * len(ways) + len(ways) <= 1 << self.bits, "no room for a digit"
        assert self.plan.numbers == ((len(self.cfg.blocks) + len(self.exits)) << self.bits,)

    def _exit_place(self, edge: int) -> int:
        return (len(self.cfg.blocks) + self.exits.index(edge)) << self.bits


def plan_pap(
    cfg: s.ControlFlowGraph, *, bits: int, weights: Sequence[float] | None = None
) -> WalkPlan:
    """Plan numbers of `bits` bits, or of more where a block needs them; `weights` only lay out the
    code.
    """
    live = s.live_edges(cfg, s.depth_first(cfg))
    ways = tuple(tuple(e for e in cfg.in_edges[block.id] if e in live) for block in cfg.blocks)
    most = max(map(len, ways), default=1)
    bits = max(bits, ((WRITTEN + 1) * most - 1).bit_length())
    exits = tuple(cfg.in_edges[cfg.exit])
    actions: dict[int, tuple[s.Action, ...]] = {}
    for into in ways:
        for digit, edge in enumerate(into):
            source, radix = cfg.edges[edge].source, len(into)
            if source == cfg.entry:
                actions[edge] = (s.SetRegister(ENTERED * radix + digit if radix > 1 else ENTERED),)
            elif radix > 1:
                actions[edge] = (AddDigit(radix, digit, source << bits, 1 << bits),)
    for place, edge in enumerate(exits, len(cfg.blocks)):
        if edge in live:
            actions[edge] = (WriteWalk(place << bits),)
    numbers = (len(cfg.blocks) + len(exits)) << bits
    plan = s.InstrumentationPlan(
        actions=dict(sorted(actions.items())),
        uses_register=True,
        table=s.CounterTable.STREAM,
        buffers=(s.BufferUse(TRACE, (), (numbers,)),),
    )
    return WalkPlan(cfg, plan, s.given_weights(cfg, weights), bits, ways)
