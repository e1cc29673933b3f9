"""Bit tracing of random routines, instrumented and executed: codes of one word and of several.

Words are made so short that small routines need several. The price is exact, the routine for
several words included: executed instructions are the plain run's, the snippets' and the model's.
"""

from __future__ import annotations

import random

import pytest

from simprof.profiler.code.hash_routine import (
    WORD_COUNTS,
    HashTableModel,
    TableLayout,
    code_key,
    hash_costs,
)
from simprof.profiler.code.layout import TABLES_BASE
from simprof.profiler.engine.lowering import cost_words
from simprof.profiler.engine.memory import EngineMemory
from simprof.profiler.engine.products import hash_operation
from simprof.profiler.graphfiles.execution import instructions_of_hashing
from simprof.profiler.plan.actions import PathIncrement
from simprof.profiler.plan.interpret import ExecutedWalk, execute
from simprof.profiler.plan.plan import CounterTable
from simprof.profiler.schemes.bittrace import codes as branch_codes
from simprof.profiler.schemes.bittrace.planner import plan_bittrace
from simprof.simulator.binary.program import MachineKind
from tests.support.code_bench import CodeBench
from tests.support.code_lab import MACHINES, Lab
from tests.support.hash_tables import hashed_counts
from tests.support.turns import first, turns


def hashed_codes(bench: CodeBench, words: int) -> dict[int, int]:
    """Return the counts in the table, by path number."""
    table = TableLayout(words)
    free = bench.word(TABLES_BASE + table.free)
    found = {}
    for node in range(TABLES_BASE + table.pool, free, table.node_size):
        key = code_key([bench.word(node + 4 * k) for k in range(words)])
        found[key] = bench.word(node + table.count)
    return found


def run(machine: MachineKind, seed: int, table: CounterTable | None) -> tuple[int, str | None]:
    """Run one routine; return the words of its codes, and where they live."""
    lab = Lab(machine, seed)
    base = lab.execute(lab.items)
    walk = ExecutedWalk(lab.executed_edges())
    paths = plan_bittrace(lab.cfg, table=table)
    plan = paths.plan
    generated, layout, state, executed = lab.run_plan(plan)
    lab.check_same_result(base[0], state)
    expected = execute(lab.cfg, plan, [walk])
    assert tuple(lab.words(layout.edge_base, plan.edge_counters)) == expected.events
    if plan.table is CounterTable.HASH:
        assert hashed_codes(lab.bench, plan.key_words) == expected.paths
    else:
        counters = lab.words(layout.path_base, plan.path_counters)
        assert {k: count for k, count in enumerate(counters) if count} == expected.paths
    costs = hash_costs(machine, plan.key_words)
    inside = instructions_of_hashing(plan, [walk], costs) if plan.table is CounterTable.HASH else 0
    priced = sum(generated.snippets[edge].cost for edge in walk.edges if edge in generated.snippets)
    assert executed == base[1] + priced + inside
    return plan.key_words, generated.path_register


@pytest.mark.parametrize(("table", "machine"), turns([None, CounterTable.HASH], MACHINES))
def test_codes_of_one_word(machine: MachineKind, table: CounterTable | None) -> None:
    for seed in range(8):
        assert run(machine, seed, table)[0] == 1


@pytest.mark.parametrize("machine", first(1, MACHINES, at=2))
def test_codes_of_several_words(machine: MachineKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_codes, "WORD_BITS", 6)
    found = [run(machine, seed, None) for seed in range(24)]
    assert {words for words, _ in found} >= {2, 3}
    homes = {register for words, register in found if words > 1}
    assert any("stack" in str(register) for register in homes)
    assert any("%" in str(register) for register in homes)


def test_a_table_for_one_word_is_that_of_the_plain_routine() -> None:
    table = TableLayout(1)
    assert (table.node_size, table.count, table.next) == (12, 4, 8)
    assert (table.last, table.free) == (24, 28)
    assert (table.heads, table.pool) == (32, 2080)


@pytest.mark.parametrize("machine", MACHINES)
def test_kernel_tables_have_the_costs_of_their_keys(machine: MachineKind) -> None:
    """Keys of any length, and several kinds of tables in one run: counts and costs to the last."""
    from simprof.profiler.engine import kernels

    memory, rng = EngineMemory(cost_words(machine)), random.Random(3)
    memory.grow_nodes()
    sizes = WORD_COUNTS
    tables = [memory.add_table(words) for words in sizes]
    models = [HashTableModel(hash_costs(machine, words)) for words in sizes]
    spent = [0] * len(sizes)
    pools = [
        [code_key([rng.getrandbits(31) for _ in range(words)]) for _ in range(30)]
        for words in sizes
    ]
    for pool in pools:
        pool += [key ^ 1 << 30 for key in pool[:10]]  # the bucket depends on bits 0 to 29
    for _ in range(1500):
        at, back = rng.randrange(len(sizes)), rng.random() < 0.6
        number = rng.choice(pools[at])
        operation = hash_operation(tables[at], PathIncrement(number, back), memory.hash_key(number))
        first = memory.add_operations([(*operation, 1)])
        assert memory.execute(first, 0) == kernels.OK
        spent[at] += models[at].count(number, back)
    for at, table in enumerate(tables):
        assert hashed_counts(memory, table) == models[at].counts
        assert memory.hash_work(table) == (sum(models[at].counts.values()), spent[at])
    assert max(max(pool) for pool in pools) >= 1 << 64
