"""Code of trace plans, executed: what it appends, what it keeps, what it costs."""

from __future__ import annotations

import random

import pytest

from simprof.profiler.code.frames import Site
from simprof.profiler.code.references import Operands
from simprof.profiler.code.registers import mask
from simprof.profiler.code.writer import snippet_body
from simprof.profiler.plan.actions import WriteAddress, WriteTrace
from simprof.profiler.schemes.tracing import code as snippets_trace
from simprof.profiler.schemes.tracing.code import (
    CALL,
    TRACE_BUFFER,
    TRACE_SIZE,
    WriteTarget,
    flush_cost,
    flush_instructions,
    flush_name,
)
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.effects import ALL, CC
from tests.support.code import R, Tracer, pack
from tests.support.code_bench import runtime_symbols
from tests.support.scheme_code import ROUTINES
from tests.support.snippets import free_case, make_case
from tests.support.turns import first, turns

MACHINES = list(MachineKind)


def expand(value: int, width: int) -> list[int]:
    return [value >> place & 1 for place in range(width - 1, -1, -1)]


def random_token(rng: random.Random, packed: bool) -> WriteTrace:
    width = rng.choice([1, 1, 2, 3, 5, 8, 9, 17]) if packed else rng.choice([8, 8, 16, 32])
    return WriteTrace(rng.choice([0, (1 << width) - 1, rng.getrandbits(width)]), width, packed)


@pytest.mark.long
@pytest.mark.parametrize(("packed", "machine"), turns([False, True], MACHINES))
def test_tokens_are_appended(machine: MachineKind, packed: bool) -> None:
    tracer = Tracer(machine, packed)
    rng = tracer.runner.rng
    for _ in range(150):
        token = random_token(rng, packed)
        case = make_case(rng, machine, rng.randrange(3), rng.random() < 0.5)
        tracer.run(case, (token,), expand(token.value, token.width))
        tracer.check()
    assert len(tracer.bits) > 300


@pytest.mark.parametrize(("packed", "machine"), turns([False, True], MACHINES))
def test_targets_are_appended(
    machine: MachineKind, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = Tracer(machine, packed)
    rng = tracer.runner.rng
    for _ in range(60):
        register, offset = rng.choice([R.G1, R.G3, R.O0, R.O2, R.L0, R.L5, R.I3]), 8
        monkeypatch.setattr(snippets_trace, "_transfer_target", lambda *_, r=register: (r, 8))
        token = random_token(rng, packed) if rng.random() < 0.5 else None
        case = make_case(rng, machine, 0, True)
        live = case.site.live | 1 << register
        case.site = Site(live, case.site.frame, case.site.slots)
        target = case.state.registers[register] + offset & 0xFFFFFFFF
        before = [] if token is None else expand(token.value, token.width)
        tracer.run(case, (WriteTarget(3, packed, token),), before + expand(target, 32))
        tracer.check()


@pytest.mark.long
@pytest.mark.parametrize("machine", first(1, MACHINES))
def test_addresses_of_data_are_appended_to_a_buffer_of_their_own(
    machine: MachineKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = Tracer(machine, False, addresses=True)
    rng, width = tracer.runner.rng, 64 if machine is MachineKind.SPARCV9 else 32
    bases = [R.G0, R.G1, R.G3, R.O0, R.O1, R.O7, R.SP, R.FP, R.L0, R.L5, R.I3]
    tracer.bits = [0] * (8 * TRACE_SIZE - 100 * width)
    tracer.set_position(TRACE_SIZE - 100 * width // 8)
    for _ in range(150):
        base, offset = rng.choice(bases), rng.choice([0, int(R.SP), -4096, 4095, *bases])
        monkeypatch.setattr(
            snippets_trace, "_reference", lambda *_, found=(base, offset): Operands(*found)
        )
        case = make_case(rng, machine, 0, True)
        read = mask(base, *([offset] if isinstance(offset, R) else [])) & ~1
        case.site = Site(case.site.live | read, case.site.frame, case.site.slots)
        values = case.state.registers
        address = values[base] + (values[offset] if isinstance(offset, R) else offset)
        tracer.run(case, (WriteAddress(3, 1),), expand(address & (1 << width) - 1, width))
        tracer.check()
    assert len(tracer.flushed) == 8 * TRACE_SIZE


@pytest.mark.long
@pytest.mark.parametrize(("packed", "machine"), turns([False, True], MACHINES, few=2))
def test_a_full_buffer_is_written_and_what_is_behind_it_kept(
    machine: MachineKind, packed: bool
) -> None:
    tracer = Tracer(machine, packed, 3)
    rng = tracer.runner.rng
    for short in range(1, 12):
        written = TRACE_SIZE * 8 - (short if packed else 8 * (short % 4 + 1))
        tracer.bits = [rng.getrandbits(1) for _ in range(written)]
        data = pack(tracer.bits + [0] * (-written % 8))
        if left := written % 8:
            data = data[:-1] + bytes([data[-1] >> (8 - left)])
        tracer.bench.write(TRACE_BUFFER, data)
        tracer.set_position(written if packed else written // 8)
        flushes = len(tracer.flushed)
        while len(tracer.flushed) == flushes:
            token = random_token(rng, packed)
            case = make_case(rng, machine, 0, rng.random() < 0.5)
            tracer.run(case, (token,), expand(token.value, token.width))
        for _ in range(3):
            token = random_token(rng, packed)
            case = make_case(rng, machine, 0, False)
            tracer.run(case, (token,), expand(token.value, token.width))
            tracer.check()


@pytest.mark.parametrize("machine", MACHINES)
def test_costs_where_everything_is_free(machine: MachineKind) -> None:
    test = 3 if machine is not MachineKind.SPARCV9 else 2  # and its delay slot
    for token, cost in (
        (WriteTrace(7, 8), 6),
        (WriteTrace(0, 8), 5),
        (WriteTrace(300, 16), 9),
        (WriteTrace(1, 1, True), 9),
        (WriteTrace(0, 1, True), 8),
        (WriteTrace(2, 2, True), 15),
    ):
        body = snippet_body((token,), free_case(machine, 0).access, free_case(machine, 0).site)
        assert body.cost == cost + test
        assert body.taken_cost == CALL + flush_instructions(machine)


def test_conditions_survive_a_flush_on_v8() -> None:
    machine = MachineKind.SPARCV8
    tracer = Tracer(machine, False)
    tracer.bits = [0] * (8 * TRACE_SIZE - 8)
    tracer.bench.write(TRACE_BUFFER, bytes(TRACE_SIZE))
    for icc in (0, 1, 2, 5, 8, 11):
        tracer.set_position(TRACE_SIZE - 1)
        tracer.bits = [0] * (8 * TRACE_SIZE - 8)
        free = free_case(machine, 0)
        free.site = Site(ALL & ~(1 << R.L0) | CC, free.site.frame, free.site.slots)
        free.state.icc = icc
        tracer.run(free, (WriteTrace(0, 8),), [0] * 8)  # `run` compares the condition codes


@pytest.mark.parametrize("machine", MACHINES)
def test_flushes_are_priced_by_full_buffers(machine: MachineKind) -> None:
    each = CALL + flush_instructions(machine)
    assert flush_cost(machine, 0) == 0
    assert flush_cost(machine, 1) == each  # the last flush, of what is left
    assert flush_cost(machine, 8 * TRACE_SIZE) == each
    assert flush_cost(machine, 8 * TRACE_SIZE + 1) == 2 * each


def test_the_runtime_has_both_variants() -> None:
    for machine in MACHINES:
        assert {flush_name(False), flush_name(True)} <= runtime_symbols(machine, ROUTINES).keys()
