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
from functools import partial

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

    PAPER = (
        "the paper's"  # Its own number, or its words: "all", "most", more of one than of another
    )
    OURS = "our"  # What its words mean is our choice: how much "little" is


class Bound(Struct, frozen=True):
    """What a number must keep. `unit`: What follows the number: " %", " instructions", ""."""

    relation: Relation
    value: float
    unit: str = ""
    whose: Whose = Whose.OURS

    def holds(self, value: float) -> bool:
        """Whether `value` keeps it."""
        return self.relation.holds(value, self.value)

    def miss(self, value: float) -> float:
        """Return how far `value` is beyond it; negative on the right side of it."""
        return self.value - value if self.relation.wants_more else value - self.value

    def at(self, value: float) -> Bound:
        """Return the bound that decides for `value`."""
        return self


class Between(Struct, frozen=True):
    """A range that a number must lie in, its ends included."""

    low: float
    high: float
    unit: str = ""
    whose: Whose = Whose.OURS

    def at(self, value: float) -> Bound:
        """Return the bound that decides for `value`: the nearer end."""
        if value - self.low < self.high - value:
            return Bound(Relation.AT_LEAST, self.low, self.unit, self.whose)
        return Bound(Relation.AT_MOST, self.high, self.unit, self.whose)


above = partial(Bound, Relation.ABOVE)
at_least = partial(Bound, Relation.AT_LEAST)
below = partial(Bound, Relation.BELOW)
at_most = partial(Bound, Relation.AT_MOST)


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
    name: str, value: float, limit: Bound | Between, more: str = "", program: str = ""
) -> Member:
    """Return a row's part in a condition; `more`: further numbers of it."""
    bound = limit.at(value)
    shown = f"{apart(value, bound.value)[0]}{bound.unit}{f' ({more})' if more else ''}"
    return Member(name, shown, bound.holds(value), bound.miss(value), program)


class Condition(Struct, frozen=True):
    """One comparison that must hold for a claim to hold."""

    what: str  # What was measured: "mean overhead".
    value: float
    bound: Bound
    # What the bound is, where it was measured as well: "FP". "": it is a number.
    against: str = ""
    remark: str = ""  # What else the figure says, in brackets
    scope: str = ""  # What else the rule says: "in each".
    members: tuple[Member, ...] = ()  # The rows behind the number
    behind: int | None = None  # Programs behind the number; None: those of `members`
    between: Between | None = None  # What `bound` is the nearer end of, if it is one

    @property
    def programs(self) -> int:
        """How many programs stand behind the number."""
        if self.behind is not None:
            return self.behind
        return len({each.program or each.name for each in self.members})

    @property
    def whose(self) -> Whose:
        """Whose the bound is."""
        return self.bound.whose

    @property
    def distance(self) -> float:
        """How far the number is from its bound, whichever side it is on."""
        return abs(self.value - self.bound.value)

    @property
    def sourced_rule(self) -> str:
        """The rule's source, and by how much it is kept or missed."""
        done = "kept" if self.holds else "missed"
        far = "exactly" if self.distance == 0 else f"by {self.far}"
        return f"{self.whose.value} bound, {done} {far}"

    @property
    def far(self) -> str:
        """The distance, as printed."""
        unit = " percentage points" if self.bound.unit.strip() == "%" else self.bound.unit
        return f"{number(self.distance)}{unit}"

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
        text = f"{self.what} {value}{self.bound.unit}"
        if self.against:
            text += f", {self.against} {bound}{self.bound.unit}"
        return f"{text} ({self.remark})" if self.remark else text

    @property
    def rule(self) -> str:
        """What it must keep."""
        if self.against:
            return f"{self.what} {self.bound.relation.value} {self.against}"
        if self.between is not None:
            low, high = number(self.between.low), number(self.between.high)
            return f"from {low} to {high}{self.bound.unit}"
        scope = f" {self.scope}" if self.scope else ""
        return f"{self.bound.relation.value} {self.texts[1]}{self.bound.unit}{scope}"

    @property
    def named_rule(self) -> str:
        """The rule with what it is about, where a claim has several."""
        return self.rule if self.against else f"{self.what} {self.rule}"

    @property
    def reason(self) -> str:
        """By how much the bound is missed, and which rows are on the wrong side of it."""
        return "; ".join(part for part in (self._distance(), deciding(self.members)) if part)

    def _distance(self) -> str:
        if self.value == self.bound.value:
            return f"{self.what} is {self.against or 'the bound'} exactly"
        return f"{self.what} misses {self.against or 'the bound'} by {self.far}"


class CountCondition(Condition, frozen=True):
    """So many rows at least must be as the claim says: `value` of all `members`."""

    @property
    def figure(self) -> str:
        """How many are as they should be."""
        text = f"{self.value:.0f} of {len(self.members)} {self.what}"
        return f"{text} ({self.remark})" if self.remark else text

    @property
    def rule(self) -> str:
        """How many must be."""
        if self.bound.value == len(self.members):
            return "all"
        return f"at least {self.bound.value:.0f}"

    @property
    def named_rule(self) -> str:
        """The rule, and of what."""
        return f"{self.rule} of the {len(self.members)} {self.what}"

    @property
    def far(self) -> str:
        """By how many rows it is kept or missed."""
        return f"{self.distance:.0f} of {len(self.members)}"

    def _distance(self) -> str:
        return f"{self.bound.value - self.value:.0f} too few"


def count_of(
    members: Sequence[Member],
    what: str,
    least: int,
    remark: str = "",
    whose: Whose = Whose.PAPER,
) -> CountCondition | None:
    """Require that at least `least` of some rows are as the claim says; None: there are no rows.

    `whose`: Who says how many, and what one of them must be.
    """
    if not members:
        return None
    kept = sum(each.keeps for each in members)
    bound = Bound(Relation.AT_LEAST, least, whose=whose)
    return CountCondition(what, kept, bound, remark=remark, members=tuple(members))


def deciding(members: Iterable[Member]) -> str:
    """Return the rows on the wrong side, those furthest from the right one first."""
    found = list(members)
    wrong = sorted((each for each in found if not each.keeps), key=lambda each: -each.miss)
    if not wrong:
        return ""
    few = len(wrong) <= SHOWN_MEMBERS
    start = "" if few else ", furthest"
    shown = "; ".join(map(str, wrong[:SHOWN_MEMBERS]))
    return f"on the wrong side are {len(wrong)} of {len(found)}{start}: {shown}"
