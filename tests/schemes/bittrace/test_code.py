"""Code of bit tracing, executed: shifts, codes of several words, and the routine for their keys."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest
from msgspec.structs import replace

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import FrameState, Site, path_words, slots
from simprof.profiler.code.hash_routine import (
    HASH_MULTIPLIER,
    KEY_WORD_BITS,
    KEY_WORDS,
    WORD_COUNTS,
    HashTableModel,
    TableLayout,
    bucket,
    code_key,
    hash_costs,
    key_code,
    routine_name,
)
from simprof.profiler.code.layout import RUNTIME_BASE, RUNTIME_DATA, TABLES_BASE, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.runtime_code import runtime_code
from simprof.profiler.code.snippet_parts import HASH_REGISTERS, CounterAccess
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import Action, CountPath, Execution
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.profiler.schemes.bittrace.code import CountWords, ShiftBits, ShiftWord, StartWords
from simprof.profiler.schemes.bittrace.codes import WORD_BITS
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Item, Register
from simprof.simulator.isa.effects import ALL, CC, ICC
from tests.support.code_bench import END_TRAP, CodeBench, State, runtime_symbols
from tests.support.scheme_code import GENERATORS, ROUTINES
from tests.support.snippets import (
    MACHINES,
    Case,
    check_preserved,
    encoded,
    free_case,
    get_path,
    make_case,
    random_state,
    set_path,
)
from tests.support.turns import turns

R = Register


def make_bench(machine: MachineKind) -> CodeBench:
    bench = CodeBench(machine is MachineKind.SPARCV9)
    for assembly in runtime_code(machine, ROUTINES):
        bench.write(assembly.base, assembly.code)
    return bench


# -- `r = r << w | b`


@pytest.mark.parametrize(("on_stack", "machine"), turns([False, True], MACHINES))
def test_shift_appends_bits(machine: MachineKind, on_stack: bool) -> None:
    bench, rng = make_bench(machine), random.Random(int(on_stack))
    costs = set()
    for _ in range(150):
        case = make_case(rng, machine, rng.choice((1, 2)), on_stack)
        width = rng.choice((1, 1, 2, 3, 8, 14))
        action = ShiftBits(rng.choice((0, 1, rng.randrange(1 << width))), width)
        case.number = rng.getrandbits(WORD_BITS - width)
        set_path(case, bench, case.number)
        body = snippet_body((action,), case.access, case.site)
        outcome = bench.run(body.instructions, case.state, runtime_symbols(machine, ROUTINES))
        assert outcome.trap == 0x100 + END_TRAP
        assert outcome.executed == body.cost == len(body.instructions)
        execution = Execution([case.number])
        action.execute(execution)
        assert get_path(case, bench, outcome.state) == encoded(case, execution.registers[0])
        check_preserved(case, outcome.state)
        assert (outcome.state.icc, outcome.state.xcc) == (case.state.icc, case.state.xcc)
        costs.add(body.cost)
    assert min(costs) == (3 if on_stack else 1)


@pytest.mark.parametrize("machine", MACHINES)
def test_free_costs(machine: MachineKind) -> None:
    for action, cost in ((ShiftBits(0, 1), 1), (ShiftBits(1, 1), 2), (ShiftBits(9, 5), 2)):
        case = free_case(machine, 1)
        assert snippet_body((action,), case.access, case.site).cost == cost
    case = free_case(machine, 1)
    both = snippet_body((ShiftBits(1, 1), CountPath(0)), case.access, case.site)
    assert [i.text.split()[0] for i in both.instructions] == [
        *("sll", "or"),
        *("sethi", "sll", "add", "ld", "add", "st"),
    ]


def test_addresses_cannot_be_shifted() -> None:
    case = free_case(MachineKind.SPARCV9, 0)
    assert case.access.addressing is Addressing.ADDRESS
    with pytest.raises(AssemblyError, match="shifted"):
        snippet_body((ShiftBits(1, 1),), case.access, case.site)


# -- the routine for keys of several words


def random_keys(rng: random.Random, words: int) -> list[tuple[tuple[int, ...], bool]]:
    """Return keys with repeats, keys that differ in one word, and collisions."""
    pool = [tuple(rng.getrandbits(WORD_BITS) for _ in range(words)) for _ in range(6)]
    for at in range(words):
        changed = list(pool[0])
        changed[at] ^= 1 << 30  # the bucket depends on bits 0 to 29
        pool.append(tuple(changed))
    if words > 1:
        pool.append((pool[0][1], pool[0][0], *pool[0][2:]))
    pool += [(0,) * words, ((1 << WORD_BITS) - 1,) * words, (5, *[0] * (words - 1))]
    keys: list[tuple[tuple[int, ...], bool]] = []
    while len(keys) < 120:
        keys += [(rng.choice(pool), rng.random() < 0.6)] * rng.choice([1, 1, 2, 4])
    return keys


def store_words(bench: CodeBench, words: tuple[int, ...]) -> None:
    for k, word in enumerate(words[1:]):
        bench.write(KEY_WORDS + 4 * k, word.to_bytes(4, "big"))


def node_of(bench: CodeBench, table: TableLayout, address: int) -> tuple[int, int]:
    """Key and count of the node at `address`."""
    words = tuple(bench.word(address + 4 * k) for k in range(table.words))
    return code_key(words), bench.word(address + table.count)


def check_table(bench: CodeBench, words: int, model: HashTableModel) -> None:
    """Memory is as the model says: pool, chains, remembered node."""
    table = TableLayout(words)
    free = bench.word(TABLES_BASE + table.free)
    pool = range(TABLES_BASE + table.pool, free, table.node_size)
    assert [node_of(bench, table, node) for node in pool] == list(model.counts.items())
    for k, chain in enumerate(model.chains):
        node, found = bench.word(TABLES_BASE + table.heads + 4 * k), []
        while node != TABLES_BASE:
            found.append(node_of(bench, table, node)[0])
            node = bench.word(node + table.next)
        assert found == chain
    last = bench.word(TABLES_BASE + table.last)
    if model.last is None:
        assert last == TABLES_BASE + table.node_size
    else:
        assert node_of(bench, table, last)[0] == model.last


@pytest.mark.long
@pytest.mark.seeds(range(3))
@pytest.mark.parametrize(("words", "machine"), turns(WORD_COUNTS, MACHINES))
def test_routine_equals_model(machine: MachineKind, words: int, seed: int) -> None:
    bench, rng = make_bench(machine), random.Random(seed)
    bench.write(TABLES_BASE, TableLayout(words).initial(TABLES_BASE))
    model = HashTableModel(hash_costs(machine, words))
    for key, back in random_keys(rng, words):
        state = random_state(rng, machine)
        state.registers[R.O0] = key[0] | (
            rng.getrandbits(32) << 32 if machine is MachineKind.SPARCV8PLUS else 0
        )
        state.registers[R.O1] = TABLES_BASE
        store_words(bench, key)
        code: list[Item] = [asm.call(routine_name(back, words)), asm.nop()]
        outcome = bench.run(code, state, runtime_symbols(machine, ROUTINES))
        assert outcome.trap == 0x100 + END_TRAP
        assert outcome.executed - len(code) == model.count(code_key(key), back)
        for n in set(range(1, 32)) - {int(r) for r in HASH_REGISTERS}:
            mask = 0xFFFFFFFF if n >= R.SP and machine is not MachineKind.SPARCV9 else -1
            assert (outcome.state.registers[n] ^ state.registers[n]) & mask == 0, R(n).text
        assert outcome.state.y == state.y
        if machine is not MachineKind.SPARCV8:
            assert (outcome.state.icc, outcome.state.xcc) == (state.icc, state.xcc)
    check_table(bench, words, model)
    assert max(map(len, model.chains)) >= 2


@pytest.mark.parametrize("machine", MACHINES)
def test_every_word_more_costs_more(machine: MachineKind) -> None:
    costs = [hash_costs(machine, words) for words in WORD_COUNTS]
    for fewer, more in pairwise(costs):
        assert fewer.remembered < more.remembered
        assert fewer.step < more.step
        assert fewer.hit < more.hit < more.insert < more.back_edge_insert


def test_keys_are_hashed_by_their_low_32_bits() -> None:
    rng = random.Random(4)
    for words in WORD_COUNTS:
        for _ in range(50):
            key = code_key([rng.getrandbits(WORD_BITS) for _ in range(words)])
            low = key & (1 << KEY_WORD_BITS) - 1
            assert bucket(key) == bucket(low) == low * HASH_MULTIPLIER >> 21 & 511


def test_key_words_are_clear_of_the_routines() -> None:
    for machine in MACHINES:
        end = max(a.base + len(a.code) for a in runtime_code(machine, ROUTINES))
        assert RUNTIME_BASE < end <= RUNTIME_DATA
    assert KEY_WORDS & 0x3FF == 0


# -- actions on several words


@dataclass
class WordCase:
    """A site with several path registers, and what they hold."""

    case: Case
    words: list[int]

    def address(self, number: int) -> int | None:
        """Where path register `number` is in memory, None if it is a register."""
        registers = self.case.access.registers
        if registers[number] is not None:
            return None
        inside = [k for k, register in enumerate(registers) if register is None]
        context = self.case.access.context
        found = path_words(self.case.site, context.abi, len(inside), False, 0)
        slot = found[inside.index(number)]
        return self.case.state.registers[slot.base] + slot.offset

    def load(self, bench: CodeBench) -> None:
        """Give the path registers their values."""
        for number, (register, word) in enumerate(
            zip(self.case.access.registers, self.words, strict=True)
        ):
            address = self.address(number)
            if address is None:
                assert register is not None
                self.case.state.registers[register] = word
            else:
                bench.write(address, word.to_bytes(8 if self.case.is64 else 4, "big"))

    def store(self, bench: CodeBench, after: State) -> list[int]:
        """Return what the path registers hold."""
        held = []
        for number, register in enumerate(self.case.access.registers):
            address = self.address(number)
            if address is None:
                assert register is not None
                held.append(after.registers[register] & 0xFFFFFFFF)
            else:
                size = 8 if self.case.is64 else 4
                held.append(int.from_bytes(bench.read(address, size), "big"))
        return held


def make_word_case(rng: random.Random, machine: MachineKind, words: int) -> WordCase:
    """Return a random site; any of the path registers may be in memory."""
    context = RoutineContext(machine, None)
    frame = FrameState(rng.randrange(2), 0)
    order = rng.sample(LOCAL_ORDER, words)
    registers = [r if rng.random() < 0.6 else None for r in order]
    density = rng.choice([0.0, 0.3, 0.8, 1.0])
    live = sum(1 << n for n in range(39) if rng.random() < density) & ALL | context.abi.reserved
    for register in registers:
        if register is not None:
            live &= ~(1 << register)
    site = Site(live, frame, slots(frame, rng.choice([176, 240, None]), context.abi))
    layout = CounterLayout(TABLES_BASE)
    access = CounterAccess(
        CounterTable.HASH, None, layout, registers[0], context, GENERATORS, tuple(registers[1:])
    )
    case = Case(machine, access, site, 0, random_state(rng, machine))
    return WordCase(case, [rng.getrandbits(WORD_BITS - 4) for _ in range(words)])


def word_actions(rng: random.Random, words: int) -> tuple[tuple[Action, ...], list[int]]:
    """Return actions as plans have them, and the path registers whose values matter then."""
    at = rng.randrange(words)
    begin = rng.randrange(at + 1)
    width = rng.choice((1, 2, 4))
    shift = ShiftWord(at, rng.randrange(1 << width), width)
    start = StartWords(begin, at, rng.choice((1, 77, 5000)), words)
    count = CountWords(at + 1, rng.random() < 0.5)
    untouched = [*range(begin), *range(begin, at + 1)]
    choices: list[tuple[tuple[Action, ...], list[int]]] = [
        ((shift,), list(range(words))),
        ((start,), untouched),
        ((count,), []),
        ((shift, count), []),
        ((shift, count, start), list(range(begin, at + 1))),
    ]
    return rng.choice(choices)


@pytest.mark.parametrize(("words", "machine"), turns(WORD_COUNTS, MACHINES))
def test_snippets_do_what_they_mean(machine: MachineKind, words: int) -> None:
    bench, rng = make_bench(machine), random.Random(words)
    bench.write(TABLES_BASE, TableLayout(words).initial(TABLES_BASE))
    model = HashTableModel(hash_costs(machine, words))
    for _ in range(200):
        placed = make_word_case(rng, machine, words)
        case = placed.case
        actions, meaning = word_actions(rng, words)
        placed.load(bench)
        body = snippet_body(actions, case.access, case.site)
        outcome = bench.run(body.instructions, case.state, runtime_symbols(machine, ROUTINES))
        assert outcome.trap == 0x100 + END_TRAP, [i.text for i in body.instructions]
        execution = Execution(list(placed.words))
        for action in actions:
            action.execute(execution)
        inside = sum(model.count(number, back) for number, back in execution.counted)
        assert outcome.executed == body.cost + inside, [i.text for i in body.instructions]
        assert body.hash_calls == len(execution.counted)
        held = placed.store(bench, outcome.state)
        assert [held[k] for k in meaning] == [execution.registers[k] for k in meaning]
        check_preserved(case, outcome.state)
    check_table(bench, words, model)


@pytest.mark.parametrize("machine", MACHINES)
def test_free_count_of_words(machine: MachineKind) -> None:
    free = free_case(machine, 2)
    access = replace(free.access, others=(R.L1, R.L2))
    body = snippet_body((CountWords(2, True),), access, free.site)
    assert [i.text for i in body.instructions] == [
        "sethi %hi(0x50008800), %o1",
        "st %l1, [%o1]",
        "st %g0, [%o1 + 4]",
        "mov %l0, %o0",
        "call hash_count_3_back",
        "sethi %hi(0x60000000), %o1",
    ]
    live = Site(free.site.live | CC, free.site.frame, free.site.slots)
    kept = snippet_body((CountWords(2, True),), access, live).cost
    assert (kept > body.cost) == (machine is MachineKind.SPARCV8)
    assert ICC & CC


def test_words_without_a_meaning_are_cleared_in_execution_only() -> None:
    """Equal codes must be equal states; the code for SPARC writes what is read later, no more."""
    action = StartWords(0, 1, 6, 4)
    execution = Execution([9, 9, 9, 9])
    action.execute(execution)
    assert execution.registers == [0, 6, 0, 0]
    assert str(action) == "r0=0; r1=6"
    CountWords(3).execute(execution)
    assert key_code(execution.counted[0].counter, 4) == (0, 6, 0, 0)
    assert str(CountWords(3)) == "count[r0,r1,r2]++"
    assert str(ShiftWord(2, 1, 3)) == "r2=r2<<3|1"
