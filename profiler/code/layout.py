"""Where the counters of instrumented programs lie: below 2 GB, at fixed addresses.

Arrays of counters lie one after the other, each at a multiple of 8 bytes. Hash tables lie at
multiples of 1024 bytes, so that a single `sethi` makes such an address, and `TABLE_SPAN` bytes from
one to the next, so that the pool of nodes at the end of each can grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from simprof.profiler.plan.actions import COLD_COUNTER
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.simulator.errors import UsageError

COUNTER_SIZE = 4
"""Bytes of a counter, as in the papers."""

RUNTIME_BASE = 0x5000_0000
"""Where the run-time routines lie (`runtime`)."""
RUNTIME_DATA = 0x5000_8000
"""Words of memory that run-time routines use; the modules of the routines say which."""
TRACE_BUFFER = 0x5000_C000
"""Where tokens of a trace are collected until the buffer is full (`schemes.tracing.flush`)."""
PAIR_TABLE = 0x5001_0000
"""Counters of logged pairs of all routines (`logging_routines`); low 10 bits 0."""
PAIR_SIZE = 8
"""Bytes of a logged pair's slot."""
ARRAYS_BASE = 0x5100_0000
"""Where the arrays of counters begin."""
TABLES_BASE = 0x6000_0000
"""Where the hash tables begin, and the arrays must have ended."""
LIMIT = 0x8000_0000
"""Where the hash tables must have ended: 2 GB."""
STACK_REGISTERS = 6
"""How many path registers find room on every stack; more may need words of their own."""
TABLE_SPAN = 1 << 18
"""Bytes between two hash tables (a multiple of `hash_routine.TABLE_ALIGNMENT`): room for more than
20,000 executed paths each."""


class PairSlot(NamedTuple):
    """A logged pair's slot in `PAIR_TABLE`: its address, and the word that it begins with."""

    address: int
    owner: int


@dataclass(frozen=True)
class CounterLayout:
    """Addresses of one routine's counters under one scheme, in bytes.

    Attributes
    ----------
    path_base
        Counter 0 of the path array, or the hash table.
    edge_base
        Edge counter 0.
    cold
        The counter of cold paths: for an array the word below its counter 0 (TPP A.1).
    words_base, words
        Words of path registers that have no place on the stack (`frames`); how many.
    first_source, first_destination
        What the routine's numbers 0 of logged sources and destinations are in the program.
    """

    path_base: int = ARRAYS_BASE
    edge_base: int = ARRAYS_BASE
    cold: int = ARRAYS_BASE - COUNTER_SIZE
    words_base: int = ARRAYS_BASE
    first_source: int = 1
    first_destination: int = 1
    words: int = 0

    def path_counter(self, number: int) -> int:
        """Address of path counter `number` of an array."""
        if number == COLD_COUNTER:
            return self.cold
        return self.path_base + COUNTER_SIZE * number

    def edge_counter(self, number: int) -> int:
        """Address of edge counter `number`."""
        return self.edge_base + COUNTER_SIZE * number


class Room(NamedTuple):
    """How much of the space for counters is used: bytes of arrays and of tables; logged ends."""

    arrays: int = 0
    tables: int = 0
    sources: int = 0
    destinations: int = 0

    def beside(self, other: Room) -> Room:
        """Return the room that both take."""
        return Room(*(one + more for one, more in zip(self, other, strict=True)))


NOTHING_USED = Room()


class CounterSpace:
    """Gives every routine's counters their addresses.

    The addresses depend on the order in which routines come: the same plans in the same order
    get the same ones.

    `used`: What the routines before these have taken.
    """

    def __init__(self, used: Room = NOTHING_USED) -> None:
        self._array = ARRAYS_BASE + used.arrays
        self._table = TABLES_BASE + used.tables
        self._sources, self._destinations = 1 + used.sources, 1 + used.destinations

    @property
    def used(self) -> Room:
        """How much is taken."""
        arrays, tables = self._array - ARRAYS_BASE, self._table - TABLES_BASE
        return Room(arrays, tables, self._sources - 1, self._destinations - 1)

    def place(self, plan: InstrumentationPlan) -> CounterLayout:
        """Return the addresses of a plan's counters.

        Raises
        ------
        UsageError
            The counters do not fit below 2 GB.
        """
        cold = self._take(2) + COUNTER_SIZE if plan.has_cold_counter else 0
        if plan.table is CounterTable.HASH:
            path_base, self._table = self._table, self._table + TABLE_SPAN
        else:
            path_base = self._take(plan.path_counters)
        edge_base = self._take(plan.edge_counters)
        words = max(plan.registers - STACK_REGISTERS, 0)
        words_base = self._take(2 * words)
        sources, destinations = self._sources, self._destinations
        self._sources += plan.log_sources
        self._destinations += plan.log_destinations
        pairs_end = PAIR_TABLE + PAIR_SIZE * (self._sources + self._destinations)
        if self._array > TABLES_BASE or self._table > LIMIT or pairs_end > ARRAYS_BASE:
            raise UsageError(
                "the counters of all routines do not fit their memory: select fewer routines "
                "with --routine"
            )
        return CounterLayout(path_base, edge_base, cold, words_base, sources, destinations, words)

    def with_words(self, layout: CounterLayout, words: int) -> CounterLayout:
        """Return the layout that was placed last with so many words for path registers."""
        return replace(layout, words_base=self._take(2 * words), words=words)

    def _take(self, counters: int) -> int:
        base = self._array
        self._array += COUNTER_SIZE * counters + 7 & -8
        return base
