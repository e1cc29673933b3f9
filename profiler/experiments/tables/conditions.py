"""Conditions of claims: a measured number, the bound that it must keep, whose bound it is.

A verdict, the figure and the rule printed with it and the reason of a failure all come from the
same `Condition`, so that none can contradict another. Numbers in these sentences have as many
digits as what is said about them needs (`number`, `apart`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

# -- numbers in sentences -------------------------------------------------------------------------

DIGITS = 3  # Significant digits that a number has where nothing asks for more
MOST_DIGITS = 17  # Any float can be told from its neighbours by these.
PLAIN_FROM, PLAIN_BELOW = 1e-4, 1e12  # Others are written with an exponent: 7.95e13, 2.1e-20.
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
    texts = (number(value, fewer) for fewer in range(DIGITS, digits))
    return next((text for text in texts if read(text) == value), number(value, digits))


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


# -- conditions -----------------------------------------------------------------------------------

SHOWN_MEMBERS = 3  # Rows that decide a failure and are named by its reason


class Relation(StrEnum):
    """How a number must stand to its bound, as a rule says it."""

    ABOVE = "above"
    AT_LEAST = "at least"
    BELOW = "below"
    AT_MOST = "at most"

    def holds(self, value: float, bound: float) -> bool:
        """Whether `value` keeps the bound."""
        return _COMPARED[self](value, bound)

    @property
    def wants_more(self) -> bool:
        """Whether greater numbers keep the bound."""
        return self in (Relation.ABOVE, Relation.AT_LEAST)


_COMPARED: dict[Relation, Callable[[float, float], bool]] = {
    Relation.ABOVE: operator.gt,
    Relation.AT_LEAST: operator.ge,
    Relation.BELOW: operator.lt,
    Relation.AT_MOST: operator.le,
}


class Whose(StrEnum):
    """Who says what a number must keep."""

    # Its own number, or its words: "all", "most", more of one than of another
    PAPER = "the paper's"
    OURS = "our"  # What its words mean is our choice: how much "little" is


class Bound(Struct, frozen=True):
    """What a number must keep."""

    relation: Relation
    value: float

    def holds(self, value: float) -> bool:
        """Whether `value` keeps it."""
        return self.relation.holds(value, self.value)

    def miss(self, value: float) -> float:
        """Return how far `value` is beyond it; negative on the right side of it."""
        return self.value - value if self.relation.wants_more else value - self.value


def deciding(relation: Relation | None, ends: Sequence[float], value: float) -> Bound:
    """Return the bound that decides for `value`: of a range (None) the nearer end, which is in it.

    `ends`: The bound, or both ends of the range.
    """
    if relation is not None:
        return Bound(relation, ends[0])
    low, high = ends
    if value - low < high - value:
        return Bound(Relation.AT_LEAST, low)
    return Bound(Relation.AT_MOST, high)


class Member(Struct, frozen=True):
    """A row that a condition is made of."""

    name: str  # The program, or the program and its routine
    text: str  # Its number, with further ones that belong to it
    keeps: bool  # Whether it is by itself as the condition wants it
    miss: float  # How far it is from that; orders the members that a reason names.
    program: str = ""  # Its program, where `name` says more than that

    def __str__(self) -> str:
        return f"{self.name} {self.text}"


def member(
    name: str, value: float, bound: Bound, unit: str = "", more: str = "", program: str = ""
) -> Member:
    """Return a row's part in a condition; `more`: further numbers of it."""
    shown = f"{apart(value, bound.value)[0]}{unit}{f' ({more})' if more else ''}"
    return Member(name, shown, bound.holds(value), bound.miss(value), program)


class Condition(Struct, frozen=True):
    """One comparison that must hold for a claim to hold."""

    what: str  # What was measured: "mean overhead".
    value: float
    bound: Bound
    unit: str = ""  # What follows the numbers: " %", " instructions", "".
    whose: Whose = Whose.OURS  # Whose the bound is
    # What the bound is, where it was measured as well: "FP". "": it is a number.
    against: str = ""
    remark: str = ""  # What else the figure says, in brackets
    scope: str = ""  # What else the rule says: "in each".
    members: tuple[Member, ...] = ()  # The rows behind the number
    behind: int | None = None  # Programs behind the number; None: those of `members`
    between: tuple[float, float] | None = None  # The range that `bound` is the nearer end of
    counts: bool = False  # Whether the number is how many members are as the claim says

    @property
    def programs(self) -> int:
        """How many programs stand behind the number."""
        if self.behind is not None:
            return self.behind
        return len({each.program or each.name for each in self.members})

    @property
    def distance(self) -> float:
        """How far the number is from its bound, whichever side it is on."""
        return abs(self.value - self.bound.value)

    @property
    def holds(self) -> bool:
        """Whether the number keeps its bound."""
        return self.bound.holds(self.value)

    @property
    def texts(self) -> tuple[str, str]:
        """The number and the bound, as printed."""
        return apart(self.value, self.bound.value)

    @property
    def figure(self) -> str:
        """What was measured."""
        value, bound = self.texts
        text = f"{self.what} {value}{self.unit}"
        if self.counts:
            text = f"{self.value:.0f} of {len(self.members)} {self.what}"
        elif self.against:
            text += f", {self.against} {bound}{self.unit}"
        return f"{text} ({self.remark})" if self.remark else text

    @property
    def rule(self) -> str:
        """What it must keep."""
        if self.against:
            return f"{self.what} {self.bound.relation.value} {self.against}"
        if self.between is not None:
            return f"from {' to '.join(map(number, self.between))}{self.unit}"
        if self.counts:
            everyone = self.bound.value == len(self.members)
            return "all" if everyone else f"at least {self.bound.value:.0f}"
        scope = f" {self.scope}" if self.scope else ""
        return f"{self.bound.relation.value} {self.texts[1]}{self.unit}{scope}"

    @property
    def named_rule(self) -> str:
        """The rule with what it is about, where a claim has several."""
        if self.counts:
            return f"{self.rule} of the {len(self.members)} {self.what}"
        return self.rule if self.against else f"{self.what} {self.rule}"

    @property
    def sourced_rule(self) -> str:
        """The rule's source, and by how much it is kept or missed."""
        done = "kept" if self.holds else "missed"
        far = "exactly" if self.distance == 0 else f"by {self._far}"
        return f"{self.whose.value} bound, {done} {far}"

    @property
    def _far(self) -> str:
        """The distance, as printed."""
        if self.counts:
            return f"{self.distance:.0f} of {len(self.members)}"
        unit = " percentage points" if self.unit.strip() == "%" else self.unit
        return f"{number(self.distance)}{unit}"

    @property
    def reason(self) -> str:
        """By how much the bound is missed, and which rows are on the wrong side of it."""
        bound = self.against or "the bound"
        missed = f"{self.what} misses {bound} by {self._far}"
        if self.counts:
            missed = f"{self.bound.value - self.value:.0f} too few"
        elif self.value == self.bound.value:
            missed = f"{self.what} is {bound} exactly"
        wrong = [each for each in self.members if not each.keeps]
        if not wrong:
            return missed
        furthest = "" if len(wrong) <= SHOWN_MEMBERS else ", furthest"
        shown = sorted(wrong, key=lambda each: -each.miss)[:SHOWN_MEMBERS]
        rows = "; ".join(map(str, shown))
        return (
            f"{missed}; on the wrong side are {len(wrong)} of {len(self.members)}{furthest}: {rows}"
        )


def count_of(
    members: Iterable[Member], what: str, least: int, whose: Whose = Whose.PAPER
) -> Condition | None:
    """Require that at least `least` of some rows are as the claim says; None: there are no rows.

    `whose`: Who says how many, and what one of them must be.
    """
    found = tuple(members)
    if not found:
        return None
    kept, bound = sum(each.keeps for each in found), Bound(Relation.AT_LEAST, least)
    return Condition(what, kept, bound, whose=whose, members=found, counts=True)
