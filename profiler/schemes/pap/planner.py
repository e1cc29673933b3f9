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

from collections.abc import Hashable, Sequence
from functools import cache, cached_property
from typing import Any

from simprof import schemes as s
from simprof.profiler.schemes.tracing.code import (
    POSITION,
    STREAM,
    TRACE,
    TRACE_END,
    byte_flush_routine,
    flush_name,
    run_cost,
    set_symbol,
)
from simprof.schemes import asm, shapes

# -- Actions

# What a number begins with. At ENTRY, and where the last one was just written: both are less than
# any number with a digit has.
ENTERED, WRITTEN = 2, 3


class AddDigit(s.Action, frozen=True):
    """`r = r * radix + digit`: a block is entered; r is written before if it would be too large."""

    radix: int
    digit: int
    place: int  # What stands for the block that control comes from, in what is written
    size: int  # What r has to stay below

    @property
    def too_large(self) -> int:
        """The least r that has no room for another digit."""
        return self.size // self.radix

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        number = execution.registers[0]
        if number >= self.too_large:
            execution.count(self.place + number)
            execution.take()
            number = WRITTEN
        execution.registers[0] = number * self.radix + self.digit

    def __str__(self) -> str:
        digit = f"+{self.digit}" if self.digit else ""
        return f"r=r*{self.radix}{digit}"


class WriteWalk(s.Action, frozen=True):
    """`trace walk`: an activation ends, and what its number is by then is written."""

    place: int

    def execute(self, execution: s.Execution) -> None:
        """See `Action`."""
        execution.count(self.place + execution.registers[0])

    def __str__(self) -> str:
        return f"trace walk[{s.register_sum(self.place)}]"


# -- Code
#
# A digit: `sub`, two or three instructions that test whether there is room for it, and shifts and
# adds that multiply: one of each for radix 3, one `sll` for a power of two and an `add` where the
# digit is not 0. Where there is no room, `sethi; or; add; call; mov` besides, and the routine that
# appends a word to the trace, which empties the buffer where it is full (`tracing.code`). At EXIT,
# `sethi; or; add; call`.

R = s.Register

APPEND = "trace_word"  # Symbol of the routine that appends the word in %o0 to the trace
_END, _AT = R.L0, R.L1
_TEST, _PATH, _SUM, _PART = 1, 2, 3, 4  # Temporaries behind %o0


@cache
def append_routine(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the routine, to be assembled. Only %o0 and %o7 change, on V8 also icc."""
    done = f"{APPEND}.done"
    test: tuple[s.Item, ...] = (asm.branch_register("lz", _AT, done),)
    if machine is s.MachineKind.SPARCV8:
        test = asm.cmp(_AT, 0), asm.branch("neg", done)
    return (
        s.Label(APPEND),
        s.save_smallest_frame(machine),
        asm.sethi(TRACE_END, _END),
        asm.load("ld" if machine is s.MachineKind.SPARCV8 else "ldsw", _END, POSITION, _AT),
        asm.store("st", R.I0, _END, _AT),
        asm.arithmetic("add", _AT, s.SYMBOL_BITS // 8, _AT),
        asm.store("st", _AT, _END, POSITION),
        *test,
        asm.nop(),
        asm.call(flush_name(packed=False)),
        asm.nop(),
        s.Label(done),
        asm.ret(),
        asm.restore(),
    )


@cache
def append_cost(machine: s.MachineKind) -> int:
    """Count the instructions that it executes where the buffer is not full."""
    return s.executed(append_routine(machine), (True,))


def _needs(action: s.Action, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(path=True, clobbers=(R.O0, R.O7), conditions=machine is s.MachineKind.SPARCV8)


def _append(writer: s.Writer, place: int, number: s.Register) -> None:
    set_symbol(writer, place, R.O0)
    writer.emit(asm.arithmetic("add", R.O0, number, R.O0))
    writer.call(APPEND, append_cost(writer.machine))


def write_walk(writer: s.Writer, action: WriteWalk) -> None:
    """Append the number of the activation, which ends."""
    _append(writer, action.place, writer.fetch(0, _PATH))


def add_digit(writer: s.Writer, action: AddDigit) -> None:
    """Append the number where it has no room, then multiply and add."""
    number = writer.fetch(0, _PATH)
    test = writer.temporary(_TEST)

    def write() -> None:
        _append(writer, action.place, number)
        writer.emit(asm.mov(WRITTEN, number))

    writer.sum(number, -action.too_large, test, _SUM)
    writer.conditional("gez", test, write, spare=_TEST)
    bits = [bit for bit in range(action.radix.bit_length()) if action.radix >> bit & 1]
    if len(bits) == 1:
        writer.emit(asm.shift("sll", number, bits[0], number))
    else:
        total, part = writer.temporary(_SUM), writer.temporary(_PART)
        writer.emit(asm.shift("sll", number, bits[-1], total))
        for bit in bits[-2::-1]:
            added = number
            if bit:
                writer.emit(asm.shift("sll", number, bit, part))
                added = part
            writer.emit(asm.arithmetic("add", total, added, total if bit != bits[0] else number))
    writer.sum(number, action.digit, number, _SUM)
    writer.store_path(number)


def _digit_shape(action: AddDigit, access: s.CounterAccess) -> Hashable:
    limits = (shapes.constant(each, access) for each in (-action.too_large, action.digit))
    return action.radix, tuple(limits)


GENERATORS: s.Generators = {
    AddDigit: s.Generator(add_digit, _needs, _digit_shape),
    WriteWalk: s.Generator(write_walk, _needs, shapes.same),
}

CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(byte_flush_routine, append_routine),
    run_cost=run_cost,
    stream=STREAM,
)


# -- Plan


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
