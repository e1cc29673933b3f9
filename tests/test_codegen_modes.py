"""Every mode's code on random routines: counters and cost are those of the plan, executed.

The routines (`code_lab`) have free registers or none, windows or none, live condition codes,
calls, annulled branches. A log of the edges that a run crosses gives, by `interpret.execute`,
what every counter must hold and how often conditional code is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from code_bench import State
from code_lab import MACHINES, Lab, hashed_paths
from profiler.codegen import RoutineCode
from profiler.hash_routine import HashTableModel, hash_costs
from profiler.interpret import ExecutedWalk, begin, execute, executions, follow
from profiler.layout import CounterLayout
from profiler.plan import InstrumentationPlan, Table
from profiler.pricing import added
from profiler.request import Mode, SchemeOptions, TableChoice, VertexPlacement
from profiler.scheme_registry import make_plan
from simulator.program import MachineKind

LIMIT = 2000  # arrays stay small
HASH = SchemeOptions(path_limit=LIMIT, table=TableChoice.HASH)
ARRAY = SchemeOptions(path_limit=LIMIT, table=TableChoice.ARRAY)
SETTINGS: dict[str, tuple[Mode, SchemeOptions]] = {
    "pp": (Mode.PP, ARRAY),
    "pp-hash": (Mode.PP, HASH),
    "bittrace": (Mode.BITTRACE, SchemeOptions(path_limit=LIMIT)),
    "bittrace-hash": (Mode.BITTRACE, HASH),
    "qpt2": (Mode.QPT2, SchemeOptions()),
    **{f"qpt-{p.value}": (Mode.QPT, SchemeOptions(placement=p)) for p in VertexPlacement},
    "naive": (Mode.NAIVE, SchemeOptions()),
    "tpp": (Mode.TPP, SchemeOptions(path_limit=LIMIT, cold=0)),
    "tpp-cold": (Mode.TPP, SchemeOptions(path_limit=LIMIT, cold=40, loop=60, cold_always=True)),
    "tpp-hash": (
        Mode.TPP,
        SchemeOptions(path_limit=LIMIT, cold=40, cold_always=True, table=TableChoice.HASH),
    ),
    "kiter-1": (Mode.KITER, SchemeOptions(path_limit=LIMIT, iterations=1)),
    "kiter-2": (Mode.KITER, SchemeOptions(path_limit=LIMIT)),
    "kiter-5": (Mode.KITER, SchemeOptions(path_limit=LIMIT, iterations=5)),
    "kiter-hash": (Mode.KITER, SchemeOptions(path_limit=LIMIT, table=TableChoice.HASH)),
}


@cache
def lab_of(machine: MachineKind, seed: int) -> tuple[Lab, tuple[int, ...], tuple[State, int]]:
    """Return a routine, the edges that it crosses, and its result and cost uninstrumented."""
    lab = Lab(machine, seed)
    return lab, lab.executed_edges(), lab.execute(lab.items)


def crossings_of(lab: Lab, edges: tuple[int, ...]) -> list[int]:
    """Return how often each edge was crossed."""
    return [edges.count(edge.id) for edge in lab.cfg.edges]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", SETTINGS)
def test_counters_and_cost_are_those_of_the_plan(
    name: str, machine: MachineKind, seed: int
) -> None:
    lab, edges, base = lab_of(machine, seed)
    mode, options = SETTINGS[name]
    crossings = crossings_of(lab, edges)
    plan = make_plan(lab.cfg, mode, options, None, crossings).plan
    code, layout, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    counters = execute(lab.cfg, plan, [ExecutedWalk(edges)])
    assert lab.words(layout.edge_base, plan.edge_counters) == list(counters.events)
    assert counted_paths(lab, plan, layout) == dict(counters.paths)
    price = added(code, crossings, executions(lab.cfg, crossings), counters.taken)
    assert executed - base[1] == price + hashing(lab, plan, edges)
    check_path_registers(plan, code)


def counted_paths(lab: Lab, plan: InstrumentationPlan, layout: CounterLayout) -> dict[int, int]:
    """Return the path counters that are not 0."""
    found: dict[int, int] = {}
    if plan.table is Table.HASH:
        found = hashed_paths(lab.bench)
    elif plan.table is Table.ARRAY:
        found = dict(enumerate(lab.words(layout.path_base, plan.path_counters)))
    if plan.has_cold_counter:
        found[-1] = lab.bench.word(layout.cold)
    return {number: count for number, count in found.items() if count}


def hashing(lab: Lab, plan: InstrumentationPlan, edges: tuple[int, ...]) -> int:
    """Return the instructions that the hashing routine executes."""
    if plan.table is not Table.HASH:
        return 0
    execution = begin(plan)
    follow(plan, edges, execution)
    model = HashTableModel(hash_costs(lab.machine))
    return sum(model.count(*count) for count in execution.counted if count.counter >= 0)


def check_path_registers(plan: InstrumentationPlan, code: RoutineCode) -> None:
    """There is a place for the path registers if and only if the plan has some."""
    assert plan.uses_register == (code.path_register is not None)


def test_the_sample_needs_no_and_every_register() -> None:
    """Some routines leave a path register, some do not; some code saves registers."""
    places: Mapping[bool, int] = {True: 0, False: 0}
    saving = 0
    for seed in range(12):
        lab, edges, _ = lab_of(MachineKind.SPARCV9, seed)
        plan = make_plan(lab.cfg, Mode.PP, ARRAY, None, crossings_of(lab, edges)).plan
        code, *_ = lab.run_plan(plan)
        if code.path_register is not None:
            places = {**places, (key := code.path_register == "stack"): places[key] + 1}
        saving += any("stx" in line for s in code.snippets.values() for line in s.text)
    assert min(places.values()) > 1
    assert saving > 2
