"""Register effects, against the emulator: what changes, what matters, what is replaced."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from simprof.profiler.code.effects_kernel import effects
from simprof.simulator.isa.assembler import Instruction, Register
from simprof.simulator.isa.effects import ALL, CC, FCC, FCC0, ICC, XCC, Window, Y
from tests.support.code_bench import END_TRAP, STACK, CodeBench, State

R = Register
DATA = STACK + 0x4000
TRAP_END = 0x100 + END_TRAP
BASE_REGISTER = R.L6  # holds a data address; memory operands use it


def one(word: int) -> tuple[int, int, int, int]:
    """Return (reads, writes, names, window) of one word."""
    found = effects(np.array([word], np.uint32))
    return tuple(int(array[0]) for array in found)  # type: ignore[return-value]


def bits(*registers: Register) -> int:
    """Return the set of `registers`."""
    return sum(1 << r for r in registers)


def format3(op: int, rd: int, op3: int, rs1: int, low: int) -> int:
    """Encode a format-3 word."""
    return op << 30 | rd << 25 | op3 << 19 | rs1 << 14 | low


ARITHMETIC = [
    *(*range(0x00, 0x19), 0x1A, 0x1B, 0x1C, 0x1E, 0x1F, 0x20, 0x21, 0x24, 0x25, 0x26, 0x27),
    *(0x28, 0x2C, 0x2D, 0x2E, 0x2F, 0x30),
]
MEMORY = [*range(0x00, 0x0C), 0x0D, 0x0E, 0x0F]
EDGE = [*range(0x0C), 0x10, 0x12, 0x14, 0x18, 0x19, 0x1A]


def random_word(rng: random.Random) -> int:
    """Return a computational, load, store or VIS instruction with random operands."""
    usable = [n for n in range(32) if n not in (R.SP, BASE_REGISTER)]
    rd, rs1, rs2 = (rng.choice(usable) for _ in range(3))
    low = rng.choice([rs2, 1 << 13 | rng.randrange(1 << 13)])
    family = rng.randrange(6)
    if family < 3:
        return arithmetic_word(rng, rd, rs1, rs2, low)
    if family == 3:
        op3 = rng.choice(MEMORY)
        rd &= ~1 if op3 in (3, 7) else ~0
        return format3(3, rd, op3, BASE_REGISTER, 1 << 13 | rng.randrange(8) * 8)
    if family == 4:
        op3 = rng.choice([0x3C, 0x3E])  # casa, casxa with ASI_PRIMARY
        return format3(3, rd, op3, BASE_REGISTER, 0x80 << 5 | rs2)
    return format3(2, rd, 0x36, rs1, rng.choice(EDGE) << 5 | rs2)


def arithmetic_word(rng: random.Random, rd: int, rs1: int, rs2: int, low: int) -> int:
    """Return a word with op = 2."""
    op3 = rng.choice(ARITHMETIC)
    if op3 in (0x25, 0x26, 0x27):
        low = rng.choice([rs2, 1 << 13 | rng.randrange(32)]) | rng.randrange(2) << 12
    if op3 == 0x28:
        return format3(2, rd, op3, rng.choice([0, 2]), 0)
    if op3 == 0x2C:
        cc = rng.choice([0, 2])
        return format3(2, rd, op3, 0x10 | rng.randrange(16), rs2 | cc << 11)
    if op3 == 0x2F:
        return format3(2, rd, op3, rs1, rng.choice([1, 2, 3, 5, 6, 7]) << 10 | rs2)
    if op3 == 0x2E:
        return format3(2, rd, op3, 0, low)
    if op3 == 0x30:
        return format3(2, rng.choice([0, 2]), op3, rs1, low)
    return format3(2, rd, op3, rs1, low)


def vector(state: State) -> dict[int, int]:
    """Return the state as bit number -> value."""
    values = {number: state.registers[number] for number in range(1, 32)}
    return values | {32: state.icc, 33: state.xcc, 38: state.y & 0xFFFFFFFF}


def state_of(values: dict[int, int]) -> State:
    """Return the inverse of `vector`."""
    registers = [0] + [values[number] for number in range(1, 32)]
    return State(registers, values[32], values[33], values[38])


def random_values(rng: random.Random) -> dict[int, int]:
    """Return a random state with a stack and a data address."""
    values = {n: rng.getrandbits(rng.choice([3, 32, 63, 64])) for n in range(1, 32)}
    values |= {32: rng.randrange(16), 33: rng.randrange(16), 38: rng.getrandbits(32)}
    return values | {R.SP: STACK + 0x8000 - 2047, BASE_REGISTER: DATA}


class Oracle:
    """Executes single words from given states; the data area starts out the same each time."""

    def __init__(self, rng: random.Random) -> None:
        self.bench = CodeBench(True)
        self.data = bytes(rng.randrange(256) for _ in range(128))

    def run(self, word: int, values: dict[int, int]) -> tuple[dict[int, int], bytes] | None:
        """Return registers and memory afterwards; None where the word traps."""
        self.bench.write(DATA, self.data)
        outcome = self.bench.run([Instruction("word", word)], state_of(values))
        if outcome.trap != TRAP_END:
            return None
        return vector(outcome.state), self.bench.read(DATA, 128)


def check_word(oracle: Oracle, rng: random.Random, word: int) -> bool:
    """Compare the effects of `word` with what execution shows; False where it traps."""
    reads, writes, names, _ = one(word)
    values = random_values(rng)
    before = oracle.run(word, values)
    if before is None:
        return False
    after, memory = before
    changed = sum(1 << n for n in after if after[n] != values[n])
    assert changed & ~names == 0, (hex(word), "changes more than it names", hex(changed & ~names))
    for bit in rng.sample(sorted(after), 12):
        if bit in (R.SP, BASE_REGISTER):
            continue
        other = values | {bit: rng.getrandbits(4 if bit in (32, 33) else 32)}
        second = oracle.run(word, other)
        if second is None:
            continue
        changes = {n for n in after if second[0][n] != after[n]}
        if not reads >> bit & 1:
            assert changes <= {bit} and second[1] == memory, (hex(word), "reads more", bit)
            if writes >> bit & 1:
                assert not changes, (hex(word), "does not replace", bit)
    return True


@pytest.mark.long
@pytest.mark.seeds(range(4), few=1)
def test_random_instructions(seed: int) -> None:
    rng = random.Random(seed)
    oracle = Oracle(rng)
    outcomes = Counter(check_word(oracle, rng, random_word(rng)) for _ in range(500))
    assert outcomes[True] > 300


def test_every_named_write_is_needed() -> None:
    """Over many runs each register that must be written does change."""
    rng = random.Random(5)
    oracle = Oracle(rng)
    for word in (format3(2, R.L1, op3, R.L2, R.L3) for op3 in (0x10, 0x12, 0x1A, 0x0A)):
        seen = 0
        for _ in range(30):
            values = random_values(rng)
            ran = oracle.run(word, values)
            assert ran is not None
            seen |= sum(1 << n for n in values if ran[0][n] != values[n])
        assert seen == one(word)[1], hex(word)


@pytest.mark.parametrize(
    ("word", "reads", "writes"),
    [
        (0x9DE3BF50, bits(R.SP), bits(R.SP)),  # save %sp, -176, %sp
        (0x81E80000, 0, 0),  # restore
        (0x81C7E008, bits(R.I7), 0),  # ret
        (0x40000010, 0, bits(R.O7)),  # call
        (0x9FC04000, bits(R.G1), bits(R.O7)),  # call %g1
        (0x02800004, ICC, 0),  # be
        (0x02680004, XCC, 0),  # be,pt %xcc
        (0x10800004, 0, 0),  # ba
        (0x02C04004, bits(R.G1), 0),  # brz %g1
        (0x13800004, FCC0, 0),  # fbe
        (0x13680004, FCC0 << 2, 0),  # fbe %fcc2
        (0x81A88A42, 0, FCC0),  # fcmpd %f2, %f2
        (0x85A80A42, 0, FCC0 << 2),  # fcmpd %fcc2, %f0, %f2
        (0xC81A0000, bits(R.O0), bits(R.G4, R.G5)),  # ldd [%o0], %g4
        (0xC83A0000, bits(R.O0, R.G4, R.G5), 0),  # std %g4, [%o0]
        (0xD1020000, bits(R.O0), 0),  # ld [%o0], %f8
        (0xC10A0000, bits(R.O0), FCC0),  # ld [%o0], %fsr
        (0xC30A0000, bits(R.O0), FCC),  # ldx [%o0], %fsr
        (0xC12A0000, bits(R.O0) | FCC, 0),  # st %fsr, [%o0]
        (0xC3E22002, bits(R.O0, R.G1, R.G2), bits(R.G1)),  # casa [%o0] %asi, %g2, %g1
        (0x83408000, CC, bits(R.G1)),  # rd %ccr, %g1
        (0x85806000, bits(R.G1), CC),  # wr %g1, 0, %ccr
        (0x8143E00F, 0, 0),  # membar
        (0x81580000, 0, 0),  # flushw
        (0x00000005, 0, 0),  # illtrap
    ],
)
def test_named_words(word: int, reads: int, writes: int) -> None:
    assert one(word)[:2] == (reads, writes)


def test_unknown_words_read_everything() -> None:
    for word in (0x81B02400, 0xC1D00000, 0x81F80000, 0x81880000, 0x85A84004):
        assert one(word)[:3] == (ALL, 0, ALL), hex(word)


def test_windows_and_traps() -> None:
    assert one(0x9DE3BF50)[3] == Window.SAVE
    assert one(0x81E80000)[3] == one(0x81CFE008)[3] == Window.RESTORE
    reads, writes, names, _ = one(0x91D0206D)  # ta 0x6d
    assert (reads, writes, names) == (ALL, 0, 0)
    assert one(0x83D0206D)[2] == ICC  # te


def test_moves_read_their_destination() -> None:
    word = format3(2, R.G1, 0x2C, 0x10 | 9, 1 << 13 | 5)  # movne %icc, 5, %g1
    assert one(word)[:2] == (bits(R.G1) | ICC, bits(R.G1))
    fcc = format3(2, R.G1, 0x2C, 9, 1 << 13 | 5 | 3 << 11)  # movne %fcc3, 5, %g1
    assert one(fcc)[:2] == (bits(R.G1) | FCC0 << 3, bits(R.G1))
    word = format3(2, R.G1, 0x2F, R.G2, 1 << 10 | R.G3)  # movrz %g2, %g3, %g1
    assert one(word)[:2] == (bits(R.G1, R.G2, R.G3), bits(R.G1))
    fmovr = format3(2, 2, 0x35, R.G2, 1 << 10 | 6 << 5)  # fmovrdz
    assert one(fmovr)[:2] == (bits(R.G2), 0)


def test_g0_is_never_in_a_set() -> None:
    rng = random.Random(9)
    words = np.array([rng.getrandbits(32) for _ in range(20000)], np.uint32)
    found = effects(words)
    for array in (found.reads, found.writes, found.names):
        assert not (array & np.uint64(1)).any()
    assert not (found.writes & ~found.names).any()
    assert Y & ALL
