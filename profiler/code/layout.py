"""Addresses of the counters of instrumented programs: fixed, below 2 GB."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.plan.plan import Buffer, BufferUse, CounterTable, InstrumentationPlan
from simprof.profiler.request.errors import CounterRoomError

COUNTER_SIZE = 4  # Bytes of a counter, as in the papers

RUNTIME_BASE = 0x5000_0000  # Where the run-time routines lie (`runtime_code`)
RUNTIME_DATA = 0x5000_8000  # Words of memory that these use; their modules say which
# Words of the whole program (`InstrumentationPlan.words`); low 10 bits 0.
PROGRAM_WORDS = RUNTIME_DATA + 0x400
# Where the buffers of the scheme that is instrumented for lie (`plan.plan.Buffer`).
BUFFERS_BASE = 0x5000_C000
ARRAYS_BASE = 0x5100_0000  # Where the arrays of counters begin, and the buffers must have ended
TABLES_BASE = 0x6000_0000  # Where the hash tables begin, and the arrays must have ended
POOLS_BASE = 0x7000_0000  # Where the pools of a scheme begin, whose hash tables end there
LIMIT = 0x8000_0000  # Where the hash tables, or the pools, must have ended: 2 GB
# How many path registers find room on every stack; more may need words of their own.
STACK_REGISTERS = 6
# Bytes of a hash table, and at most so many of one whose paths are known: room for more than 20,000
# executed paths of one word.
TABLE_SPAN = 1 << 18
TABLE_ALIGNMENT = 1024  # Tables are aligned so that one `sethi` makes their address.
SLOT_SIZE = 8  # Bytes of a slot in a buffer


class BufferSlot(NamedTuple):
    """A slot with a counter in a buffer: its address, and the word that it begins with."""

    # The counter is the word behind that.

    address: int
    owner: int


def buffer_address(buffer: Buffer) -> int:
    """Return the address of a buffer."""
    return (POOLS_BASE if buffer.is_pool else BUFFERS_BASE) + buffer.offset


def table_span(plan: InstrumentationPlan) -> int:
    """Return the bytes from a plan's hash table to the next: no more than its paths can need."""
    if plan.table_bytes is None:
        return TABLE_SPAN
    return min(TABLE_SPAN, -(-plan.table_bytes // TABLE_ALIGNMENT) * TABLE_ALIGNMENT)


def slots_end(use: BufferUse, first: Sequence[int]) -> int:
    """Return the end of a buffer's slots that a routine's code looks at, or of the buffer."""
    if not use.buffer.has_slots:
        return buffer_address(use.buffer) + use.buffer.size
    # A slot's place is the sum of its numbers, one of each series. `first`: Of the routine.
    reached = sum(number + count for number, count in zip(first, use.numbers, strict=False))
    return buffer_address(use.buffer) + max(use.buffer.size, SLOT_SIZE * reached)


class CounterLayout(Struct, frozen=True):
    """Addresses of one routine's counters under one scheme, in bytes."""

    path_base: int = ARRAYS_BASE  # Counter 0 of the path array, or the hash table
    edge_base: int = ARRAYS_BASE  # Edge counter 0
    # Path counter -1, the first with a name: for an array the word below its counter 0; counter -2
    # is the word below that.
    named: int = ARRAYS_BASE - COUNTER_SIZE
    words_base: int = ARRAYS_BASE  # Path registers that have no place on the stack (`frames`)
    # What the routine's number 0 is in the program, of each series of `plan.numbers`
    first: tuple[int, ...] = ()
    words: int = 0  # How many words are at `words_base`
    names: tuple[str, ...] = ()  # Of the words of the whole program
    constants: int = 0  # Word 0 of `InstrumentationPlan.constants`

    def path_counter(self, number: int) -> int:
        """Address of path counter `number` of an array, or of one with a name."""
        base = self.path_base if number >= 0 else self.named + COUNTER_SIZE
        return base + COUNTER_SIZE * number

    def program_word(self, name: str) -> int:
        """Address of a word of the whole program."""
        return PROGRAM_WORDS + COUNTER_SIZE * self.names.index(name)

    def edge_counter(self, number: int) -> int:
        """Address of edge counter `number`."""
        return self.edge_base + COUNTER_SIZE * number


def _sums(numbers: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    # By series; plans without buffers have none.
    return tuple(one + other for one, other in zip_longest(numbers, others, fillvalue=0))


# Arrays of counters lie one after the other, each at a multiple of 8 bytes. Hash tables lie at
# multiples of 1024 bytes, so that a single `sethi` makes such an address, and far enough from each
# other (`table_span`) for the pool of nodes at the end of each to grow.
class CounterSpace:
    """Gives every routine's counters their addresses."""

    # The addresses depend on the order in which routines come: the same plans in the same order get
    # the same ones.

    def __init__(self) -> None:
        self._array = ARRAYS_BASE
        self._table = TABLES_BASE
        self._numbers: tuple[int, ...] = ()

    def place(self, plan: InstrumentationPlan) -> CounterLayout:
        """Return the addresses of a plan's counters.

        Raises CounterRoomError if they do not fit below 2 GB.
        """
        self._take(len(plan.named_counters))
        named = self._array - COUNTER_SIZE if plan.named_counters else 0
        constants = self._take(len(plan.constants)) if plan.constants else 0
        if plan.table is CounterTable.HASH:
            path_base, self._table = self._table, self._table + table_span(plan)
        else:
            path_base = self._take(plan.path_counters)
        edge_base = self._take(plan.edge_counters)
        words = max(plan.registers - STACK_REGISTERS, 0)
        words_base = self._take(2 * words)
        # Numbers begin at 1: a slot's word 0 says that nobody owns it.
        first = _sums(self._numbers, (1,) * max(len(self._numbers), len(plan.numbers)))
        self._numbers = _sums(self._numbers, plan.numbers)
        pools = any(use.buffer.is_pool for use in plan.buffers)
        ends = (slots_end(use, first) for use in plan.buffers if not use.buffer.is_pool)
        tables_end = POOLS_BASE if pools else LIMIT
        arrays_fit = self._array <= TABLES_BASE and max(ends, default=0) <= ARRAYS_BASE
        if not arrays_fit or self._table > tables_end:
            what = "the counters of all routines do not fit their memory"
            raise CounterRoomError(f"{what}: select fewer routines with --routine")
        places = path_base, edge_base, named, words_base
        return CounterLayout(*places, first, words, plan.words, constants)

    def with_words(self, layout: CounterLayout, words: int) -> CounterLayout:
        """Return the layout that was placed last with so many words for path registers."""
        return replace(layout, words_base=self._take(2 * words), words=words)

    def _take(self, counters: int) -> int:
        base = self._array
        self._array += COUNTER_SIZE * counters + 7 & -8
        return base
