"""Instrumentation plans: what a scheme wants done on which edge.

What is done at one place is an action (`actions`); the plan says where, and which counters there
are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.plan.actions import Action, CountEdge, Guard, NoCode

SYMBOL_BITS = 32  # Bits of a path's symbol in a stream, as a word has them: numbers begin at 1.


class CounterTable(StrEnum):
    """How a routine's path counters are kept (EPP 5.2, 5.3)."""

    ARRAY = "array"
    HASH = "hash"
    # In a trace: a path's counter is how often its symbol is there, the number of the path among
    # all that the plans' shared numbers stand for (`BufferUse.numbers`).
    STREAM = "stream"
    OWN = "own"  # by a run-time routine of the scheme's own (`schemes.definition.OwnTable`)
    NONE = "none"


class Addressing(StrEnum):
    """What the path register of an array-counted routine holds (EPP 5.2)."""

    ADDRESS = "addressing"  # the address of a counter
    INDEX = "indexing"  # the index of a counter


POOL_START = 16  # Bytes at the beginning of a pool that are never handed out


class Buffer(Struct, frozen=True):
    """Memory of the whole program that a scheme's own code writes, under a name."""

    name: str  # What messages call it
    # Where it is among the buffers of its scheme, in bytes (`code.layout.buffer_address`).
    offset: int = 0
    size: int = 0  # Its bytes; of one with slots, as many as the plans' numbers make
    # Whether it consists of slots with counters (`schemes.definition.SchemeCode.slots`).
    has_slots: bool = False
    # Offset and size of the words in it that the counters' file of an instrumented program has.
    kept: tuple[int, int] | None = None
    # Whether a run-time routine hands it out: its first word has the address behind the last byte
    # that is in use, at first `POOL_START` bytes behind its own.
    is_pool: bool = False


class BufferUse(Struct, frozen=True):
    """What one routine's plan has to do with a buffer."""

    buffer: Buffer  # The buffer
    # Edges whose crossings can be counted by whoever reads it: in slots, or in what it holds.
    edges: tuple[int, ...] = ()
    # How many numbers the routine takes of each series of numbers that all routines share.
    numbers: tuple[int, ...] = ()


class InstrumentationPlan(Struct, frozen=True, dict=True):
    """The actions of one scheme on one routine."""

    # Edge id -> actions in execution order. Edges without actions are absent.
    actions: Mapping[int, tuple[Action, ...]]
    uses_register: bool = False  # Whether any action touches the path register
    # table, path_counters: Kind of path counter table; for ARRAY the number of its counters, for
    # OWN the number of words that the routine has of its own, which are 0 at first.
    table: CounterTable = CounterTable.NONE
    path_counters: int = 0
    addressing: Addressing | None = None  # For ARRAY tables; None otherwise
    edge_counters: int = 0  # How many `CountEdge` counters the plan has (numbered from 0)
    # blocks, block_ends: Block id -> actions executed whenever the block is, at its top or before
    # its control transfer. They do not touch path registers or path counters.
    blocks: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    block_ends: Mapping[int, tuple[Action, ...]] = field(default_factory=dict)
    registers: int = 1  # Number of path registers
    # Vertices at which an activation has counted its current path already.
    counted_region: frozenset[int] = frozenset()
    # Edges into the counted region on which a path begins that nothing counts.
    uncounted_entries: frozenset[int] = frozenset()
    # Path counters from this number on are of no path: they count registers that were led astray on
    # purpose. None: all are of paths.
    first_stray: int | None = None
    # Whether executions of other paths may be counted as one that has a counter
    overcounts: bool = False
    # Names of path counters beside the table, with the numbers -1, -2, and so on.
    named_counters: tuple[str, ...] = ()
    buffers: tuple[BufferUse, ...] = ()  # What its code has to do with the scheme's buffers
    # Names of 32-bit words of the whole program that its code reads and writes: for all plans of a
    # scheme the same ones in the same order. They are 0 at first.
    words: tuple[str, ...] = ()
    # 32-bit words, not below 0, that its code reads: they are in memory when the program starts
    # (`CounterLayout.constants`).
    constants: tuple[int, ...] = ()
    addresses: bool = False  # Whether it writes addresses of data (`code.references`).
    # Whether the routine has two copies of its blocks, whose code differs (`Action.bodies`).
    # Activations begin in the first. When an edge is crossed, control is in the second if path
    # register 0 is not negative; behind it, too: code that changes the copy goes on behind the code
    # of the same edge in the other one (`code.writer.Writer.leave`).
    is_duplicated: bool = False
    # Bytes that a HASH table can come to take (`code.layout.table_span`); None: nobody knows.
    table_bytes: int | None = None

    @property
    def counts_paths(self) -> bool:
        """Whether the plan has path registers or path counters at all."""
        return self.uses_register or self.table is not CounterTable.NONE

    @property
    def initial(self) -> tuple[int, ...]:
        """What the path registers of an activation hold when it begins."""
        first = -1 if self.is_duplicated else 0
        return (first, *(0,) * (self.registers - 1))

    def body(self, number: int) -> InstrumentationPlan:
        """Return what the code of the first (0) or of the second copy (1) of the blocks does."""
        bodies = {
            edge: tuple(action.bodies[number] for action in actions)
            for edge, actions in self.actions.items()
        }
        kept = {e: a for e, a in bodies.items() if any(type(each) is not NoCode for each in a)}
        return replace(self, actions=kept, is_duplicated=False)

    @property
    def counts_in_order(self) -> bool:
        """Whether what counting a path costs depends on the paths that were counted before."""
        return self.table in (CounterTable.HASH, CounterTable.OWN)

    @cached_property
    def guards(self) -> dict[int, Guard]:
        """Edge id -> what decides about one of its actions (`Action.guard`); ValueError if an edge
        has two guarded actions.
        """
        guards: dict[int, Guard] = {}
        for edge, actions in self.actions.items():
            for action in actions:
                if (guard := action.guard) is None:
                    continue
                if edge in guards:
                    raise ValueError(f"edge {edge} has two guarded actions")
                guards[edge] = guard
        return guards

    @cached_property
    def key_words(self) -> int:
        """32-bit words of a path counter's number (of HASH tables; one word elsewhere)."""
        actions = chain.from_iterable(self.actions.values())
        return max((action.key_words for action in actions), default=1)

    @cached_property
    def slot_edges(self) -> tuple[int, ...]:
        """Edges that have counters in slots of buffers: the events after the `CountEdge` ones."""
        return tuple(edge for use in self.buffers if use.buffer.has_slots for edge in use.edges)

    @property
    def instrumented_edges(self) -> frozenset[int]:
        """Edges that are counted, or have code; those in slots have theirs in the blocks around."""
        return frozenset(self.slot_edges or self.actions)

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many numbers of each shared series it takes, of all its buffers in order."""
        return tuple(number for use in self.buffers for number in use.numbers)

    def event_counts(self, crossings: Sequence[int], executions: Sequence[int]) -> tuple[int, ...]:
        """Return the values of the `CountEdge` counters, of slots, of other edges of buffers.

        Each counts how often one place was passed, so exact counts, by edge id and by block id,
        execute it.
        """
        values = [0] * self.edge_counters
        on_edges = ((crossings[edge], actions) for edge, actions in self.actions.items())
        in_blocks = chain(self.blocks.items(), self.block_ends.items())
        for times, actions in chain(on_edges, ((executions[b], done) for b, done in in_blocks)):
            for action in actions:
                if isinstance(action, CountEdge):
                    values[action.counter] += times
        read = [edge for use in self.buffers if not use.buffer.has_slots for edge in use.edges]
        return (*values, *(crossings[edge] for edge in (*self.slot_edges, *read)))
