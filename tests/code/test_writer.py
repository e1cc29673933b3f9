"""What snippets are made with: several path registers, saves, calls, conditional parts.

Random actions at random sites, executed on the emulator: every path register and every live
register must hold what it should, no stack word may change but the snippet's own, and the price
must be the number of instructions executed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.code.frames import FrameState, Site, Slot, path_words, slots, temporary_frame
from simprof.profiler.code.layout import ARRAYS_BASE, RUNTIME_DATA, CounterLayout
from simprof.profiler.code.registers import LOCAL_ORDER
from simprof.profiler.code.runtime_code import runtime_code
from simprof.profiler.code.snippet_parts import (
    HASH_REGISTERS,
    Body,
    CounterAccess,
    Generator,
    Generators,
    Needs,
    PathRegister,
)
from simprof.profiler.code.writer import Writer, needs, snippet_body
from simprof.profiler.plan.actions import Action, Execution
from simprof.profiler.plan.plan import Addressing, CounterTable
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import AssemblyError, Item, Label, Register, assemble
from simprof.simulator.isa.effects import ALL, CC
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State, runtime_symbols
from tests.support.code_lab import MACHINES
from tests.support.scheme_code import GENERATORS, ROUTINES
from tests.support.turns import first

R = Register
WORDS = ARRAYS_BASE + 0x4000
LAYOUT = CounterLayout(ARRAYS_BASE, ARRAYS_BASE, words_base=WORDS)
SPOIL, SPOIL_CODE = "spoil", RUNTIME_DATA - 0x400


class Mix(Action, frozen=True):
    """`r[0] += r[1] + ...`, each `r[k] += k`; with `use` temporaries, and a call or condition."""

    use: int = 2
    calls: bool = False
    condition: str | None = None
    flags: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        registers = execution.registers
        total = sum(registers)
        registers[:] = [total, *(r + k for k, r in enumerate(registers[1:], 1))]
        if self.condition is not None and COMPARE[self.condition](total):
            execution.take()
            registers[0] += 1000


COMPARE = {
    "z": lambda n: n == 0,
    "nz": lambda n: n != 0,
    "lz": lambda n: n < 0,
    "gez": lambda n: n >= 0,
    "gz": lambda n: n > 0,
    "lez": lambda n: n <= 0,
}


def write_mix(writer: Writer, action: Mix) -> None:
    """Write the code of `Mix`; the sum is kept over the call."""
    total, other = writer.temporary(2), writer.temporary(3)
    writer.load_path(total)
    for k in range(1, len(writer.access.registers)):
        writer.emit(asm.arithmetic("add", total, writer.fetch(k, 3), total))
        writer.add_path(k, k)
    for number in range(action.use):
        writer.emit(asm.mov(-1, writer.temporary(number + 4)))
    if action.calls:
        writer.emit(asm.mov(7, writer.temporary(0)))
        writer.call(SPOIL, cost=len(spoiler()) - 1)
    if action.flags:
        writer.emit(asm.cmp(total, 5))
    writer.store_path(total)
    if action.condition is not None:
        writer.emit(asm.mov(total, other))
        writer.conditional(action.condition, other, lambda: writer.add_path(1000), 3)


def mix_needs(action: Mix, _table: CounterTable, machine: MachineKind) -> Needs:
    """Needs of `Mix`."""
    v8 = machine is MachineKind.SPARCV8
    conditions = action.flags or action.calls or (v8 and action.condition is not None)
    return Needs(True, HASH_REGISTERS if action.calls else (), conditions)


MIXED: Generators = {**GENERATORS, Mix: Generator(write_mix, mix_needs)}


def spoiler() -> list[Item]:
    """Return a leaf that destroys what it may."""
    spoils = [asm.mov(1 + n, register) for n, register in enumerate(HASH_REGISTERS[:2])]
    return [Label(SPOIL), *spoils, asm.retl(), asm.cmp(R.O0, 1)]


@dataclass
class Case:
    """A snippet's site, path registers and machine state."""

    access: CounterAccess
    site: Site
    state: State
    values: list[int]

    @property
    def words(self) -> dict[int, Slot]:
        """Stack words of path registers, by path register."""
        inside = [k for k, r in enumerate(self.access.registers) if r is None]
        abi, mixed = self.access.context.abi, self.access.mixed
        return dict(zip(inside, path_words(self.site, abi, len(inside), mixed, WORDS), strict=True))

    def address(self, slot: Slot) -> int:
        """Address of a stack word."""
        return slot.offset + (0 if slot.base is R.G0 else self.state.registers[slot.base])


def make_case(rng: random.Random, machine: MachineKind) -> Case:
    """Return a random case."""
    context = RoutineContext(machine, None)
    is64, count = context.is64, rng.choice([1, 2, 3, 5, 8])
    depth = rng.randrange(2)
    pool = [*LOCAL_ORDER, R.G2, R.G4] if depth else [R.G1, R.G2, R.G3, R.G4, R.O2, R.O3]
    rng.shuffle(pool)
    inside = rng.randrange(min(count, 5) + 1)
    registers: list[PathRegister] = [*pool[:inside], *[None] * (count - inside)]
    rng.shuffle(registers)
    frame = FrameState(depth, 0 if depth else rng.choice([0, 64]))
    density = rng.choice([0.0, 0.5, 1.0])
    live = sum(1 << n for n in range(39) if rng.random() < density) & ALL | context.abi.reserved
    for register in registers:
        live &= ~(0 if register is None else 1 << register)
    site = Site(live, frame, slots(frame, rng.choice([400, 640]), context.abi))
    mixed = rng.random() < 0.3
    first, *others = registers
    access = CounterAccess(
        CounterTable.ARRAY, Addressing.INDEX, LAYOUT, first, context, MIXED, tuple(others), mixed
    )
    bias = context.abi.bias
    state = State([rng.getrandbits(64 if is64 else 32) for _ in range(32)])
    if machine is MachineKind.SPARCV8PLUS:
        state.registers = [rng.getrandbits(64 if n < R.SP else 32) for n in range(32)]
    state.icc = rng.choice([f for f in range(16) if f & 12 != 12])
    state.xcc, state.y = rng.randrange(16), rng.getrandbits(32)
    state.registers[0] = 0
    state.registers[R.SP] = STACK + 0x8000 - bias
    state.registers[R.FP] = STACK + 0x8400 - bias
    values = [rng.choice([0, -5, 12, 100000, -(1 << 20)]) for _ in range(count)]
    if rng.random() < 0.3:
        values[0] = -sum(values[1:])
    return Case(access, site, state, values)


class Machine:
    """A bench with the run-time code."""

    def __init__(self, machine: MachineKind) -> None:
        self.machine = machine
        self.is64 = machine is MachineKind.SPARCV9
        self.bench = CodeBench(self.is64)
        for assembly in runtime_code(machine, ROUTINES):
            self.bench.write(assembly.base, assembly.code)
        self.symbols = {**runtime_symbols(machine, ROUTINES), SPOIL: SPOIL_CODE}
        self.bench.write(SPOIL_CODE, assemble(spoiler(), SPOIL_CODE).code)

    def run(self, case: Case, action: Mix) -> Body:
        """Execute the snippet and check everything about it."""
        self.put(case)
        before = self.bench.read(STACK, 1 << 16)
        body = snippet_body((action,), case.access, case.site)
        outcome = self.bench.run(body.instructions, case.state, self.symbols)
        assert outcome.trap == 0x100 + END_TRAP, [i.text for i in body.instructions]
        execution = Execution(list(case.values))
        action.execute(execution)
        bits = (1 << (64 if self.is64 else 32)) - 1
        assert list(self.path_values(case, outcome.state)) == [
            value & bits for value in execution.registers
        ]
        taken = len(execution.taken) * body.taken_cost
        assert outcome.executed == body.cost + taken, [i.text for i in body.instructions]
        self.check_kept(case, outcome.state)
        self.check_stack(case, before, self.bench.read(STACK, 1 << 16))
        return body

    def put(self, case: Case) -> None:
        """Put the path registers' values where they belong."""
        size = 8 if self.is64 else 4
        for k, (register, value) in enumerate(zip(case.access.registers, case.values, strict=True)):
            encoded = value & ((1 << 8 * size) - 1)
            if register is None:
                self.bench.write(case.address(case.words[k]), encoded.to_bytes(size, "big"))
            elif register < R.SP and self.machine is MachineKind.SPARCV8PLUS:
                case.state.registers[register] = encoded | 0x5A5A << 32  # garbage above
            else:
                case.state.registers[register] = encoded

    def path_values(self, case: Case, after: State) -> Iterator[int]:
        """Yield what the path registers hold."""
        size = 8 if self.is64 else 4
        for k, register in enumerate(case.access.registers):
            if register is None:
                yield int.from_bytes(self.bench.read(case.address(case.words[k]), size), "big")
            else:
                yield after.registers[register] & ((1 << 8 * size) - 1)

    def check_kept(self, case: Case, after: State) -> None:
        """Live registers, condition codes and %y are as they were."""
        wide = {MachineKind.SPARCV9: 32, MachineKind.SPARCV8PLUS: int(R.SP)}.get(self.machine, 0)
        for n in range(1, 32):
            bits = (1 << (64 if n < wide else 32)) - 1
            if case.site.live >> n & 1:
                assert (after.registers[n] ^ case.state.registers[n]) & bits == 0, Register(n).text
        assert after.y == case.state.y
        if case.site.live & CC:
            assert after.icc == case.state.icc
            assert self.machine is MachineKind.SPARCV8 or after.xcc == case.state.xcc

    def check_stack(self, case: Case, before: bytes, after: bytes) -> None:
        """Only words that are the snippet's changed; below %sp it may do as it likes."""
        words = [*case.site.slots, *case.words.values()]
        starts = [case.address(slot) - STACK for slot in words if slot.base is not R.G0]
        allowed = {byte for start in starts for byte in range(start, start + 8)}
        top = case.state.registers[R.SP] + case.access.context.abi.bias - STACK
        changed = {n for n in range(1 << 16) if before[n] != after[n]}
        assert {n for n in changed if n >= top} <= allowed
        frame = temporary_frame(case.access.context.abi)
        assert all(n >= top - 2 * frame for n in changed)


@pytest.mark.long
@pytest.mark.parametrize("machine", first(1, MACHINES, at=1))
def test_random_snippets(machine: MachineKind) -> None:
    rng, bench = random.Random(3), Machine(machine)
    lowered = conditional = 0
    for _ in range(300):
        action = Mix(
            rng.choice([0, 1, 3]),
            rng.random() < 0.3,
            rng.choice([None, *COMPARE]),
            rng.random() < 0.3,
        )
        body = bench.run(make_case(rng, machine), action)
        lowered += "%sp, -" in body.instructions[0].text
        conditional += body.taken_cost > 0
    assert lowered > 10
    assert conditional > 100


def free_scheme(machine: MachineKind, register: PathRegister = R.L0) -> tuple[CounterAccess, Site]:
    """Return a scheme with one path register at a site where everything is free."""
    context = RoutineContext(machine, None)
    return CounterAccess(
        CounterTable.ARRAY, Addressing.INDEX, LAYOUT, register, context, MIXED
    ), context.free_site


@pytest.mark.parametrize(
    ("machine", "cost"),
    [(MachineKind.SPARCV9, 2), (MachineKind.SPARCV8PLUS, 3), (MachineKind.SPARCV8, 3)],
)
def test_a_condition_costs_its_branch(machine: MachineKind, cost: int) -> None:
    access, site = free_scheme(machine)
    plain = snippet_body((Mix(0),), access, site)
    body = snippet_body((Mix(0, condition="lz"),), access, site)
    assert body.cost == plain.cost + 1 + cost  # the copy of the sum
    assert body.taken_cost == 1
    assert body.open_end


def test_live_conditions_cost_what_keeps_them() -> None:
    for machine, more in ((MachineKind.SPARCV9, 2), (MachineKind.SPARCV8PLUS, 2)):
        access, site = free_scheme(machine)
        live = Site(site.live | CC, site.frame, site.slots)
        plain = snippet_body((Mix(0, flags=True),), access, site)
        assert snippet_body((Mix(0, flags=True),), access, live).cost == plain.cost + more


def test_a_call_takes_the_last_instruction_into_its_delay_slot() -> None:
    access, site = free_scheme(MachineKind.SPARCV9)
    body = snippet_body((Mix(0, calls=True),), access, site)
    texts = [i.text for i in body.instructions]
    assert texts[texts.index(f"call {SPOIL}") + 1] == "mov 7, %o0"
    assert body.cost == len(texts) + len(spoiler()) - 1


def test_needs_are_joined() -> None:
    joined = needs((Mix(), Mix(calls=True)), CounterTable.ARRAY, MachineKind.SPARCV9, MIXED)
    assert joined == Needs(True, HASH_REGISTERS, True)
    with pytest.raises(AssemblyError, match="no code for object"):
        needs((object(),), CounterTable.ARRAY, MachineKind.SPARCV9, MIXED)  # type: ignore[arg-type]


def test_each_action_of_a_snippet_may_have_a_conditional_part() -> None:
    access, site = free_scheme(MachineKind.SPARCV9)
    alone = snippet_body((Mix(condition="z"),), access, site)
    body = snippet_body((Mix(condition="z"), Mix(), Mix(condition="nz")), access, site)
    assert alone.taken_costs == (alone.taken_cost,)
    assert body.taken_costs == (alone.taken_cost, 0, alone.taken_cost)


def test_two_conditional_parts_of_an_action_are_refused() -> None:
    writer = Writer(*free_scheme(MachineKind.SPARCV9))
    for _ in range(2):
        writer.begin_action()
        writer.conditional("z", writer.temporary(0), lambda: writer.emit(asm.nop()))
    with pytest.raises(AssemblyError, match="two conditional"):
        writer.conditional("z", writer.temporary(0), lambda: writer.emit(asm.nop()))
