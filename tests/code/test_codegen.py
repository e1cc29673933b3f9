"""Whole routines: places, path registers, and predicted against executed cost.

Random routines are instrumented for real (`rewriter`) and executed. They must compute what they
computed before, the counters must give the same edge counts under every scheme, and the
instructions executed must be exactly the uninstrumented run's plus the predicted price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from simprof.profiler.code.arrangement import generate
from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.hash_routine import HashTableModel, hash_costs
from simprof.profiler.code.layout import TABLE_ALIGNMENT, TABLE_SPAN, CounterSpace
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.plan.actions import CountConstantPath, CountEdge
from simprof.profiler.plan.decoders import RoutineCounters
from simprof.profiler.plan.path_plan import PathPlan
from simprof.profiler.plan.plan import Addressing, CounterTable, InstrumentationPlan
from simprof.profiler.schemes.pp import plan_pp
from simprof.profiler.schemes.qpt.planner import plan_qpt2
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Register
from simprof.simulator.isa.effects import INS, LOCALS, OUTS
from tests.support.assembled import Assembled, code, edge_of
from tests.support.code_bench import State
from tests.support.code_lab import MACHINES, VOLATILE, Lab, hashed_paths
from tests.support.scheme_code import GENERATORS

R = Register


def priced(generated: RoutineCode, counts: Sequence[int]) -> int:
    """Return the predicted instructions, those inside the hashing routine excepted."""
    return sum(s.cost * counts[edge] for edge, s in generated.snippets.items())


def check_paths(lab: Lab, paths: PathPlan, plan: InstrumentationPlan, edges: Sequence[int],
                base: tuple[State, int]) -> RoutineCode:  # fmt: skip
    """Run path instrumentation and compare counts and cost with the edge counts known."""
    generated, layout, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    counters = lab.words(layout.edge_base, plan.edge_counters)
    if plan.table is CounterTable.HASH:
        found = hashed_paths(lab.bench)
    else:
        found = dict(enumerate(lab.words(layout.path_base, plan.path_counters)))
    assert paths.edge_counts(found, counters) == tuple(edges)
    added = executed - base[1] - priced(generated, edges)
    if plan.table is CounterTable.ARRAY:
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
    return InstrumentationPlan(actions, False, CounterTable.NONE, 0, None, len(cfg.edges))


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.seeds(range(25), few=8)
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


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.seeds(range(25), few=8)
def test_instrumented_routines(machine: MachineKind, seed: int) -> None:
    lab = Lab(machine, seed)
    base = lab.execute(lab.items)
    edge_plan = plan_qpt2(lab.cfg)
    generated, layout, state, executed = lab.run_plan(edge_plan.plan)
    lab.check_same_result(base[0], state)
    events = lab.words(layout.edge_base, edge_plan.plan.edge_counters)
    edges = edge_plan.read(RoutineCounters({}, tuple(events))).all_edges
    assert edges is not None
    assert executed == base[1] + priced(generated, edges)
    blocks = [sum(edges[e] for e in lab.cfg.in_edges[b.id]) for b in lab.cfg.blocks]
    inside = sum(n * b.instructions for n, b in zip(blocks, lab.cfg.blocks, strict=True))
    _, naive, _, _ = lab.run_plan(every_edge(lab.cfg))
    assert list(edges) == lab.words(naive.edge_base, len(lab.cfg.edges))
    calls = sum(edges[e.id] for e in lab.cfg.edges if e.kind is EdgeKind.CALL_RETURN)
    assert base[1] == inside + calls * len(lab.callee)
    for table, addressing in (
        (CounterTable.ARRAY, Addressing.ADDRESS),
        (CounterTable.ARRAY, Addressing.INDEX),
        (CounterTable.HASH, None),
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


@pytest.mark.long
def test_random_routines_cover_the_cases() -> None:
    """The sample above has every place, windows and leaves, registers and stack."""
    places: Counter[str] = Counter()
    registers: Counter[tuple[bool, bool]] = Counter()
    for seed in range(25):
        lab = Lab(MachineKind.SPARCV9, seed)
        for plan in (plan_pp(lab.cfg).plan, every_edge(lab.cfg)):
            generated = lab.instrumented(plan, CounterSpace().place(plan))
            places.update(s.place.where for s in generated.snippets.values())
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
    plan = InstrumentationPlan(actions, False, CounterTable.NONE, 0, None, len(edges))
    return generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan), GENERATORS)


def test_places_and_jumps_of_a_graph() -> None:
    cfg = graph(DIAMOND, 3)
    made = free_code(cfg, 0, 1, 2, 3, 4).snippets
    assert [made[e].place.where for e in range(5)] == [
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
    assert (both[2].place.where, both[2].jump_cost) == ("stub", 0)
    assert (both[3].place.where, both[3].jump_cost) == ("stub", 1)
    alone = free_code(cfg, 2).snippets
    assert (alone[2].place.where, alone[2].jump_cost, alone[2].cost) == ("stub", 1, 5)
    below = free_code(cfg, 1).snippets
    assert (below[1].place.where, below[1].cost) == ("fall-through", 4)


def test_a_hash_call_cannot_fill_the_jump_slot() -> None:
    cfg = graph([*DIAMOND[:2], (0, 2, K.TAKEN), (1, 0, K.TAKEN), (2, 4, K.EXIT)], 3)
    plan = plan_pp(cfg, table=CounterTable.HASH).plan
    made = generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan), GENERATORS)
    calling = [s for s in made.snippets.values() if s.hash_calls == 1]
    assert calling
    assert all(s.text[-1].startswith("ba,a ") for s in calling if s.jump_cost)


def test_a_call_at_the_end_of_a_stub_keeps_its_own_delay_slot() -> None:
    """The jump behind it annuls its own: one instruction all the same."""
    cfg = graph(DIAMOND, 3)
    actions = {2: (CountConstantPath(7, False),)}
    plan = InstrumentationPlan(actions, False, CounterTable.HASH, 0, None, 0)
    made = generate(cfg, plan, RoutineContext.free(), CounterSpace().place(plan), GENERATORS)
    stub = made.snippets[2]
    assert (stub.place.where, stub.hash_calls, stub.jump_cost) == ("stub", 1, 1)
    assert stub.text[-3].startswith("call hash_count")
    assert stub.text[-1] == "ba,a block.2"


def test_switch_edges_are_stubs_or_tops() -> None:
    edges = [
        (4, 0, K.ENTRY), (0, 1, K.SWITCH), (0, 2, K.SWITCH), (0, 3, K.SWITCH), (1, 2, K.TAKEN),
        (2, 3, K.FALL_THROUGH), (3, 5, K.EXIT),
    ]  # fmt: skip
    made = free_code(graph(edges, 4), 1, 2, 3).snippets
    assert [made[e].place.where for e in (1, 2, 3)] == ["target-top", "stub", "stub"]


def test_call_return_code_stands_at_the_return_point() -> None:
    edges = [
        (2, 0, K.ENTRY), (0, 1, K.CALL_RETURN), (1, 1, K.TAKEN), (1, 3, K.EXIT),
    ]  # fmt: skip
    made = free_code(graph(edges, 2), 1, 2).snippets
    assert (made[1].place.where, made[1].jump_cost) == ("fall-through", 0)
    assert made[2].place.where == "stub"


def test_system_calls_keep_code_behind_them() -> None:
    body = code(asm.mov(20, R.G1), asm.trap_always(0x6D), "x", asm.cmp(R.O0, 0),
                asm.branch("e", "x"), asm.nop(), asm.retl(), asm.nop())  # fmt: skip
    program = Assembled({"f": body})
    cfg = program.cfg("f")
    after = next(e.id for e in cfg.edges if e.kind is K.FALL_THROUGH and e.source == 0)
    plan = InstrumentationPlan({after: (CountEdge(0),)}, False, CounterTable.NONE, 0, None, 1)
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan), GENERATORS)
    assert made.snippets[after].place.where == "fall-through"


def test_entry_code_stands_behind_the_save_and_exit_code_before_the_restore() -> None:
    body = code(asm.arithmetic("save", R.SP, -176, R.SP), asm.mov(1, R.I0), asm.ret(),
                asm.restore())  # fmt: skip
    program = Assembled({"f": body})
    cfg = program.cfg("f")
    edges = [edge_of(cfg, K.ENTRY), edge_of(cfg, K.EXIT)]
    plan = InstrumentationPlan(
        {e: (CountEdge(k),) for k, e in enumerate(edges)}, False, CounterTable.NONE, 0, None, 2
    )
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan), GENERATORS)
    assert [made.snippets[e].place.position for e in edges] == [1, 2]
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
    made = generate(cfg, plan, program.context("f"), CounterSpace().place(plan), GENERATORS)
    assert made.path_register in ("%l2", None)
    assert plan.uses_register == (made.path_register is not None)
    analysis = program.context("f").analysis
    assert analysis is not None
    assert analysis.busy & (LOCALS | OUTS | INS) & ~analysis.liveness.named & LOCALS == 0


def test_counters_stay_below_2_gb() -> None:
    space = CounterSpace()
    plan = InstrumentationPlan({}, True, CounterTable.HASH, 0, None, 3)
    first, second = space.place(plan), space.place(plan)
    assert second.path_base - first.path_base == TABLE_SPAN
    assert first.path_base % TABLE_ALIGNMENT == TABLE_SPAN % TABLE_ALIGNMENT == 0
    assert second.edge_base % 8 == 0
    assert second.edge_base >= first.edge_counter(3)
    with pytest.raises(UsageError):
        space.place(InstrumentationPlan({}, True, CounterTable.ARRAY, 1 << 28, None, 0))


def test_hash_model_is_fresh_per_table() -> None:
    assert HashTableModel(hash_costs(MachineKind.SPARCV9)).counts == {}


def test_a_leaf_that_calls_keeps_its_path_register_on_the_stack() -> None:
    """It has no window of its own, and whom it calls may change every register that is free."""
    loop = (asm.arithmetic("subcc", R.O0, 1, R.O0), asm.branch("ne", "loop"), asm.nop())
    rest = ("out", asm.retl(), asm.nop())
    calling = code(
        asm.mov(R.O7, R.G1), "loop", asm.branch("e", "over"), asm.nop(), asm.call("g"), asm.nop(),
        "over", *loop, asm.mov(R.G1, R.O7), *rest,
    )  # fmt: skip
    quiet = code("loop", asm.branch("e", "over"), asm.nop(), asm.nop(), "over", *loop, *rest)
    registers = []
    for body in (calling, quiet):
        program = Assembled({"f": body, "g": code(asm.retl(), asm.nop())})
        plan = plan_pp(program.cfg("f")).plan
        assert plan.uses_register
        layout = CounterSpace().place(plan)
        made = generate(program.cfg("f"), plan, program.context("f"), layout, GENERATORS)
        registers.append(made.path_register)
    assert registers[0] == "stack" and registers[1] != "stack"
