"""Every mode's code on random routines: counters and cost are those of the plan, executed.

The routines (`code_lab`) have free registers or none, windows or none, live condition codes,
calls, annulled branches. A log of the edges that a run crosses gives, by `interpret.execute`,
what every counter must hold and how often conditional code is executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import pytest

from simprof.profiler.code.hash_routine import HashTableModel, hash_costs
from simprof.profiler.code.layout import RUNTIME_BASE, CounterLayout
from simprof.profiler.code.places import LayoutRule
from simprof.profiler.code.pricing import added
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.graphs.flow import block_counts
from simprof.profiler.plan.actions import TakenPart, WriteTrace
from simprof.profiler.plan.interpret import ExecutedWalk, begin, execute, follow
from simprof.profiler.plan.plan import CounterTable, InstrumentationPlan
from simprof.profiler.request.request import CodeLayout, RegisterUse, SchemeOptions
from simprof.profiler.schemes.registry import definition, make_plan
from simprof.profiler.schemes.tracing.code import (
    POSITION,
    TRACE_BUFFER,
    TRACE_END,
    TRACE_SIZE,
    WriteTarget,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item
from tests.support.assembled import code
from tests.support.code_bench import State
from tests.support.code_lab import MACHINES, Lab, hashed_paths
from tests.support.codegen_modes import (
    ARRAY,
    LIMIT,
    SETTINGS,
    R,
    crossings_of,
    paths_of,
    recursive,
    walks,
    with_shared_slots,
)
from tests.support.turns import in_step, turns

LAYOUTS = tuple(CodeLayout)


@cache
def lab_of(machine: MachineKind, seed: int) -> tuple[Lab, tuple[int, ...], tuple[State, int]]:
    """Return a routine, the edges that it crosses, and its result and cost uninstrumented."""
    lab = Lab(machine, seed)
    return lab, lab.executed_edges(), lab.execute(lab.items)


@pytest.mark.long
@pytest.mark.seeds(range(12), few=4)
@pytest.mark.parametrize(("name", "machine"), turns(SETTINGS, MACHINES))
def test_counters_and_cost_are_those_of_the_plan(
    name: str, machine: MachineKind, seed: int
) -> None:
    lab, edges, base = lab_of(machine, seed)
    check(lab, edges, base, name, LAYOUTS[seed % len(LAYOUTS)])


@pytest.mark.long
@pytest.mark.parametrize(("name", "machine"), in_step(SETTINGS, MACHINES))
def test_many_more_routines(name: str, machine: MachineKind) -> None:
    for seed in range(100, 108):
        lab, edges, base = lab_of(machine, seed)
        for layout in LAYOUTS:
            check(lab, edges, base, name, layout)


def check(
    lab: Lab,
    edges: tuple[int, ...],
    base: tuple[State, int],
    name: str,
    code_layout: CodeLayout = CodeLayout.BEST,
) -> RoutineCode:
    """Run one setting's code and compare everything."""
    mode, options = SETTINGS[name]
    crossings = crossings_of(lab, edges)
    planned = make_plan(lab.cfg, mode, options, None, crossings, paths_of(lab, walks(lab, edges)))
    plan, rule = planned.plan, LayoutRule(code_layout, planned.weights)
    registers = definition(mode).options(options).register_use
    generated, layout, state, executed = lab.run_plan(plan, registers, rule)
    lab.check_same_result(base[0], state)
    counters = execute(lab.cfg, plan, [ExecutedWalk(walk) for walk in walks(lab, edges)])
    assert lab.words(layout.edge_base, plan.edge_counters) == list(counters.events)
    assert counted_paths(lab, plan, layout) == dict(counters.paths)
    price = added(generated, crossings, block_counts(lab.cfg, crossings), counters.taken)
    assert executed - base[1] == price + hashing(lab, plan, edges)
    check_path_registers(plan, generated)
    return generated


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_scavenging_frees_some_registers_and_liveness_more(machine: MachineKind) -> None:
    """BL94 6.3; none: each counter saves and restores both registers, 8 instructions, not 4."""
    uses = (RegisterUse.LIVENESS, RegisterUse.SCAVENGED, RegisterUse.SAVED)
    spent = dict.fromkeys(uses, 0)
    for seed in range(12):
        lab, edges, base = lab_of(machine, seed)
        costs = {}
        for use in uses:
            code = check(lab, edges, base, f"qpt-{use}")
            snippets = (*code.snippets.values(), *code.block_snippets.values())
            costs[use] = [each.cost - each.jump_cost for each in snippets]
            spent[use] += sum(costs[use])
        assert {cost % 8 for cost in costs[RegisterUse.SAVED]} <= {0, 2}
        kinds = (costs[use] for use in uses)
        assert all(a <= b <= c for a, b, c in zip(*kinds, strict=True))
    assert spent[RegisterUse.LIVENESS] < spent[RegisterUse.SCAVENGED] < spent[RegisterUse.SAVED]


@pytest.mark.parametrize(("name", "machine"), turns(SETTINGS, MACHINES, few=6))
def test_a_recursive_routine_with_a_late_window(name: str, machine: MachineKind) -> None:
    """Path registers are words of the caller's frame, which every activation has its own of; or
    locals, whose values are in such words meanwhile.
    """
    lab = Lab(machine, 0, routine=recursive())
    lab.state.registers[R.O0] = 4
    edges, base = lab.executed_edges(), lab.execute(lab.items)
    assert len(walks(lab, edges)) == 5
    generated = check(lab, edges, base, name)
    assert generated.path_register in (None, "stack") or "spilled" in name


@pytest.mark.parametrize(
    ("name", "machine", "several"), turns(SETTINGS, MACHINES, [False, True], few=3)
)
def test_branches_into_delay_slots(name: str, machine: MachineKind, several: bool) -> None:
    """Code of a delay slot that is a block too needs a copy of it, and a jump."""
    lab = Lab(machine, 0, routine=with_shared_slots(several))
    assert len(lab.context.shared_slots) == 1
    edges, base = lab.executed_edges(), lab.execute(lab.items)
    for layout in LAYOUTS:
        check(lab, edges, base, name, layout)


def with_chained_slots() -> list[Item]:
    """Return a loop whose annulled slot leads to the delay slot of another branch, and only it.

    So does the loop in glibc's longjmp for 32 bits.
    """
    return code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.mov(9, R.I0),
        asm.mov(0, R.I1),
        asm.cmp(R.I0, 20),
        asm.branch("g", "out"),
        "again",
        asm.arithmetic("subcc", R.I0, 1, R.I0),
        asm.branch("ne", "again", True),
        asm.arithmetic("add", R.I1, 3, R.I1),
        asm.arithmetic("add", R.I1, 1, R.I1),
        "out",
        asm.ret(),
        asm.arithmetic("restore", R.I1, 0, R.O0),
    )


@pytest.mark.parametrize(("machine", "name"), turns(MACHINES, SETTINGS, few=3))
def test_slots_that_lead_to_delay_slots(name: str, machine: MachineKind) -> None:
    lab = Lab(machine, 0, routine=with_chained_slots())
    edges, base = lab.executed_edges(), lab.execute(lab.items)
    for layout in LAYOUTS:
        check(lab, edges, base, name, layout)


@pytest.mark.seeds(range(12))
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("mode", ["witness", "bits", "bytes", "block-trace"])
def test_traces_and_cost_are_those_of_the_plan(mode: str, machine: MachineKind, seed: int) -> None:
    lab, edges, base = lab_of(machine, seed)
    crossings = crossings_of(lab, edges)
    plan = make_plan(lab.cfg, mode, SchemeOptions()).plan
    packed = mode == "bits"
    units = TRACE_SIZE * (8 if packed else 1)
    lab.bench.write(TRACE_BUFFER, bytes(TRACE_SIZE))
    lab.bench.write(TRACE_END + POSITION, (-units & 0xFFFFFFFF).to_bytes(4, "big"))
    generated, _, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    places = (
        (plan.actions.get(e, ()), plan.blocks.get(lab.cfg.edges[e].target, ())) for e in edges
    )
    tokens = [action for at in places for actions in at for action in actions]
    trace = "".join(f"{a.value:0{a.width}b}" for a in tokens if isinstance(a, WriteTrace))
    written = (lab.bench.word(TRACE_END + POSITION) + units & 0xFFFFFFFF) * (1 if packed else 8)
    assert written == len(trace)
    assert buffered_bits(lab, written) == trace
    assert executed - base[1] == added(generated, crossings, block_counts(lab.cfg, crossings))


@pytest.mark.seeds(range(12))
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("mode", ["wpp", "pap", "pap-full"])
def test_paths_in_the_trace_and_cost_are_those_of_the_plan(
    mode: str, machine: MachineKind, seed: int
) -> None:
    lab, edges, base = lab_of(machine, seed)
    crossings = crossings_of(lab, edges)
    options = SchemeOptions(path_limit=LIMIT).having(walk_bits=6 if mode == "pap-full" else 12)
    plan = make_plan(lab.cfg, mode.partition("-")[0], options).plan
    lab.bench.write(TRACE_BUFFER, bytes(TRACE_SIZE))
    lab.bench.write(TRACE_END + POSITION, (-TRACE_SIZE & 0xFFFFFFFF).to_bytes(4, "big"))
    generated, layout, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    stack, paths, taken = [], [], Counter[TakenPart]()
    for edge in edges:
        if lab.cfg.edges[edge].source == lab.cfg.entry:
            stack.append(begin(plan))
        follow(plan, [edge], stack[-1])
        paths += [each.counter for each in stack[-1].counted]
        taken.update(stack[-1].taken)
        stack[-1].counted.clear()
        stack[-1].taken.clear()
        if lab.cfg.edges[edge].target == lab.cfg.exit:
            stack.pop()
    size = lab.bench.word(TRACE_END + POSITION) + TRACE_SIZE & 0xFFFFFFFF
    found = [word - layout.first[0] for word in lab.words(TRACE_BUFFER, size // 4)]
    assert found == paths
    assert paths
    price = added(generated, crossings, block_counts(lab.cfg, crossings), taken)
    assert executed - base[1] == price


CALLEE = RUNTIME_BASE + 0xF000


@pytest.mark.parametrize("machine", MACHINES)
def test_targets_of_indirect_transfers_are_traced(machine: MachineKind) -> None:
    """The register of a call is loaded just before it; that of a tail jump by the `restore`."""
    body = code(
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.sethi(CALLEE, R.L1),
        asm.load("ld", R.L1, CALLEE + 512 & 0x3FF, R.L2),
        asm.jmpl(R.L2, 8, R.O7),
        asm.nop(),
        asm.load("ld", R.L1, CALLEE + 512 & 0x3FF, R.O1),
        asm.arithmetic("restore", R.O1, 4, R.O1),
        asm.jmpl(R.O1, R.G0, R.G0),
        asm.nop(),
    )
    lab = Lab(machine, 0, routine=body)
    lab.bench.place([asm.nop(), asm.nop(), asm.retl(), asm.nop()], CALLEE)
    lab.bench.write(CALLEE + 512, CALLEE.to_bytes(4, "big"))
    edges, base = lab.executed_edges(), lab.execute(lab.items)
    plan = make_plan(lab.cfg, "witness", SchemeOptions()).plan
    assert sum(isinstance(a, WriteTarget) for at in (plan.actions, plan.block_ends)
               for actions in at.values() for a in actions) == 2  # fmt: skip
    lab.bench.write(TRACE_END + POSITION, (-TRACE_SIZE & 0xFFFFFFFF).to_bytes(4, "big"))
    generated, _, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    trace = lab.bench.read(TRACE_BUFFER, 16)
    first = trace.index((CALLEE + 8).to_bytes(4, "big"))
    assert (CALLEE + 4).to_bytes(4, "big") in trace[first + 4 :]
    crossings = crossings_of(lab, edges)
    assert executed - base[1] == added(generated, crossings, block_counts(lab.cfg, crossings))


def buffered_bits(lab: Lab, count: int) -> str:
    """Return the first bits of the trace buffer. The last byte's are not yet in their places."""
    whole = "".join(f"{byte:08b}" for byte in lab.bench.read(TRACE_BUFFER, (count + 7) // 8))
    rest = count % 8
    return whole if not rest else whole[: count - rest] + whole[len(whole) - rest :]


def counted_paths(lab: Lab, plan: InstrumentationPlan, layout: CounterLayout) -> dict[int, int]:
    """Return the path counters that are not 0."""
    found: dict[int, int] = {}
    if plan.table is CounterTable.HASH:
        found = hashed_paths(lab.bench, plan.key_words)
    elif plan.table is CounterTable.ARRAY:
        found = dict(enumerate(lab.words(layout.path_base, plan.path_counters)))
    for number in range(-len(plan.named_counters), 0):
        found[number] = lab.bench.word(layout.path_counter(number))
    return {number: count for number, count in found.items() if count}


def hashing(lab: Lab, plan: InstrumentationPlan, edges: tuple[int, ...]) -> int:
    """Return the instructions that the hashing routine executes."""
    if plan.table is not CounterTable.HASH:
        return 0
    model, stack, cost = HashTableModel(hash_costs(lab.machine, plan.key_words)), [], 0
    for edge in edges:
        if lab.cfg.edges[edge].source == lab.cfg.entry:
            stack.append(begin(plan))
        follow(plan, [edge], stack[-1])
        cost += sum(model.count(*count) for count in stack[-1].counted if count.counter >= 0)
        stack[-1].counted.clear()
        if lab.cfg.edges[edge].target == lab.cfg.exit:
            stack.pop()
    return cost


def check_path_registers(plan: InstrumentationPlan, made: RoutineCode) -> None:
    """There is a place for the path registers if and only if the plan has some."""
    assert plan.uses_register == (made.path_register is not None)


def test_the_sample_needs_no_and_every_register() -> None:
    """Some routines leave a path register, some do not; some code saves registers."""
    places: Mapping[bool, int] = {True: 0, False: 0}
    saving = 0
    for seed in range(12):
        lab, edges, _ = lab_of(MachineKind.SPARCV9, seed)
        plan = make_plan(lab.cfg, "pp", ARRAY, None, crossings_of(lab, edges)).plan
        made, *_ = lab.run_plan(plan)
        if made.path_register is not None:
            places = {**places, (key := made.path_register == "stack"): places[key] + 1}
        saving += any("stx" in line for s in made.snippets.values() for line in s.text)
    assert min(places.values()) > 1
    assert saving > 2
