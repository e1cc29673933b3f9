"""The logging library and the calls to it on the emulator: what they count, change and cost."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.layout import CounterLayout, CounterSpace
from simprof.profiler.code.pricing import added, counter_bytes
from simprof.profiler.code.runtime_code import runtime_code
from simprof.profiler.code.snippet_parts import CounterAccess
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.schemes.cs6120 import code as lr
from simprof.profiler.schemes.cs6120.code import (
    PAIR_TABLE,
    LogAction,
    LogDestination,
    LogDisrupt,
    LoggedEdge,
    LogSource,
    logging_cost,
    pair_slot,
)
from simprof.profiler.schemes.cs6120.planner import (
    CallsPlan,
    plan_calls,
    plan_calls_optimal,
    plan_naive,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.effects import ALL, CC
from tests.oracles.brute import graph
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State, runtime_symbols
from tests.support.code_lab import Lab
from tests.support.scheme_code import GENERATORS, ROUTINES
from tests.support.snippets import LAYOUT, Runner, free_case, make_case

R = Register
MACHINES = list(MachineKind)
PAIRS = tuple(
    LoggedEdge(k, source, destination, False, False)
    for k, (source, destination) in enumerate([(0, 0), (1, 0), (1, 2), (4, 4), (2000, 3)])
)


def bench_for(machine: MachineKind) -> CodeBench:
    """Return a bench with the run-time code and the slots of `PAIRS`."""
    bench = CodeBench(machine is MachineKind.SPARCV9)
    for assembly in runtime_code(machine, ROUTINES):
        bench.write(assembly.base, assembly.code)
    put_slots(bench, PAIRS, LAYOUT)
    return bench


def put_slots(bench: CodeBench, pairs: Iterable[LoggedEdge], layout: CounterLayout) -> None:
    """Write the slots of pairs as they are at first."""
    for slot in (pair_slot(pair, layout) for pair in pairs):
        bench.write(slot.address, struct.pack(">2I", slot.owner, 0))


class Expected:
    """The library in plain Python, on local numbers."""

    def __init__(self, pairs: Sequence[LoggedEdge]) -> None:
        self.counts = {(pair.source, pair.destination): 0 for pair in pairs}
        self.last: int | None = None

    def call(self, action: LogAction) -> None:
        """Do what a call does."""
        match action:
            case LogDestination(number):
                if self.last is not None and (self.last, number) in self.counts:
                    self.counts[self.last, number] += 1
                self.last = None
            case LogSource(number) | LogDisrupt(number):
                self.last = number

    def check(self, bench: CodeBench) -> None:
        """Compare with the table."""
        for pair in PAIRS:
            slot = pair_slot(pair, LAYOUT).address
            count = self.counts[pair.source, pair.destination]
            assert bench.word(slot + lr.COUNT) == count, pair
            assert bench.word(slot + lr.OWNER) == lr.argument(pair.destination + 1)
        last = 0 if self.last is None else self.last + LAYOUT.first[0]
        assert bench.word(lr.LAST) == lr.argument(last)


def random_calls(rng: random.Random, length: int) -> list[LogAction]:
    """Return calls, matched and unmatched; disruptions have numbers of their own."""
    calls: list[LogAction] = []
    while len(calls) < length:
        pair = rng.choice(PAIRS)
        calls.append(LogSource(rng.choice([pair.source] * 3 + [3])))
        if rng.random() < 0.3:
            calls.append(LogDisrupt(rng.choice([5, 6, 1500])))
        if rng.random() < 0.8:
            calls.append(LogDestination(rng.choice([pair.destination] * 4 + [1, 0])))
        if rng.random() < 0.2:
            calls.append(LogDestination(pair.destination))
    return calls


def garbage(rng: random.Random, machine: MachineKind) -> State:
    """Return a state in which every register and flag has something that matters."""
    width = 32 if machine is MachineKind.SPARCV8 else 64
    state = State([rng.getrandbits(width) for _ in range(32)], rng.randrange(12), 5, 77)
    state.registers[0] = 0
    state.registers[R.SP] = STACK + 0x8000
    return state


@pytest.mark.parametrize("machine", MACHINES)
def test_library_counts_pairs_at_constant_cost(machine: MachineKind) -> None:
    """Matched, unmatched, after nothing, after a disruption: one cost for each routine."""
    bench, symbols = bench_for(machine), runtime_symbols(machine, ROUTINES)
    rng = random.Random(1)
    expected = Expected(PAIRS)
    for call in random_calls(rng, 250):
        symbol = call.symbol
        state = garbage(rng, machine)
        code = [asm.call(symbol), asm.sethi(lr.argument(call.number + 1), R.O0)]
        outcome = bench.run(code, state, symbols)
        assert outcome.trap == 0x100 + END_TRAP
        assert outcome.executed == len(code) + logging_cost(machine, symbol)
        expected.call(call)
        expected.check(bench)
        changed = {R.O0, R.O7} if symbol == LogDestination.symbol else {R.O0, R.O1, R.O7}
        for number in set(range(32)) - changed:
            assert outcome.state.registers[number] == state.registers[number], number
        flags = (outcome.state.icc, outcome.state.y)
        assert flags == (state.icc, state.y)
        assert machine is MachineKind.SPARCV8 or outcome.state.xcc == state.xcc
    assert min(expected.counts.values()) > 2


def test_costs() -> None:
    """Counted in the code; a conditional move saves V9 and V8+ code instructions."""
    for machine in MACHINES:
        assert (
            logging_cost(machine, LogSource.symbol) == logging_cost(machine, LogDisrupt.symbol) == 3
        )
    assert [logging_cost(machine, LogDestination.symbol) for machine in MACHINES] == [
        {MachineKind.SPARCV9: 15, MachineKind.SPARCV8PLUS: 16, MachineKind.SPARCV8: 17}[machine]
        for machine in MACHINES
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_free_snippets(machine: MachineKind) -> None:
    case = free_case(machine, 1)
    for action, symbol in ((LogSource(4), "logsrc"), (LogDestination(4), "logdest")):
        body = snippet_body((action,), case.access, case.site)
        assert [i.text for i in body.instructions] == [f"call {symbol}", "sethi %hi(0x1400), %o0"]
        assert body.cost == 2 + logging_cost(machine, symbol)


class LogRunner(Runner):
    """Runs snippets of calls one after the other."""

    def __init__(self, machine: MachineKind, seed: int) -> None:
        super().__init__(machine, seed)
        self.bench, self.symbols = bench_for(machine), dict(runtime_symbols(machine, ROUTINES))


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_snippets_do_what_they_mean(machine: MachineKind) -> None:
    """From random states, at places with any registers and flags live, one or two calls."""
    runner = LogRunner(machine, 3)
    expected = Expected(PAIRS)
    calls = random_calls(runner.rng, 260)
    costs = set()
    while calls:
        actions = tuple(calls.pop(0) for _ in range(runner.rng.choice([1, min(2, len(calls))])))
        case = make_case(runner.rng, machine, 1, on_stack=False)
        plain = dataclasses.replace(case, access=replace(case.access, register=None))
        body = runner.run(plain, actions)
        costs.add((actions, body.cost))
        for action in actions:
            expected.call(action)
        expected.check(runner.bench)
    assert len({cost for _, cost in costs}) > 6


@pytest.mark.parametrize("machine", MACHINES)
def test_live_registers_and_flags(machine: MachineKind) -> None:
    """Each register of the convention that is live costs a save and a restore; flags nothing."""
    runner = LogRunner(machine, 4)
    free = free_case(machine, 1)
    free.access = CounterAccess(
        free.access.table, None, LAYOUT, None, free.access.context, GENERATORS
    )
    for action, saved in ((LogSource(3), 3), (LogDisrupt(3), 3), (LogDestination(3), 2)):
        least = runner.run(free, (action,)).cost
        flags = dataclasses.replace(free, site=free.site._replace(live=free.site.live | CC))
        assert runner.run(flags, (action,)).cost == least
        full = dataclasses.replace(free, site=free.site._replace(live=ALL))
        assert runner.run(full, (action,)).cost == least + 2 * saved


def run_logged(lab: Lab, plan: CallsPlan) -> tuple[list[int], int, State]:
    """Execute a whole routine with its calls; return pair counts, instructions, final state."""
    layout = CounterSpace().place(plan.plan)
    lab.bench.write(PAIR_TABLE, bytes(1 << 14))
    put_slots(lab.bench, plan.logged, layout)
    _, _, state, executed = lab.run_plan(plan.plan)
    return (
        [lab.bench.word(pair_slot(p, layout).address + lr.COUNT) for p in plan.logged],
        executed,
        state,
    )


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.seeds(range(20), few=7)
def test_whole_routines(machine: MachineKind, seed: int) -> None:
    """Instrumented routines count what counters on all edges count, at the predicted price."""
    lab = Lab(machine, seed)
    base = lab.execute(lab.items)
    naive = plan_naive(lab.cfg)
    _, layout, _, _ = lab.run_plan(naive.plan)
    edges = lab.words(layout.edge_base, naive.plan.edge_counters)
    true = [0] * len(lab.cfg.edges)
    for edge, count in zip(naive.counted, edges, strict=True):
        true[edge] = count
    for plan in (plan_calls(lab.cfg), plan_calls_optimal(lab.cfg)):
        plan.validate()
        pairs, executed, state = run_logged(lab, plan)
        lab.check_same_result(base[0], state)
        assert pairs == [true[pair.edge] for pair in plan.logged]
        generated = lab.instrumented(plan.plan, CounterSpace().place(plan.plan))
        assert executed == base[1] + added(generated, true, block_counts(lab.cfg, true))


def test_numbers_of_routines_differ() -> None:
    """The slots of a program's pairs are all different, and so are all numbers."""
    rng = random.Random(8)
    space = CounterSpace()
    slots: list[int] = []
    sources: list[int] = []
    for _ in range(20):
        count = rng.randrange(1, 9)
        cfg = graph(count, [(rng.randrange(count), rng.randrange(count)) for _ in range(12)])
        plan = plan_calls(cfg)
        layout = space.place(plan.plan)
        slots += [pair_slot(pair, layout).address for pair in plan.logged]
        sources += {layout.first[0] + pair.source for pair in plan.logged}
    assert len(set(slots)) == len(slots)
    assert len(set(sources)) == len(sources)
    assert min(slots) > PAIR_TABLE


def test_counter_bytes_are_those_of_the_slots() -> None:
    plan = plan_calls(graph(2, [(0, 1)]))  # three edges in a row: numbers 0, 1, 2 each
    assert counter_bytes(plan.plan, 0) == 8 * 6


def test_code_of_graph_files() -> None:
    """Graphs without code have every register free."""
    plan = plan_calls_optimal(graph(3, [(0, 1), (0, 2), (1, 2)]), weights=[9, 1, 9, 9, 2])
    code = generate(
        plan.cfg, plan.plan, RoutineContext.free(), CounterLayout(first=(1, 1)), GENERATORS
    )
    assert code.count == 4
    assert {s.cost for s in code.block_end_snippets.values()} == {5}
