"""The hashing routine on the emulator: tables, costs and registers as its model says."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from simprof.profiler.code import hash_routine as hr
from simprof.profiler.code.hash_routine import HashTableModel, TableLayout, hash_costs, hash_routine
from simprof.profiler.code.layout import RUNTIME_BASE, TABLES_BASE
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Item, Register
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State

MACHINES = list(MachineKind)


def bench_with_routines(machine: MachineKind) -> tuple[CodeBench, dict[str, int]]:
    """Return a bench that has both variants, and their addresses."""
    bench = CodeBench(machine is MachineKind.SPARCV9)
    items: list[Item] = [*hash_routine(machine, False), *hash_routine(machine, True)]
    return bench, bench.place(items, RUNTIME_BASE)


def calls(sequence: list[tuple[int, bool]]) -> list[Item]:
    """Return code that counts each key, with the table in %o1."""
    items: list[Item] = []
    for key, on_back_edge in sequence:
        items += asm.load_constant(key, Register.O0, False)
        items += [*asm.load_constant(TABLES_BASE, Register.O1, False)]
        items += [asm.call(hr.routine_name(on_back_edge)), asm.nop()]
    return items


def random_sequence(rng: random.Random) -> list[tuple[int, bool]]:
    """Return keys with repeats, collisions and big values."""
    pool = [rng.randrange(1 << rng.choice([4, 12, 27, 31])) for _ in range(12)]
    pool += [pool[0] ^ 1 << 30, pool[1] ^ 1 << 30, 0, 2**31 - 1]
    keys: list[tuple[int, bool]] = []
    while len(keys) < 120:
        key, back = rng.choice(pool), rng.random() < 0.6
        keys += [(key, back)] * rng.choice([1, 1, 1, 2, 4])
    return keys


def table_of(bench: CodeBench) -> tuple[dict[int, int], list[list[int]], int]:
    """Return the counts in pool order, the chains, and the remembered key."""
    free = bench.word(TABLES_BASE + hr.TableLayout().free)
    pool = range(TABLES_BASE + hr.TableLayout().pool, free, hr.TableLayout().node_size)
    counts = {bench.word(n): bench.word(n + hr.TableLayout().count) for n in pool}
    chains = []
    for k in range(hr.BUCKETS):
        node, chain = bench.word(TABLES_BASE + hr.TableLayout().heads + 4 * k), []
        while node != TABLES_BASE:
            chain.append(bench.word(node))
            node = bench.word(node + hr.TableLayout().next)
        chains.append(chain)
    return counts, chains, bench.word(bench.word(TABLES_BASE + hr.TableLayout().last))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.seeds(range(6))
def test_routine_equals_model(machine: MachineKind, seed: int) -> None:
    bench, symbols = bench_with_routines(machine)
    bench.write(TABLES_BASE, TableLayout(1).initial(TABLES_BASE))
    model = HashTableModel(hash_costs(machine))
    rng = random.Random(seed)
    state = State([0] * 32)
    state.registers[Register.SP] = STACK + 0x8000
    for key, back in random_sequence(rng):
        code = calls([(key, back)])
        outcome = bench.run(code, state, symbols)
        assert outcome.trap == 0x100 + END_TRAP
        assert outcome.executed - len(code) == model.count(key, back), (key, back)
    counts, chains, last = table_of(bench)
    assert list(counts.items()) == list(model.counts.items())
    assert chains == model.chains
    assert last == (0xFFFFFFFF if model.last is None else model.last)
    assert max(map(len, chains)) >= 2


@pytest.mark.parametrize("machine", MACHINES)
def test_only_the_convention_registers_change(machine: MachineKind) -> None:
    bench, symbols = bench_with_routines(machine)
    bench.write(TABLES_BASE, TableLayout(1).initial(TABLES_BASE))
    rng = random.Random(7)
    width = 64 if machine is MachineKind.SPARCV9 else 32
    for k in range(40):
        state = State([rng.getrandbits(width) for _ in range(32)], k % 16, k // 2 % 16, k)
        state.registers[0] = 0
        state.registers[Register.SP] = STACK + 0x8000
        state.registers[Register.O0] = k // 3
        state.registers[Register.O1] = TABLES_BASE
        code = [asm.call(hr.routine_name(bool(k & 1))), asm.nop()]
        after = bench.run(code, state, symbols).state
        free = {Register.O0, Register.O1, Register.O7}
        for number in set(range(32)) - free:
            assert after.registers[number] == state.registers[number], number
        assert after.y == state.y
        if machine is not MachineKind.SPARCV8:
            assert (after.icc, after.xcc) == (state.icc, state.xcc)


def test_garbage_above_32_bits_does_not_matter_in_v8plus() -> None:
    bench, symbols = bench_with_routines(MachineKind.SPARCV8PLUS)
    bench.write(TABLES_BASE, TableLayout(1).initial(TABLES_BASE))
    for garbage in (0, 1, 0xFFFFFFFF):
        state = State([0] * 32)
        state.registers[Register.SP] = STACK + 0x8000
        state.registers[Register.O0] = garbage << 32 | 77
        state.registers[Register.O1] = TABLES_BASE
        bench.run([asm.call(hr.routine_name(False)), asm.nop()], state, symbols)
    assert table_of(bench)[0] == {77: 3}


@pytest.mark.parametrize("shift", range(30))
def test_multiples_of_powers_of_two_are_scattered(shift: int) -> None:
    keys = [key << shift for key in range(1, min(512, 1 << 30 - shift))]
    buckets = Counter(map(hr.bucket, keys))
    assert max(buckets.values()) <= 4


def test_sums_of_few_values_fill_buckets_evenly() -> None:
    """Paths of a chain of diamonds that mostly go one way: sums of a few powers of two."""
    rng = random.Random(3)
    for bits in (20, 26, 30):
        keys = {sum(1 << bit for bit in rng.sample(range(bits), 3)) for _ in range(2000)}
        buckets = Counter(map(hr.bucket, keys))
        pairs = sum(count * count for count in buckets.values()) - len(keys)
        assert pairs < 1.5 * len(keys) ** 2 / hr.BUCKETS  # chance makes 1


def test_initial_table_is_empty() -> None:
    table = struct.unpack(">8I", TableLayout(1).initial(TABLES_BASE)[:32])
    assert table[3] == 0xFFFFFFFF
    assert len(TableLayout(1).initial(TABLES_BASE)) == hr.TableLayout().pool


def test_costs_are_ordered() -> None:
    for machine in MACHINES:
        costs = hash_costs(machine)
        assert costs.remembered < costs.hit < costs.back_edge_hit < costs.back_edge_insert
        assert costs.searched(True, True, 3) == costs.back_edge_insert + 3 * costs.step
