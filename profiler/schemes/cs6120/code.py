"""Edges logged by pairs of calls: `logsrc` in the source, `logdest` in the destination (CS6120).

The run-time library keeps the number that it was given last. `logsrc(k)`
and `logdisrupt(k)` set it; `logdest(m)` counts one execution of the pair (k, m) if there is such
a pair and then forgets k. A pair so counts an edge where its two calls come one directly after
the other whenever the edge is crossed, and never otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import ClassVar, NamedTuple, cast

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Which edges are logged by which pairs


# Counters of logged pairs of all routines; low 10 bits of its address 0.
PAIRS = s.Buffer("pairs", offset=0x4000, has_slots=True)
_BRANCHES = (s.EdgeKind.TAKEN, s.EdgeKind.SLOT, s.EdgeKind.SWITCH)


class LogAction(s.Event, frozen=True):
    """A logging call."""

    symbol: ClassVar[str]  # of the routine that it calls

    number: int

    def __str__(self) -> str:
        return f"{self.symbol}({self.number})"


class LogSource(LogAction, frozen=True):
    """`logsrc(number)`: an edge's source is left, perhaps along a logged edge."""

    symbol = "logsrc"


class LogDestination(LogAction, frozen=True):
    """`logdest(number)`: a destination is entered, perhaps along a logged edge."""

    symbol = "logdest"


class LogDisrupt(LogAction, frozen=True):
    """`logdisrupt(number)`: another way was taken than the logged edge."""

    symbol = "logdisrupt"


class LoggedEdge(NamedTuple):
    """A logged edge: its pair of numbers, and which of the two calls are on the edge itself."""

    edge: int
    source: int
    destination: int
    source_on_edge: bool
    destination_on_edge: bool


class LoggedPlan(s.Plan, frozen=True):
    """A plan with logged edges."""

    logged: tuple[LoggedEdge, ...]  # Event k of the plan is the count of the pair of the k-th.


def logged_edges(cfg: s.ControlFlowGraph, edges: Sequence[int]) -> tuple[LoggedEdge, ...]:
    """Number the sources and destinations of `edges`, and say where their calls are."""
    # A block has one number as a source and one as a destination, and at most one call of each
    # kind, at its end and at its top. On the edge itself are
    #
    # - the source's call where other calls could come between, or nothing stands before the edge:
    #   edges from ENTRY, from slot blocks and from blocks that call (the callee logs too); and
    #   edges that are their source's only one, which is the same place, and behind a system call
    #   (whose signal handlers log) the right one;
    # - the destination's call of edges to EXIT and to slot blocks;
    # - both, with numbers of their own, where an edge has the same ends as another.
    source, target = cfg.ends
    twins = {ends for ends, n in Counter(zip(source, target, strict=True)).items() if n > 1}
    slots = {block.id for block in cfg.blocks if block.is_slot}
    ending, bare = _with_own_calls(cfg) - slots, slots | {cfg.exit}
    sources: dict[int, int] = {}
    rows: dict[int, list[int]] = {}
    numbers = []
    # A vertex has as many keys as there are edges, and one more: for those without a twin.
    keys = len(source) + 1
    for edge in edges:
        begin, end = source[edge], target[edge]
        own = bool(twins) and (begin, end) in twins
        key = edge + 1 if own else 0
        number = sources.setdefault(begin * keys + key, len(sources))
        row = end * keys + key
        rows.setdefault(row, []).append(number)
        numbers.append((edge, number, row, own or begin not in ending, own or end in bare))
    destinations = _pack(rows)
    return tuple([LoggedEdge(e, n, destinations[row], a, b) for e, n, row, a, b in numbers])


def _with_own_calls(cfg: s.ControlFlowGraph) -> set[int]:
    """Return the blocks with several edges, branches among them, that do not call."""
    branching = {source for _, source, _, kind in cfg.edges if kind in _BRANCHES}
    calling = {source for _, source, _, kind in cfg.edges if kind is s.EdgeKind.CALL_RETURN}
    single = {source for source, edges in Counter(cfg.ends[0]).items() if edges == 1}
    return branching - calling - single - {cfg.entry}


def _pack(rows: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Give each row a number of its own such that all `number + column` differ; first fit."""
    # The library finds the counter of (k, m) in slot k + m of one table, whose owner must be m.
    # Slots of pairs must differ, so destinations are numbered as rows of a sparse matrix are
    # packed: each takes the first number that is free and whose slots are free.
    numbers: dict[int, int] = {}
    used = taken = 0  # sets of numbers, and of slots, as bits
    for row in sorted(sorted(rows), key=lambda row: -len(rows[row])):
        barred = used
        for column in rows[row]:
            barred |= taken >> column
        number = (~barred & barred + 1).bit_length() - 1  # the lowest bit that is not set
        used |= 1 << number
        for column in rows[row]:
            taken |= 1 << number + column
        numbers[row] = number
    return numbers


def log_actions(plan: s.InstrumentationPlan) -> tuple[LogAction, ...]:
    """Return the logging calls of a plan, wherever they are."""
    groups = chain(plan.actions.values(), plan.blocks.values(), plan.block_ends.values())
    actions = chain.from_iterable(groups)
    return tuple(action for action in actions if isinstance(action, LogAction))


# -- The run-time library, and the code of calls
#
# Code of the actions of logging plans: one call each, its argument in the delay slot.
#
# The run-time library of `calls`, `logsrc`, `logdest` and `logdisrupt` (CS6120), is written in
# SPARC.


R = s.Register

# Calling convention: %o0 = the number times 1024, which one `sethi` in the call's delay slot makes.
# Only %o0, %o1 and %o7 change (`logdest`: %o0 and %o7). No condition codes change on any machine:
# `logdest` has no branch, so it costs the same whether it counts a pair or not.
#
# Memory (`PAIR_TABLE`; words of 32 bits; slots are 8 bytes):
#
# ======  ======  =================================================================
# slot    offset  contents
# ======  ======  =================================================================
# 0       0       the number logged last, times 1024; 0 if none is
# k + m   0       *owner*: m times 1024, where (k, m) is a pair
# k + m   4       how often the pair was counted
# ======  ======  =================================================================
#
# Numbers start at 1. `logsrc(k)` and `logdisrupt(k)` set slot 0, the latter to a number that no
# pair has. `logdest(m)` clears it and increments the counter of slot k + m if m owns that slot.
# Slots without a pair, owner 0, belong to nobody; `_pack` sees to it that slots of pairs differ.
PAIR_TABLE = s.buffer_address(PAIRS)
LAST = PAIR_TABLE
OWNER, COUNT = 0, 4
_NUMBER_SHIFT, _SLOT_SHIFT = 10, 3
_NUMBER, _SLOT, _WORD, _OLD, _NEW = R.I0, R.L0, R.L1, R.L2, R.L3


def argument(number: int) -> int:
    """Return what a routine gets for `number`."""
    return number << _NUMBER_SHIFT


@cache
def logging_routines(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the three routines, to be assembled; their first labels are their symbols."""
    return (*_setter(LogSource.symbol), *_setter(LogDisrupt.symbol), *_destination(machine))


def _setter(name: str) -> list[s.Item]:
    store = asm.store("st", R.O0, R.O1, LAST & 0x3FF)
    return [s.Label(name), asm.sethi(LAST, R.O1), asm.retl(), store]


def _destination(machine: s.MachineKind) -> list[s.Item]:
    return [
        s.Label(LogDestination.symbol),
        s.save_smallest_frame(machine),
        asm.sethi(PAIR_TABLE, _SLOT),
        asm.load("ld", _SLOT, 0, _WORD),
        asm.store("st", R.G0, _SLOT, 0),
        asm.arithmetic("add", _WORD, _NUMBER, _WORD),
        asm.shift("srl", _WORD, _NUMBER_SHIFT - _SLOT_SHIFT, _WORD),
        asm.arithmetic("add", _SLOT, _WORD, _SLOT),
        asm.load("ld", _SLOT, OWNER, _WORD),
        asm.load("ld", _SLOT, COUNT, _OLD),
        asm.arithmetic("xor", _WORD, _NUMBER, _WORD),
        *_count_if_zero(machine),
        asm.store("st", _OLD, _SLOT, COUNT),
        asm.ret(),
        asm.restore(),
    ]


def _count_if_zero(machine: s.MachineKind) -> list[s.Instruction]:
    """Increment the old count if the word is 0."""
    # V8 has no conditional move: there, bit 31 of (word - 1) & ~word is set for 0 alone.
    if machine is s.MachineKind.SPARCV8:
        return [
            asm.arithmetic("sub", _WORD, 1, _NEW),
            asm.arithmetic("andn", _NEW, _WORD, _NEW),
            asm.shift("srl", _NEW, 31, _NEW),
            asm.arithmetic("add", _OLD, _NEW, _OLD),
        ]
    return [
        *s.clear_upper_half(machine, _WORD),  # `movrz` looks at all 64 bits
        asm.arithmetic("add", _OLD, 1, _NEW),
        asm.move_register("z", _WORD, _NEW, _OLD),
    ]


@cache
def logging_cost(machine: s.MachineKind, symbol: str) -> int:
    """Count the instructions that a routine executes, its return included."""
    return s.executed(logging_routines(machine), (), symbol)


def pair_slot(pair: LoggedEdge, layout: s.CounterLayout) -> s.BufferSlot:
    """Return the slot of a routine's pair."""
    first_source, first_destination = layout.first
    destination = first_destination + pair.destination
    number = first_source + pair.source + destination
    return s.BufferSlot(PAIR_TABLE + s.SLOT_SIZE * number, argument(destination))


def _call(writer: s.Writer, action: LogAction) -> None:
    series = 1 if isinstance(action, LogDestination) else 0
    number = writer.layout.first[series] + action.number
    writer.emit(asm.sethi(argument(number), R.O0))
    writer.call(action.symbol, logging_cost(writer.machine, action.symbol))


_SETTER = s.Needs(clobbers=s.HASH_REGISTERS)

GENERATORS: s.Generators = {
    LogSource: s.Generator(_call, _SETTER, shapes.same),
    LogDisrupt: s.Generator(_call, _SETTER, shapes.same),
    LogDestination: s.Generator(_call, s.Needs(clobbers=(R.O0, R.O7)), shapes.same),
}


def _slots(plan: s.Plan, layout: s.CounterLayout) -> tuple[s.BufferSlot, ...]:
    return tuple(pair_slot(pair, layout) for pair in cast(LoggedPlan, plan).logged)


CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(logging_routines,),
    slots=_slots,
)
