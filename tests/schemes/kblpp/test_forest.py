"""Streams of numbers in the k-slab forest: actions, costs and memory against plain oracles."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest

from simprof.profiler.code.layout import COUNTER_SIZE, CounterLayout
from simprof.profiler.plan.actions import Execution
from simprof.profiler.plan.plan import POOL_START, CounterTable, InstrumentationPlan
from simprof.profiler.schemes.kblpp.code import (
    BUCKETS,
    CHILD,
    NODE_SIZE,
    NODES,
    ROOT,
    ROOT_HASHED,
    BeginStream,
    Emit,
    Sequences,
    bucket,
    call_cost,
    read_table,
    table_cost,
    table_size,
)
from simprof.simulator.binary.program import MachineKind
from tests.oracles.slabs import BEGIN, Node, all_nodes, counts, path_forest, sequences, slab_forest

Stream = Sequence[int | None]


def emitted(stream: Stream, known: Sequences) -> Counter[int]:
    """Execute the actions of a stream; path counters in the order in which they counted first."""
    emits = {r: Emit(r, known, from_register=False) for r in stream if r is not BEGIN}
    execution = Execution([0] * (2 if known.length == 2 else 4))
    found: Counter[int] = Counter()
    for r in stream:
        execution.run(0, (BeginStream(),) if r is BEGIN else (emits[r],))
    found.update(counter for counter, _ in execution.counted)
    return found


def by_labels(found: dict[int, int], known: Sequences) -> dict[tuple[int, ...], int]:
    return {known.numbers(number + 1): count for number, count in found.items()}


def random_stream(rng: random.Random) -> tuple[int, list[int | None]]:
    """A number of paths, and streams that repeat themselves more or less."""
    paths = rng.choice((1, 2, 3, 7, 1000))
    stream: list[int | None] = []
    for _ in range(rng.randint(1, 5)):
        stream.append(BEGIN)
        loop = [rng.randrange(paths) for _ in range(rng.randint(1, 6))]
        for _ in range(rng.randint(0, 12)):
            stream += loop if rng.random() < 0.7 else [rng.randrange(paths)]
    return paths, stream


EXAMPLE: list[int | None] = [BEGIN, 6, 2, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2, 3]


def test_the_example_of_the_thesis() -> None:
    known = Sequences(7, 4)
    found = emitted(EXAMPLE, known)
    assert sum(found.values()) == 14
    forest = by_labels(known.iteration_paths(found), known)
    level = {labels[0]: count for labels, count in forest.items() if len(labels) == 1}
    assert level == {6: 1, 2: 6, 0: 6, 3: 1}
    assert forest[2, 0, 0, 2] == 3
    chunks = {labels[:3] for labels, _ in all_nodes(slab_forest(EXAMPLE, 4)) if len(labels) >= 3}
    assert chunks == {(6, 2, 0), (0, 2, 2), (0, 0, 2), (2, 0, 0)}


@pytest.mark.long
@pytest.mark.seeds(range(3000), few=300)
def test_random_streams(seed: int) -> None:
    rng = random.Random(seed)
    paths, stream = random_stream(rng)
    k = rng.choice((2, 2, 3, 4, 5, 10, 20))
    known = Sequences(paths, k)
    found = emitted(stream, known)
    slabs = slab_forest(stream, k)
    assert by_labels(found, known) == counts(slabs)
    assert sum(found.values()) == sum(r is not BEGIN for r in stream)
    expected = sequences(stream, k)
    forest = known.iteration_paths(found)
    assert by_labels(forest, known) == expected == counts(path_forest(slabs, k))
    # The forest of k is a part of that of k + 1, and counts fall downwards
    more = Sequences(paths, k + 1)
    assert forest.items() <= more.iteration_paths(emitted(stream, more)).items()
    assert all(expected[each] <= expected[each[:-1]] for each in expected if len(each) > 1)


@pytest.mark.parametrize("paths", [1, 2, 9, 10**6])
def test_codes(paths: int) -> None:
    rng = random.Random(paths)
    known = Sequences(paths, 5)

    def code_of(numbers: tuple[int, ...]) -> int:
        return reduce(known.extended, numbers, 0)

    assert known.numbers(0) == () and code_of(()) == 0
    for number in range(min(paths, 20)):
        assert code_of((number,)) == number + 1
    every = [tuple(rng.randrange(paths) for _ in range(rng.randint(1, 9))) for _ in range(300)]
    assert all(known.numbers(code_of(each)) == each for each in every)
    assert len({code_of(each) for each in every}) == len(set(every))


class Machine:
    """What the routines do, with real lists, and what each call of them executes."""

    def __init__(self, machine: MachineKind, hashed: bool) -> None:
        self.machine, self.hashed = machine, hashed
        self.roots: dict[int, list[Any]] = {}
        self.spent = self.nodes = 0

    def _find(self, nodes: list[Any], label: int) -> tuple[Any, tuple[int, bool]]:
        for place, node in enumerate(nodes):
            if node[0] == label:
                return node, (place, False)
        nodes.append([label, []])
        self.nodes += 1
        return nodes[-1], (len(nodes) - 1, True)

    def follow(self, stream: Stream, k: int) -> None:
        tau = beta = None
        n = 0
        for r in stream:
            if r is BEGIN:
                tau, beta, n = None, None, 0
                continue
            name = CHILD
            if n % (k - 1) == 0:
                beta, name = tau, ROOT_HASHED if self.hashed else ROOT
                nodes = self.roots.setdefault(bucket(r) if self.hashed else r, [])
            else:
                assert tau is not None
                nodes = tau[1]
            tau, visit = self._find(nodes, r)
            visits = [visit]
            if beta is not None:
                beta, visit = self._find(beta[1], r)
                visits.append(visit)
            self.spent += call_cost(self.machine, name, tuple(visits))
            n += 1


@pytest.mark.seeds(range(600), few=60)
def test_costs_and_sizes_follow_from_the_order_of_first_counts(seed: int) -> None:
    rng = random.Random(seed)
    paths, stream = random_stream(rng)
    k, hashed = rng.choice((2, 3, 4, 10)), rng.random() < 0.5
    machine = rng.choice(list(MachineKind))
    known = Sequences(paths, k)
    plan = InstrumentationPlan({0: (Emit(0, known, hashed),)}, table=CounterTable.OWN)
    executed = Machine(machine, hashed)
    executed.follow(stream, k)
    found = emitted(stream, known)
    assert table_cost(machine, plan, found) == executed.spent
    assert table_size(plan, found) == NODE_SIZE * executed.nodes


@pytest.mark.seeds(range(100), few=20)
def test_forests_are_read_from_memory(seed: int) -> None:
    rng = random.Random(seed)
    paths, stream = random_stream(rng)
    k, hashed = rng.choice((2, 3, 5)), paths > 500
    known = Sequences(paths, k)
    words = BUCKETS if hashed else paths
    plan = InstrumentationPlan(
        {0: (Emit(0, known, hashed),)}, table=CounterTable.OWN, path_counters=words
    )
    top = slab_forest(stream, k)
    base, pool = 0x1000, 0x10_0000
    memory = {base + COUNTER_SIZE * n: 0 for n in range(words)}
    free = [pool + POOL_START]

    def put(link: int, node: Node) -> None:
        while memory[link]:
            link = memory[link] + 12
        at, free[0] = free[0], free[0] + NODE_SIZE
        memory[link] = at
        memory.update({at: node.label, at + 4: node.count, at + 8: 0, at + 12: 0})
        for child in node.children.values():
            put(at + 8, child)

    for root in top.children.values():
        put(base + COUNTER_SIZE * (bucket(root.label) if hashed else root.label), root)

    def read(address: int, size: int) -> bytes:
        return b"".join(memory[at].to_bytes(4, "big") for at in range(address, address + size, 4))

    found = read_table(plan, CounterLayout(path_base=base), read)
    assert found == emitted(stream, known)


def test_nodes_are_handed_out_from_a_pool() -> None:
    assert NODES.is_pool and not NODES.has_slots
