"""Instrumentation plans: what a scheme wants done on which edge.

An action has three readings: `execute` does to an activation's registers and
counters what its code does, `codegen` prices it as SPARC instructions, the reports show it:
`str(action)` is in the papers' notation.

Actions are executed once for each path segment that a program executes in each register state,
and the kernel counts how often that is (see `segments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

COLD_COUNTER = -1
"""Number of the counter below a routine's array that counts cold paths (TPP A.1)."""

POISON = -(1 << 30)
"""What a poisoned path register holds: its two high bits are set (TPP A.2)."""


class PathIncrement(NamedTuple):
    """One increment of path counter `counter`; `on_back_edge` as in `CountPath`."""

    counter: int
    on_back_edge: bool


@dataclass
class Execution:
    """What the actions of one activation read and write.

    Attributes
    ----------
    registers
        Its path registers.
    last
        The path counter that it incremented last, None where it has not yet.
    edge
        The edge whose actions are being executed.
    counted
        Increments of path counters, in order.
    taken
        Edges whose conditional code was executed, in order (see `take`).
    """

    registers: list[int]
    last: int | None = None
    edge: int = -1
    counted: list[PathIncrement] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def count(self, counter: int, on_back_edge: bool = False) -> None:
        """Increment path counter `counter`."""
        self.counted.append(PathIncrement(counter, on_back_edge))
        self.last = counter

    def take(self) -> None:
        """Note that this edge's conditional code is executed: it costs more then."""
        self.taken.append(self.edge)


class Action(Protocol):
    """What instrumentation does at one place. Actions are frozen: they are compared and hashed."""

    def execute(self, execution: Execution) -> None:
        """Do to an activation what the action's code does."""
        ...


@dataclass(frozen=True)
class SetRegister:
    """`r = constant`: start a path (EPP 3.4)."""

    constant: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] = self.constant

    def __str__(self) -> str:
        return f"r={self.constant}"


@dataclass(frozen=True)
class AddRegister:
    """`r += constant` (EPP 3.4)."""

    constant: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] += self.constant

    def __str__(self) -> str:
        return f"r+={self.constant}" if self.constant >= 0 else f"r-={-self.constant}"


@dataclass(frozen=True)
class CountPath:
    """`count[r + constant]++`: a path ends (EPP 3.4).

    `on_back_edge` selects the hashing routine that remembers the last path (EPP 5.3).
    """

    constant: int
    on_back_edge: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.count(execution.registers[0] + self.constant, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{_shifted(self.constant)}]++"


@dataclass(frozen=True)
class CountConstantPath:
    """`count[constant]++`: a path known without the register ends (EPP figure 8)."""

    constant: int
    on_back_edge: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.count(self.constant, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{self.constant}]++"


@dataclass(frozen=True)
class CountEdge:
    """`edge[counter]++`: an event counter of its own, of an edge or a block.

    (QPT2's chords; EPP 4.1's self-loops; BL94's vertex counters.) Its value follows from the
    edge counts: see `InstrumentationPlan.event_counts`.
    """

    counter: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""

    def __str__(self) -> str:
        return f"edge[{self.counter}]++"


@dataclass(frozen=True)
class Poison:
    """`poison r`: the path is cold from here on (TPP 4.1, A.2)."""

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] = POISON

    def __str__(self) -> str:
        return "poison r"


@dataclass(frozen=True)
class CountHotPath:
    """`count[r + constant]++` if r is not poisoned, else `cold++` (TPP 4.1, A.1).

    `hashed`: the counters are in a hash table, and calling its routine is conditional code.
    """

    constant: int
    on_back_edge: bool = False
    hashed: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        counter = execution.registers[0] + self.constant
        if counter < 0:
            execution.count(COLD_COUNTER)
            return
        if self.hashed:
            execution.take()
        execution.count(counter, self.on_back_edge)

    def __str__(self) -> str:
        return f"if r<0 cold++ else count[{_shifted(self.constant)}]++"


@dataclass(frozen=True)
class CountColdPath:
    """`cold++`: a path that is cold in any case ends (TPP 4.1.2)."""

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.count(COLD_COUNTER)

    def __str__(self) -> str:
        return "cold++"


@dataclass(frozen=True)
class ShiftBits:
    """`r = r << width | bits`: a branch's outcome is recorded (EPP section 2)."""

    bits: int
    width: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] = execution.registers[0] << self.width | self.bits

    def __str__(self) -> str:
        return f"r=r<<{self.width}|{self.bits}"


@dataclass(frozen=True)
class WriteTrace:
    """`trace value`: the `width` bits of `value` are appended to the trace (BL94 4, 6.2).

    `packed`: the trace is one of bits; else of whole bytes, and `width` a multiple of 8.
    """

    value: int
    width: int
    packed: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`. The trace is no part of an activation."""

    def __str__(self) -> str:
        return f"trace {self.value}:{self.width}"


def _shifted(constant: int) -> str:
    return f"r{constant:+d}" if constant else "r"


class Table(StrEnum):
    """How a routine's path counters are kept (EPP 5.2, 5.3)."""

    ARRAY = "array"
    HASH = "hash"
    NONE = "none"


class Addressing(StrEnum):
    """What the path register of an array-counted routine holds (EPP 5.2)."""

    ADDRESS = "addressing"  # the address of a counter
    INDEX = "indexing"  # the index of a counter


@dataclass(frozen=True)
class InstrumentationPlan:
    """The actions of one scheme on one routine.

    Attributes
    ----------
    actions
        Edge id -> actions in execution order. Edges without actions are absent.
    uses_register
        Whether any action touches the path register.
    table, path_counters
        Kind of path counter table, and for ARRAY the number of its counters.
    addressing
        For ARRAY tables; None otherwise.
    edge_counters
        How many `CountEdge` counters the plan has (numbered from 0).
    blocks, block_ends
        Block id -> actions executed whenever the block is, at its top or before its control
        transfer. They do not touch path registers or path counters.
    registers
        Number of path registers.
    key_words
        32-bit words of a path counter's number (of HASH tables; one word elsewhere).
    counted_region
        Vertices at which an activation has counted its current path already.
    has_cold_counter
        Whether there is a counter `COLD_COUNTER`.
    pair_edges
        Edges counted by pairs of logging calls (`edge_log`): events after the `CountEdge` ones.
    log_sources, log_destinations
        How many numbers the logging calls take for sources and for destinations.
    trace_edges
        Edges whose crossings whoever reads the trace can count: events after all others.
    """

    actions: Mapping[int, tuple[Action, ...]]
    uses_register: bool
    table: Table
    path_counters: int
    addressing: Addressing | None
    edge_counters: int
    blocks: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    block_ends: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    registers: int = 1
    key_words: int = 1
    counted_region: frozenset[int] = frozenset()
    has_cold_counter: bool = False
    pair_edges: tuple[int, ...] = ()
    trace_edges: tuple[int, ...] = ()
    log_sources: int = 0
    log_destinations: int = 0

    @property
    def counts_paths(self) -> bool:
        """Whether the plan has path registers or path counters at all."""
        return self.uses_register or self.table is not Table.NONE

    def event_counts(self, crossings: Sequence[int], executions: Sequence[int]) -> tuple[int, ...]:
        """Return the values of the `CountEdge` counters, of logged pairs, of traced edges.

        Such a counter is one addition at one place, so exact counts execute it; a pair of calls
        counts one edge.

        Parameters
        ----------
        crossings, executions
            By edge id, by block id.
        """
        values = [0] * self.edge_counters
        places = (
            (self.actions, crossings),
            (self.blocks, executions),
            (self.block_ends, executions),
        )
        for actions_at, times in places:
            for place, actions in actions_at.items():
                for action in actions:
                    if isinstance(action, CountEdge):
                        values[action.counter] += times[place]
        return (*values, *(crossings[edge] for edge in (*self.pair_edges, *self.trace_edges)))
