"""Actions of every kind, with constants on both sides of the limits of the instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.layout import ARRAYS_BASE, TABLES_BASE, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.snippet_parts import CounterAccess
from simprof.profiler.code.stolen import LoadStolen, StoreStolen
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
    WriteAddress,
    WriteTrace,
)
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.bittrace import code as bittrace
from simprof.profiler.schemes.cs6120.code import LogDestination, LogDisrupt, LogSource
from simprof.profiler.schemes.kblpp.code import BeginStream, Emit, Sequences, StartPath
from simprof.profiler.schemes.kiter import code as kiter
from simprof.profiler.schemes.pap.planner import AddDigit, WriteWalk
from simprof.profiler.schemes.pref import code as pref
from simprof.profiler.schemes.registry import generators
from simprof.profiler.schemes.sampling import code as sampling
from simprof.profiler.schemes.sampling.code import CheckInFirst, CheckInSecond
from simprof.profiler.schemes.tpp import code as tpp
from simprof.profiler.schemes.tracing.code import WriteTarget
from simprof.profiler.schemes.wpp.planner import WriteConstantPath, WritePath
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Register

Table = tuple[CounterTable, Addressing | None]
NO_TABLE = (CounterTable.NONE, None)
BY_ADDRESS = (CounterTable.ARRAY, Addressing.ADDRESS)
BY_INDEX = (CounterTable.ARRAY, Addressing.INDEX)
IN_HASH_TABLE = (CounterTable.HASH, None)
OWN = (CounterTable.OWN, None)
IN_STREAM = (CounterTable.STREAM, None)
UNADDRESSED = (BY_INDEX, IN_HASH_TABLE)
PATH_TABLES = (BY_ADDRESS, *UNADDRESSED)

CONSTANTS = (0, 1, 1023, 1024, 4096, 1 << 20)
LARGE = 1 << 20
WORDS = (sampling.WORD, sampling.BURST)
TAGS = tuple(range(4096 << 1))
KNOWN = {k: Sequences(9, k) for k in (2, 4)}


class ActionSample(NamedTuple):
    """Actions of a mode that are in one plan: its kinds of tables, and how many path registers."""

    mode: str
    actions: tuple[Action, ...]
    tables: tuple[Table, ...] = (NO_TABLE,)
    registers: int = 0


def _emits(k: int) -> tuple[Action, ...]:
    own = Emit(3, KNOWN[k], hashed=True), Emit(3, KNOWN[k], from_register=False)
    return (BeginStream(), StartPath(0), StartPath(5000), Emit(0, KNOWN[k]), *own)


SAMPLES = (
    ActionSample(
        "pp",
        (
            *(kind(n) for kind in (SetRegister, AddRegister, CountPath) for n in CONSTANTS),
            *map(CountConstantPath, CONSTANTS),
            *map(AddRegister, (-1, -4096)),
            CountPath(0, on_back_edge=True),
            CountConstantPath(0, on_back_edge=True),
        ),
        PATH_TABLES,
        1,
    ),
    ActionSample("qpt2", tuple(map(CountEdge, (0, 300)))),
    ActionSample(
        "qpt2",
        tuple(
            kind(*each)
            for kind in (LoadStolen, StoreStolen)
            for each in ((Register.G4, 0), (Register.G3, 1))
        ),
    ),
    ActionSample(
        "bittrace",
        (
            *(bittrace.ShiftBits(*each) for each in ((0, 1), (1, 1), (5000, 13))),
            *(bittrace.CountShifted(*each) for each in ((0, 1), (1, 1), (5000, 13, True))),
        ),
        UNADDRESSED,
        1,
    ),
    ActionSample(
        "bittrace",
        (
            *(bittrace.StartWords(*each) for each in ((0, 0, 1, 2), (0, 1, 1, 2))),
            *(bittrace.ShiftWord(*each) for each in ((0, 1, 1), (1, 0, 3))),
            *(bittrace.CountWords(*each) for each in ((1,), (2,), (2, True))),
            bittrace.ShiftRecord(1, 5, (2, 6)),
            bittrace.ShiftRecord(1, 5, (1, 6)),
            bittrace.ShiftRecord(5000, 13, (2, 2)),
            bittrace.ShiftRecord(1, 16, (1, 1)),
        ),
        (IN_HASH_TABLE,),
        2,
    ),
    ActionSample(
        "fifo",
        (bittrace.ShiftRecord(1, 2, (8,)), bittrace.ShiftRecord(5000, 13, (2,))),
        (IN_HASH_TABLE,),
        1,
    ),
    ActionSample(
        "calls", tuple(kind(n) for kind in (LogSource, LogDestination, LogDisrupt) for n in (0, 77))
    ),
    ActionSample("kblpp", _emits(2), (OWN,), 2),
    ActionSample("kblpp", _emits(4), (OWN,), 4),
    ActionSample(
        "kiter",
        (
            kiter.EnterLoop(2),
            kiter.AddAccumulators((0, 7), (0, 7)),
            kiter.AddAccumulators((3, 7), (5, 7)),
            kiter.AddAccumulators((0, 5000), (9000, 5000)),
            *(
                kind(2, n)
                for kind in (kiter.CountIterations, kiter.NextIteration)
                for n in (0, 5000)
            ),
            kiter.LeaveLoop(2),
            kiter.BeginPath(0),
            kiter.BeginPath(5000),
        ),
        PATH_TABLES,
        3,
    ),
    ActionSample(
        "kiter",
        (
            kiter.EnterLoop(4),
            kiter.AddAccumulators((1, 2, 3, 4), (9, 2, 7, 4)),
            kiter.CountIterations(4, 1),
            kiter.NextIteration(4, 3),
            kiter.LeaveLoop(4),
        ),
        UNADDRESSED,
        5,
    ),
    # c[0], c[1], three registers that keep them and itr, and itr itself
    ActionSample("kiter", (kiter.SaveRegion(2, 2), kiter.RestoreRegion(2, 2)), PATH_TABLES, 6),
    ActionSample(
        "pap",
        (
            *(AddDigit(radix, radix - 1, 1 << 14, 1 << 12) for radix in (2, 3, 4, 7, 11)),
            WriteWalk(0),
            WriteWalk(1 << 14),
        ),
        (IN_STREAM,),
        1,
    ),
    ActionSample(
        "wpp",
        tuple(kind(n) for kind in (WritePath, WriteConstantPath) for n in (0, 5000)),
        (IN_STREAM,),
        1,
    ),
    ActionSample(
        "pref",
        (
            *(pref.SetBoth(*each) for each in ((0, 1), (5000, LARGE))),
            *(pref.AddBoth(*each) for each in ((1, 0), (-5000, LARGE))),
            *(
                pref.CountPreferred(index, number, bits, tags=tags)
                for index, number in ((0, 0), (1, 0), (7, 5000))
                for bits, tags in ((3, ()), (3, TAGS[:8]), (13, TAGS))
            ),
            *map(pref.CountKnown, (0, pref.UNINTERESTING)),
        ),
        (BY_INDEX,),
        2,
    ),
    ActionSample(
        "pref",
        tuple(
            pref.CountPreferred(1, number, 3, -8, tags, hashed=True, on_back_edge=back)
            for number, back in ((0, False), (1, True))
            for tags in ((), TAGS[:8])
        ),
        (IN_HASH_TABLE,),
        2,
    ),
    ActionSample(
        "sampled",
        (
            *(sampling.ChoosePath(*each) for each in ((0, 100), (5000, LARGE))),
            *map(sampling.AddToSample, (1, 5000)),
            sampling.CountSample(0),
            sampling.CountSample(5000, on_back_edge=True),
            sampling.SamplePath(0),
            sampling.SamplePath(5000, True, LARGE, 64, 17),
        ),
        UNADDRESSED,
        1,
    ),
    ActionSample(
        "sampled",
        tuple(
            kind(*each)
            for kind in (CheckInFirst, CheckInSecond)
            for each in ((0, 100), (5000, LARGE))
        ),
        (BY_ADDRESS, IN_HASH_TABLE),
        1,
    ),
    ActionSample(
        "tpp",
        (
            tpp.Poison(),
            tpp.CountColdPath(),
            *map(tpp.CountHotPath, CONSTANTS),
            *map(tpp.CountBranching, CONSTANTS),
            *map(tpp.CountUnlessCold, CONSTANTS),
            tpp.CountHotPath(0, on_back_edge=True, hashed=True),
            tpp.CountBranching(0, on_back_edge=True),
            tpp.CountUnlessCold(0, on_back_edge=True),
        ),
        PATH_TABLES,
        1,
    ),
    ActionSample(
        "witness",
        (
            WriteTrace(0, 8),
            WriteTrace(0x1234, 16),
            *(WriteTrace(1, width, packed=True) for width in (1, 3, 8, 11)),
            WriteTarget(0),
            WriteTarget(0, packed=True),
            WriteTarget(0, token=WriteTrace(5, 8)),
            WriteAddress(0, 0),
        ),
    ),
)

_PATHS, _EDGES, _NAMED, _WORDS = (ARRAYS_BASE + at for at in (0x2008, 0x9008, 0x2004, 0xB008))
_ARRAY = CounterLayout(_PATHS, _EDGES, _NAMED, _WORDS, first=(5, 9), names=WORDS)
_TABLE = replace(_ARRAY, path_base=TABLES_BASE)


def accesses(machine: MachineKind, sample: ActionSample) -> Iterator[CounterAccess]:
    """Yield ways in which the code of actions reaches registers and counters."""
    context, own = RoutineContext(machine, None), generators(sample.mode)
    in_memory: tuple[Register | None, ...] = (None,) * (sample.registers or 1)
    held = LOCAL_ORDER[: sample.registers] or in_memory
    for way, registers in product(sample.tables, dict.fromkeys((held, in_memory))):
        table, addressing = way
        layout = _TABLE if table is CounterTable.HASH else _ARRAY
        first, *others = registers
        yield CounterAccess(table, addressing, layout, first, context, own, tuple(others))
