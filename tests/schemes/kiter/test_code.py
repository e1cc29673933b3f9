"""The code of kiter's actions, executed from random states, against `Action.execute`."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from simprof.profiler.code import hash_routine as hr
from simprof.profiler.code.frames import path_words
from simprof.profiler.code.hash_routine import HashTableModel, TableLayout, hash_costs
from simprof.profiler.code.layout import ARRAYS_BASE, TABLES_BASE
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.runtime_code import runtime_code
from simprof.profiler.code.snippet_parts import Body
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import Action, AddRegister, CountPath, Execution, SetRegister
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.kiter.code import (
    AddAccumulators,
    BeginPath,
    CountIterations,
    EnterLoop,
    LeaveLoop,
    NextIteration,
    RestoreRegion,
    SaveRegion,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Register
from tests.support.code_bench import END_TRAP, CodeBench, State, runtime_symbols
from tests.support.scheme_code import ROUTINES
from tests.support.snippets import MACHINES, Case, check_preserved, free_case, make_case
from tests.support.turns import turns

R = Register
LARGE = [0, 0, 1, 7, -3, 1023, -1023, 4095, 5000, -70000]


@dataclass
class Sample:
    """A snippet, where it is, and the state of the activation before."""

    case: Case
    k: int
    actions: tuple[Action, ...]
    values: list[int]  # c[0] .. c[K-1], itr; garbage where dead
    inside: bool  # in the loop before

    @property
    def live(self) -> range:
        return range(self.values[-1] + 1) if self.inside else range(1)


class Bench:
    """Executes samples one after the other."""

    def __init__(self, machine: MachineKind) -> None:
        self.machine = machine
        self.is64 = machine is MachineKind.SPARCV9
        self.bench = CodeBench(self.is64)
        for assembly in runtime_code(machine, ROUTINES):
            self.bench.write(assembly.base, assembly.code)
        self.symbols = runtime_symbols(machine, ROUTINES)
        self.model = HashTableModel(hash_costs(machine))
        self.bench.write(TABLES_BASE, TableLayout(1).initial(TABLES_BASE))

    def encode(self, sample: Sample, number: int) -> int:
        """What path register `number` holds."""
        value = sample.values[number]
        if number == len(sample.values) - 1:
            return value - (sample.k - 1)
        return sample.case.access.offset + sample.case.access.scale * value

    def addresses(self, case: Case) -> list[int]:
        """Addresses of the path registers in memory."""
        access = case.access
        count = access.registers.count(None)
        words = path_words(
            case.site, access.context.abi, count, access.mixed, access.layout.words_base
        )
        return [case.state.registers[word.base] + word.offset for word in words]

    def put(self, sample: Sample) -> None:
        """Set the path registers."""
        case, memory = sample.case, iter(self.addresses(sample.case))
        size = 8 if self.is64 else 4
        for number, register in enumerate(case.access.registers):
            value = self.encode(sample, number) & (1 << 8 * size) - 1
            if register is None:
                self.bench.write(next(memory), value.to_bytes(size, "big"))
                continue
            upper = case.state.registers[register] >> 32 << 32
            wide = self.machine is MachineKind.SPARCV8PLUS and register <= R.O7
            case.state.registers[register] = value | upper if wide else value

    def get(self, sample: Sample, after: State) -> list[int]:
        """Return accumulators and itr."""
        case, memory = sample.case, iter(self.addresses(sample.case))
        size = 8 if self.is64 else 4
        found = []
        for register in case.access.registers:
            if register is None:
                word = int.from_bytes(self.bench.read(next(memory), size), "big")
            else:
                word = after.registers[register] & (1 << 8 * size) - 1
            signed = word - (1 << 8 * size) if word >> 8 * size - 1 else word
            found.append(signed)
        access = case.access
        decoded = [(word - access.offset) // access.scale for word in found[:-1]]
        return [*decoded, found[-1] + sample.k - 1]

    def run(self, sample: Sample) -> Body:
        """Execute; compare state, counters and cost with the actions."""
        self.put(sample)
        case = sample.case
        body = snippet_body(sample.actions, case.access, case.site)
        text = [i.text for i in body.instructions]
        outcome = self.bench.run(body.instructions, case.state, self.symbols)
        assert outcome.trap == 0x100 + END_TRAP, text
        live = [v if n in sample.live else 0 for n, v in enumerate(sample.values[:-1])]
        execution = Execution([*live, sample.values[-1] if sample.inside else 0])
        execution.edge = 5
        for action in sample.actions:
            action.execute(execution)
        hashed = self.check_counts(case, execution)
        taken = body.taken_cost if execution.taken else 0
        assert outcome.executed - hashed == body.cost + taken, text
        self.check_registers(sample, execution, self.get(sample, outcome.state), text)
        check_preserved(case, outcome.state)
        return body

    def check_counts(self, case: Case, execution: Execution) -> int:
        """Compare the counters; return what the hashing routine executed."""
        hashed = 0
        for counter, back in execution.counted:
            if case.access.table is CounterTable.HASH:
                hashed += self.model.count(counter, back)
                keys = list(self.model.counts)
                node = (
                    TABLES_BASE
                    + hr.TableLayout().pool
                    + hr.TableLayout().node_size * keys.index(counter)
                )
                assert self.bench.word(node) == counter
                assert self.bench.word(node + 4) == self.model.counts[counter]
            else:
                address = case.access.layout.path_counter(counter)
                assert self.bench.word(address) == 1
                self.bench.write(address, bytes(4))
        if case.access.table is not CounterTable.HASH:
            assert not any(self.bench.read(ARRAYS_BASE, 1 << 16))
        return hashed

    def check_registers(
        self, sample: Sample, execution: Execution, found: list[int], text: list[str]
    ) -> None:
        """What means something afterwards is as it should be."""
        kinds = [type(action) for action in sample.actions]
        itr = execution.registers[-1]
        outside = LeaveLoop in kinds or (not sample.inside and EnterLoop not in kinds)
        if EnterLoop in kinds or not outside:
            assert found[-1] == itr, text
        for j in range(1 if outside else itr + 1):
            assert found[j] == execution.registers[j], (j, text)


def make_sample(rng: random.Random, machine: MachineKind, mode: int, memory: float) -> Sample:
    """Return a random sample; each path register is in memory with probability `memory`."""
    k = rng.choice((2, 2, 3, 4, 9))
    count = k + 1 + rng.choice((0, 0, 1))
    case = make_case(rng, machine, mode, on_stack=True)
    called = mode == 2 or machine is MachineKind.SPARCV8
    pool = [*LOCAL_ORDER, *([] if called else [R.G2, R.G4, R.O1, R.O3, R.O5])]
    rng.shuffle(pool)
    registers = tuple(pool.pop() if pool and rng.random() >= memory else None for _ in range(count))
    live = case.site.live
    for register in registers:
        live &= ~(0 if register is None else 1 << register)
    case.site = case.site._replace(live=live)
    layout = replace(case.access.layout, words_base=ARRAYS_BASE + 0x20000)
    case.access = replace(case.access, register=registers[0], others=registers[1:], layout=layout)
    itr = rng.randrange(k)
    values = [rng.randrange(-(1 << 20), 1 << 20) for _ in range(count - 1)]
    constants = [rng.choice(LARGE) for _ in range(2)]
    for j in range(itr + 1):
        values[j] = rng.randrange(1000) + max(0, *(-c for c in constants))
    inside = rng.random() < 0.85
    return Sample(case, k, random_actions(rng, k, constants, inside), [*values, itr], inside)


def adds(rng: random.Random, k: int, exits: bool = False) -> AddAccumulators:
    entered = [rng.choice(LARGE) for _ in range(k)]
    other = [rng.choice((a, rng.choice(LARGE), 0)) for a in entered]
    return AddAccumulators(tuple(entered), tuple(entered if exits else [*other[:-1], entered[-1]]))


def random_actions(
    rng: random.Random, k: int, constants: list[int], inside: bool
) -> tuple[Action, ...]:
    """Return one of the action lists that plans have."""
    x, y = constants
    if not inside:
        first = rng.choice(((SetRegister(y),), (AddRegister(y),), (CountPath(x, True),), ()))
        return (*first, EnterLoop(k))
    kinds: list[tuple[Action, ...]] = [
        (adds(rng, k),),
        (CountIterations(k, x), NextIteration(k, y)),
        (CountIterations(k, x), adds(rng, k), NextIteration(k, y)),
        (LeaveLoop(k), AddRegister(y)),
        (LeaveLoop(k), CountPath(x)),
        (adds(rng, k, True), LeaveLoop(k)),
        (LeaveLoop(k), CountPath(x, True), SetRegister(y), EnterLoop(k)),
    ]
    return rng.choice(kinds)


@pytest.mark.parametrize(("machine", "mode", "memory"), turns(MACHINES, range(3), [0.0, 0.5, 1.0]))
def test_actions_do_what_they_mean(machine: MachineKind, mode: int, memory: float) -> None:
    rng = random.Random(f"{mode} {memory}")
    bench = Bench(machine)
    for _ in range(120):
        bench.run(make_sample(rng, machine, mode, memory))


@pytest.mark.parametrize(("machine", "memory"), turns(MACHINES, [0.0, 0.5, 1.0]))
def test_state_of_a_region_is_kept(machine: MachineKind, memory: float) -> None:
    """Words are moved as they are: scaled accumulators, and q of the loop around."""
    rng = random.Random(f"{memory}")
    bench = Bench(machine)
    for _ in range(60):
        sample = make_sample(rng, machine, 1, memory)  # indices: registers hold the values
        size = len(sample.values)
        if size < 4:  # c[0], two that keep a state, itr
            continue
        k = rng.randint(1, (size - 2) // 2)
        first = rng.randint(k, size - 2 - k)
        values = [rng.randrange(-(1 << 20), 1 << 20) for _ in sample.values]
        saves = rng.random() < 0.5
        action = SaveRegion(k, first) if saves else RestoreRegion(k, first)
        sample = dataclasses.replace(sample, k=1, actions=(action,), values=values)
        bench.put(sample)
        body = snippet_body(sample.actions, sample.case.access, sample.case.site)
        outcome = bench.bench.run(body.instructions, sample.case.state, bench.symbols)
        assert outcome.executed == body.cost
        expected = list(values)
        if saves:
            expected[first : first + k + 1] = [*values[:k], values[-1]]
        else:
            expected[:k], expected[-1] = values[first : first + k], values[first + k]
        assert bench.get(sample, outcome.state) == expected
        check_preserved(sample.case, outcome.state)


FREE_COSTS: list[tuple[Action, int, int]] = [  # V9, two iterations: the module's table
    (EnterLoop(2), 1, 0),
    (AddAccumulators((19, 0), (18, 0)), 3, 0),
    (AddAccumulators((0, 2), (0, 2)), 1, 0),
    (CountIterations(2, 5), 2, 3),
    (NextIteration(2, 0), 4, 0),
    (LeaveLoop(2), 1, 0),
    (BeginPath(5), 2, 0),
]


@pytest.mark.parametrize(("action", "cost", "taken"), FREE_COSTS, ids=str)
def test_free_costs(action: Action, cost: int, taken: int) -> None:
    case = free_case(MachineKind.SPARCV9, 0)
    access = replace(case.access, register=R.L0, others=(R.L1, R.L2))
    body = snippet_body((action,), access, case.site)
    assert (body.cost, body.taken_cost) == (cost, taken), [i.text for i in body.instructions]


def test_v8_leaves_a_loop_without_a_branch() -> None:
    case = free_case(MachineKind.SPARCV8, 0)
    access = replace(case.access, register=R.L0, others=(R.L1, R.L2))
    body = snippet_body((LeaveLoop(2),), access, case.site)
    assert body.cost == len(body.instructions) == 4
