"""Instrumented routines, executed: their memory read back is what the run was simulated to count.

The code of every mode runs on the emulator, on routines of all kinds (`code_lab`), in memory that
`program_memory` describes. A log of the edges crossed gives what each counter must hold.
"""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from simprof.profiler.code.layout import (
    ARRAYS_BASE,
    RUNTIME_DATA,
    TABLE_SPAN,
    TABLES_BASE,
    CounterSpace,
)
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import BufferUse, CounterTable, InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions, TableChoice
from simprof.profiler.rewriting.elsewhere import counter_file as cf
from simprof.profiler.rewriting.elsewhere.memory import (
    MemoryCounters,
    PlacedPlan,
    in_memory,
    placed,
    program_memory,
    read_counters,
)
from simprof.profiler.rewriting.elsewhere.runtime import StartMemory
from simprof.profiler.schemes.bittrace import codes as branch_codes
from simprof.profiler.schemes.bittrace.code import CountWords
from simprof.profiler.schemes.cs6120.code import PAIRS
from simprof.profiler.schemes.registry import definition, make_plan
from simprof.profiler.schemes.tpp.code import COLD_COUNTER
from simprof.profiler.schemes.tracing.code import TRACE
from simprof.simulator.binary.program import PAGE_SIZE, MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Label, Register
from tests.support.code_lab import MACHINES, Lab
from tests.support.codegen_modes import SETTINGS as COMMON
from tests.support.codegen_modes import crossings_of, paths_of, recursive, walks, with_shared_slots
from tests.support.counter_images import content_of, header_fields, prepare
from tests.support.rewriter import Rewriter
from tests.support.turns import turns

R = Register
SETTINGS = {
    **COMMON,
    "calls": ("calls", SchemeOptions()),
    "calls-optimal": ("calls-optimal", SchemeOptions()),
}
TPP = [name for name in SETTINGS if name.startswith("tpp")]


@cache
def lab_of(machine: MachineKind, seed: int) -> tuple[Lab, tuple[int, ...]]:
    """Return a routine, and the edges that it crosses."""
    lab = Lab(machine, seed)
    return lab, lab.executed_edges()


def play(
    lab: Lab, edges: tuple[int, ...], name: str, guide: tuple[int, ...] | None = None
) -> tuple[dict[int, PlacedPlan], RoutineCounters]:
    """Run one setting's code; return the plans that took memory, and what number 1 must count.

    Number 0 is of a routine with the same plan that is never entered. `guide`: the edges that
    another run crossed, whose profile guides the plan.
    """
    mode, options = SETTINGS[name]
    guides = crossings_of(lab, guide or edges), paths_of(lab, walks(lab, guide or edges))
    made = make_plan(lab.cfg, mode, options, None, *guides)
    space, scheme = CounterSpace(), definition(mode)
    codes = {number: placed(scheme, made, space.place(made.plan)) for number in (0, 1)}
    prepare(lab.bench, program_memory(codes))
    generated = lab.instrumented(made.plan, codes[1].layout, scheme.options(options).register_use)
    lab.execute(Rewriter(lab.items, lab.cfg, lab.context, generated).rewrite())
    counted = execute(lab.cfg, made.plan, [ExecutedWalk(walk) for walk in walks(lab, edges)])
    return codes, counted


def check(
    lab: Lab, edges: tuple[int, ...], name: str, guide: tuple[int, ...] | None = None
) -> MemoryCounters:
    """Memory, and the counter file made of it, hold what the run has counted."""
    codes, counted = play(lab, edges, name, guide)
    expected = in_memory(codes[1].plan, counted)
    untouched = MemoryCounters({}, (0,) * len(expected.events))
    assert read_counters(codes[1], lab.bench.read) == expected
    assert read_counters(codes[0], lab.bench.read) == untouched
    regions = program_memory(codes).dumped
    program = cf.InstrumentedProgram("f", "0", lab.machine)
    header = cf.CounterRecipe(program=program, mode=name, options={}, regions=regions).header()
    width = 8 if lab.machine is MachineKind.SPARCV9 else 4
    content = content_of(
        header,
        header_fields(header)["regions"],
        lab.bench.read,
        (lab.machine.value == "", 9),
        width,
    )
    file = cf.parse(content)
    assert file.frames == ((0, 9),)
    assert read_counters(codes[1], file.read) == expected
    assert read_counters(codes[0], file.read) == untouched
    return expected


@pytest.mark.seeds(range(6), few=2)
@pytest.mark.parametrize(("machine", "name"), turns(MACHINES, SETTINGS))
def test_memory_reads_back_as_what_was_counted(name: str, machine: MachineKind, seed: int) -> None:
    lab, edges = lab_of(machine, seed)
    check(lab, edges, name)


@pytest.mark.parametrize(("name", "machine"), turns(SETTINGS, MACHINES, few=28))
def test_recursion_and_shared_delay_slots(name: str, machine: MachineKind) -> None:
    lab = Lab(machine, 0, routine=recursive())
    lab.state.registers[R.O0] = 4
    check(lab, lab.executed_edges(), name)
    lab = Lab(machine, 0, routine=with_shared_slots(True))
    check(lab, lab.executed_edges(), name)


@pytest.mark.long
def test_the_sample_counts_something_in_every_setting() -> None:
    for name in SETTINGS:
        found = [check(*lab_of(MachineKind.SPARCV9, seed), name) for seed in range(12)]
        counted = any(sum(each.paths.values()) or sum(each.events) for each in found)
        assert counted or name in ("tpp-cold", "tpp-literal")  # all of their paths are obvious


def diamonds(count: int) -> list[Item]:
    """Return a leaf of so many decisions one after the other, on the bits of %o0, twice."""
    items: list[Item] = [asm.mov(2, R.G4), Label("again"), asm.mov(R.O0, R.G1)]
    for number in range(count):
        items += [
            asm.arithmetic("andcc", R.G1, 1, R.G0),
            asm.branch("e", f"join{number}"),
            asm.shift("srl", R.G1, 1, R.G1),
            asm.arithmetic("add", R.O1, number, R.O1),
            Label(f"join{number}"),
        ]
    items += [asm.arithmetic("subcc", R.G4, 1, R.G4), asm.branch("ne", "again"), asm.nop()]
    return [*items, asm.retl(), asm.nop()]


@pytest.mark.parametrize(("count", "words"), [(5, 1), (10, 2), (17, 3), (24, 4)])
@pytest.mark.parametrize("machine", MACHINES)
def test_keys_of_several_words(
    machine: MachineKind, count: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With words of 8 bits, of which one or two begin, so many decisions take so many words."""
    monkeypatch.setattr(branch_codes, "WORD_BITS", 8)
    lab = Lab(machine, 0, routine=diamonds(count))
    options = SchemeOptions(path_limit=1 << 40, table=TableChoice.HASH)
    monkeypatch.setitem(SETTINGS, "long", ("bittrace", options))
    for number in (0, 0x15B2A, 0x7FFFFFFF):
        lab.state.registers[R.O0] = number
        edges = lab.executed_edges()
        codes, _ = play(lab, edges, "long")
        assert codes[1].table is not None and codes[1].table.words == words
        expected = check(lab, edges, "long")
        assert sum(expected.paths.values()) == 2


@pytest.mark.parametrize("machine", MACHINES)
def test_cold_paths(machine: MachineKind) -> None:
    """The plan is guided by a run in which all decisions fell one way."""
    lab = Lab(machine, 0, routine=diamonds(6))
    lab.state.registers[R.O0] = 0
    guide = lab.executed_edges()
    lab.state.registers[R.O0] = 0b101
    edges = lab.executed_edges()
    cold = {name: check(lab, edges, name, guide).paths.get(COLD_COUNTER) for name in TPP}
    # Where the only hot path is obvious and that is not counted, cold ones have no code either.
    assert {name for name, count in cold.items() if count} == {
        "tpp-hash", "tpp-obvious", "tpp-branching", "tpp-branching-hash", "tpp-first",
        "tpp-spilled",
    }  # fmt: skip


# By hand


def plan_of(**fields: object) -> InstrumentationPlan:
    empty = InstrumentationPlan({}, False, CounterTable.NONE, 0, None, 0)
    return replace(empty, **fields)


def test_program_memory_of_arrays_alone() -> None:
    """3 path counters and the cold one below them, 2 edge counters: 8 + 16 + 8 bytes."""
    space = CounterSpace()
    plan = plan_of(
        table=CounterTable.ARRAY, path_counters=3, edge_counters=2, named_counters=("cold",)
    )
    codes = {number: PlacedPlan(plan, space.place(plan)) for number in (4, 7)}
    assert program_memory(codes) == StartMemory(
        regions=((RUNTIME_DATA, PAGE_SIZE), (ARRAYS_BASE, PAGE_SIZE)),
        fills=(),
        dumped=(cf.FileRegion(cf.RegionKind.ARRAY, ARRAYS_BASE, 64),),
    )


def test_program_memory_of_tables() -> None:
    """One region each, mapped together."""
    space = CounterSpace()
    plans = [
        plan_of(table=CounterTable.HASH, actions={0: (CountWords(words),)}) for words in (1, 3)
    ]
    memory = program_memory({n: PlacedPlan(p, space.place(p)) for n, p in enumerate(plans)})
    assert memory.regions == ((RUNTIME_DATA, PAGE_SIZE), (TABLES_BASE, 2 * TABLE_SPAN))
    assert memory.dumped == tuple(
        cf.FileRegion(cf.RegionKind.TABLE, TABLES_BASE + n * TABLE_SPAN, TABLE_SPAN, words)
        for n, words in enumerate((1, 3))
    )
    (first, one), (second, three) = memory.fills
    assert (first, len(one)) == (TABLES_BASE, 2 * 12 + 8 + 2048)
    assert (second, len(three)) == (TABLES_BASE + TABLE_SPAN, 2 * 20 + 8 + 2048)
    assert one[28:32] == (TABLES_BASE + 2080).to_bytes(4, "big")
    assert three[44:48] == (TABLES_BASE + TABLE_SPAN + 2096).to_bytes(4, "big")


def test_program_memory_of_a_trace_and_of_nothing() -> None:
    plan = plan_of(buffers=(BufferUse(TRACE, (3,)),))
    memory = program_memory({0: PlacedPlan(plan, CounterSpace().place(plan))})
    buffer = (0x5000_C000, 0x4000)
    position = cf.FileRegion(cf.RegionKind.ARRAY, 0x5000_E008, 4)
    assert memory == StartMemory(((RUNTIME_DATA, PAGE_SIZE), buffer), (), (position,))
    assert program_memory({}) == StartMemory(((RUNTIME_DATA, PAGE_SIZE),), (), ())


def test_simulated_counters_wrap_as_words_do() -> None:
    """A counter of 2^32 executions is 0 in memory, and absent among the paths."""
    plan = plan_of(edge_counters=2, buffers=(BufferUse(PAIRS, (5,)), BufferUse(TRACE, (6,))))
    counters = RoutineCounters({0: 1 << 32, 3: (1 << 32) + 5, 9: 2}, (1 << 33, 7, 8, 9))
    assert in_memory(plan, counters) == MemoryCounters({3: 5, 9: 2}, (0, 7, 8))
