"""The fixed pieces of instrumentation whose code the cost model's digest is made of.

Every kind of action is generated with constants on both sides of each limit of the instruction
set, for every machine and kind of table, where all registers are free, where none is, and with
path registers on the stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from profiler.code.context import ProgramContexts, RoutineContext, Site
from profiler.code.frames import FrameState, slots
from profiler.code.generators import Scheme
from profiler.code.layout import ARRAYS_BASE, TABLES_BASE, CounterLayout
from profiler.code.registers import LOCAL_ORDER, mask
from profiler.plan.plan import (
    Action,
    AddRegister,
    Addressing,
    CountColdPath,
    CountConstantPath,
    CountEdge,
    CountHotPath,
    CountPath,
    InstrumentationPlan,
    Poison,
    SetRegister,
    ShiftBits,
    Table,
    WriteTrace,
)
from profiler.recovery.recovery import RecoveredProgram, recover
from profiler.schemes.bittrace.word_actions import CountWords, ShiftWord, StartWords
from profiler.schemes.cs6120.edge_log import LogDestination, LogDisrupt, LogSource
from profiler.schemes.kiter.actions import (
    AddAccumulators,
    CountIterations,
    EnterLoop,
    LeaveLoop,
    NextIteration,
)
from profiler.schemes.tracing.actions import WriteTarget
from simulator.binary.program import (
    Binding,
    MachineKind,
    Program,
    Range,
    Segment,
    SourceLine,
    Symbol,
)
from simulator.isa import assembler as asm
from simulator.isa.assembler import Register
from simulator.isa.assembly import Item, Label, assemble
from simulator.isa.effects import ALL

R = Register

_ARRAY = CounterLayout(
    ARRAYS_BASE + 0x2008, ARRAYS_BASE + 0x9008, ARRAYS_BASE + 0x2004, ARRAYS_BASE + 0xB008, 5, 9
)
_TABLE = replace(_ARRAY, path_base=TABLES_BASE)
_ADDRESS = (Table.ARRAY, Addressing.ADDRESS)
_INDEX = (Table.ARRAY, Addressing.INDEX)
_HASH = (Table.HASH, None)
_NONE = (Table.NONE, None)
_PATHS = (_ADDRESS, _INDEX, _HASH)
_CONSTANTS = (0, 1, 1023, 1024, 4096, 1 << 20)


@dataclass(frozen=True)
class Samples:
    """Actions of one kind, the kinds of tables that they are used with, and the registers."""

    actions: tuple[Action, ...]
    tables: tuple[tuple[Table, Addressing | None], ...] = (_NONE,)
    registers: int = 0


def _of(make: type, *constants: int) -> tuple[Action, ...]:
    return tuple(make(constant) for constant in constants or _CONSTANTS)


SAMPLES: Mapping[type, Samples] = MappingProxyType(
    {
        SetRegister: Samples(_of(SetRegister), _PATHS, 1),
        AddRegister: Samples((*_of(AddRegister), AddRegister(-1), AddRegister(-4096)), _PATHS, 1),
        CountPath: Samples((*_of(CountPath), CountPath(0, on_back_edge=True)), _PATHS, 1),
        CountConstantPath: Samples(
            (*_of(CountConstantPath), CountConstantPath(0, on_back_edge=True)), _PATHS, 1
        ),
        CountEdge: Samples(_of(CountEdge, 0, 300)),
        Poison: Samples((Poison(),), _PATHS, 1),
        CountHotPath: Samples(
            (*_of(CountHotPath), CountHotPath(0, on_back_edge=True, hashed=True)), _PATHS, 1
        ),
        CountColdPath: Samples((CountColdPath(),), _PATHS, 1),
        ShiftBits: Samples(
            (ShiftBits(0, 1), ShiftBits(1, 1), ShiftBits(5000, 13)), (_INDEX, _HASH), 1
        ),
        StartWords: Samples((StartWords(0, 0, 1, 2), StartWords(0, 1, 1, 2)), (_HASH,), 2),
        ShiftWord: Samples((ShiftWord(0, 1, 1), ShiftWord(1, 0, 3)), (_HASH,), 2),
        CountWords: Samples((CountWords(1), CountWords(2), CountWords(2, True)), (_HASH,), 2),
        EnterLoop: Samples((EnterLoop(2),), _PATHS, 3),
        AddAccumulators: Samples(
            (
                AddAccumulators((0, 7), (0, 7)),
                AddAccumulators((3, 7), (5, 7)),
                AddAccumulators((0, 5000), (9000, 5000)),
            ),
            _PATHS,
            3,
        ),
        CountIterations: Samples((CountIterations(2, 0), CountIterations(2, 5000)), _PATHS, 3),
        NextIteration: Samples((NextIteration(2, 0), NextIteration(2, 5000)), _PATHS, 3),
        LeaveLoop: Samples((LeaveLoop(2),), _PATHS, 3),
        WriteTrace: Samples(
            (
                WriteTrace(0, 8),
                WriteTrace(0x1234, 16),
                *(WriteTrace(1, width, packed=True) for width in (1, 3, 8, 11)),
            )
        ),
        WriteTarget: Samples(
            (
                WriteTarget(0),
                WriteTarget(0, packed=True),
                WriteTarget(0, token=WriteTrace(5, 8)),
            )
        ),
        LogSource: Samples(_of(LogSource, 0, 77)),
        LogDestination: Samples(_of(LogDestination, 0, 77)),
        LogDisrupt: Samples(_of(LogDisrupt, 0, 77)),
    }
)
"""Kind of action -> its samples."""

LONG_LOOPS = Samples(
    (
        EnterLoop(4),
        AddAccumulators((1, 2, 3, 4), (9, 2, 7, 4)),
        CountIterations(4, 1),
        NextIteration(4, 3),
        LeaveLoop(4),
    ),
    (_INDEX, _HASH),
    5,
)
"""kiter with k > 2 takes code of its own."""


def samples_of(kind: type) -> Iterator[tuple[Action, Samples]]:
    """Yield the samples of a kind of action; none for a kind that is not listed."""
    for group in (SAMPLES.get(kind), LONG_LOOPS):
        if group is not None:
            yield from ((action, group) for action in group.actions if type(action) is kind)


def sites(machine: MachineKind, group: Samples) -> Iterator[tuple[Scheme, Site]]:
    """Yield the places for which samples are generated, and the schemes that they belong to."""
    context = RoutineContext(machine, None)
    inside, leaf = FrameState(1, 0), FrameState(0, 0)
    in_frame = slots(inside, 240, context.abi)
    registers = LOCAL_ORDER[: group.registers]
    everything = ALL | context.abi.reserved
    places = (
        (Site(context.abi.reserved, inside, in_frame), registers),
        (Site(everything & ~mask(*registers), inside, in_frame), registers),
        (Site(everything, inside, in_frame), (None,) * group.registers),
        (Site(context.abi.reserved, leaf, slots(leaf, None, context.abi)), registers),
    )
    for table, addressing in group.tables:
        layout = _TABLE if table is Table.HASH else _ARRAY
        for site, path in places:
            first, *others = path or (None,)
            yield Scheme(table, addressing, layout, first, context, tuple(others)), site


class _NoLines:
    """A line table that knows nothing."""

    def find(self, address: int) -> SourceLine | None:
        """Return nothing."""
        return None


_BASE = 0x100000


def sample_program(machine: MachineKind) -> RecoveredProgram:
    """Return a program whose routines have an edge of every kind, and few registers to spare."""
    items: list[Item] = []
    starts: list[str] = []
    for name, body in (("windowed", _windowed()), ("leaf", _leaf())):
        starts.append(name)
        items += [Label(name), *body]
    code = assemble(items, _BASE)
    end = _BASE + len(code.code)
    bounds = [*(code.labels[name] for name in starts), end]
    symbols = tuple(
        Symbol(name, bounds[k], bounds[k + 1] - bounds[k], Binding.GLOBAL, True)
        for k, name in enumerate(starts)
    )
    return recover(
        Program(
            path=Path("sample"),
            sha256="",
            machine=machine,
            entry=_BASE,
            segments=(Segment(_BASE, code.code, len(code.code), True, False, True),),
            code=(Range(_BASE, end),),
            late_code=(),
            symbols=symbols,
            load_bias=0,
            program_headers_address=0,
            program_header_size=56,
            program_header_count=1,
            stack_executable=False,
            lines=_NoLines(),
        )
    )


def _windowed() -> Sequence[Item]:
    """A loop with a call, a branch that annuls, live condition codes and a join."""
    return (
        asm.arithmetic("save", R.SP, -240, R.SP),
        asm.mov(9, R.L0),
        Label("w.loop"),
        asm.arithmetic("subcc", R.L0, 1, R.L0),
        asm.branch("neg", "w.out", True),
        asm.mov(3, R.I0),
        asm.branch("e", "w.skip", False),
        asm.nop(),
        asm.arithmetic("addc", R.L0, R.I0, R.L1),
        asm.call("leaf"),
        asm.mov(R.L1, R.O0),
        Label("w.skip"),
        asm.branch("a", "w.loop", False),
        asm.arithmetic("add", R.I0, R.L0, R.I0),
        Label("w.out"),
        asm.ret(),
        asm.restore(),
    )


def _leaf() -> Sequence[Item]:
    """A leaf whose registers are nearly all live."""
    outs = (R.O1, R.O2, R.O3, R.O4, R.O5, R.G1, R.G2, R.G3, R.G4)
    return (
        *(asm.mov(k, register) for k, register in enumerate(outs)),
        asm.cmp(R.O0, 4),
        Label("l.again"),
        asm.branch("g", "l.big", False),
        asm.arithmetic("add", R.O1, R.O2, R.O1),
        asm.arithmetic("subcc", R.O0, 1, R.O0),
        asm.branch("ne", "l.again", True),
        asm.arithmetic("add", R.O3, R.O4, R.O3),
        Label("l.big"),
        *(asm.arithmetic("xor", R.O0, register, R.O0) for register in outs),
        asm.retl(),
        asm.nop(),
    )


def sample_plans(edges: int, blocks: int) -> Iterator[InstrumentationPlan]:
    """Yield plans that put code on every edge, and on every block of a graph."""
    counts = {edge: (CountEdge(edge),) for edge in range(edges)}
    in_blocks = {block: (CountEdge(block),) for block in range(blocks)}
    yield InstrumentationPlan(counts, False, Table.NONE, 0, None, edges)
    yield InstrumentationPlan({}, False, Table.NONE, 0, None, blocks, blocks=in_blocks)
    yield InstrumentationPlan({}, False, Table.NONE, 0, None, blocks, block_ends=in_blocks)
    for table, addressing in _PATHS:
        path = {edge: (CountPath(edge), SetRegister(edge)) for edge in range(edges)}
        yield InstrumentationPlan(path, True, table, 2 * edges, addressing, 0)


def sample_contexts(machine: MachineKind) -> tuple[RecoveredProgram, ProgramContexts]:
    """Return the sample program and what is known of its routines' code."""
    recovered = sample_program(machine)
    return recovered, ProgramContexts(recovered)
