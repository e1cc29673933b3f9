"""The counters of an instrumented program in its memory: where they are, and what they say.

`code.layout` gives every counter its address. Here is what must be at these addresses before the
program starts (`program_memory`), and what is read off them when it has ended (`read_counters`), in
the terms in which a simulated run counts (`session.counters`), modulo 2^32.

Whatever a run still knows beside its counters, it does not leave in memory: path registers of
activations that ended early, how often conditional code was executed, what hashing cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simprof.profiler.code.layout import (
    ARRAYS_BASE,
    COUNTER_SIZE,
    PAIR_SIZE,
    PAIR_TABLE,
    RUNTIME_DATA,
    TABLE_SPAN,
    TRACE_BUFFER,
    CounterLayout,
    PairSlot,
)
from simprof.profiler.code.runtime.word_hash_routine import code_key
from simprof.profiler.plan.actions import COLD_COUNTER
from simprof.profiler.plan.decoders import RoutineCounters, RoutinePlan
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.rewriting.elsewhere.counter_file import (
    CounterFile,
    FileRegion,
    RegionKind,
    table_counts,
)
from simprof.profiler.schemes.definition import SchemeDefinition
from simprof.profiler.schemes.tracing.flush import POSITION, TRACE_END
from simprof.simulator.binary.program import PAGE_SIZE, page_up

if TYPE_CHECKING:
    from simprof.profiler.session.observation import Observation
    from simprof.profiler.session.scheme_runs import SchemeRun

TRACE_POSITION = TRACE_END + POSITION
"""Where the position of the trace buffer is (`schemes.tracing.flush`)."""
WRAP = 1 << 8 * COUNTER_SIZE
"""What counters count modulo."""
_SHOWN = 3

ReadMemory = Callable[[int, int], bytes]
"""(address, size in bytes) -> memory."""


@dataclass(frozen=True)
class PlacedPlan:
    """A routine's plan whose counters have addresses."""

    plan: InstrumentationPlan  # What is counted
    layout: CounterLayout  # Where
    # Where the plan's logged pairs are counted, in the order of its `pair_edges`
    pairs: tuple[PairSlot, ...] = ()

    @property
    def table(self) -> FileRegion | None:
        """Its hash table, if it has one."""
        if self.plan.table is not CounterTable.HASH:
            return None
        base = self.layout.path_base
        return FileRegion(RegionKind.TABLE, base, TABLE_SPAN, self.plan.key_words)

    @property
    def arrays_end(self) -> int:
        """The end of its counters among the arrays; at least their base."""
        plan, layout = self.plan, self.layout
        ends = [ARRAYS_BASE, layout.edge_counter(plan.edge_counters)]
        if plan.table is CounterTable.ARRAY:
            ends.append(layout.path_counter(plan.path_counters))
        if plan.has_cold_counter:
            ends.append(layout.cold + COUNTER_SIZE)
        ends.append(layout.words_base + 2 * COUNTER_SIZE * layout.words)
        return max(ends)

    @property
    def pairs_end(self) -> int:
        """The end of the slots that its logging calls look at; at least those of no call."""
        sources = self.layout.first_source + self.plan.log_sources
        destinations = self.layout.first_destination + self.plan.log_destinations
        return PAIR_TABLE + PAIR_SIZE * (sources + destinations)


def placed(scheme: SchemeDefinition, plan: RoutinePlan, layout: CounterLayout) -> PlacedPlan:
    """Return a plan of `scheme` with the places of its counters."""
    return PlacedPlan(plan.plan, layout, scheme.code().pair_slots(plan, layout))


@dataclass(frozen=True)
class ProgramMemory:
    """The memory that a program's instrumentation takes."""

    # (address, size in bytes) of the pages that must be there; all of them hold zeros but for
    mapped: tuple[tuple[int, int], ...]
    # (address, bytes) of what else must be there before the program starts
    fills: tuple[tuple[int, bytes], ...]
    regions: tuple[FileRegion, ...]  # What is written to the counter file at the end, in order


def program_memory(codes: Mapping[int, PlacedPlan]) -> ProgramMemory:
    """Return the memory that instrumented routines take together.

    All arrays are one region, as are all pairs; each hash table is one. Where a trace is written,
    its position is one: it tells how many bits of the trace's last byte are used.

    `codes`: Routine number -> its plan, placed by one `CounterSpace`.
    """
    plans = codes.values()
    mapped = [(RUNTIME_DATA, PAGE_SIZE)]
    fills: list[tuple[int, bytes]] = []
    regions: list[FileRegion] = []
    if any(code.plan.trace_edges for code in plans):
        mapped.append((TRACE_BUFFER, PAIR_TABLE - TRACE_BUFFER))
        regions.append(FileRegion(RegionKind.ARRAY, TRACE_POSITION, COUNTER_SIZE))
    slots = [slot for code in plans for slot in code.pairs]
    if slots:
        end = max(code.pairs_end for code in plans)
        regions.append(FileRegion(RegionKind.PAIRS, PAIR_TABLE, end - PAIR_TABLE))
        mapped.append((PAIR_TABLE, page_up(end - PAIR_TABLE)))
        fills.append((PAIR_TABLE, _owners(slots, end - PAIR_TABLE)))
    arrays = max((code.arrays_end for code in plans), default=ARRAYS_BASE) - ARRAYS_BASE
    if arrays:
        regions.append(FileRegion(RegionKind.ARRAY, ARRAYS_BASE, arrays))
        mapped.append((ARRAYS_BASE, page_up(arrays)))
    tables = sorted((code.table for code in plans if code.table), key=lambda table: table.address)
    if tables:
        first, last = tables[0].address, tables[-1].address + TABLE_SPAN
        mapped.append((first, last - first))
    fills += [(table.address, table.table.initial(table.address)) for table in tables]
    return ProgramMemory(tuple(mapped), tuple(fills), (*regions, *tables))


def _owners(slots: Iterable[PairSlot], size: int) -> bytes:
    """Return what the table of pairs holds at first."""
    content = bytearray(size)
    for address, owner in slots:
        at = address - PAIR_TABLE
        content[at : at + 4] = owner.to_bytes(4, "big")
    return bytes(content)


@dataclass(frozen=True)
class MemoryCounters:
    """What a routine's counters hold."""

    # Path counter -> value, where that is not 0, ascending; `COLD_COUNTER` among them.
    paths: Mapping[int, int]
    # Values of the plan's `CountEdge` counters, then those of its logged pairs: the beginning of
    # what `InstrumentationPlan.event_counts` returns. Traced edges are in the trace.
    events: tuple[int, ...]


def read_counters(code: PlacedPlan, read: ReadMemory) -> MemoryCounters:
    """Return what the counters of a routine hold in the memory that `read` reads."""
    plan, layout = code.plan, code.layout
    paths: dict[int, int] = {}
    if plan.has_cold_counter:
        paths[COLD_COUNTER] = _word(read, layout.cold)
    if code.table is not None:
        paths |= _hashed(code.table, read)
    elif plan.table is CounterTable.ARRAY:
        paths |= enumerate(_words(read, layout.path_base, plan.path_counters))
    events = [*_words(read, layout.edge_base, plan.edge_counters)]
    events += [_word(read, slot.address + COUNTER_SIZE) for slot in code.pairs]
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
    kept = plan.edge_counters + len(plan.pair_edges)
    return MemoryCounters(
        {number: count for number, count in sorted(wrapped.items()) if count},
        tuple(count % WRAP for count in counters.events[:kept]),
    )


def differences(
    observation: Observation, scheme: SchemeRun, codes: Mapping[int, PlacedPlan], file: CounterFile
) -> list[str]:
    """Compare the counters of an instrumented program with the simulated ones of the same run.

    - `observation`, `scheme`: The simulated run, and the scheme of it that the program was
      instrumented for.
    - `codes`: The routines that were instrumented, by number.
    - `file`: What the program has counted.

    Returns
    -------
    list
        A line for each routine whose counters differ, by number; empty if none does.
    """
    lines = []
    for number, code in sorted(codes.items()):
        predicted = _simulated(observation, scheme, number, code.plan)
        found = list(_differing(code, predicted, read_counters(code, file.read)))
        if found:
            more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            name = observation.recovered.routines[number].name
            lines.append(f"{name}: {'; '.join(found[:_SHOWN])}{more}")
    return lines


def _simulated(
    observation: Observation, scheme: SchemeRun, number: int, plan: InstrumentationPlan
) -> MemoryCounters:
    """Return what a routine's counters should hold: nothing where it was not entered."""
    if number in observation.events:
        return in_memory(plan, observation.counters.of(scheme, number))
    return MemoryCounters({}, (0,) * (plan.edge_counters + len(plan.pair_edges)))


def _differing(code: PlacedPlan, predicted: MemoryCounters, found: MemoryCounters) -> Iterator[str]:
    for number in sorted({*predicted.paths, *found.paths}):
        want, have = predicted.paths.get(number, 0), found.paths.get(number, 0)
        name = "the cold counter" if number == COLD_COUNTER else f"the counter of path {number}"
        if want != have:
            yield f"{name} holds {have}, not {want}"
    for number, (want, have) in enumerate(zip(predicted.events, found.events, strict=True)):
        pair = number - code.plan.edge_counters
        name = f"edge counter {number}"
        if pair >= 0:
            name = f"the counter of the calls for edge {code.plan.pair_edges[pair]}"
        if want != have:
            yield f"{name} holds {have}, not {want}"
