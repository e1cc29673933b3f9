"""Addresses of data: which are recorded, what the others follow from, and the code, executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.pricing import added
from simprof.profiler.code.references import DataReference, references
from simprof.profiler.plan.plan import InstrumentationPlan
from simprof.profiler.request.request import SchemeOptions, Setting
from simprof.profiler.schemes.tracing.code import (
    ADDRESSES_BUFFER,
    ADDRESSES_END,
    POSITION,
    TRACE_SIZE,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa import assembler as asm
from simprof.simulator.isa.assembler import Instruction, Item, Register
from simprof.simulator.isa.disassembly import disassemble
from tests.oracles.exact import simulate_settings
from tests.oracles.references import Execution, address, executions, log
from tests.support.assembled import Assembled, code
from tests.support.code_lab import MACHINES, Lab
from tests.support.codegen_modes import crossings_of
from tests.support.turns import first

R = Register
ADDRESSES = SchemeOptions().having(addresses=True)
RUNS = [("words", "v9", b"a bb a\nbb a ccc\n"), ("words", "v8plus", b""), ("words", "v8", b"x y x")]


def found_in(*items: Instruction | str) -> list[DataReference]:
    """Return the references of the first block of a routine."""
    program = Assembled({"f": code(*items)})
    analysis = program.context("f").analysis
    assert analysis is not None
    return list(references(analysis.cfg, analysis.liveness)[0])


def follows(found: list[DataReference]) -> list[tuple[int | None, int]]:
    return [(each.base, each.offset) for each in found]


def test_the_first_address_of_each_base_is_recorded() -> None:
    found = found_in(
        asm.load("ld", R.O0, 0, R.O1),
        asm.load("ld", R.O0, 8, R.O2),  # 8 more
        asm.mov(R.O0, R.O3),
        asm.arithmetic("add", R.O3, 16, R.O3),
        asm.store("st", R.O1, R.O3, -4),  # 12 more
        asm.load("ld", R.O1, 0, R.O0),  # what was loaded: another base
        asm.load("ld", R.O0, 0, R.O4),
        asm.load("ld", R.O1, R.O2, R.O4),  # a sum of two
        asm.arithmetic("add", R.O2, R.O1, R.O5),
        asm.load("ld", R.O5, 4, R.O4),  # 4 more than that sum
        asm.retl(),
        asm.nop(),
    )
    assert follows(found) == [(0, 0), (0, 8), (0, 12), (3, 0), (4, 0), (5, 0), (5, 4)]


def test_constants_are_not_recorded() -> None:
    found = found_in(
        asm.sethi(0x40000, R.O0),
        asm.load("ld", R.O0, 12, R.O1),
        asm.arithmetic("or", R.O0, 0x200, R.O2),
        asm.arithmetic("sub", R.O2, 8, R.O2),
        asm.load("ld", R.O2, 0, R.O1),
        asm.mov(-16, R.O3),
        asm.load("ld", R.O2, R.O3, R.O1),
        asm.load("ld", R.G0, 64, R.O1),
        asm.retl(),
        asm.nop(),
    )
    assert follows(found) == [(None, 0x4000C), (None, 0x401F8), (None, 0x401E8), (None, 64)]


def test_windows_and_what_may_have_changed() -> None:
    found = found_in(
        asm.load("ld", R.O0, 0, R.G1),
        asm.store("st", R.G1, R.SP, 64),
        asm.arithmetic("save", R.SP, -176, R.SP),
        asm.load("ld", R.O0, 0, R.G1),  # another register
        asm.arithmetic("xor", R.O0, 4, R.O0),
        asm.load("ld", R.O0, 4, R.G1),
        asm.load("ld", R.I0, 4, R.G1),  # the one that was recorded first
        asm.load("ld", R.FP, 68, R.G1),
        asm.load("ld", R.SP, 68, R.G1),
        asm.ret(),
        asm.restore(),
    )
    assert follows(found) == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 4), (1, 4), (1, -172)]


def test_doubling_a_register_again_and_again_is_no_long_sum() -> None:
    double = [asm.arithmetic("add", R.O0, R.O0, R.O0)] * 40
    found = found_in(*double, asm.load("ld", R.O0, 0, R.G1), asm.retl(), asm.nop())
    assert follows(found) == [(0, 0)]


def test_slots_are_recorded_before_their_transfer() -> None:
    found = found_in(
        asm.load("ld", R.O0, 0, R.G1),
        asm.branch("e", "there", annul=True),
        asm.load("ld", R.O1, 4, R.G1),
        asm.nop(),
        "there",
        asm.retl(),
        asm.load("ld", R.O0, 4, R.G1),
    )
    first, slot = found
    assert (first.position, first.at, slot.position, slot.at) == (0, 0, 0, 1)
    assert slot.block != first.block


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width", "stdin"), first(1, RUNS, at=1))
def test_every_address_of_a_run_follows_from_those_recorded(
    fixture_elf: Callable[..., Path], tmp_path: Path, name: str, width: str, stdin: bytes
) -> None:
    path = fixture_elf(name, width)
    setting = Setting("witness:addresses", "witness", ADDRESSES)
    simulated = simulate_settings(path, stdin=stdin, directory=tmp_path, settings=[setting])
    recovered = simulated.observation.recovered
    contexts, is64 = ProgramContexts(recovered), width == "v9"
    graphs = dict(enumerate(recovered.routines))
    known: dict[int, tuple[tuple[DataReference, ...], ...]] = {}
    recorded = total = in_slots = 0
    for each in executions(log(path, stdin=stdin), graphs):
        if each.routine not in known:
            analysis = contexts.of(each.routine).analysis
            assert analysis is not None
            known[each.routine] = references(analysis.cfg, analysis.liveness)
        listed = known[each.routine][each.block]

        def text(pc: int) -> str:
            word = int(recovered.code.words[recovered.code.index(pc)])
            return disassemble(word, pc, width != "v8")

        trace = [_at(each, place, text, graphs[each.routine].blocks, is64) for place in listed]
        taken = [value for n, value in enumerate(trace) if listed[n].base == n]
        recorded += len(taken)
        values: dict[int, int] = {}
        for number, place in enumerate(listed):
            if place.base == number:
                values[number] = taken.pop(0)
            else:
                base = 0 if place.base is None else values[place.base]
                values[number] = base + place.offset & ((1 << (64 if is64 else 32)) - 1)
        moments = [*each.moments, *([each.slot] if each.slot else [])]
        expected = [address(text(m.pc), m.registers, is64) for m in moments]
        own = [n for n, p in enumerate(listed) if p.block == each.block or each.slot is not None]
        referred = [each for each in expected if each is not None]
        assert [values[n] for n in own] == referred, hex(moments[0].pc)
        total += len(own)
        in_slots += each.slot is not None and expected[-1] is not None
    sizes = simulated.measurements[setting.name].sizes
    assert sizes["address_bits"] == recorded * (64 if is64 else 32)
    assert 0 < recorded < total and in_slots


def _at(
    each: Execution, place: DataReference, text: Callable[[int], str], blocks: object, is64: bool
) -> int:
    """Return the address of a reference as the registers are where it is recorded."""
    start = blocks[place.block].start  # type: ignore[index]
    operand = text(start + 4 * place.position)
    if place.at < place.position and text(start + 4 * place.at).startswith("return"):
        # the slot is in the caller's window
        operand = re.sub(r"%o(\d)", r"%i\1", operand.replace("%sp", "%fp"))
    found = address(operand, each.moments[place.at].registers, is64)
    assert found is not None
    return found


def lab_routine(bias: int) -> list[Item]:
    """Return a loop of three rounds that refers to its frame in blocks and in delay slots."""
    return code(
        asm.arithmetic("save", R.SP, -256, R.SP),
        asm.arithmetic("add", R.SP, bias + 192, R.L0),
        asm.mov(3, R.L1),
        "loop",
        asm.store("st", R.L1, R.L0, 0),
        asm.load("ld", R.L0, 0, R.L2),
        asm.arithmetic("add", R.L0, 8, R.L0),
        asm.store("st", R.L2, R.L0, 4),
        asm.arithmetic("subcc", R.L1, 1, R.L1),
        asm.branch("ne", "loop", annul=True),
        asm.load("ld", R.L0, -8, R.L3),
        asm.mov(R.L2, R.I0),
        asm.ret(),
        asm.restore(),
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_recorded_addresses_are_in_the_buffer(machine: MachineKind) -> None:
    bias, size, left = (2047, 8, 8) if machine is MachineKind.SPARCV9 else (0, 4, 8)
    lab = Lab(machine, 1, routine=lab_routine(bias))
    edges, (plain, instructions) = lab.executed_edges(), lab.execute(lab.items)
    crossings = crossings_of(lab, edges)
    counts = [sum(crossings[e] for e in lab.cfg.in_edges[b.id]) for b in lab.cfg.blocks]
    lab.bench.write(ADDRESSES_END + POSITION, (-left * size & 0xFFFFFFFF).to_bytes(4, "big"))
    made, _, after, took = lab.run_plan(InstrumentationPlan({}, addresses=True))
    lab.check_same_result(plain, after)
    first = lab.state.registers[R.SP] - 256 + bias + 192
    assert took - instructions == added(made, crossings, counts)
    assert len(made.address_snippets) == 1
    end = ADDRESSES_END - left * size
    data = lab.bench.read(end, 3 * size)
    found = [int.from_bytes(data[k : k + size], "big") for k in range(0, 3 * size, size)]
    assert found == [first, first + 8, first + 16]
    position = lab.bench.word(ADDRESSES_END + POSITION) - (1 << 32)
    assert position == (3 - left) * size
    assert ADDRESSES_END - ADDRESSES_BUFFER == TRACE_SIZE
