"""The fixed pieces of instrumentation whose code the cost model's digest is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts, RoutineContext
from simprof.profiler.code.frames import FrameState, Site, slots
from simprof.profiler.code.layout import ARRAYS_BASE, TABLES_BASE, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER, mask
from simprof.profiler.code.snippet_parts import CounterAccess, Generators
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.simulator.binary.program import (
    Binding,
    MachineKind,
    Program,
    Range,
    Segment,
    Symbol,
)
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register, assemble
from simprof.simulator.isa.effects import ALL

R = Register

_PATHS, _EDGES, _NAMED, _WORDS = (ARRAYS_BASE + at for at in (0x2008, 0x9008, 0x2004, 0xB008))
_ARRAY = CounterLayout(_PATHS, _EDGES, _NAMED, _WORDS, first=(5, 9))
_TABLE = replace(_ARRAY, path_base=TABLES_BASE)
BY_ADDRESS = (CounterTable.ARRAY, Addressing.ADDRESS)
BY_INDEX = (CounterTable.ARRAY, Addressing.INDEX)
IN_HASH_TABLE = (CounterTable.HASH, None)
NO_TABLE = (CounterTable.NONE, None)
PATH_TABLES = (BY_ADDRESS, BY_INDEX, IN_HASH_TABLE)
_CONSTANTS = (0, 1, 1023, 1024, 4096, 1 << 20)


class Samples(Struct, frozen=True):
    """Actions of one kind, the kinds of tables that they are used with, registers, words."""

    actions: tuple[Action, ...]
    tables: tuple[tuple[CounterTable, Addressing | None], ...] = (NO_TABLE,)
    registers: int = 0
    words: tuple[str, ...] = ()  # as `InstrumentationPlan.words`


def samples(make: type, *constants: int) -> tuple[Action, ...]:
    """Return actions of one kind with `constants`, by default on both sides of each limit."""
    return tuple(make(constant) for constant in constants or _CONSTANTS)


def _of_paths(make: type, *more: Action) -> Sequence[Samples]:
    return (Samples((*samples(make), *more), PATH_TABLES, 1),)


# Kind of action -> its samples, for the actions of `plan.plan`.
SAMPLES: Mapping[type, Sequence[Samples]] = MappingProxyType(
    {
        SetRegister: _of_paths(SetRegister),
        AddRegister: _of_paths(AddRegister, AddRegister(-1), AddRegister(-4096)),
        CountPath: _of_paths(CountPath, CountPath(0, on_back_edge=True)),
        CountConstantPath: _of_paths(CountConstantPath, CountConstantPath(0, on_back_edge=True)),
        CountEdge: (Samples(samples(CountEdge, 0, 300)),),
    }
)


# Every kind of action is generated with constants on both sides of each limit of the instruction
# set, for every machine and kind of table, where all registers are free, where none is, and with
# path registers on the stack.
def sites(
    machine: MachineKind, group: Samples, generators: Generators
) -> Iterator[tuple[CounterAccess, Site]]:
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
        layout = replace(_TABLE if table is CounterTable.HASH else _ARRAY, names=group.words)
        for site, path in places:
            first, *others = path or (None,)
            access = CounterAccess(
                table, addressing, layout, first, context, generators, tuple(others)
            )
            yield access, site


_BASE = 0x100000


def sample_program(machine: MachineKind) -> ProgramGraphs:
    """Return a program whose routines have an edge of every kind, and few registers to spare."""
    code = assemble([Label("windowed"), *_windowed(), Label("leaf"), *_leaf()], _BASE)
    start, end = code.labels["leaf"], _BASE + len(code.code)
    symbols = (
        Symbol("windowed", _BASE, start - _BASE, Binding.GLOBAL, True),
        Symbol("leaf", start, end - start, Binding.GLOBAL, True),
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
    yield InstrumentationPlan(counts, False, CounterTable.NONE, 0, None, edges)
    yield InstrumentationPlan({}, False, CounterTable.NONE, 0, None, blocks, blocks=in_blocks)
    yield InstrumentationPlan({}, False, CounterTable.NONE, 0, None, blocks, block_ends=in_blocks)
    for table, addressing in PATH_TABLES:
        path = {edge: (CountPath(edge), SetRegister(edge)) for edge in range(edges)}
        yield InstrumentationPlan(path, True, table, 2 * edges, addressing, 0)


def sample_contexts(machine: MachineKind) -> tuple[ProgramGraphs, ProgramContexts]:
    """Return the sample program and what is known of its routines' code."""
    recovered = sample_program(machine)
    return recovered, ProgramContexts(recovered)
