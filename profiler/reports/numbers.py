"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

LONGEST_PLAIN = 10**15
LONGEST_COUNT = 10**18
"""A smaller one takes at most 23 cells, so that no table breaks it (`layout.TEXT_FLOOR`)."""

SHORT_FROM = 10**6
"""In a column of short forms, these numbers have them; smaller ones take no more cells whole."""

LONGEST_IDENTIFIER = 10**20
SHOWN_DIGITS = 3


def group_digits(number: int) -> str:
    """Return `number` with its digits in groups; very large ones (path counts) in short form."""
    if abs(number) < LONGEST_PLAIN:
        return f"{number:,}"
    return scientific(number)


def digits(number: int) -> str:
    """Return a count, every digit of it unless nobody could read it."""
    return f"{number:,}" if abs(number) < LONGEST_COUNT else scientific(number)


def whole(number: int, short: bool) -> str:
    """Return a number of a column, which has short forms or all digits of all its numbers."""
    return scientific(number) if short and abs(number) >= SHORT_FROM else digits(number)


def needs_short(numbers: Iterable[int]) -> bool:
    """Whether a column of these numbers has short forms: one has more digits than can be read."""
    return any(abs(number) >= LONGEST_COUNT for number in numbers)


def column(numbers: Sequence[int]) -> list[str]:
    """Return the numbers of a column in one notation, so that the larger one looks larger.

    Examples
    --------
    >>> column([8_660_000_000_000_000, 418_000_000_000_000])
    ['8,660,000,000,000,000', '418,000,000,000,000']
    >>> column([10**20, 418_000_000, 29])
    ['1.00e20', '4.18e8', '29']
    """
    short = needs_short(numbers)
    return [whole(number, short) for number in numbers]


def counted(number: int, noun: str) -> str:
    """Return a count as `digits` does, and its noun, in the plural where that is right."""
    return f"{digits(number)} {noun}{'' if number == 1 else 's'}"


def scientific(number: int) -> str:
    """Return an integer of any size as "1.23e45", rounded down."""
    exponent = int((abs(number).bit_length() - 1) * 0.30102999566398120)
    leading = abs(number) // 10 ** (exponent - SHOWN_DIGITS + 1)
    while leading >= 10**SHOWN_DIGITS:
        leading //= 10
        exponent += 1
    digits = str(leading)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:]}e{exponent}"


def identifier(number: int | None) -> str:
    """Return the number that names something, whole unless nobody could read it; "-" for none."""
    if number is None:
        return "-"
    return str(number) if abs(number) < LONGEST_IDENTIFIER else scientific(number)


def percent(part: int, whole: int) -> str:
    """Return `part` of `whole` in percent, "-" where there is no whole."""
    if whole == 0:
        return "-"
    return f"{100 * part / whole:.2f} %"


def share(part: Fraction) -> str:
    """Return an exact share in percent, "100.00 %" only where it is all."""
    hundredths = round(part * 10_000)
    if hundredths == 10_000 and part < 1:
        hundredths -= 1
    return f"{hundredths / 100:.2f} %"


def plural(number: int, noun: str) -> str:
    """Return the number and its noun, in the plural where that is right."""
    return f"{group_digits(number)} {noun}{'' if number == 1 else 's'}"
