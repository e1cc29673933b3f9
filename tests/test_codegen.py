"""Whole routines: places, path registers, and predicted against executed cost.

Random routines are instrumented for real (`rewriter`) and executed. They must compute what they
computed before, the counters must give the same edge counts under every scheme, and the
instructions executed must be exactly the uninstrumented run's plus the predicted price.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from assembled import Assembled, code, edge_of
from code_bench import END_TRAP, STACK, CodeBench, State
from profiler import hash_routine as hr
from profiler.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from profiler.codegen import CounterSpace, RoutineCode, RoutineContext, generate
from profiler.conditions import restore_routine
from profiler.hash_routine import HashTableModel, hash_costs, hash_routine
from profiler.layout import RUNTIME_BASE, TABLE_SPAN, TABLES_BASE, CounterLayout
from profiler.plan import Addressing, CountEdge, InstrumentationPlan, Table
from profiler.schemes.pp import PathPlan, plan_pp
from profiler.schemes.qpt import plan_qpt2
from rewriter import Rewriter
from simulator import assembler as asm
from simulator.assembler import Instruction, Register
from simulator.assembly import Item, Label
from simulator.effects import INS, LOCALS, OUTS
from simulator.errors import UsageError
from simulator.program import MachineKind

R = Register
MACHINES = list(MachineKind)
CONDITIONS = [c for c in asm.CONDITIONS if c not in ("a", "n")]
VOLATILE = [R.G1, R.G2, R.G3, R.G4, R.O0, R.O1, R.O2, R.O3, R.O4, R.O5]


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


class Lab:
    """Runs routine `f` plain and instrumented."""

    def __init__(self, machine: MachineKind, seed: int) -> None:
        self.machine = machine
        rng = random.Random(seed)
        self.recipe, self.items = random_routine(rng)
        self.callee = callee(rng)
        program = Assembled({"f": self.items, "callee": self.callee}, machine)
        self.cfg, self.context = program.cfg("f"), program.context("f")
        self.bench = CodeBench(machine is MachineKind.SPARCV9)
        routines: list[Item] = [*hash_routine(machine, False), *hash_routine(machine, True)]
        self.symbols = self.bench.place(routines, RUNTIME_BASE)
        self.symbols |= self.bench.place(restore_routine(), RUNTIME_BASE + 1024)
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

    def instrumented(self, plan: InstrumentationPlan, layout: CounterLayout) -> RoutineCode:
        """Generate the code of `plan`."""
        return generate(self.cfg, plan, self.context, layout)

    def check_same_result(self, plain: State, after: State) -> None:
        """The caller sees the same results and its own registers."""
        kept = [n for n in range(R.SP, 32) if n != R.O7] + [R.O0, R.G6, R.G7]
        mask = 0xFFFFFFFF if self.machine is not MachineKind.SPARCV9 else 0xFFFFFFFFFFFFFFFF
        for n in kept:
            assert (plain.registers[n] ^ after.registers[n]) & mask == 0, Register(n).text

    def run_plan(self, plan: InstrumentationPlan) -> tuple[RoutineCode, CounterLayout, State, int]:
        """Execute the routine with the code of `plan`, all counters zero before."""
        layout = CounterSpace().place(plan)
        generated = self.instrumented(plan, layout)
        count = plan.path_counters if plan.table is Table.ARRAY else 0
        self.bench.write(layout.edge_base, bytes(4 * plan.edge_counters))
        if plan.table is Table.HASH:
            self.bench.write(TABLES_BASE, hr.initial_table(TABLES_BASE))
        else:
            self.bench.write(layout.path_base, bytes(4 * count))
        routine = Rewriter(self.items, self.cfg, self.context, generated).rewrite()
        state, executed = self.execute(routine)
        return generated, layout, state, executed

    def words(self, base: int, count: int) -> list[int]:
        """Return counters."""
        return [self.bench.word(base + 4 * k) for k in range(count)]


def hashed_paths(bench: CodeBench) -> dict[int, int]:
    """Return the counts in the hash table."""
    free = bench.word(TABLES_BASE + hr.FREE)
    nodes = range(TABLES_BASE + hr.POOL, free, hr.NODE_SIZE)
    return {bench.word(n): bench.word(n + 4) for n in nodes}


def priced(generated: RoutineCode, counts: Sequence[int]) -> int:
    """Return the predicted instructions, those inside the hashing routine excepted."""
    return sum(s.cost * counts[edge] for edge, s in generated.snippets.items())


def check_paths(lab: Lab, paths: PathPlan, plan: InstrumentationPlan, edges: Sequence[int],
                base: tuple[State, int]) -> RoutineCode:  # fmt: skip
    """Run path instrumentation and compare counts and cost with the edge counts known."""
    generated, layout, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    counters = lab.words(layout.edge_base, plan.edge_counters)
    if plan.table is Table.HASH:
        found = hashed_paths(lab.bench)
    else:
        found = dict(enumerate(lab.words(layout.path_base, plan.path_counters)))
    assert paths.edge_counts(found, counters) == tuple(edges)
    added = executed - base[1] - priced(generated, edges)
    if plan.table is Table.ARRAY:
        assert added == 0
    else:
        check_hash_cost(lab, generated, found, edges, added)
    return generated


def check_hash_cost(
    lab: Lab, generated: RoutineCode, found: dict[int, int], edges: Sequence[int], inside: int
) -> None:
    """The routine's share lies between its cheapest and its dearest calls."""
    calls = sum(s.hash_calls * edges[e] for e, s in generated.snippets.items())
    costs = hash_costs(lab.machine)
    assert calls == sum(found.values())
    assert costs.remembered * calls <= inside
    assert inside <= (costs.back_edge_insert + costs.step * len(found)) * calls


def every_edge(cfg: ControlFlowGraph) -> InstrumentationPlan:
    """Return the plan that counts each edge by a counter of its own."""
    actions = {edge.id: (CountEdge(edge.id),) for edge in cfg.edges}
    return InstrumentationPlan(actions, False, Table.NONE, 0, None, len(cfg.edges))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(25))
def test_a_counter_on_every_edge(machine: MachineKind, seed: int) -> None:
    lab = Lab(machine, seed)
    base = lab.execute(lab.items)
    generated, layout, state, executed = lab.run_plan(every_edge(lab.cfg))
    lab.check_same_result(base[0], state)
    edges = lab.words(layout.edge_base, len(lab.cfg.edges))
    assert executed == base[1] + priced(generated, edges)
    for block in lab.cfg.blocks:
        inward = sum(edges[e] for e in lab.cfg.in_edges[block.id])
        assert inward == sum(edges[e] for e in lab.cfg.out_edges[block.id])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(25))
def test_instrumented_routines(machine: MachineKind, seed: int) -> None:
    lab = Lab(machine, seed)
    base = lab.execute(lab.items)
    edge_plan = plan_qpt2(lab.cfg)
    generated, layout, state, executed = lab.run_plan(edge_plan.plan)
    lab.check_same_result(base[0], state)
    edges = edge_plan.edge_counts(lab.words(layout.edge_base, edge_plan.plan.edge_counters))
    assert executed == base[1] + priced(generated, edges)
    blocks = [sum(edges[e] for e in lab.cfg.in_edges[b.id]) for b in lab.cfg.blocks]
    inside = sum(n * b.instructions for n, b in zip(blocks, lab.cfg.blocks, strict=True))
    _, naive, _, _ = lab.run_plan(every_edge(lab.cfg))
    assert list(edges) == lab.words(naive.edge_base, len(lab.cfg.edges))
    calls = sum(edges[e.id] for e in lab.cfg.edges if e.kind is EdgeKind.CALL_RETURN)
    assert base[1] == inside + calls * len(lab.callee)
    for table, addressing in (
        (Table.ARRAY, Addressing.ADDRESS), (Table.ARRAY, Addressing.INDEX), (Table.HASH, None)
    ):  # fmt: skip
        paths = plan_pp(lab.cfg, table=table, path_limit=2000)
        plan = replace(paths.plan, addressing=addressing)
        code_of = check_paths(lab, paths, plan, edges, base)
        check_register(lab, code_of)


def check_register(lab: Lab, generated: RoutineCode) -> None:
    """The path register is a local of a windowed routine, or caller-saved, and nobody else's."""
    name = generated.path_register
    if name in (None, "stack"):
        return
    register = next(r for r in Register if r.text == name)
    assert register in (range(R.L0, R.L7 + 1) if lab.recipe.windowed else [*VOLATILE, R.G5])
    assert register not in (*lab.recipe.registers, lab.recipe.fuel)


def test_random_routines_cover_the_cases() -> None:
    """The sample above has every place, windows and leaves, registers and stack."""
    places: Counter[str] = Counter()
    registers: Counter[tuple[bool, bool]] = Counter()
    for seed in range(25):
        lab = Lab(MachineKind.SPARCV9, seed)
        for plan in (plan_pp(lab.cfg).plan, every_edge(lab.cfg)):
            generated = lab.instrumented(plan, CounterSpace().place(plan))
            places.update(s.where for s in generated.snippets.values())
            if generated.path_register:
                registers[lab.recipe.windowed, generated.path_register == "stack"] += 1
    assert set(places) == {"source-end", "target-top", "fall-through", "stub"}
    assert len(registers) == 4


def graph(edges: list[tuple[int, int, EdgeKind]], blocks: int, slots: Sequence[int] = ()
          ) -> ControlFlowGraph:  # fmt: skip
    """Return a graph without code; ENTRY is `blocks`, EXIT `blocks + 1`."""
    made = tuple(Block(k, k, 1, k in slots) for k in range(blocks))
    return ControlFlowGraph("g", 0, 0, made, tuple(Edge(i, *e) for i, e in enumerate(edges)))


K = EdgeKind
DIAMOND = [
    (3, 0, K.ENTRY), (0, 1, K.FALL_THROUGH), (0, 2, K.TAKEN), (1, 2, K.TAKEN), (2, 4, K.EXIT),
]  # fmt: skip


def free_code(cfg: ControlFlowGraph, *edges: int) -> RoutineCode:
    """Return the code of an edge counter on each of `edges`, everything free."""
    actions = {edge: (CountEdge(k),) for k, edge in enumerate(edges)}
    plan = InstrumentationPlan(actions, False, Table.NONE, 0, None, len(edges))
    return generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan))


def test_places_and_jumps_of_a_graph() -> None:
    cfg = graph(DIAMOND, 3)
    made = free_code(cfg, 0, 1, 2, 3, 4).snippets
    assert [made[e].where for e in range(5)] == [
        "target-top", "target-top", "stub", "source-end", "source-end",
    ]  # fmt: skip
    assert [made[e].jump_cost for e in range(5)] == [0, 0, 1, 0, 0]
    assert [made[e].cost for e in range(5)] == [4, 4, 5, 4, 4]
    assert made[2].text[-2:] == ("ba block.2", made[0].text[-1].replace("]", " + 8]"))


def test_code_around_a_slot_block_shares_one_stub() -> None:
    edges = [
        (3, 0, K.ENTRY), (0, 2, K.FALL_THROUGH), (0, 1, K.SLOT), (1, 2, K.TAKEN), (2, 4, K.EXIT),
    ]  # fmt: skip
    cfg = graph(edges, 3, slots=[1])
    both = free_code(cfg, 2, 3).snippets
    assert (both[2].where, both[2].jump_cost) == ("stub", 0)
    assert (both[3].where, both[3].jump_cost) == ("stub", 1)
    alone = free_code(cfg, 2).snippets
    assert (alone[2].where, alone[2].jump_cost, alone[2].cost) == ("stub", 1, 5)
    below = free_code(cfg, 1).snippets
    assert (below[1].where, below[1].cost) == ("fall-through", 4)


def test_a_hash_call_cannot_fill_the_jump_slot() -> None:
    cfg = graph([*DIAMOND[:2], (0, 2, K.TAKEN), (1, 0, K.TAKEN), (2, 4, K.EXIT)], 3)
    plan = plan_pp(cfg, table=Table.HASH).plan
    made = generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan))
    assert all(s.jump_cost in (0, 2) for s in made.snippets.values() if s.hash_calls == 1)


def test_switch_edges_are_stubs_or_tops() -> None:
    edges = [
        (4, 0, K.ENTRY), (0, 1, K.SWITCH), (0, 2, K.SWITCH), (0, 3, K.SWITCH), (1, 2, K.TAKEN),
        (2, 3, K.FALL_THROUGH), (3, 5, K.EXIT),
    ]  # fmt: skip
    made = free_code(graph(edges, 4), 1, 2, 3).snippets
    assert [made[e].where for e in (1, 2, 3)] == ["target-top", "stub", "stub"]


def test_call_return_code_stands_at_the_return_point() -> None:
    edges = [
        (2, 0, K.ENTRY), (0, 1, K.CALL_RETURN), (1, 1, K.TAKEN), (1, 3, K.EXIT),
    ]  # fmt: skip
    made = free_code(graph(edges, 2), 1, 2).snippets
    assert (made[1].where, made[1].jump_cost) == ("fall-through", 0)
    assert made[2].where == "stub"


def test_system_calls_keep_code_behind_them() -> None:
    body = code(asm.mov(20, R.G1), asm.trap_always(0x6D), "x", asm.cmp(R.O0, 0),
                asm.branch("e", "x"), asm.nop(), asm.retl(), asm.nop())  # fmt: skip
    program = Assembled({"f": body})
    cfg = program.cfg("f")
    after = next(e.id for e in cfg.edges if e.kind is K.FALL_THROUGH and e.source == 0)
    plan = InstrumentationPlan({after: (CountEdge(0),)}, False, Table.NONE, 0, None, 1)
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan))
    assert made.snippets[after].where == "fall-through"


def test_entry_code_stands_behind_the_save_and_exit_code_before_the_restore() -> None:
    body = code(asm.arithmetic("save", R.SP, -176, R.SP), asm.mov(1, R.I0), asm.ret(),
                asm.restore())  # fmt: skip
    program = Assembled({"f": body})
    cfg = program.cfg("f")
    edges = [edge_of(cfg, K.ENTRY), edge_of(cfg, K.EXIT)]
    plan = InstrumentationPlan(
        {e: (CountEdge(k),) for k, e in enumerate(edges)}, False, Table.NONE, 0, None, 2
    )
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan))
    assert [made.snippets[e].position for e in edges] == [1, 2]
    assert made.static_instructions == 8
    assert made.code_bytes == 32


def test_unused_local_is_the_path_register() -> None:
    named = [R.L0, R.L1, R.L3]
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP), *(asm.mov(1, r) for r in named), "x",
        asm.arithmetic("subcc", R.I0, 1, R.I0), asm.branch("ne", "x"), asm.nop(), asm.ret(),
        asm.restore(),
    )  # fmt: skip
    program = Assembled({"f": body})
    cfg = program.cfg("f")
    plan = plan_pp(cfg).plan
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan))
    assert made.path_register in ("%l2", None)
    assert plan.uses_register == (made.path_register is not None)
    analysis = program.context("f").analysis
    assert analysis is not None
    assert analysis.busy & (LOCALS | OUTS | INS) & ~analysis.liveness.named & LOCALS == 0


def test_counters_stay_below_2_gb() -> None:
    space = CounterSpace()
    plan = InstrumentationPlan({}, True, Table.HASH, 0, None, 3)
    first, second = space.place(plan), space.place(plan)
    assert second.path_base - first.path_base == TABLE_SPAN
    assert first.path_base % hr.TABLE_ALIGNMENT == TABLE_SPAN % hr.TABLE_ALIGNMENT == 0
    assert second.edge_base % 8 == 0
    assert second.edge_base >= first.edge_counter(3)
    with pytest.raises(UsageError):
        space.place(InstrumentationPlan({}, True, Table.ARRAY, 1 << 28, None, 0))


def test_hash_model_is_fresh_per_table() -> None:
    assert HashTableModel(hash_costs(MachineKind.SPARCV9)).counts == {}
