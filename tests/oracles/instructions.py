"""What integer and memory instructions of SPARC V8 and V9 do, written from the manuals.

Sources: The SPARC Architecture Manual, Version 9, appendix A (Version 8, appendix B, where V9 does
not have it). Each is a word and a function that changes a `State` as the instruction does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.oracles import vis
from tests.support.instruction_bench import RD, RS1, RS2, State, format3

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
Effect = Callable[[State], None]


@dataclass
class Instruction:
    """A word and its meaning; `of_memory`: %g2 is the address of the state's memory."""

    # `of_32_bits`: the upper half of its result, and xcc, are not defined.

    name: str
    word: int
    effect: Effect
    of_memory: bool = False
    of_32_bits: bool = False
    source: str = ""  # the format of its floating-point operands: s, d or q


def signed(value: int, bits: int) -> int:
    """Return the number that the low bits are in two's complement."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _codes(result: int, carries: tuple[bool, bool], overflows: tuple[bool, bool]) -> int:
    # ccr: xcc above icc; `carries` and `overflows`: of 32 and of 64 bits.
    value = 0
    for bits, carry, overflow in zip((32, 64), carries, overflows, strict=True):
        part = result & (1 << bits) - 1
        codes = (part >> bits - 1) << 3 | (part == 0) << 2 | overflow << 1 | carry
        value |= codes << (0 if bits == 32 else 4)
    return value


def _sum(a: int, b: int, carry: int, sign: int) -> tuple[int, int]:
    # a + b + carry, or a - b - carry; and the condition codes.
    carries, overflows = [], []
    for bits in (32, 64):
        total = (a & (1 << bits) - 1) + sign * (b & (1 << bits) - 1) + sign * carry
        number = signed(a, bits) + sign * signed(b, bits) + sign * carry
        carries.append(not 0 <= total < 1 << bits)
        overflows.append(number != signed(number, bits))
    result = a + sign * (b + carry) & MASK64
    return result, _codes(result, (carries[0], carries[1]), (overflows[0], overflows[1]))


def _operation(op3: int, function: Callable[[State, int, int], int]) -> Callable[[int], Effect]:
    def make(with_codes: int) -> Effect:
        def effect(s: State) -> None:
            result = function(s, s.integers[0], s.integers[1]) & MASK64
            if with_codes:
                s.ccr = _codes(result, (False, False), (False, False))
            s.integers[2] = result

        return effect

    return make


def _adding(sign: int, with_carry: bool, with_codes: bool) -> Effect:
    def effect(s: State) -> None:
        carry = s.ccr & 1 if with_carry else 0
        s.integers[2], codes = _sum(s.integers[0], s.integers[1], carry, sign)
        s.ccr = codes if with_codes else s.ccr

    return effect


def _tagged(sign: int) -> Effect:
    def effect(s: State) -> None:
        a, b = s.integers[:2]
        s.integers[2], s.ccr = _sum(a, b, 0, sign)
        s.ccr |= 2 if (a | b) & 3 else 0

    return effect


def _multiplied(is_signed: bool) -> Callable[[State, int, int], int]:
    def multiply(s: State, a: int, b: int) -> int:
        low = (signed(a, 32), signed(b, 32)) if is_signed else (a & MASK32, b & MASK32)
        product = low[0] * low[1] & MASK64
        s.y = product >> 32
        return product

    return multiply


def _divided(is_signed: bool, with_codes: bool) -> Effect:
    def effect(s: State) -> None:
        dividend = s.y << 32 | s.integers[0] & MASK32
        divisor = s.integers[1] & MASK32
        low, high = 0, MASK32
        if is_signed:
            dividend, divisor = signed(dividend, 64), signed(divisor, 32)
            low, high = -(1 << 31), (1 << 31) - 1
        quotient = abs(dividend) // abs(divisor)
        quotient = -quotient if (dividend < 0) != (divisor < 0) else quotient
        result = max(low, min(high, quotient))
        s.integers[2] = result & MASK64
        if with_codes:
            s.ccr = _codes(result, (False, False), (result != quotient, False))

    return effect


def _multiply_step(s: State) -> None:
    a, b = s.integers[0] & MASK32, s.integers[1] & MASK32
    negative = (s.ccr >> 3 ^ s.ccr >> 1) & 1
    result, codes = _sum(negative << 31 | a >> 1, b if s.y & 1 else 0, 0, 1)
    s.y = (a & 1) << 31 | s.y >> 1
    s.integers[2], s.ccr = result & MASK32, codes & 15


def _quotient(is_signed: bool) -> Callable[[State, int, int], int]:
    def divide(s: State, a: int, b: int) -> int:
        if not is_signed:
            return a // b
        a, b = signed(a, 64), signed(b, 64)
        quotient = abs(a) // abs(b)
        return -quotient if (a < 0) != (b < 0) else quotient

    return divide


_LOGICAL: dict[int, tuple[str, Callable[[State, int, int], int]]] = {
    0x01: ("and", lambda s, a, b: a & b),
    0x02: ("or", lambda s, a, b: a | b),
    0x03: ("xor", lambda s, a, b: a ^ b),
    0x05: ("andn", lambda s, a, b: a & ~b),
    0x06: ("orn", lambda s, a, b: a | ~b),
    0x07: ("xnor", lambda s, a, b: ~(a ^ b)),
    0x0A: ("umul", _multiplied(False)),
    0x0B: ("smul", _multiplied(True)),
}
_PLAIN: dict[int, tuple[str, Callable[[State, int, int], int]]] = {
    0x09: ("mulx", lambda s, a, b: a * b),
    0x0D: ("udivx", _quotient(False)),
    0x2D: ("sdivx", _quotient(True)),
    0x2E: ("popc", lambda s, a, b: b.bit_count()),
    0x25: ("sll", lambda s, a, b: a << (b & 31)),
    0x26: ("srl", lambda s, a, b: (a & MASK32) >> (b & 31)),
    0x27: ("sra", lambda s, a, b: signed(a, 32) >> (b & 31)),
}
_EXTENDED: dict[int, tuple[str, Callable[[State, int, int], int]]] = {
    0x25: ("sllx", lambda s, a, b: a << (b & 63)),
    0x26: ("srlx", lambda s, a, b: a >> (b & 63)),
    0x27: ("srax", lambda s, a, b: signed(a, 64) >> (b & 63)),
}


def _word(op3: int, low: int = 0) -> int:
    return format3(2, op3, RD, RS1, low | RS2)


def arithmetic() -> Iterator[Instruction]:
    """Integer arithmetic, logic and shifts."""
    for number, (name, sign, with_carry) in {
        0x00: ("add", 1, False),
        0x04: ("sub", -1, False),
        0x08: ("addc", 1, True),
        0x0C: ("subc", -1, True),
    }.items():
        yield Instruction(name, _word(number), _adding(sign, with_carry, False))
        yield Instruction(f"{name}cc", _word(number | 0x10), _adding(sign, with_carry, True))
    for number, (name, function) in _LOGICAL.items():
        make = _operation(number, function)
        yield Instruction(name, _word(number), make(0))
        yield Instruction(f"{name}cc", _word(number | 0x10), make(1))
    for number, (name, function) in _PLAIN.items():
        make = _operation(number, function)
        yield Instruction(name, format3(2, number, RD, 0 if name == "popc" else RS1, RS2), make(0))
    for number, (name, function) in _EXTENDED.items():
        yield Instruction(name, _word(number, 1 << 12), _operation(number, function)(0))
    for number, sign in ((0x20, 1), (0x21, -1)):
        yield Instruction("taddcc" if sign > 0 else "tsubcc", _word(number), _tagged(sign))
    for number, is_signed in ((0x0E, False), (0x0F, True)):
        name = "sdiv" if is_signed else "udiv"
        yield Instruction(name, _word(number), _divided(is_signed, False))
        yield Instruction(f"{name}cc", _word(number | 0x10), _divided(is_signed, True))
    yield Instruction("mulscc", _word(0x24), _multiply_step, of_32_bits=True)


# -- conditions


def holds(condition: int, codes: int) -> bool:
    """Whether an integer condition holds, of four bits N Z V C (V9, table 8)."""
    n, z, v, c = (bool(codes >> bit & 1) for bit in (3, 2, 1, 0))
    tests = (False, z, z or n != v, n != v, c or z, c, n, v)
    return tests[condition & 7] != bool(condition & 8)


def holds_floating(condition: int, relation: int) -> bool:
    """Whether a floating-point condition holds: of 0 to 3, equal, less, greater, unordered."""
    tests = ((), (1, 2, 3), (1, 2), (1, 3), (1,), (2, 3), (2,), (3,))
    return (relation in tests[condition & 7]) != bool(condition & 8)


def register_holds(condition: int, value: int) -> bool:
    """Whether a condition on a register holds (V9, A.3)."""
    number = signed(value, 64)
    tests = {1: number == 0, 2: number <= 0, 3: number < 0}
    return tests[condition & 3] != bool(condition & 4)


def _moving(test: Callable[[State], bool]) -> Effect:
    def effect(s: State) -> None:
        if test(s):
            s.integers[2] = s.integers[1]

    return effect


def _relation(s: State, number: int) -> int:
    return s.fsr >> (10 if number == 0 else 30 + 2 * number) & 3


def moves() -> Iterator[Instruction]:
    """`movcc` of both condition codes and of `%fcc0` to `%fcc3`, and `movr`."""
    for condition in range(16):
        for shift, select in ((0, 4 << 11), (4, 6 << 11)):
            word = format3(2, 0x2C, RD, 16 | condition, (select & 0x1800) | RS2)
            test = lambda s, c=condition, at=shift: holds(c, s.ccr >> at & 15)  # noqa: E731
            yield Instruction(f"mov{condition} {'xcc' if shift else 'icc'}", word, _moving(test))
        for number in range(4):
            word = format3(2, 0x2C, RD, condition, number << 11 | RS2)
            test = lambda s, c=condition, n=number: holds_floating(c, _relation(s, n))  # noqa: E731
            yield Instruction(f"mov{condition} fcc{number}", word, _moving(test))
    for condition in (1, 2, 3, 5, 6, 7):
        word = format3(2, 0x2F, RD, RS1, condition << 10 | RS2)
        of_register: Any = lambda s, c=condition: register_holds(c, s.integers[0])  # noqa: E731
        yield Instruction(f"movr{condition}", word, _moving(of_register))


# -- memory: 16 bytes at %g2


def _order(little: bool) -> Literal["little", "big"]:
    return "little" if little else "big"


def _loading(size: int, is_signed: bool, little: bool) -> Effect:
    def effect(s: State) -> None:
        value = int.from_bytes(s.memory[:size], _order(little))
        s.integers[2] = (signed(value, 8 * size) if is_signed else value) & MASK64

    return effect


def _storing(size: int, little: bool) -> Effect:
    def effect(s: State) -> None:
        value = s.integers[2] & (1 << 8 * size) - 1
        s.memory[:size] = value.to_bytes(size, _order(little))

    return effect


def _loading_two(little: bool) -> Effect:
    def effect(s: State) -> None:
        order = _order(little)
        s.integers[2:4] = [int.from_bytes(s.memory[at : at + 4], order) for at in (0, 4)]

    return effect


def _storing_two(little: bool) -> Effect:
    def effect(s: State) -> None:
        order = _order(little)
        for at, value in zip((0, 4), s.integers[2:4], strict=True):
            s.memory[at : at + 4] = (value & MASK32).to_bytes(4, order)

    return effect


def _exchanging(size: int, stored: Callable[[State], int], swaps: bool, little: bool) -> Effect:
    # ldstub, swap, casa and casxa; the last two only store where memory equals rs2.
    def effect(s: State) -> None:
        order = _order(little)
        before = int.from_bytes(s.memory[:size], order)
        mask = (1 << 8 * size) - 1
        if swaps or before == s.integers[1] & mask:
            s.memory[:size] = (stored(s) & mask).to_bytes(size, order)
        s.integers[2] = before

    return effect


def _floats_loaded(size: int, little: bool) -> Effect:
    def effect(s: State) -> None:
        if size == 4:
            value = int.from_bytes(s.memory[:4], _order(little))
            s.floats[4] = s.floats[4] & MASK32 | value << 32
            return
        for at in range(0, size, 8):
            value = int.from_bytes(s.memory[at : at + 8], _order(little))
            s.floats[4 + at // 8] = value

    return effect


def _floats_stored(size: int, little: bool) -> Effect:
    def effect(s: State) -> None:
        order = _order(little)
        if size == 4:
            s.memory[:4] = (s.floats[4] >> 32).to_bytes(4, order)
            return
        for at in range(0, size, 8):
            s.memory[at : at + 8] = s.floats[4 + at // 8].to_bytes(8, order)

    return effect


def _plain_accesses(little: bool) -> Iterator[tuple[int, str, Effect]]:
    for number, size, is_signed in (
        *((0x00, 4, False), (0x01, 1, False), (0x02, 2, False), (0x08, 4, True)),
        *((0x09, 1, True), (0x0A, 2, True), (0x0B, 8, False)),
    ):
        yield number, f"ld{'s' if is_signed else 'u'}{size}", _loading(size, is_signed, little)
    for number, size in ((0x04, 4), (0x05, 1), (0x06, 2), (0x0E, 8)):
        yield number, f"st{size}", _storing(size, little)
    yield 0x03, "ldd", _loading_two(little)
    yield 0x07, "std", _storing_two(little)
    yield 0x0D, "ldstub", _exchanging(1, lambda s: 0xFF, True, little)
    yield 0x0F, "swap", _exchanging(4, lambda s: s.integers[2], True, little)
    for number, size, name in ((0x20, 4, "f"), (0x23, 8, "df"), (0x22, 16, "qf")):
        yield number, f"ld{name}", _floats_loaded(size, little)
        yield number | 4, f"st{name}", _floats_stored(size, little)


def memory() -> Iterator[Instruction]:
    """Loads, stores and exchanges, also in the spaces of programs, and VIS's short ones."""
    for number, name, effect in _plain_accesses(False):
        rd = 8 if number >= 0x20 else RD
        yield Instruction(name, format3(3, number, rd, RS1, 0), effect, True)
    for space, little in ((0x80, False), (0x88, True)):
        for number, name, effect in _plain_accesses(little):
            rd = 8 if number >= 0x20 else RD
            word = format3(3, number | 0x10, rd, RS1, space << 5)
            yield Instruction(f"{name}a {space:#x}", word, effect, True)
        for number, size in ((0x3C, 4), (0x3E, 8)):
            word = format3(3, number, RD, RS1, space << 5 | RS2)
            effect = _exchanging(size, lambda s: s.integers[2], False, little)
            yield Instruction(f"cas{size} {space:#x}", word, effect, True)
    for space, size, little in (
        (0xD0, 1, False),
        (0xD2, 2, False),
        (0xD8, 1, True),
        (0xDA, 2, True),
    ):
        yield from _short(space, size, little)


def _short(space: int, size: int, little: bool) -> Iterator[Instruction]:
    order = _order(little)

    def load(s: State) -> None:
        s.floats[4] = int.from_bytes(s.memory[:size], order)

    def store(s: State) -> None:
        s.memory[:size] = (s.floats[4] & (1 << 8 * size) - 1).to_bytes(size, order)

    yield Instruction(f"ldda {space:#x}", format3(3, 0x33, 8, RS1, space << 5), load, True)
    yield Instruction(f"stda {space:#x}", format3(3, 0x37, 8, RS1, space << 5), store, True)


# -- VIS

_NUMBERS = {"d": (0, 4, 8), "s": (1, 4, 9), "i": (RS1, RS2, RD)}


def _operand(s: State, form: str, place: int) -> int:
    number = _NUMBERS[form][place]
    if form == "i":
        return s.integers[place]
    value = s.floats[number // 2]
    return value if form == "d" else value >> (0 if number % 2 else 32) & MASK32


def visual(is64: bool = True) -> Iterator[Instruction]:
    """VIS 1 and 2."""
    for opf, (name, forms, _) in vis.OPERATIONS.items():
        one, two, rd = (_NUMBERS[form][place] for place, form in enumerate(forms))
        word = format3(2, 0x36, rd, one, opf << 5 | two)
        yield Instruction(name, word, _visual(opf, is64))


def _visual(opf: int, is64: bool) -> Effect:
    name, forms, operation = vis.OPERATIONS[opf]

    def effect(s: State) -> None:
        one, two, before = (_operand(s, form, place) for place, form in enumerate(forms))
        operands = vis.Vis(one, two, before, s.gsr, is64)
        result = operation(operands)
        s.gsr = vis.gsr_after(opf, operands)
        if forms[2] == "i":
            s.integers[2] = result
        elif forms[2] == "d":
            s.floats[4] = result
        else:
            s.floats[4] = s.floats[4] & ~MASK32 | result
        if name.startswith("edge") and name.endswith("cc"):
            s.ccr = _sum(one, two, 0, -1)[1]

    return effect
