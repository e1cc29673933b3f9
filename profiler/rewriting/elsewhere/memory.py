"""The counters of an instrumented program in its memory: where they are, and what they say.

`code.layout` gives every counter its address. Here is what must be at these addresses before the
program starts (`program_memory`), and what is read off them when it has ended (`read_counters`), in
the terms in which a simulated run counts (`session.counters`), modulo 2^32.

Whatever a run still knows beside its counters, it does not leave in memory: path registers of
activations that ended early, how often conditional code was executed, what hashing cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from simprof.profiler.code.hash_routine import code_key
from simprof.profiler.code.layout import (
    ARRAYS_BASE,
    COUNTER_SIZE,
    RUNTIME_DATA,
    BufferSlot,
    CounterLayout,
    buffer_address,
    slots_end,
    table_span,
)
from simprof.profiler.plan.decoders import Plan, RoutineCounters
from simprof.profiler.plan.plan import (
    POOL_START,
    Buffer,
    CounterTable,
    InstrumentationPlan,
)
from simprof.profiler.rewriting.elsewhere.counter_file import (
    CounterFile,
    FileRegion,
    RegionKind,
    table_counts,
)
from simprof.profiler.rewriting.elsewhere.runtime import StartMemory
from simprof.profiler.schemes.definition import (
    OwnTable,
    ReadMemory,
    SchemeDefinition,
    own_table,
)
from simprof.simulator.binary.program import PAGE_SIZE, page_up

if TYPE_CHECKING:
    from simprof.profiler.session.observation import Observation
    from simprof.profiler.session.scheme_runs import SchemeRun

WRAP = 1 << 8 * COUNTER_SIZE  # What counters count modulo
NO_SYMBOLS: Mapping[int, int] = MappingProxyType({})
_SHOWN = 3


class PlacedPlan(Struct, frozen=True):
    """A routine's plan whose counters have addresses."""

    plan: InstrumentationPlan  # What is counted
    layout: CounterLayout  # Where
    slots: tuple[BufferSlot, ...] = ()  # Of the plan's `slot_edges`, in their order
    own: OwnTable | None = None  # How the scheme keeps its path counters, if it does

    @property
    def table(self) -> FileRegion | None:
        """Its hash table, if it has one."""
        if self.plan.table is not CounterTable.HASH:
            return None
        base = self.layout.path_base
        return FileRegion(RegionKind.TABLE, base, table_span(self.plan), self.plan.key_words)

    @property
    def arrays_end(self) -> int:
        """The end of its counters among the arrays; at least their base."""
        plan, layout = self.plan, self.layout
        ends = [ARRAYS_BASE, layout.edge_counter(plan.edge_counters)]
        if plan.table in (CounterTable.ARRAY, CounterTable.OWN):
            ends.append(layout.path_base + COUNTER_SIZE * plan.path_counters)
        if plan.named_counters:
            ends.append(layout.named + COUNTER_SIZE)
        if plan.constants:
            ends.append(layout.constants + COUNTER_SIZE * len(plan.constants))
        ends.append(layout.words_base + 2 * COUNTER_SIZE * layout.words)
        return max(ends)


def placed(scheme: SchemeDefinition, plan: Plan, layout: CounterLayout) -> PlacedPlan:
    """Return a plan of `scheme` with the places of its counters."""
    code = scheme.code()
    return PlacedPlan(plan.plan, layout, code.slots(plan, layout), own_table(scheme, plan.plan))


def program_memory(codes: Mapping[int, PlacedPlan]) -> StartMemory:
    """Return the memory that instrumented routines take together.

    All arrays are one region, as is each buffer with slots; each hash table is one, and so is what
    is kept of another buffer.
    """
    # codes: Routine number -> its plan, placed by one `CounterSpace`.
    plans = codes.values()
    mapped = [(RUNTIME_DATA, PAGE_SIZE)]
    fills: list[tuple[int, bytes]] = []
    regions: list[FileRegion] = []
    ends: dict[Buffer, int] = {}
    for code in plans:
        for use in code.plan.buffers:
            if use.edges or use.numbers or use.buffer.is_pool:
                ends[use.buffer] = max(ends.get(use.buffer, 0), slots_end(use, code.layout.first))
        if code.plan.constants:
            words = (word.to_bytes(COUNTER_SIZE, "big") for word in code.plan.constants)
            fills.append((code.layout.constants, b"".join(words)))
    for buffer, end in ends.items():
        start = buffer_address(buffer)
        mapped.append((start, page_up(end - start)))
        if buffer.has_slots:
            regions.append(FileRegion(RegionKind.PAIRS, start, end - start))
            slots = (slot for code in plans for slot in code.slots)
            fills.append((start, _owners(slots, start, end - start)))
        elif buffer.is_pool:
            regions.append(FileRegion(RegionKind.POOL, start, end - start))
            fills.append((start, (start + POOL_START).to_bytes(4, "big")))
        elif buffer.kept is not None:
            offset, size = buffer.kept
            regions.append(FileRegion(RegionKind.ARRAY, start + offset, size))
    arrays = max((code.arrays_end for code in plans), default=ARRAYS_BASE) - ARRAYS_BASE
    if arrays:
        regions.append(FileRegion(RegionKind.ARRAY, ARRAYS_BASE, arrays))
        mapped.append((ARRAYS_BASE, page_up(arrays)))
    tables = sorted((code.table for code in plans if code.table), key=lambda table: table.address)
    if tables:
        first, last = tables[0].address, tables[-1].address + tables[-1].size
        mapped.append((first, last - first))
    fills += [(table.address, table.table.initial(table.address)) for table in tables]
    return StartMemory(tuple(mapped), tuple(fills), (*regions, *tables))


def _owners(slots: Iterable[BufferSlot], start: int, size: int) -> bytes:
    """Return what a buffer of slots at `start` holds at first."""
    content = bytearray(size)
    for address, owner in slots:
        at = address - start
        content[at : at + 4] = owner.to_bytes(4, "big")
    return bytes(content)


class MemoryCounters(Struct, frozen=True):
    """What a routine's counters hold."""

    # Path counter -> value, where that is not 0, ascending; those with names (< 0) among them.
    paths: Mapping[int, int]
    # Values of the plan's `CountEdge` counters, then those of its slots: the beginning of what
    # `InstrumentationPlan.event_counts` returns. Other edges are in what a buffer held.
    events: tuple[int, ...]


def symbols_of(stream: bytes) -> npt.NDArray[np.uint32]:
    """Return the symbols of paths in a trace, in order (`CounterTable.STREAM`)."""
    return np.frombuffer(stream, ">u4", len(stream) // COUNTER_SIZE)


def symbol_counts(stream: bytes) -> Mapping[int, int]:
    """Return how often each symbol is in a trace, ascending."""
    symbols, counts = np.unique(symbols_of(stream), return_counts=True)
    return dict(zip(symbols.tolist(), counts.tolist(), strict=True))


def symbols_taken(code: PlacedPlan, found: MemoryCounters) -> int:
    """Return how many symbols of a trace are of a routine whose counters were found there."""
    if code.plan.table is not CounterTable.STREAM:
        return 0
    return sum(count for path, count in found.paths.items() if path >= 0)


def read_counters(
    code: PlacedPlan, read: ReadMemory, symbols: Mapping[int, int] = NO_SYMBOLS
) -> MemoryCounters:
    """Return what the counters of a routine hold in the memory that `read` reads, and in the trace
    that has `symbols`, as `symbol_counts` counts them.
    """
    plan, layout = code.plan, code.layout
    paths: dict[int, int] = {}
    for number in range(-len(plan.named_counters), 0):
        paths[number] = _word(read, layout.path_counter(number))
    if code.table is not None:
        paths |= _hashed(code.table, read)
    elif code.own is not None:
        paths |= code.own.read(plan, layout, read)
    elif plan.table is CounterTable.ARRAY:
        paths |= enumerate(_words(read, layout.path_base, plan.path_counters))
    elif plan.table is CounterTable.STREAM:
        (count, *_), (first, *_) = plan.numbers, layout.first
        paths |= {each - first: n for each, n in symbols.items() if 0 <= each - first < count}
    events = [*_words(read, layout.edge_base, plan.edge_counters)]
    events += [_word(read, slot.address + COUNTER_SIZE) for slot in code.slots]
    return MemoryCounters({n: count for n, count in sorted(paths.items()) if count}, tuple(events))


def _hashed(region: FileRegion, read: ReadMemory) -> dict[int, int]:
    size = _word(read, region.free) - region.address
    counts = table_counts(read(region.address, size), region.words)
    return {code_key(key): count for key, count in counts}


def _words(read: ReadMemory, address: int, count: int) -> Iterator[int]:
    data = read(address, COUNTER_SIZE * count) if count else b""
    return (
        int.from_bytes(data[at : at + COUNTER_SIZE], "big")
        for at in range(0, len(data), COUNTER_SIZE)
    )


def _word(read: ReadMemory, address: int) -> int:
    return int.from_bytes(read(address, COUNTER_SIZE), "big")


def in_memory(plan: InstrumentationPlan, counters: RoutineCounters) -> MemoryCounters:
    """Return what of simulated counters is in memory, as 32-bit words have it."""
    wrapped = {number: count % WRAP for number, count in counters.paths.items()}
    kept = plan.edge_counters + len(plan.slot_edges)
    return MemoryCounters(
        {number: count for number, count in sorted(wrapped.items()) if count},
        tuple(count % WRAP for count in counters.events[:kept]),
    )


def differences(
    observation: Observation,
    scheme: SchemeRun,
    codes: Mapping[int, PlacedPlan],
    file: CounterFile,
    symbols: Mapping[int, int] = NO_SYMBOLS,
) -> list[str]:
    """Compare the counters of an instrumented program with the simulated ones of the same run.

    Return a line for each routine whose counters differ, by number.
    """
    # observation, scheme: The simulated run, and the scheme of it that the program was instrumented
    # for.
    # codes: The routines that were instrumented, by number.
    # file: What the program has counted.
    # symbols: Those in its trace, counted.
    lines, unknown = [], sum(symbols.values())
    for number, code in sorted(codes.items()):
        # nothing, where the routine was not entered
        predicted = MemoryCounters({}, (0,) * (code.plan.edge_counters + len(code.plan.slot_edges)))
        if number in observation.events:
            predicted = in_memory(code.plan, observation.counters(scheme, number))
        counted = read_counters(code, file.read, symbols)
        unknown -= symbols_taken(code, counted)
        found = list(_differing(code, predicted, counted))
        if found:
            more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            name = observation.recovered.routines[number].name
            lines.append(f"{name}: {'; '.join(found[:_SHOWN])}{more}")
    if unknown:
        lines.append(f"the trace has paths that no routine has: {unknown}")
    return lines


def _differing(code: PlacedPlan, predicted: MemoryCounters, found: MemoryCounters) -> Iterator[str]:
    for number in sorted({*predicted.paths, *found.paths}):
        want, have = predicted.paths.get(number, 0), found.paths.get(number, 0)
        name = f"the counter of path {number}"
        if number < 0:
            name = f"the counter of {code.plan.named_counters[-1 - number]}"
        if want != have:
            yield f"{name} holds {have}, not {want}"
    for number, (want, have) in enumerate(zip(predicted.events, found.events, strict=True)):
        slot = number - code.plan.edge_counters
        name = f"edge counter {number}"
        if slot >= 0:
            name = f"the counter of the calls for edge {code.plan.slot_edges[slot]}"
        if want != have:
            yield f"{name} holds {have}, not {want}"
