"""Numbers in sentences, with as many digits as what is said about them needs."""

from __future__ import annotations

import math
from collections.abc import Iterable

DIGITS = 3
"""Significant digits that a number has where nothing asks for more."""

MOST_DIGITS = 17
"""Any float can be told from its neighbours by these."""

PLAIN_FROM, PLAIN_BELOW = 1e-4, 1e12
"""Numbers outside are written with an exponent: 7.95e13, 2.1e-20."""

LARGEST = "over 1e308"


def number(value: float | None, digits: int = DIGITS) -> str:
    """Return a number for a sentence, "-" where there is none.

    `digits`: Significant digits; a number of more digits before the point keeps them all.

    Examples
    --------
    >>> number(41.2518), number(12345.6), number(6.81e-40), number(-0.0)
    ('41.3', '12,346', '6.81e-40', '0')
    """
    if value is None:
        return "-"
    if math.isinf(value):
        return LARGEST if value > 0 else f"-{LARGEST}"
    if value == 0:
        return "0"
    if not PLAIN_FROM <= abs(value) < PLAIN_BELOW:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{_shortened(mantissa)}e{int(exponent)}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return _shortened(f"{value:,.{decimals}f}")


def _shortened(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def read(text: str) -> float:
    """Return the number that `number` wrote."""
    if text.endswith(LARGEST):
        return -math.inf if text.startswith("-") else math.inf
    return float(text.replace(",", ""))


def apart(one: float, two: float) -> tuple[str, str]:
    """Return two numbers with as many digits as show which is the greater one.

    Examples
    --------
    >>> apart(79.96, 80), apart(80, 80), apart(12, 80)
    (('79.96', '80'), ('80', '80'), ('12', '80'))
    """
    for digits in range(DIGITS, MOST_DIGITS + 1):
        texts = _exact(one, digits), _exact(two, digits)
        first, second = map(read, texts)
        if (first > second, first < second) == (one > two, one < two):
            return texts
    return repr(one), repr(two)


def _exact(value: float, digits: int) -> str:
    """Return a number with as many digits, or with fewer where these are all of it."""
    for fewer in range(DIGITS, digits):
        text = number(value, fewer)
        if read(text) == value:
            return text
    return number(value, digits)


def extremes(values: Iterable[float], unit: str = "", bound: float | None = None) -> str:
    """Return "1.2-3.4 %" of some numbers, "1.2 %" where they are all alike.

    `bound`: What the numbers are compared with: digits show on which side of it they are.
    """
    found = sorted(values)
    if not found:
        return "-"
    low, high = (
        number(each) if bound is None else apart(each, bound)[0] for each in (found[0], found[-1])
    )
    if low == high:
        return f"{low}{unit}"
    between = " to " if "e" in low + high or low.startswith("-") else "-"
    return f"{low}{between}{high}{unit}"
