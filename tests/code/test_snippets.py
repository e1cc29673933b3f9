"""Every kind of snippet, executed: it does what its action means, and nothing else.

Random sites (live registers, depth, width), random register states, every table and addressing
mode, path register in a register and on the stack. Checked: counters, path register, all live
registers, condition codes, %y, memory, and that the price is the number of instructions executed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from simprof.profiler.code import hash_routine as hr
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import PATH_SLOT, FrameState, Site, Slot, slots
from simprof.profiler.code.hash_routine import HashTableModel, TableLayout, hash_costs, hash_routine
from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_BASE, TABLES_BASE, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.runtime_code import RESTORE_ROUTINE, restore_routine
from simprof.profiler.code.snippet_parts import HASH_REGISTERS, Body, CounterAccess
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import (
    Action,
    AddRegister,
    CountConstantPath,
    CountEdge,
    CountPath,
    SetRegister,
)
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Item, Register
from simprof.simulator.isa.effects import ALL, CC, ICC, INTEGER, XCC, Y
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State
from tests.support.scheme_code import GENERATORS

R = Register
MACHINES = list(MachineKind)
MODES = [
    (CounterTable.ARRAY, Addressing.ADDRESS),
    (CounterTable.ARRAY, Addressing.INDEX),
    (CounterTable.HASH, None),
]
LAYOUT = CounterLayout(ARRAYS_BASE + 0x2008, ARRAYS_BASE + 0x9008, first=(1, 1))
HASHED = CounterLayout(TABLES_BASE, ARRAYS_BASE + 0x9008)
CONSTANTS = [0, 1, 5, 1023, 1024, 4095, 4096, 70000]


@dataclass
class Case:
    """One snippet at one site, with the machine state to run it from."""

    machine: MachineKind
    access: CounterAccess
    site: Site
    number: int  # path number in the path register before
    state: State

    @property
    def is64(self) -> bool:
        return self.machine is MachineKind.SPARCV9

    @property
    def slot(self) -> Slot:
        return self.site.slots[PATH_SLOT]


def make_bench(machine: MachineKind) -> tuple[CodeBench, dict[str, int]]:
    """Return a bench with the run-time code."""
    bench = CodeBench(machine is MachineKind.SPARCV9)
    items: list[Item] = [*hash_routine(machine, False), *hash_routine(machine, True)]
    labels = bench.place(items, RUNTIME_BASE)
    return bench, labels | bench.place(restore_routine(), RUNTIME_BASE + 1024)


def make_case(rng: random.Random, machine: MachineKind, mode: int, on_stack: bool) -> Case:
    """Return a random case."""
    context = RoutineContext(machine, None)
    table, addressing = MODES[mode]
    hashing = table is CounterTable.HASH
    register = None
    if not on_stack:
        order = (*LOCAL_ORDER, R.G2, R.G4, *(() if hashing else (R.O1, R.O3)))
        register = rng.choice(order)
    density = rng.choice([0.0, 0.3, 0.8, 1.0])
    live = sum(1 << n for n in range(39) if rng.random() < density) & ALL | context.abi.reserved
    if register is not None:
        live &= ~(1 << register)
    frame = FrameState(rng.randrange(2), 0)
    site = Site(live, frame, slots(frame, rng.choice([176, 240, None]), context.abi))
    access = CounterAccess(
        table, addressing, HASHED if hashing else LAYOUT, register, context, GENERATORS
    )
    return Case(machine, access, site, rng.randrange(4000), random_state(rng, machine))


def random_state(rng: random.Random, machine: MachineKind) -> State:
    """Return registers as programs of that width can have them."""
    narrow = machine is MachineKind.SPARCV8
    registers = [rng.getrandbits(32 if narrow or n > R.O7 else 64) for n in range(32)]
    if machine is MachineKind.SPARCV9:
        registers = [rng.getrandbits(64) for _ in range(32)]
    bias = 2047 if machine is MachineKind.SPARCV9 else 0
    registers[0] = 0
    registers[R.SP] = STACK + 0x8000 - bias
    registers[R.FP] = STACK + 0x8400 - bias
    icc = rng.choice([f for f in range(16) if f & 12 != 12])
    return State(registers, icc, rng.randrange(16), rng.getrandbits(32))


def encoded(case: Case, number: int) -> int:
    """Return what the path register holds for `number`."""
    value = case.access.offset + case.access.scale * number
    return value & (0xFFFFFFFFFFFFFFFF if case.is64 else 0xFFFFFFFF)


def slot_address(case: Case, slot: Slot) -> int:
    """Return where a slot is."""
    return case.state.registers[slot.base] + slot.offset


def set_path(case: Case, bench: CodeBench, number: int) -> None:
    """Put a path number into the path register."""
    value = encoded(case, number)
    if case.access.register is not None:
        case.state.registers[case.access.register] = value
    else:
        bench.write(slot_address(case, case.slot), value.to_bytes(8 if case.is64 else 4, "big"))


def get_path(case: Case, bench: CodeBench, after: State) -> int:
    """Return what the path register holds."""
    if case.access.register is not None:
        mask = 0xFFFFFFFFFFFFFFFF if case.is64 else 0xFFFFFFFF
        return after.registers[case.access.register] & mask
    return int.from_bytes(bench.read(slot_address(case, case.slot), 8 if case.is64 else 4), "big")


def check_preserved(case: Case, after: State) -> None:
    """Everything live is as it was."""
    before = case.state
    for n in range(1, 32):
        if not case.site.live >> n & 1:
            continue
        mask = 0xFFFFFFFFFFFFFFFF
        if case.machine is not MachineKind.SPARCV9 and (n >= R.SP or case.machine is MACHINES[2]):
            mask = 0xFFFFFFFF
        assert (after.registers[n] ^ before.registers[n]) & mask == 0, Register(n).text
    assert after.y == before.y
    if case.site.live & ICC or case.machine is not MachineKind.SPARCV8:
        assert after.icc == before.icc
    if case.machine is not MachineKind.SPARCV8:
        assert after.xcc == before.xcc


def check_stack(case: Case, before: bytes, after: bytes) -> None:
    """Only slots of the snippet changed, and what is below %sp."""
    bias = 2047 if case.is64 else 0
    allowed = set(range(case.state.registers[R.SP] + bias - STACK))
    for slot in case.site.slots:
        start = slot_address(case, slot) - STACK
        allowed |= set(range(start, start + 8))
    differ = np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8)
    assert set(np.flatnonzero(differ).tolist()) <= allowed


class Runner:
    """A bench with counters, which snippets are run on one after the other."""

    def __init__(self, machine: MachineKind, seed: int) -> None:
        self.bench, self.symbols = make_bench(machine)
        self.machine = machine
        self.rng = random.Random(seed)
        self.model = HashTableModel(hash_costs(machine))
        self.bench.write(TABLES_BASE, TableLayout(1).initial(TABLES_BASE))
        self.counts: dict[int, int] = {}  # address -> count

    def run(self, case: Case, actions: tuple[Action, ...]) -> Body:
        """Execute the snippet of `actions`, and check everything about it."""
        set_path(case, self.bench, case.number)
        stack = self.bench.read(STACK, 1 << 16)
        body = snippet_body(actions, case.access, case.site)
        outcome = self.bench.run(body.instructions, case.state, self.symbols)
        assert outcome.trap == 0x100 + END_TRAP, [i.text for i in body.instructions]
        number, hashed = self.expect(case, actions)
        assert outcome.executed - hashed == body.cost, [i.text for i in body.instructions]
        if number is not None:
            assert get_path(case, self.bench, outcome.state) == encoded(case, number)
        check_preserved(case, outcome.state)
        check_stack(case, stack, self.bench.read(STACK, 1 << 16))
        self.check_counters()
        return body

    def expect(self, case: Case, actions: tuple[Action, ...]) -> tuple[int | None, int]:
        """Interpret the actions; return the path number afterwards and the routine's cost."""
        number, hashed = case.number, 0
        for action in actions:
            match action:
                case SetRegister(constant):
                    number = constant
                case AddRegister(constant):
                    number += constant
                case CountPath(constant, back):
                    hashed += self.expect_count(case, number + constant, back)
                case CountConstantPath(constant, back):
                    hashed += self.expect_count(case, constant, back)
                case CountEdge(counter):
                    self.bump(case.access.layout.edge_counter(counter))
        return number, hashed

    def expect_count(self, case: Case, number: int, back: bool) -> int:
        if case.access.table is CounterTable.HASH:
            return self.model.count(number, back)
        self.bump(case.access.layout.path_counter(number))
        return 0

    def bump(self, address: int) -> None:
        self.counts[address] = self.counts.get(address, 0) + 1

    def check_counters(self) -> None:
        for address, count in self.counts.items():
            assert self.bench.word(address) == count
        for key, count in self.model.counts.items():
            node = (
                TABLES_BASE
                + hr.TableLayout().pool
                + hr.TableLayout().node_size * list(self.model.counts).index(key)
            )
            assert (self.bench.word(node), self.bench.word(node + 4)) == (key, count)

    def check_total(self) -> None:
        """No other counter was touched."""
        words = np.frombuffer(self.bench.read(ARRAYS_BASE, 1 << 20), ">u4")
        assert int(words.sum()) == sum(self.counts.values())


def random_actions(rng: random.Random, case: Case) -> tuple[Action, ...]:
    """Return one of the action lists that plans have; sums may be negative until counted."""
    constant = rng.choice(CONSTANTS)
    case.number = rng.randrange(-constant, 4000)
    back = rng.random() < 0.5
    kinds: list[tuple[Action, ...]] = [
        (SetRegister(constant),),
        (SetRegister(-constant),),
        (AddRegister(constant),),
        (AddRegister(-constant),),
        (CountPath(constant, back),),
        (CountConstantPath(constant, back),),
        (CountEdge(rng.randrange(2000)),),
        (CountPath(constant, back), SetRegister(rng.choice(CONSTANTS))),
        (CountConstantPath(constant, back), SetRegister(0)),
        (SetRegister(3), CountEdge(2), AddRegister(constant)),
    ]
    return rng.choice(kinds)


@pytest.mark.parametrize("on_stack", [False, True], ids=["register", "stack"])
@pytest.mark.parametrize("mode", range(3), ids=["addressing", "indexing", "hash"])
@pytest.mark.parametrize("machine", MACHINES)
def test_snippets_do_what_they_mean(machine: MachineKind, mode: int, on_stack: bool) -> None:
    runner = Runner(machine, 10 * mode + on_stack)
    costs = set()
    for _ in range(250):
        case = make_case(runner.rng, machine, mode, on_stack)
        body = runner.run(case, random_actions(runner.rng, case))
        costs.add(body.cost)
    runner.check_total()
    assert len(costs) > 4


def free_case(machine: MachineKind, mode: int, register: Register | None = R.L0) -> Case:
    """Return a case with every register free."""
    case = make_case(random.Random(1), machine, mode, register is None)
    context = RoutineContext(machine, None)
    layout = HASHED if mode == 2 else LAYOUT
    access = CounterAccess(*MODES[mode], layout, register, context, GENERATORS)
    frame = FrameState(1, 0)
    site = Site(context.abi.reserved, frame, slots(frame, None, context.abi))
    return Case(machine, access, site, 7, case.state)


FREE_COSTS: list[tuple[Action, int, int]] = [  # the table of snippets_paths
    (SetRegister(9), 2, 1),
    (AddRegister(9), 1, 1),
    (AddRegister(-9), 1, 1),
    (CountPath(9), 3, 6),
    (CountPath(0), 3, 6),
    (CountConstantPath(9), 4, 4),
    (CountEdge(9), 4, 4),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("action", "addressing", "indexing"), FREE_COSTS, ids=str)
def test_free_costs(machine: MachineKind, action: Action, addressing: int, indexing: int) -> None:
    runner = Runner(machine, 1)
    for mode, cost in ((0, addressing), (1, indexing)):
        assert runner.run(free_case(machine, mode), (action,)).cost == cost


def test_initialisation_with_zero_low_bits_is_one_instruction() -> None:
    case = free_case(MachineKind.SPARCV9, 0)
    aligned = CounterAccess(
        *MODES[0], CounterLayout(ARRAYS_BASE, ARRAYS_BASE), R.L0, case.access.context, GENERATORS
    )
    assert snippet_body((SetRegister(0),), aligned, case.site).cost == 1
    assert snippet_body((SetRegister(256),), aligned, case.site).cost == 1


@pytest.mark.parametrize("machine", MACHINES)
def test_free_hash_call(machine: MachineKind) -> None:
    case = free_case(machine, 2)
    body = Runner(machine, 1).run(case, (CountPath(9, True),))
    assert [i.text for i in body.instructions] == [
        "add %l0, 9, %o0",
        "call hash_count_back",
        "sethi %hi(0x60000000), %o1",
    ]
    assert Runner(machine, 1).run(case, (CountPath(100000),)).cost == 5
    assert Runner(machine, 1).run(case, (CountConstantPath(5),)).cost == 3


@pytest.mark.parametrize("machine", MACHINES)
def test_each_missing_register_costs_a_save_and_a_restore(machine: MachineKind) -> None:
    runner = Runner(machine, 1)
    free = free_case(machine, 0)
    for kept, extra in ((INTEGER & ~(1 << R.G1), 2), (INTEGER, 4)):
        site = Site(kept & ~(1 << R.L0), free.site.frame, free.site.slots)
        case = Case(machine, free.access, site, 7, free.state)
        assert runner.run(case, (CountEdge(1),)).cost == 4 + extra


@pytest.mark.parametrize("mode", range(3))
def test_stack_register_pays_for_its_loads_and_stores(mode: int) -> None:
    machine = MachineKind.SPARCV9
    runner = Runner(machine, 1)
    for action, loads in ((SetRegister(9), 1), (AddRegister(9), 2), (CountPath(9), 1)):
        in_register = runner.run(free_case(machine, mode), (action,)).cost
        assert runner.run(free_case(machine, mode, None), (action,)).cost == in_register + loads
    assert runner.run(free_case(machine, 1, None), (SetRegister(0),)).cost == 1


def test_paths_beyond_32_bits_in_64_bit_code() -> None:
    runner = Runner(MachineKind.SPARCV9, 1)
    for register in (R.L0, None):
        for number in (1 << 40, -(1 << 40) + 5, 0x123456789ABC):
            case = free_case(MachineKind.SPARCV9, 1, register)
            runner.run(case, (SetRegister(number),))
            runner.run(case, (AddRegister(number),))


def test_v8_keeps_every_set_of_flags_over_a_hash_call() -> None:
    runner = Runner(MachineKind.SPARCV8, 1)
    free = free_case(MachineKind.SPARCV8, 2)
    costs = set()
    for icc in (f for f in range(16) if f & 12 != 12):
        for live in (CC | free.site.live, ALL & ~Y & ~(1 << R.L0)):
            site = Site(live, free.site.frame, free.site.slots)
            state = State(list(free.state.registers), icc, 0, 0)
            case = Case(MachineKind.SPARCV8, free.access, site, 7, state)
            costs.add(runner.run(case, (CountPath(3),)).cost)
    assert len(costs) == 2
    assert RESTORE_ROUTINE in runner.symbols


def test_v9_never_touches_conditions() -> None:
    assert XCC & CC
    for machine in (MachineKind.SPARCV9, MachineKind.SPARCV8PLUS):
        free = free_case(machine, 2)
        site = Site(free.site.live | CC, free.site.frame, free.site.slots)
        plain = snippet_body((CountPath(3),), free.access, free.site)
        assert snippet_body((CountPath(3),), free.access, site) == plain


def test_hash_registers_are_the_convention() -> None:
    assert HASH_REGISTERS == (R.O0, R.O1, R.O7)
