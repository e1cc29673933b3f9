"""Every instruction that a user program may execute, on random operands, against the manuals."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.simulator.binary.elf import load
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import data_word
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.oracles import floating, instructions, vis
from tests.oracles.instructions import Instruction
from tests.support.instruction_bench import MEMORY, ROWS, State, format3, run_words
from tests.support.tiny_programs import DATA, ENTRY, program_file

STATES = 40  # for each instruction
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFF00, 0x7FFF, 0x8000, 0xFFFF)
_WORDS = (0, 1, (1 << 64) - 1, 1 << 63, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 0xFFFFFFFF80000000)


def _word(draw: random.Random) -> int:
    if draw.random() < 0.2:
        return draw.choice(_WORDS)
    if draw.random() < 0.5:
        return draw.getrandbits(64)
    parts = [draw.choice((*_EDGES, draw.getrandbits(16))) for _ in range(4)]
    return vis.joined(parts, 16)


def _state(draw: random.Random, place: int, of_memory: bool) -> State:
    s = State([_word(draw) for _ in range(8)], [_word(draw) for _ in range(4)])
    s.ccr, s.y = draw.getrandbits(8), _word(draw) & 0xFFFFFFFF
    s.gsr = draw.getrandbits(32) << 32 | draw.getrandbits(8)
    # Rounding, four relations, accrued exceptions, the last operation's; no traps.
    s.fsr = draw.getrandbits(2) << 30 | draw.getrandbits(6) << 32 | draw.getrandbits(12)
    s.memory = bytearray(draw.randbytes(16))
    near = draw.random()
    if near < 0.4:
        s.integers[1] = s.integers[0] + draw.randrange(-20, 20) & instructions.MASK64
    elif near < 0.6:
        s.integers[1] = draw.randrange(1, 8)
    s.integers[1] |= 0 if s.integers[1] & 0xFFFFFFFF else 1  # no division by zero
    if draw.random() < 0.3:
        s.floats[2] = s.floats[0] ^ 0xFFFF << draw.choice((0, 16, 32, 48))
    if of_memory:
        s.integers[0] = ROWS + 256 * place + MEMORY
        if draw.random() < 0.4:  # compare and swap finds what it compares with
            first = s.memory[:8] if draw.random() < 0.5 else s.memory[7::-1]
            s.integers[1] = int.from_bytes(first, "big") >> draw.choice((0, 32))
    _share_memory(s)
    return s


def _share_memory(s: State) -> None:
    s.floats[6:] = [int.from_bytes(s.memory[at : at + 8], "big") for at in (0, 8)]


def _real(draw: random.Random, form: floating.Format) -> int:
    # Zeros, ends, infinities; NaNs of both kinds; numbers near 1, near the ends, any.
    sign, kind = draw.choice((0, form.sign)), draw.random()
    fraction = draw.getrandbits(form.fraction)
    if kind < 0.15:
        edges = (0, 1, form.infinity, form.infinity - 1, 1 << form.fraction)
        return sign | draw.choice((*edges, form.bias << form.fraction))
    if kind < 0.45:
        payload = draw.choice((1, fraction & form.quiet - 1 or 1))
        return sign | form.infinity | draw.choice((0, form.quiet)) | payload
    if kind < 0.8:
        exponent = form.bias + draw.randrange(-70, 70)
        return sign | exponent << form.fraction | fraction & draw.choice((-1, -form.quiet))
    if kind < 0.9:
        ends = (0, 1, 2, form.fraction, form.top - 1, form.top - 2)
        return sign | draw.choice(ends) << form.fraction | fraction
    return draw.getrandbits(form.bits)


def _floating_state(draw: random.Random, place: int, each: Instruction) -> State:
    s = _state(draw, place, False)
    s.integers[0] = draw.choice((0, 1, 1 << 63, s.integers[0]))
    form = floating.FORMATS[each.source]
    one, two = _real(draw, form), _real(draw, form)
    if draw.random() < 0.2:
        two = one ^ draw.choice((0, form.sign))
    if form.bits == 32:  # %f1 and %f4
        s.floats[0] = s.floats[0] & ~instructions.MASK32 | one
        s.floats[2] = s.floats[2] & instructions.MASK32 | two << 32
    elif form.bits == 64:
        s.floats[0], s.floats[2] = one, two
    else:
        s.floats[:4] = [
            each for value in (one, two) for each in (value >> 64, value & instructions.MASK64)
        ]
    return s


def _check(
    tested: Sequence[Instruction],
    state: Callable[[random.Random, int, Instruction], State],
    directory: Path,
    is64: bool = True,
) -> None:
    draw = random.Random(20261127)
    rows = [
        [state(draw, STATES * number + n, each) for n in range(STATES)]
        for number, each in enumerate(tested)
    ]
    after = run_words([each.word for each in tested], rows, directory, is64)
    wrong = []
    for each, before, found in zip(tested, rows, after, strict=True):
        for s, result in zip(before, found, strict=True):
            expected = copy.deepcopy(s)
            each.effect(expected)
            if each.of_32_bits:
                expected.integers[2] &= instructions.MASK32
                result.integers[2] &= instructions.MASK32
                result.ccr &= 15
            if expected != result:
                wrong.append((each.name, hex(each.word), s, expected, result))
    assert not wrong, wrong[0]


@pytest.mark.parametrize("is64", [True, False])
@pytest.mark.parametrize("kind", ["arithmetic", "moves", "memory"])
def test_integer_and_memory_instructions(kind: str, is64: bool, tmp_path: Path) -> None:
    tested = list(getattr(instructions, kind)())
    _check(tested, lambda draw, n, each: _state(draw, n, each.of_memory), tmp_path, is64)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["arithmetic", "conversions", "signs", "compares", "conditional_moves"]
)
def test_floating_point_instructions(kind: str, tmp_path: Path) -> None:
    _check(list(getattr(floating, kind)()), _floating_state, tmp_path)


@pytest.mark.parametrize("machine", list(MachineKind))
def test_leon_linux_has_atomics_in_a_space_of_its_own(machine: MachineKind, tmp_path: Path) -> None:
    path = tmp_path / "program"
    number, trap = (1, 0x91D02010) if machine is not MachineKind.SPARCV9 else (1, 0x91D0206D)
    words = (
        DATA >> 10 | 0x05000000,  # sethi %hi(DATA), %g2
        0x86102000,  # mov 0, %g3
        0x8810202A,  # mov 42, %g4
        format3(3, 0x3C, 4, 2, 0x0A << 5 | 3),  # casa [%g2] 10, %g3, %g4
        format3(3, 0x00, 8, 2, 0),  # ld [%g2], %o0
        0x82102000 | number,
        trap,
    )
    path.write_bytes(program_file(machine, [data_word(each) for each in words]))
    host = Host(tmp_path, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    result = Machine(load(path), host=host).run()
    if machine is MachineKind.SPARCV8:
        assert (result.reason, result.status, result.instructions) == ("exit", 42, 7)
    else:  # privileged to V9
        assert (result.reason, result.status, result.instructions) == ("fault", 132, 3)


@pytest.mark.parametrize("is64", [True, False])
def test_vis(is64: bool, tmp_path: Path) -> None:
    tested = list(instructions.visual(is64))
    assert len(tested) == 81  # 49, and 32 logical ones: 16, each of 32 and of 64 bits
    _check(tested, lambda draw, n, each: _state(draw, n, False), tmp_path, is64)


def test_a_trap_with_the_number_that_stands_for_them_stays_a_trap(tmp_path: Path) -> None:
    path = tmp_path / "program"
    own = format3(2, 0x3A, 8, 0, 1 << 13 | 0x7D)  # ta 0x7d
    words = (0x81B00973, own, 0x01000000)  # fpmerge: its page is executed from a shadow
    path.write_bytes(program_file(MachineKind.SPARCV9, [data_word(each) for each in words]))
    host = Host(tmp_path, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    result = Machine(load(path), host=host).run()
    assert result.fault is not None
    assert (result.fault.pc, result.instructions) == (ENTRY + 4, 1)
    assert "software trap 0x7d" in result.fault.description


@pytest.mark.parametrize("opf", [*sorted(set(range(512)) - set(vis.OPERATIONS))[::7], 128, 129])
def test_what_is_not_vis_1_or_2_is_illegal_and_named(opf: int, tmp_path: Path) -> None:
    path = tmp_path / "program"
    word = format3(2, 0x36, 4, 2, opf << 5 | 3)
    path.write_bytes(program_file(MachineKind.SPARCV9, [data_word(word), data_word(0x01000000)]))
    host = Host(tmp_path, program=path, stdin=b"", stdout=bytearray(), stderr=bytearray())
    result = Machine(load(path), host=host).run()
    assert result.fault is not None
    assert (result.fault.name, result.instructions) == ("SIGILL", 0)
    named = {0x80: "shutdown", 0x81: "siam"}.get(opf, "this VIS instruction")
    assert f"illegal instruction {word:#010x} (the emulator does not have {named}" in (
        result.fault.description
    )
