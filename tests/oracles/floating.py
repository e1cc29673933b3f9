"""Floating-point operations of SPARC V9 on bits, written from the manual, in exact fractions.

Sources: The SPARC Architecture Manual, Version 9, 5.1.7 (%fsr), appendix A (FPop1, FPop2), B.2.2
(which NaN comes out) and B.5 (what is no integer); IEEE Std 754-1985. Whether a result is tiny is
judged after rounding, which V9 leaves to processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

from tests.oracles.instructions import (
    MASK32,
    MASK64,
    Effect,
    Instruction,
    holds,
    holds_floating,
    register_holds,
    signed,
)
from tests.support.instruction_bench import RS1, State, format3

INEXACT, DIVIDED, UNDERFLOW, OVERFLOW, INVALID = 1, 2, 4, 8, 16
NEAREST, ZERO, UP, DOWN = range(4)


@dataclass(frozen=True)
class Format:
    """A binary format: bits in all, and bits of the fraction."""

    bits: int
    fraction: int

    @property
    def top(self) -> int:
        """The exponent, as encoded, of infinities and NaNs."""
        return (1 << self.bits - 1 - self.fraction) - 1

    @property
    def bias(self) -> int:
        """What is added to an exponent to encode it."""
        return self.top >> 1

    @property
    def sign(self) -> int:
        """The sign's bit."""
        return 1 << self.bits - 1

    @property
    def infinity(self) -> int:
        """Positive infinity."""
        return self.top << self.fraction

    @property
    def quiet(self) -> int:
        """The bit that a quiet NaN has."""
        return 1 << self.fraction - 1


FORMATS = {"s": Format(32, 23), "d": Format(64, 52), "q": Format(128, 112)}


@dataclass(frozen=True)
class Result:
    """Bits, and the exceptions as in %fsr."""

    bits: int
    flags: int = 0


def is_nan(bits: int, form: Format) -> bool:
    """Whether bits are a NaN."""
    return bits & ~form.sign > form.infinity


def is_signalling(bits: int, form: Format) -> bool:
    """Whether bits are a signalling NaN."""
    return is_nan(bits, form) and not bits & form.quiet


def is_infinite(bits: int, form: Format) -> bool:
    """Whether bits are an infinity."""
    return bits & ~form.sign == form.infinity


def value_of(bits: int, form: Format) -> Fraction:
    """Return the number that bits are."""
    exponent = bits >> form.fraction & form.top
    fraction = bits & (1 << form.fraction) - 1
    if exponent:
        fraction |= 1 << form.fraction
    shift = max(exponent, 1) - form.bias - form.fraction
    number = Fraction(fraction) * Fraction(2) ** shift
    return -number if bits & form.sign else number


def _whole(number: Fraction, negative: bool, mode: int) -> int:
    # A magnitude rounded to an integer.
    low, rest = divmod(number.numerator, number.denominator)
    if not rest:
        return low
    twice = 2 * rest - number.denominator
    up = {
        NEAREST: twice > 0 or (twice == 0 and low & 1),
        ZERO: False,
        UP: not negative,
        DOWN: negative,
    }[mode]
    return low + int(up)


def rounded(number: Fraction, form: Format, mode: int, zero_sign: int = 0) -> Result:
    """Return the nearest number of a format; `zero_sign`: of an exact zero."""
    if number == 0:
        return Result(zero_sign)
    negative, magnitude = number < 0, abs(number)
    sign = form.sign if negative else 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    least = 1 - form.bias
    unit = Fraction(2) ** (max(exponent, least) - form.fraction)
    whole = _whole(magnitude / unit, negative, mode)
    inexact = whole * unit != magnitude
    # Tiny after rounding: as if the exponent had no limit.
    free = Fraction(2) ** (exponent - form.fraction)
    tiny = _whole(magnitude / free, negative, mode) * free < Fraction(2) ** least
    flags = (INEXACT | (UNDERFLOW if tiny else 0)) if inexact else 0
    bits = whole + ((max(exponent, least) - least) << form.fraction)
    if bits >= form.infinity:
        to_infinity = mode == NEAREST or mode == (DOWN if negative else UP)
        bits, flags = form.infinity - (not to_infinity), OVERFLOW | INEXACT
    return Result(sign | bits, flags)


def default_nan(form: Format) -> Result:
    """Return the NaN of an invalid operation: V9 B.2.2, sign clear and all else set."""
    return Result(form.sign - 1, INVALID)


def chosen_nan(one: int | None, two: int, form: Format) -> Result:
    """Return the NaN of an operation that has one among its operands (V9, table 27)."""
    flags = 0
    if is_signalling(two, form) or (one is not None and is_signalling(one, form)):
        flags = INVALID
    if one is None or is_signalling(two, form):
        return Result(two | form.quiet, flags)
    if is_signalling(one, form) or not is_nan(two, form):
        return Result(one | form.quiet, flags)
    return Result(two, flags)


Binary = Callable[[int, int, Format, int], Result]


def _add(a: int, b: int, form: Format, mode: int) -> Result:
    if is_infinite(a, form) or is_infinite(b, form):
        if is_infinite(a, form) and is_infinite(b, form) and a != b:
            return default_nan(form)
        return Result(a if is_infinite(a, form) else b)
    zero = a if a == b and not a & ~form.sign else form.sign * (mode == DOWN)
    return rounded(value_of(a, form) + value_of(b, form), form, mode, zero)


def _subtract(a: int, b: int, form: Format, mode: int) -> Result:
    return _add(a, b ^ form.sign, form, mode)


def _multiply(a: int, b: int, form: Format, mode: int) -> Result:
    sign = (a ^ b) & form.sign
    if is_infinite(a, form) or is_infinite(b, form):
        if not a & ~form.sign or not b & ~form.sign:
            return default_nan(form)
        return Result(sign | form.infinity)
    return rounded(value_of(a, form) * value_of(b, form), form, mode, sign)


def _divide(a: int, b: int, form: Format, mode: int) -> Result:
    sign = (a ^ b) & form.sign
    no_divisor, nothing = not b & ~form.sign, not a & ~form.sign
    if is_infinite(a, form):
        return default_nan(form) if is_infinite(b, form) else Result(sign | form.infinity)
    if is_infinite(b, form):
        return Result(sign)
    if no_divisor:
        return default_nan(form) if nothing else Result(sign | form.infinity, DIVIDED)
    return rounded(value_of(a, form) / value_of(b, form), form, mode, sign)


def operate(function: Binary, a: int, b: int, form: Format, mode: int) -> Result:
    """Do an operation of two operands."""
    if is_nan(a, form) or is_nan(b, form):
        return chosen_nan(a, b, form)
    return function(a, b, form, mode)


def square_root(bits: int, form: Format, mode: int) -> Result:
    """`fsqrt`."""
    if is_nan(bits, form):
        return chosen_nan(None, bits, form)
    if not bits & ~form.sign:
        return Result(bits)
    if bits & form.sign:
        return default_nan(form)
    if is_infinite(bits, form):
        return Result(bits)
    number = value_of(bits, form)
    scale = 1 << 2 * (form.fraction + form.bias + 8)
    scaled = number * scale
    assert scaled.denominator == 1
    root = isqrt(scaled.numerator << 16)
    exact = root * root == scaled.numerator << 16
    # Not exact: somewhat more than the root rounded down rounds as the root does.
    near = Fraction(2 * root + (not exact), 2) / isqrt(scale << 16)
    return rounded(near, form, mode)


def converted(bits: int, source: Format, target: Format, mode: int) -> Result:
    """`fstod` and its like."""
    if is_nan(bits, source):
        sign = target.sign if bits & source.sign else 0
        fraction = bits & (1 << source.fraction) - 1
        shift = target.fraction - source.fraction
        fraction = fraction << shift if shift >= 0 else fraction >> -shift
        flags = INVALID if is_signalling(bits, source) else 0
        return Result(sign | target.infinity | target.quiet | fraction, flags)
    sign = target.sign if bits & source.sign else 0
    if is_infinite(bits, source):
        return Result(sign | target.infinity)
    return rounded(value_of(bits, source), target, mode, sign)


def to_integer(bits: int, form: Format, size: int) -> Result:
    """`fstoi` and its like: towards zero; V9 B.5 for what has no integer."""
    limit = 1 << size - 1
    negative = bool(bits & form.sign)
    if not is_nan(bits, form) and not is_infinite(bits, form):
        number = value_of(bits, form)
        whole = int(number)
        if -limit <= whole < limit:
            return Result(whole & (1 << size) - 1, INEXACT if whole != number else 0)
    return Result(limit if negative else limit - 1, INVALID)


def relation(a: int, b: int, form: Format, signals: bool) -> Result:
    """`fcmp` and `fcmpe` (`signals`): 0 to 3, equal, less, greater, unordered."""
    if is_nan(a, form) or is_nan(b, form):
        signals = signals or is_signalling(a, form) or is_signalling(b, form)
        return Result(3, INVALID if signals else 0)

    def order(bits: int) -> int:
        magnitude = bits & ~form.sign
        return -magnitude if bits & form.sign else magnitude

    return Result(0 if order(a) == order(b) else 1 if order(a) < order(b) else 2)


# -- as instructions

_PLACES = {"s": (1, 4, 9), "d": (0, 4, 8), "q": (0, 4, 8)}


def _get(s: State, form: str, place: int) -> int:
    number = _PLACES[form][place]
    if form == "q":
        return s.floats[number // 2] << 64 | s.floats[number // 2 + 1]
    value = s.floats[number // 2]
    return value if form == "d" else value >> (0 if number % 2 else 32) & MASK32


def _set(s: State, form: str, value: int) -> None:
    if form == "q":
        s.floats[4:6] = value >> 64, value & MASK64
    elif form == "d":
        s.floats[4] = value
    else:
        s.floats[4] = s.floats[4] & ~MASK32 | value


def _note(s: State, flags: int) -> None:
    s.fsr = s.fsr & ~0x1C01F | flags | flags << 5


def _mode(s: State) -> int:
    return s.fsr >> 30 & 3


_Compute = Callable[[State], Result]


def _effect(target: str, compute: _Compute) -> Effect:
    def effect(s: State) -> None:
        result = compute(s)
        _set(s, target, result.bits)
        _note(s, result.flags)

    return effect


def _binary(name: str, opf: int, function: Binary) -> Iterator[Instruction]:
    for number, form in enumerate("sdq", 1):
        compute = lambda s, f=form: operate(  # noqa: E731
            function, _get(s, f, 0), _get(s, f, 1), FORMATS[f], _mode(s)
        )
        word = format3(2, 0x34, _PLACES[form][2], _PLACES[form][0], (opf | number) << 5 | 4)
        yield Instruction(name + form, word, _effect(form, compute), source=form)


def _widened(s: State, form: str, target: str) -> Result:
    # fsmuld, fdmulq: the NaN is chosen, then converted; a product of numbers is exact.
    a, b, small, large = _get(s, form, 0), _get(s, form, 1), FORMATS[form], FORMATS[target]
    if is_nan(a, small) or is_nan(b, small):
        chosen = chosen_nan(a, b, small)
        return Result(converted(chosen.bits, small, large, 0).bits, chosen.flags)
    wide = [converted(each, small, large, 0).bits for each in (a, b)]
    return _multiply(wide[0], wide[1], large, _mode(s))


def _unary(opf: int, name: str, source: str, target: str, compute: _Compute) -> Instruction:
    word = format3(2, 0x34, _PLACES[target][2], 0, opf << 5 | _PLACES[source][1])
    return Instruction(name, word, _effect(target, compute), source=source)


def arithmetic() -> Iterator[Instruction]:
    """FPop1: sums, products, quotients, roots."""
    yield from _binary("fadd", 0x40, _add)
    yield from _binary("fsub", 0x44, _subtract)
    yield from _binary("fmul", 0x48, _multiply)
    yield from _binary("fdiv", 0x4C, _divide)
    for name, opf, form, target in (("fsmuld", 0x69, "s", "d"), ("fdmulq", 0x6E, "d", "q")):
        word = format3(2, 0x34, 8, _PLACES[form][0], opf << 5 | 4)
        compute = lambda s, f=form, t=target: _widened(s, f, t)  # noqa: E731
        yield Instruction(name, word, _effect(target, compute), source=form)
    for number, form in enumerate("sdq", 0x29):
        root = lambda s, f=form: square_root(_get(s, f, 1), FORMATS[f], _mode(s))  # noqa: E731
        yield _unary(number, "fsqrt" + form, form, form, root)


def conversions() -> Iterator[Instruction]:
    """FPop1: between formats and integers."""
    between = {0xC9: "sd", 0xCD: "sq", 0xC6: "ds", 0xCE: "dq", 0xC7: "qs", 0xCB: "qd"}
    for opf, pair in between.items():
        source, target = pair[0], pair[1]
        change = lambda s, f=source, t=target: converted(  # noqa: E731
            _get(s, f, 1), FORMATS[f], FORMATS[t], _mode(s)
        )
        yield _unary(opf, f"f{source}to{target}", source, target, change)
    for number, form in enumerate("sdq", 1):
        for opf, size, target in ((0x80 | number, 64, "d"), (0xD0 | number, 32, "s")):
            whole = lambda s, f=form, n=size: to_integer(_get(s, f, 1), FORMATS[f], n)  # noqa: E731
            yield _unary(opf, f"f{form}to{'x' if size == 64 else 'i'}", form, target, whole)
    for opf, source, target in (
        *((0x84, "d", "s"), (0x88, "d", "d"), (0x8C, "d", "q")),
        *((0xC4, "s", "s"), (0xC8, "s", "d"), (0xCC, "s", "q")),
    ):
        number_of = lambda s, f=source, t=target: rounded(  # noqa: E731
            Fraction(signed(_get(s, f, 1), FORMATS[f].bits)), FORMATS[t], _mode(s)
        )
        name = f"f{'x' if source == 'd' else 'i'}to{target}"
        yield _unary(opf, name, source, target, number_of)


def signs() -> Iterator[Instruction]:
    """Moves, negations and absolute values: of NaNs, too, only the sign changes."""
    changes: Sequence[tuple[str, int, Callable[[int, Format], int]]] = (
        ("fmov", 0x00, lambda bits, form: bits),
        ("fneg", 0x04, lambda bits, form: bits ^ form.sign),
        ("fabs", 0x08, lambda bits, form: bits & ~form.sign),
    )
    for name, opf, change in changes:
        for number, form in enumerate("sdq", 1):
            compute = lambda s, f=form, c=change: Result(c(_get(s, f, 1), FORMATS[f]))  # noqa: E731
            yield _unary(opf | number, name + form, form, form, compute)


def compares() -> Iterator[Instruction]:
    """FPop2: comparisons, into each of the four condition codes."""
    for number, form in enumerate("sdq", 1):
        for opf, signals in ((0x50 | number, False), (0x54 | number, True)):
            for fcc in range(4):
                word = format3(2, 0x35, fcc, _PLACES[form][0], opf << 5 | 4)
                name = f"fcmp{'e' * signals}{form} %fcc{fcc}"
                yield Instruction(name, word, _comparing(form, signals, fcc), source=form)


def _comparing(form: str, signals: bool, fcc: int) -> Effect:
    place = 10 if fcc == 0 else 30 + 2 * fcc

    def effect(s: State) -> None:
        result = relation(_get(s, form, 0), _get(s, form, 1), FORMATS[form], signals)
        _note(s, result.flags)
        s.fsr = s.fsr & ~(3 << place) | result.bits << place

    return effect


def _moving(form: str, test: Callable[[State], bool]) -> Effect:
    def effect(s: State) -> None:
        if test(s):
            _set(s, form, _get(s, form, 1))
        _note(s, 0)  # it is an FPop, whether it moves or not

    return effect


def conditional_moves() -> Iterator[Instruction]:
    """FPop2: `fmovcc` of both condition codes and of `%fcc0` to `%fcc3`, and `fmovr`."""
    for number, form in enumerate("sdq", 1):
        rd = _PLACES[form][2]
        for condition in range(16):
            for fcc in range(4):
                at = 10 if fcc == 0 else 30 + 2 * fcc
                word = format3(2, 0x35, rd, condition, (fcc << 6 | number) << 5 | 4)
                test = lambda s, c=condition, p=at: holds_floating(c, s.fsr >> p & 3)  # noqa: E731
                name = f"fmov{form}{condition} %fcc{fcc}"
                yield Instruction(name, word, _moving(form, test), source=form)
            for select, at in ((4, 0), (6, 4)):
                word = format3(2, 0x35, rd, condition, (select << 6 | number) << 5 | 4)
                test = lambda s, c=condition, p=at: holds(c, s.ccr >> p & 15)  # noqa: E731
                name = f"fmov{form}{condition} {'xcc' if at else 'icc'}"
                yield Instruction(name, word, _moving(form, test), source=form)
        for condition in (1, 2, 3, 5, 6, 7):
            word = format3(2, 0x35, rd, RS1, (condition << 5 | 4 + number) << 5 | 4)
            of_register: Any = lambda s, c=condition: register_holds(c, s.integers[0])  # noqa: E731
            name = f"fmovr{form}{condition}"
            yield Instruction(name, word, _moving(form, of_register), source=form)
