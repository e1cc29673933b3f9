"""Shared by tests: what `tests/code/test_snippets.py` and others use."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from simprof.profiler.code import hash_routine as hr
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import (
    PATH_SLOT,
    EdgePlace,
    FrameState,
    Site,
    Slot,
    Where,
    slots,
)
from simprof.profiler.code.hash_routine import HashTableModel, TableLayout, hash_costs, hash_routine
from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_BASE, TABLES_BASE, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.runtime_code import restore_routine
from simprof.profiler.code.snippet_parts import Body, CounterAccess
from simprof.profiler.code.snippets import Snippet
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
from simprof.simulator.isa.effects import ALL, ICC
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


def fixed(body: Body) -> Snippet:
    """Return a block's code that is given, and not generated."""
    context = RoutineContext.free()
    access = CounterAccess(CounterTable.NONE, None, CounterLayout(), None, context, {})
    snippet = Snippet(EdgePlace(Where.BLOCK, -1, 0, 1, context.free_site), (), access, body)
    snippet.__dict__["instructions"] = body.instructions
    return snippet


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


def free_case(machine: MachineKind, mode: int, register: Register | None = R.L0) -> Case:
    """Return a case with every register free."""
    case = make_case(random.Random(1), machine, mode, register is None)
    context = RoutineContext(machine, None)
    layout = HASHED if mode == 2 else LAYOUT
    access = CounterAccess(*MODES[mode], layout, register, context, GENERATORS)
    frame = FrameState(1, 0)
    site = Site(context.abi.reserved, frame, slots(frame, None, context.abi))
    return Case(machine, access, site, 7, case.state)
