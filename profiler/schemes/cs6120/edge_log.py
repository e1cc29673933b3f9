"""Edges logged by pairs of calls: `logsrc` in the source, `logdest` in the destination (CS6120).

The run-time library (`code`) keeps the number that it was given last. `logsrc(k)`
and `logdisrupt(k)` set it; `logdest(m)` counts one execution of the pair (k, m) if there is such
a pair and then forgets k. A pair so counts an edge where its two calls come one directly after
the other whenever the edge is crossed, and never otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import ClassVar, NamedTuple

from simprof import schemes as s

# Counters of logged pairs of all routines (`code`); low 10 bits of its address 0.
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
