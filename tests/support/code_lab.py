"""Random routines, instrumented for real and executed: what `test_codegen` and others run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from simprof.profiler.code import hash_routine as hr
from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.hash_routine import TableLayout
from simprof.profiler.code.layout import RUNTIME_BASE, TABLES_BASE, CounterLayout, CounterSpace
from simprof.profiler.code.places import NO_WEIGHTS, LayoutRule
from simprof.profiler.code.runtime_code import runtime_code
from simprof.profiler.code.snippet_parts import Generator, Generators
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.code.stolen import STOLEN_GENERATORS
from simprof.profiler.code.writer import Writer
from simprof.profiler.plan.actions import Action, Execution
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.request.request import RegisterUse
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Label, Register
from tests.support.assembled import Assembled, code
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State, runtime_symbols
from tests.support.rewriter import Rewriter
from tests.support.scheme_code import GENERATORS, ROUTINES

R = Register
MACHINES = list(MachineKind)
CONDITIONS = [c for c in asm.CONDITIONS if c not in ("a", "n")]
VOLATILE = [R.G1, R.G2, R.G3, R.G4, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]


LOG_POINTER = RUNTIME_BASE + 0xFF00
LOG = TABLES_BASE + 0x80000


class LogEdge(Action, frozen=True):
    """Write down that edge `edge` is crossed; an action of tests only."""

    edge: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""


def write_log(writer: Writer, action: LogEdge) -> None:
    """Append a word to the log."""
    pointer, end, value = (writer.temporary(n) for n in range(3))
    offset = LOG_POINTER & 0x3FF
    writer.emit(
        asm.sethi(LOG_POINTER, pointer),
        asm.load("ld", pointer, offset, end),
        asm.mov(action.edge, value),
        asm.store("st", value, end, 0),
        asm.arithmetic("add", end, 4, end),
        asm.store("st", end, pointer, offset),
    )


@dataclass
class Recipe:
    """How a random routine is made."""

    windowed: bool
    registers: list[Register]
    fuel: Register
    calls: bool
    blocks: int


def recipe(rng: random.Random) -> Recipe:
    """Choose a routine's shape and how many registers it keeps busy."""
    windowed = rng.random() < 0.6
    pool = [R.G1, R.G2, R.G3, R.G4, R.G5, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]
    if windowed:
        pool += [Register(n) for n in range(R.L0, R.I5 + 1)]
    rng.shuffle(pool)
    busy = rng.choice([4, 6, len(pool)])
    own = [r for r in pool if r >= R.L0] if windowed else pool
    fuel = own[0]
    registers = [r for r in pool[:busy] if r is not fuel] or [pool[-1]]
    return Recipe(windowed, registers, fuel, windowed and rng.random() < 0.6, rng.randrange(2, 9))


def random_operation(rng: random.Random, how: Recipe) -> Instruction:
    """Return an ALU instruction on the routine's registers; some use flags or %y."""
    names = ["add", "sub", "xor", "or", "and", "addcc", "subcc", "addc", "subc", "umul", "mulscc"]
    a, b, c = (rng.choice(how.registers) for _ in range(3))
    return asm.arithmetic(rng.choice(names), a, rng.choice([b, rng.randrange(-50, 50)]), c)


def random_block(rng: random.Random, how: Recipe, number: int) -> list[Item]:
    """Return a block that burns fuel, computes, and goes on somewhere."""
    operations = [random_operation(rng, how) for _ in range(rng.randrange(4))]
    items: list[Item] = [Label(f"b{number}"), asm.arithmetic("subcc", how.fuel, 1, how.fuel)]
    items += [asm.branch("neg", "out", rng.random() < 0.3), random_operation(rng, how), *operations]
    target = f"b{rng.randrange(how.blocks)}"
    slot = random_operation(rng, how)
    kind = rng.randrange(6)
    if kind <= 2:
        items += [asm.branch(rng.choice(CONDITIONS), target, rng.random() < 0.4), slot]
    elif kind == 3:
        items += [asm.branch("a", target, False), slot]
    elif kind == 4 and how.calls:
        items += [asm.call("callee"), slot]
    return items


def random_routine(rng: random.Random) -> tuple[Recipe, list[Item]]:
    """Return a routine that ends after some dozen blocks, whatever its registers hold."""
    how = recipe(rng)
    items: list[Item] = []
    if how.windowed:
        items += [asm.arithmetic("save", R.SP, -rng.choice([176, 256]), R.SP)]
    items += [asm.mov(rng.choice([0, 3, 40]), how.fuel)]
    items += [asm.mov(rng.randrange(100), r) for r in how.registers]
    for number in range(how.blocks):
        items += random_block(rng, how, number)
    items += [Label("out")]
    result = R.I0 if how.windowed else R.O0
    sums = [asm.arithmetic("xor", how.registers[0], r, how.registers[0]) for r in how.registers[1:]]
    items += [*sums, asm.mov(how.registers[0], result)]
    if how.windowed:
        return how, [*items, asm.ret(), asm.restore()]
    return how, [*items, asm.retl(), asm.mov(1, R.G1)]


def callee(rng: random.Random) -> list[Item]:
    """Return a leaf that puts garbage wherever the ABI allows."""
    spoils = [asm.load_constant(rng.getrandbits(31), r, False) for r in VOLATILE]
    return [*(i for s in spoils for i in s), asm.retl(), asm.cmp(R.O0, R.O1)]


LAB_GENERATORS: Generators = {**GENERATORS, **STOLEN_GENERATORS, LogEdge: Generator(write_log)}


class Lab:
    """Runs routine `f` plain and instrumented."""

    def __init__(
        self, machine: MachineKind, seed: int, routine: Sequence[Item] | None = None
    ) -> None:
        self.machine = machine
        rng = random.Random(seed)
        self.recipe, self.items = random_routine(rng)
        if routine is not None:
            self.items = list(routine)
        self.callee = callee(rng)
        program = Assembled({"f": self.items, "callee": self.callee}, machine)
        self.cfg, self.context = program.cfg("f"), program.context("f")
        self.bench = CodeBench(machine is MachineKind.SPARCV9)
        for assembly in runtime_code(machine, ROUTINES):
            self.bench.write(assembly.base, assembly.code)
        self.symbols = runtime_symbols(machine, ROUTINES)
        self.state = State([rng.getrandbits(31) for _ in range(32)], 5, 3, 9)
        self.state.registers[0] = 0
        bias = 2047 if machine is MachineKind.SPARCV9 else 0
        self.state.registers[R.SP] = STACK + 0x8000 - bias
        self.state.registers[R.FP] = STACK + 0x8400 - bias

    def execute(self, routine: Sequence[Item]) -> tuple[State, int]:
        """Call the routine; return the state after it and the instructions that it executed."""
        driver = code(asm.call("f"), asm.nop(), asm.branch("a", "end"), asm.nop())
        items = [*driver, Label("f"), *routine, Label("callee"), *self.callee, Label("end")]
        outcome = self.bench.run(items, self.state, self.symbols)
        assert outcome.trap == 0x100 + END_TRAP
        return outcome.state, outcome.executed - len(driver)

    def instrumented(
        self,
        plan: InstrumentationPlan,
        layout: CounterLayout,
        use: RegisterUse = RegisterUse.LIVENESS,
        rule: LayoutRule = NO_WEIGHTS,
    ) -> RoutineCode:
        """Generate the code of `plan`."""
        return generate(self.cfg, plan, self.context.using(use), layout, LAB_GENERATORS, rule)

    def check_same_result(self, plain: State, after: State) -> None:
        """The caller sees the same results and its own registers."""
        kept = [n for n in range(R.SP, 32) if n != R.O7] + [R.O0, R.G6, R.G7]
        mask = 0xFFFFFFFF if self.machine is not MachineKind.SPARCV9 else 0xFFFFFFFFFFFFFFFF
        for n in kept:
            assert (plain.registers[n] ^ after.registers[n]) & mask == 0, Register(n).text

    def run_plan(
        self,
        plan: InstrumentationPlan,
        use: RegisterUse = RegisterUse.LIVENESS,
        rule: LayoutRule = NO_WEIGHTS,
    ) -> tuple[RoutineCode, CounterLayout, State, int]:
        """Execute the routine with the code of `plan`, all counters zero before."""
        layout = CounterSpace().place(plan)
        generated = self.instrumented(plan, layout, use, rule)
        count = plan.path_counters if plan.table is CounterTable.ARRAY else 0
        self.bench.write(layout.edge_base, bytes(4 * plan.edge_counters))
        if plan.named_counters:
            named = len(plan.named_counters)
            self.bench.write(layout.path_counter(-named), bytes(4 * named))
        constants = b"".join(word.to_bytes(4, "big") for word in plan.constants)
        self.bench.write(layout.constants or layout.edge_base, constants)
        self.start_log()
        if plan.table is CounterTable.HASH:
            self.bench.write(TABLES_BASE, TableLayout(plan.key_words).initial(TABLES_BASE))
        else:
            self.bench.write(layout.path_base, bytes(4 * count))
        routine = Rewriter(self.items, self.cfg, self.context, generated).rewrite()
        state, executed = self.execute(routine)
        return generated, layout, state, executed

    def start_log(self) -> None:
        """Empty the log of `LogEdge`."""
        self.bench.write(LOG_POINTER, LOG.to_bytes(4, "big"))

    def executed_edges(self) -> tuple[int, ...]:
        """Run the routine once, logging, and return the edges that it crosses, in order."""
        actions = {edge.id: (LogEdge(edge.id),) for edge in self.cfg.edges}
        self.run_plan(InstrumentationPlan(actions, False, CounterTable.NONE, 0, None, 0))
        end = self.bench.word(LOG_POINTER)
        return tuple(self.words(LOG, end - LOG >> 2))

    def words(self, base: int, count: int) -> list[int]:
        """Return counters."""
        return [self.bench.word(base + 4 * k) for k in range(count)]


def hashed_paths(bench: CodeBench, words: int = 1) -> dict[int, int]:
    """Return the counts in the hash table, whose keys have so many words."""
    layout, found = hr.TableLayout(words), dict[int, int]()
    free = bench.word(TABLES_BASE + layout.free)
    for node in range(TABLES_BASE + layout.pool, free, layout.node_size):
        key = [bench.word(node + 4 * word) for word in range(words)]
        found[hr.code_key(key)] = bench.word(node + layout.count)
    return found
